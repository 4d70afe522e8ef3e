//! `azureFile` and `file.csi.azure.com`. Its classes are the same for both.

use serde_json::{Map, Value, json};
use storage_kube::in_tree::InTreePlugin;
use storage_kube::wire::{InTreeSource, PersistentVolume, SecretReference};

use crate::new_volume::CsiSource;
use crate::{CsiVolume, Error};

const PLUGIN: InTreePlugin = InTreePlugin::AzureFile;
/// On a volume: the resource group of its storage account.
const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";
/// Around the account in the name of a Secret that a provisioner has made.
const SECRET_PREFIX: &str = "azure-storage-account-";
const SECRET_SUFFIX: &str = "-secret";

pub(crate) fn to_csi(source: &InTreeSource, volume: &PersistentVolume) -> Result<CsiVolume, Error> {
    let group = volume.metadata.annotations.as_ref().and_then(|all| all.get(RESOURCE_GROUP));
    let of_claim = || volume.spec.claim_ref.as_ref().map(|claim| claim.namespace.clone());
    let namespace = source.secret_namespace.clone().or_else(of_claim).filter(|name| !name.is_empty());
    let namespace = namespace.ok_or(Error::SecretNamespace)?;
    let handle = format!(
        "{}#{}#{}#{}#{namespace}",
        group.map_or("", String::as_str),
        account(&source.secret_name),
        source.share_name,
        volume.metadata.name.as_deref().unwrap_or_default(),
    );
    let mut translated = CsiVolume::new(PLUGIN, handle, source).with("sharename", &source.share_name);
    translated.secrets.node_stage = Some(SecretReference { name: source.secret_name.clone(), namespace });
    Ok(translated)
}

/// Also puts the resource group on the volume, when the handle had to tell the share.
pub(crate) fn source(csi: &CsiSource, volume: &mut Value) -> Result<Map<String, Value>, Error> {
    let (mut share, mut secret, mut namespace) = ("", "", None);
    for (key, value) in csi.attributes() {
        match key.to_ascii_lowercase().as_str() {
            "sharename" => share = value,
            "secretname" => secret = value,
            "secretnamespace" => namespace = Some(value),
            _ => {}
        }
    }
    if let Some((name, its_namespace)) = csi.node_stage_secret().filter(|(name, _)| !name.is_empty()) {
        (secret, namespace) = (name, Some(its_namespace));
    }
    let of_account;
    if share.is_empty() || secret.is_empty() {
        let parts: Vec<_> = csi.handle().split('#').collect();
        let [group, account, its_share, ..] = parts.as_slice() else {
            let form = "GROUP#ACCOUNT#SHARE";
            return Err(Error::Handle { plugin: PLUGIN, handle: csi.handle().to_owned(), form });
        };
        if share.is_empty() {
            share = its_share;
        }
        if secret.is_empty() {
            of_account = format!("{SECRET_PREFIX}{account}{SECRET_SUFFIX}");
            secret = &of_account;
        }
        annotate(volume, group);
    }
    let mut source = Map::new();
    source.insert("shareName".to_owned(), json!(share));
    source.insert("secretName".to_owned(), json!(secret));
    source.insert("secretNamespace".to_owned(), json!(namespace.unwrap_or("default")));
    if csi.read_only() {
        source.insert("readOnly".to_owned(), json!(true));
    }
    Ok(source)
}

fn annotate(volume: &mut Value, group: &str) {
    let Some(metadata) = volume.get_mut("metadata").and_then(Value::as_object_mut).filter(|_| !group.is_empty()) else {
        return;
    };
    match metadata.entry("annotations").or_insert(Value::Null) {
        Value::Object(all) => {
            all.insert(RESOURCE_GROUP.to_owned(), json!(group));
        }
        none => *none = json!({ RESOURCE_GROUP: group }),
    }
}

/// The storage account, which the name of a Secret tells if a provisioner has made it; any other name stands for it.
fn account(secret: &str) -> &str {
    let account = secret.split_once(SECRET_PREFIX).and_then(|(_, rest)| Some(rest.rsplit_once(SECRET_SUFFIX)?.0));
    account.filter(|account| !account.is_empty()).unwrap_or(secret)
}
