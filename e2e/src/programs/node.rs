//! What a node runs: the container runtime, its network plugins, the kubelet.

use super::{GoProgram, KUBERNETES, STRIPPED};

/// The agent that runs pods and mounts their volumes.
pub const KUBELET: GoProgram = GoProgram {
    name: "kubelet",
    module: "kubernetes",
    package: "k8s.io/kubernetes/cmd/kubelet",
    link_flags: KUBERNETES,
    takes: "5 minutes",
};
/// Decides which node a pod runs on.
pub const KUBE_SCHEDULER: GoProgram = GoProgram {
    name: "kube-scheduler",
    module: "kubernetes",
    package: "k8s.io/kubernetes/cmd/kube-scheduler",
    link_flags: KUBERNETES,
    takes: "1 minute",
};
/// The container runtime.
pub const CONTAINERD: GoProgram = GoProgram {
    name: "containerd",
    module: "containerd",
    package: "github.com/containerd/containerd/v2/cmd/containerd",
    link_flags: STRIPPED,
    takes: "3 minutes",
};
/// Stands between the runtime and the containers of one pod.
pub const CONTAINERD_SHIM: GoProgram = GoProgram {
    name: "containerd-shim-runc-v2",
    module: "containerd",
    package: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
    link_flags: STRIPPED,
    takes: "1 minute",
};
/// Brings images into the runtime.
pub const CTR: GoProgram = GoProgram {
    name: "ctr",
    module: "containerd",
    package: "github.com/containerd/containerd/v2/cmd/ctr",
    link_flags: STRIPPED,
    takes: "half a minute",
};
/// Makes one container.
pub const RUNC: GoProgram = GoProgram {
    name: "runc",
    module: "runc",
    package: "github.com/opencontainers/runc",
    link_flags: STRIPPED,
    takes: "half a minute",
};
/// Connects the pods of a node with each other.
pub const CNI_BRIDGE: GoProgram = GoProgram {
    name: "bridge",
    module: "cni",
    package: "github.com/containernetworking/plugins/plugins/main/bridge",
    link_flags: STRIPPED,
    takes: "a few seconds",
};
/// Gives pods their addresses.
pub const CNI_HOST_LOCAL: GoProgram = GoProgram {
    name: "host-local",
    module: "cni",
    package: "github.com/containernetworking/plugins/plugins/ipam/host-local",
    link_flags: STRIPPED,
    takes: "a few seconds",
};

/// Everything that clusters with nodes need beyond a control plane.
pub const ALL: &[GoProgram] =
    &[KUBELET, KUBE_SCHEDULER, CONTAINERD, CONTAINERD_SHIM, CTR, RUNC, CNI_BRIDGE, CNI_HOST_LOCAL];
