//! What a livenessprobe holds after very many probes, with the driver up, gone, and dead behind a stale socket.
//!
//! `cargo run --release -p livenessprobe --example many_probes -- PROGRAM [PROBES]`: starts PROGRAM, asks it for its health PROBES times
//! (a million unless given), four of five with the driver up, and prints its memory after each tenth.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a measurement")]
#![allow(clippy::disallowed_methods, reason = "its tasks end with its runtime")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use csi_proto::csi::v1::identity_server::{Identity, IdentityServer};
use csi_proto::csi::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    ProbeRequest, ProbeResponse,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

/// Short, because every probe of an absent driver takes as long.
const PROBE_TIMEOUT: &str = "--probe-timeout=2ms";
/// Requests on one connection before the next is opened.
const PER_CONNECTION: usize = 100;

struct Driver;

#[tonic::async_trait]
impl Identity for Driver {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse { name: "many-probes".into(), ..GetPluginInfoResponse::default() }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(GetPluginCapabilitiesResponse::default()))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse::default()))
    }
}

fn serve(socket: &Path) -> JoinHandle<()> {
    let _ = std::fs::remove_file(socket);
    let incoming = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
    tokio::spawn(async move {
        tonic::transport::Server::builder().serve_with_incoming(IdentityServer::new(Driver), incoming).await.unwrap();
    })
}

/// One client that counts the codes of its answers.
struct Client {
    address: SocketAddr,
    codes: BTreeMap<String, usize>,
}

impl Client {
    async fn ask(&mut self, mut number: usize) {
        while number > 0 {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let batch = number.min(PER_CONNECTION);
            for _ in 0..batch {
                stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
                let code = answer(&mut stream).await;
                *self.codes.entry(code).or_default() += 1;
            }
            number -= batch;
        }
    }
}

async fn answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    loop {
        assert_ne!(stream.read_buf(&mut text).await.unwrap(), 0, "closed after {}", String::from_utf8_lossy(&text));
        let seen = String::from_utf8_lossy(&text);
        let Some((head, body)) = seen.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse().unwrap() {
            return head.split(' ').nth(1).unwrap().to_owned();
        }
    }
}

fn figures(program: &Child) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
    let fields = ["VmRSS", "RssAnon", "VmHWM", "Threads"];
    let line = |field| status.lines().find(|line| line.starts_with(field)).unwrap().replace([' ', '\t'], "");
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", program.id())).unwrap().count();
    format!("{} fds:{descriptors}", fields.map(line).join(" "))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("PROGRAM, the path of a livenessprobe");
    let probes: usize = arguments.next().map_or(1_000_000, |number| number.parse().expect("PROBES, a number"));
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut driver = serve(&socket);
    let mut program = Command::new(path)
        .args([&format!("--http-endpoint={address}"), &format!("--csi-address={}", socket.display()), PROBE_TIMEOUT])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while TcpStream::connect(address).await.is_err() {
        sleep(Duration::from_millis(5)).await;
    }
    sleep(Duration::from_secs(1)).await;
    println!("{:>8} {}", 0, figures(&program));
    let (started, mut client) = (Instant::now(), Client { address, codes: BTreeMap::new() });
    for tenth in 1..=10 {
        client.ask(probes / 10 * 4 / 5).await;
        driver.abort();
        let _ = driver.await;
        if tenth % 2 == 0 {
            std::fs::remove_file(&socket).unwrap();
        }
        client.ask(probes / 10 / 5).await;
        driver = serve(&socket);
        println!("{:>8} {} {:?} {:?}", probes / 10 * tenth, figures(&program), client.codes, started.elapsed());
    }
    program.kill().unwrap();
    program.wait().unwrap();
}
