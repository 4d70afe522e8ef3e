//! The answers of both, in a form in which they can be compared.

use std::fmt;

use csi_translation::{
    Class, CsiVolume, Error, class_provisioner, class_to_csi, repaired_handle, topology, volume_to_csi,
    volume_to_in_tree,
};
use serde_json::{Map, Value, json};
use storage_kube::access_mode::AccessMode;
use storage_kube::in_tree::InTreePlugin;
use storage_kube::wire::{AllowedTopology, PersistentVolume, SecretReference, StorageClass};

/// What comes of a question.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Without fields that are null or empty.
    Result(Value),
    /// Its kind and its text.
    Error(Kind, String),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Result(value) => value.fmt(f),
            Self::Error(kind, text) => write!(f, "{kind:?}: {text}"),
        }
    }
}

/// Errors are the same when they are about the same thing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ZonesTwice,
    /// An id, URI or handle.
    Handle,
    NodeId,
    Region,
    Partition,
    Disk,
    SecretNamespace,
    Other,
}

impl Kind {
    fn of(error: &Error) -> Self {
        match error {
            Error::NotInTree | Error::NotCsi => Self::Other,
            Error::ZonesTwice => Self::ZonesTwice,
            Error::Handle { .. } => Self::Handle,
            Error::NodeId { .. } => Self::NodeId,
            Error::Region { .. } => Self::Region,
            Error::Partition(_) => Self::Partition,
            Error::DiskKind(_) => Self::Disk,
            Error::SecretNamespace => Self::SecretNamespace,
        }
    }

    fn of_text(text: &str) -> Self {
        let kinds = [
            ("cannot simultaneously set allowed topologies", Self::ZonesTwice),
            ("node handle has wrong number", Self::NodeId),
            ("convert partition", Self::Partition),
            ("is not supported in csi migration", Self::Disk),
            ("could not find a secret namespace", Self::SecretNamespace),
            ("failed to translate topology", Self::Region),
            ("failed to get region from zone", Self::Region),
            ("to EBS Volume ID", Self::Handle),
            ("failed to get id components", Self::Handle),
            ("volume handle", Self::Handle),
            ("could not get disk name", Self::Handle),
            ("error parsing volume id", Self::Handle),
        ];
        kinds.into_iter().find_map(|(part, kind)| text.contains(part).then_some(kind)).unwrap_or(Self::Other)
    }
}

/// What Go answered, as far as it is ours to answer.
pub(crate) fn go_answer(question: &Value, answer: &Value) -> Answer {
    if let Some(text) = answer["error"].as_str() {
        assert!(!text.starts_with("panic") && !text.starts_with("input"), "{question} {text}");
        return Answer::Error(Kind::of_text(text), text.to_owned());
    }
    let object = &answer["result"];
    Answer::Result(pruned(match question["operation"].as_str().unwrap() {
        "class" => {
            json!({ "provisioner": object["provisioner"], "parameters": object["parameters"], "allowed": object["allowedTopologies"] })
        }
        "volume-to-csi" => {
            let spec = &object["spec"];
            json!({ "csi": spec["csi"], "accessModes": spec["accessModes"], "nodeAffinity": spec["nodeAffinity"] })
        }
        _ => object.clone(),
    }))
}

pub(crate) fn our_answer(question: &Value) -> Answer {
    let object = &question["object"];
    let result = match question["operation"].as_str().unwrap() {
        "class" => class(question),
        "volume-to-csi" => of_plugin(object),
        "volume-to-in-tree" => volume_to_in_tree(object.clone()),
        "repair" => {
            let text = |field: &str| question[field].as_str().unwrap();
            let plugin = InTreePlugin::replaced_by(text("driver")).unwrap();
            repaired_handle(plugin, text("handle"), text("node")).map(Value::String)
        }
        _ => Ok(names(question)),
    };
    match result {
        Ok(value) => Answer::Result(pruned(value)),
        Err(error) => Answer::Error(Kind::of(&error), error.to_string()),
    }
}

fn names(question: &Value) -> Value {
    let plugin = InTreePlugin::ALL.into_iter().find(|plugin| question["plugin"] == plugin.as_str());
    let replaced = InTreePlugin::replaced_by(question["driver"].as_str().unwrap());
    let volume: PersistentVolume = serde_json::from_value(question["object"].clone()).unwrap();
    json!({
        "driver": plugin.map_or("", InTreePlugin::driver),
        "plugin": replaced.map_or("", InTreePlugin::as_str),
        "migratable": volume.spec.in_tree_plugin().is_some(),
    })
}

fn class(question: &Value) -> Result<Value, Error> {
    let plugin = InTreePlugin::ALL.into_iter().find(|plugin| question["plugin"] == plugin.as_str()).unwrap();
    let class: StorageClass = serde_json::from_value(question["object"].clone()).unwrap();
    let class = Class { parameters: class.parameters, allowed_topologies: class.allowed_topologies };
    let class = class_to_csi(plugin, class)?;
    let term = |term: &AllowedTopology| {
        let expressions = term.match_label_expressions.iter();
        let expressions: Vec<_> = expressions.map(|e| json!({ "key": e.key, "values": e.values })).collect();
        json!({ "matchLabelExpressions": expressions })
    };
    let allowed: Vec<_> = class.allowed_topologies.iter().map(term).collect();
    Ok(json!({ "provisioner": class_provisioner(plugin), "parameters": class.parameters, "allowed": allowed }))
}

fn of_plugin(object: &Value) -> Result<Value, Error> {
    let volume: PersistentVolume = serde_json::from_value(object.clone()).unwrap();
    let translated = volume_to_csi(&volume)?;
    let mut affinity = object["spec"]["nodeAffinity"].clone();
    topology::to_csi(volume.spec.in_tree_plugin().unwrap(), volume.metadata.labels.as_ref(), &mut affinity);
    let modes: Vec<_> = translated.access_modes.iter().map(AccessMode::as_str).collect();
    Ok(json!({ "csi": csi(&translated), "accessModes": modes, "nodeAffinity": affinity }))
}

fn csi(volume: &CsiVolume) -> Value {
    let mut csi = json!({
        "driver": volume.driver,
        "volumeHandle": volume.handle,
        "volumeAttributes": volume.attributes,
        "fsType": if volume.fs_type.is_empty() { Value::Null } else { json!(volume.fs_type) },
        "readOnly": if volume.read_only { json!(true) } else { Value::Null },
    });
    let secrets = &volume.secrets;
    let references = [
        ("controllerPublishSecretRef", &secrets.controller_publish),
        ("nodeStageSecretRef", &secrets.node_stage),
        ("nodePublishSecretRef", &secrets.node_publish),
        ("controllerExpandSecretRef", &secrets.controller_expand),
        ("nodeExpandSecretRef", &secrets.node_expand),
    ];
    for (field, reference) in references {
        if let Some(SecretReference { name, namespace }) = reference {
            let text = |text: &String| if text.is_empty() { Value::Null } else { json!(text) };
            csi[field] = json!({ "name": text(name), "namespace": text(namespace) });
        }
    }
    csi
}

/// Without fields that are null, an empty list or an empty object: Go writes some of them and reads them as absent.
fn pruned(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, pruned(value)));
            Value::Object(fields.filter(|(_, value)| !is_nothing(value)).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(pruned).collect()),
        other => other,
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}
