//! `resource.Quantity` of apimachinery: sizes such as `5Gi`, `1.5T`, `1e3`, in exact integer arithmetic.
//!
//! A quantity is a decimal number with an optional suffix: decimal SI (`n u m k M G T P E`), binary
//! (`Ki Mi Gi Ti Pi Ei`) or a decimal exponent (`e3`, `E-3`). As in apimachinery, anything finer than a
//! nano-unit is rounded away from zero.
//!
//! Stricter than apimachinery in two places: a text without a single digit (`+`, `.`, `Ki`) is an error and not
//! zero, and a value beyond an `i64` is an error and not capped or wrapped, since a capped size would be
//! provisioned as if it had been asked for. Neither reaches us from an API server with a sane object.

use std::{fmt, str::FromStr};

/// Nano-units in one unit.
const NANOS: i128 = 1_000_000_000;
/// Decimal places of a nano-unit.
const NANO_PLACES: i64 = 9;
/// An `i128` holds every number of this many decimal digits.
const I128_DIGITS: i64 = 38;

/// Why a text is not a usable quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a number with an optional suffix.
    #[error("quantity {text:?} is not a number with an optional suffix: write it like 5Gi, 1.5G or 1000000")]
    Malformed {
        /// The text.
        text: String,
    },
    /// A number, but with a suffix no unit has.
    #[error(
        "quantity {text:?} has the unknown suffix {suffix:?}: use one of Ki Mi Gi Ti Pi Ei, n u m k M G T P E or an exponent like e3"
    )]
    UnknownSuffix {
        /// The text.
        text: String,
        /// Its suffix.
        suffix: String,
    },
    /// More than a signed 64-bit number of units.
    #[error("quantity {text} does not fit in a signed 64-bit number: use at most {max}", max = i64::MAX)]
    Overflow {
        /// The text, or the plain number when the text is not known any more.
        text: String,
    },
}

/// A parsed quantity. Ordered by value: `1024` equals `1Ki`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
}

/// What a suffix multiplies by: 10 to `decimal`, 1024 to `binary`.
struct Scale {
    decimal: i64,
    binary: u32,
}

impl Quantity {
    /// Parses the text form.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let malformed = || Error::Malformed { text: text.to_owned() };
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(malformed());
        }
        let scale =
            scale(suffix).ok_or_else(|| Error::UnknownSuffix { text: text.to_owned(), suffix: suffix.to_owned() })?;
        let nanos = magnitude(whole, fraction, &scale).ok_or_else(|| Error::Overflow { text: text.to_owned() })?;
        Ok(Self { nanos: if negative { -nanos } else { nanos } })
    }

    /// The whole units (bytes for storage), a fraction rounded away from zero, as apimachinery's `Value`.
    pub fn value(self) -> Result<i64, Error> {
        let whole = self.nanos / NANOS;
        let rounded = whole + (self.nanos % NANOS).signum();
        i64::try_from(rounded).map_err(|_| Error::Overflow { text: self.to_string() })
    }
}

impl FromStr for Quantity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

/// The exact decimal number without a suffix.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.nanos.unsigned_abs();
        let (whole, fraction) = (magnitude / NANOS.unsigned_abs(), magnitude % NANOS.unsigned_abs());
        if self.nanos < 0 {
            f.write_str("-")?;
        }
        write!(f, "{whole}")?;
        if fraction != 0 {
            write!(f, ".{}", format!("{fraction:09}").trim_end_matches('0'))?;
        }
        Ok(())
    }
}

/// Whole bytes of a storage request: parse and [`Quantity::value`] in one; errors name the text.
pub fn bytes(text: &str) -> Result<i64, Error> {
    Quantity::parse(text)?.value().map_err(|_| Error::Overflow { text: text.to_owned() })
}

/// The canonical text of a number of bytes in the `BinarySI` format: the largest power of 1024 that divides it
/// (`5Gi`, `5632Mi`), else plain digits.
///
/// Amounts under 1024 count as decimal in this format, so the one that is a multiple of a thousand is `1k`.
pub fn from_bytes_binary_si(bytes: i64) -> String {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if bytes.unsigned_abs() < 1024 {
        return if bytes != 0 && bytes % 1000 == 0 { format!("{}k", bytes / 1000) } else { bytes.to_string() };
    }
    let mut mantissa = bytes;
    let mut suffixes = SUFFIXES.iter();
    let mut suffix = suffixes.next();
    while mantissa % 1024 == 0 {
        mantissa /= 1024;
        suffix = suffixes.next();
    }
    format!("{mantissa}{}", suffix.copied().unwrap_or_default())
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn scale(suffix: &str) -> Option<Scale> {
    let decimal = |decimal| Some(Scale { decimal, binary: 0 });
    let binary = |binary| Some(Scale { decimal: 0, binary });
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => decimal(exponent(suffix.strip_prefix(['e', 'E'])?)?),
    }
}

/// An exponent of any length: one that does not fit is as good as the nearest one that does.
fn exponent(text: &str) -> Option<i64> {
    const LIMIT: i64 = 1 << 40;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse().unwrap_or(LIMIT).min(LIMIT);
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

/// The number in nano-units, rounded up; `None` if it is beyond an `i128`.
///
/// Works on the decimal digits, so that shifting the decimal point is exact for texts of any length.
fn magnitude(whole: &str, fraction: &str, scale: &Scale) -> Option<i128> {
    let mut digits: Vec<u8> =
        whole.bytes().chain(fraction.bytes()).skip_while(|&digit| digit == b'0').map(|digit| digit - b'0').collect();
    if digits.is_empty() {
        return Some(0);
    }
    for _ in 0..scale.binary {
        multiply_by_1024(&mut digits);
    }
    // Where the point between nano-units and finer parts stands in `digits`.
    let point = i64::try_from(digits.len()).ok()? - i64::try_from(fraction.len()).ok()? + scale.decimal + NANO_PLACES;
    if point <= 0 {
        return Some(1);
    }
    if point > I128_DIGITS {
        return None;
    }
    let point = usize::try_from(point).ok()?;
    let units = (0..point).fold(0, |sum, place| sum * 10 + i128::from(digits.get(place).copied().unwrap_or(0)));
    let finer = digits.iter().skip(point).any(|&digit| digit != 0);
    Some(units + i128::from(finer))
}

fn multiply_by_1024(digits: &mut Vec<u8>) {
    let mut carry: u16 = 0;
    for digit in digits.iter_mut().rev() {
        let product = u16::from(*digit) * 1024 + carry;
        *digit = (product % 10) as u8;
        carry = product / 10;
    }
    while carry > 0 {
        digits.insert(0, (carry % 10) as u8);
        carry /= 10;
    }
}

#[cfg(test)]
mod tests;
