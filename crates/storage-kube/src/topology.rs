//! Topology segments: the label values by which a driver tells which nodes reach a volume (CSI spec "Topology";
//! `CSINode.spec.drivers[].topologyKeys`).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use csi_proto::csi::v1::Topology;

/// A value for each of some topology keys; a set of nodes, or where a volume is. Without keys it is everywhere.
///
/// Ordered as the Go provisioner orders terms: fewer keys first, then by the first key or value that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Segment(BTreeMap<String, String>);

impl Segment {
    /// The values that these labels give to all of `keys`, or the first key without a label.
    pub fn of_labels<'k>(
        keys: impl IntoIterator<Item = &'k str>,
        label: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, &'k str> {
        let value = |key: &'k str| Ok((key.to_owned(), label(key).ok_or(key)?));
        keys.into_iter().map(value).collect::<Result<_, _>>().map(Self)
    }

    /// Keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value for a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `other` has every key of this one, with the same value: what is in `other` is in this one too.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

/// For messages: `{rack=1, zone=a}`.
impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (key, value)) in self.iter().enumerate() {
            write!(f, "{}{key}={value}", if index == 0 { "" } else { ", " })?;
        }
        f.write_str("}")
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Segment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

impl From<&Topology> for Segment {
    fn from(topology: &Topology) -> Self {
        topology.segments.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }
}

impl From<&Segment> for Topology {
    fn from(segment: &Segment) -> Self {
        Self { segments: segment.0.clone().into_iter().collect() }
    }
}

impl Ord for Segment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().cmp(other.0.iter()))
    }
}

impl PartialOrd for Segment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(pairs: &[(&str, &str)]) -> Segment {
        pairs.iter().copied().collect()
    }

    #[test]
    fn fewer_keys_come_first_and_then_the_first_difference_counts() {
        let ordered = [
            segment(&[]),
            segment(&[("rack", "b")]),
            segment(&[("zone", "a")]),
            segment(&[("rack", "a"), ("zone", "a")]),
            segment(&[("zone", "a"), ("rack", "b")]),
        ];
        for (index, low) in ordered.iter().enumerate() {
            for (other, high) in ordered.iter().enumerate() {
                assert_eq!(low.cmp(high), index.cmp(&other), "{low:?} {high:?}");
            }
        }
    }

    #[test]
    fn a_segment_is_a_subset_of_one_with_more_keys() {
        let (zone, instance) = (segment(&[("zone", "a")]), segment(&[("instance", "i"), ("zone", "a")]));
        assert!(segment(&[]).is_subset_of(&zone), "nothing is a subset of anything");
        assert!(zone.is_subset_of(&instance) && zone.is_subset_of(&zone));
        assert!(!instance.is_subset_of(&zone));
        assert!(!zone.is_subset_of(&segment(&[("zone", "b")])) && !zone.is_subset_of(&segment(&[("rack", "a")])));
    }

    #[test]
    fn a_node_without_one_of_the_labels_has_no_segment() {
        let label = |key: &str| (key != "rack").then(|| format!("of-{key}"));
        assert_eq!(
            Segment::of_labels(["zone", "region"], label),
            Ok(segment(&[("zone", "of-zone"), ("region", "of-region")]))
        );
        assert_eq!(Segment::of_labels(["zone", "rack"], label), Err("rack"));
    }

    #[test]
    fn it_goes_to_the_driver_and_back() {
        let zone = segment(&[("zone", "a")]);
        assert_eq!(Segment::from(&Topology::from(&zone)), zone);
    }

    #[test]
    fn it_is_shown_by_key() {
        assert_eq!(segment(&[("zone", "a"), ("rack", "1")]).to_string(), "{rack=1, zone=a}");
    }
}
