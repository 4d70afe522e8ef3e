//! Places: where volumes are made, and how much fits there.

use std::collections::BTreeMap;

use csi_proto::csi::v1 as csi;

/// A topology of these segments: `topology(&[("zone", "a")])`.
pub fn topology(segments: &[(&str, &str)]) -> csi::Topology {
    let segments = segments.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    csi::Topology { segments: segments.collect() }
}

/// What CreateVolume answers as `Volume.accessible_topology`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Placement {
    /// The first preferred topology of the request, else the first requisite one, else none.
    #[default]
    FirstAsked,
    /// All requisite topologies of the request: a volume that is reachable from everywhere it may be.
    AllRequisite,
    /// These, whatever is asked; none leaves the field empty.
    At(Vec<csi::Topology>),
}

impl Placement {
    pub(crate) fn of(&self, requirement: Option<&csi::TopologyRequirement>) -> Vec<csi::Topology> {
        match (self, requirement) {
            (Placement::At(places), _) => places.clone(),
            (_, None) => Vec::new(),
            (Placement::FirstAsked, Some(asked)) => {
                asked.preferred.iter().chain(&asked.requisite).take(1).cloned().collect()
            }
            (Placement::AllRequisite, Some(asked)) => asked.requisite.clone(),
        }
    }
}

/// What `GetCapacity` answers; -1 and the like are passed on as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// `available_capacity` in bytes.
    pub available: i64,
    /// `maximum_volume_size` in bytes; `None` leaves it out.
    pub maximum_volume_size: Option<i64>,
    /// `minimum_volume_size` in bytes; `None` leaves it out.
    pub minimum_volume_size: Option<i64>,
}

impl From<i64> for Capacity {
    fn from(available: i64) -> Self {
        Self { available, ..Self::default() }
    }
}

/// What there is in each place.
#[derive(Debug, Default)]
pub(crate) struct Capacities {
    everywhere: Capacity,
    by_place: BTreeMap<BTreeMap<String, String>, Capacity>,
}

impl Capacities {
    pub(crate) fn set(&mut self, place: Option<&csi::Topology>, capacity: Capacity) {
        match place {
            None => self.everywhere = capacity,
            Some(place) => drop(self.by_place.insert(place.segments.clone(), capacity)),
        }
    }

    pub(crate) fn of(&self, request: &csi::GetCapacityRequest) -> csi::GetCapacityResponse {
        let there = request.accessible_topology.as_ref().and_then(|place| self.by_place.get(&place.segments));
        let capacity = there.copied().unwrap_or(self.everywhere);
        csi::GetCapacityResponse {
            available_capacity: capacity.available,
            maximum_volume_size: capacity.maximum_volume_size,
            minimum_volume_size: capacity.minimum_volume_size,
        }
    }
}
