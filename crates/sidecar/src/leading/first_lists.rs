//! When the caches are filled for the first time.

use std::borrow::Cow;
use std::time::Duration;

use controller_runtime::Tasks;
use tokio_util::sync::CancellationToken;

/// How long a process that does not lead yet waits with its first lists. One that leads at once lists when its term
/// begins, and that list is the term's barrier: one made before would have to be made again.
const OF_A_STANDBY: Duration = Duration::from_secs(1);

/// Holds the tasks of the caches back until the first term, for a second at most. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FirstLists(CancellationToken);

impl FirstLists {
    /// Runs the task of a cache when its time has come.
    pub fn spawn(
        &self,
        tasks: &Tasks,
        name: impl Into<Cow<'static, str>>,
        cache: impl Future<Output = ()> + Send + 'static,
    ) {
        let begin = self.0.clone();
        tasks.spawn(name, async move {
            let _ = tokio::time::timeout(OF_A_STANDBY, begin.cancelled()).await;
            cache.await;
        });
    }

    /// A term begins: those that still wait begin now.
    pub fn begin(&self) {
        self.0.cancel();
    }
}
