//! Comparing command lines: what help texts say of flags, and how programs end.

use std::collections::BTreeMap;

use anyhow::Result;
use e2e::sidecar::Settings;

use crate::site::{PATIENCE, Side};

/// A name, flags, and the exit code that they lead to.
pub(crate) type Case<'a> = (&'a str, &'a [&'a str], i32);

/// The help text of a program that ends well after it.
pub(crate) async fn help(settings: Settings) -> Result<String> {
    let mut sidecar = settings.flag("--help").start()?;
    assert_eq!(sidecar.process().ended(PATIENCE).await?, 0);
    Ok(sidecar.process().log())
}

/// Both have the same flags with the same defaults, but for those listed with a reason.
pub(crate) fn same_flags(
    go: &BTreeMap<String, String>,
    ours: &BTreeMap<String, String>,
    other_defaults: &[(&str, &str)],
) {
    let missing: Vec<_> = go.keys().filter(|flag| !ours.contains_key(*flag)).collect();
    assert!(missing.is_empty(), "flags that ours has not: {missing:?}");
    let extra: Vec<_> = ours.keys().filter(|flag| !go.contains_key(*flag)).collect();
    assert!(extra.is_empty(), "flags of ours alone: {extra:?}");
    let differs = |flag: &str| go[flag] != ours[flag];
    let listed = |flag: &str| other_defaults.iter().any(|(listed, _)| *listed == flag);
    let other: Vec<_> = go
        .keys()
        .filter(|flag| differs(flag) != listed(flag))
        .map(|flag| format!("{flag}: go {:?}, ours {:?}, listed: {}", go[flag], ours[flag], listed(flag)))
        .collect();
    assert!(other.is_empty(), "defaults:\n{}", other.join("\n"));
}

/// Each case ends both programs with its code, but for those listed with a reason.
pub(crate) async fn same_codes(
    cases: &[Case<'_>],
    other_codes: &[(&str, &str)],
    settings: impl AsyncFn(Side) -> Result<Settings>,
) -> Result<()> {
    let mut found = Vec::new();
    for (case, flags, code) in cases {
        let run = async |side| {
            let settings = settings(side).await?;
            let mut sidecar = flags.iter().fold(settings, |settings, flag| settings.flag(flag)).start()?;
            anyhow::Ok((sidecar.process().ended(PATIENCE).await?, sidecar.process().tail()))
        };
        let ((go, go_log), (ours, our_log)) = tokio::try_join!(run(Side::Go), run(Side::Ours))?;
        let listed = other_codes.iter().any(|(listed, _)| listed == case);
        if go != *code || (ours != go) != listed {
            found.push(format!("{case} {flags:?}: expected {code}, go {go}, ours {ours}\n{go_log}\n{our_log}"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

/// Name and default of each flag of a Go program that uses pflag; a flag begins a line of its own: `--name type   text (default x)`.
pub(crate) fn pflag_flags(help: &str) -> BTreeMap<String, String> {
    let mut flags = BTreeMap::new();
    for line in help.lines() {
        let line = line.trim_start().trim_start_matches("-v, ");
        let Some((name, rest)) = line.strip_prefix("--").and_then(|line| line.split_once(' ')) else { continue };
        let (kind, text) = rest.split_once("   ").unwrap_or(("", rest));
        let told = text.rsplit_once("(default ").and_then(|(_, end)| end.strip_suffix(')'));
        let zero = match kind.trim() {
            "" | "/debug/pprof/" => "false",
            "Level" | "quantity" => "0",
            _ => "",
        };
        flags.insert(name.to_owned(), plain(told.unwrap_or(zero)));
    }
    flags
}

/// The same of one that uses Go's own flag package: `  -name type`, the text on the next line, with `(default x)`.
pub(crate) fn go_flags(help: &str) -> BTreeMap<String, String> {
    let mut flags = BTreeMap::new();
    let mut current = None;
    for line in help.lines() {
        if let Some(flag) = line.strip_prefix("  -") {
            let (name, kind) = flag.split_once(' ').unwrap_or((flag, ""));
            let zero = match kind {
                "" => "false",
                "int" | "uint" | "float" => "0",
                _ if name == "v" || name.ends_with("-size") => "0",
                _ => "",
            };
            flags.insert(name.to_owned(), zero.to_owned());
            current = Some(name.to_owned());
        } else if let Some(default) = line.rsplit_once("(default ").and_then(|(_, end)| end.strip_suffix(')'))
            && let Some(name) = current.take()
        {
            flags.insert(name, plain(default));
        }
    }
    flags
}

/// The same of ours: `--name <VALUE>` or `--name[=<BOOL>]`, the text on the next line, with `[default: x]`.
pub(crate) fn our_flags(help: &str) -> BTreeMap<String, String> {
    let mut flags = BTreeMap::new();
    let mut current = None;
    for line in help.lines() {
        let line = line.trim_start().trim_start_matches("-v, ");
        if let Some(flag) = line.strip_prefix("--") {
            let name = &flag[..flag.find(['[', ' ']).unwrap_or(flag.len())];
            flags.insert(name.to_owned(), String::new());
            current = Some(name.to_owned());
        } else if let Some(default) = line.rsplit_once("[default: ").and_then(|(_, end)| end.strip_suffix(']'))
            && let Some(name) = current.take()
        {
            flags.insert(name, plain(default));
        }
    }
    flags
}

/// Without quotes, an empty map as nothing, whole minutes as such.
fn plain(default: &str) -> String {
    match default.trim_matches('"') {
        "map[]" => String::new(),
        "60s" => "1m".to_owned(),
        default => default.strip_suffix("m0s").map_or_else(|| default.to_owned(), |minutes| format!("{minutes}m")),
    }
}
