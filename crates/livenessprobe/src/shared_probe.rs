//! One check in flight, shared by all requests that wait.
//!
//! The check belongs to the task, not to the request that began it: a client that goes away takes nothing from the others.

use tokio::sync::{mpsc, oneshot};

use crate::check::{Check, Unhealthy};

/// What a check found.
pub(crate) type Outcome = Result<(), Unhealthy>;

/// Requests that may wait to be seen by the task; more of them wait at the door.
const DOOR: usize = 64;

/// Where requests ask. Clones ask the same task.
#[derive(Clone)]
pub(crate) struct Asker(mpsc::Sender<oneshot::Sender<Outcome>>);

/// The task that checks.
pub(crate) struct SharedProbe {
    check: Check,
    asked: mpsc::Receiver<oneshot::Sender<Outcome>>,
}

impl Asker {
    /// The outcome of the check in flight, or of a new one. `None` when the process is about to end.
    pub(crate) async fn ask(&self) -> Option<Outcome> {
        let (answer, outcome) = oneshot::channel();
        self.0.send(answer).await.ok()?;
        outcome.await.ok()
    }
}

impl SharedProbe {
    pub(crate) fn new(check: Check) -> (Asker, Self) {
        let (asker, asked) = mpsc::channel(DOOR);
        (Asker(asker), Self { check, asked })
    }

    /// Checks whenever somebody asks, until nobody can ask any more.
    pub(crate) async fn run(self) {
        let Self { check, mut asked } = self;
        let mut waiting = Vec::new();
        while let Some(first) = asked.recv().await {
            waiting.push(first);
            let outcome = {
                let mut probe = std::pin::pin!(check.run());
                loop {
                    tokio::select! {
                        biased;
                        outcome = &mut probe => break outcome,
                        Some(another) = asked.recv() => join(&mut waiting, another),
                    }
                }
            };
            log(&outcome);
            for answer in waiting.drain(..) {
                // Who has gone away does not want to know.
                let _ = answer.send(outcome.clone());
            }
        }
    }
}

/// Clients that come and go while a driver hangs must not pile up.
fn join(waiting: &mut Vec<oneshot::Sender<Outcome>>, another: oneshot::Sender<Outcome>) {
    waiting.retain(|answer| !answer.is_closed());
    waiting.push(another);
}

fn log(outcome: &Outcome) {
    match outcome {
        Ok(()) => tracing::trace!("Health check succeeded"),
        Err(error) => tracing::error!(%error, "Health check failed"),
    }
}
