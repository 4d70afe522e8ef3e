//! The `csi-attacher` program; see the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::main(csi_attacher::run)
}
