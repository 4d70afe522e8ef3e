//! YAML as JSON values, for kubeconfig files.
//!
//! Only what is plainly `true`, `false` or null is more than text: no field of a kubeconfig is a number, and a token that
//! looks like one is still a token. `serde` and a type for the file would be ten times the code.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::{Map, Value};

/// Values an alias may make of a small file before it is taken for an attack.
const MOST_VALUES: usize = 100_000;

/// Why a text could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum YamlError {
    /// It is no YAML.
    #[error("it is not YAML: {0}")]
    Syntax(#[from] ScanError),
    /// It is YAML that has no place in a kubeconfig.
    #[error("{what} in line {line}")]
    Unsupported {
        /// What is wrong.
        what: &'static str,
        /// Where, beginning with 1.
        line: usize,
    },
}

/// A collection that is being read.
enum Open {
    Sequence(Vec<Value>),
    Mapping(Map<String, Value>, Option<String>),
}

/// The first document of a text; null when there is none.
pub(super) fn read(text: &str) -> Result<Value, YamlError> {
    let mut open: Vec<(Open, usize)> = Vec::new();
    let mut anchors: HashMap<usize, Value> = HashMap::new();
    let mut values = 0;
    for next in Parser::new_from_str(text) {
        let (event, span) = next?;
        let refuse = |what| YamlError::Unsupported { what, line: span.start.line() };
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, _) => (scalar(&text, style), anchor),
            Event::Alias(anchor) => (anchors.get(&anchor).cloned().ok_or_else(|| refuse("an alias of itself"))?, 0),
            Event::SequenceStart(_, anchor, _) => {
                open.push((Open::Sequence(Vec::new()), anchor));
                continue;
            }
            Event::MappingStart(_, anchor, _) => {
                open.push((Open::Mapping(Map::new(), None), anchor));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some((Open::Sequence(items), anchor)) => (Value::Array(items), anchor),
                Some((Open::Mapping(fields, _), anchor)) => (Value::Object(fields), anchor),
                None => continue,
            },
            Event::DocumentEnd => return Ok(Value::Null),
            _ => continue,
        };
        values += count(&value);
        if values > MOST_VALUES {
            return Err(refuse("too many values"));
        }
        if anchor != 0 {
            anchors.insert(anchor, value.clone());
        }
        match open.last_mut() {
            None => return Ok(value),
            Some((Open::Sequence(items), _)) => items.push(value),
            Some((Open::Mapping(fields, key), _)) => match (key.take(), value) {
                (Some(key), value) => {
                    if fields.insert(key, value).is_some() {
                        return Err(refuse("a key for the second time"));
                    }
                }
                (None, Value::String(text)) => *key = Some(text),
                (None, Value::Bool(word)) => *key = Some(word.to_string()),
                (None, _) => return Err(refuse("a key that is no text")),
            },
        }
    }
    Ok(Value::Null)
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    match (style, text) {
        (ScalarStyle::Plain, "" | "~" | "null" | "Null" | "NULL") => Value::Null,
        (ScalarStyle::Plain, "true" | "True" | "TRUE") => Value::Bool(true),
        (ScalarStyle::Plain, "false" | "False" | "FALSE") => Value::Bool(false),
        _ => Value::String(text.to_owned()),
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::json;

    use super::*;

    #[test]
    fn kubeconfigs_are_read_in_every_style_people_write_them() {
        let table = [
            ("a: b\nc: {d: 'e', \"f\": [g, h]}\n", json!({"a": "b", "c": {"d": "e", "f": ["g", "h"]}})),
            (r#"{"a":"b\n","c":true,"d":null}"#, json!({"a": "b\n", "c": true, "d": null})),
            ("a:\nb: ~\nc: 'true'\nd: 12\ne: 1.0\n", json!({"a": null, "b": null, "c": "true", "d": "12", "e": "1.0"})),
            ("# comment\na: |\n  x\n  y\n", json!({"a": "x\ny\n"})),
            ("a: &x {b: c}\nd: *x\n", json!({"a": {"b": "c"}, "d": {"b": "c"}})),
            ("- a\n- - b\n", json!(["a", ["b"]])),
            ("", Value::Null),
            ("---\n", Value::Null),
            ("--- {a: b}\n---\n{c: d}\n", json!({"a": "b"})),
        ];
        for (text, want) in table {
            assert_eq!(read(text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn what_is_no_kubeconfig_is_refused_with_its_place() {
        for (text, want) in [
            ("{{ not yaml", "not YAML"),
            ("a: b\na: c\n", "a key for the second time in line 2"),
            ("? [a]\n: b\n", "a key that is no text"),
            ("a: *b\n", "not YAML"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn a_bomb_of_aliases_does_not_go_off() {
        let mut lines = vec!["a0: &a0 [x, x, x, x, x, x, x, x, x, x]".to_owned()];
        for level in 1..10 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            lines.push(format!("a{level}: &a{level} [{aliases}]"));
        }
        let text = lines.join("\n");
        assert!(read(&text).unwrap_err().to_string().contains("too many values"));
    }
}
