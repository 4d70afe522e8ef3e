//! The command line of the Go provisioner starts ours, and bad input ends both with the same code.

use std::path::Path;

use anyhow::Result;
use e2e::peer;
use e2e::sidecar::{Role, Settings};

use crate::command_line::{Case, help, our_flags, pflag_flags, same_codes, same_flags};
use crate::site::Site;

/// Flags whose default the two help texts tell differently, with the reason.
const OTHER_DEFAULTS: &[(&str, &str)] = &[
    ("kube-api-qps", "no limit unless one of the two is given"),
    ("kube-api-burst", "no limit unless one of the two is given"),
    ("kube-api-capacity-qps", "a limit that follows the number of capacities unless one of the two is given"),
    ("kube-api-capacity-burst", "a limit that follows the number of capacities unless one of the two is given"),
    ("capacity-threads", "as many as the capacities need unless it is given"),
    ("leader-election-namespace", "ours says what an empty one stands for"),
    ("log-flush-frequency", "without effect: lines are written at once"),
];

#[tokio::test]
async fn every_flag_of_go_is_there_with_its_default() -> Result<()> {
    let nowhere = Path::new("/nonexistent");
    let go = help(peer::settings_with_defaults(Role::Provisioner, nowhere, "/nonexistent").await?).await?;
    let ours = help(Settings::new(Role::Provisioner, nowhere, "/nonexistent")?).await?;
    same_flags(&pflag_flags(&go), &our_flags(&ours), OTHER_DEFAULTS);
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
    let cases: &[Case<'_>] = &[
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
    same_codes(cases, &[], async |side| site.settings(side).await).await
}
