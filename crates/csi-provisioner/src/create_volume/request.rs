//! Claim and class → what is asked of the driver and what the volume will look like. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_proto::csi::v1::{CapacityRange, CreateVolumeRequest};
use storage_kube::names::VolumeName;
use storage_kube::secret_ref::{self, ClaimValues, SecretKind, SecretRef, TemplateValues};
use storage_kube::volume_capability::{AccessType, volume_capabilities};
use storage_kube::volume_mode::VolumeMode;
use storage_kube::{fs_type, parameters, quantity, volume_name};

use crate::data_source::{Content, SourceKey};
use crate::error::PlanError;
use crate::migration;
use crate::records::class::ClassOwner;
use crate::records::{ClaimRecord, ClassRecord};
use crate::settings::Settings;
use crate::topology::Requirement;

/// The Secrets that the class names for later calls; stored on the volume, not read here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SecretRefs {
    pub(crate) provisioner: Option<SecretRef>,
    pub(crate) controller_publish: Option<SecretRef>,
    pub(crate) node_stage: Option<SecretRef>,
    pub(crate) node_publish: Option<SecretRef>,
    pub(crate) controller_expand: Option<SecretRef>,
    pub(crate) node_expand: Option<SecretRef>,
    pub(crate) controller_modify: Option<SecretRef>,
}

/// Everything one claim's provisioning needs, fixed before the first call: every retry sends this request.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) claim: Arc<ClaimRecord>,
    /// As the driver understands it, if it names the plugin that the driver replaces.
    pub(crate) class: Arc<ClassRecord>,
    pub(crate) volume_name: VolumeName,
    /// Bytes, 0 when the claim asks for no size.
    pub(crate) requested_bytes: i64,
    /// Empty for block volumes.
    pub(crate) fs_type: String,
    pub(crate) secrets: SecretRefs,
    /// Where the volume may be, once the nodes have been looked at; `None`: anywhere.
    pub(crate) accessibility: Option<Requirement>,
    /// CSI `CreateVolumeRequest` without `accessibility_requirements`; its `secrets` are filled in when the provisioner Secret has been read.
    pub(crate) request: CreateVolumeRequest,
}

impl Plan {
    /// Whether the volume will be one of the plugin that the driver replaces.
    pub(crate) fn is_migrated(&self) -> bool {
        self.class.owner == ClassOwner::InTree
    }

    /// The request in full, the same each time.
    pub(crate) fn message(&self) -> CreateVolumeRequest {
        let accessibility_requirements = self.accessibility.as_ref().map(Into::into);
        CreateVolumeRequest { accessibility_requirements, ..self.request.clone() }
    }
}

/// Builds the plan, or says what in claim, class or flags forbids it.
pub(crate) fn plan(settings: &Settings, claim: &Arc<ClaimRecord>, class: &Arc<ClassRecord>) -> Result<Plan, PlanError> {
    if !settings.driver.provisions {
        return Err(PlanError::NoDynamicProvisioning { driver: settings.names.driver.clone() });
    }
    if claim.has_selector {
        return Err(PlanError::Selector);
    }
    let class = &migration::csi_class(&settings.names, class)?;
    let flags = &settings.flags;
    let volume_name = volume_name::volume_name(&flags.volume_name_prefix, &claim.uid.to_string(), flags.uuid_length)?;
    let fs_type = fs_type::resolve(&class.parameters, &flags.default_fs_type)?;
    if let Some(key) = &fs_type.deprecated_key {
        tracing::warn!(class = %class.name, parameter = key, "deprecated class parameter: use csi.storage.k8s.io/fstype");
    }
    let block = claim.volume_mode == Some(VolumeMode::Block);
    let access = if block {
        AccessType::Block
    } else {
        AccessType::Mount { fs_type: &fs_type.fs_type, mount_flags: &class.mount_options }
    };
    let capabilities = volume_capabilities(&claim.access_modes, settings.driver.access_modes, access)?;
    let requested_bytes = claim.requested.as_deref().map_or(Ok(0), quantity::bytes)?;
    let request_name = volume_name.to_string();
    let secrets = secret_refs(claim, class, &request_name)?;
    let mut request_parameters = parameters::strip_reserved(&class.parameters)?;
    if flags.extra_create_metadata {
        parameters::add_claim_metadata(
            &mut request_parameters,
            claim.namespace.as_str(),
            claim.name.as_str(),
            &request_name,
        );
    }
    let request = CreateVolumeRequest {
        name: request_name,
        capacity_range: Some(CapacityRange { required_bytes: requested_bytes, limit_bytes: 0 }),
        volume_capabilities: capabilities,
        parameters: request_parameters.into_iter().collect(),
        secrets: BTreeMap::new(),
        volume_content_source: None,
        accessibility_requirements: None,
        mutable_parameters: BTreeMap::new(),
    };
    Ok(Plan {
        claim: Arc::clone(claim),
        class: Arc::clone(class),
        volume_name,
        requested_bytes,
        fs_type: if block { String::new() } else { fs_type.fs_type },
        secrets,
        accessibility: None,
        request,
    })
}

/// Whether the driver can do what the claim asks for beyond an empty volume.
pub(crate) fn check_capabilities(settings: &Settings, claim: &ClaimRecord, content: &Content) -> Result<(), PlanError> {
    let facts = &settings.driver;
    let driver = || settings.names.driver.clone();
    if !facts.provisions {
        return Err(PlanError::NoDynamicProvisioning { driver: driver() });
    }
    match content {
        Content::Driver(SourceKey::Snapshot(..)) if !facts.snapshots => {
            return Err(PlanError::NoSnapshots { driver: driver() });
        }
        Content::Driver(SourceKey::Claim(..)) if !facts.clones => {
            return Err(PlanError::NoClones { driver: driver() });
        }
        Content::Driver(_) | Content::Empty | Content::Populator => {}
    }
    if settings.flags.attributes_class_gate && claim.volume_attributes_class.is_some() && !facts.modifies {
        return Err(PlanError::NoModification { driver: driver() });
    }
    Ok(())
}

fn secret_refs(claim: &ClaimRecord, class: &ClassRecord, volume_name: &str) -> Result<SecretRefs, PlanError> {
    let values = TemplateValues {
        volume_name,
        claim: Some(ClaimValues {
            namespace: claim.namespace.as_str(),
            name: claim.name.as_str(),
            annotations: Some(&claim.annotations),
        }),
    };
    let resolve = |kind| secret_ref::resolve(kind, &class.parameters, &values);
    Ok(SecretRefs {
        provisioner: resolve(SecretKind::Provisioner)?,
        controller_publish: resolve(SecretKind::ControllerPublish)?,
        node_stage: resolve(SecretKind::NodeStage)?,
        node_publish: resolve(SecretKind::NodePublish)?,
        controller_expand: resolve(SecretKind::ControllerExpand)?,
        node_expand: resolve(SecretKind::NodeExpand)?,
        controller_modify: resolve(SecretKind::ControllerModify)?,
    })
}
