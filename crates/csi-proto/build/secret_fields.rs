//! Which fields are secret, and in which messages a secret can be reached.

use std::collections::BTreeSet;

use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor, Value};

/// The field option that marks a secret.
const CSI_SECRET: &str = "csi.v1.csi_secret";

/// Whether the field carries `csi_secret = true`.
///
/// # Errors
/// The option is not defined in the pool: without it every field would look harmless.
pub(crate) fn is_secret(field: &FieldDescriptor) -> Result<bool, String> {
    let option = field
        .parent_pool()
        .get_extension_by_name(CSI_SECRET)
        .ok_or_else(|| format!("proto/csi/csi.proto does not define the field option {CSI_SECRET}"))?;
    Ok(matches!(field.options().get_extension(&option).as_ref(), Value::Bool(true)))
}

/// Full names of all messages that have a secret field themselves or through the messages they contain.
///
/// # Errors
/// See [`is_secret`].
pub(crate) fn messages_with_secrets(pool: &DescriptorPool) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    // Grows by one level of containment per round, so that cycles of messages end too.
    loop {
        let before = found.len();
        for message in pool.all_messages() {
            if holds_secret(&message, &found)? {
                found.insert(message.full_name().to_owned());
            }
        }
        if found.len() == before {
            return Ok(found);
        }
    }
}

fn holds_secret(message: &MessageDescriptor, known: &BTreeSet<String>) -> Result<bool, String> {
    for field in message.fields() {
        let contained = matches!(field.kind(), Kind::Message(inner) if known.contains(inner.full_name()));
        if contained || is_secret(&field)? {
            return Ok(true);
        }
    }
    Ok(false)
}
