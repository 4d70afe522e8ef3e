//! How fast objects are written: a limit of their own, so that they do not crowd out what volumes wait for.

use std::time::Duration;

use controller_runtime::ApiServer;
use parking_lot::Mutex;
use sidecar::{AdjustableLimit, Exit, RequestLimit};

/// What the flags say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum WriteLimit {
    /// Neither is given.
    FollowsItems,
    /// As asked; `None`: no limit.
    Fixed(Option<RequestLimit>),
}

/// The Go provisioner's values of the flags, for one that is not given beside the other.
const QPS: f64 = 1.0;
const BURST: i64 = 5;

impl WriteLimit {
    /// Of `--kube-api-capacity-qps` and `--kube-api-capacity-burst`.
    pub(crate) fn of_flags(qps: Option<f64>, burst: Option<i64>) -> Result<Self, Exit> {
        if qps.is_none() && burst.is_none() {
            return Ok(Self::FollowsItems);
        }
        RequestLimit::of_values(qps.unwrap_or(QPS), burst.unwrap_or(BURST), "--kube-api-capacity-burst")
            .map(Self::Fixed)
    }
}

/// Writes a second, whatever the number of items.
const LEAST: f64 = 5.0;
const MOST: f64 = 200.0;

/// Enough to write all items twice in a poll interval.
pub(crate) fn following(items: usize, poll_interval: Duration) -> RequestLimit {
    let items = f64::from(u32::try_from(items).unwrap_or(u32::MAX));
    let qps = (2.0 * items / poll_interval.as_secs_f64()).clamp(LEAST, MOST);
    RequestLimit { qps, burst: 10 }
}

/// The limit of a term's writes.
#[derive(Debug)]
pub(crate) struct Budget {
    poll_interval: Duration,
    limit: Option<AdjustableLimit>,
    items: Mutex<usize>,
}

impl Budget {
    /// The limit, and `server` under it.
    pub(crate) fn new(limit: WriteLimit, poll_interval: Duration, server: &ApiServer) -> (Self, ApiServer) {
        let (limited, limit) = match limit {
            WriteLimit::FollowsItems => {
                let (limited, limit) = following(0, poll_interval).limit_adjustably(server);
                (limited, Some(limit))
            }
            WriteLimit::Fixed(Some(limit)) => (limit.limit(server), None),
            WriteLimit::Fixed(None) => (server.clone(), None),
        };
        (Self { poll_interval, limit, items: Mutex::new(0) }, limited)
    }

    /// From here on there are so many items.
    pub(crate) fn follow(&self, items: usize) {
        let Some(limit) = &self.limit else { return };
        let mut known = self.items.lock();
        if *known != items {
            *known = items;
            limit.set(following(items, self.poll_interval));
        }
    }
}
