//! What a Lease says, and what follows from it. No I/O.
//!
//! A record is judged by how long this process has seen it unchanged on its own monotonic clock, never by the times
//! written in it: clocks of other machines are not trusted.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

use crate::clock::Reading;

/// How many of its own unanswered writes a process remembers. One forgotten is taken for foreign, which costs waiting.
const UNANSWERED: usize = 16;

/// The fields of `Lease.spec` the rules read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LeaseRecord {
    pub(super) holder: String,
    pub(super) duration_seconds: i32,
    pub(super) acquired: Option<Timestamp>,
    pub(super) renewed: Option<Timestamp>,
    pub(super) transitions: i32,
}

impl LeaseRecord {
    pub(super) fn read(lease: &Lease) -> Self {
        let Some(spec) = &lease.spec else { return Self::default() };
        Self {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquired: spec.acquire_time.as_ref().map(|time| time.0),
            renewed: spec.renew_time.as_ref().map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    /// Writes the record into `lease`; everything else in it stays.
    pub(super) fn write(&self, lease: &mut Lease) {
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(self.holder.clone());
        spec.lease_duration_seconds = Some(self.duration_seconds);
        spec.acquire_time = self.acquired.map(MicroTime);
        spec.renew_time = self.renewed.map(MicroTime);
        spec.lease_transitions = Some(self.transitions);
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.duration_seconds.try_into().unwrap_or(0))
    }

    /// The record that takes the lease over from `previous`, or opens a new one.
    pub(super) fn take_over(previous: Option<&Self>, identity: &str, lease: Duration, now: Timestamp) -> Self {
        let now = microseconds(now);
        Self {
            holder: identity.to_owned(),
            duration_seconds: whole_seconds(lease),
            acquired: Some(now),
            renewed: Some(now),
            transitions: previous.map_or(0, |record| record.transitions.saturating_add(1)),
        }
    }

    /// The record by which the holder of `self` keeps the lease.
    pub(super) fn renew(&self, lease: Duration, now: Timestamp) -> Self {
        Self { duration_seconds: whole_seconds(lease), renewed: Some(microseconds(now)), ..self.clone() }
    }

    /// The record by which the holder of `self` gives the lease away.
    pub(super) fn release(&self, now: Timestamp) -> Self {
        let now = microseconds(now);
        Self {
            holder: String::new(),
            duration_seconds: 1,
            acquired: Some(now),
            renewed: Some(now),
            transitions: self.transitions,
        }
    }
}

/// `MicroTime` carries no more, and a record read back must equal the one written.
fn microseconds(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// Rounded up where client-go cuts off: others must never wait shorter than this process believes.
fn whole_seconds(lease: Duration) -> i32 {
    let seconds = lease.as_secs().saturating_add(u64::from(lease.subsec_nanos() > 0));
    seconds.try_into().unwrap_or(i32::MAX)
}

/// A record, and since when this process has seen it unchanged.
#[derive(Debug, Clone)]
pub(super) struct Observation {
    pub(super) record: LeaseRecord,
    pub(super) since: Instant,
}

impl Observation {
    fn expiry(&self) -> Instant {
        self.since + self.record.duration()
    }
}

/// All that this process knows of the Lease.
#[derive(Debug, Clone, Default)]
pub(super) enum Seen {
    /// It never existed as far as this process knows.
    #[default]
    Nothing,
    /// It was deleted. From then on no holder can be at work that this process does not know of.
    Deleted(Instant),
    /// It exists.
    Present(Observation),
}

impl Seen {
    /// Takes in what was just read. The clock of a record that did not change goes on running.
    ///
    /// `lease` is how long a holder may be at work after its last renewal; this process may have missed it.
    pub(super) fn update(&mut self, record: Option<LeaseRecord>, lease: Duration, now: Instant) {
        *self = match (std::mem::take(self), record) {
            (Self::Present(last), None) => Self::Deleted(now + lease.max(last.record.duration())),
            (absent, None) => absent,
            (Self::Present(last), Some(record)) if last.record == record => Self::Present(last),
            (_, Some(record)) => Self::Present(Observation { record, since: now }),
        };
    }

    pub(super) fn record(&self) -> Option<&LeaseRecord> {
        match self {
            Self::Present(observation) => Some(&observation.record),
            Self::Nothing | Self::Deleted(_) => None,
        }
    }
}

/// The records this process sent. A record that names this process but is not among them was written by somebody else.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    confirmed: Option<(LeaseRecord, Reading)>,
    unanswered: VecDeque<(LeaseRecord, Reading)>,
}

impl OwnWrites {
    /// Notes a record about to be sent at `now`.
    pub(super) fn sending(&mut self, record: LeaseRecord, now: Reading) {
        if self.unanswered.len() == UNANSWERED {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back((record, now));
    }

    /// Notes that `record` was read back, and says when it was sent.
    ///
    /// When it is a new one, the others were sent against an older resourceVersion and can never land.
    pub(super) fn confirm(&mut self, record: &LeaseRecord) -> Option<Reading> {
        let sent = self.sent_at(record)?;
        if self.confirmed.as_ref().is_none_or(|(confirmed, _)| confirmed != record) {
            self.confirmed = Some((record.clone(), sent));
            self.unanswered.clear();
        }
        Some(sent)
    }

    /// Notes that the API server refused `record`.
    pub(super) fn refused(&mut self, record: &LeaseRecord) {
        self.unanswered.retain(|(own, _)| own != record);
    }

    /// When `record` was sent, if this process sent it.
    pub(super) fn sent_at(&self, record: &LeaseRecord) -> Option<Reading> {
        self.confirmed.iter().chain(&self.unanswered).find(|(own, _)| own == record).map(|(_, sent)| *sent)
    }

    /// Whether a write may have landed without this process knowing.
    pub(super) fn in_doubt(&self) -> bool {
        !self.unanswered.is_empty()
    }
}

/// What a candidate does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// There is no Lease: create it.
    Create,
    /// Nobody holds it any more: write this process into it.
    TakeOver,
    /// This process holds it: keep it.
    Renew,
    /// Somebody else holds it, until then if nothing changes.
    Wait(Instant),
}

/// The rule of the election for a process that does not hold the lease.
///
/// A Lease deleted under its holder is not free at once: the holder goes on for a while and creates it again with its
/// next renewal.
pub(super) fn decide(seen: &Seen, own: &OwnWrites, now: Instant) -> Decision {
    match seen {
        Seen::Deleted(free) if now < *free => Decision::Wait(*free),
        Seen::Nothing | Seen::Deleted(_) => Decision::Create,
        Seen::Present(present) if present.record.holder.is_empty() => Decision::TakeOver,
        Seen::Present(present) if own.sent_at(&present.record).is_some() => Decision::Renew,
        Seen::Present(present) if now < present.expiry() => Decision::Wait(present.expiry()),
        Seen::Present(_) => Decision::TakeOver,
    }
}

#[cfg(test)]
mod tests;
