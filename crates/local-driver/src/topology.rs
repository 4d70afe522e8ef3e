//! Where this node is, and whether a request wants its volumes there. No I/O.

use std::collections::BTreeMap;

use csi_proto::csi::v1 as csi;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The topology segments of a node; none means that volumes there have no topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

    /// Whether what is here is in that place (CSI "Topology": all its segments must match).
    pub(crate) fn is_in(&self, wanted: &Topology) -> bool {
        wanted.0.iter().all(|(key, value)| self.0.get(key) == Some(value))
    }
}

impl From<&csi::Topology> for Topology {
    fn from(topology: &csi::Topology) -> Self {
        Self(topology.segments.clone())
    }
}

/// Where volumes are made: on this node, and wherever else the driver says it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(Vec<Topology>);

impl Places {
    /// This node's place first. Without any, volumes have no topology.
    pub fn new(own: &Topology, known: Vec<Topology>) -> Self {
        let own = (!own.is_empty()).then(|| own.clone());
        Self(own.into_iter().chain(known).collect())
    }

    /// Whether volumes have no topology.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The place in which volumes are made that nobody wants in a certain one.
    pub(crate) fn first(&self) -> Option<&Topology> {
        self.0.first()
    }

    /// Whether volumes are made there.
    pub(crate) fn serves(&self, wanted: &Topology) -> bool {
        self.0.iter().any(|place| place.is_in(wanted))
    }

    /// Where to make a volume: in the first of the preferred topologies, then of the requisite ones, in which volumes
    /// are made. None if volumes are made in none of the requisite topologies (CSI "TopologyRequirement").
    pub(crate) fn choose(&self, requirement: &csi::TopologyRequirement) -> Option<&Topology> {
        let mut wanted = requirement.preferred.iter().chain(&requirement.requisite).map(Topology::from);
        let place = wanted.find_map(|wanted| self.0.iter().find(|place| place.is_in(&wanted)));
        place.or_else(|| self.first().filter(|_| requirement.requisite.is_empty()))
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
    fn a_volume_is_made_in_the_first_place_that_is_wanted_and_served() {
        let places = Places::new(&topology(&["zone=a", "node=n1"]).unwrap(), vec![topology(&["zone=b"]).unwrap()]);
        let list = |list: &[&[&str]]| {
            list.iter().map(|segments| topology(segments).unwrap().accessible().unwrap()).collect::<Vec<_>>()
        };
        let (here, there, other): (&[&str], &[&str], &[&str]) = (&["zone=a", "node=n1"], &["zone=b"], &["zone=c"]);
        let (zone, stranger, rack): (&[&str], &[&str], &[&str]) = (&["zone=a"], &["zone=a", "node=n2"], &["rack=1"]);
        let cases = [
            // requisite, preferred → place
            (&[][..], &[][..], Some(here)),
            (&[zone], &[], Some(here)),
            (&[other, here], &[], Some(here)),
            (&[zone, there], &[there, zone], Some(there)),
            (&[zone, other], &[other], Some(here)),
            (&[], &[other], Some(here)),
            (&[stranger], &[], None),
            (&[rack], &[rack], None),
        ];
        for (requisite, preferred, expected) in &cases {
            let requirement = csi::TopologyRequirement { requisite: list(requisite), preferred: list(preferred) };
            let expected = expected.map(|segments| topology(segments).unwrap());
            assert_eq!(places.choose(&requirement), expected.as_ref(), "{requisite:?} {preferred:?}");
        }
        assert_eq!(cases.len(), 8);
    }

    #[test]
    fn places_are_those_whose_segments_all_match() {
        let places = Places::new(&Topology::default(), vec![topology(&["zone=a", "node=n1"]).unwrap()]);
        for (segments, served) in [(&["zone=a"][..], true), (&["zone=a", "node=n1"], true), (&["zone=b"], false)] {
            assert_eq!(places.serves(&topology(segments).unwrap()), served, "{segments:?}");
        }
        assert!(places.serves(&Topology::default()));
        assert!(Places::new(&Topology::default(), Vec::new()).is_empty());
    }
}
