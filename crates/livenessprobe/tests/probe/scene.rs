//! The program inside the test, and what an HTTP client sees of it.

use std::net::SocketAddr;
use std::time::Duration;

use csi_proto::csi::v1::{ProbeRequest, ProbeResponse};
use fake_driver::{FakeDriver, Rpc, Step};
use livenessprobe::{Config, LivenessArgs, Program};
use sidecar::Exit;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// More than anything here takes, on the paused clock.
pub(crate) const BOUND: Duration = Duration::from_mins(1);

/// The configuration these flags give.
pub(crate) fn config(flags: &[&str]) -> Result<Config, Exit> {
    let argv = std::iter::once("livenessprobe").chain(flags.iter().copied()).map(Into::into);
    sidecar::parse_go_flags::<LivenessArgs>(argv)?.config()
}

pub(crate) struct Scene {
    pub(crate) driver: FakeDriver,
    pub(crate) health: SocketAddr,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) program: JoinHandle<Result<(), Exit>>,
    pub(crate) stop: CancellationToken,
}

impl Scene {
    /// The program with a driver that has told its name.
    pub(crate) async fn ready(flags: &[&str]) -> Self {
        let scene = Self::with(FakeDriver::start().await, flags).await;
        scene.driver.wait_for_ended_calls(Rpc::GetPluginInfo, 1).await;
        scene
    }

    /// The program on free ports, with this driver and these flags.
    pub(crate) async fn with(driver: FakeDriver, flags: &[&str]) -> Self {
        let address = format!("--csi-address={}", driver.address());
        let health = "--health-port=0";
        let own_endpoint = flags.iter().any(|flag| flag.contains("http-endpoint"));
        let mut all = vec![address.as_str()];
        if !own_endpoint {
            all.push(health);
        }
        all.extend(flags);
        let program = Program::bind(config(&all).unwrap()).await.unwrap().expect("the address is free");
        let mut health = program.health_address();
        if health.ip().is_unspecified() {
            health.set_ip([127, 0, 0, 1].into());
        }
        let metrics = program.metrics_address();
        let stop = CancellationToken::new();
        let program = tokio::spawn(program.serve(stop.clone()));
        Self { driver, health, metrics, program, stop }
    }

    /// Code and body of one request for the health.
    pub(crate) async fn healthz(&self) -> (u16, String) {
        get(self.health, "/healthz").await
    }

    /// Ends the program and returns how it ended.
    pub(crate) async fn end(self) -> Result<(), Exit> {
        self.stop.cancel();
        within("end of the program", self.program).await.unwrap()
    }
}

/// A driver whose Probe answers this.
pub(crate) fn answers(ready: Option<bool>) -> Step {
    Step::respond(move |_: &ProbeRequest| Ok(ProbeResponse { ready }))
}

/// Code and body of a GET.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let answer = exchange(address, &request("GET", path)).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP answer: {answer:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

pub(crate) fn request(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
}

/// All that is sent until the connection is closed.
pub(crate) async fn exchange(address: SocketAddr, request: &str) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    within("HTTP answer", exchange).await
}

pub(crate) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    timeout(BOUND, wait).await.unwrap_or_else(|_| panic!("no {what} within {BOUND:?}"))
}
