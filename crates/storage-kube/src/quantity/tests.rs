#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn canonical_binary_si_text() {
    // The first five are the contract's; the others were compared with apimachinery v0.36.
    let rows = [
        (5_970_004_541, "5970004541"),
        (5_905_580_032, "5632Mi"),
        (5_368_709_120, "5Gi"),
        (5_484_052, "5484052"),
        (102_400, "100Ki"),
        (0, "0"),
        (1, "1"),
        (100, "100"),
        (500, "500"),
        (999, "999"),
        (1000, "1k"),
        (-1000, "-1k"),
        (1023, "1023"),
        (1024, "1Ki"),
        (1025, "1025"),
        (-1024, "-1Ki"),
        (1536, "1536"),
        (2000, "2000"),
        (1_000_000, "1000000"),
        (1_024_000, "1000Ki"),
        (1 << 20, "1Mi"),
        (1 << 30, "1Gi"),
        (1 << 40, "1Ti"),
        (1 << 50, "1Pi"),
        (1 << 60, "1Ei"),
        (1 << 62, "4Ei"),
        (i64::MAX, "9223372036854775807"),
        (-5_368_709_120, "-5Gi"),
    ];
    assert_eq!(rows.len(), 28);
    for (size, text) in rows {
        assert_eq!(from_bytes_binary_si(size), text);
        assert_eq!(bytes(text), Ok(size), "{text} reads back");
    }
}

#[test]
fn whole_units_round_away_from_zero() {
    let rows = [
        // suffixes
        ("0", 0),
        ("1", 1),
        ("1n", 1),
        ("1u", 1),
        ("1m", 1),
        ("1000m", 1),
        ("1001m", 2),
        ("1k", 1000),
        ("1M", 1_000_000),
        ("1G", 1_000_000_000),
        ("1T", 1_000_000_000_000),
        ("1P", 1_000_000_000_000_000),
        ("1E", 1_000_000_000_000_000_000),
        ("1Ki", 1 << 10),
        ("1Mi", 1 << 20),
        ("1Gi", 1 << 30),
        ("1Ti", 1 << 40),
        ("1Pi", 1 << 50),
        ("1Ei", 1 << 60),
        // exponents
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e+3", 1000),
        ("1.5e3", 1500),
        ("1500e-3", 2),
        ("1E-3", 1),
        ("5e0", 5),
        ("1e-99999999999999999999", 1),
        ("0e99999999999999999999", 0),
        // fractions
        ("1.5Gi", 1_610_612_736),
        ("0.5Ki", 512),
        (".5", 1),
        ("5.", 5),
        ("0.1", 1),
        ("0.0", 0),
        ("1.0000000001", 2),
        ("1.1Mi", 1_153_434),
        ("1.23456789012345678901234567890123456789Gi", 1_325_607_179),
        ("1.50000000000000000000000000000000000000Gi", 1_610_612_736),
        ("0.00000000000000000000000000000000000000000001Ei", 1),
        // signs and zeros
        ("+5Gi", 5_368_709_120),
        ("-1", -1),
        ("-1.5", -2),
        ("-0.1", -1),
        ("-0", 0),
        ("007", 7),
        ("0000000000000000000000000000000000000000000000001", 1),
        // the edges
        ("9223372036854775807", i64::MAX),
        ("-9223372036854775808", i64::MIN),
        ("9.223372036854775807E", i64::MAX),
        ("9223372036854775.807k", i64::MAX),
        ("7.999999999999999999Ei", 9_223_372_036_854_775_807),
        ("9223372036854775806.1", i64::MAX),
        ("9223372036854775807000m", i64::MAX),
    ];
    assert_eq!(rows.len(), 53);
    for (text, expected) in rows {
        assert_eq!(bytes(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_not_a_quantity_says_why() {
    let long = format!("1{}", "0".repeat(100_000));
    let rows: [(&str, &str); 31] = [
        ("", "malformed"),
        ("+", "malformed"),
        ("-", "malformed"),
        (".", "malformed"),
        ("Gi", "malformed"),
        (".Gi", "malformed"),
        ("e3", "malformed"),
        (" 1", "malformed"),
        ("--1", "malformed"),
        ("é", "malformed"),
        ("-é", "malformed"),
        ("1 ", "suffix"),
        ("1 Gi", "suffix"),
        ("1gi", "suffix"),
        ("1K", "suffix"),
        ("1e", "suffix"),
        ("1e1.5", "suffix"),
        ("1e+", "suffix"),
        ("1Gi5", "suffix"),
        ("1.2.3", "suffix"),
        ("1_000", "suffix"),
        ("0x10", "suffix"),
        ("5GiB", "suffix"),
        ("9223372036854775808", "overflow"),
        ("-9223372036854775809", "overflow"),
        ("8Ei", "overflow"),
        ("10E", "overflow"),
        ("9223372036854775807.1", "overflow"),
        ("9223372036854775807Ei", "overflow"),
        ("1e99999999999999999999", "overflow"),
        (&long, "overflow"),
    ];
    for (text, expected) in rows {
        let error = bytes(text).unwrap_err();
        let got = match &error {
            Error::Malformed { .. } => "malformed",
            Error::UnknownSuffix { .. } => "suffix",
            Error::Overflow { .. } => "overflow",
        };
        assert_eq!(got, expected, "{text:.40}");
        assert!(error.to_string().contains(text), "names the text: {text:.40}");
    }
    assert_eq!(
        bytes("10Ei").unwrap_err().to_string(),
        "quantity 10Ei does not fit in a signed 64-bit number: use at most 9223372036854775807"
    );
}

#[test]
fn quantities_compare_by_value() {
    let rows = [
        ("1024", "1Ki", std::cmp::Ordering::Equal),
        ("1000m", "1", std::cmp::Ordering::Equal),
        ("1e3", "1k", std::cmp::Ordering::Equal),
        ("-0", "0", std::cmp::Ordering::Equal),
        ("1G", "1Gi", std::cmp::Ordering::Less),
        ("1n", "0", std::cmp::Ordering::Greater),
        ("-1", "-2", std::cmp::Ordering::Greater),
        ("8Ei", "7Ei", std::cmp::Ordering::Greater),
        ("99Ei", "9E", std::cmp::Ordering::Greater),
    ];
    assert_eq!(rows.len(), 9);
    for (left, right, expected) in rows {
        let (left, right): (Quantity, Quantity) = (left.parse().unwrap(), right.parse().unwrap());
        assert_eq!(left.cmp(&right), expected, "{left} {right}");
    }
}

#[test]
fn a_quantity_beyond_i64_can_be_held_and_compared_but_not_used() {
    let quantity = Quantity::parse("10Ei").unwrap();
    assert_eq!(quantity.to_string(), "11529215046068469760");
    assert_eq!(quantity.value(), Err(Error::Overflow { text: "11529215046068469760".into() }));
}

#[test]
fn display_is_the_exact_decimal_number() {
    for (text, expected) in
        [("1.5Gi", "1610612736"), ("-1500m", "-1.5"), ("1n", "0.000000001"), ("0", "0"), ("-0.5", "-0.5")]
    {
        assert_eq!(Quantity::parse(text).unwrap().to_string(), expected);
    }
}
