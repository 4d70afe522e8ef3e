#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::Full;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::super::tls::pair;
use super::super::tls::tests::{authority, issue, provider, trusting};
use super::super::{ApiServer, RequestTimeout, client};
use super::*;

/// Of requests that are never answered.
const SILENT: &str = "/silent";
/// Of requests whose sender is not known.
const UNKNOWN: &str = "/unknown";

/// An API server that offers HTTP/2. Dropped, it is gone.
struct Server {
    config: kube::Config,
    /// How many it has accepted.
    connections: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Server {
    async fn start() -> Self {
        provider();
        let authority = authority();
        let (certificate, key) = issue(&authority, "127.0.0.1");
        let (chain, key) = pair(certificate.as_bytes(), key.as_bytes()).unwrap();
        let mut tls = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec()];

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let config = trusting(&url.parse().unwrap(), &authority);
        let connections = Arc::<AtomicUsize>::default();
        let accepting = accept(listener, TlsAcceptor::from(Arc::new(tls)), connections.clone());
        Self { config, connections, _serving: JoinSet::from_iter([accepting]) }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, connections: Arc<AtomicUsize>) {
    let mut serving = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.fetch_add(1, Ordering::SeqCst);
        let accepted = acceptor.accept(stream);
        serving.spawn(async move {
            let Ok(stream) = accepted.await else { return };
            let service = service_fn(async |request: Request<Incoming>| {
                if request.uri().path() == SILENT {
                    std::future::pending::<()>().await;
                }
                let mut answer = Response::new(Full::new(bytes::Bytes::from(format!("{:?}", request.version()))));
                if request.uri().path() == UNKNOWN {
                    *answer.status_mut() = StatusCode::UNAUTHORIZED;
                }
                Ok::<_, std::convert::Infallible>(answer)
            });
            // The client leaves as it likes.
            let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn get(client: &kube::Client, path: &str) -> Result<String, kube::Error> {
    client.request_text(Request::get(path).body(Vec::new()).unwrap()).await
}

#[tokio::test]
async fn requests_share_a_connection_where_the_server_speaks_http_2() {
    let server = Server::start().await;
    let client = client(&server.config, Duration::from_secs(30)).unwrap();
    assert_eq!(get(&client, "/").await.unwrap(), "HTTP/2.0");
    let silent = (0..20).map(|_| get(&client, SILENT));
    let silent = futures_util::future::join_all(silent);
    tokio::select! {
        _ = silent => panic!("never answered"),
        answer = get(&client, "/") => assert_eq!(answer.unwrap(), "HTTP/2.0"),
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn after_a_request_without_an_answer_the_next_has_a_new_connection() {
    let server = Server::start().await;
    let client = client(&server.config, Duration::from_secs(2)).unwrap();
    assert_eq!(get(&client, "/").await.unwrap(), "HTTP/2.0");
    let error = get(&client, SILENT).await.unwrap_err();
    let kube::Error::Service(cause) = &error else { panic!("{error:?}") };
    assert!(cause.is::<RequestTimeout>(), "{error:?}");
    assert_eq!(server.connections(), 1);
    assert_eq!(get(&client, "/").await.unwrap(), "HTTP/2.0");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_sender_who_is_not_known_any_more_introduces_itself_again() {
    let server = Server::start().await;
    let client = client(&server.config, Duration::from_secs(30)).unwrap();
    assert_eq!(get(&client, "/").await.unwrap(), "HTTP/2.0");
    get(&client, UNKNOWN).await.unwrap_err();
    assert_eq!(server.connections(), 1);
    assert_eq!(get(&client, "/").await.unwrap(), "HTTP/2.0");
    assert_eq!(server.connections(), 2);
}

/// As at the begin of a term after a partition in which nobody was told that the connection is dead.
#[tokio::test]
async fn k7_after_the_connections_were_left_no_request_waits_for_an_old_one() {
    let server = Server::start().await;
    let api_server = ApiServer::of(&server.config, Duration::from_secs(30)).unwrap();
    let client = api_server.client();
    assert_eq!(get(&client, "/").await.unwrap(), "HTTP/2.0");
    let mut under_way = std::pin::pin!(get(&client, SILENT));
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut under_way).await.is_err());
    api_server.leave_connections();
    assert_eq!(server.connections(), 1);
    assert_eq!(get(&client, "/").await.unwrap(), "HTTP/2.0");
    assert_eq!(server.connections(), 2);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut under_way).await.is_err(), "it goes on");
}

/// A proxy for one connection; `asked` is the head of the request for its tunnel.
async fn tunnel(listener: TcpListener, asked: &Mutex<String>) {
    let (mut client, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let server = head.split_whitespace().nth(1).unwrap();
    let mut server = TcpStream::connect(server).await.unwrap();
    *asked.lock() = head;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    tokio::io::copy_bidirectional(&mut client, &mut server).await.unwrap();
}

#[tokio::test]
async fn o17_requests_go_through_the_proxy_of_the_configuration() {
    let mut server = Server::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://me:secret@{}", listener.local_addr().unwrap());
    server.config.proxy_url = Some(proxy.parse().unwrap());
    let client = client(&server.config, Duration::from_secs(30)).unwrap();
    let asked = Mutex::default();
    tokio::select! {
        answer = get(&client, "/") => assert_eq!(answer.unwrap(), "HTTP/2.0"),
        () = tunnel(listener, &asked) => panic!("the tunnel has ended"),
    }
    let (name, asked) = (server.config.cluster_url.authority().unwrap(), asked.lock());
    assert!(asked.starts_with(&format!("CONNECT {name} HTTP/1.1\r\n")), "{asked}");
    assert!(asked.to_lowercase().contains("proxy-authorization: basic bwu6c2vjcmv0\r\n"), "{asked}");
}

#[tokio::test]
async fn o17_a_proxy_that_cannot_be_used_is_named_without_its_password() {
    for (url, proxy) in [
        ("https://10.0.0.1", "https://me:secret@proxy.example:3128"),
        ("https://10.0.0.1", "socks5://me:secret@proxy.example:1080"),
        ("http://10.0.0.1", "http://me:secret@proxy.example:3128"),
    ] {
        let mut config = kube::Config::new(url.parse().unwrap());
        config.proxy_url = Some(proxy.parse().unwrap());
        let error = client(&config, Duration::from_secs(30)).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("the proxy proxy.example: ") && !error.contains("secret"), "{error}");
    }
}
