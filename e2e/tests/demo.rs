//! What README promises first.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::process::Command;

#[test]
fn the_demo_shows_a_volumes_whole_way() {
    let output = Command::new(env!("CARGO_BIN_EXE_demo")).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}\n{said}");
    let everywhere = ["CSI CreateVolume", "the claim is Bound", "CSI DeleteVolume", "0 volumes left", "exit code 0"];
    let on_a_node = [
        "has introduced the driver",
        "CSI ControllerPublishVolume",
        "CSI NodePublishVolume",
        "pod reader has read: written by a pod that is gone",
        "CSI ControllerUnpublishVolume",
        "the kubelet has dropped the driver",
    ];
    let on_a_node = on_a_node.iter().filter(|_| e2e::Node::possible().is_ok());
    for step in everywhere.iter().chain(on_a_node) {
        assert!(shown.contains(step), "{step} is not in\n{shown}\n{said}");
    }
}
