//! Claims whose `CreateVolume` may have made a volume that nobody knows of yet.
//!
//! Held in memory for one leader term. A crash between the call and the volume's object loses it: the known leak that
//! a durable record will close.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use storage_kube::names::ClaimUid;

use crate::create_volume::request::Plan;

/// The plans whose outcome is unknown, by claim.
#[derive(Default)]
pub(crate) struct InProgress {
    plans: Mutex<HashMap<ClaimUid, Arc<Plan>>>,
}

impl InProgress {
    pub(crate) fn get(&self, claim: &ClaimUid) -> Option<Arc<Plan>> {
        self.plans.lock().get(claim).cloned()
    }

    /// Whether a call for another claim may make a volume of this name, as short names allow.
    pub(crate) fn is_name_in_use(&self, plan: &Plan) -> bool {
        let plans = self.plans.lock();
        plans.values().any(|other| other.volume_name == plan.volume_name && other.claim.uid != plan.claim.uid)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Plan>> {
        self.plans.lock().values().cloned().collect()
    }

    /// Remembers the plan before its call is sent; says whether it was remembered already.
    pub(crate) fn begin(&self, plan: &Arc<Plan>) -> bool {
        self.plans.lock().insert(plan.claim.uid.clone(), Arc::clone(plan)).is_some()
    }

    /// The outcome is known.
    pub(crate) fn end(&self, claim: &ClaimUid) {
        self.plans.lock().remove(claim);
    }
}
