//! One term from start to end.

use tokio_util::sync::CancellationToken;

use super::LeadError;
use crate::gate::Gate;
use crate::term::{Term, TermOwner};

/// How a term ended. Nothing of it runs any more.
pub(super) enum End<L, E> {
    /// The lease is gone.
    Lost(L),
    /// The term's work ended or failed; the lease is still ours.
    Finished(Result<(), LeadError<E>>),
}

/// Whatever happens to the term's future, clones of its gate must not let writes through for longer.
struct CloseOnDrop(Gate);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Runs `start` in the term of `owner` until it ends or `lost` resolves; then ends everything else that belongs to it.
pub(super) async fn run<F, Fut, E, L>(
    owner: TermOwner,
    start: &mut F,
    shutdown: &CancellationToken,
    lost: impl Future<Output = L>,
) -> End<L, E>
where
    F: FnMut(Term) -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    let closing = CloseOnDrop(owner.term().gate().clone());
    let draining = owner.term().draining();
    // Boxed so that it can be dropped before the tasks are awaited: they may wait for something it holds.
    let mut work = Box::pin(start(owner.term().clone()));
    let mut lost = std::pin::pin!(lost);
    let end = loop {
        // The loss comes first: a process that was stopped must find it before its work goes on.
        tokio::select! {
            biased;
            reason = &mut lost => break End::Lost(reason),
            () = shutdown.cancelled(), if !draining.is_cancelled() => draining.cancel(),
            failure = owner.failed() => break End::Finished(Err(LeadError::Task(failure))),
            result = &mut work => break End::Finished(result.map_err(LeadError::Start)),
        }
    };
    if matches!(end, End::Lost(_)) {
        closing.0.close();
    }
    drop(work);
    owner.end().await;
    end
}
