//! Snapshots that still carry our finalizer although nothing is restored from them: of processes that have died, or that had
//! no right to take it off.
//!
//! Page by page, so memory does not follow the number of snapshots.

use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Error};
use storage_kube::finalizers;
use storage_kube::names::{Namespace, SnapshotName};
use storage_kube::wire::VolumeSnapshot;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::sweep_one;
use crate::data_source::SourceKey;
use crate::random::fraction;
use crate::term_context::TermContext;

/// Snapshots per page.
const PAGE: u32 = 250;

/// With `--node-deployment` each process sweeps once in so many periods, at a time of its own: a thousand nodes must not read all
/// snapshots all the time.
const PERIODS_OF_A_NODE: u32 = 12;

/// Looks through all snapshots until `drain`: at once and then each `period`, or with `--node-deployment` each twelve periods.
pub(crate) async fn run(term: Arc<TermContext>, period: Duration, drain: CancellationToken) {
    let sweeps = async {
        let mut due = if term.settings.node.is_some() {
            let period = period * PERIODS_OF_A_NODE;
            interval_at(Instant::now() + period.mul_f64(fraction()), period)
        } else {
            interval(period)
        };
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The last failure that was told.
        let mut told = None;
        loop {
            due.tick().await;
            match sweep(&term).await {
                Ok(()) => told = None,
                Err(error) => {
                    let code = if let Error::Api(status) = &error { status.code } else { 0 };
                    if told != Some(code) {
                        complain(code, &error);
                    }
                    told = Some(code);
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = drain.cancelled() => {}
        () = sweeps => {}
    }
}

fn complain(code: u16, error: &Error) {
    match code {
        404 => info!("the API server has no VolumeSnapshots: none is swept until it has"),
        403 => info!(
            "VolumeSnapshots are not swept: allow list on volumesnapshots to release what a crash has left protected ({error})"
        ),
        410 => debug!(err = %error, "the sweep of VolumeSnapshots is cut off, the next begins anew"),
        _ => warn!(err = %error, "VolumeSnapshots could not be listed, the next sweep tries again"),
    }
}

async fn sweep(term: &TermContext) -> Result<(), Error> {
    let snapshots: Api<VolumeSnapshot> = Api::all(term.api.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = snapshots.list(&params).await?;
        for snapshot in &page.items {
            let metadata = &snapshot.metadata;
            let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
            if let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name)
                && finalizers::contains(finalizers, finalizers::SNAPSHOT_SOURCE_PROTECTION)
            {
                let key = SourceKey::Snapshot(Namespace::from(namespace.as_str()), SnapshotName::from(name.as_str()));
                sweep_one(term, &key, snapshot).await;
                term.holds.tidy(&key);
            }
        }
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => params = params.continue_token(&more),
            None => return Ok(()),
        }
    }
}
