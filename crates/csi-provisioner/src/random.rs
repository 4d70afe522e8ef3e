//! Numbers that keep the processes of a cluster apart.

use uuid::Uuid;

/// In `0.0..1.0`, another one in each process and at each call.
pub(crate) fn fraction() -> f64 {
    let bits = u32::try_from(Uuid::new_v4().as_u128() & u128::from(u32::MAX)).unwrap_or_default();
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}
