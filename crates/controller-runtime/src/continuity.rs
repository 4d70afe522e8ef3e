//! Whether what a term has learnt from the API server still holds.
//!
//! A term works on caches filled by its own lists. Once the server's data is put back to an earlier state (etcd restored
//! without a revision bump, so that versions are issued twice) they are wrong, and every term ends. After a long outage
//! versions cannot show whether that happened: a term without leader election ends when the server answers again.

use std::time::Duration;

use prometheus::{IntCounterVec, Opts, Registry};
use tokio::sync::watch;
use tokio::time::Instant;

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
    /// No request was answered for too long; now the server is back.
    #[error("the API server was out of reach for {0:.1?}; everything learnt from it is forgotten")]
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
    /// How many interruptions there were, and the last one.
    set_backs: (u64, Option<Interruption>),
    outages: (u64, Option<Interruption>),
}

#[derive(Clone, Copy, Debug, Default)]
enum Contact {
    /// No request of this process was answered yet: there is nothing to forget.
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
        let help = "Interruptions of the API server that its watches noticed: it was set back to an earlier state \
                    (reason set_back, once per watch), or did not answer for ten seconds or more (reason outage).";
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

    /// A request was answered, with whatever.
    pub(crate) fn reached(&self) {
        self.state.send_if_modified(|state| {
            let Contact::LostAt(since) = std::mem::replace(&mut state.contact, Contact::Good) else { return false };
            let outage = since.elapsed();
            let long = outage >= self.longest_outage;
            if long {
                state.outages = (state.outages.0 + 1, Some(Interruption::Outage(outage)));
                self.count("outage");
            }
            long
        });
    }

    /// A request was not answered.
    pub(crate) fn missed(&self) {
        self.state.send_if_modified(|state| {
            if matches!(state.contact, Contact::Good) {
                state.contact = Contact::LostAt(Instant::now());
            }
            false
        });
    }

    /// The server's version is `live`, after `seen`.
    pub(crate) fn report_set_back(&self, seen: u64, live: u64) {
        self.count("set_back");
        self.state.send_modify(|state| {
            state.set_backs = (state.set_backs.0 + 1, Some(Interruption::SetBack { seen, live }));
        });
    }

    /// Resolves when the server is set back after this call.
    pub(crate) fn next_set_back(&self) -> impl Future<Output = Interruption> + use<> {
        self.later(|state| state.set_backs)
    }

    /// Resolves when the server is back after a long outage that ends after this call.
    pub(crate) fn next_outage(&self) -> impl Future<Output = Interruption> + use<> {
        self.later(|state| state.outages)
    }

    fn later(&self, of: fn(&State) -> (u64, Option<Interruption>)) -> impl Future<Output = Interruption> + use<> {
        let (mut states, this) = (self.state.subscribe(), self.clone());
        let (known, _) = of(&states.borrow());
        async move {
            loop {
                if let (count, Some(interruption)) = of(&states.borrow_and_update())
                    && count > known
                {
                    return interruption;
                }
                let _ = states.changed().await;
                // Keeps the sender.
                let _ = &this;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_told_when_it_is_over_and_counts_from_its_first_failure() {
        let continuity = Continuity::new(LIMIT);
        let outage = continuity.next_outage();
        tokio::pin!(outage);
        let short = [
            (Continuity::missed as fn(&Continuity), LIMIT * 9), // nothing was learnt yet
            (Continuity::reached, LIMIT),
            (Continuity::missed, LIMIT / 2),
            (Continuity::reached, LIMIT),
            (Continuity::missed, LIMIT / 2),
            (Continuity::missed, LIMIT * 9),
        ];
        for (act, then) in short {
            act(&continuity);
            assert!(timeout(then, &mut outage).await.is_err());
        }
        continuity.reached();
        assert!(matches!(outage.await, Interruption::Outage(time) if time >= LIMIT * 9));
        continuity.missed();
        advance(LIMIT).await;
        let later = continuity.next_outage();
        continuity.reached();
        assert_eq!(later.await, Interruption::Outage(LIMIT));
    }

    #[tokio::test(start_paused = true)]
    async fn a_set_back_ends_the_terms_that_had_begun_and_no_later_one() {
        let continuity = Continuity::new(LIMIT);
        let (first, second) = (continuity.next_set_back(), continuity.next_set_back());
        continuity.report_set_back(9, 4);
        let set_back = Interruption::SetBack { seen: 9, live: 4 };
        assert_eq!((first.await, second.await), (set_back, set_back));
        assert!(timeout(LIMIT, continuity.next_set_back()).await.is_err());
    }
}
