//! Volumes (PersistentVolumes) that this provisioner may have to reclaim.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_runtime::Projection;
use memchr::memchr;
use memchr::memmem::{self, Finder};
use storage_kube::names::{ClaimUid, ClassName, Interner, VolumeHandle, VolumeName};
use storage_kube::secret_ref::SecretRef;
use storage_kube::topology::Segment;
use storage_kube::uid::Uid;
use storage_kube::volume_name::{UuidLength, volume_name};
use storage_kube::wire::{ClaimReference, PersistentVolume, ReclaimPolicy, VolumePhase};
use storage_kube::{annotations, finalizers};

use crate::migration::{ProvisionerNames, volume_source};
use crate::node_deployment::reach::reaches;

/// What backs the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VolumeSource {
    /// A volume of this driver.
    Driver(VolumeHandle),
    /// A volume of the plugin that this driver replaces, by the driver's name for it.
    Migrated(VolumeHandle),
    /// A volume of that plugin whose source makes no sense to the driver.
    Untranslatable(Box<csi_translation::Error>),
    /// A volume of another driver, although an annotation names this provisioner.
    OtherDriver(Arc<str>),
    /// Any other kind of source, although an annotation names this provisioner.
    NotCsi,
}

impl VolumeSource {
    /// What this driver calls the volume, if it knows it.
    pub(crate) fn handle(&self) -> Option<&VolumeHandle> {
        match self {
            Self::Driver(handle) | Self::Migrated(handle) => Some(handle),
            Self::Untranslatable(_) | Self::OtherDriver(_) | Self::NotCsi => None,
        }
    }
}

/// Which Secret `DeleteVolume` gets, as the volume's annotations say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeletionSecret {
    /// Both annotations are there and name one.
    Named(Box<SecretRef>),
    /// Both are there and name none.
    None,
    /// Not annotated (statically provisioned, or by an old release): the class decides.
    AskClass,
}

/// The class of a volume. Nearly always the field alone says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VolumeClass {
    /// `spec.storageClassName`; empty when it is not there.
    Field(ClassName),
    /// The beta annotation says something else than the field.
    Annotated(Box<Annotated>),
}

/// See [`VolumeClass`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Annotated {
    annotation: ClassName,
    field: ClassName,
}

impl VolumeClass {
    fn new(name: &str, field: &str, interner: &Interner) -> Self {
        let class = |name: &str| ClassName::from(interner.intern(name));
        if name == field {
            return Self::Field(class(field));
        }
        Self::Annotated(Box::new(Annotated { annotation: class(name), field: class(field) }))
    }

    /// The class of the volume: the beta annotation wins over the field.
    pub(crate) fn name(&self) -> &ClassName {
        match self {
            Self::Field(class) => class,
            Self::Annotated(both) => &both.annotation,
        }
    }

    /// Label `class` of metrics: the field, as in the Go provisioner.
    pub(crate) fn label(&self) -> &str {
        match self {
            Self::Field(class) => class.as_str(),
            Self::Annotated(both) => both.field.as_str(),
        }
    }
}

/// One volume of this driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeRecord {
    pub(crate) name: VolumeName,
    pub(crate) uid: Uid,
    pub(crate) phase: Option<VolumePhase>,
    pub(crate) reclaim_policy: Option<ReclaimPolicy>,
    /// `metadata.deletionTimestamp` is set.
    pub(crate) deleting: bool,
    /// Our finalizer is on it.
    pub(crate) protected: bool,
    /// This process may delete it at the driver: it serves the whole cluster, or a node that reaches the volume.
    pub(crate) reachable: bool,
    pub(crate) source: VolumeSource,
    pub(crate) class: VolumeClass,
    pub(crate) deletion_secret: DeletionSecret,
    pub(crate) claim: Option<Box<ClaimReference>>,
}

impl VolumeRecord {
    /// UID of the claim that the volume is for.
    pub(crate) fn claim_uid(&self) -> Option<ClaimUid> {
        let uid = self.claim.as_ref().and_then(|claim| claim.uid.as_deref()).filter(|uid| !uid.is_empty())?;
        Some(ClaimUid(Uid::from(uid)))
    }

