//! What the error of a call says about the work the driver may have done: one table for all calls and all codes.
//!
//! From the error tables of the CSI specification and from what the Go sidecars decide. Two choices to know:
//! `Internal` and `Unknown` are final although a driver may answer them while it works on; drivers answer them for hopeless
//! requests too, and as "uncertain" those would be repeated for ever after the claim is gone. And a code this process made
//! itself (deadline, lost connection, message too large) is never final, whatever its number: it says nothing about the work.
#![deny(clippy::wildcard_enum_match_arm)]

use tonic::Code;

use crate::{CallError, Rpc};

/// What is known after a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Nothing of this call is going on, and nothing is left of it.
    Final,
    /// The work may be going on or be done. Only the same call with the same request tells.
    Uncertain,
    /// Final, and the same request will not succeed later: try it rarely.
    Infeasible,
    /// Final, and another place may succeed. Without a place to choose it is [`Final`](Self::Final).
    Reschedule,
}

/// Looks the error up. A call that was not sent is uncertain: an earlier call for the same work may be going on.
pub fn meaning(rpc: Rpc, error: &CallError) -> Meaning {
    match error {
        CallError::Denied { .. } | CallError::NotConnected { .. } | CallError::Unanswered { .. } => Meaning::Uncertain,
        CallError::Status { code, .. } => answered(rpc, *code),
    }
}

/// The table. `Ok` cannot be an error; an answer that says it would mean that the work is done.
fn answered(rpc: Rpc, code: Code) -> Meaning {
    match code {
        Code::Ok | Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Aborted => Meaning::Uncertain,
        Code::ResourceExhausted => match rpc {
            Rpc::CreateVolume => Meaning::Reschedule,
            Rpc::DeleteVolume
            | Rpc::ControllerPublishVolume
            | Rpc::ControllerUnpublishVolume
            | Rpc::ValidateVolumeCapabilities
            | Rpc::ListVolumes
            | Rpc::ControllerListVolumeHealth
            | Rpc::ControllerGetVolumeHealth
            | Rpc::GetCapacity
            | Rpc::ControllerGetCapabilities
            | Rpc::CreateSnapshot
            | Rpc::DeleteSnapshot
            | Rpc::ListSnapshots
            | Rpc::GetSnapshot
            | Rpc::ControllerExpandVolume
            | Rpc::ControllerGetVolume
            | Rpc::ControllerModifyVolume => Meaning::Uncertain,
        },
        Code::InvalidArgument => {
            infeasible_for(rpc, &[Rpc::CreateVolume, Rpc::ControllerExpandVolume, Rpc::ControllerModifyVolume])
        }
        Code::OutOfRange | Code::NotFound => infeasible_for(rpc, &[Rpc::ControllerExpandVolume]),
        Code::Unknown
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => Meaning::Final,
    }
}

fn infeasible_for(rpc: Rpc, rpcs: &[Rpc]) -> Meaning {
    if rpcs.contains(&rpc) { Meaning::Infeasible } else { Meaning::Final }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::wildcard_enum_match_arm)]
    use std::time::Duration;

    use super::*;
    use crate::Address;

    fn status(rpc: Rpc, code: i32) -> CallError {
        CallError::Status { method: rpc.method(), code: Code::from_i32(code), message: String::new() }
    }

    /// One letter per code 0..=16: f(inal), u(ncertain), i(nfeasible), r(eschedule).
    fn row(rpc: Rpc) -> String {
        (0..=16)
            .map(|code| match meaning(rpc, &status(rpc, code)) {
                Meaning::Final => 'f',
                Meaning::Uncertain => 'u',
                Meaning::Infeasible => 'i',
                Meaning::Reschedule => 'r',
            })
            .collect()
    }

    #[test]
    fn every_code_of_every_call_has_a_meaning() {
        for &rpc in Rpc::ALL {
            //                   0 Ok, 1 Canceled, 2 Unknown, 3 InvalidArgument, 4 DeadlineExceeded, 5 NotFound, 8 ResourceExhausted,
            //                   10 Aborted, 11 OutOfRange, 14 Unavailable
            let expected = match rpc {
                Rpc::CreateVolume => "uufiufffrfufffuff",
                Rpc::ControllerExpandVolume => "uufiuiffufuiffuff",
                Rpc::ControllerModifyVolume => "uufiufffufufffuff",
                _ => "uuffufffufufffuff",
            };
            assert_eq!(row(rpc), expected, "{rpc:?}");
        }
    }

    #[test]
    fn what_the_driver_did_not_answer_is_uncertain_whatever_its_code() {
        for &rpc in Rpc::ALL {
            let method = rpc.method();
            for code in 0..=16 {
                let lost = CallError::Unanswered { method, code: Code::from_i32(code), message: String::new() };
                assert_eq!(meaning(rpc, &lost), Meaning::Uncertain, "{lost}");
                assert!(lost.was_sent());
            }
            let denied = CallError::Denied { method, reason: String::new() };
            let address = Address::parse("/s").unwrap();
            let away = CallError::NotConnected { method, address, waited: Duration::ZERO, reason: String::new() };
            for unsent in [denied, away] {
                assert_eq!(meaning(rpc, &unsent), Meaning::Uncertain);
                assert!(!unsent.was_sent());
            }
        }
    }
}
