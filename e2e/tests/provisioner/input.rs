//! Bad input: the exit code of the Go provisioner, and a message that names the thing and the cure.

use std::path::Path;

use anyhow::Result;
use e2e::scene::PATIENCE;
use e2e::sidecar::{Role, Settings};

#[tokio::test]
async fn bad_input_ends_the_start_with_a_code_and_a_message() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let broken = directory.path().join("broken");
    std::fs::write(&broken, "clusters: [")?;
    let missing = directory.path().join("missing");
    let socket = "/nonexistent/csi.sock";
    let cases: [(&Path, &str, &[&str], i32, &str); 9] = [
        (&missing, socket, &[], 255, "missing"),
        (&broken, socket, &[], 255, "broken"),
        (&missing, "relative/csi.sock", &[], 1, "relative/csi.sock"),
        (&missing, socket, &["--unknown"], 2, "--unknown"),
        (&missing, socket, &["--timeout=soon"], 2, "soon"),
        (&missing, socket, &["--feature-gates=Nonsense=true"], 255, "Nonsense"),
        (&missing, socket, &["--node-deployment"], 255, "NODE_NAME"),
        (&missing, socket, &["--metrics-address=127.0.0.1:0"], 1, "metrics-address"),
        (&missing, socket, &["--leader-election", "--leader-election-lease-duration=5s"], 2, "lease"),
    ];
    for (kubeconfig, address, flags, code, named) in cases {
        let settings = flags
            .iter()
            .fold(Settings::new(Role::Provisioner, kubeconfig, address)?, |settings, flag| settings.flag(flag));
        let mut provisioner = settings.start()?;
        let ended = provisioner.process().ended(PATIENCE).await?;
        let log = provisioner.process().log();
        assert_eq!(ended, code, "{flags:?} {address}: {log}");
        assert!(log.contains(named), "{flags:?}: {log}");
    }
    Ok(())
}
