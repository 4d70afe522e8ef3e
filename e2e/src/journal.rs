//! What a driver's journal must show when several processes take turns at calling it.

use std::{ops::Add, time::Duration};

use anyhow::{Result, bail};
use rustix::time::{ClockId, clock_gettime};

use crate::driver::Call;

/// A moment on the monotonic clock of this boot, which all processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    nanos: i64,
}

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        Self { nanos: time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec) }
    }

    /// How much later this is; zero when it is earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.nanos - earlier.nanos).unwrap_or(0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self { nanos: self.nanos.saturating_add(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)) }
    }
}

/// A time in which one process may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Its first moment.
    pub start: Moment,
    /// Its last one.
    pub end: Moment,
}

impl Call {
    /// When it arrived at the driver.
    pub fn started(&self) -> Moment {
        Moment { nanos: self.started_monotonic_nanos }
    }

    /// When the driver had done with it.
    pub fn ended(&self) -> Moment {
        Moment { nanos: self.ended_monotonic_nanos }
    }

    /// What it was about: the name of the volume to make, or the handle of one that is there.
    pub fn volume(&self) -> Option<&str> {
        ["name", "volume_id"].iter().find_map(|field| self.request.get(field)?.as_str())
    }
}

/// Two processes never call for one volume at the same time.
///
/// # Errors
/// Names two calls that overlap.
pub fn no_overlap(calls: &[Call]) -> Result<()> {
    let about: Vec<_> = calls.iter().filter_map(|call| Some((call.volume()?, call))).collect();
    for (n, (volume, first)) in about.iter().enumerate() {
        for (_, second) in about.iter().skip(n + 1).filter(|(other, _)| other == volume) {
            let apart = first.ended() <= second.started() || second.ended() <= first.started();
            if !apart && first.peer_pid != second.peer_pid {
                bail!("two callers at once for {volume}: {first:?} and {second:?}");
            }
        }
    }
    Ok(())
}

/// A process calls only in its terms. `slack` is for the way of a call to the driver.
///
/// # Errors
/// Names a call outside of all terms.
pub fn within_terms(calls: &[Call], pid: i32, terms: &[Term], slack: Duration) -> Result<()> {
    for call in calls.iter().filter(|call| call.peer_pid == Some(pid) && call.volume().is_some()) {
        let started = call.started();
        if !terms.iter().any(|term| term.start <= started && started <= term.end + slack) {
            bail!("{pid} called outside of its terms {terms:?}: {call:?}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::json;

    use super::*;

    fn call(pid: i32, volume: &str, started: i64, ended: i64) -> Call {
        Call {
            rpc: "CreateVolume".to_owned(),
            request: json!({ "name": volume }),
            peer_pid: Some(pid),
            started_monotonic_nanos: started,
            ended_monotonic_nanos: ended,
            code: "OK".to_owned(),
            message: String::new(),
        }
    }

    #[test]
    fn only_calls_of_two_callers_for_one_volume_overlap() {
        let apart = [call(1, "a", 0, 10), call(2, "a", 10, 20), call(2, "b", 5, 15), call(2, "a", 12, 15)];
        no_overlap(&apart).unwrap();
        let error = no_overlap(&[call(1, "a", 0, 10), call(2, "a", 9, 20)]).unwrap_err();
        assert!(error.to_string().contains("two callers at once for a"), "{error}");
    }

    #[test]
    fn a_call_belongs_to_a_term_of_its_caller() {
        let moment = |nanos| Moment { nanos };
        let terms = [Term { start: moment(0), end: moment(10) }, Term { start: moment(20), end: moment(30) }];
        let slack = Duration::from_nanos(2);
        within_terms(&[call(1, "a", 12, 40), call(1, "a", 20, 21), call(2, "a", 15, 16)], 1, &terms, slack).unwrap();
        assert!(within_terms(&[call(1, "a", 13, 14)], 1, &terms, slack).is_err());
    }
}
