//! The `csi-node-driver-registrar` program; see the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::main(csi_node_driver_registrar::run)
}
