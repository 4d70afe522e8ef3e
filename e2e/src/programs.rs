//! Programs that come as Go modules: built once per machine, kept in a cache outside `target`.
//!
//! Each wrapper module below `e2e/go` pins versions in its `go.mod` and `go.sum`. A program is built when the cache
//! has none for the present pins, package and flags.

use std::{
    env,
    fs::{self, File},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::sidecar::Role;

pub mod node;

/// Version of Kubernetes in `go/kubernetes/go.mod`; its programs do not know it unless told by the linker.
const KUBERNETES: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
    -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36";
const STRIPPED: &str = "-s -w";
/// Programs that need C code: `runc` enters namespaces before its Go runtime starts.
const WITH_C: &[&str] = &["kubelet", "runc"];

/// One program and how it is built.
#[derive(Debug, Hash)]
pub struct GoProgram {
    /// Name of the executable.
    pub name: &'static str,
    /// Wrapper module below `e2e/go`.
    module: &'static str,
    package: &'static str,
    link_flags: &'static str,
    /// How long it takes the first time on two cores.
    takes: &'static str,
}

/// The key-value store behind the API server.
pub const ETCD: GoProgram = GoProgram {
    name: "etcd",
    module: "etcd",
    package: "go.etcd.io/etcd/server/v3",
    link_flags: STRIPPED,
    takes: "1 minute",
};
/// One from before 3.5.13: it does not say how far a watch has come when it is asked.
pub const ETCD_WITHOUT_PROGRESS: GoProgram = GoProgram {
    name: "etcd-3.5.12",
    module: "etcd-3.5.12",
    package: "go.etcd.io/etcd/server/v3",
    link_flags: STRIPPED,
    takes: "1 minute",
};
/// The API server.
pub const KUBE_APISERVER: GoProgram = GoProgram {
    name: "kube-apiserver",
    module: "kubernetes",
    package: "k8s.io/kubernetes/cmd/kube-apiserver",
    link_flags: KUBERNETES,
    takes: "4 minutes",
};
/// The controllers that bind claims and guard objects in use.
pub const KUBE_CONTROLLER_MANAGER: GoProgram = GoProgram {
    name: "kube-controller-manager",
    module: "kubernetes",
    package: "k8s.io/kubernetes/cmd/kube-controller-manager",
    link_flags: KUBERNETES,
    takes: "2 minutes",
};
/// The conformance suite for CSI drivers.
pub const CSI_SANITY: GoProgram = GoProgram {
    name: "csi-sanity",
    module: "csi-test",
    package: "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity",
    link_flags: STRIPPED,
    takes: "1 minute",
};

/// The Go provisioner, which ours is compared with and shares a Lease with.
pub const GO_CSI_PROVISIONER: GoProgram = GoProgram {
    name: "go-csi-provisioner",
    module: "peers",
    package: "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner",
    link_flags: STRIPPED,
    takes: "5 minutes",
};
/// The Go attacher, likewise.
pub const GO_CSI_ATTACHER: GoProgram = GoProgram {
    name: "go-csi-attacher",
    module: "peers",
    package: "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher",
    link_flags: STRIPPED,
    takes: "5 minutes, or seconds after the Go provisioner",
};
/// The Go resizer, likewise.
pub const GO_CSI_RESIZER: GoProgram = GoProgram {
    name: "go-csi-resizer",
    module: "peers",
    package: "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer",
    link_flags: STRIPPED,
    takes: "5 minutes, or seconds after the Go provisioner",
};
/// The CSI driver of Kubernetes' own end-to-end tests: for us one that others wrote.
pub const MOCK_DRIVER: GoProgram =
    GoProgram { name: "mock-driver", module: "mock-driver", package: ".", link_flags: STRIPPED, takes: "1 minute" };

/// Does to a registration socket what kubelet's plugin manager does, with kubelet's dial options.
pub const KUBELET_DIAL: GoProgram =
    GoProgram { name: "kubelet-dial", module: "kubelet-dial", package: ".", link_flags: STRIPPED, takes: "1 minute" };

/// Answers with what the Go library makes of volumes and classes of in-tree plugins.
pub const TRANSLATION: GoProgram =
    GoProgram { name: "translation", module: "translation", package: ".", link_flags: STRIPPED, takes: "1 minute" };

/// Everything the tests and the demo run.
pub const ALL: &[GoProgram] = &[
    ETCD,
    ETCD_WITHOUT_PROGRESS,
    KUBE_APISERVER,
    KUBE_CONTROLLER_MANAGER,
    CSI_SANITY,
    GO_CSI_PROVISIONER,
    GO_CSI_ATTACHER,
    GO_CSI_RESIZER,
    MOCK_DRIVER,
    KUBELET_DIAL,
    TRANSLATION,
];

/// Path of a program, built first when the cache does not have it. Blocks for minutes then; others that need a
/// program meanwhile, in this process or another, wait.
///
/// # Errors
/// When go is not installed, or the build fails (its output is shown as it comes).
pub fn ensure(program: &GoProgram) -> Result<PathBuf> {
    let cache = cache_directory()?.join("programs");
    let path = cache.join(format!("{}-{:016x}", program.name, key(program)?));
    if path.is_file() {
        return Ok(path);
    }
    fs::create_dir_all(&cache).with_context(|| format!("cannot create the cache {}", cache.display()))?;
    let lock = File::create(cache.join("lock"))?;
    lock.lock().context("cannot lock the cache")?;
    if !path.is_file() {
        build(program, &path)?;
    }
    Ok(path)
}

/// [`ensure`] without blocking the runtime.
///
/// # Errors
/// As [`ensure`].
pub async fn ensured(program: &'static GoProgram) -> Result<PathBuf> {
    tokio::task::spawn_blocking(|| ensure(program)).await?
}

/// Directory of what is kept between runs: `OUTRIGGER_CACHE`, else `outrigger` in the user's cache directory.
///
/// # Errors
/// When neither that nor `HOME` is set.
pub fn cache_directory() -> Result<PathBuf> {
    if let Some(directory) = env::var_os("OUTRIGGER_CACHE").filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(directory));
    }
    let cache = env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    Ok(cache.context("set OUTRIGGER_CACHE: there is no HOME to put the cache in")?.join("outrigger"))
}

