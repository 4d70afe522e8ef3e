//! SIGTERM and SIGINT: the first one asks the process to end in order, the second one ends it at once.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;

/// Listens for the signals until it is dropped. A process with PID 1 ignores signals nobody listens for.
#[derive(Debug)]
pub struct Shutdown {
    token: CancellationToken,
    /// The one listening task; dropped, it ends.
    _listening: JoinSet<()>,
}

impl Shutdown {
    /// Begins to listen; must be called within the runtime.
    pub fn listen() -> Result<Self, Exit> {
        let signals = Signals::open().map_err(|error| Exit::fatal(format!("cannot listen for signals: {error}")))?;
        Ok(Self::on(signals, || std::process::exit(1)))
    }

    fn on(mut signals: Signals, end_at_once: impl FnOnce() + Send + 'static) -> Self {
        let token = CancellationToken::new();
        let first = token.clone();
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            let name = signals.next().await;
            tracing::info!(signal = name, "Shutting down");
            first.cancel();
            let name = signals.next().await;
            tracing::error!(signal = name, "Second signal, ending at once");
            end_at_once();
        });
        Self { token, _listening: listening }
    }

    /// Cancelled by the first signal.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }
}

/// Both signals as one sequence.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn open() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<&'static str> {
        if self.terminate.poll_recv(context).is_ready() {
            return Poll::Ready("SIGTERM");
        }
        self.interrupt.poll_recv(context).map(|_| "SIGINT")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::time::Duration;

    use rustix::process::{Signal as Kind, getpid, kill_process};
    use tokio::sync::oneshot;

    use super::*;

    // One test for all of it: signals reach the whole test process.
    #[tokio::test]
    async fn the_first_signal_cancels_and_the_second_ends_at_once() {
        let bound = Duration::from_secs(10);
        let (ended, end) = oneshot::channel();
        let shutdown = Shutdown::on(Signals::open().unwrap(), move || {
            ended.send(()).unwrap();
        });
        assert!(!shutdown.token().is_cancelled());
        kill_process(getpid(), Kind::TERM).unwrap();
        tokio::time::timeout(bound, shutdown.token().cancelled()).await.unwrap();
        kill_process(getpid(), Kind::INT).unwrap();
        tokio::time::timeout(bound, end).await.unwrap().unwrap();
    }
}
