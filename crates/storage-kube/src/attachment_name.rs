//! Names of `VolumeAttachment`s, small enough to be kept by the ten thousand.

use std::fmt::{self, Write as _};
use std::sync::Arc;

/// `metadata.name` of a `VolumeAttachment`. Made from volume, driver and node, so one made anew has the same name.
///
/// The attach/detach controller names them `csi-` and a SHA-256 in hexadecimal digits, which is kept as 32 bytes. Any
/// other name is kept as it is, so [`fmt::Display`] always gives the original back and equality is equality of the names.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AttachmentName(Form);

/// Private, so that one name cannot come in both forms and differ from itself.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    Digest([u8; 32]),
    Other(Arc<str>),
}

const PREFIX: &str = "csi-";

/// The bytes of a name of the usual form.
fn digest(name: &str) -> Option<[u8; 32]> {
    let digits = name.strip_prefix(PREFIX)?.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *byte = value(high)? << 4 | value(low)?;
    }
    Some(bytes)
}

/// Lower case only: another spelling is another name.
fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl From<&str> for AttachmentName {
    fn from(name: &str) -> Self {
        Self(digest(name).map_or_else(|| Form::Other(name.into()), Form::Digest))
    }
}

impl fmt::Display for AttachmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Other(name) => f.pad(name),
            Form::Digest(bytes) => {
                f.write_str(PREFIX)?;
                for byte in bytes {
                    for digit in [byte >> 4, byte & 15] {
                        f.write_char(char::from_digit(digit.into(), 16).unwrap_or_default())?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for AttachmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back_as_it_was() {
        let digits = "0123456789abcdef".repeat(4);
        let names = [
            format!("csi-{digits}"),
            format!("csi-{}", digits.to_uppercase()),
            format!("csi-{}", &digits[1..]),
            format!("csi-{digits}0"),
            format!("csi-{}g", &digits[1..]),
            digits.clone(),
            "csi-".to_owned(),
            "by-hand".to_owned(),
            String::new(),
        ];
        for name in &names {
            assert_eq!(AttachmentName::from(name.as_str()).to_string(), *name);
            for other in &names {
                let same = AttachmentName::from(name.as_str()) == AttachmentName::from(other.as_str());
                assert_eq!(same, name == other, "{name} {other}");
            }
        }
    }

    #[test]
    fn the_usual_name_needs_no_memory_of_its_own() {
        let usual = AttachmentName::from(format!("csi-{}", "5a".repeat(32)).as_str());
        assert!(matches!(usual.0, Form::Digest(_)));
        assert!(size_of::<AttachmentName>() <= 40);
    }
}
