//! Randomness for pauses, so that many clients that failed together do not come back together.

/// A number in `0.0..1.0`, different in each process and at each call; of no use for secrets.
pub(crate) fn random() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let bits = RandomState::new().hash_one(0_u8);
    // The upper 32 bits, which a float holds exactly.
    f64::from(u32::try_from(bits >> 32).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_fill_their_range() {
        let numbers: Vec<f64> = (0..1000).map(|_| random()).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        assert!(numbers.iter().any(|number| *number < 0.1));
        assert!(numbers.iter().any(|number| *number > 0.9));
    }
}
