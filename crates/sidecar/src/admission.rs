//! Leadership as a condition of every CSI call.

use controller_runtime::Gate;
use csi_client::{Admission, Denied};

/// Admits a CSI call only while the leader term's gate is open, that is while enough of the lease is left.
#[derive(Clone)]
pub struct TermAdmission(pub Gate);

impl Admission for TermAdmission {
    fn admit(&self) -> Result<(), Denied> {
        self.0.check().map_err(|closed| Denied(closed.to_string()))
    }
}
