//! The dialect of Go's `flag` package: one dash or two are the same, there are no shorthands, and the first word that is
//! no flag ends the flags. The first half of each refusal is Go's.

use std::ffi::OsString;

use super::{Dialect, Flag, Flags, Refusal, Rewritten, expected, utf8};
use crate::flag_value;
use crate::go_duration;
use crate::quote::quoted;

pub(super) struct GoFlag;

impl Dialect for GoFlag {
    fn rewrite(flags: &Flags, argv: impl Iterator<Item = OsString>) -> Rewritten {
        let mut rewritten = Rewritten::default();
        rewritten.end = rewrite(flags, argv, &mut rewritten.words).err();
        rewritten
    }

    fn bad_value(flag: &Flag, value: &str, error: &(dyn std::error::Error + 'static)) -> String {
        let kind = if flag.value_optional { "boolean value" } else { "value" };
        let what = if flag.value_optional { "" } else { "flag " };
        format!("invalid {kind} {} for {what}-{}: {}", quoted(value), flag.long, reason(error))
    }
}

fn rewrite(flags: &Flags, argv: impl Iterator<Item = OsString>, words: &mut Vec<String>) -> Result<(), Refusal> {
    let mut argv = argv.map(utf8);
    while let Some(word) = argv.next().transpose()? {
        let Some(body) = word.strip_prefix('-').filter(|body| !body.is_empty()) else { break };
        let body = body.strip_prefix('-').unwrap_or(body);
        if body.is_empty() {
            break;
        }
        if body.starts_with(['-', '=']) {
            return Err(Refusal::Word(format!("bad flag syntax: {word}")));
        }
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (body, None),
        };
        let Some(flag) = flags.long(name) else {
            return Err(match name {
                "help" | "h" => Refusal::Help,
                _ => Refusal::Word(format!("flag provided but not defined: -{name}")),
            });
        };
        let value = match value {
            Some(value) => value,
            None if flag.value_optional => "true".to_owned(),
            None => {
                let missing = || Refusal::Word(format!("flag needs an argument: -{name}"));
                argv.next().ok_or_else(missing)??
            }
        };
        words.push(format!("--{name}={value}"));
    }
    Ok(())
}

/// Go keeps back why a number or duration was not understood.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    if error.is::<go_duration::Error>() {
        return format!("parse error{}", expected(error));
    }
    match error.downcast_ref() {
        Some(flag_value::Error::Bool(_)) => "parse error; expected true or false".to_owned(),
        Some(flag_value::Error::Number { expected, .. }) => format!("parse error; expected {expected}"),
        Some(flag_value::Error::Range { .. }) => "value out of range".to_owned(),
        Some(flag_value::Error::Label(_)) | None => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
