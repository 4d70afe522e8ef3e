//! References to Secrets in class parameters: which keys, which templates, which Secret they come to.
//!
//! Names may contain tokens (`${pvc.name}`); the values come from the claim and the volume. A claim's author
//! can thereby choose among Secrets only where the administrator put a token of the claim into the class.

mod parameter_keys;
mod template;

use std::{collections::BTreeMap, fmt};

pub(crate) use parameter_keys::parameter_keys;
use parameter_keys::{DEFAULT, Keys};

use crate::dns_1123;

/// What a secret is for; each kind has its own pair of class parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecretKind {
    /// `CreateVolume` and `DeleteVolume`.
    Provisioner,
    /// `ControllerPublishVolume` and its reverse.
    ControllerPublish,
    /// `NodeStageVolume`.
    NodeStage,
    /// `NodePublishVolume`.
    NodePublish,
    /// `ControllerExpandVolume`.
    ControllerExpand,
    /// `NodeExpandVolume`.
    NodeExpand,
    /// `ControllerModifyVolume`.
    ControllerModify,
}

impl SecretKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Provisioner,
        Self::ControllerPublish,
        Self::NodeStage,
        Self::NodePublish,
        Self::ControllerExpand,
        Self::NodeExpand,
        Self::ControllerModify,
    ];
}

/// Which Secret. Displayed as `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SecretRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What tokens in templates stand for.
#[derive(Clone, Copy, Debug)]
pub struct TemplateValues<'a> {
    /// `${pv.name}`: the volume's name, the generated one before it exists.
    pub volume_name: &'a str,
    /// The claim; without it its tokens are unresolvable.
    pub claim: Option<ClaimValues<'a>>,
}

/// What tokens about the claim stand for.
#[derive(Clone, Copy, Debug)]
pub struct ClaimValues<'a> {
    /// `${pvc.namespace}`.
    pub namespace: &'a str,
    /// `${pvc.name}`, in names only.
    pub name: &'a str,
    /// `${pvc.annotations['KEY']}`, in names only; `None` when they are not known, as for the claim of a volume
    /// that is being deleted.
    pub annotations: Option<&'a BTreeMap<String, String>>,
}

/// Why the class parameters do not name a Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// New and deprecated form of one key are both there.
    #[error("StorageClass parameters {key} and {deprecated} both give the {purpose} secret: remove {deprecated}")]
    GivenTwice {
        /// What the secret is for.
        purpose: &'static str,
        /// The key.
        key: &'static str,
        /// Its older form.
        deprecated: &'static str,
    },
    /// Only one half of a pair.
    #[error("StorageClass parameter {present} is given without {missing}: give both or neither")]
    Incomplete {
        /// The half that is there.
        present: &'static str,
        /// The half that is not.
        missing: &'static str,
    },
    /// An empty value.
    #[error("StorageClass parameter {key} is empty: give it a value, or remove it together with its other half")]
    Empty {
        /// The key.
        key: &'static str,
    },
    /// Tokens without a value.
    #[error(
        "StorageClass parameter {key}: {template:?} has no value for {}: use {}, and annotations the claim has",
        .tokens.join(", "), .usable.join(", ")
    )]
    Unresolved {
        /// The key.
        key: &'static str,
        /// Its value.
        template: String,
        /// The tokens without braces, sorted.
        tokens: Vec<String>,
        /// The tokens that mean something here.
        usable: &'static [&'static str],
    },
    /// The result is not a possible namespace.
    #[error(
        "StorageClass parameter {key}: {template:?} comes to {value:?}, which is not a namespace: at most 63 lower-case letters, digits and '-'"
    )]
    NotANamespace {
        /// The key.
        key: &'static str,
        /// Its value.
        template: String,
        /// What it came to.
        value: String,
    },
    /// The result is not a possible name of a Secret.
    #[error(
        "StorageClass parameter {key}: {template:?} comes to {value:?}, which is not the name of a Secret: at most 253 lower-case letters, digits, '-' and '.'"
    )]
    NotASecretName {
        /// The key.
        key: &'static str,
        /// Its value.
        template: String,
        /// What it came to.
        value: String,
    },
}

