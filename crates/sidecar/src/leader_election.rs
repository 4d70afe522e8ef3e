//! Leader election as the flags ask for it: where the Lease is and how long it is valid.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::ElectionMetrics;
use controller_runtime::clock::MachineClock;
use controller_runtime::leader_election::{Election, check_durations, lease_name};

use crate::EnvLookup;
use crate::exit::Exit;

/// Validated settings of leader election; the driver's name, which names the Lease, is known only later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElection {
    /// The namespace of the Lease.
    pub namespace: String,
    /// How long others wait, since they last saw the Lease change, before they take it.
    pub lease_duration: Duration,
    /// How long the leader goes on without a successful renewal; shorter than `lease_duration`.
    pub renew_deadline: Duration,
    /// The pause between two attempts.
    pub retry_period: Duration,
    /// Labels the Lease gets, besides those it has.
    pub labels: BTreeMap<String, String>,
}

impl LeaderElection {
    /// The election for one lock; `lock_name` is upstream's raw name, such as the driver's name with a prefix.
    pub fn election(&self, lock_name: &str, config: kube::Config, metrics: ElectionMetrics) -> Election {
        Election {
            clients: Arc::new(config),
            namespace: self.namespace.clone(),
            lease_name: lease_name(lock_name),
            lock_name: lock_name.to_owned(),
            host_name: host_name(),
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
            labels: self.labels.clone(),
            metrics,
            clock: Arc::new(MachineClock),
        }
    }

    /// Refuses times that cannot work. The Go sidecars panic on them, which ends them with code 2.
    pub(crate) fn check(&self) -> Result<(), Exit> {
        check_durations(self.lease_duration, self.renew_deadline, self.retry_period)
            .map_err(|error| Exit::usage(error.to_string()))
    }
}

/// Where the kubelet mounts the namespace of the pod's service account.
pub(crate) const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The namespace of the Lease: the flag, else `POD_NAMESPACE`, else the service account's, else `default`.
pub(crate) fn namespace(flag: &str, env: EnvLookup<'_>, file: &Path) -> String {
    if !flag.is_empty() {
        return flag.to_owned();
    }
    env("POD_NAMESPACE")
        .or_else(|| {
            let text = std::fs::read_to_string(file).ok()?;
            Some(text.trim().to_owned()).filter(|name| !name.is_empty())
        })
        .unwrap_or_else(|| "default".to_owned())
}

/// The kernel's host name. `HOSTNAME` is not read, as upstream does not either.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_namespace_falls_back_in_upstreams_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("namespace");
        std::fs::write(&file, " from-file\n").unwrap();
        let missing = Path::new("/nonexistent/namespace");
        let set: EnvLookup<'_> = &|name| (name == "POD_NAMESPACE").then(|| "from-env".to_owned());
        let unset: EnvLookup<'_> = &|_| None;
        let table = [
            ("flag", set, file.as_path(), "flag"),
            ("", set, file.as_path(), "from-env"),
            ("", unset, file.as_path(), "from-file"),
            ("", unset, missing, "default"),
        ];
        for (flag, env, path, want) in table {
            assert_eq!(namespace(flag, env, path), want);
        }
        std::fs::write(&file, "\n").unwrap();
        assert_eq!(namespace("", unset, &file), "default");
    }

    #[test]
    fn times_that_cannot_work_end_with_code_2() {
        let with = |lease, renew, retry| LeaderElection {
            namespace: "default".into(),
            lease_duration: Duration::from_secs(lease),
            renew_deadline: Duration::from_secs(renew),
            retry_period: Duration::from_secs(retry),
            labels: BTreeMap::new(),
        };
        assert!(with(15, 10, 5).check().is_ok());
        for (times, named) in [
            (with(10, 10, 5), "--leader-election-lease-duration"),
            (with(15, 6, 5), "--leader-election-renew-deadline"),
        ] {
            let exit = times.check().unwrap_err();
            assert_eq!(exit.code, 2);
            assert!(exit.message.contains(named), "{exit}");
        }
    }

    #[test]
    fn the_host_name_is_the_kernels() {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(host_name(), kernel.trim());
    }
}
