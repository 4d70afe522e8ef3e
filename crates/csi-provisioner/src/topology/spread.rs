//! Which place a claim without a selected node is offered first: a stateful set's claims go round the places, and the
//! claims of one of its pods share theirs.

/// Index of the first of `places` (0 without any), by the name of the claim alone.
///
/// Claims of a stateful set are called `<template>-<set>-<ordinal>`: set and ordinal decide, the template does not. Any
/// other name decides as a whole. The Go provisioner counts the same way, so a replica of either kind continues the round.
pub(crate) fn first(claim: &str, places: usize) -> usize {
    let (hashed, ordinal) = set_and_ordinal(claim).unwrap_or((claim, 0));
    let start = fnv1(hashed).wrapping_add(ordinal);
    usize::try_from(start).ok().and_then(|start| start.checked_rem(places)).unwrap_or(0)
}

fn set_and_ordinal(claim: &str) -> Option<(&str, u32)> {
    let (rest, ordinal) = claim.rsplit_once('-')?;
    // What Rust parses beyond digits is a sign.
    let ordinal = ordinal.bytes().all(|byte| byte.is_ascii_digit()).then(|| ordinal.parse().ok()).flatten()?;
    let set = rest.rsplit_once('-').map_or(rest, |(_, set)| set);
    Some((set, ordinal))
}

/// FNV-1, 32 bits: multiplied first, unlike FNV-1a.
pub(crate) fn fnv1(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte))
}