/// Modules of which only files are read: `go/upstream/go.mod` pins them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// `deploy/kubernetes/rbac.yaml` of a sidecar.
    Sidecar(Role),
    /// `config/crd`: VolumeSnapshot and what belongs to it.
    Snapshots,
    /// `config/crd/standard`: ReferenceGrant.
    GatewayApi,
}

impl Upstream {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Sidecar(Role::Provisioner),
        Self::Sidecar(Role::Attacher),
        Self::Sidecar(Role::Resizer),
        Self::Snapshots,
        Self::GatewayApi,
    ];

    fn module(self) -> &'static str {
        match self {
            Self::Sidecar(Role::Provisioner) => "github.com/kubernetes-csi/external-provisioner/v6",
            Self::Sidecar(Role::Attacher) => "github.com/kubernetes-csi/external-attacher/v4",
            Self::Sidecar(Role::Resizer) => "github.com/kubernetes-csi/external-resizer/v2",
            Self::Snapshots => "github.com/kubernetes-csi/external-snapshotter/client/v8",
            Self::GatewayApi => "sigs.k8s.io/gateway-api",
        }
    }
}

/// Directory of an upstream module.
///
/// # Errors
/// When go is not installed or the module cannot be had.
pub fn upstream_module(upstream: Upstream) -> Result<PathBuf> {
    #[derive(Deserialize)]
    struct Download {
        #[serde(rename = "Dir")]
        directory: PathBuf,
    }
    let mut go = go(&module_directory("upstream"));
    let output = go.args(["mod", "download", "-json", upstream.module()]);
    let output = output.output().context("cannot run go: is it installed and in PATH?")?;
    let download: Download = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("go mod download gave no module: {}", String::from_utf8_lossy(&output.stderr).trim())
    })?;
    Ok(download.directory)
}

/// The objects in a YAML file of an upstream module.
///
/// # Errors
/// As [`upstream_module`], and when the file is not there or is not YAML.
pub async fn upstream_objects(upstream: Upstream, file: &str) -> Result<Vec<Value>> {
    let module = tokio::task::spawn_blocking(move || upstream_module(upstream)).await??;
    let path = module.join(file);
    let text = tokio::fs::read_to_string(&path).await.with_context(|| format!("cannot read {}", path.display()))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).with_context(|| format!("{file} is not YAML"))?;
    Ok(documents.into_iter().filter(Value::is_object).collect())
}

fn build(program: &GoProgram, path: &Path) -> Result<()> {
    crate::say(&format!("building {} (about {} the first time)...", program.name, program.takes));
    let started = tokio::time::Instant::now();
    let unfinished = path.with_extension("unfinished");
    let status = go(&module_directory(program.module))
        .env("CGO_ENABLED", if WITH_C.contains(&program.name) { "1" } else { "0" })
        .args(["build", "-trimpath", "-ldflags", program.link_flags, "-o"])
        .arg(&unfinished)
        .arg(program.package)
        .status()
        .context("cannot run go: is it installed and in PATH?")?;
    if !status.success() {
        bail!("building {} failed: {status}", program.name);
    }
    fs::rename(&unfinished, path)?;
    crate::say(&format!("built {} in {}", program.name, minutes(started.elapsed())));
    Ok(())
}

/// What decides whether a cached program is the right one. The hash may change with the Rust release, which costs a
/// build.
fn key(program: &GoProgram) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    program.hash(&mut hasher);
    if WITH_C.contains(&program.name) {
        "cgo".hash(&mut hasher);
    }
    env::consts::ARCH.hash(&mut hasher);
    for file in ["go.mod", "go.sum"] {
        let path = module_directory(program.module).join(file);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?.hash(&mut hasher);
    }
    // A program of our own is in the wrapper module itself.
    if let Ok(source) = fs::read(module_directory(program.module).join("main.go")) {
        source.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

fn go(directory: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(directory).env("CGO_ENABLED", "0").env("GOWORK", "off");
    go
}

fn module_directory(module: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("go").join(module)
}

fn minutes(time: Duration) -> String {
    format!("{} m {:02} s", time.as_secs() / 60, time.as_secs() % 60)
}
