//! Events on Kubernetes objects, as core/v1 (the group upstream's Roles grant), without ever holding up a controller.
//!
//! The flow: [`EventRecorder::record`] puts a note into a bounded queue → [`EventWriter::run`] takes it out →
//! `correlator` decides whether it is a new event, one more of an existing one, or one too many → one POST or PATCH, tried
//! three times.
//!
//! Not guaranteed: that an event is written. When the queue is full or the API server refuses, it is dropped, counted and
//! logged. Of similar events some become one, and of too many about one object most are only counted, as in client-go.

mod correlator;
mod event_object;
mod recent;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::correlator::{Correlator, Write};
pub use self::event_object::EventKind;
use self::event_object::cut_message;
pub(crate) use self::event_object::{Source, new_event};

/// Notes that may wait for the writer.
const QUEUE: usize = 1000;
/// How often one write is tried.
const TRIES: u32 = 3;
/// The pause before the second try; the third waits four times as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// How often what the correlator need not know any more is dropped.
const SWEEP: Duration = Duration::from_mins(10);
/// How long the writer goes on after it was asked to end.
const DRAIN: Duration = Duration::from_secs(2);

/// What a controller has to say about one object.
#[derive(Debug, Clone)]
struct Note {
    about: ObjectReference,
    kind: EventKind,
    reason: String,
    message: String,
    at: Timestamp,
}

/// Takes events from controllers. Clones feed the same queue.
#[derive(Clone)]
pub struct EventRecorder {
    notes: mpsc::Sender<Note>,
    overflow: Arc<Overflow>,
}

/// Notes that did not fit, and whether the present burst of them was logged.
#[derive(Debug, Default)]
struct Overflow {
    dropped: AtomicU64,
    logged: Mutex<bool>,
}

impl EventRecorder {
    /// A recorder, and the writer that its events go to. `component` names the reporting controller; `instance` its
    /// host or pod, empty to leave it out.
    pub fn new(client: Client, component: String, instance: String) -> (Self, EventWriter) {
        let (notes, queue) = mpsc::channel(QUEUE);
        let overflow = Arc::new(Overflow::default());
        let recorder = Self { notes, overflow: overflow.clone() };
        let correlator = Correlator::new(Source { component, instance });
        let writer = EventWriter { client, queue, overflow, correlator };
        (recorder, writer)
    }

    /// Leaves an event about `about` for the writer. Never blocks; a message is cut at 1024 bytes.
    pub fn record(&self, about: &ObjectReference, kind: EventKind, reason: &str, message: String) {
        let note = Note {
            about: about.clone(),
            kind,
            reason: reason.to_owned(),
            message: cut_message(message),
            at: Timestamp::now(),
        };
        if self.notes.try_send(note).is_ok() {
            return;
        }
        let dropped = self.overflow.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        let mut logged = self.overflow.logged.lock();
        if !*logged {
            *logged = true;
            tracing::warn!(
                reason,
                dropped,
                "events are dropped: more than {QUEUE} wait to be written; the API server is slow or refuses them"
            );
        }
    }

    /// How many events were dropped because the queue was full or its writer gone.
    pub fn dropped(&self) -> u64 {
        self.overflow.dropped.load(Ordering::Relaxed)
    }
}

/// Writes the events of its recorders.
pub struct EventWriter {
    client: Client,
    queue: mpsc::Receiver<Note>,
    overflow: Arc<Overflow>,
    correlator: Correlator,
}

impl EventWriter {
    /// Writes events until the last recorder is gone, or until `drain` and then what is queued for at most 2 s more.
    pub async fn run(mut self, drain: CancellationToken) {
        let drained = {
            let mut work = pin!(self.write_all(&drain));
            tokio::select! {
                () = &mut work => return,
                () = drain.cancelled() => {}
            }
            tokio::time::timeout(DRAIN, work).await
        };
        if drained.is_err() {
            tracing::warn!(
                unwritten = self.queue.len() + 1,
                "events are lost: not written within {DRAIN:?} of the end"
            );
        }
    }

    /// Writes until the queue is closed, or empty after `drain`.
    async fn write_all(&mut self, drain: &CancellationToken) {
        let mut sweep = Instant::now() + SWEEP;
        loop {
            let note = tokio::select! {
                biased;
                note = self.queue.recv() => note,
                () = drain.cancelled() => None,
                () = tokio::time::sleep_until(sweep), if !self.correlator.is_empty() => {
                    let now = Instant::now();
                    self.correlator.forget_old(now);
                    sweep = now + SWEEP;
                    continue;
                }
            };
            let Some(note) = note else { return };
            if self.queue.len() < QUEUE / 2 {
                *self.overflow.logged.lock() = false;
            }
            self.write(note).await;
        }
    }

    /// Writes one note, or gives up with a log line.
    async fn write(&mut self, note: Note) {
        let Some(write) = self.correlator.next(&note, Instant::now()) else {
            tracing::debug!(
                name = note.about.name.as_deref().unwrap_or_default(), reason = %note.reason, message = %note.message,
                "event only counted: too many about this object"
            );
            return;
        };
        let mut result = self.send(&write).await;
        if let (Write::Patch { .. }, Err(error)) = (&write, &result)
            && status_code(error) == Some(404)
        {
            // The API server keeps events for an hour only, or the first write of it failed.
            result = self.send(&Write::Create(Box::new(write.event().clone()))).await;
        }
        if let Err(error) = result {
            tracing::warn!(
                kind = note.about.kind.as_deref().unwrap_or_default(),
                namespace = note.about.namespace.as_deref().unwrap_or_default(),
                name = note.about.name.as_deref().unwrap_or_default(),
                reason = %note.reason, message = %note.message, %error,
                "event not written"
            );
        }
    }

    async fn send(&self, write: &Write) -> Result<(), kube::Error> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            match send_once(&self.client, write).await {
                // The event's name is unique: an earlier try had landed.
                Err(error) if status_code(&error) == Some(409) && matches!(write, Write::Create(_)) => break,
                Err(error) if attempt == TRIES || !may_pass_later(&error) => return Err(error),
                Err(_) => tokio::time::sleep(pause).await,
                Ok(()) => break,
            }
            pause *= 4;
        }
        Ok(())
    }
}

async fn send_once(client: &Client, write: &Write) -> Result<(), kube::Error> {
    let event = write.event();
    let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
    let events = Api::<Event>::namespaced(client.clone(), namespace);
    match write {
        Write::Create(event) => events.create(&PostParams::default(), event).await.map(drop),
        Write::Patch { event, change } => {
            let name = event.metadata.name.as_deref().unwrap_or_default();
            events.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.map(drop)
        }
    }
}

fn status_code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Whether the same write may be accepted a moment later. No answer, overload and server errors may pass; a refusal stays.
fn may_pass_later(error: &kube::Error) -> bool {
    !crate::gate::gate_closed(error) && status_code(error).is_none_or(|code| code == 429 || code >= 500)
}

#[cfg(test)]
mod tests;
