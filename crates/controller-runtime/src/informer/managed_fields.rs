//! `metadata.managedFields`, which is half of most objects and read by no rule, cut out before an object is parsed: finding
//! its end takes a fraction of the time that a parser takes to skip it.

use memchr::memmem::Finder;
use memchr::{memchr2, memchr3};

/// An unescaped quote cannot stand inside a JSON string, so this is a key wherever it is found.
const KEY: &[u8] = br#""managedFields":["#;
/// A larger buffer is given back.
const KEEP: usize = 64 << 10;

/// Cuts objects one after the other.
pub(super) struct Cutter {
    key: Finder<'static>,
    cut: Vec<u8>,
}

impl Cutter {
    pub(super) fn new() -> Self {
        Self { key: Finder::new(KEY), cut: Vec::new() }
    }

    /// The object with its list of managed fields emptied; as it is when there is none, or when its end is not found.
    pub(super) fn cut<'a>(&'a mut self, json: &'a [u8]) -> &'a [u8] {
        let Some(key) = self.key.find(json) else { return json };
        let (before, list) = json.split_at(key + KEY.len());
        let Some(end) = end_of_list(list) else { return json };
        if self.cut.capacity() > KEEP {
            self.cut = Vec::new();
        }
        self.cut.clear();
        self.cut.extend_from_slice(before);
        self.cut.extend_from_slice(&list[end..]);
        &self.cut
    }
}

/// Where the bracket is that closes a list which has begun.
fn end_of_list(json: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 1);
    loop {
        at += memchr3(b'"', b'[', b']', &json[at..])?;
        match json[at] {
            b'[' => depth += 1,
            b']' if depth == 1 => return Some(at),
            b']' => depth -= 1,
            _ => at += end_of_string(&json[at + 1..])?,
        }
        at += 1;
    }
}

/// Where the string is over that has begun: just after its closing quote.
fn end_of_string(json: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'\\', &json[at..])?;
        if json[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
        if at > json.len() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_list_is_emptied() {
        let table = [
            (r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"name":"a"}}"#),
            (r#"{"metadata":{"managedFields":[],"name":"a"}}"#, r#"{"metadata":{"managedFields":[],"name":"a"}}"#),
            (
                r#"{"metadata":{"managedFields":[{"manager":"x","fieldsV1":{"f:a":{}}}],"name":"a"},"b":[1]}"#,
                r#"{"metadata":{"managedFields":[],"name":"a"},"b":[1]}"#,
            ),
            (
                r#"{"managedFields":[{"k:{\"uid\":\"]\"}":[["\\"]]},{"v":"\\\"]"}],"tail":"[\""}"#,
                r#"{"managedFields":[],"tail":"[\""}"#,
            ),
            // In a string, and never closed.
            (r#"{"note":"\"managedFields\":[1]"}"#, r#"{"note":"\"managedFields\":[1]"}"#),
            (r#"{"managedFields":[{"a":"b"}"#, r#"{"managedFields":[{"a":"b"}"#),
            (r#"{"managedFields":["a\"#, r#"{"managedFields":["a\"#),
            (r#"{"managedFields":null}"#, r#"{"managedFields":null}"#),
        ];
        let mut cutter = Cutter::new();
        for (json, expected) in table {
            assert_eq!(String::from_utf8_lossy(cutter.cut(json.as_bytes())), expected);
        }
    }
}