    /// Whether the volume is, or can become, this claim's.
    pub(crate) fn is_for(&self, claim: &ClaimUid) -> bool {
        match self.claim_uid() {
            Some(uid) => uid == *claim,
            None => !matches!(self.source, VolumeSource::OtherDriver(_)),
        }
    }
}

/// Keeps the volumes this provisioner is responsible for.
pub(crate) struct VolumeProjection {
    pub(crate) names: ProvisionerNames,
    /// Also of names of volumes that are not of the usual form, which other records share.
    pub(crate) interner: Arc<Interner>,
    /// Where the node of this process is, if it serves one and that is known.
    pub(crate) place: Option<Segment>,
    pub(crate) naming: VolumeNaming,
}

/// How the volumes of claims are named, to find those of others that are in the way.
///
/// The UID of a claim is not known before the claim exists. So a volume of another driver has such a name by intention alone:
/// it was made for the same claim, or it has no claim. A volume that is for another claim is not kept, whatever its name: after
/// a restore of objects all volumes of a cluster have names of former claims.
pub(crate) struct VolumeNaming {
    prefix: String,
    length: UuidLength,
    /// How the API server begins such a name.
    key: Finder<'static>,
}

impl VolumeNaming {
    pub(crate) fn new(prefix: &str, length: UuidLength) -> Self {
        let key = Finder::new(format!("\"name\":\"{prefix}-").as_bytes()).into_owned();
        Self { prefix: prefix.to_owned(), length, key }
    }

    fn may_be_in(&self, json: &[u8]) -> bool {
        self.key.find_iter(json).any(|at| {
            let rest = &json[at + self.key.needle().len()..];
            let uid = &rest[..memchr(b'"', rest).unwrap_or(rest.len())];
            self.is_part_of_uid(uid) && Self::may_be_in_the_way(json, uid)
        })
    }

