//! What waits for what on the way to the API server: the program itself between a fake API server and a fake driver.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use fake_apiserver::{FakeApiServer, Matcher};
use fake_driver::{FakeDriver, Rpc, Step};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tower::Service as _;

const DRIVER: &str = "fake.csi.example.com";
/// Longest wait, on the real clock: the program is a process of its own.
const PATIENCE: Duration = Duration::from_mins(1);

/// Serves `api` over TCP until the tasks are dropped. Returns its URL.
async fn listen(api: &FakeApiServer, tasks: &mut JoinSet<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let service = api.service();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let service = service.clone();
            let answer = hyper::service::service_fn(move |request: http::Request<Incoming>| {
                let mut service = service.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
                    service.call(http::Request::from_parts(head, body.into())).await
                }
            });
            connections.spawn(async move {
                // It ends with an error when the program goes away.
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    url
}

fn kubeconfig(directory: &TempDir, server: &str) -> PathBuf {
    let path = directory.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "fake", "cluster": { "server": server } }],
        "users": [{ "name": "fake", "user": {} }],
        "contexts": [{ "name": "fake", "context": { "cluster": "fake", "user": "fake" } }],
        "current-context": "fake",
    });
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

fn start(kubeconfig: &Path, driver: &FakeDriver, flags: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_csi-provisioner"))
        .env_remove("KUBECONFIG")
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--csi-address={}", driver.address()))
        .args(flags)
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn add_class(api: &FakeApiServer) {
    api.create_json::<StorageClass>(json!({
        "metadata": { "name": "fast" }, "provisioner": DRIVER, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
    }));
}

fn add_claim(api: &FakeApiServer, name: &str) {
    api.create_json::<PersistentVolumeClaim>(json!({
        "metadata": {
            "name": name, "namespace": "shop", "annotations": { "volume.kubernetes.io/storage-provisioner": DRIVER },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
            "storageClassName": "fast", "volumeMode": "Filesystem",
        },
        "status": { "phase": "Pending" },
    }));
}

#[tokio::test]
async fn a_client_side_limit_that_is_used_up_holds_up_neither_events_nor_the_lease() {
    let (api, driver, directory) = (FakeApiServer::new(), FakeDriver::start().await, TempDir::new().unwrap());
    let mut tasks = JoinSet::new();
    let server = listen(&api, &mut tasks).await;
    add_class(&api);
    // Enough for the start, and for some of the volumes; the next request would have its turn in a quarter of an hour.
    let limit = ["--kube-api-qps=0.001", "--kube-api-burst=14"];
    let election = [
        "--leader-election",
        "--leader-election-namespace=default",
        "--leader-election-lease-duration=6s",
        "--leader-election-renew-deadline=5s",
        "--leader-election-retry-period=300ms",
    ];
    let _program = start(&kubeconfig(&directory, &server), &driver, &[&limit[..], &election[..]].concat());
    for number in 0..20 {
        add_claim(&api, &format!("data-{number}"));
    }
    driver.wait_for_ended_calls(Rpc::CreateVolume, 20).await;
    let renewals = |api: &FakeApiServer| api.requests_of(&Matcher::of("update", "leases")).len();
    let before = renewals(&api);
    api.until("more renewals", PATIENCE, |api| (renewals(api) >= before + 3).then_some(())).await;

    driver.script_always(Rpc::CreateVolume, || Step::fail(tonic::Code::InvalidArgument, "no such pool"));
    add_claim(&api, "refused");
    let told = |api: &FakeApiServer| {
        let about = |event: &Event| event.involved_object.name.as_deref() == Some("refused");
        api.list::<Event>().into_iter().find(about)
    };
    let event = api.until("the event", PATIENCE, told).await;
    assert_eq!(event.reason.as_deref(), Some("ProvisioningFailed"));
    let volumes = api.list::<PersistentVolume>().len();
    assert!((1..20).contains(&volumes), "{volumes}: the limit is used up, but not by the start alone");
    assert_eq!(api.list::<Lease>()[0].spec.as_ref().unwrap().lease_transitions, Some(0), "never lost");
}

/// 5 requests a second, which the Go sidecars allow themselves by default, would take two minutes for these.
#[tokio::test]
async fn c1_without_flags_no_limit_of_its_own_slows_the_program_down() {
    const CLAIMS: usize = 600;
    let (api, driver, directory) = (FakeApiServer::new(), FakeDriver::start().await, TempDir::new().unwrap());
    let mut tasks = JoinSet::new();
    let server = listen(&api, &mut tasks).await;
    add_class(&api);
    for number in 0..CLAIMS {
        add_claim(&api, &format!("data-{number}"));
    }
    let _program = start(&kubeconfig(&directory, &server), &driver, &[]);
    let all = |api: &FakeApiServer| (api.list::<PersistentVolume>().len() == CLAIMS).then_some(());
    api.until("all volumes", PATIENCE, all).await;
    assert_eq!(driver.calls_of(Rpc::CreateVolume).len(), CLAIMS);
}
