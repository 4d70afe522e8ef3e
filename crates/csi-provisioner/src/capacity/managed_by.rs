//! The labels by which a provisioner knows its CSIStorageCapacity objects.

use std::collections::BTreeMap;

use storage_kube::names::NodeName;

const DRIVER_NAME: &str = "csi.storage.k8s.io/drivername";
const MANAGED_BY: &str = "csi.storage.k8s.io/managed-by";
/// Of the provisioner for the whole cluster; also the beginning of the others.
const PROVISIONER: &str = "external-provisioner";
/// What a label's value may have (Kubernetes "Labels and Selectors").
const LONGEST: usize = 63;
/// A hash in hexadecimal digits.
const HASH: usize = 8;

/// Whose objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManagedBy {
    driver: String,
    provisioner: String,
}

impl ManagedBy {
    /// The provisioner of a driver for one node, or for the whole cluster.
    pub(crate) fn new(driver: &str, node: Option<&NodeName>) -> Self {
        let provisioner = node.map_or_else(|| PROVISIONER.to_owned(), |node| joined(PROVISIONER, node.as_str()));
        Self { driver: driver.to_owned(), provisioner }
    }

    /// The labels of its objects.
    pub(crate) fn labels(&self) -> [(&'static str, &str); 2] {
        [(DRIVER_NAME, &self.driver), (MANAGED_BY, &self.provisioner)]
    }

    /// Its name, as the label has it.
    pub(crate) fn provisioner(&self) -> &str {
        &self.provisioner
    }

    /// Selects the objects of all provisioners of the driver.
    pub(crate) fn selector_of_driver(&self) -> String {
        format!("{DRIVER_NAME}={},{MANAGED_BY}", self.driver)
    }

    /// The name of the provisioner of another node, whose these labels are.
    pub(crate) fn other_node<'l>(&self, labels: &'l BTreeMap<String, String>) -> Option<&'l str> {
        let by = labels.get(MANAGED_BY).filter(|by| **by != self.provisioner)?;
        by.strip_prefix(PROVISIONER)?.starts_with('-').then_some(by)
    }

    /// Selects its objects.
    pub(crate) fn selector(&self) -> String {
        let [(driver, name), (by, provisioner)] = self.labels();
        format!("{driver}={name},{by}={provisioner}")
    }

    /// Whether an object with these labels is its own.
    pub(crate) fn manages(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels().iter().all(|(key, value)| labels.get(*key).is_some_and(|label| label == value))
    }
}

/// `base-suffix` within 63 characters: what is too long is cut, and a hash of what was cut keeps names apart. The names are
/// those of the Go provisioner, so that either takes over the objects of the other.
pub(crate) fn joined(base: &str, suffix: &str) -> String {
    let whole = if base.is_empty() { suffix.to_owned() } else { format!("{base}-{suffix}") };
    if whole.len() <= LONGEST {
        return whole;
    }
    let room = LONGEST.saturating_sub(HASH + 2 + suffix.len());
    if room > 0 && !base.is_empty() {
        return format!("{}-{:08x}-{suffix}", cut(base, room), fnv1a(base));
    }
    let hash = fnv1a(&whole);
    if base.is_empty() { format!("{hash:08x}") } else { format!("{}-{hash:08x}", cut(base, LONGEST - HASH - 1)) }
}

fn cut(text: &str, longest: usize) -> &str {
    text.get(..longest).unwrap_or(text)
}

/// FNV-1a, 32 bits.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
