//! Paging of `ListVolumes` and `ListSnapshots`. A token names the creation after which the next page begins, so that what
//! is deleted between two pages does not invalidate it.

use tonic::Status;

/// Which part of the list is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Sequence number of the last entry of the page before.
    pub(super) after: Option<u64>,
    /// Most entries to return.
    pub(super) limit: usize,
}

impl Page {
    /// ABORTED for a token this driver did not make (CSI "`ListVolumes` Errors", "`ListSnapshots` Errors").
    pub(super) fn of(max_entries: i32, starting_token: &str) -> Result<Self, Status> {
        let limit = match usize::try_from(max_entries) {
            Ok(0) => usize::MAX,
            Ok(limit) => limit,
            Err(_) => return Err(Status::invalid_argument("max_entries must not be negative")),
        };
        let after = match starting_token {
            "" => None,
            token => Some(sequence(token).ok_or_else(|| Status::aborted("starting_token is not one of this driver"))?),
        };
        Ok(Self { after, limit })
    }
}

/// The token for the page after the entry with this sequence number.
pub(super) fn token(after: u64) -> String {
    format!("after-{after}")
}

fn sequence(token: &str) -> Option<u64> {
    let number = token.strip_prefix("after-")?;
    number.bytes().all(|c| c.is_ascii_digit()).then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use tonic::Code;

    use super::*;

    fn page(max_entries: i32, starting_token: &str) -> Result<Page, Code> {
        Page::of(max_entries, starting_token).map_err(|status| status.code())
    }

    #[test]
    fn tokens_are_those_this_driver_made_and_nothing_else() {
        assert_eq!(page(0, ""), Ok(Page { after: None, limit: usize::MAX }));
        assert_eq!(page(3, &token(17)), Ok(Page { after: Some(17), limit: 3 }));
        for wrong in ["invalid-token", "17", "after-", "after-+1", "after--1", "after-99999999999999999999"] {
            assert_eq!(page(0, wrong), Err(Code::Aborted), "{wrong}");
        }
        assert_eq!(page(-1, ""), Err(Code::InvalidArgument));
    }
}
