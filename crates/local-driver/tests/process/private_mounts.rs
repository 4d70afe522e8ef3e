//! Tests that mount run once more in a mount namespace of their own, which takes its mounts along when it ends.

use std::process::Stdio;

use tokio::process::Command;

const INSIDE: &str = "LOCAL_DRIVER_TEST_MOUNTS";

/// Whether the calling test is in such a namespace and goes on. Otherwise it has been run there, or cannot be.
pub(crate) async fn entered(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !rustix::process::geteuid().is_root() {
        println!("{test} is left out: mounting needs root");
        return false;
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]).stdin(Stdio::null()).kill_on_drop(true);
        command
    };
    if !unshare().arg("true").output().await.is_ok_and(|output| output.status.success()) {
        println!("{test} is left out: this root may not make a mount namespace");
        return false;
    }
    let program = std::env::current_exe().unwrap();
    let run = unshare().arg(program).args(["--exact", test, "--nocapture"]).env(INSIDE, "1").output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, log) = (text(&run.stdout), text(&run.stderr));
    assert!(run.status.success(), "{out}{log}");
    assert!(out.contains("test result: ok. 1 passed"), "no test is named {test}: {out}");
    false
}

/// Takes away what a failed test has left: loop devices outlive the namespace.
#[derive(Debug)]
pub(crate) struct Cleanup(pub(crate) std::path::PathBuf);

impl Drop for Cleanup {
    fn drop(&mut self) {
        for point in mounted_below(&self.0) {
            let _ = std::process::Command::new("umount").args(["--lazy", &point]).status();
        }
        for device in attached_below(&self.0) {
            let _ = std::process::Command::new("losetup").args(["--detach", &device]).status();
        }
    }
}

/// Mount points below the directory, the last mounted first.
pub(crate) fn mounted_below(dir: &std::path::Path) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut points: Vec<_> =
        points.filter(|point| point.starts_with(dir.to_str().unwrap())).map(str::to_owned).collect();
    points.reverse();
    points
}

/// The options of the mount at the path.
pub(crate) fn mount_options(path: &std::path::Path) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut mounts = table.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = mounts.rfind(|fields| fields[4] == path.to_str().unwrap()).expect("a mount");
    found[5].split(',').map(str::to_owned).collect()
}

/// Loop devices with a file below the directory.
pub(crate) fn attached_below(dir: &std::path::Path) -> Vec<String> {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let devices = devices.filter(|device| {
        let file = std::fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        file.starts_with(dir.to_str().unwrap())
    });
    devices.map(|device| format!("/dev/{}", device.file_name().display())).collect()
}

/// Waits until no such device is left: whatever watches devices on this machine may have one open for a moment.
pub(crate) async fn freed_below(dir: &std::path::Path) {
    let freed = async {
        while !attached_below(dir).is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::driver::PATIENCE, freed).await.expect("the loop devices are freed");
}
