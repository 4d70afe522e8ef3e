//! The `csi-resizer` program; see the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::main(csi_resizer::run)
}
