//! Values of flags as Go's `strconv` reads them: `clap` value parsers for booleans, numbers and label lists.
//!
//! Durations are in [`crate::go_duration`], feature gates in [`crate::feature_gates`].

use std::collections::BTreeMap;
use std::str::FromStr;

use thiserror::Error;

use crate::quote::quoted;

/// Why a flag value was refused. The first half of each text is Go's, the second says what is expected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// Not one of the words for true and false.
    #[error("strconv.ParseBool: parsing {}: invalid syntax; expected true or false", quoted(.0))]
    Bool(String),
    /// Not a number of the expected kind.
    #[error("strconv.{function}: parsing {}: invalid syntax; expected {expected}", quoted(.text))]
    Number {
        /// The Go function whose rules apply.
        function: &'static str,
        /// The value as written.
        text: String,
        /// What would have been accepted.
        expected: &'static str,
    },
    /// A number that does not fit.
    #[error("strconv.{function}: parsing {}: value out of range", quoted(.text))]
    Range {
        /// The Go function whose rules apply.
        function: &'static str,
        /// The value as written.
        text: String,
    },
    /// An item of a label list that is not `key:value`.
    #[error("malformed item in list of labels: {0}; expected key:value,key:value")]
    Label(String),
}

/// Go's booleans: `1 t T TRUE true True` and `0 f F FALSE false False`.
pub fn go_bool(text: &str) -> Result<bool, Error> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(Error::Bool(text.to_owned())),
    }
}

/// A signed 64-bit number; `0x`, `0o`, `0b`, a leading `0` (octal) and `_` between digits are understood.
pub fn go_int(text: &str) -> Result<i64, Error> {
    let function = "ParseInt";
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let out_of_range = || Error::Range { function, text: text.to_owned() };
    let value = i128::from(magnitude(digits, function, text, "a whole number")?);
    i64::try_from(if negative { -value } else { value }).map_err(|_| out_of_range())
}

/// An unsigned 64-bit number, in the notations of [`go_int`] but without a sign.
pub fn go_uint(text: &str) -> Result<u64, Error> {
    magnitude(text, "ParseUint", text, "a whole number of 0 or more")
}

/// A floating-point number.
pub fn go_float(text: &str) -> Result<f64, Error> {
    text.parse().map_err(|_| Error::Number { function: "ParseFloat", text: text.to_owned(), expected: "a number" })
}

fn magnitude(digits: &str, function: &'static str, text: &str, expected: &'static str) -> Result<u64, Error> {
    let syntax = || Error::Number { function, text: text.to_owned(), expected };
    let lower = digits.to_ascii_lowercase();
    let (radix, body) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    // One underscore may stand between two digits, or between a prefix and the first digit.
    let body = if radix == 10 { body } else { body.strip_prefix('_').unwrap_or(body) };
    if body.is_empty() || body.split('_').any(str::is_empty) {
        return Err(syntax());
    }
    let body = body.replace('_', "");
    if !body.chars().all(|c| c.is_digit(radix)) {
        return Err(syntax());
    }
    u64::from_str_radix(&body, radix).map_err(|_| Error::Range { function, text: text.to_owned() })
}

/// The value of `--leader-election-labels`: `key:value,key:value`. An empty list is malformed, as upstream has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels(pub BTreeMap<String, String>);

impl FromStr for Labels {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.split(',')
            .map(|item| match item.split_once(':') {
                Some((key, value)) if !value.contains(':') => Ok((key.to_owned(), value.to_owned())),
                _ => Err(Error::Label(item.to_owned())),
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn booleans_are_the_words_of_go() {
        for text in ["1", "t", "T", "TRUE", "true", "True"] {
            assert_eq!(go_bool(text), Ok(true));
        }
        for text in ["0", "f", "F", "FALSE", "false", "False"] {
            assert_eq!(go_bool(text), Ok(false));
        }
        for text in ["", "yes", "no", "on", "tRUE", "2", " true"] {
            assert!(go_bool(text).is_err(), "{text}");
        }
        assert_eq!(
            go_bool("yes").unwrap_err().to_string(),
            r#"strconv.ParseBool: parsing "yes": invalid syntax; expected true or false"#
        );
    }

    #[test]
    fn whole_numbers_have_every_notation_of_go() {
        let table = [
            ("0", 0),
            ("100", 100),
            ("+7", 7),
            ("-1", -1),
            ("0x1F", 31),
            ("0b101", 5),
            ("0o17", 15),
            ("017", 15),
            ("1_000", 1000),
            ("0x_ff", 255),
            ("-0x10", -16),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ];
        for (text, want) in table {
            assert_eq!(go_int(text), Ok(want), "{text}");
        }
        for text in ["", "-", "abc", "1.5", "1e3", "1__0", "_1", "1_", "0x", "08", "--1", " 1"] {
            assert!(matches!(go_int(text), Err(Error::Number { .. })), "{text}: {:?}", go_int(text));
        }
        for text in ["9223372036854775808", "-9223372036854775809", "99999999999999999999"] {
            assert!(matches!(go_int(text), Err(Error::Range { .. })), "{text}");
        }
    }

    #[test]
    fn an_unsigned_number_has_no_sign() {
        assert_eq!(go_uint("18446744073709551615"), Ok(u64::MAX));
        for text in ["-1", "+1", "", "x"] {
            assert!(go_uint(text).is_err(), "{text}");
        }
        assert_eq!(
            go_uint("-1").unwrap_err().to_string(),
            r#"strconv.ParseUint: parsing "-1": invalid syntax; expected a whole number of 0 or more"#
        );
    }

    #[test]
    fn labels_split_at_one_colon_each() {
        let parse = |text: &str| text.parse::<Labels>().map(|labels| labels.0);
        let want = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(parse("a:b").unwrap(), want(&[("a", "b")]));
        assert_eq!(parse("a:b,c:d").unwrap(), want(&[("a", "b"), ("c", "d")]));
        assert_eq!(parse("a:").unwrap(), want(&[("a", "")]));
        assert_eq!(parse("a:b,a:c").unwrap(), want(&[("a", "c")]));
        for (text, item) in [("", ""), ("a", "a"), ("a=b", "a=b"), ("a:b,", ""), ("a:b:c", "a:b:c"), ("a:b,x", "x")] {
            let error = parse(text).expect_err(text);
            assert_eq!(error, Error::Label(item.to_owned()));
            assert!(error.to_string().starts_with(&format!("malformed item in list of labels: {item};")));
        }
    }
}