const NAMESPACE_TOKENS: &[&str] = &["${pv.name}", "${pvc.namespace}"];
const NAME_TOKENS: &[&str] = &["${pv.name}", "${pvc.namespace}", "${pvc.name}", "${pvc.annotations['KEY']}"];

/// The Secret a class names for `kind`: its own pair, else the default pair, else none.
///
/// Says nothing about whether the Secret exists; [`crate::credentials::fetch`] does.
pub fn resolve(
    kind: SecretKind,
    parameters: &BTreeMap<String, String>,
    values: &TemplateValues<'_>,
) -> Result<Option<SecretRef>, Error> {
    let found = match Templates::find(kind.keys(), parameters)? {
        Some(templates) => Some(templates),
        None => Templates::find(DEFAULT, parameters)?,
    };
    let Some(Templates { name: (name_key, name_template), namespace: (namespace_key, namespace_template) }) = found
    else {
        return Ok(None);
    };

    let unresolved =
        |key, template: &str, tokens, usable| Error::Unresolved { key, template: template.to_owned(), tokens, usable };
    let namespace = template::expand(namespace_template, |token| values.for_namespace(token))
        .map_err(|tokens| unresolved(namespace_key, namespace_template, tokens, NAMESPACE_TOKENS))?;
    if !dns_1123::is_label(&namespace) {
        return Err(Error::NotANamespace {
            key: namespace_key,
            template: namespace_template.to_owned(),
            value: namespace,
        });
    }
    let name = template::expand(name_template, |token| values.for_name(token))
        .map_err(|tokens| unresolved(name_key, name_template, tokens, NAME_TOKENS))?;
    if !dns_1123::is_subdomain(&name) {
        return Err(Error::NotASecretName { key: name_key, template: name_template.to_owned(), value: name });
    }
    Ok(Some(SecretRef { namespace, name }))
}

/// A complete pair of parameters, each with the key it was found under.
struct Templates<'a> {
    name: (&'static str, &'a str),
    namespace: (&'static str, &'a str),
}

impl<'a> Templates<'a> {
    /// The pair under `keys`, where the halves may be of different age; `None` if neither is there.
    fn find(keys: Keys, parameters: &'a BTreeMap<String, String>) -> Result<Option<Self>, Error> {
        let get = |key: &'static str, deprecated: Option<&'static str>| {
            let value = parameters.get(key).map(|value| (key, value.as_str()));
            let old = deprecated.and_then(|old| Some((old, parameters.get(old)?.as_str())));
            match (value, old) {
                (Some(_), Some((deprecated, _))) => Err(Error::GivenTwice { purpose: keys.purpose, key, deprecated }),
                (value, old) => Ok(value.or(old)),
            }
        };
        let name = get(keys.name, keys.deprecated.map(|(name, _)| name))?;
        let namespace = get(keys.namespace, keys.deprecated.map(|(_, namespace)| namespace))?;
        let incomplete = |present, missing| Error::Incomplete { present, missing };
        match (name, namespace) {
            (None, None) => Ok(None),
            (Some((present, _)), None) => Err(incomplete(present, keys.namespace)),
            (None, Some((present, _))) => Err(incomplete(present, keys.name)),
            (Some((key, "")), Some(_)) | (Some(_), Some((key, ""))) => Err(Error::Empty { key }),
            (Some(name), Some(namespace)) => Ok(Some(Self { name, namespace })),
        }
    }
}

impl<'a> TemplateValues<'a> {
    fn for_namespace(&self, token: &str) -> Option<&'a str> {
        match token {
            "pv.name" => Some(self.volume_name),
            "pvc.namespace" => self.claim.map(|claim| claim.namespace),
            _ => None,
        }
    }

    fn for_name(&self, token: &str) -> Option<&'a str> {
        match token {
            "pvc.name" => self.claim.map(|claim| claim.name),
            _ => self.for_namespace(token).or_else(|| self.annotation(token)),
        }
    }

    fn annotation(&self, token: &str) -> Option<&'a str> {
        let key = token.strip_prefix("pvc.annotations['")?.strip_suffix("']")?;
        self.claim?.annotations?.get(key).map(String::as_str)
    }
}

#[cfg(test)]
mod tests;
