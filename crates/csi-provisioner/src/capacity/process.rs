//! What of the capacities outlives a term.

use std::sync::Arc;
use std::time::Duration;

use super::managed_by::ManagedBy;
use super::metrics::CapacityMetrics;
use super::owner::Owner;
use super::segments::{SegmentSource, SegmentTable};
use crate::records::CapacityProjection;
use crate::settings::{CapacityFlags, Settings};

/// See the module.
pub(crate) struct CapacityProcess {
    pub(crate) flags: CapacityFlags,
    /// `--timeout`.
    pub(crate) timeout: Duration,
    pub(crate) owner: Option<Owner>,
    pub(crate) source: SegmentSource,
    pub(crate) table: Arc<SegmentTable>,
    pub(crate) projection: CapacityProjection,
    pub(crate) metrics: CapacityMetrics,
}

impl CapacityProcess {
    /// `None` where the flags ask for no capacities. Segments come from `source`; the objects are those of the node that
    /// the settings name, if they name one.
    pub(crate) fn new(
        settings: &Settings,
        owner: Option<Owner>,
        source: SegmentSource,
        metrics: CapacityMetrics,
    ) -> Option<Self> {
        let flags = settings.capacity.clone()?;
        let managed_by = ManagedBy::new(&settings.names.driver, settings.node.as_ref().map(|node| &node.name));
        let table = Arc::new(SegmentTable::default());
        let projection =
            CapacityProjection { managed_by, owner: owner.as_ref().map(Owner::uid), segments: Arc::clone(&table) };
        Some(Self { flags, timeout: settings.timeout, owner, source, table, projection, metrics })
    }
}
