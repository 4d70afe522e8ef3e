//! The command line of the Go resizer starts ours, and bad input ends both with the same code.

use std::path::Path;

use anyhow::Result;
use e2e::resize_scene::ResizeScene;
use e2e::sidecar::{Role, Settings};
use e2e::{Cluster, peer};

use crate::command_line::{Case, go_flags, help, our_flags, same_codes, same_flags};

/// Flags whose default the two help texts tell differently, with the reason.
const OTHER_DEFAULTS: &[(&str, &str)] = &[
    ("kube-api-qps", "no limit unless one of the two is given"),
    ("kube-api-burst", "no limit unless one of the two is given"),
    ("leader-election-namespace", "ours says what an empty one stands for"),
    ("log-flush-frequency", "without effect: lines are written at once"),
    ("automaxprocs", "without effect"),
];

/// Cases with another code, with the reason.
const OTHER_CODES: &[(&str, &str)] = &[];

#[tokio::test]
async fn every_flag_of_go_is_there_with_its_default() -> Result<()> {
    let nowhere = Path::new("/nonexistent");
    let go = help(peer::settings_with_defaults(Role::Resizer, nowhere, "/nonexistent").await?).await?;
    let ours = help(Settings::new(Role::Resizer, nowhere, "/nonexistent")?).await?;
    let go = go_flags(&go);
    assert_eq!(go.len(), 33, "the help text is understood: {go:?}");
    same_flags(&go, &our_flags(&ours), OTHER_DEFAULTS);
    Ok(())
}

#[tokio::test]
async fn bad_input_ends_both_with_the_same_code() -> Result<()> {
    let scene = ResizeScene::start(Cluster::shared_with_audit().await?, "resize-flags", &[]).await?;
    let directory = tempfile::tempdir()?;
    let broken = directory.path().join("broken");
    std::fs::write(&broken, "clusters: [")?;
    let kubeconfig = |path: &Path| format!("--kubeconfig={}", path.display());
    let (broken, missing) = (kubeconfig(&broken), kubeconfig(&directory.path().join("missing")));
    let cases: &[Case<'_>] = &[
        ("help", &["--help"], 0),
        ("short help", &["-h"], 0),
        ("version", &["--version"], 0),
        ("version with one dash", &["-version"], 0),
        ("unknown flag", &["--unknown"], 2),
        ("klog flag", &["--logtostderr"], 2),
        ("flag without its value", &["--timeout"], 2),
        ("bad duration", &["--timeout=soon"], 2),
        ("duration without unit", &["--retry-interval-max=10"], 2),
        ("duration as a word of its own", &["--timeout", "soon"], 2),
        ("bad boolean", &["--handle-volume-inuse-error=maybe"], 2),
        ("bad number", &["--workers=many"], 2),
        ("verbosity joined to its flag", &["-v5"], 2),
        ("bad verbosity", &["-v=x"], 2),
        ("bad pattern", &["--vmodule=file"], 2),
        ("bad label", &["--leader-election-labels=a=b"], 2),
        ("bad automaxprocs", &["--automaxprocs=maybe"], 2),
        ("bad gate value", &["--feature-gates=VolumeAttributesClass=maybe"], 2),
        ("unknown gate", &["--feature-gates=Nonsense=true"], 1),
        ("unknown log format", &["--logging-format=xml"], 1),
        ("alpha log flag", &["--log-text-split-stream"], 1),
        ("no flush", &["--log-flush-frequency=0s"], 1),
        ("two addresses", &["--metrics-address=127.0.0.1:0"], 1),
        ("no kubeconfig", &[&missing], 1),
        ("broken kubeconfig", &[&broken], 1),
        ("relative socket", &["--csi-address=csi.sock"], 1),
        ("other scheme", &["--csi-address=tcp://127.0.0.1:1"], 1),
        ("bad http address", &["--http-endpoint=nonsense"], 1),
        ("renewed too late", &["--leader-election", "--leader-election-lease-duration=5s"], 2),
        ("retried too late", &["--leader-election", "--leader-election-retry-period=9s"], 2),
    ];
    same_codes(cases, OTHER_CODES, async |side| super::settings(&scene, side).await).await
}
