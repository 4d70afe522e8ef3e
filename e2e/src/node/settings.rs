//! Settings files of what runs on a node.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::places::Places;
use crate::{Cluster, cluster::Identity, image};

/// Copies files instead of stacking directories: images are tiny here, and any file system will do.
pub(super) const SNAPSHOTTER: &str = "native";

/// Of the kubelet: it serves nothing but its own address, and reports nothing as short that a test cannot help.
pub(super) fn kubelet(places: &Places, address: Ipv4Addr, host: &str, cluster: &Cluster, identity: &Identity) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": address, "healthzPort": 0,
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": cluster.authority() },
        },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": identity.certificate, "tlsPrivateKeyFile": identity.key,
        "containerRuntimeEndpoint": format!("unix://{}", places.containerd_socket().display()),
        "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/{host}"), "failCgroupV1": false, "failSwapOn": false,
        "volumePluginDir": places.kubelet().join("volume-plugins"),
        "podLogsDir": places.var_log().join("pods"),
        "resolvConf": "",
        "makeIPTablesUtilChains": false,
        "localStorageCapacityIsolation": false,
        "evictionHard": { "memory.available": "50Mi", "nodefs.available": "1%", "nodefs.inodesFree": "0%",
            "imagefs.available": "1%" },
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "2s",
    })
}

/// Of containerd.
pub(super) fn containerd(places: &Places) -> String {
    let path = |path: std::path::PathBuf| Value::from(path.to_string_lossy()).to_string();
    let unused = [
        "snapshotter.v1.blockfile",
        "snapshotter.v1.btrfs",
        "snapshotter.v1.devmapper",
        "snapshotter.v1.erofs",
        "snapshotter.v1.overlayfs",
        "snapshotter.v1.zfs",
        "nri.v1.nri",
        "tracing.processor.v1.otlp",
        "differ.v1.erofs",
    ];
    let unused: Vec<String> = unused.iter().map(|plugin| format!("io.containerd.{plugin}")).collect();
    format!(
        r#"version = 3
root = {root}
state = "/run/containerd"
disabled_plugins = {unused}
[grpc]
address = {socket}
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
disable_apparmor = true
disable_hugetlb_controller = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [{network_plugins}]
conf_dir = {network}
use_internal_loopback = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
snapshotter = "{SNAPSHOTTER}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = {runc}
[plugins."io.containerd.cri.v1.images"]
snapshotter = "{SNAPSHOTTER}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
platform = "linux"
snapshotter = "{SNAPSHOTTER}"
"#,
        root = path(places.containerd()),
        unused = json!(unused),
        socket = path(places.containerd_socket()),
        network_plugins = path(places.network_plugins()),
        network = path(places.network()),
        runc = path(places.programs().join("runc")),
        pause = image::NAME,
    )
}

/// Of the pods' network: a bridge without address, so that nothing has to be forwarded.
pub(super) fn network(host: &str) -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "pods",
        "plugins": [{
            "type": "bridge", "bridge": host,
            "ipam": { "type": "host-local", "dataDir": "/run/cni", "ranges": [[{ "subnet": "10.88.0.0/16" }]] },
        }],
    })
}
