//! Injected faults: which calls are slow, refused, or done and answered with an error.

use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use parking_lot::Mutex;
use tonic::{Code, Status};

use crate::calls::RPC_NAMES;

/// One `--fault`: what the calls of one RPC suffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    rpc: &'static str,
    /// Calls it still holds for.
    times: Option<u64>,
    effect: Effect,
}

/// What one call suffers; the default is nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Effect {
    pub(crate) delay: Duration,
    pub(crate) answer_delay: Duration,
    instead: Option<Code>,
    after: Option<Code>,
    message: Option<String>,
}

impl Effect {
    /// The error answered instead of the work.
    pub(crate) fn instead(&self) -> Option<Status> {
        self.status(self.instead)
    }

    /// The error answered although the work was done.
    pub(crate) fn after(&self) -> Option<Status> {
        self.status(self.after)
    }

    fn status(&self, code: Option<Code>) -> Option<Status> {
        let message = self.message.as_deref().unwrap_or("injected by --fault");
        code.map(|code| Status::new(code, message))
    }
}

/// The faults that are left.
#[derive(Debug)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    pub(crate) fn new(faults: Vec<Fault>) -> Self {
        Self(Mutex::new(faults))
    }

    /// What the next call of `rpc` suffers; the first fault that is not used up counts.
    pub(crate) fn next(&self, rpc: &str) -> Effect {
        let mut faults = self.0.lock();
        let Some(fault) = faults.iter_mut().find(|fault| fault.rpc == rpc && fault.times != Some(0)) else {
            return Effect::default();
        };
        if let Some(times) = &mut fault.times {
            *times -= 1;
        }
        fault.effect.clone()
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rpc, settings) = text.split_once(':').ok_or("expected RPC:KEY=VALUE,...")?;
        let rpc = RPC_NAMES.iter().find(|name| **name == rpc).ok_or_else(|| format!("no RPC is named {rpc:?}"))?;
        let mut times = None;
        let mut effect = Effect::default();
        for setting in settings.split(',') {
            let (key, value) = setting.split_once('=').ok_or_else(|| format!("{setting:?} is not KEY=VALUE"))?;
            match key {
                "delay" => effect.delay = time(value)?,
                "answer-delay" => effect.answer_delay = time(value)?,
                "code" => effect.instead = Some(code(value)?),
                "after" => effect.after = Some(code(value)?),
                "message" => effect.message = Some(value.to_owned()),
                "times" => times = Some(value.parse().map_err(|_| format!("times={value} is not a number of calls"))?),
                _ => return Err(format!("unknown key {key:?}: delay, answer-delay, code, after, message or times")),
            }
        }
        if effect.instead.is_some() && effect.after.is_some() {
            return Err("code (no work) and after (work, then the error) exclude each other".to_owned());
        }
        Ok(Self { rpc, times, effect })
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
    parsed.ok_or_else(|| format!("{text:?} is not a time such as 500ms or 1m30s"))
}

/// The codes of gRPC by their names in the gRPC specification.
fn code(name: &str) -> Result<Code, String> {
    (1..=16)
        .map(Code::from_i32)
        .find(|code| code_name(*code) == name)
        .ok_or_else(|| format!("no error code is named {name:?}"))
}

/// `INVALID_ARGUMENT` and so on.
pub(crate) const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_fault_is_used_up_and_the_next_one_of_the_rpc_takes_over() {
        let parse = |text: &str| text.parse::<Fault>().unwrap();
        let faults = Faults::new(vec![
            parse("CreateVolume:code=ABORTED,times=2"),
            parse("CreateVolume:delay=2s"),
            parse("DeleteVolume:after=INTERNAL,message=half done"),
        ]);
        for _ in 0..2 {
            assert_eq!(faults.next("CreateVolume").instead().unwrap().code(), Code::Aborted);
        }
        for _ in 0..3 {
            let effect = faults.next("CreateVolume");
            assert_eq!((effect.delay, effect.instead().is_none()), (Duration::from_secs(2), true));
        }
        let after = faults.next("DeleteVolume").after().unwrap();
        assert_eq!((after.code(), after.message()), (Code::Internal, "half done"));
        assert_eq!(faults.next("ListVolumes"), Effect::default());
    }

    #[test]
    fn wrong_faults_say_what_is_wrong() {
        for (text, part) in [
            ("CreateVolume", "expected RPC"),
            ("createvolume:code=ABORTED", "no RPC"),
            ("CreateVolume:", "not KEY=VALUE"),
            ("CreateVolume:code=Aborted", "no error code"),
            ("CreateVolume:code=OK", "no error code"),
            ("CreateVolume:delay=2", "not a time"),
            ("CreateVolume:delay=-2s", "not a time"),
            ("CreateVolume:times=often", "not a number"),
            ("CreateVolume:slow=2s", "unknown key"),
            ("CreateVolume:code=ABORTED,after=ABORTED", "exclude"),
        ] {
            let message = text.parse::<Fault>().unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
