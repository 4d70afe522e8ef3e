//! The segment that a term of a volume's node affinity stands for.

use storage_kube::topology::Segment;
use storage_kube::wire::NodeSelectorTerm;
use thiserror::Error;

/// Why a term is none that a provisioner writes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum TermError {
    #[error("a term of the volume's node affinity selects by fields")]
    Fields,
    #[error(
        "a term of the volume's node affinity asks for {key} with operator {operator} and {values} values, not for one value with In"
    )]
    Expression { key: String, operator: String, values: usize },
}

/// Only `In` with one value: what a provisioner writes for a segment (contract of KEP-1472's refresh after a deletion).
pub(crate) fn segment(term: &NodeSelectorTerm) -> Result<Segment, TermError> {
    if term.match_fields {
        return Err(TermError::Fields);
    }
    let label = |expression: &storage_kube::wire::NodeSelectorRequirement| match expression.values.as_slice() {
        [value] if expression.operator == "In" => Ok((expression.key.clone(), value.clone())),
        values => Err(TermError::Expression {
            key: expression.key.clone(),
            operator: expression.operator.clone(),
            values: values.len(),
        }),
    };
    let labels: Result<Vec<_>, _> = term.match_expressions.iter().map(label).collect();
    Ok(labels?.into_iter().collect())
}
