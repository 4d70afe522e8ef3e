//! Many volumes at once, without a driver making them: what a large cluster looks like to a process that starts.

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// More do not make the API server faster.
const AT_ONCE: usize = 48;
/// Bytes of an annotation that nobody reads, as other controllers leave them.
const UNREAD: usize = 512;

/// Claims, each bound to a volume, each attached to a node.
#[derive(Clone, Debug)]
pub struct Population {
    /// Where the claims are.
    pub namespace: String,
    /// CSI driver of the volumes.
    pub driver: String,
    /// How many of each kind.
    pub count: usize,
}

#[derive(Deserialize)]
struct Created {
    metadata: Identity,
}

#[derive(Deserialize)]
struct Identity {
    uid: String,
}

impl Population {
    /// Creates them all. Nobody needs to run who binds them: they name each other from the start, though their phase is
    /// never set.
    ///
    /// # Errors
    /// When the API server refuses one.
    pub async fn create(&self, client: &Client) -> Result<()> {
        let created = (0..self.count).map(|number| self.create_one(client, number));
        stream::iter(created).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn create_one(&self, client: &Client, number: usize) -> Result<()> {
        let claims = format!("/api/v1/namespaces/{}/persistentvolumeclaims", self.namespace);
        let uid = post(client, &claims, &self.claim(number)).await?;
        post(client, "/api/v1/persistentvolumes", &self.volume(number, &uid)).await?;
        post(client, "/apis/storage.k8s.io/v1/volumeattachments", &self.attachment(number)).await?;
        Ok(())
    }

    /// Says of all attachments that they are attached, as they mostly are.
    ///
    /// # Errors
    /// When the API server refuses one.
    pub async fn mark_attached(&self, client: &Client) -> Result<()> {
        let status = json!({ "status": { "attached": true } });
        let marked = (0..self.count).map(|number| {
            let path = format!("/apis/storage.k8s.io/v1/volumeattachments/{}/status", self.attachment_name(number));
            patch(client, path, &status)
        });
        stream::iter(marked).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Says of all claims that they are Bound and have what they ask for, as kube-controller-manager does.
    ///
    /// # Errors
    /// When the API server refuses one.
    pub async fn mark_bound(&self, client: &Client) -> Result<()> {
        let status = json!({ "status": { "phase": "Bound", "accessModes": ["ReadWriteOnce"],
            "capacity": { "storage": "10Gi" } } });
        let marked = (0..self.count).map(|number| {
            let claims = format!("/api/v1/namespaces/{}/persistentvolumeclaims", self.namespace);
            patch(client, format!("{claims}/{}/status", claim_name(number)), &status)
        });
        stream::iter(marked).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Creates pods, each of which uses one of the claims and is on a node, as the account of that name.
    ///
    /// # Errors
    /// When the API server refuses one.
    pub async fn create_pods(&self, client: &Client, account: &str, count: usize) -> Result<()> {
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let path = path.as_str();
        let created = (0..count).map(|number| async move {
            post(client, path, &pod(number, account)).await?;
            anyhow::Ok(())
        });
        stream::iter(created).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// As the attach/detach controller makes them.
    fn attachment_name(&self, number: usize) -> String {
        digest(&format!("{}{}{}", self.volume_name(number), self.driver, node_name(number)), "csi-")
    }

    fn attacher_finalizer(&self) -> String {
        format!("external-attacher/{}", self.driver.replace('.', "-"))
    }

    /// In the form a provisioner gives them. The UID is not that of the claim, which names its volume before it has one.
    fn volume_name(&self, number: usize) -> String {
        let uid = digest(&format!("{}/{}/{number}", self.driver, self.namespace), "");
        format!("pvc-{}-{}-{}-{}-{}", &uid[..8], &uid[8..12], &uid[12..16], &uid[16..20], &uid[20..32])
    }

    fn claim(&self, number: usize) -> Value {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": claim_name(number),
                "labels": { "app.kubernetes.io/name": "database", "app.kubernetes.io/instance": number.to_string() },
                "annotations": {
                    "pv.kubernetes.io/bind-completed": "yes",
                    "pv.kubernetes.io/bound-by-controller": "yes",
                    "volume.beta.kubernetes.io/storage-provisioner": self.driver,
                    "volume.kubernetes.io/storage-provisioner": self.driver,
                    "backup.example.com/plan": "x".repeat(UNREAD),
                },
                "finalizers": ["kubernetes.io/pvc-protection"],
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": self.driver, "volumeMode": "Filesystem",
                "resources": { "requests": { "storage": "10Gi" } }, "volumeName": self.volume_name(number),
            },
        })
    }

    fn volume(&self, number: usize, claim_uid: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {
                "name": self.volume_name(number),
                "annotations": {
                    "pv.kubernetes.io/provisioned-by": self.driver,
                    "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                    "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
                    "backup.example.com/plan": "x".repeat(UNREAD),
                },
                "finalizers": [
                    "external-provisioner.volume.kubernetes.io/finalizer", "kubernetes.io/pv-protection",
                    self.attacher_finalizer(),
                ],
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "10Gi" }, "volumeMode": "Filesystem",
                "persistentVolumeReclaimPolicy": "Delete", "storageClassName": self.driver,
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": self.namespace,
                    "name": claim_name(number), "uid": claim_uid,
                },
                "csi": {
                    "driver": self.driver, "volumeHandle": format!("vol-0123456789abcdef{number:06}"), "fsType": "ext4",
                    "volumeAttributes": { "storage.kubernetes.io/csiProvisionerIdentity": "1700000000000-1234-driver" },
                },
            },
        })
    }

    fn attachment(&self, number: usize) -> Value {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {
                "name": self.attachment_name(number),
                "annotations": { "csi.alpha.kubernetes.io/node-id": format!("i-0123456789abcdef{:03}", number % 200) },
                "finalizers": [self.attacher_finalizer()],
            },
            "spec": {
                "attacher": self.driver, "nodeName": node_name(number),
                "source": { "persistentVolumeName": self.volume_name(number) },
            },
        })
    }
}

