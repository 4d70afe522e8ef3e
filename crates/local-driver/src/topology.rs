//! Where this node is, and whether a request wants its volumes there. No I/O.

use std::collections::BTreeMap;

use csi_proto::csi::v1 as csi;

use crate::error::Error;

/// The topology segments of this node; none means that volumes have no topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology(BTreeMap<String, String>);

impl Topology {
    /// Reads segments KEY=VALUE, each key once.
    pub fn parse(segments: &[String]) -> Result<Self, Error> {
        let mut topology = BTreeMap::new();
        for segment in segments {
            let failed = |reason| Error::Topology { segment: segment.clone(), reason };
            let (key, value) = segment.split_once('=').ok_or_else(|| failed("expected KEY=VALUE"))?;
            if key.is_empty() || value.is_empty() {
                return Err(failed("key and value must not be empty"));
            }
            if topology.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(failed("the key was given before"));
            }
        }
        Ok(Self(topology))
    }

    /// As NodeGetInfo and CreateVolume answer it; None without segments.
    pub(crate) fn accessible(&self) -> Option<csi::Topology> {
        let segments = self.0.clone().into_iter().collect();
        (!self.0.is_empty()).then_some(csi::Topology { segments })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this node is in that topology (CSI "Topology": all its segments must match).
    pub(crate) fn is_in(&self, wanted: &csi::Topology) -> bool {
        wanted.segments.iter().all(|(key, value)| self.0.get(key) == Some(value))
    }

    /// Whether a volume here satisfies the requirement: it is in one of the requisite topologies, if there are any.
    pub(crate) fn satisfies(&self, requirement: &csi::TopologyRequirement) -> bool {
        requirement.requisite.is_empty() || requirement.requisite.iter().any(|one| self.is_in(one))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn topology(segments: &[&str]) -> Result<Topology, Error> {
        Topology::parse(&segments.iter().map(|segment| (*segment).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn wrong_segments_are_refused() {
        for wrong in [&["zone"][..], &["=a"], &["zone="], &["zone=a", "zone=b"]] {
            assert!(topology(wrong).unwrap_err().to_string().contains("--topology"), "{wrong:?}");
        }
        assert_eq!(topology(&[]).unwrap().accessible(), None);
    }

    #[test]
    fn a_requirement_is_satisfied_by_one_requisite_topology_that_matches_whole() {
        let here = topology(&["zone=a", "node=n1"]).unwrap();
        let wanted = |list: &[&[&str]]| csi::TopologyRequirement {
            requisite: list.iter().map(|segments| topology(segments).unwrap().accessible().unwrap()).collect(),
            preferred: Vec::new(),
        };
        assert!(here.satisfies(&wanted(&[])));
        assert!(here.satisfies(&wanted(&[&["zone=a"]])));
        assert!(here.satisfies(&wanted(&[&["zone=b"], &["zone=a", "node=n1"]])));
        assert!(!here.satisfies(&wanted(&[&["zone=a", "node=n2"]])));
        assert!(!here.satisfies(&wanted(&[&["rack=1"]])));
    }
}
