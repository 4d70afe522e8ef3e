//! The dialect of pflag: `--name=value`, `--name value`, and shorthands of one letter. Words that are no flags are ignored
//! wherever they stand. The first half of each refusal is pflag's.

use std::ffi::OsString;

use super::{Dialect, Flag, Flags, Refusal, Rewritten, expected, utf8};
use crate::quote::quoted;

pub(super) struct Pflag;

impl Dialect for Pflag {
    fn rewrite(flags: &Flags, argv: impl Iterator<Item = OsString>) -> Rewritten {
        let mut rewritten = Rewritten::default();
        rewritten.end = rewrite(flags, argv, &mut rewritten.words).err();
        rewritten
    }

    fn bad_value(flag: &Flag, value: &str, error: &(dyn std::error::Error + 'static)) -> String {
        format!("invalid argument {} for \"--{}\" flag: {error}{}", quoted(value), flag.long, expected(error))
    }
}

fn rewrite(flags: &Flags, argv: impl Iterator<Item = OsString>, words: &mut Vec<String>) -> Result<(), Refusal> {
    let mut argv = argv.map(utf8);
    while let Some(word) = argv.next().transpose()? {
        let needs = |flag: String| Refusal::Word(format!("flag needs an argument: {flag}"));
        let mut next = |flag: String| argv.next().ok_or_else(|| needs(flag))?;
        if word == "--" {
            break;
        }
        if let Some(body) = word.strip_prefix("--") {
            words.push(long_flag(flags, body, &word, &mut next)?);
        } else if let Some(body) = word.strip_prefix('-').filter(|body| !body.is_empty()) {
            words.push(shorthand(flags, body, &word, &mut next)?);
        }
    }
    Ok(())
}

fn long_flag(
    flags: &Flags,
    body: &str,
    word: &str,
    next: &mut dyn FnMut(String) -> Result<String, Refusal>,
) -> Result<String, Refusal> {
    let (name, value) = match body.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (body, None),
    };
    if name.is_empty() || name.starts_with('-') {
        return Err(Refusal::Word(format!("bad flag syntax: {word}")));
    }
    let Some(flag) = flags.long(name) else {
        return Err(if name == "help" { Refusal::Help } else { Refusal::Word(format!("unknown flag: --{name}")) });
    };
    let value = match value {
        Some(value) => value,
        None if flag.value_optional => "true".to_owned(),
        None => next(format!("--{name}"))?,
    };
    Ok(format!("--{name}={value}"))
}

/// `-v5`, `-v=5` or `-v 5`. Only shorthands that take a value exist.
fn shorthand(
    flags: &Flags,
    body: &str,
    word: &str,
    next: &mut dyn FnMut(String) -> Result<String, Refusal>,
) -> Result<String, Refusal> {
    let mut letters = body.chars();
    let letter = letters.next().unwrap_or('-');
    let Some(flag) = flags.short(letter) else {
        if letter == 'h' {
            return Err(Refusal::Help);
        }
        let long = body.split('=').next().unwrap_or(body);
        let cure = match flags.long(long) {
            Some(_) => format!("; a flag with a long name needs two dashes: --{long}"),
            None => String::new(),
        };
        return Err(Refusal::Word(format!("unknown shorthand flag: {letter:?} in {word}{cure}")));
    };
    let rest = letters.as_str();
    let value = match rest.strip_prefix('=') {
        Some(value) => value.to_owned(),
        None if !rest.is_empty() => rest.to_owned(),
        None => next(format!("{letter:?} in {word}"))?,
    };
    Ok(format!("--{}={value}", flag.long))
}

#[cfg(test)]
mod tests;
