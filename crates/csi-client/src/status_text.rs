//! Statuses in the words of a Go gRPC client: they end up in events and conditions people search for.

use std::error::Error as StdError;
use std::io;

use h2::Reason;
use tonic::{Code, Status};

/// The name of a code as Go prints it; also the `grpc_status_code` of the metric.
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// What Go says when the caller's own deadline has passed.
pub(crate) const DEADLINE: &str = "context deadline exceeded";

/// A system error in Go's words: lower case, without the number.
pub(crate) fn system_error(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// The status of a call whose connection or stream failed under it.
///
/// Only a stream the driver reset has a code of its own; everything else is `Unavailable`.
pub(crate) fn transport_status(error: &(dyn StdError + 'static)) -> Status {
    let Some(h2) = find::<h2::Error>(error) else {
        return Status::unavailable("error reading from server: EOF");
    };
    if let Some(reason) = h2.reason().filter(|_| h2.is_reset()) {
        return Status::new(reset_code(reason), format!("stream terminated by RST_STREAM with error code: {reason:?}"));
    }
    match h2.get_io().filter(|io| io.raw_os_error().is_some()) {
        Some(io) => Status::unavailable(format!("error reading from server: {}", system_error(io))),
        None => Status::unavailable("error reading from server: EOF"),
    }
}

/// grpc-go's table from HTTP/2 to gRPC codes.
fn reset_code(reason: Reason) -> Code {
    match reason {
        Reason::FLOW_CONTROL_ERROR | Reason::ENHANCE_YOUR_CALM => Code::ResourceExhausted,
        Reason::REFUSED_STREAM => Code::Unavailable,
        Reason::CANCEL => Code::Cancelled,
        Reason::INADEQUATE_SECURITY => Code::PermissionDenied,
        _ => Code::Internal,
    }
}

/// Turns the wording of the Rust gRPC library for an unreadable answer into Go's.
pub(crate) fn unreadable(status: &Status) -> (Code, String) {
    let text = status.message();
    if text.contains("decoded message length too large") {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
        if let (Some(found), Some(limit), None) = (numbers.next(), numbers.next(), numbers.next()) {
            return (Code::ResourceExhausted, format!("grpc: received message larger than max ({found} vs. {limit})"));
        }
    }
    if let Some(cause) = text.strip_prefix("failed to decode Protobuf message") {
        let cause = cause.trim_start_matches(':').trim_start();
        return (Code::Internal, format!("grpc: failed to unmarshal the received message: {cause}"));
    }
    (status.code(), text.to_owned())
}

fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn codes_have_the_names_of_go() {
        let names: Vec<_> = (0..=16).map(|code| code_name(Code::from_i32(code))).collect();
        assert_eq!(
            names,
            [
                "OK",
                "Canceled",
                "Unknown",
                "InvalidArgument",
                "DeadlineExceeded",
                "NotFound",
                "AlreadyExists",
                "PermissionDenied",
                "ResourceExhausted",
                "FailedPrecondition",
                "Aborted",
                "OutOfRange",
                "Unimplemented",
                "Internal",
                "Unavailable",
                "DataLoss",
                "Unauthenticated",
            ]
        );
    }

    #[test]
    fn system_errors_read_as_in_go() {
        assert_eq!(system_error(&io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(system_error(&io::Error::from_raw_os_error(111)), "connection refused");
    }

    #[test]
    fn a_reset_stream_has_the_code_grpc_go_gives_it() {
        let codes = [
            (Reason::NO_ERROR, Code::Internal),
            (Reason::FLOW_CONTROL_ERROR, Code::ResourceExhausted),
            (Reason::REFUSED_STREAM, Code::Unavailable),
            (Reason::CANCEL, Code::Cancelled),
            (Reason::ENHANCE_YOUR_CALM, Code::ResourceExhausted),
            (Reason::INADEQUATE_SECURITY, Code::PermissionDenied),
            (Reason::HTTP_1_1_REQUIRED, Code::Internal),
        ];
        for (reason, code) in codes {
            assert_eq!(reset_code(reason), code, "{reason:?}");
        }
    }

    #[test]
    fn an_unreadable_answer_is_told_in_the_words_of_go() {
        let large = Status::out_of_range(
            "Error, decoded message length too large: found 5000000 bytes, the limit is: 4194304 bytes",
        );
        assert_eq!(
            unreadable(&large),
            (Code::ResourceExhausted, "grpc: received message larger than max (5000000 vs. 4194304)".to_owned())
        );
        let other = Status::internal("Missing response message.");
        assert_eq!(unreadable(&other), (Code::Internal, "Missing response message.".to_owned()));
    }
}
