//! Whose claim is it? A pure decision.

use storage_kube::wire::BindingMode;

use crate::records::{ClaimRecord, ClassRecord};
use crate::settings::NodeFlags;

/// Who provisions a claim, where every node has a provisioner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This process.
    ThisNode,
    /// Another node's process, or nobody before the scheduler has chosen.
    NotUs,
    /// Whoever writes the annotation first.
    Nobody,
}

/// Decides who provisions the claim; `class` is `None` when it is not known.
///
/// Only the present annotation counts. A class without binding mode is not competed for, as in the Go provisioner; the
/// API server never stores one.
pub(crate) fn owner(node: &NodeFlags, claim: &ClaimRecord, class: Option<&ClassRecord>) -> Owner {
    match &claim.selected_node {
        Some(selected) if *selected == node.name => Owner::ThisNode,
        Some(_) => Owner::NotUs,
        None if !node.immediate_binding => Owner::NotUs,
        None => match class.and_then(|class| class.binding_mode.as_ref()) {
            Some(BindingMode::Immediate) => Owner::Nobody,
            Some(_) | None => Owner::NotUs,
        },
    }
}