fn claim_name(number: usize) -> String {
    format!("data-database-{number:06}")
}

/// One of a StatefulSet, with what such pods usually say. No kubelet has written its status.
fn pod(number: usize, account: &str) -> Value {
    let probe = json!({ "httpGet": { "path": "/healthz", "port": 8080 }, "periodSeconds": 10, "timeoutSeconds": 2 });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("database-{number:06}"),
            "labels": {
                "app.kubernetes.io/name": "database", "app.kubernetes.io/instance": number.to_string(),
                "apps.kubernetes.io/pod-index": number.to_string(),
                "statefulset.kubernetes.io/pod-name": format!("database-{number:06}"),
            },
            "annotations": { "backup.example.com/plan": "x".repeat(UNREAD) },
        },
        "spec": {
            "serviceAccountName": account, "automountServiceAccountToken": false, "nodeName": node_name(number),
            "containers": [{
                "name": "database", "image": "registry.example.com/database:1.2.3",
                "env": [
                    { "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                    { "name": "CLUSTER", "value": "database.default.svc.cluster.local" },
                ],
                "ports": [{ "name": "sql", "containerPort": 5432 }, { "name": "http", "containerPort": 8080 }],
                "resources": { "requests": { "cpu": "100m", "memory": "1Gi" }, "limits": { "memory": "2Gi" } },
                "livenessProbe": probe, "readinessProbe": probe,
                "volumeMounts": [{ "name": "data", "mountPath": "/var/lib/database" }],
            }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim_name(number) } }],
        },
    })
}

fn node_name(number: usize) -> String {
    format!("node-{:03}", number % 200)
}

/// SHA-256 in hexadecimal digits, behind a prefix.
fn digest(text: &str, prefix: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(prefix.to_owned(), |digits, byte| format!("{digits}{byte:02x}"))
}

