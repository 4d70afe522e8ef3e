//! Our registrar and kubelet's own client code: the Go library and the dial options of kubelet 1.36.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    fs,
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use e2e::{
    Driver, Process, Program,
    binary::bin,
    eventually,
    programs::{self, KUBELET_DIAL},
};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(20);
const ENDPOINT: &str = "/var/lib/kubelet/plugins/dialled.outrigger.dev/csi.sock";

struct Site {
    driver: Driver,
    directory: tempfile::TempDir,
    kubelet_dial: PathBuf,
}

impl Site {
    async fn new() -> Self {
        Self {
            driver: Driver::start("dialled.outrigger.dev", &["--node-id=n1"]).await.unwrap(),
            directory: tempfile::tempdir().unwrap(),
            kubelet_dial: programs::ensured(&KUBELET_DIAL).await.unwrap(),
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("plugins_registry").join("dialled.outrigger.dev-reg.sock")
    }

    async fn start(&self) -> Process {
        fs::create_dir_all(self.socket().parent().unwrap()).unwrap();
        let program = bin("csi-node-driver-registrar").unwrap();
        let registrar = Program::new("csi-node-driver-registrar", program, self.directory.path())
            .argument(format!("--csi-address={}", self.driver.address()))
            .argument(format!("--kubelet-registration-path={ENDPOINT}"))
            .argument(format!("--plugin-registration-path={}", self.socket().parent().unwrap().display()));
        let process = registrar.start().unwrap();
        self.listens().await;
        process
    }

    async fn listens(&self) {
        let socket = self.socket();
        eventually("the registration socket", BOUND, async || Ok(UnixStream::connect(&socket).ok())).await.unwrap();
    }

    /// What kubelet gets to hear, and whether all went well.
    fn dial(&self, verdict: &[&str]) -> (Vec<Value>, bool) {
        dial(&self.kubelet_dial, &self.socket(), verdict)
    }
}

fn dial(kubelet_dial: &Path, socket: &Path, verdict: &[&str]) -> (Vec<Value>, bool) {
    let output = Command::new(kubelet_dial).arg(socket).args(verdict).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), output.status.success())
}

fn info() -> Value {
    json!({
        "step": "GetInfo", "code": "OK", "type": "CSIPlugin", "name": "dialled.outrigger.dev",
        "endpoint": ENDPOINT, "supported_versions": ["1.0.0"],
    })
}

fn told() -> Value {
    json!({ "step": "NotifyRegistrationStatus", "code": "OK" })
}

#[tokio::test]
async fn f9_kubelets_own_client_is_answered() {
    let site = Site::new().await;
    let mut registrar = site.start().await;
    assert_eq!(site.dial(&[]), (vec![info()], true));
    assert_eq!(site.dial(&["registered"]), (vec![info(), told()], true));
    // A kubelet that starts again.
    assert_eq!(site.dial(&["registered"]), (vec![info(), told()], true));
    assert_eq!(registrar.stop().await.unwrap(), 0);
    assert!(!site.socket().exists());
}

#[tokio::test]
async fn f4_a_refusal_reaches_the_registrar_and_its_answer_reaches_kubelet() {
    let site = Site::new().await;
    let mut registrar = site.start().await;
    let inode = || fs::symlink_metadata(site.socket()).map(|found| found.ino()).ok();
    let before = inode();
    let refused = ["refused", "RegisterPlugin error -- plugin registration failed"];
    assert_eq!(site.dial(&refused), (vec![info(), told()], true));
    eventually("another socket", BOUND, async || Ok(inode().filter(|found| Some(*found) != before))).await.unwrap();
    assert_eq!(site.dial(&["registered"]), (vec![info(), told()], true));
    assert!(registrar.log().contains("plugin registration failed"), "{}", registrar.tail());
    assert_eq!(registrar.stop().await.unwrap(), 0);
}
