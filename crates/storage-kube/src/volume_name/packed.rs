//! Names of `PersistentVolume`s, small enough to be kept by the ten thousand.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::names::Interner;
use crate::uid::canonical_uuid;

/// `metadata.name` of a `PersistentVolume`; for a provisioned one also the name the driver was given.
///
/// A provisioner names them `pvc-` and the UID of the claim, of which the 16 bytes are kept. Any other name is kept as it is,
/// so [`fmt::Display`] always gives the original back and equality is equality of the names.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct VolumeName(Form);

/// Private, so that one name cannot come in both forms and differ from itself.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    OfClaim(Uuid),
    Other(Arc<str>),
}

const PREFIX: &str = "pvc-";

impl Form {
    fn of(name: &str, other: impl FnOnce(&str) -> Arc<str>) -> Self {
        let uuid = name.strip_prefix(PREFIX).and_then(canonical_uuid);
        uuid.map_or_else(|| Self::Other(other(name)), Self::OfClaim)
    }
}

impl VolumeName {
    /// The name, with the table's copy of a text that has to be kept: for records of which several have one name.
    pub fn shared(name: &str, interner: &Interner) -> Self {
        Self(Form::of(name, |name| interner.intern(name)))
    }
}

impl From<&str> for VolumeName {
    fn from(name: &str) -> Self {
        Self(Form::of(name, |name| name.into()))
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Other(name) => f.pad(name),
            Form::OfClaim(uuid) => write!(f, "{PREFIX}{}", uuid.hyphenated()),
        }
    }
}

impl fmt::Debug for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back_as_it_was_and_only_the_usual_form_is_packed() {
        let rows = [
            ("pvc-0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f", true),
            ("pvc-00000000-0000-0000-0000-000000000000", true),
            ("pvc-0F3A1C5E-8B1D-4A57-9B0E-2F3B6D7C8E9F", false),
            ("pvc-0f3a1c5e8b1d4a579b0e2f3b6d7c8e9f", false),
            ("pvc-{0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f}", false),
            ("pvc-urn:uuid:0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f", false),
            ("pvc-0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9", false),
            ("pvc-0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f0", false),
            ("pvc0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f", false),
            ("PVC-0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f", false),
            ("0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f", false),
            ("pvc-", false),
            ("by-hand", false),
            ("", false),
        ];
        assert_eq!(rows.len(), 14);
        let interner = Interner::new();
        for (text, packed) in rows {
            let name = VolumeName::from(text);
            assert_eq!(name.to_string(), text);
            assert_eq!(format!("{name:?}"), text);
            assert_eq!(matches!(name.0, Form::OfClaim(_)), packed, "{text}");
            for (other, _) in rows {
                assert_eq!(name == VolumeName::shared(other, &interner), text == other, "{text} {other}");
            }
        }
        assert_eq!(interner.len(), rows.iter().filter(|(_, packed)| !packed).count(), "none but those not packed");
    }

    #[test]
    fn names_of_another_form_share_one_text() {
        let interner = Interner::new();
        let texts =
            [VolumeName::shared("by-hand", &interner), VolumeName::shared("by-hand", &interner)].map(|name| name.0);
        assert!(matches!(&texts, [Form::Other(one), Form::Other(other)] if Arc::ptr_eq(one, other)));
        assert!(size_of::<VolumeName>() <= 24);
    }
}
