//! Connections that come and go leave nothing behind. A test program of its own: it looks at the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test says so by panicking")]
#![allow(clippy::disallowed_methods, reason = "what a test spawns ends with its runtime")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use csi_proto::csi::v1::identity_server::{Identity, IdentityServer};
use csi_proto::csi::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    ProbeRequest, ProbeResponse,
};
use livenessprobe::{LivenessArgs, Program};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

/// Requests before the first look, of each kind: whatever grows only once has grown.
const WARM_UP: usize = 500;
/// Requests between the looks, of each kind.
const ROUNDS: usize = 5_000;
/// Some dozen bytes a probe would already show.
const ALLOWED_GROWTH: u64 = 128 * 1024;

/// A driver that keeps no account of its calls.
struct Forgetful;

#[tonic::async_trait]
impl Identity for Forgetful {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse { name: "forgetful".into(), ..GetPluginInfoResponse::default() }))
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
    let listener = UnixListener::bind(socket).unwrap();
    tokio::spawn(async move {
        let (service, incoming) = (IdentityServer::new(Forgetful), UnixListenerStream::new(listener));
        tonic::transport::Server::builder().serve_with_incoming(service, incoming).await.unwrap();
    })
}

async fn healthz(address: SocketAddr) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// What the process holds that a leak would add to: bytes of anonymous memory, descriptors, tasks.
fn held() -> (u64, usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let kib: u64 = kib.trim().trim_end_matches(" kB").parse().unwrap();
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    (kib * 1024, descriptors, tokio::runtime::Handle::current().metrics().num_alive_tasks())
}

#[tokio::test(start_paused = true)]
async fn f8_ten_thousand_probes_with_the_driver_up_and_down_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let argv =
        ["x", &format!("--csi-address={}", socket.display()), "--http-endpoint=127.0.0.1:0", "--probe-timeout=100ms"];
    let args: LivenessArgs = sidecar::parse_go_flags(argv.map(Into::into)).unwrap();
    let program = Program::bind(args.config().unwrap()).await.unwrap().unwrap();
    let address = program.health_address();
    let stop = CancellationToken::new();
    let program = tokio::spawn(program.serve(stop.clone()));
    let mut looks = Vec::new();
    for number in [WARM_UP, ROUNDS] {
        let driver = serve(&socket);
        // The pause between two questions for the name is the longest wait of all.
        tokio::time::sleep(Duration::from_secs(2)).await;
        for _ in 0..number {
            assert_eq!(healthz(address).await, 200);
        }
        driver.abort();
        let _ = driver.await;
        std::fs::remove_file(&socket).unwrap();
        for _ in 0..number {
            assert_eq!(healthz(address).await, 500);
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        looks.push(held());
    }
    let [(bytes, descriptors, tasks), (bytes_later, descriptors_later, tasks_later)] = looks[..] else { panic!() };
    eprintln!("anonymous bytes {bytes} -> {bytes_later}");
    assert_eq!((descriptors_later, tasks_later), (descriptors, tasks));
    assert!(bytes_later <= bytes + ALLOWED_GROWTH, "grew from {bytes} to {bytes_later} bytes");
    stop.cancel();
    program.await.unwrap().unwrap();
}
