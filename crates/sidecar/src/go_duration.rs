//! Durations in the syntax of Go's `time.ParseDuration`, which every duration flag of the sidecars uses.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::Exit;
use crate::quote::quoted;

/// A signed duration in nanoseconds, as Go flags accept it: some flags give zero and negative values a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GoDuration(i64);

impl GoDuration {
    /// The length in nanoseconds, negative when the text began with a minus sign.
    pub fn nanos(self) -> i64 {
        self.0
    }

    /// The duration when it is longer than zero, else `None`.
    pub fn positive(self) -> Option<Duration> {
        u64::try_from(self.0).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos)
    }

    /// The duration, with a negative one read as zero.
    pub fn or_zero(self) -> Duration {
        self.positive().unwrap_or_default()
    }
}

/// Why a text is no duration. The text is Go's, which users find when they search for it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// Not a sequence of number and unit, or too long for 64 bits of nanoseconds (about 292 years).
    #[error("time: invalid duration {}", quoted(.0))]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {}", quoted(.0))]
    MissingUnit(String),
    /// A unit other than ns, us, µs, ms, s, m, h.
    #[error("time: unknown unit {} in duration {}", quoted(.unit), quoted(.text))]
    UnknownUnit {
        /// The unit as written.
        unit: String,
        /// The whole text.
        text: String,
    },
}

const LARGEST: u64 = 1 << 63;

impl FromStr for GoDuration {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || Error::Invalid(text.to_owned());
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (whole, whole_digits, after) = leading_integer(rest).ok_or_else(invalid)?;
            let (fraction, fraction_digits, after) = match after.strip_prefix('.') {
                Some(after) => leading_fraction(after),
                None => (0.0, 0, after),
            };
            if whole_digits + fraction_digits == 0 {
                return Err(invalid());
            }
            let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            if unit.is_empty() {
                return Err(Error::MissingUnit(text.to_owned()));
            }
            let nanos = nanoseconds_per(unit)
                .ok_or_else(|| Error::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() })?;
            total = whole
                .checked_mul(nanos)
                .and_then(|whole| whole.checked_add(part_of(nanos, fraction)))
                .and_then(|part| total.checked_add(part))
                .filter(|total| *total <= LARGEST)
                .ok_or_else(invalid)?;
            rest = after;
        }
        if negative {
            // `LARGEST` itself is a valid negative length: its negation is i64::MIN.
            return Ok(Self(0i64.wrapping_sub_unsigned(total)));
        }
        i64::try_from(total).map(Self).map_err(|_| invalid())
    }
}

/// The number at the start of `text`, how many digits it has, and what follows. `None` when it is too large.
fn leading_integer(text: &str) -> Option<(u64, usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let mut value: u64 = 0;
    for digit in digits.bytes() {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0')).filter(|value| *value <= LARGEST)?;
    }
    Some((value, end, rest))
}

/// The digits after a point as a number below one, how many they are, and what follows.
fn leading_fraction(text: &str) -> (f64, usize, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let (mut value, mut scale) = (0.0, 1.0);
    // More digits than a nanosecond of an hour can show change nothing.
    for digit in digits.bytes().take(18) {
        value = value * 10.0 + f64::from(digit - b'0');
        scale *= 10.0;
    }
    (value / scale, end, rest)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the fraction is in 0..1 and a unit is at most 3.6e12 ns, so the product fits exactly enough"
)]
fn part_of(unit_nanos: u64, fraction: f64) -> u64 {
    (fraction * unit_nanos as f64) as u64
}

fn nanoseconds_per(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{:?}", Duration::from_nanos(self.0.unsigned_abs()))
    }
}

/// The value of a flag that must be more than 0.
///
/// # Errors
/// The end of the start, which names the flag.
pub fn positive(flag: &str, value: GoDuration) -> Result<Duration, Exit> {
    value.positive().ok_or_else(|| Exit::error(format!("{flag} must be more than 0, for example {flag}=10s")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn durations_of_go_are_understood() {
        let table = [
            ("0", 0),
            ("-0", 0),
            ("+0", 0),
            ("0s", 0),
            ("10s", 10 * S),
            ("1m30s", 90 * S),
            ("500ms", S / 2),
            ("1.5h", 5400 * S),
            (".5s", S / 2),
            ("5.s", 5 * S),
            ("1h0.25m", 3615 * S),
            ("2h45m30.5s", 9930 * S + S / 2),
            ("-1.5h", -5400 * S),
            ("+3s", 3 * S),
            ("12us", 12_000),
            ("12\u{b5}s", 12_000),
            ("12\u{3bc}s", 12_000),
            ("7ns", 7),
            ("0.3333333333333333333h", 1_200 * S),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("9223372036s", 9_223_372_036 * S),
        ];
        for (text, want) in table {
            let got: GoDuration = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            let tolerance = i64::from(text.contains("333"));
            assert!((got.nanos() - want).abs() <= tolerance, "{text}: {got:?}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused_in_its_words() {
        let table = [
            ("", r#"time: invalid duration """#),
            ("-", r#"time: invalid duration "-""#),
            (".", r#"time: invalid duration ".""#),
            ("s", r#"time: invalid duration "s""#),
            (".s", r#"time: invalid duration ".s""#),
            ("abc", r#"time: invalid duration "abc""#),
            ("1 s", r#"time: unknown unit " s" in duration "1 s""#),
            ("10", r#"time: missing unit in duration "10""#),
            ("1m30", r#"time: missing unit in duration "1m30""#),
            ("3d", r#"time: unknown unit "d" in duration "3d""#),
            ("3S", r#"time: unknown unit "S" in duration "3S""#),
            ("--1s", r#"time: invalid duration "--1s""#),
            ("1s-2s", r#"time: unknown unit "s-" in duration "1s-2s""#),
            ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
            ("3000000h", r#"time: invalid duration "3000000h""#),
            ("99999999999999999999s", r#"time: invalid duration "99999999999999999999s""#),
        ];
        for (text, want) in table {
            let error = text.parse::<GoDuration>().expect_err(text);
            assert_eq!(error.to_string(), want);
        }
    }

    #[test]
    fn only_lengths_above_zero_are_positive() {
        let parse = |text: &str| text.parse::<GoDuration>().unwrap();
        assert_eq!(parse("1s").positive(), Some(Duration::from_secs(1)));
        assert_eq!(parse("0").positive(), None);
        assert_eq!(parse("-1s").positive(), None);
        assert_eq!(parse("-1s").or_zero(), Duration::ZERO);
        assert_eq!(parse("-1.5s").to_string(), "-1.5s");
    }
}
