//! What the rules of this resizer depend on, fixed for the life of the process.

use std::time::Duration;

use controller_runtime::Backoff;
use csi_client::DriverInfo;
use csi_proto::csi::v1::{
    controller_service_capability::rpc::Type as ControllerRpc, plugin_capability::service::Type as PluginService,
};
use storage_kube::access_mode::Mapping;
use storage_kube::in_tree::InTreePlugin;
use thiserror::Error;

use crate::args::Config;

/// Who makes a volume bigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expansion {
    /// The controller service of the driver; the node too if the driver says so for the volume.
    Controller,
    /// The node alone: here the new size is only noted.
    NodeOnly,
    /// Nobody.
    Unsupported,
}

/// Why there is nothing to do for a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Unsupported {
    #[error("CSI driver does not support controller service")]
    NoControllerService,
    #[error("CSI driver neither supports controller resize nor node resize, and cannot modify volumes")]
    NeitherExpandsNorModifies,
}

/// What the driver can do, as far as the rules ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DriverFacts {
    pub(crate) expansion: Expansion,
    /// MODIFY_VOLUME.
    pub(crate) modifies: bool,
    /// By SINGLE_NODE_MULTI_WRITER.
    pub(crate) access_modes: Mapping,
}

impl DriverFacts {
    pub(crate) fn of(driver: &DriverInfo) -> Result<Self, Unsupported> {
        let has = |rpc| driver.controller.has(rpc);
        if !driver.plugin.has(PluginService::ControllerService) {
            return Err(Unsupported::NoControllerService);
        }
        let expansion = match (has(ControllerRpc::ExpandVolume), driver.node_expands) {
            (true, _) => Expansion::Controller,
            (false, true) => Expansion::NodeOnly,
            (false, false) => Expansion::Unsupported,
        };
        let modifies = has(ControllerRpc::ModifyVolume);
        if expansion == Expansion::Unsupported && !modifies {
            return Err(Unsupported::NeitherExpandsNorModifies);
        }
        let multi_writer = has(ControllerRpc::SingleNodeMultiWriter);
        let access_modes = if multi_writer { Mapping::SingleNodeMultiWriter } else { Mapping::Basic };
        Ok(Self { expansion, modifies, access_modes })
    }
}

/// All that the decisions need besides the objects.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
pub(crate) struct Settings {
    /// Name the driver gave in `GetPluginInfo`.
    pub(crate) driver: String,
    /// The plugin built into Kubernetes that the driver replaces.
    pub(crate) in_tree: Option<InTreePlugin>,
    pub(crate) facts: DriverFacts,
    /// Whether classes of attributes are looked at: the gate, and the driver can.
    pub(crate) modifies: bool,
    /// Gate `RecoverVolumeExpansionFailure`.
    pub(crate) recovers: bool,
    /// Gate `AnnotateFsResize`.
    pub(crate) annotates: bool,
    /// `--handle-volume-inuse-error`.
    pub(crate) handle_in_use: bool,
    /// `--extra-modify-metadata`.
    pub(crate) extra_modify_metadata: bool,
    /// `--retry-interval-start` and `--retry-interval-max`.
    pub(crate) backoff: Backoff,
    /// `--workers`.
    pub(crate) workers: usize,
    /// `--resync-period`.
    pub(crate) resync: Option<Duration>,
}

impl Settings {
    pub(crate) fn new(config: &Config, driver: &DriverInfo) -> Result<Self, Unsupported> {
        let name = driver.name.as_ref();
        let facts = DriverFacts::of(driver)?;
        Ok(Self {
            driver: name.to_owned(),
            in_tree: InTreePlugin::replaced_by(name),
            facts,
            modifies: config.attributes_class && facts.modifies,
            recovers: config.recovers,
            annotates: config.annotates,
            handle_in_use: config.handle_in_use,
            extra_modify_metadata: config.extra_modify_metadata,
            backoff: config.backoff,
            workers: config.workers,
            resync: config.resync,
        })
    }

    /// Whether volumes are made bigger at all.
    pub(crate) fn expands(&self) -> bool {
        self.facts.expansion != Expansion::Unsupported
    }
}
