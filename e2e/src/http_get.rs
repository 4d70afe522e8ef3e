//! A GET over HTTP/1.0.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const BOUND: Duration = Duration::from_secs(10);

/// Code and body of the answer of a server, `HOST:PORT`.
///
/// # Errors
/// When nobody serves there, or there is no whole answer in ten seconds.
pub async fn http_get(address: &str, path: &str) -> Result<(u16, String)> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = tokio::time::timeout(BOUND, exchange).await.context("no answer in time")??;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status code")?;
    Ok((code, body.to_owned()))
}
