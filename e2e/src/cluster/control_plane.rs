//! The programs, with the flags that make them small and quick.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{
    Cluster, Extras, Files,
    certificates::{self, Certificates},
    component::{Component, Readiness},
};
use crate::{
    audit,
    kubeconfig::{self, Credentials},
    ports::Port,
    process::Program,
    programs::{self, ETCD, ETCD_WITHOUT_PROGRESS, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, node::KUBE_SCHEDULER},
};

/// What the tests and the demo need: claims bound to volumes, objects in use kept, namespaces emptied.
const CONTROLLERS: &str = "persistentvolume-binder-controller,persistentvolumeclaim-protection-controller,\
    persistentvolume-protection-controller,namespace-controller";

/// What pods on nodes need more: nodes without taints, service accounts, attachments, claims made for pods, owners that
/// take along what they own, and an end for the pods of nodes that are gone.
const NODE_CONTROLLERS: &str = "node-lifecycle-controller,taint-eviction-controller,serviceaccount-controller,\
    root-ca-certificate-publisher-controller,persistentvolume-attach-detach-controller,ephemeral-volume-controller,\
    garbage-collector-controller,pod-garbage-collector-controller,statefulset-controller,replicaset-controller,\
    deployment-controller,daemonset-controller,job-controller";

/// One attempt, with ports claimed for it.
pub(super) async fn start(extras: Extras) -> Result<Cluster> {
    let directory = crate::temporary_directory("cluster")?;
    let ports = [Port::claim()?, Port::claim()?, Port::claim()?];
    let [store, store_peers, api] = &ports;
    let certificates = certificates::make(&directory.path().join("pki"))?;
    let admin = directory.path().join("admin.kubeconfig");
    let credentials = Credentials::Certificate {
        certificate: certificates.admin.certificate.clone(),
        key: certificates.admin.key.clone(),
    };
    kubeconfig::write(&admin, &api.address(), &certificates.authority.file, &credentials)?;

    let program = if extras.without_progress { &ETCD_WITHOUT_PROGRESS } else { &ETCD };
    let etcd = etcd(programs::ensured(program).await?, directory.path(), store, store_peers);
    let mut etcd = Component::new(etcd, Readiness::Immediate);
    let mut apiserver = apiserver(directory.path(), store, api, &certificates).await?;
    if extras.nodes {
        apiserver = for_nodes(apiserver, &certificates);
    }
    if extras.audit {
        let policy = directory.path().join("audit-policy.json");
        std::fs::write(&policy, audit::policy().to_string())?;
        apiserver = apiserver
            // Those who compare sidecars want all that claims can say; without the gate the field is dropped.
            .argument("--feature-gates=CrossNamespaceVolumeDataSource=true")
            .argument(format!("--audit-policy-file={}", policy.display()))
            .argument(format!("--audit-log-path={}", audit_log(directory.path()).display()));
    }
    let mut apiserver = Component::new(apiserver, Readiness::Apiserver { kubeconfig: admin.clone() });
    let controllers = controller_manager(directory.path(), &admin, &certificates, extras).await?;
    let mut controller_manager = Component::new(controllers, Readiness::Immediate);

    etcd.start().await?;
    if let Err(error) = apiserver.start().await {
        // The cause may be there: without its store the API server only waits.
        return Err(error.context(etcd.tail()));
    }
    controller_manager.start().await?;
    let mut scheduler = None;
    if extras.nodes {
        let program = self::scheduler(directory.path(), &admin).await?;
        scheduler.insert(Component::new(program, Readiness::Immediate)).start().await?;
    }
    Ok(Cluster {
        scheduler,
        controller_manager,
        apiserver,
        etcd,
        files: Files { authority: certificates.authority, admin },
        address: api.address(),
        directory,
        ports,
    })
}

/// Where an auditing API server of the cluster in that directory writes.
pub(super) fn audit_log(directory: &Path) -> PathBuf {
    directory.join("audit.log")
}

