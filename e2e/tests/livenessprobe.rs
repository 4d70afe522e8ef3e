//! Our livenessprobe beside our driver.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
