//! Processes end with their owner, whichever way it goes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use e2e::{Program, binary::bin, eventually};
use rustix::process::{Pid, test_kill_process};

const SOON: Duration = Duration::from_secs(15);

fn shell(directory: &Path, script: &str) -> Program {
    Program::new("script", "/bin/sh".into(), directory).arguments(["-c", script])
}

fn is_there(pid: i32) -> bool {
    test_kill_process(Pid::from_raw(pid).unwrap()).is_ok()
}

#[tokio::test]
async fn exit_codes_and_logs_are_those_of_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let mut process = shell(directory.path(), "echo out; echo err >&2; exit 7").start().unwrap();
    assert_eq!(process.ended(SOON).await.unwrap(), 7);
    let mut log: Vec<_> = process.log().lines().map(str::to_owned).collect();
    log.sort();
    assert_eq!(log, ["err", "out"]);
    let mut process = shell(directory.path(), "kill -USR1 $$").start().unwrap();
    assert_eq!(process.ended(SOON).await.unwrap(), 128 + 10);
    let missing = Program::new("missing", "/does/not/exist".into(), directory.path()).start().unwrap_err();
    assert!(missing.to_string().contains("cannot start /does/not/exist"), "{missing}");
}

#[tokio::test]
async fn a_stopped_program_gets_the_chance_to_end_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let script = "trap 'echo goodbye; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut process = shell(directory.path(), script).start().unwrap();
    process.logged("ready", SOON).await.unwrap();
    assert_eq!(process.stop().await.unwrap(), 3);
    assert!(process.log().contains("goodbye"));
    let error = process.logged("never", SOON).await.unwrap_err();
    assert!(format!("{error:#}").contains("goodbye"), "the log's tail is missing: {error:#}");
}

#[tokio::test]
async fn a_dropped_process_is_gone_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let process = shell(directory.path(), "trap '' TERM; while :; do sleep 0.05; done").start().unwrap();
    let pid = process.pid();
    assert!(is_there(pid));
    drop(process);
    assert!(!is_there(pid));
    assert!(directory.path().exists(), "the owner lives and removes its directory itself");
}

#[tokio::test]
async fn a_program_outlives_no_killed_owner_and_its_directory_goes_too() {
    let directory = tempfile::tempdir().unwrap();
    let scratch = directory.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let mut supervisor = Command::new(bin("supervise").unwrap())
        .arg("--remove")
        .arg(&scratch)
        .args(["/bin/sh", "-c", "while :; do sleep 0.05; done"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(supervisor.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = line.split(' ').next().unwrap().parse().unwrap();
    assert!(is_there(pid));
    // What the system does with the pipe when the owner is killed.
    drop(supervisor.stdin.take());
    eventually("the supervisor to end", SOON, async || Ok(supervisor.try_wait()?)).await.unwrap();
    assert!(!is_there(pid));
    assert!(!scratch.exists());
}
