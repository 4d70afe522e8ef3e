//! The one Lease object: reading it, and the writes by which this process takes, keeps and gives it away.
//!
//! Every write is a PUT of the object as last read, with its resourceVersion, or a POST when there is none: whoever
//! writes second is refused. No PATCH and no DELETE, which the Roles of the Go sidecars do not grant or need.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use tokio::time::Instant;

use super::lease_name::unique_identity;
use super::lease_record::{Decision, LeaseRecord, OwnWrites, Seen, decide};
use super::{Election, Error};
use crate::clock::Reading;

/// What an attempt to get the lease came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// This process holds it by a write sent then.
    Won(Reading),
    /// Somebody else holds it, until then if nothing changes.
    Held(Instant),
    /// Somebody else wrote at the same time.
    Conflict,
}

/// Whose the lease is, seen from the process that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// Ours, by the write sent then.
    Ours(Reading),
    /// Deleted under us.
    Deleted,
    /// Held by somebody else; empty when it was released by another hand.
    Foreign(String),
}

pub(super) struct LeaseLock {
    pub(super) election: Election,
    pub(super) identity: String,
    api: Api<Lease>,
    /// The object as last read: what the next PUT starts from.
    lease: Option<Lease>,
    seen: Seen,
    own: OwnWrites,
}

/// A write that is ready to be sent. It borrows nothing, so that two can be on their way at once.
pub(super) struct Draft {
    api: Api<Lease>,
    lease: Lease,
    record: LeaseRecord,
    sent: Reading,
}

impl Draft {
    pub(super) async fn send(&self) -> Result<Lease, kube::Error> {
        let parameters = PostParams::default();
        if self.lease.metadata.resource_version.is_some() {
            self.api.replace(&self.lease.name_any(), &parameters, &self.lease).await
        } else {
            self.api.create(&parameters, &self.lease).await
        }
    }
}

impl LeaseLock {
    pub(super) fn new(election: Election) -> Result<Self, Error> {
        let client = election.clients.fresh(request_timeout(&election))?;
        Ok(Self {
            identity: unique_identity(&election.host_name),
            api: Api::namespaced(client, &election.namespace),
            election,
            lease: None,
            seen: Seen::default(),
            own: OwnWrites::default(),
        })
    }

    /// Leaves the present connection, which may be dead without either side knowing.
    pub(super) fn reconnect(&mut self) {
        match self.election.clients.fresh(request_timeout(&self.election)) {
            Ok(client) => self.api = Api::namespaced(client, &self.election.namespace),
            Err(error) => tracing::warn!(%error, "no fresh client for the leader lease, keeping the present one"),
        }
    }

    pub(super) fn api(&self) -> &Api<Lease> {
        &self.api
    }

    /// The object as last read, or one with its name alone.
    pub(super) fn lease(&self) -> Lease {
        self.lease.clone().unwrap_or_else(|| {
            let mut lease = Lease::default();
            lease.metadata.name = Some(self.election.lease_name.clone());
            lease.metadata.namespace = Some(self.election.namespace.clone());
            lease
        })
    }

    /// Takes in what a read, a watch or the answer to a write showed. `true`: it is another record than before.
    pub(super) fn note(&mut self, lease: Option<Lease>) -> bool {
        let record = lease.as_ref().map(LeaseRecord::read);
        let changed = self.seen.record() != record.as_ref();
        self.seen.update(record, self.election.lease_duration, Instant::now());
        self.lease = lease.map(|mut lease| {
            lease.metadata.managed_fields = None;
            lease
        });
        changed
    }

    /// Reads the lease. `true`: it is another record than before.
    pub(super) async fn observe(&mut self) -> Result<bool, kube::Error> {
        let lease = self.api.get_opt(&self.election.lease_name).await?;
        Ok(self.note(lease))
    }

