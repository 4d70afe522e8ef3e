//! What the driver's answer is worth. Pure (CSI spec, `ControllerExpandVolumeResponse.capacity_bytes`).

use storage_kube::quantity::{self, Quantity, from_bytes_binary_si};

/// The size to be written down: what the driver says, but never less than the volume `has`. `None` when the driver has not
/// grown the volume, whatever it calls it: it answered nothing, less than there is, or no more than that where more was
/// `wanted`.
pub(crate) fn size(bytes: i64, wanted: &str, has: &str) -> Option<String> {
    let amount = |text| quantity::bytes(text).unwrap_or(0);
    if bytes <= 0 {
        None
    } else if bytes > amount(has) {
        Some(from_bytes_binary_si(bytes))
    } else {
        (bytes >= amount(wanted)).then(|| has.to_owned())
    }
}

/// Whether the two are the same amount, such as `1Gi` and `1024Mi`.
pub(crate) fn is_equal(one: &str, other: &str) -> bool {
    one == other || matches!((Quantity::parse(one), Quantity::parse(other)), (Ok(one), Ok(other)) if one == other)
}

/// Whether the first is less than the second; false for what cannot be read.
pub(crate) fn is_less(one: &str, other: &str) -> bool {
    matches!((Quantity::parse(one), Quantity::parse(other)), (Ok(one), Ok(other)) if one < other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GI: i64 = 1 << 30;

    #[test]
    fn what_is_written_down_of_each_answer() {
        let cases = [
            (2 * GI, "2Gi", "1Gi", Some("2Gi"), "as asked"),
            (3 * GI, "2Gi", "1Gi", Some("3Gi"), "more than asked"),
            (GI + 1, "2Gi", "1Gi", Some("1073741825"), "less than asked, more than there is"),
            (GI, "2Gi", "1Gi", None, "nothing has grown"),
            (GI - 1, "2Gi", "1Gi", None, "less than there is"),
            (0, "2Gi", "1Gi", None, "nothing said"),
            (-1, "2Gi", "1Gi", None, "nonsense"),
            (GI, "1Gi", "1Gi", Some("1Gi"), "had it before"),
            (1_000_000_000, "1G", "1Gi", Some("1Gi"), "a volume does not get smaller by what was asked for"),
            (1, "1500m", "0", Some("1"), "progress, though not enough"),
            (2, "1500m", "0", Some("2"), "rounded up"),
        ];
        assert_eq!(cases.len(), 11);
        for (bytes, wanted, has, expected, why) in cases {
            assert_eq!(size(bytes, wanted, has).as_deref(), expected, "{why}");
        }
    }

    #[test]
    fn sizes_are_compared_by_amount() {
        assert!(is_equal("1Gi", "1024Mi") && !is_equal("1G", "1Gi") && is_equal("odd", "odd"));
        assert!(is_less("1G", "1Gi") && !is_less("1Gi", "1024Mi") && !is_less("odd", "1Gi"));
    }
}
