//! Whether the JSON of an object can hold one of a few names at all, found out without parsing it.

use memchr::memchr_iter;
use memchr::memmem::Finder;

/// Names of which an object has to mention one to be of interest.
///
/// Never wrong about an object that holds one of them as a string; wrong the other way for one that has a name in a part
/// that nobody reads, or that is written with escapes which might spell one.
#[derive(Debug, Clone)]
pub struct Mention {
    finders: Vec<Finder<'static>>,
    /// A name has characters that JSON may write in more than one way.
    unsearchable: bool,
}

impl Mention {
    /// Of any of `names`.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        Self {
            unsearchable: names.iter().any(|name| !name.bytes().all(is_written_as_itself)),
            finders: names.into_iter().map(|name| Finder::new(name).into_owned()).collect(),
        }
    }

    /// Whether `json` may mention one of the names.
    pub fn may_be_in(&self, json: &[u8]) -> bool {
        self.unsearchable || self.finders.iter().any(|name| name.find(json).is_some()) || may_spell(json)
    }
}

/// A letter, a digit or a mark that JSON has no escape of its own for, except `/`: see [`may_spell`].
fn is_written_as_itself(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/' | b':')
}

/// Whether there are escapes that stand for a character of a name: `\u` for any, `\/` for a slash.
fn may_spell(json: &[u8]) -> bool {
    memchr_iter(b'\\', json).any(|at| matches!(json.get(at + 1), Some(b'u' | b'/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_however_json_writes_it() {
        let mention = Mention::of(["driver.example.com", "kubernetes.io/in-tree"]);
        for json in [
            r#"{"csi":{"driver":"driver.example.com"}}"#,
            r#"{"annotations":{"by":"kubernetes.io/in-tree"}}"#,
            r#"{"annotations":{"by":"kubernetes.io\/in-tree"}}"#,
            r#"{"csi":{"driver":"\u0064river.example.com"}}"#,
            r#"{"csi":{"driver":"driver\u002Eexample.com"}}"#,
        ] {
            assert!(mention.may_be_in(json.as_bytes()), "{json}");
        }
    }

    #[test]
    fn an_object_of_others_is_told_apart_even_with_quotes_and_line_ends_in_it() {
        let mention = Mention::of(["driver.example.com"]);
        let json = r#"{"annotations":{"last":"{\"driver\":\"other.example.com\"}\n\\"}}"#;
        assert!(!mention.may_be_in(json.as_bytes()));
        assert!(!mention.may_be_in(b""));
    }

    #[test]
    fn a_name_that_json_writes_in_several_ways_may_be_everywhere() {
        for name in ["a\"b", "a\\b", "a<b", "\u{fc}ber", "a\nb"] {
            assert!(Mention::of(["plain", name]).may_be_in(b"{}"), "{name}");
        }
    }

    #[test]
    fn without_names_only_escapes_are_suspect() {
        let mention = Mention::of([]);
        assert!(!mention.may_be_in(br#"{"a":"b"}"#));
    }
}