/// Creates an unbound claim that waits for a provisioner, as the volume controller leaves it: for clusters in which that
/// controller does not run.
///
/// # Errors
/// When the API server refuses it.
pub async fn create_waiting_claim(client: &Client, namespace: &str, name: &str, driver: &str) -> Result<()> {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": name, "annotations": { "volume.kubernetes.io/storage-provisioner": driver } },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": driver,
            "resources": { "requests": { "storage": "1Mi" } },
        },
    });
    post(client, &format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"), &claim).await?;
    Ok(())
}

/// Creates many of them at once, with numbers for names.
///
/// # Errors
/// When the API server refuses one.
pub async fn create_waiting_claims(client: &Client, namespace: &str, driver: &str, count: usize) -> Result<()> {
    let created = (0..count).map(|number| async move {
        create_waiting_claim(client, namespace, &format!("waits-{number:06}"), driver).await
    });
    stream::iter(created).buffer_unordered(AT_ONCE).try_collect().await
}

/// Creates a volume of a driver, a node that has the driver, and an attachment of the one to the other, which waits for an
/// attacher. The driver does not know the volume.
///
/// # Errors
/// When the API server refuses one.
pub async fn create_waiting_attachment(client: &Client, name: &str, driver: &str) -> Result<()> {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Mi" }, "persistentVolumeReclaimPolicy": "Retain",
            "csi": { "driver": driver, "volumeHandle": name },
        },
    });
    let node = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": name },
        "spec": { "drivers": [{ "name": driver, "nodeID": name, "topologyKeys": [] }] },
    });
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": { "name": name },
        "spec": { "attacher": driver, "nodeName": name, "source": { "persistentVolumeName": name } },
    });
    post(client, "/api/v1/persistentvolumes", &volume).await?;
    post(client, "/apis/storage.k8s.io/v1/csinodes", &node).await?;
    post(client, "/apis/storage.k8s.io/v1/volumeattachments", &attachment).await?;
    Ok(())
}

/// Creates a claim that is bound to a volume of a driver and asks for more than it has. The driver does not know the volume.
///
/// # Errors
/// When the API server refuses one.
pub async fn create_growing_claim(client: &Client, namespace: &str, name: &str, driver: &str) -> Result<()> {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": driver, "volumeName": name,
            "resources": { "requests": { "storage": "2Mi" } },
        },
    });
    let claims = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
    let uid = post(client, &claims, &claim).await?;
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Mi" }, "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": driver, "csi": { "driver": driver, "volumeHandle": name },
            "claimRef": { "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": uid },
        },
    });
    post(client, "/api/v1/persistentvolumes", &volume).await?;
    let status =
        json!({ "status": { "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Mi" } } });
    patch(client, format!("{claims}/{name}/status"), &status).await
}

/// Creates the StorageClass of a driver, under the driver's name.
///
/// # Errors
/// When the API server refuses it.
pub async fn create_class(client: &Client, driver: &str) -> Result<()> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": driver }, "provisioner": driver,
    });
    post(client, "/apis/storage.k8s.io/v1/storageclasses", &class).await?;
    Ok(())
}

/// Gives the UID of the new object.
async fn post(client: &Client, path: &str, object: &Value) -> Result<String> {
    let request = Request::post(path).header("content-type", "application/json").body(serde_json::to_vec(object)?)?;
    let created = client.request::<Created>(request).await;
    let uid = created.with_context(|| format!("cannot create {}", object["metadata"]["name"]))?.metadata.uid;
    ensure!(!uid.is_empty(), "an object without UID");
    Ok(uid)
}

async fn patch(client: &Client, path: String, change: &Value) -> Result<()> {
    let request = Request::patch(&path).header("content-type", "application/merge-patch+json");
    let patched = client.request::<Created>(request.body(serde_json::to_vec(change)?)?).await;
    patched.with_context(|| format!("cannot patch {path}"))?;
    Ok(())
}
