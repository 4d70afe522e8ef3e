//! Object UIDs, small enough to be kept by the ten thousand.

use std::fmt;

use uuid::Uuid;

/// The UID of an API object.
///
/// UIDs are opaque text to a client; the API server makes them as lower-case hyphenated UUIDs, which fit in
/// 16 bytes. Any other text is kept as it is, so [`fmt::Display`] always gives the original back and equality
/// is equality of the texts.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Form);

/// Private, so that one text cannot come in both forms and differ from itself.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Form {
    /// The form the API server makes.
    Uuid(Uuid),
    /// Every other text.
    Text(Box<str>),
}

impl Uid {
    /// Whether there is no UID at all, as in an object that was never stored.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Text(text) if text.is_empty())
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(canonical_uuid(text).map_or_else(|| Form::Text(text.into()), Form::Uuid))
    }
}

/// The UUID that is written as `text`. The parser takes upper case, braces and more; those must not come back changed.
pub(crate) fn canonical_uuid(text: &str) -> Option<Uuid> {
    let uuid = Uuid::try_parse(text).ok()?;
    (uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text).then_some(uuid)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Uuid(uuid) => uuid.hyphenated().fmt(f),
            Form::Text(text) => f.pad(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_text_comes_back_unchanged_and_only_the_usual_form_is_packed() {
        let rows = [
            ("0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f", true),
            ("00000000-0000-0000-0000-000000000000", true),
            ("0F3A1C5E-8B1D-4A57-9B0E-2F3B6D7C8E9F", false),
            ("0f3a1c5e8b1d4a579b0e2f3b6d7c8e9f", false),
            ("{0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f}", false),
            ("urn:uuid:0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f", false),
            ("testid", false),
            ("", false),
            ("0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9é", false),
        ];
        assert_eq!(rows.len(), 9);
        for (text, packed) in rows {
            let uid = Uid::from(text);
            assert_eq!(uid.to_string(), text);
            assert_eq!(format!("{uid:?}"), text);
            assert_eq!(matches!(uid.0, Form::Uuid(_)), packed, "{text}");
            assert_eq!(uid.is_empty(), text.is_empty());
        }
        let distinct: HashSet<Uid> = rows.iter().map(|(text, _)| Uid::from(*text)).collect();
        assert_eq!(distinct.len(), rows.len(), "no two texts are one UID");
        assert!(size_of::<Uid>() <= 24);
    }
}
