//! `portworxVolume` and `pxd.portworx.com`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use storage_kube::in_tree::InTreePlugin;
use storage_kube::wire::{InTreeSource, SecretReference};

use crate::class::Class;
use crate::new_volume::CsiSource;
use crate::{CsiVolume, Secrets};

/// In a class and on a volume: the Secret that all calls take along.
const SECRET_NAME: &str = "openstorage.io/auth-secret-name";
const SECRET_NAMESPACE: &str = "openstorage.io/auth-secret-namespace";
/// The calls, as the keys of a class name them.
const CALLS: [&str; 6] =
    ["provisioner", "controller-publish", "node-publish", "node-stage", "controller-expand", "node-expand"];

pub(crate) fn class(class: Class) -> Class {
    let mut parameters = BTreeMap::new();
    for (key, value) in class.parameters {
        let item = match key.to_ascii_lowercase().as_str() {
            SECRET_NAME => "name",
            SECRET_NAMESPACE => "namespace",
            _ => {
                parameters.insert(key, value);
                continue;
            }
        };
        let keys = CALLS.iter().map(|call| format!("csi.storage.k8s.io/{call}-secret-{item}"));
        parameters.extend(keys.map(|key| (key, value.clone())));
    }
    Class { parameters, ..class }
}

pub(crate) fn to_csi(source: &InTreeSource, annotations: Option<&BTreeMap<String, String>>) -> CsiVolume {
    let annotation = |key: &str| annotations.and_then(|all| all.get(key)).cloned();
    let secret = annotation(SECRET_NAME).zip(annotation(SECRET_NAMESPACE));
    let secret = secret.map(|(name, namespace)| SecretReference { name, namespace });
    CsiVolume {
        // The Go library does not carry the mode over.
        read_only: false,
        secrets: Secrets {
            controller_publish: secret.clone(),
            node_stage: secret.clone(),
            node_publish: secret.clone(),
            controller_expand: secret.clone(),
            node_expand: secret,
        },
        ..CsiVolume::new(InTreePlugin::Portworx, source.id.clone(), source)
    }
}

pub(crate) fn source(csi: &CsiSource) -> Map<String, Value> {
    csi.as_source("volumeID", csi.handle())
}
