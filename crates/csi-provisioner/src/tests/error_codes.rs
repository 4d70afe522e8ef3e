//! What every code of `CreateVolume` does to the memory and the pace of its claim.

use std::time::Duration;

use csi_client::CallError;
use storage_kube::credentials;
use storage_kube::secret_ref::SecretRef;
use tonic::Code;

use crate::error::{Disposition, Memory, ProvisionError};
use crate::migration::NotInTree;

const METHOD: &str = "/csi.v1.Controller/CreateVolume";

/// What the codes mean by themselves; `rescheduling` has the matrix with topology and a selected node.
#[test]
fn every_code_has_its_disposition() {
    let remember = Disposition::BackOff(Memory::Remember);
    let forget = Disposition::BackOff(Memory::Forget);
    let cases = [
        (Code::Cancelled, remember),
        (Code::DeadlineExceeded, remember),
        (Code::Unavailable, remember),
        (Code::Aborted, remember),
        (Code::ResourceExhausted, Disposition::Reschedule),
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

/// The states of the Go provisioner for what is not an answer with a code: NoChange is unchanged, InBackground remembers.
#[test]
fn every_other_failure_has_its_disposition() {
    let secret = SecretRef { namespace: "shop".into(), name: "key".into() };
    let address = csi_client::Address::parse("/run/csi/socket").unwrap();
    let not_in_tree = |why: Option<&str>| {
        let (handle, source) = ("v".to_owned(), Box::new(NotInTree::NoName));
        match why {
            None => ProvisionError::NotInTree { handle, source },
            Some(why) => ProvisionError::NotInTreeAndLeft { handle, source, why: why.to_owned() },
        }
    };
    let lost = |code| CallError::Unanswered { method: METHOD, code, message: "why".into() };
    let cases = [
        ("class missing", ProvisionError::ClassMissing { class: "fast".into() }, Memory::Unchanged),
        ("Secret missing", credentials::Error::Missing(secret.clone()).into(), Memory::Unchanged),
        ("Secret binary", credentials::Error::NotUtf8 { secret, key: "k".into() }.into(), Memory::Unchanged),
        ("answer without a volume", ProvisionError::NoVolume, Memory::Remember),
        ("80 of 100 bytes, deleted again", ProvisionError::TooSmall { requested: 100, actual: 80 }, Memory::Forget),
        (
            "80 of 100 bytes, not deleted",
            ProvisionError::TooSmallAndLeft { requested: 100, actual: 80, why: "busy".into() },
            Memory::Remember,
        ),
        ("not one of the plugin, deleted again", not_in_tree(None), Memory::Forget),
        ("not one of the plugin, not deleted", not_in_tree(Some("busy")), Memory::Remember),
        (
            "leadership over",
            CallError::Denied { method: METHOD, reason: "the lease is over".into() }.into(),
            Memory::Unchanged,
        ),
        (
            "driver away",
            CallError::NotConnected { method: METHOD, address, waited: Duration::ZERO, reason: "why".into() }.into(),
            Memory::Unchanged,
        ),
        ("deadline", lost(Code::DeadlineExceeded).into(), Memory::Remember),
        ("lost connection", lost(Code::Unavailable).into(), Memory::Remember),
        ("no gRPC status", lost(Code::Unknown).into(), Memory::Remember),
        ("answer too large", lost(Code::ResourceExhausted).into(), Memory::Remember),
    ];
    assert_eq!(cases.len(), 14);
    for (case, error, memory) in cases {
        let error: ProvisionError = error;
        assert_eq!(error.disposition(), Disposition::BackOff(memory), "{case}");
    }
}