    /// Who holds the lease as far as this process knows.
    pub(super) fn holder(&self) -> Option<&str> {
        self.seen.record().map(|record| record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    pub(super) fn decide(&self) -> Decision {
        decide(&self.seen, &self.own, Instant::now())
    }

    /// Reads the lease and takes it if it is free.
    pub(super) async fn try_acquire(&mut self) -> Result<Attempt, kube::Error> {
        self.observe().await?;
        let duration = self.election.lease_duration;
        let present = self.seen.record();
        let record = match self.decide() {
            Decision::Wait(until) => return Ok(Attempt::Held(until)),
            Decision::Renew => present.map(|record| record.renew(duration, Timestamp::now())),
            Decision::Create | Decision::TakeOver => None,
        };
        let record =
            record.unwrap_or_else(|| LeaseRecord::take_over(present, &self.identity, duration, Timestamp::now()));
        match self.write(record).await {
            Ok(sent) => Ok(Attempt::Won(sent)),
            Err(error) if is_conflict(&error) => Ok(Attempt::Conflict),
            Err(error) => Err(error),
        }
    }

    /// The write that keeps the lease; its first one again after somebody deleted it.
    pub(super) fn renewal(&mut self) -> Draft {
        let (duration, now) = (self.election.lease_duration, Timestamp::now());
        let record = match self.seen.record() {
            Some(record) => record.renew(duration, now),
            None => LeaseRecord::take_over(None, &self.identity, duration, now),
        };
        self.draft(record)
    }

    /// Takes in that `draft` was carried out; returns when it was sent.
    pub(super) fn accept(&mut self, draft: &Draft, lease: Lease) -> Reading {
        self.note(Some(lease));
        self.own.confirm(&draft.record);
        draft.sent
    }

    /// Takes in that `draft` failed. Only an answer of the API server says that it will never be carried out.
    pub(super) fn reject(&mut self, draft: &Draft, error: &kube::Error) {
        if let kube::Error::Api(status) = error
            && (400..500).contains(&status.code)
            && status.code != 408
        {
            self.own.refused(&draft.record);
        }
    }

    /// Whose the lease is by the last observation.
    pub(super) fn standing(&mut self) -> Standing {
        let Some(record) = self.seen.record() else { return Standing::Deleted };
        match self.own.confirm(record) {
            Some(sent) if !record.holder.is_empty() => Standing::Ours(sent),
            _ => Standing::Foreign(record.holder.clone()),
        }
    }

    /// Whether a write of this process may have landed unnoticed.
    pub(super) fn in_doubt(&self) -> bool {
        self.own.in_doubt()
    }

    /// Gives the lease away if it is ours. Whatever it guards must have ended before.
    pub(super) async fn release(&mut self) -> Result<(), kube::Error> {
        let mut certain = !self.own.in_doubt();
        loop {
            if !certain {
                self.observe().await?;
            }
            let (Standing::Ours(_), Some(record)) = (self.standing(), self.seen.record()) else { return Ok(()) };
            let record = record.release(Timestamp::now());
            match self.write(record).await {
                Ok(_) => return Ok(()),
                // Another hand edited the object since it was read: once more with what it is.
                Err(error) if is_conflict(&error) && certain => certain = false,
                Err(error) => return Err(error),
            }
        }
    }

    async fn write(&mut self, record: LeaseRecord) -> Result<Reading, kube::Error> {
        let draft = self.draft(record);
        self.send(&draft).await
    }

    /// Sends `draft` and waits for the answer; returns when it was sent.
    pub(super) async fn send(&mut self, draft: &Draft) -> Result<Reading, kube::Error> {
        match draft.send().await {
            Ok(lease) => Ok(self.accept(draft, lease)),
            Err(error) => {
                self.reject(draft, &error);
                Err(error)
            }
        }
    }

    fn draft(&mut self, record: LeaseRecord) -> Draft {
        let mut lease = self.lease();
        record.write(&mut lease);
        lease.metadata.labels.get_or_insert_default().extend(self.election.labels.clone());
        let sent = self.election.clock.now();
        self.own.sending(record.clone(), sent);
        Draft { api: self.api.clone(), lease, record, sent }
    }
}

/// Limit of one request: half the renew deadline, so that a second one fits.
fn request_timeout(election: &Election) -> Duration {
    election.renew_deadline / 2
}

/// Whether the API server refused a write because the object is not what it was when it was read.
pub(super) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
