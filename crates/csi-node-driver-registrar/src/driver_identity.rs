//! Who the driver is on this node, as far as kubelet has to know, and what a new answer means.

use std::collections::BTreeMap;

use csi_proto::csi::v1::NodeGetInfoResponse;

/// What kubelet writes into the CSINode object when it registers the driver. What it reads anew by itself (the number of volumes)
/// is not part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DriverIdentity {
    /// Name of the driver (`GetPluginInfo`), never empty.
    pub(crate) name: String,
    /// What it says of the node.
    pub(crate) node: Node,
}

/// What is known of the answer to `NodeGetInfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// The question has not been asked on this connection yet.
    NotAsked,
    /// Asked, without a usable answer so far.
    Unknown,
    /// The driver has no node service.
    NoFacts,
    /// Its answer.
    Facts {
        /// `node_id`.
        id: String,
        /// The segments of `accessible_topology`.
        topology: BTreeMap<String, String>,
    },
}

impl From<NodeGetInfoResponse> for Node {
    fn from(response: NodeGetInfoResponse) -> Self {
        let topology = response.accessible_topology.unwrap_or_default().segments;
        Self::Facts { id: response.node_id, topology }
    }
}

/// What an answer of the driver asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The name is known and nothing was ever registered: what a killed registrar left behind can go.
    ClearPath,
    /// The first registration.
    Register,
    /// Another driver than the one kubelet knows.
    RegisterAnew {
        /// What was, and what is.
        change: String,
    },
    /// The same driver, of which more is known.
    Learn,
    /// Nothing new.
    Nothing,
}

/// What a second answer says of the topology under the same keys; `None` where it says the same, or something else has changed.
///
/// CSINode has the keys alone, and the values are labels of the Node. Kubelet refuses a driver that answers another value than a
/// label has (`nodeinfomanager.updateTopologyLabels`), and by then it has forgotten the driver: to register anew would take the driver
/// from the node until somebody changes the label.
pub(crate) fn other_values(registered: &Node, answered: &Node) -> Option<String> {
    let (Node::Facts { id, topology }, Node::Facts { id: new_id, topology: new }) = (registered, answered) else {
        return None;
    };
    if id != new_id || !topology.keys().eq(new.keys()) {
        return None;
    }
    let changed = topology.iter().zip(new.values()).filter(|((_, was), is)| was != is);
    let changed: Vec<_> = changed.map(|((key, was), is)| format!("{key} was {was:?}, is {is:?}")).collect();
    (!changed.is_empty()).then(|| changed.join("; "))
}

/// Compares an answer with what is registered. A question without answer changes nothing: taking the socket away makes kubelet drop
/// the driver from CSINode.
pub(crate) fn step(registered: Option<&DriverIdentity>, answered: &DriverIdentity) -> Step {
    let Some(registered) = registered else {
        return if answered.node == Node::NotAsked { Step::ClearPath } else { Step::Register };
    };
    let anew = |change| Step::RegisterAnew { change };
    match (&registered.node, &answered.node) {
        (_, Node::NotAsked) => Step::Nothing,
        _ if registered.name != answered.name => {
            anew(format!("the name was {}, is {}", registered.name, answered.name))
        }
        (_, Node::Unknown) => Step::Nothing,
        (Node::NotAsked | Node::Unknown, _) => Step::Learn,
        (Node::Facts { id: was, .. }, Node::Facts { id: is, .. }) if was != is => {
            anew(format!("the node id was {was:?}, is {is:?}"))
        }
        (Node::Facts { topology: was, .. }, Node::Facts { topology: is, .. }) if !was.keys().eq(is.keys()) => {
            let keys = |topology: &BTreeMap<String, String>| topology.keys().cloned().collect::<Vec<_>>().join(", ");
            anew(format!("the topology keys were {}, are {}", keys(was), keys(is)))
        }
        (Node::NoFacts, Node::Facts { .. }) => anew("the driver has a node service, and had none".to_owned()),
        (Node::Facts { .. }, Node::NoFacts) => anew("the driver has no node service any more".to_owned()),
        (Node::NoFacts, Node::NoFacts) | (Node::Facts { .. }, Node::Facts { .. }) => Step::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(id: &str, zone: &str) -> Node {
        Node::Facts { id: id.to_owned(), topology: BTreeMap::from([("zone".to_owned(), zone.to_owned())]) }
    }

    fn driver(name: &str, node: Node) -> DriverIdentity {
        DriverIdentity { name: name.to_owned(), node }
    }

    fn anew(change: &str) -> Step {
        Step::RegisterAnew { change: change.to_owned() }
    }

    #[test]
    fn the_first_answers_clear_the_path_and_register() {
        let table = [
            (Node::NotAsked, Step::ClearPath),
            (Node::Unknown, Step::Register),
            (Node::NoFacts, Step::Register),
            (facts("n1", "a"), Step::Register),
        ];
        for (node, want) in table {
            assert_eq!(step(None, &driver("d", node.clone())), want, "{node:?}");
        }
    }

    #[test]
    fn f1_only_another_name_node_id_or_set_of_topology_keys_is_registered_anew() {
        let table = [
            (facts("n1", "a"), driver("d", facts("n1", "a")), Step::Nothing),
            (facts("n1", "a"), driver("d", Node::NotAsked), Step::Nothing),
            (facts("n1", "a"), driver("d", Node::Unknown), Step::Nothing),
            (facts("n1", "a"), driver("e", Node::NotAsked), Step::Nothing),
            (facts("n1", "a"), driver("e", facts("n1", "a")), anew("the name was d, is e")),
            (facts("n1", "a"), driver("e", Node::Unknown), anew("the name was d, is e")),
            (facts("n1", "a"), driver("d", facts("n2", "a")), anew("the node id was \"n1\", is \"n2\"")),
            (facts("n1", "a"), driver("d", facts("n1", "b")), Step::Nothing),
            (
                facts("n1", "a"),
                driver("d", Node::Facts { id: "n1".to_owned(), topology: BTreeMap::new() }),
                anew("the topology keys were zone, are "),
            ),
            (Node::NoFacts, driver("d", Node::NoFacts), Step::Nothing),
            (Node::NoFacts, driver("d", facts("n1", "a")), anew("the driver has a node service, and had none")),
            (facts("n1", "a"), driver("d", Node::NoFacts), anew("the driver has no node service any more")),
            (Node::Unknown, driver("d", facts("n1", "a")), Step::Learn),
            (Node::Unknown, driver("d", Node::NoFacts), Step::Learn),
            (Node::Unknown, driver("d", Node::Unknown), Step::Nothing),
        ];
        assert_eq!(table.len(), 15);
        for (registered, answered, want) in table {
            let registered = driver("d", registered);
            assert_eq!(step(Some(&registered), &answered), want, "{registered:?} then {answered:?}");
        }
    }

    #[test]
    fn o10_another_value_under_the_same_keys_is_told_with_both() {
        let told = |was: &Node, is: &Node| other_values(was, is).unwrap_or_default();
        assert_eq!(told(&facts("n1", "a"), &facts("n1", "b")), "zone was \"a\", is \"b\"");
        assert_eq!(told(&facts("n1", "a"), &facts("n1", "")), "zone was \"a\", is \"\"");
        let without = Node::Facts { id: "n1".to_owned(), topology: BTreeMap::new() };
        for other in [facts("n1", "a"), facts("n2", "b"), without, Node::NoFacts, Node::Unknown] {
            assert_eq!(told(&facts("n1", "a"), &other), "", "{other:?}");
        }
    }
}
