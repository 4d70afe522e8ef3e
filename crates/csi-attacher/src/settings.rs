//! What the rules of this attacher depend on, fixed for the life of the process.

use std::time::Duration;

use controller_runtime::Backoff;
use csi_client::DriverInfo;
use csi_proto::csi::v1::{
    controller_service_capability::rpc::Type as ControllerRpc, plugin_capability::service::Type as PluginService,
};
use storage_kube::access_mode::Mapping;
use storage_kube::finalizers;
use storage_kube::in_tree::InTreePlugin;

use crate::args::Config;

/// What the driver can do, as far as the rules ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DriverFacts {
    /// Plugin capability CONTROLLER_SERVICE and controller capability PUBLISH_UNPUBLISH_VOLUME. Without it attaching is
    /// nothing but saying so.
    pub(crate) publishes: bool,
    /// PUBLISH_READONLY.
    pub(crate) publishes_readonly: bool,
    /// LIST_VOLUMES and LIST_VOLUMES_PUBLISHED_NODES.
    pub(crate) lists_published_nodes: bool,
    /// By SINGLE_NODE_MULTI_WRITER.
    pub(crate) access_modes: Mapping,
}

impl DriverFacts {
    pub(crate) fn of(driver: &DriverInfo) -> Self {
        let has = |rpc| driver.controller.has(rpc);
        let multi_writer = has(ControllerRpc::SingleNodeMultiWriter);
        Self {
            publishes: driver.plugin.has(PluginService::ControllerService)
                && has(ControllerRpc::PublishUnpublishVolume),
            publishes_readonly: has(ControllerRpc::PublishReadonly),
            lists_published_nodes: has(ControllerRpc::ListVolumes) && has(ControllerRpc::ListVolumesPublishedNodes),
            access_modes: if multi_writer { Mapping::SingleNodeMultiWriter } else { Mapping::Basic },
        }
    }
}

/// All that the decisions need besides the objects.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Name the driver gave in `GetPluginInfo`; `spec.attacher` of our attachments.
    pub(crate) driver: String,
    /// Ours, on attachments and volumes.
    pub(crate) finalizer: String,
    /// The plugin built into Kubernetes that the driver replaces.
    pub(crate) in_tree: Option<InTreePlugin>,
    pub(crate) facts: DriverFacts,
    /// `--default-fstype`.
    pub(crate) default_fs_type: String,
    /// `--max-entries`.
    pub(crate) max_entries: i32,
    /// Whether attach errors carry the gRPC code.
    pub(crate) error_codes: bool,
    /// `--timeout`.
    pub(crate) timeout: Duration,
    /// `--reconcile-sync`.
    pub(crate) reconcile_sync: Duration,
    /// `--retry-interval-start` and `--retry-interval-max`.
    pub(crate) backoff: Backoff,
    /// `--worker-threads`.
    pub(crate) worker_threads: usize,
    /// `--resync`.
    pub(crate) resync: Option<Duration>,
}

impl Settings {
    pub(crate) fn new(config: &Config, driver: &DriverInfo) -> Self {
        let name = driver.name.as_ref();
        Self {
            driver: name.to_owned(),
            finalizer: finalizers::attacher(name),
            in_tree: InTreePlugin::replaced_by(name),
            facts: DriverFacts::of(driver),
            default_fs_type: config.default_fs_type.clone(),
            max_entries: config.max_entries,
            error_codes: config.error_codes,
            timeout: config.timeout,
            reconcile_sync: config.reconcile_sync,
            backoff: config.backoff,
            worker_threads: config.worker_threads,
            resync: config.resync,
        }
    }
}
