//! One scripted call: what to wait for, what to do, what to answer.

use std::any::Any;
use std::fmt;
use std::future::pending;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::rpc::{CsiRequest, Rpc};

/// Lets go of the calls that wait for it; clones release the same calls.
///
/// Released once, it stays released.
#[derive(Clone, Debug, Default)]
pub struct Release(CancellationToken);

impl Release {
    /// A release that holds calls until [`Release::release`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets all calls go, those that wait and those still to come.
    pub fn release(&self) {
        self.0.cancel();
    }
}

/// What one call of an RPC does. A call whose caller goes away ends at once, wherever it is.
///
/// Order: the wait of [`after`](Step::after), [`held_by`](Step::held_by) or [`hang`](Step::hang); the work; the
/// wait of [`answered_after`](Step::answered_after) or [`answer_held_by`](Step::answer_held_by); the answer.
#[derive(Debug)]
pub struct Step {
    pub(crate) before: Wait,
    pub(crate) act: Act,
    pub(crate) late: Wait,
}

#[derive(Debug)]
pub(crate) enum Wait {
    Nothing,
    For(Duration),
    Held(Release),
    Forever,
}

pub(crate) enum Act {
    Default,
    Fail(Status),
    WorkThenFail(Status),
    Respond(Rpc, Respond),
}

type Erased = Box<dyn Any + Send>;
pub(crate) type Respond = Box<dyn FnOnce(&dyn Any) -> Result<Erased, Status> + Send>;

impl Step {
    const fn of(act: Act) -> Self {
        Self { before: Wait::Nothing, act, late: Wait::Nothing }
    }

    /// The default behaviour; only useful with a wait, or to let a call through before a failing one.
    pub const fn answer() -> Self {
        Self::of(Act::Default)
    }

    /// Does nothing and answers an error.
    pub fn fail(code: Code, message: impl Into<String>) -> Self {
        Self::of(Act::Fail(Status::new(code, message)))
    }

    /// Does the default work, then answers an error all the same.
    pub fn work_then_fail(code: Code, message: impl Into<String>) -> Self {
        Self::of(Act::WorkThenFail(Status::new(code, message)))
    }

    /// Answers what `respond` returns; the backend is not touched.
    pub fn respond<R: CsiRequest>(respond: impl FnOnce(&R) -> Result<R::Response, Status> + Send + 'static) -> Self {
        let erased = move |request: &dyn Any| {
            let request =
                request.downcast_ref::<R>().ok_or_else(|| Status::internal("fake driver: request of another RPC"))?;
            respond(request).map(|response| Box::new(response) as Erased)
        };
        Self::of(Act::Respond(R::RPC, Box::new(erased)))
    }

    /// Never works and never answers; ends only when the caller gives up or the driver stops.
    pub const fn hang() -> Self {
        Self { before: Wait::Forever, act: Act::Default, late: Wait::Nothing }
    }

    /// Waits before the work.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.before = Wait::For(delay);
        self
    }

    /// Waits for `release` before the work.
    #[must_use]
    pub fn held_by(mut self, release: &Release) -> Self {
        self.before = Wait::Held(release.clone());
        self
    }

    /// Waits between the work and the answer: a caller that gives up meanwhile has its volume all the same.
    #[must_use]
    pub fn answered_after(mut self, delay: Duration) -> Self {
        self.late = Wait::For(delay);
        self
    }

    /// Waits for `release` between the work and the answer.
    #[must_use]
    pub fn answer_held_by(mut self, release: &Release) -> Self {
        self.late = Wait::Held(release.clone());
        self
    }

    /// The RPC this step can only be used for, if there is one.
    pub(crate) fn bound_to(&self) -> Option<Rpc> {
        match &self.act {
            Act::Respond(rpc, _) => Some(*rpc),
            Act::Default | Act::Fail(_) | Act::WorkThenFail(_) => None,
        }
    }
}

impl Wait {
    pub(crate) async fn wait(self) {
        match self {
            Wait::Nothing => {}
            Wait::For(delay) => tokio::time::sleep(delay).await,
            Wait::Held(release) => release.0.cancelled().await,
            Wait::Forever => pending().await,
        }
    }
}

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Default => f.write_str("Default"),
            Act::Fail(status) => write!(f, "Fail({status})"),
            Act::WorkThenFail(status) => write!(f, "WorkThenFail({status})"),
            Act::Respond(rpc, _) => write!(f, "Respond({rpc})"),
        }
    }
}
