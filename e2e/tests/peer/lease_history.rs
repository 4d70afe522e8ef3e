//! Who held the lease when, from every version of the object.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use e2e::eventually;
use e2e::journal::{Moment, Term};
use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::site::{PATIENCE, Side};

/// Longer than any test; the API server ends the watch then.
const WATCH_SECONDS: u32 = 290;

/// One version of the lease.
#[derive(Clone, Debug)]
struct Version {
    holder: String,
    /// When the holder says it took the lease.
    acquired: Option<Moment>,
    /// When the holder says it wrote this version.
    renewed: Option<Moment>,
    duration: Duration,
    observed: Moment,
}

/// Watches the lease from before it is there. The watch ends with it.
pub(crate) struct LeaseHistory {
    versions: Arc<Mutex<Vec<Version>>>,
    /// Why the history goes on no more.
    broken: Arc<Mutex<Option<String>>>,
    _watch: JoinSet<()>,
}

impl LeaseHistory {
    pub(crate) fn of(client: &Client, namespace: &str) -> Self {
        let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
        let versions = Arc::new(Mutex::new(Vec::new()));
        let broken = Arc::new(Mutex::new(None));
        let mut task = JoinSet::new();
        task.spawn({
            let (versions, broken) = (Arc::clone(&versions), Arc::clone(&broken));
            async move {
                let end =
                    watch(&leases, &versions).await.map_or_else(|error| format!("{error:#}"), |()| "ended".to_owned());
                *broken.lock() = Some(end);
            }
        });
        Self { versions, broken, _watch: task }
    }

    /// Waits until the lease is held by a program of that side.
    pub(crate) async fn held_by(&self, side: Side) -> Result<()> {
        let what = format!("the lease to be held by {side:?}");
        let held = eventually(&what, PATIENCE, async || {
            self.whole()?;
            let holder = self.versions.lock().last().map(|version| version.holder.clone());
            Ok(holder.is_some_and(|holder| is_of(&holder, side)).then_some(()))
        });
        held.await.with_context(|| format!("{:#?}", self.versions.lock()))
    }

    fn whole(&self) -> Result<()> {
        self.broken.lock().clone().map_or(Ok(()), |end| Err(anyhow!("the watch of the lease broke off: {end}")))
    }

    /// The times in which programs of that side held the lease: from when they took it to when they let go of it,
    /// or it ran out, or another took it.
    pub(crate) fn terms(&self, side: Side) -> Result<Vec<Term>> {
        self.whole()?;
        terms(&self.versions.lock(), side)
    }
}

fn terms(versions: &[Version], side: Side) -> Result<Vec<Term>> {
    let mut terms: Vec<Term> = Vec::new();
    let mut before = "";
    for (index, version) in versions.iter().enumerate() {
        if is_of(&version.holder, side) {
            let expiry = version.renewed.context("a held lease says when it was renewed")? + version.duration;
            let next = versions.get(index + 1).filter(|next| next.holder != version.holder);
            // Who lets go has ended its calls before that is seen; who takes over says since when.
            let lost = next.map(|next| next.acquired.filter(|_| !next.holder.is_empty()).unwrap_or(next.observed));
            let end = lost.map_or(expiry, |lost| lost.min(expiry));
            match terms.last_mut().filter(|_| before == version.holder) {
                Some(term) => term.end = end,
                None => terms.push(Term { start: version.acquired.context("a holder says since when")?, end }),
            }
        }
        before = &version.holder;
    }
    Ok(terms)
}

async fn watch(leases: &Api<Lease>, versions: &Mutex<Vec<Version>>) -> Result<()> {
    let clocks = Clocks::now();
    let params = WatchParams::default().timeout(WATCH_SECONDS);
    let mut events = leases.watch(&params, "0").await?.boxed();
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(lease) | WatchEvent::Modified(lease) => {
                let version = version(&lease, clocks)?;
                versions.lock().push(version);
            }
            WatchEvent::Bookmark(_) => {}
            other => bail!("unexpected in the history of a lease: {other:?}"),
        }
    }
    Ok(())
}

/// A Go sidecar calls itself by the name of the host; ours adds what makes it unique.
fn is_of(holder: &str, side: Side) -> bool {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let longer = holder.len().saturating_sub(host.len());
    match side {
        Side::Go => longer == 0 && !holder.is_empty(),
        Side::Ours => longer > 0,
    }
}

/// The wall clock, in which leases are written, beside the monotonic one, in which calls are.
#[derive(Clone, Copy)]
struct Clocks {
    wall: Timestamp,
    monotonic: Moment,
}

impl Clocks {
    fn now() -> Self {
        Self { wall: Timestamp::now(), monotonic: Moment::now() }
    }

    /// For moments after this one.
    fn moment(self, time: Timestamp) -> Result<Moment> {
        let after = time.duration_since(self.wall);
        Ok(self.monotonic + Duration::try_from(after).context("the lease is older than its history")?)
    }
}

fn version(lease: &Lease, clocks: Clocks) -> Result<Version> {
    let spec = lease.spec.clone().with_context(|| format!("{} has no spec", lease.name_any()))?;
    Ok(Version {
        holder: spec.holder_identity.unwrap_or_default(),
        acquired: spec.acquire_time.map(|time| clocks.moment(time.0)).transpose()?,
        renewed: spec.renew_time.map(|time| clocks.moment(time.0)).transpose()?,
        duration: Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or_default())?),
        observed: Moment::now(),
    })
}

#[test]
fn a_term_ends_with_its_lease() {
    let zero = Moment::now();
    let at = |seconds| zero + Duration::from_secs(seconds);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let ours = format!("{host}-unique");
    let version = |holder: &str, acquired, renewed| Version {
        holder: holder.to_owned(),
        acquired: Some(at(acquired)),
        renewed: Some(at(renewed)),
        duration: Duration::from_secs(6),
        observed: at(renewed),
    };
    let versions = [
        version(&host, 1, 1),
        version(&host, 1, 3),
        // The Go sidecar is gone, and its lease runs out.
        version(&ours, 20, 20),
        version(&ours, 20, 22),
        // Released, and taken again.
        version("", 20, 24),
        version(&host, 30, 30),
    ];
    let term = |start, end| Term { start: at(start), end: at(end) };
    assert_eq!(terms(&versions, Side::Go).unwrap(), [term(1, 9), term(30, 36)]);
    assert_eq!(terms(&versions, Side::Ours).unwrap(), [term(20, 24)]);
}
