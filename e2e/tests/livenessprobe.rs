//! Our livenessprobe beside our driver.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::{Driver, Process, Program, binary::bin, eventually, http_get::http_get, ports::Port};
use rustix::process::Signal;

const BOUND: Duration = Duration::from_secs(20);

struct Probe {
    process: Process,
    port: Port,
    _directory: tempfile::TempDir,
}

impl Probe {
    fn start(driver: &Driver) -> Self {
        let (directory, port) = (tempfile::tempdir().unwrap(), Port::claim().unwrap());
        let program = Program::new("livenessprobe", bin("livenessprobe").unwrap(), directory.path())
            .argument(format!("--csi-address={}", driver.address()))
            .argument(format!("--http-endpoint={}", port.address()))
            .argument("--probe-timeout=300ms");
        Self { process: program.start().unwrap(), port, _directory: directory }
    }

    /// Waits for an answer with that code, and gives its text.
    async fn answers(&self, code: u16) -> String {
        let what = format!("/healthz to answer {code}");
        let answered = eventually(&what, BOUND, async || {
            let (found, text) = http_get(&self.port.address(), "/healthz").await?;
            Ok((found == code).then_some(text))
        });
        answered.await.unwrap()
    }
}

#[tokio::test]
async fn f11_healthz_follows_the_driver_and_the_probe_goes_on() {
    let mut driver = Driver::prepare("probed.outrigger.dev", &["--node-id=n1"]).unwrap();
    let mut probe = Probe::start(&driver);
    let reason = probe.answers(500).await;
    assert!(reason.contains(driver.socket().to_str().unwrap()), "{reason}");
    driver.start_again().await.unwrap();
    assert_eq!(probe.answers(200).await, "ok");

    driver.kill().await.unwrap();
    let reason = probe.answers(500).await;
    assert!(reason.contains("refused"), "{reason}");
    driver.start_again().await.unwrap();
    assert_eq!(probe.answers(200).await, "ok");

    driver.stop().await.unwrap();
    let reason = probe.answers(500).await;
    assert!(reason.contains("deadline exceeded"), "{reason}");
    driver.start_again().await.unwrap();
    assert_eq!(probe.answers(200).await, "ok");
    assert_eq!(probe.process.exit_code().unwrap(), None);
}

#[tokio::test]
async fn a_driver_that_hangs_is_unhealthy_until_it_goes_on() {
    let mut driver = Driver::start("hung.outrigger.dev", &["--node-id=n1"]).await.unwrap();
    let mut probe = Probe::start(&driver);
    assert_eq!(probe.answers(200).await, "ok");
    driver.process().unwrap().signal(Signal::STOP).unwrap();
    let reason = probe.answers(500).await;
    assert!(reason.contains("xceeded"), "{reason}");
    driver.process().unwrap().signal(Signal::CONT).unwrap();
    assert_eq!(probe.answers(200).await, "ok");
    let calls = driver.calls("Probe").unwrap();
    assert!(calls.iter().all(|call| call.peer_pid == Some(probe.process.pid())), "{calls:#?}");
    assert_eq!(probe.process.exit_code().unwrap(), None);
}

/// Where the kernel gives IPv6 sockets no IPv4, and localhost has both addresses, in the order that kubelet writes them.
const NETWORK: &str = "mount --bind \"$0\" /etc/hosts && ip link set lo up && \
    echo 1 >/proc/sys/net/ipv6/bindv6only && exec \"$@\"";

#[tokio::test]
async fn o16_localhost_and_no_host_take_ipv4_connections() {
    if let Err(reason) = e2e::Node::possible() {
        assert!(std::env::var_os("OUTRIGGER_REQUIRE_NODE").is_none(), "{reason:#}");
        println!("passes without looking: {reason:#}");
        return;
    }
    for host in ["localhost", ""] {
        let directory = tempfile::tempdir().unwrap();
        let hosts = directory.path().join("hosts");
        std::fs::write(&hosts, "127.0.0.1 localhost\n::1 localhost ip6-localhost\n").unwrap();
        let program = Program::new("livenessprobe", "unshare".into(), directory.path())
            .arguments(["--mount", "--net", "sh", "-c", NETWORK])
            .argument(&hosts)
            .argument(bin("livenessprobe").unwrap())
            .argument(format!("--csi-address={}", directory.path().join("csi.sock").display()))
            .argument(format!("--http-endpoint={host}:8080"));
        let process = program.start().unwrap();
        let network = format!("--net=/proc/{}/ns/net", process.pid());
        let connect = || {
            let mut command = Command::new("nsenter");
            command.args([&*network, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080"]).stderr(Stdio::null());
            anyhow::Ok(command.status()?.success().then_some(()))
        };
        eventually(&format!("{host}:8080 to take IPv4"), BOUND, async || connect()).await.unwrap();
    }
}
