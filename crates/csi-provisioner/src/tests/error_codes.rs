//! What every code of `CreateVolume` does to the memory and the pace of its claim.

use csi_client::CallError;
use tonic::Code;

use crate::error::{Disposition, Memory, ProvisionError};

const METHOD: &str = "/csi.v1.Controller/CreateVolume";

/// The error-code matrix for drivers without topology.
#[test]
fn every_code_has_its_disposition() {
    let remember = Disposition::BackOff(Memory::Remember);
    let forget = Disposition::BackOff(Memory::Forget);
    let cases = [
        (Code::Cancelled, remember),
        (Code::DeadlineExceeded, remember),
        (Code::Unavailable, remember),
        (Code::Aborted, remember),
        (Code::ResourceExhausted, forget),
        (Code::InvalidArgument, Disposition::SlowRetry),
        (Code::Unknown, forget),
        (Code::NotFound, forget),
        (Code::AlreadyExists, forget),
        (Code::PermissionDenied, forget),
        (Code::FailedPrecondition, forget),
        (Code::OutOfRange, forget),
        (Code::Unimplemented, forget),
        (Code::Internal, forget),
        (Code::DataLoss, forget),
        (Code::Unauthenticated, forget),
    ];
    assert_eq!(cases.len(), 16, "all but OK");
    for (code, expected) in cases {
        let error = ProvisionError::from(CallError::Status { method: METHOD, code, message: "why".into() });
        assert_eq!(error.disposition(), expected, "{code:?}");
        let ProvisionError::CreateVolume(call) = error else { panic!("the call's own error is kept") };
        assert_eq!(call.code(), code, "the code can be read back");
    }
}

#[test]
fn what_was_never_sent_changes_no_memory() {
    let denied = CallError::Denied { method: METHOD, reason: "the lease is over".into() };
    assert_eq!(ProvisionError::from(denied).disposition(), Disposition::BackOff(Memory::Unchanged));
}
