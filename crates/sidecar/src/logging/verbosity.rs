//! Which events are written at which `-v`.

use tracing::Level;
use tracing::level_filters::LevelFilter;

/// The crates whose events are not ours. They speak only of problems, until someone looks for a problem in them.
const LIBRARIES: [&str; 18] = [
    "h2",
    "hyper",
    "hyper_rustls",
    "hyper_util",
    "kube",
    "kube_client",
    "kube_core",
    "kube_runtime",
    "loona_hpack",
    "mio",
    "rustls",
    "rustls_platform_verifier",
    "tokio",
    "tokio_util",
    "tonic",
    "tower",
    "tower_http",
    "want",
];

/// From here on libraries are heard at every level but the most detailed.
const LIBRARY_DETAILS: u32 = 8;
/// From here on everything is written.
const EVERYTHING: u32 = 10;

/// The lowest `-v` at which our own events of this level are written.
pub(super) fn threshold(level: Level) -> u32 {
    match level {
        Level::TRACE => 5,
        Level::DEBUG => 2,
        _ => 0,
    }
}

/// Whether an event is written at verbosity `v`.
pub(super) fn shows(level: Level, target: &str, v: u32) -> bool {
    let name = crate_of(target);
    if !LIBRARIES.contains(&name) {
        return v >= threshold(level);
    }
    let needed = match level {
        // Each failed request is reported as it fails, with the whole answer: also those that the caller expects and
        // handles, or tells once in words of its own.
        Level::ERROR | Level::WARN if is_told_by_its_caller(target) => 4,
        Level::ERROR | Level::WARN => 0,
        Level::INFO | Level::DEBUG => LIBRARY_DETAILS,
        Level::TRACE => EVERYTHING,
    };
    v >= needed
}

fn is_told_by_its_caller(target: &str) -> bool {
    // Not `kube_client::client::auth`.
    target == "kube_client::client"
        || target.starts_with("kube_client::client::builder")
        || target == "kube_runtime::watcher"
}

/// The most detailed level any event can have and still be written at verbosity `v`.
pub(super) fn most_detailed(v: u32) -> LevelFilter {
    match v {
        0..2 => LevelFilter::INFO,
        2..5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// The crate an event comes from, by its target.
pub(super) fn crate_of(target: &str) -> &str {
    target.split("::").next().unwrap_or(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_opens_levels_and_libraries_in_steps() {
        // target, level, the lowest -v that shows it
        let table = [
            ("csi_provisioner::claim", Level::ERROR, 0),
            ("csi_provisioner::claim", Level::WARN, 0),
            ("csi_provisioner::claim", Level::INFO, 0),
            ("csi_provisioner::claim", Level::DEBUG, 2),
            ("csi_client::call", Level::TRACE, 5),
            ("hyper_util::client", Level::ERROR, 0),
            ("h2", Level::WARN, 0),
            ("hyper::proto", Level::INFO, 8),
            ("tower::buffer::worker", Level::DEBUG, 8),
            ("h2::codec", Level::TRACE, 10),
            ("kube_client::client::builder", Level::ERROR, 4),
            ("kube_client::client", Level::WARN, 4),
            ("kube_client::client::auth", Level::ERROR, 0),
            ("kube_runtime::watcher", Level::WARN, 4),
            ("hyperion", Level::INFO, 0),
        ];
        for (target, level, lowest) in table {
            for v in 0..=11 {
                assert_eq!(shows(level, target, v), v >= lowest, "{target} {level} at -v {v}");
                if v >= lowest {
                    assert!(most_detailed(v) >= level, "{level} at -v {v}");
                }
            }
        }
    }
}