/// Where etcd of the cluster in that directory keeps what it stores.
pub(super) fn etcd_data(directory: &Path) -> PathBuf {
    directory.join("etcd")
}

fn etcd(program: PathBuf, directory: &Path, clients: &Port, peers: &Port) -> Program {
    let (clients, peers) = (format!("http://{}", clients.address()), format!("http://{}", peers.address()));
    let data = etcd_data(directory);
    Program::new("etcd", program, directory)
        .argument("--data-dir")
        .argument(data)
        .arguments(["--unsafe-no-fsync", "--log-level=warn"])
        .arguments(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
        .arguments(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
        .argument(format!("--initial-cluster=default={peers}"))
}

async fn apiserver(directory: &Path, store: &Port, api: &Port, certificates: &Certificates) -> Result<Program> {
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    Ok(Program::new("kube-apiserver", programs::ensured(&KUBE_APISERVER).await?, directory)
        .argument(format!("--etcd-servers=http://{}", store.address()))
        .argument(format!("--secure-port={}", api.number()))
        .arguments(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"])
        .argument(flag("tls-cert-file", &certificates.server.certificate))
        .argument(flag("tls-private-key-file", &certificates.server.key))
        .argument(flag("client-ca-file", &certificates.authority.file))
        .argument("--service-account-issuer=https://kubernetes.default.svc")
        .argument(flag("service-account-key-file", &certificates.signer.certificate))
        .argument(flag("service-account-signing-key-file", &certificates.signer.key))
        .arguments(["--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC", "--allow-privileged=true"]))
}

/// Kubelets get the rights they have in any cluster, and the API server reads logs from them.
fn for_nodes(apiserver: Program, certificates: &Certificates) -> Program {
    apiserver
        // Beside RBAC: the flag adds up.
        .arguments(["--authorization-mode=Node", "--enable-admission-plugins=NodeRestriction"])
        .argument("--kubelet-preferred-address-types=InternalIP")
        .argument(format!("--kubelet-client-certificate={}", certificates.admin.certificate.display()))
        .argument(format!("--kubelet-client-key={}", certificates.admin.key.display()))
        .argument(format!("--kubelet-certificate-authority={}", certificates.authority.file.display()))
}

async fn scheduler(directory: &Path, admin: &Path) -> Result<Program> {
    Ok(Program::new("kube-scheduler", programs::ensured(&KUBE_SCHEDULER).await?, directory)
        .argument(format!("--kubeconfig={}", admin.display()))
        .arguments(["--leader-elect=false", "--secure-port=0"]))
}

/// It serves nothing; what it does for a claim is waited for where a test needs it. The raised limits keep it from
/// being what a test of many claims measures.
async fn controller_manager(
    directory: &Path,
    admin: &Path,
    certificates: &Certificates,
    extras: Extras,
) -> Result<Program> {
    let program = programs::ensured(&KUBE_CONTROLLER_MANAGER).await?;
    let controllers = if extras.nodes { format!("{CONTROLLERS},{NODE_CONTROLLERS}") } else { CONTROLLERS.to_owned() };
    let timers = [
        // A node that is Ready is used within this time.
        "--node-monitor-period=200ms",
        // How often what is attached is compared with what VolumeAttachments say; no less is allowed.
        "--attach-detach-reconcile-sync-period=1s",
    ];
    Ok(Program::new("kube-controller-manager", program, directory)
        .argument(format!("--kubeconfig={}", admin.display()))
        .argument(format!("--controllers={controllers}"))
        // It makes this directory.
        .argument(format!("--flex-volume-plugin-dir={}", directory.join("flex-volumes").display()))
        .argument(format!("--root-ca-file={}", certificates.authority.file.display()))
        .arguments(timers.into_iter().filter(|_| extras.nodes))
        .arguments(["--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000"]))
}
