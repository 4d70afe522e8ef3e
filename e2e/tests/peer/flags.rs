//! The command line of the Go provisioner starts ours, and bad input ends both with the same code.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use e2e::provisioner::Settings;
use e2e::{Provisioner, peer};

use crate::site::{PATIENCE, Side, Site};

/// Flags whose default the two help texts tell differently, with the reason.
const OTHER_DEFAULTS: &[(&str, &str)] = &[
    ("kube-api-qps", "no limit unless one of the two is given"),
    ("kube-api-burst", "no limit unless one of the two is given"),
    ("leader-election-namespace", "ours says what an empty one stands for"),
    ("log-flush-frequency", "without effect: lines are written at once"),
];

/// Cases with another code, with the reason.
const OTHER_CODES: &[(&str, &str)] = &[
    ("node without its name", "1 with or without it: not supported yet"),
    ("capacity without namespace", "1 with or without it: not supported yet"),
];

#[tokio::test]
async fn every_flag_of_go_is_there_with_its_default() -> Result<()> {
    let nowhere = Path::new("/nonexistent");
    let go = help(peer::provisioner_with_defaults(nowhere, "/nonexistent").await?).await?;
    let ours = help(Settings::new(nowhere, "/nonexistent")?).await?;
    let (go, ours) = (go_flags(&go), our_flags(&ours));
    assert!(go.len() > 50, "the help text is understood: {go:?}");
    let missing: Vec<_> = go.keys().filter(|flag| !ours.contains_key(*flag)).collect();
    assert!(missing.is_empty(), "flags that ours has not: {missing:?}");
    let extra: Vec<_> = ours.keys().filter(|flag| !go.contains_key(*flag)).collect();
    assert!(extra.is_empty(), "flags of ours alone: {extra:?}");
    let differs = |flag: &str| go[flag] != ours[flag];
    let listed = |flag: &str| OTHER_DEFAULTS.iter().any(|(listed, _)| *listed == flag);
    let other: Vec<_> = go
        .keys()
        .filter(|flag| differs(flag) != listed(flag))
        .map(|flag| format!("{flag}: go {:?}, ours {:?}, listed: {}", go[flag], ours[flag], listed(flag)))
        .collect();
    assert!(other.is_empty(), "defaults:\n{}", other.join("\n"));
    Ok(())
}

#[tokio::test]
async fn bad_input_ends_both_with_the_same_code() -> Result<()> {
    let site = Site::start("flags", &[]).await?;
    let directory = tempfile::tempdir()?;
    let broken = directory.path().join("broken");
    std::fs::write(&broken, "clusters: [")?;
    let kubeconfig = |path: &Path| format!("--kubeconfig={}", path.display());
    let (broken, missing) = (kubeconfig(&broken), kubeconfig(&directory.path().join("missing")));
    let cases: &[(&str, &[&str], i32)] = &[
        ("help", &["--help"], 0),
        ("version", &["--version"], 0),
        ("word before version", &["word", "--version"], 0),
        ("unknown flag", &["--unknown"], 2),
        ("removed flag", &["--provisioner=x"], 2),
        ("klog flag", &["--logtostderr"], 2),
        ("one dash", &["-csi-address=/run/csi.sock"], 2),
        ("flag without its value", &["--timeout"], 2),
        ("bad duration", &["--timeout=soon"], 2),
        ("duration without unit", &["--timeout=10"], 2),
        ("bad boolean", &["--leader-election=maybe"], 2),
        ("bad number", &["--worker-threads=many"], 2),
        ("negative number", &["--worker-threads=-1"], 2),
        ("bad verbosity", &["-vx"], 2),
        ("bad pattern", &["--vmodule=file"], 2),
        ("bad label", &["--leader-election-labels=a=b"], 2),
        ("bad automaxprocs", &["--automaxprocs=maybe"], 2),
        ("bad gate value", &["--feature-gates=Topology=maybe"], 2),
        ("unknown gate", &["--feature-gates=Nonsense=true"], 255),
        ("unknown log format", &["--logging-format=xml"], 1),
        ("alpha log flag", &["--log-text-split-stream"], 1),
        ("no flush", &["--log-flush-frequency=0s"], 1),
        ("two addresses", &["--metrics-address=127.0.0.1:0"], 1),
        ("no kubeconfig", &[&missing], 255),
        ("broken kubeconfig", &[&broken], 255),
        ("relative socket", &["--csi-address=csi.sock"], 1),
        ("other scheme", &["--csi-address=tcp://127.0.0.1:1"], 1),
        ("bad http address", &["--http-endpoint=nonsense"], 255),
        ("renewed too late", &["--leader-election", "--leader-election-lease-duration=5s"], 2),
        ("retried too late", &["--leader-election", "--leader-election-retry-period=9s"], 2),
        ("node without its name", &["--node-deployment"], 255),
        ("capacity without namespace", &["--enable-capacity"], 255),
    ];
    let mut found = Vec::new();
    for (case, flags, code) in cases {
        let run = async |side| {
            let settings = site.settings(side).await?;
            let mut provisioner = flags.iter().fold(settings, |settings, flag| settings.flag(flag)).start()?;
            anyhow::Ok((provisioner.process().ended(PATIENCE).await?, provisioner.process().tail()))
        };
        let ((go, go_log), (ours, our_log)) = tokio::try_join!(run(Side::Go), run(Side::Ours))?;
        let listed = OTHER_CODES.iter().any(|(listed, _)| listed == case);
        if go != *code || (ours != go) != listed {
            found.push(format!("{case} {flags:?}: expected {code}, go {go}, ours {ours}\n{go_log}\n{our_log}"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

async fn help(settings: Settings) -> Result<String> {
    let mut provisioner: Provisioner = settings.flag("--help").start()?;
    assert_eq!(provisioner.process().ended(PATIENCE).await?, 0);
    Ok(provisioner.process().log())
}

/// Name and default of each flag; a flag begins a line of its own: `--name type   text (default x)`.
fn go_flags(help: &str) -> BTreeMap<String, String> {
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

/// The same of ours: `--name <VALUE>` or `--name[=<BOOL>]`, the text on the next line, with `[default: x]`.
fn our_flags(help: &str) -> BTreeMap<String, String> {
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
