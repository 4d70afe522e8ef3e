//! What README promises first.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::process::Command;

#[test]
fn the_demo_shows_a_claim_becoming_a_volume_and_going_away() {
    let output = Command::new(env!("CARGO_BIN_EXE_demo")).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}\n{said}");
    for step in ["CSI CreateVolume", "the claim is Bound", "CSI DeleteVolume", "0 volumes left", "exit code 0"] {
        assert!(shown.contains(step), "{step} is not in\n{shown}\n{said}");
    }
}
