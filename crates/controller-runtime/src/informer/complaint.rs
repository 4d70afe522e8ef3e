//! A trouble that lasts is said once, not at every attempt.

/// Says a trouble once until it changes or is over.
#[derive(Debug, Default)]
pub(super) struct Complaint {
    said: Option<String>,
}

impl Complaint {
    /// Whether `text` is to be said at WARN, which is when it was not the last thing said.
    pub(super) fn is_new(&mut self, text: &str) -> bool {
        if self.said.as_deref() == Some(text) {
            return false;
        }
        self.said = Some(text.to_owned());
        true
    }

    /// Whether something was said that is not over.
    pub(super) fn lasts(&self) -> bool {
        self.said.is_some()
    }

    /// Whether something had been said that is over now.
    pub(super) fn is_over(&mut self) -> bool {
        self.said.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_complaint_is_said_once_per_change() {
        let mut complaint = Complaint::default();
        assert!(!complaint.is_over());
        assert!(complaint.is_new("a"));
        assert!(!complaint.is_new("a"));
        assert!(complaint.is_new("b"));
        assert!(complaint.is_over());
        assert!(complaint.is_new("b"));
    }
}
