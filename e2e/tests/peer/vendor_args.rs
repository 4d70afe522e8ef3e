//! How the repositories of 110 vendors start the sidecars: one line is a program, a tab and its arguments.

use std::path::PathBuf;

use anyhow::{Result, bail};
use e2e::programs::{self, GO_CSI_ATTACHER, GO_CSI_PROVISIONER, GO_CSI_RESIZER};
use e2e::{Driver, Program, binary::bin, eventually, ports::Port};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::site::{PATIENCE, Site};

const LINES: &str = include_str!("vendor-args.txt");
/// The registrar's registration probe is no start: the exit code says that nothing is registered.
const REGISTRATION_PROBE: &str = "--mode=kubelet-registration-probe";
const AT_ONCE: usize = 4;
/// With these no sidecar ends because there is nothing to do.
const CAPABILITIES: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,PUBLISH_UNPUBLISH_VOLUME,EXPAND_VOLUME,\
    MODIFY_VOLUME,GET_CAPACITY";

/// What becomes of a start.
#[derive(Debug, PartialEq, Eq)]
enum Start {
    /// The arguments were accepted, and the driver was called.
    CalledDriver,
    Ended(i32),
}

#[tokio::test]
async fn every_vendors_arguments_start_ours_as_they_start_the_go_sidecars() -> Result<()> {
    let site = Site::start("vendors", &["--node-id=n1", CAPABILITIES]).await?;
    assert_eq!(LINES.lines().count(), 368);
    let compared = stream::iter(LINES.lines()).map(|line| compare(&site, line)).buffer_unordered(AT_ONCE);
    let differences: Vec<_> = compared.try_filter_map(async |difference| Ok(difference)).try_collect().await?;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

/// What is not as it should be.
async fn compare(site: &Site, line: &str) -> Result<Option<String>> {
    let (name, arguments) = line.split_once('\t').unwrap_or((line, ""));
    let arguments: Vec<_> = arguments.split_whitespace().collect();
    let ours = start(site, name, bin(name)?, &arguments).await?;
    let expected = match name {
        "csi-provisioner" => start(site, name, programs::ensured(&GO_CSI_PROVISIONER).await?, &arguments).await?,
        "csi-attacher" => start(site, name, programs::ensured(&GO_CSI_ATTACHER).await?, &arguments).await?,
        "csi-resizer" => start(site, name, programs::ensured(&GO_CSI_RESIZER).await?, &arguments).await?,
        // The Go registrar and livenessprobe are no Go modules that can be had; their sources accept all lines.
        "csi-node-driver-registrar" if arguments.contains(&REGISTRATION_PROBE) => Start::Ended(1),
        "csi-node-driver-registrar" | "livenessprobe" => Start::CalledDriver,
        other => bail!("no program {other}"),
    };
    Ok((ours != expected).then(|| format!("{line}: expected {expected:?}, ours {ours:?}")))
}

/// Starts a program with the arguments of a vendor, and with paths and ports of this test in place of those in a pod.
async fn start(site: &Site, name: &str, executable: PathBuf, arguments: &[&str]) -> Result<Start> {
    let (directory, port) = (tempfile::tempdir()?, Port::claim()?);
    let given = |flag: &str| arguments.iter().any(|argument| argument.trim_start_matches('-').starts_with(flag));
    let mut program = Program::new(name, executable, directory.path())
        .arguments(arguments)
        .argument(format!("--csi-address={}", site.driver.address()))
        .environment("NODE_NAME", "n1")
        .environment("POD_NAME", "vendor-0")
        .environment("NAMESPACE", &site.namespace);
    if given("http-endpoint") {
        program = program.argument(format!("--http-endpoint={}", port.address()));
    } else if given("metrics-address") {
        program = program.argument(format!("--metrics-address={}", port.address()));
    } else if given("health-port") || name == "livenessprobe" {
        program = program.argument(format!("--health-port={}", port.number()));
    }
    program = match name {
        "csi-node-driver-registrar" => {
            program.argument(format!("--plugin-registration-path={}", directory.path().display()))
        }
        "livenessprobe" => program,
        _ => program.argument(format!("--kubeconfig={}", site.account.kubeconfig.display())),
    };
    let mut process = program.start()?;
    let pid = process.pid();
    eventually(&format!("{name} {arguments:?} to call the driver or to end"), PATIENCE, async || {
        if has_called(&site.driver, pid)? {
            return Ok(Some(Start::CalledDriver));
        }
        Ok(process.exit_code()?.map(Start::Ended))
    })
    .await
}

fn has_called(driver: &Driver, pid: i32) -> Result<bool> {
    Ok(driver.journal()?.iter().any(|call| call.peer_pid == Some(pid)))
}
