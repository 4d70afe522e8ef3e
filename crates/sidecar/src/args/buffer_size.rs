//! The size of a log buffer: a Kubernetes quantity, of which only "none" can be used.

use std::str::FromStr;

use thiserror::Error;

/// A buffer size as written, reduced to what decides: whether it asks for a buffer at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSize(bool);

impl BufferSize {
    pub(super) fn asks_for_a_buffer(self) -> bool {
        self.0
    }
}

/// Not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("quantities are numbers with a suffix such as Ki, Mi or k")]
pub struct NotAQuantity;

const SUFFIXES: [&str; 16] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n", "u", "m", "k", "M", "G", "T", "P", "E", ""];

impl FromStr for BufferSize {
    type Err = NotAQuantity;

    fn from_str(text: &str) -> Result<Self, NotAQuantity> {
        let number = SUFFIXES.iter().find_map(|suffix| text.strip_suffix(suffix)).unwrap_or(text);
        let plain = number.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E'));
        let value: f64 = number.parse().map_err(|_| NotAQuantity)?;
        if plain { Ok(Self(value != 0.0)) } else { Err(NotAQuantity) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quantities_are_sizes() {
        for (text, want) in [
            ("0", Ok(false)),
            ("0Ki", Ok(false)),
            ("1", Ok(true)),
            ("64Ki", Ok(true)),
            ("1.5M", Ok(true)),
            ("1e3", Ok(true)),
            ("", Err(NotAQuantity)),
            ("x", Err(NotAQuantity)),
            ("nan", Err(NotAQuantity)),
            ("1KiB", Err(NotAQuantity)),
        ] {
            assert_eq!(text.parse::<BufferSize>().map(BufferSize::asks_for_a_buffer), want, "{text}");
        }
    }
}
