//! How far kubelet is with a registration socket, and when the socket has to be made again. Pure: times come in and go out.
//!
//! Kubelet looks at a socket when it appears, calls `GetInfo`, and says with `NotifyRegistrationStatus` what became of it. A refusal,
//! or no word at all, ends a backoff later in a new socket, which kubelet takes for a new plugin. After a success nothing is done:
//! a socket that goes away makes kubelet drop the driver.

use std::time::Duration;

use tokio::time::Instant;

/// How long kubelet may take to notice a socket.
pub(crate) const TO_NOTICE: Duration = Duration::from_mins(1);
/// How long kubelet may take from `GetInfo` to its verdict: it waits up to two minutes for the driver's `NodeGetInfo`, and then
/// writes the CSINode object.
pub(crate) const TO_DECIDE: Duration = Duration::from_mins(3);
/// The pause before a socket is made again doubles from the first to the last of these.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(2));

/// What kubelet has said so far.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// No socket is there for it.
    Absent,
    /// The socket is there since.
    Appeared(Instant),
    /// `GetInfo` was called at.
    Asked(Instant),
    /// Registered.
    Registered,
    /// Refused at.
    Refused(Instant),
}

/// The registration of one driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registration {
    phase: Phase,
    /// Sockets that led to nothing, since the last success.
    failures: u32,
}

impl Registration {
    /// Nothing is there yet.
    pub(crate) fn new() -> Self {
        Self { phase: Phase::Absent, failures: 0 }
    }

    /// A socket is there for kubelet to see.
    pub(crate) fn socket_appeared(&mut self, now: Instant) {
        self.phase = Phase::Appeared(now);
    }

    /// The socket is gone or another's.
    pub(crate) fn socket_gone(&mut self) {
        self.phase = Phase::Absent;
    }

    /// Kubelet has called `GetInfo`. Only the first call counts: one that calls for ever and never decides is not waited for.
    pub(crate) fn asked(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Appeared(_)) {
            self.phase = Phase::Asked(now);
        }
    }

    /// Kubelet has registered the driver.
    pub(crate) fn accepted(&mut self) {
        if self.phase != Phase::Absent {
            *self = Self { phase: Phase::Registered, failures: 0 };
        }
    }

    /// Kubelet has refused the driver. It tries again by itself; that does not put off our own retry.
    pub(crate) fn refused(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Absent | Phase::Refused(_)) {
            self.phase = Phase::Refused(now);
        }
    }

    /// When the socket is to be made again, and why; `None` while that would help nobody.
    pub(crate) fn due(&self) -> Option<(Instant, &'static str)> {
        let (since, patience, why) = match self.phase {
            Phase::Absent | Phase::Registered => return None,
            Phase::Appeared(at) => (at, TO_NOTICE, "kubelet has not noticed the socket"),
            Phase::Asked(at) => (at, TO_DECIDE, "kubelet asked and did not say what became of the registration"),
            Phase::Refused(at) => (at, Duration::ZERO, "kubelet refused the registration"),
        };
        Some((since + patience + pause_after(self.failures), why))
    }

    /// The socket is being made again because it was [`due`](Self::due).
    pub(crate) fn retried(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }
}

fn pause_after(failures: u32) -> Duration {
    let (first, last) = PAUSES;
    first.saturating_mul(2_u32.saturating_pow(failures)).min(last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn due_after(registration: &Registration, start: Instant) -> Option<u64> {
        registration.due().map(|(at, _)| at.duration_since(start).as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn f4_silence_and_refusals_end_in_a_new_socket() {
        type Said<'a> = &'a [(u64, fn(&mut Registration, Instant))];
        let table: [(&str, Said<'_>, Option<u64>); 10] = [
            ("nothing there", &[], None),
            ("not noticed", &[(0, Registration::socket_appeared)], Some(61)),
            ("asked only", &[(0, Registration::socket_appeared), (10, Registration::asked)], Some(191)),
            (
                "asked again and again",
                &[(0, Registration::socket_appeared), (10, Registration::asked), (100, Registration::asked)],
                Some(191),
            ),
            ("accepted", &[(0, Registration::socket_appeared), (1, |r, _| r.accepted())], None),
            (
                "kubelet restarted",
                &[(0, Registration::socket_appeared), (1, |r, _| r.accepted()), (500, Registration::asked)],
                None,
            ),
            ("refused", &[(0, Registration::socket_appeared), (5, Registration::refused)], Some(6)),
            (
                "refused twice",
                &[(0, Registration::socket_appeared), (5, Registration::refused), (6, Registration::refused)],
                Some(6),
            ),
            (
                "refused after a success",
                &[
                    (0, Registration::socket_appeared),
                    (1, |r, _| r.accepted()),
                    (900, Registration::asked),
                    (901, Registration::refused),
                ],
                Some(902),
            ),
            (
                "refused, then accepted in kubelet's own second try",
                &[(0, Registration::socket_appeared), (5, Registration::refused), (5, |r, _| r.accepted())],
                None,
            ),
        ];
        for (name, said, want) in table {
            let start = Instant::now();
            let mut registration = Registration::new();
            for (at, say) in said {
                say(&mut registration, start + SECOND * u32::try_from(*at).unwrap());
            }
            assert_eq!(due_after(&registration, start), want, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_vain_socket_doubles_the_pause_and_a_success_ends_that() {
        let start = Instant::now();
        let mut registration = Registration::new();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            registration.socket_appeared(start);
            registration.refused(start);
            pauses.push(due_after(&registration, start).unwrap());
            registration.retried();
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
        registration.socket_appeared(start);
        registration.accepted();
        registration.refused(start);
        assert_eq!(due_after(&registration, start), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_word_about_a_socket_that_is_gone_counts_for_nothing() {
        let mut registration = Registration::new();
        registration.socket_appeared(Instant::now());
        registration.socket_gone();
        registration.refused(Instant::now());
        registration.accepted();
        registration.asked(Instant::now());
        assert_eq!(registration, Registration::new());
    }
}
