//! The program as a process: exit codes, signals, and what it costs.

use std::fs;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use fake_driver::{FakeDriver, Rpc};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::scene::get;

/// On the real clock: a process does not see a paused one.
const PATIENCE: Duration = Duration::from_secs(30);

fn start(flags: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_livenessprobe"))
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn end(child: Child) -> (Option<i32>, String) {
    let output = timeout(PATIENCE, child.wait_with_output()).await.expect("the process ends").unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout),
    )
}

/// An address nobody listens on.
fn free_address() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn status_of(child: &Child, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id().unwrap())).unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    value.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn exit_codes_are_those_of_the_go_livenessprobe() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (health, metrics) = (format!("--http-endpoint={taken}"), format!("--metrics-address={taken}"));
    let cases: [(&[&str], i32, &str); 7] = [
        (&["--help"], 0, "--probe-timeout"),
        (&["--no-such-flag"], 2, "flag provided but not defined: -no-such-flag"),
        (&["--logging-format=xml"], 1, "--logging-format"),
        (&["--health-port=1", "--http-endpoint=:2"], 1, "--health-port"),
        (&[&health], 0, "Cannot serve /healthz"),
        (&["--health-port=0", &metrics], 1, "--metrics-address"),
        (&["--csi-address=dns:x"], 1, "--csi-address"),
    ];
    assert_eq!(cases.len(), 7);
    for (flags, code, named) in cases {
        let (found, output) = end(start(flags)).await;
        assert_eq!(found, Some(code), "{flags:?}: {output}");
        assert!(output.contains(named), "{flags:?}: {output}");
    }
}

#[tokio::test]
async fn sigterm_ends_the_process_at_once_with_code_0_with_a_driver_or_without() {
    for signal in [Signal::TERM, Signal::INT] {
        let address = free_address();
        let child = start(&[&format!("--http-endpoint={address}"), "--csi-address=/nonexistent/csi.sock"]);
        let listens = async {
            while tokio::net::TcpStream::connect(address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, listens).await.expect("the process listens");
        kill_process(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap(), signal).unwrap();
        let (code, output) = end(child).await;
        assert_eq!(code, Some(0), "{output}");
    }
}

/// A debug build has more code than a release build; the bound is what vendors give the container.
#[tokio::test]
async fn f8_one_thread_and_less_than_16_mib_whatever_the_number_of_cores() {
    let driver = FakeDriver::start().await;
    let address = free_address();
    let child = start(&[&format!("--http-endpoint={address}"), &format!("--csi-address={}", driver.address())]);
    driver.wait_for_ended_calls(Rpc::GetPluginInfo, 1).await;
    for _ in 0..500 {
        assert_eq!(get(address, "/healthz").await.0, 200);
    }
    assert_eq!(status_of(&child, "Threads:"), 1);
    let resident = status_of(&child, "VmHWM:");
    assert!(resident < 16 * 1024, "{resident} KiB");
    assert_eq!(driver.calls_of(Rpc::Probe).len(), 500);
    assert_eq!(driver.calls()[0].peer_pid, child.id().and_then(|pid| i32::try_from(pid).ok()));
    drop(child);
}
