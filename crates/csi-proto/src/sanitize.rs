//! One-line JSON of a message without its secrets, for logs.
//!
//! Byte for byte what `csi-lib-utils/protosanitizer` prints: keys are the names in the .proto file, sorted; only fields that are
//! set; enum values by name, unknown ones by number; wrappers and timestamps as the objects they are on the wire; every
//! `csi_secret` field that is set is `"***stripped***"`, whatever its type. Unknown fields were dropped when the message was
//! decoded. There is no text for "no message" (Go's `null`): a Rust message always exists.

use std::collections::BTreeMap;
use std::fmt::Write;

/// What stands in place of a secret.
const STRIPPED: &str = "\"***stripped***\"";

/// A message that can be printed without its secrets. Implemented for every message of this crate.
pub trait Sanitize {
    /// Appends the JSON text to `out`.
    fn write_sanitized(&self, out: &mut String);

    /// The JSON text.
    fn sanitized(&self) -> String {
        let mut out = String::new();
        self.write_sanitized(&mut out);
        out
    }
}

impl Sanitize for prost_types::Timestamp {
    fn write_sanitized(&self, out: &mut String) {
        let mut object = Object::open(out);
        object.integer("nanos", self.nanos.into());
        object.integer("seconds", self.seconds);
        object.close();
    }
}

/// A JSON object being written. The generated code calls one method per field, in the order of the keys.
pub(crate) struct Object<'a> {
    out: &'a mut String,
    empty: bool,
}

impl<'a> Object<'a> {
    pub(crate) fn open(out: &'a mut String) -> Self {
        out.push('{');
        Self { out, empty: true }
    }

    pub(crate) fn close(self) {
        self.out.push('}');
    }

    /// Starts a member; its value is to be appended to the result.
    fn member(&mut self, key: &str) -> &mut String {
        if !self.empty {
            self.out.push(',');
        }
        self.empty = false;
        write_string(self.out, key);
        self.out.push(':');
        self.out
    }

    pub(crate) fn secret(&mut self, key: &str, is_set: bool) {
        if is_set {
            self.member(key).push_str(STRIPPED);
        }
    }

    pub(crate) fn string(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            write_string(self.member(key), value);
        }
    }

    pub(crate) fn bool(&mut self, key: &str, value: bool) {
        if value {
            self.member(key).push_str("true");
        }
    }

    pub(crate) fn integer(&mut self, key: &str, value: i64) {
        if value != 0 {
            write_integer(self.member(key), value);
        }
    }

    pub(crate) fn enumeration(&mut self, key: &str, number: i32, name: Option<&str>) {
        match (number, name) {
            (0, _) => {}
            (_, Some(name)) => write_string(self.member(key), name),
            (_, None) => write_integer(self.member(key), number.into()),
        }
    }

    pub(crate) fn message(&mut self, key: &str, value: Option<&impl Sanitize>) {
        if let Some(value) = value {
            value.write_sanitized(self.member(key));
        }
    }

    pub(crate) fn wrapped_bool(&mut self, key: &str, value: Option<bool>) {
        if let Some(value) = value {
            let mut wrapper = Object::open(self.member(key));
            wrapper.bool("value", value);
            wrapper.close();
        }
    }

    pub(crate) fn wrapped_integer(&mut self, key: &str, value: Option<i64>) {
        if let Some(value) = value {
            let mut wrapper = Object::open(self.member(key));
            wrapper.integer("value", value);
            wrapper.close();
        }
    }

    pub(crate) fn messages(&mut self, key: &str, values: &[impl Sanitize]) {
        self.list(key, values, |out, value| value.write_sanitized(out));
    }

    pub(crate) fn strings(&mut self, key: &str, values: &[String]) {
        self.list(key, values, |out, value| write_string(out, value));
    }

    fn list<T>(&mut self, key: &str, values: &[T], write: impl Fn(&mut String, &T)) {
        if values.is_empty() {
            return;
        }
        let out = self.member(key);
        out.push('[');
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            write(out, value);
        }
        out.push(']');
    }

    pub(crate) fn string_map(&mut self, key: &str, values: &BTreeMap<String, String>) {
        if values.is_empty() {
            return;
        }
        let mut map = Object::open(self.member(key));
        for (key, value) in values {
            // Not `string`: an entry with an empty value is an entry.
            write_string(map.member(key), value);
        }
        map.close();
    }
}

fn write_integer(out: &mut String, value: i64) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{value}");
}

/// A JSON string, escaped as Go's `encoding/json` does: besides what JSON asks for, the characters that are special in HTML and
/// the two Unicode line separators.
fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}
