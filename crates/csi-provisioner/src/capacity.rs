//! CSIStorageCapacity objects (KEP-1472): how much of each class there is in each segment, for the scheduler.
//!
//! The flow of one object:
//!
//! 1. [`owner`] finds the owner once in the life of the process, [`place`] the version of the API in each term, which watches
//!    our objects.
//! 2. Classes and nodes change ([`changes`]): [`segments`] and [`desired`] say which objects there should be.
//! 3. An [`item::Item`], a class in a segment, gets into the queue: new ones first, all of them at each poll, some of them when
//!    a volume was made or is gone ([`refresh`]). One that waits already is not added again.
//! 4. [`sync`] asks the driver, as many times at once as [`call_slots`] allows, [`decision`] decides (pure), [`mod@write`] writes
//!    what has changed ([`body`]), at the pace of [`budget`]. What the cache does not show yet is in [`own_writes`].
//!
//! Nothing here holds up volumes: the objects have a watch, a queue and a budget of their own, and volumes do not wait for
//! them. Everything belongs to a leader term and may be dropped at any moment: the next one finds objects by what they say.

pub(crate) mod affinity;
pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod call_slots;
pub(crate) mod changes;
pub(crate) mod decision;
pub(crate) mod desired;
pub(crate) mod error;
pub(crate) mod item;
mod left_behind;
pub(crate) mod managed_by;
pub(crate) mod metrics;
pub(crate) mod own_writes;
pub(crate) mod owner;
pub(crate) mod place;
pub(crate) mod process;
pub(crate) mod refresh;
pub(crate) mod segments;
pub(crate) mod sync;
pub(crate) mod write;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::{Gate, Informer, Outcome, WorkQueue, run_workers};
use parking_lot::Mutex;
use storage_kube::names::ClassName;
use storage_kube::topology::Segment;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::random::fraction;
use crate::records::{CapacityProjection, CapacityRecord};
use crate::term::Process;
use crate::term_context::TermContext;
use budget::Budget;
use call_slots::{CallSlots, Pace};
use changes::Topology;
use desired::{Desired, is_wanted};
use item::Item;
use metrics::Counts;
use own_writes::OwnWrites;
use place::Place;
use process::CapacityProcess;
use segments::SegmentSource;
use write::{Refused, Writer};

/// Items in work at a time. Of these `GetCapacity` calls only as many as [`call_slots`] allows.
const WORKERS: usize = 32;
/// Nodes come in numbers: so long is waited for more before the segments are found anew.
const SETTLE: Duration = Duration::from_millis(200);
/// So long is waited for more before the capacities of a class are asked for: claims fail in numbers too.
const COALESCE: Duration = Duration::from_secs(1);

/// The capacities in one term.
pub(crate) struct Capacity {
    pub(crate) process: Arc<CapacityProcess>,
    /// This provisioner's.
    pub(crate) objects: Informer<CapacityProjection>,
    pub(crate) desired: Mutex<Desired>,
    pub(crate) own_writes: OwnWrites,
    pub(crate) queue: WorkQueue<Item>,
    /// Where the segments depend on nodes.
    pub(crate) topology: Option<WorkQueue<Topology>>,
    pub(crate) slots: CallSlots,
    pub(crate) writer: Writer,
    budget: Budget,
    stale_classes: Mutex<BTreeSet<ClassName>>,
    stale: Notify,
}

impl Capacity {
    /// For a term whose gate this is; its objects are in `place`.
    pub(crate) fn new(process: &Arc<CapacityProcess>, place: Place, provisioner: &Process, gate: &Gate) -> Arc<Self> {
        let CapacityProcess { flags, timeout, owner, source, projection, .. } = &**process;
        let Process { unlimited, backoff, queue_metrics, informers, .. } = provisioner;
        let (budget, limited) = Budget::new(flags.write_limit, flags.poll_interval, unlimited);
        let pace = Pace { threads: flags.threads, poll_interval: flags.poll_interval, timeout: *timeout };
        let follows_nodes = matches!(source, SegmentSource::Nodes);
        let capacity = Arc::new(Self {
            process: Arc::clone(process),
            objects: informers.of(place.objects(&projection.managed_by), projection.clone(), None),
            desired: Mutex::default(),
            own_writes: OwnWrites::default(),
            queue: WorkQueue::new("csistoragecapacity", *backoff, queue_metrics),
            topology: follows_nodes.then(|| WorkQueue::new("csitopology", *backoff, queue_metrics)),
            slots: CallSlots::new(pace),
            writer: Writer {
                api: gate.client(&limited),
                place,
                owner: owner.clone(),
                projection: projection.clone(),
                refused: Refused::default(),
            },
            budget,
            stale_classes: Mutex::default(),
            stale: Notify::new(),
        });
        process.metrics.follow(&capacity);
        capacity
    }

    /// The objects of an item that the cache has.
    pub(crate) fn cached(&self, item: &Item) -> Vec<Arc<CapacityRecord>> {
        let names = self.objects.in_group(item);
        names.iter().filter_map(|name| self.objects.get(name)).collect()
    }

