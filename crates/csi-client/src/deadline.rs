//! The deadline of a call.
//!
//! Kept here and also sent to the driver as `grpc-timeout`. The gRPC library's own timer is not used: it reports an expired
//! deadline as `Cancelled`, where metrics and events of the Go sidecars say `DeadlineExceeded`.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tonic::Code;

/// How much earlier than ours the driver's own timer may end a call and still be taken for the same deadline.
const CLOCK_SLACK: Duration = Duration::from_millis(5);

/// The time a call may still take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        let now = Instant::now();
        // Beyond what the clock can hold means no deadline; thirty years are near enough.
        Self(now.checked_add(limit).unwrap_or(now + Duration::from_hours(262_800)))
    }

    /// The call's output, or `None` when the deadline comes first. Then the call is dropped, which resets its stream.
    pub(crate) async fn bound<T>(self, call: impl Future<Output = T>) -> Option<T> {
        timeout_at(self.0, call).await.ok()
    }

    /// Whether a driver's answer is only its gRPC server's way to say that the deadline has passed.
    pub(crate) fn explains(self, code: Code) -> bool {
        code == Code::Cancelled && Instant::now() + CLOCK_SLACK >= self.0
    }
}
