//! Drivers that replace an in-tree volume plugin (KEP-625): claims and volumes may still carry the plugin's name.
//!
//! Translating those objects is not built yet; knowing the names is what keeps such a claim from being taken for one
//! of ours, or being dropped in silence.

use controller_runtime::Mention;
use storage_kube::in_tree::InTreePlugin;

use crate::records::ClassRecord;
use crate::records::class::ClassOwner;

/// The names under which objects belong to this provisioner: the driver's, and the in-tree plugin's that it replaces.
#[derive(Debug, Clone)]
pub(crate) struct ProvisionerNames {
    /// Name the driver gave in `GetPluginInfo`.
    pub(crate) driver: String,
    /// See [`InTreePlugin`].
    pub(crate) in_tree: Option<&'static str>,
    mention: Mention,
}

impl ProvisionerNames {
    pub(crate) fn of(driver: &str) -> Self {
        let in_tree = InTreePlugin::replaced_by(driver).map(InTreePlugin::as_str);
        Self { driver: driver.to_owned(), in_tree, mention: Mention::of([driver].into_iter().chain(in_tree)) }
    }

    /// `provisioner` of a class as it is written there.
    pub(crate) fn written_in(&self, class: &ClassRecord) -> &str {
        match (class.owner, self.in_tree) {
            (ClassOwner::InTree, Some(plugin)) => plugin,
            _ => &self.driver,
        }
    }

    pub(crate) fn is_driver(&self, name: &str) -> bool {
        self.driver == name
    }

    pub(crate) fn is_in_tree(&self, name: &str) -> bool {
        self.in_tree == Some(name)
    }

    /// Whether an object with this JSON may hold one of the names. One that does not belongs to somebody else.
    pub(crate) fn may_be_in(&self, json: &[u8]) -> bool {
        self.mention.may_be_in(json)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.is_driver(name) || self.is_in_tree(name)
    }
}