    /// Asks for all capacities of a class, soon.
    pub(crate) fn refresh_class(&self, class: &ClassName) {
        if self.desired.lock().wants_class(class) {
            self.stale_classes.lock().insert(class.clone());
            self.stale.notify_one();
        }
    }

    /// Asks for the capacities of all classes in exactly this segment.
    pub(crate) fn refresh_segment(&self, segment: &Segment) {
        let items = self.desired.lock().of_known_segment(segment);
        for item in items {
            self.queue.add(item);
        }
    }

    /// Items that were not wanted before, or are not any more: as if they had never failed, and those without an object
    /// before all others.
    pub(crate) fn add_afresh(&self, items: Vec<Item>) {
        let wanted = self.desired.lock().len();
        self.budget.follow(wanted);
        for item in items {
            self.queue.forget(&item);
            if self.objects.in_group(&item).is_empty() {
                self.queue.add_urgent(item);
            } else {
                self.queue.add(item);
            }
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let items = self.desired.lock().items();
        let there = items.iter().filter(|item| !self.objects.in_group(item).is_empty()).count();
        Counts { goal: items.len(), current: there, obsolete: self.objects.len().saturating_sub(there) }
    }

    /// Finds the segments anew.
    fn find_segments(&self, term: &TermContext) {
        let segments = match (&self.process.source, &term.caches.nodes) {
            (SegmentSource::Fixed(segment), _) => BTreeSet::from([self.process.table.intern(segment.clone())]),
            (SegmentSource::Nodes, Some(nodes)) => segments::of_cluster(nodes, &self.process.table),
            (SegmentSource::Nodes, None) => BTreeSet::new(),
        };
        let changed = self.desired.lock().set_segments(segments);
        if !changed.is_empty() {
            debug!(items = changed.len(), "segments have changed");
        }
        self.add_afresh(changed);
    }

    fn find_classes(&self, term: &TermContext) {
        let mut desired = self.desired.lock();
        for name in term.caches.classes.keys() {
            let wanted = |class: Arc<_>| is_wanted(&class, self.process.flags.immediate_binding);
            desired.set_class(&name, term.caches.classes.get(&name).is_some_and(wanted));
        }
    }
}

/// Publishes capacities until the term drains. Nothing that is in flight then has to end: asking changes nothing, and a
/// write that is cut off is found by the next leader, done or not.
pub(crate) async fn work(term: &Arc<TermContext>, drain: &CancellationToken) {
    let Some(capacity) = &term.capacity else { return };
    tokio::select! {
        biased;
        () = drain.cancelled() => {}
        () = publish(term, capacity, drain) => {}
    }
}

async fn publish(term: &Arc<TermContext>, capacity: &Arc<Capacity>, drain: &CancellationToken) {
    // What the previous leader made must be seen before anything is made.
    capacity.objects.synced().await;
    capacity.find_classes(term);
    capacity.find_segments(term);
    info!(wanted = capacity.desired.lock().len(), "storage capacities are published");
    let _subscriptions = changes::subscribe(term, capacity);
    let worker = |item| sync::sync_item(Arc::clone(term), item);
    tokio::join!(
        run_workers(capacity.queue.clone(), WORKERS, drain.clone(), worker),
        follow_topology(term, capacity, drain),
        poll(capacity),
        refresh_classes(capacity),
        left_behind(term, capacity),
    );
}

async fn left_behind(term: &TermContext, capacity: &Capacity) {
    if term.settings.node.is_some() {
        Box::pin(left_behind::delete_seldom(capacity, &term.api)).await;
    }
}

async fn follow_topology(term: &Arc<TermContext>, capacity: &Arc<Capacity>, drain: &CancellationToken) {
    let Some(queue) = &capacity.topology else { return };
    let worker = |Topology| async {
        sleep(SETTLE).await;
        capacity.find_segments(term);
        Outcome::Done
    };
    run_workers(queue.clone(), 1, drain.clone(), &worker).await;
}

/// Asks for everything, over and over. What still waits from the round before is not added again; what waits out a failure is
/// tried at once. The first round begins anywhere in its interval, so that provisioners that started together, one on each
/// node, are apart.
async fn poll(capacity: &Capacity) {
    let interval = capacity.process.flags.poll_interval;
    let mut next = Instant::now() + interval.mul_f64(0.5 + fraction() / 2.0);
    loop {
        sleep_until(next).await;
        next += interval;
        let items = capacity.desired.lock().items();
        debug!(items = items.len(), waiting = capacity.queue.len(), "all capacities are asked for");
        for item in items {
            capacity.queue.add(item);
        }
    }
}

async fn refresh_classes(capacity: &Capacity) {
    loop {
        capacity.stale.notified().await;
        sleep(COALESCE).await;
        let classes = std::mem::take(&mut *capacity.stale_classes.lock());
        for class in &classes {
            let items = capacity.desired.lock().of_class(class);
            for item in items {
                capacity.queue.add(item);
            }
        }
    }
}
