//! Classes of mutable attributes.

use std::collections::BTreeMap;

use controller_runtime::Projection;
use storage_kube::names::ClassName;
use storage_kube::wire::VolumeAttributesClass;

/// A class; everything in it is immutable in the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttributesClassRecord {
    /// `driverName`.
    pub(crate) driver: String,
    /// CSI `mutable_parameters`.
    pub(crate) parameters: BTreeMap<String, String>,
}

impl AttributesClassRecord {
    /// Of a class as the API server has it.
    pub(crate) fn of(class: VolumeAttributesClass) -> Self {
        Self { driver: class.driver_name, parameters: class.parameters }
    }
}

/// Keeps every class, so that a claim can tell "of another driver" from "not there"; a cluster has few.
pub(crate) struct AttributesClassProjection;

impl Projection for AttributesClassProjection {
    type Wire = VolumeAttributesClass;
    type Key = ClassName;
    type Record = AttributesClassRecord;
    type Group = ();

    fn key(&self, class: &VolumeAttributesClass) -> Option<ClassName> {
        class.metadata.name.as_deref().map(ClassName::from)
    }

    fn project(&self, class: VolumeAttributesClass) -> Option<AttributesClassRecord> {
        Some(AttributesClassRecord::of(class))
    }
}
