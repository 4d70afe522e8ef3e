//! Whether what a term has learnt from the API server still holds.
//!
//! A term works on caches that its own lists have filled. They hold nothing any more once the server's data was put back
//! to an earlier state (etcd restored without a revision bump: versions are given out a second time), so that ends every
//! term. Without leader election, where no lease runs out, a long outage ends the term as well: a term that begins after
//! it begins with lists.

use std::time::Duration;

use prometheus::{IntCounterVec, Opts, Registry};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Why everything that was learnt from the API server is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Interruption {
    /// The data behind the API server was replaced by older data.
    #[error(
        "the API server was set back: its version is {live} after {seen} was seen, as when etcd is restored from a backup; \
         everything learnt from it is forgotten"
    )]
    SetBack {
        /// The highest resourceVersion seen before.
        seen: u64,
        /// The resourceVersion of the server now.
        live: u64,
    },
    /// No request was answered for too long.
    #[error("the API server was out of reach for {0:?}; everything learnt from it is forgotten")]
    Outage(Duration),
}

/// What the informers of a process notice of the API server. Clones share it.
#[derive(Clone, Debug)]
pub struct Continuity {
    state: watch::Sender<State>,
    longest_outage: Duration,
    /// None where nobody scrapes.
    interruptions: Option<IntCounterVec>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    contact: Contact,
    set_backs: u64,
    last_set_back: Option<Interruption>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Contact {
    /// No request was answered yet in this term: there is nothing to forget.
    #[default]
    None,
    Good,
    /// Since the first request that failed.
    LostAt(Instant),
}

impl Continuity {
    /// `longest_outage`: how long no request may be answered before a term without a lease ends.
    pub fn new(longest_outage: Duration) -> Self {
        Self { state: watch::Sender::default(), longest_outage, interruptions: None }
    }

    /// The same, with its interruptions counted in `registry`.
    ///
    /// # Errors
    /// When the registry has such a metric already.
    pub fn register(longest_outage: Duration, registry: &Registry) -> Result<Self, prometheus::Error> {
        let name = "csi_sidecar_api_server_interruptions_total";
        let help = "Times that everything learnt from the API server was forgotten, because it was set back to an \
                    earlier state (reason set_back) or, without leader election, was out of reach (reason outage).";
        let interruptions = IntCounterVec::new(Opts::new(name, help), &["reason"])?;
        for reason in ["set_back", "outage"] {
            interruptions.with_label_values(&[reason]);
        }
        registry.register(Box::new(interruptions.clone()))?;
        Ok(Self { interruptions: Some(interruptions), ..Self::new(longest_outage) })
    }

    fn count(&self, reason: &str) {
        if let Some(interruptions) = &self.interruptions {
            interruptions.with_label_values(&[reason]).inc();
        }
    }

    /// A request was answered.
    pub(crate) fn reached(&self) {
        self.state.send_if_modified(|state| {
            let changes = !matches!(state.contact, Contact::Good);
            state.contact = Contact::Good;
            changes
        });
    }

    /// A request was not answered, or the server could not answer it.
    pub(crate) fn missed(&self) {
        self.state.send_if_modified(|state| {
            let changes = matches!(state.contact, Contact::Good);
            if changes {
                state.contact = Contact::LostAt(Instant::now());
            }
            changes
        });
    }

    /// The server's version is `live`, after `seen`.
    pub(crate) fn set_back(&self, seen: u64, live: u64) {
        self.count("set_back");
        self.state.send_modify(|state| {
            state.set_backs += 1;
            state.last_set_back = Some(Interruption::SetBack { seen, live });
        });
    }

    /// Begins a term. The future resolves when the server is set back after this call, and with `ends_with_outage` also
    /// when it is out of reach for too long.
    pub(crate) fn interrupted(&self, ends_with_outage: bool) -> impl Future<Output = Interruption> + use<> {
        self.state.send_modify(|state| state.contact = Contact::None);
        let (mut states, this) = (self.state.subscribe(), self.clone());
        let known = states.borrow_and_update().set_backs;
        async move {
            loop {
                let state = *states.borrow_and_update();
                if let Some(set_back) = state.last_set_back.filter(|_| state.set_backs > known) {
                    return set_back;
                }
                let changed = states.changed();
                let Contact::LostAt(since) = state.contact else {
                    // The sender is in `this`.
                    let _ = changed.await;
                    continue;
                };
                if !ends_with_outage {
                    let _ = changed.await;
                } else if timeout_at(since + this.longest_outage, changed).await.is_err() {
                    this.count("outage");
                    return Interruption::Outage(this.longest_outage);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);
    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn an_outage_counts_from_its_first_failure_and_only_after_the_server_was_reached() {
        let continuity = Continuity::new(LIMIT);
        let ended = continuity.interrupted(true);
        tokio::pin!(ended);
        continuity.missed();
        assert!(timeout(LIMIT * 9, &mut ended).await.is_err(), "nothing was learnt yet");
        continuity.reached();
        for act in [Continuity::missed, Continuity::missed, Continuity::reached] {
            act(&continuity);
            assert!(timeout(SECOND * 4, &mut ended).await.is_err());
        }
        continuity.missed();
        let since = Instant::now();
        sleep(SECOND).await;
        continuity.missed();
        assert_eq!(ended.await, Interruption::Outage(LIMIT));
        assert_eq!(since.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_does_not_end_a_term_that_has_a_lease() {
        let continuity = Continuity::new(LIMIT);
        let ended = continuity.interrupted(false);
        tokio::pin!(ended);
        continuity.reached();
        continuity.missed();
        assert!(timeout(LIMIT * 9, &mut ended).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_set_back_ends_the_terms_that_had_begun_and_no_later_one() {
        let continuity = Continuity::new(LIMIT);
        let (first, second) = (continuity.interrupted(true), continuity.interrupted(false));
        continuity.set_back(9, 4);
        let set_back = Interruption::SetBack { seen: 9, live: 4 };
        assert_eq!((first.await, second.await), (set_back, set_back));
        assert!(timeout(LIMIT, continuity.interrupted(true)).await.is_err());
    }
}