    /// False for a volume that is for another claim, or that its own claim has, as nearly all are: seen without parsing it.
    fn may_be_in_the_way(json: &[u8], uid: &[u8]) -> bool {
        let has = |text: &[u8]| memmem::find(json, text).is_some();
        if has(&[b"\"uid\":\"", uid].concat()) {
            !has(br#""phase":"Bound""#) && !has(br#""phase":"Released""#)
        } else {
            !has(br#""claimRef":"#)
        }
    }

    fn is_part_of_uid(&self, text: &[u8]) -> bool {
        let length = match self.length {
            UuidLength::Full => 36,
            UuidLength::First(length) => length.get(),
        };
        text.len() == length && text.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
    }

    /// Whether the volume is called as the volume of some claim would be, and is for that claim or for none.
    fn is_in_the_way(&self, name: &str, volume: &PersistentVolume) -> bool {
        let rest = name.strip_prefix(&self.prefix).and_then(|rest| rest.strip_prefix('-'));
        if !rest.is_some_and(|rest| self.is_part_of_uid(rest.as_bytes())) {
            return false;
        }
        let Some(claim) = &volume.spec.claim_ref else { return true };
        let own = volume_name(&self.prefix, claim.uid.as_deref().unwrap_or_default(), self.length);
        let settled = matches!(volume.status.phase, Some(VolumePhase::Bound | VolumePhase::Released));
        own.is_ok_and(|own| own.to_string() == name) && !settled
    }
}

impl VolumeProjection {
    /// Of a volume that others are responsible for: that it has its name. Nothing is ever done with it.
    fn in_the_way(&self, volume: PersistentVolume) -> Option<VolumeRecord> {
        let name = volume.metadata.name.as_deref()?;
        if !self.naming.is_in_the_way(name, &volume) {
            return None;
        }
        let driver = volume.spec.csi.as_ref().map_or("", |csi| &csi.driver);
        Some(VolumeRecord {
            name: VolumeName::shared(name, &self.interner),
            uid: Uid::from(volume.metadata.uid.as_deref().unwrap_or_default()),
            phase: None,
            reclaim_policy: None,
            deleting: false,
            protected: false,
            reachable: false,
            source: VolumeSource::OtherDriver(Arc::from(driver)),
            class: VolumeClass::new("", "", &self.interner),
            deletion_secret: DeletionSecret::None,
            claim: volume.spec.claim_ref.map(Box::new),
        })
    }

    /// A provisioned volume belongs to who its annotation names; one made by hand to its CSI driver.
    fn responsible(&self, volume: &PersistentVolume) -> bool {
        let annotation = |key: &str| volume.metadata.annotations.as_ref().and_then(|all| all.get(key));
        let migrated = annotation(annotations::MIGRATED_TO).is_some_and(|to| self.names.contains(to));
        match (annotation(annotations::PROVISIONED_BY), &volume.spec.csi) {
            (Some(by), _) => migrated || self.names.contains(by),
            (None, Some(csi)) => self.names.contains(&csi.driver),
            (None, None) => migrated,
        }
    }
}

/// Whether a volume that this node does not reach is of interest all the same. One without a claim yet shows that its
/// claim is provisioned. And a retained volume that somebody deletes must lose our finalizer even if its node is gone.
fn concerns_every_node(volume: &PersistentVolume, protected: bool) -> bool {
    let settled = matches!(volume.status.phase, Some(VolumePhase::Bound | VolumePhase::Released | VolumePhase::Failed));
    let kept = matches!(volume.spec.reclaim_policy, Some(ReclaimPolicy::Retain | ReclaimPolicy::Recycle));
    !settled || (kept && protected && volume.metadata.deletion_timestamp.is_some())
}

fn deletion_secret(annotations: Option<&BTreeMap<String, String>>) -> DeletionSecret {
    let value = |key: &str| annotations.and_then(|all| all.get(key));
    match (value(annotations::DELETION_SECRET_NAME), value(annotations::DELETION_SECRET_NAMESPACE)) {
        (Some(name), Some(namespace)) if !name.is_empty() && !namespace.is_empty() => {
            DeletionSecret::Named(Box::new(SecretRef { namespace: namespace.clone(), name: name.clone() }))
        }
        (Some(_), Some(_)) => DeletionSecret::None,
        _ => DeletionSecret::AskClass,
    }
}

impl Projection for VolumeProjection {
    type Wire = PersistentVolume;
    type Key = VolumeName;
    type Record = VolumeRecord;
    type Group = ();

    fn may_concern(&self, json: &[u8]) -> bool {
        self.names.may_be_in(json) || self.naming.may_be_in(json)
    }

    fn key(&self, volume: &PersistentVolume) -> Option<VolumeName> {
        volume.metadata.name.as_deref().map(|name| VolumeName::shared(name, &self.interner))
    }

    fn project(&self, volume: PersistentVolume) -> Option<VolumeRecord> {
        if !self.responsible(&volume) {
            return self.in_the_way(volume);
        }
        let (plugin, affinity) = (volume.spec.in_tree_plugin(), volume.spec.node_affinity.as_deref());
        let reachable = reaches(self.place.as_ref(), plugin, affinity);
        let protected = volume
            .metadata
            .finalizers
            .as_deref()
            .is_some_and(|all| finalizers::contains(all, finalizers::VOLUME_PROTECTION));
        if !reachable && !concerns_every_node(&volume, protected) {
            return None;
        }
        let source = volume_source(&self.names, &volume, &self.interner);
        Some(VolumeRecord {
            name: VolumeName::shared(volume.metadata.name.as_deref()?, &self.interner),
            uid: Uid::from(volume.metadata.uid.as_deref().unwrap_or_default()),
            phase: volume.status.phase,
            reclaim_policy: volume.spec.reclaim_policy,
            deleting: volume.metadata.deletion_timestamp.is_some(),
            protected,
            reachable,
            source,
            class: VolumeClass::new(
                volume.class_name(),
                volume.spec.storage_class_name.as_deref().unwrap_or_default(),
                &self.interner,
            ),
            deletion_secret: deletion_secret(volume.metadata.annotations.as_ref()),
            claim: volume.spec.claim_ref.map(Box::new),
        })
    }
}
