//! Where a volume may be: the tables of the Go provisioner's topology package.

use serde_json::{Value, json};
use storage_kube::names::{ClaimName, NodeName};
use storage_kube::topology::Segment;

use super::cluster::{NodeIs, allowed, allowed_record, node, segments, terms, view};
use super::scene::flags;
use crate::settings::ProvisioningFlags;
use crate::topology::cluster::ClusterView;
use crate::topology::error::TopologyError;
use crate::topology::requirement;
use crate::topology::spread::fnv1;

/// Requisite and preferred.
pub(super) type Asked = Option<(Vec<Segment>, Vec<Segment>)>;

pub(super) fn asked(
    flags: &ProvisioningFlags,
    claim: &str,
    selected: Option<&str>,
    allowed: Value,
    nodes: &[NodeIs],
) -> Result<Asked, TopologyError> {
    asked_in(&view(nodes), flags, claim, selected, allowed)
}

pub(super) fn asked_in(
    cluster: &ClusterView,
    flags: &ProvisioningFlags,
    claim: &str,
    selected: Option<&str>,
    allowed: Value,
) -> Result<Asked, TopologyError> {
    let node = selected.map(NodeName::from);
    let asked = requirement(flags, &ClaimName::from(claim), node.as_ref(), &allowed_record(allowed), cluster)?;
    Ok(asked.map(|asked| segments(&(&asked).into())))
}

pub(super) fn lax() -> ProvisioningFlags {
    flags()
}

pub(super) fn strict() -> ProvisioningFlags {
    ProvisioningFlags { strict_topology: true, ..flags() }
}

pub(super) fn without_immediate() -> ProvisioningFlags {
    ProvisioningFlags { immediate_topology: false, ..flags() }
}

const ZONE_RACK: &[&str] = &["zone", "rack"];
const FOUR: &[NodeIs] = &[
    node("n1", ZONE_RACK, &[("zone", "zone1"), ("rack", "rackA")]),
    node("n2", ZONE_RACK, &[("zone", "zone2"), ("rack", "rackB")]),
    node("n3", ZONE_RACK, &[("zone", "zone3"), ("rack", "rackC")]),
    node("n4", ZONE_RACK, &[("zone", "zone4"), ("rack", "rackD")]),
];
const A: &[(&str, &str)] = &[("zone", "zone1"), ("rack", "rackA")];
const B: &[(&str, &str)] = &[("zone", "zone2"), ("rack", "rackB")];
const C: &[(&str, &str)] = &[("zone", "zone3"), ("rack", "rackC")];
const D: &[(&str, &str)] = &[("zone", "zone4"), ("rack", "rackD")];

#[test]
fn the_hash_is_fnv_1_of_32_bits() {
    assert_eq!(fnv1("testset"), 0x6162_8cc3);
    assert_eq!(fnv1("testpvc"), 0x6469_4d56);
}

/// Claims of one pod of a stateful set begin at the same place, and the next pod's at the next.
#[test]
fn claims_of_a_stateful_set_go_round_the_places() {
    let round = |order: &[&[(&str, &str)]]| Some(terms(order));
    let one = || allowed(&[&[("zone", &["zone1"]), ("rack", &["rackA"])]]);
    let two =
        || allowed(&[&[("zone", &["zone1"]), ("rack", &["rackA"])], &[("zone", &["zone2"]), ("rack", &["rackB"])]]);
    let cases = [
        ("testpvcA-testset-1", lax(), json!([]), round(&[A, B, C, D])),
        ("testpvcB-testset-1", lax(), json!([]), round(&[A, B, C, D])),
        ("testset-2", lax(), json!([]), round(&[B, C, D, A])),
        ("testpvcB-testset-2", lax(), json!([]), round(&[B, C, D, A])),
        ("testpvcA-testset-3", lax(), json!([]), round(&[C, D, A, B])),
        ("testpvcA-testset-4", lax(), json!([]), round(&[D, A, B, C])),
        ("testpvcB-testset-1", lax(), one(), round(&[A])),
        ("testpvcB-testset-2", lax(), two(), round(&[B, A])),
        ("testpvcB-testset-1", without_immediate(), one(), round(&[A])),
        ("testpvcB-testset-2", without_immediate(), two(), round(&[B, A])),
        ("testpvcB-testset-2", without_immediate(), json!([]), None),
    ];
    assert_eq!(cases.len(), 11);
    for (claim, flags, allowed, expected) in cases {
        for strict_topology in [false, true] {
            let flags = ProvisioningFlags { strict_topology, ..flags.clone() };
            let found = asked(&flags, claim, None, allowed.clone(), FOUR).unwrap();
            assert_eq!(found.map(|(_, preferred)| preferred), expected, "{claim} {allowed} strict {strict_topology}");
        }
    }
}

/// Beyond the tables: what counts as an ordinal, and that the sum wraps.
#[test]
fn a_name_without_an_ordinal_decides_as_a_whole() {
    use crate::topology::spread::first;
    let whole = |name: &str| usize::try_from(fnv1(name)).unwrap() % 7;
    for name in ["testpvc", "data-web", "data-web-1a", "data-web-4294967296", "web-", "data-+1", ""] {
        assert_eq!(first(name, 7), whole(name), "{name}");
    }
    assert_eq!(first("data-web-007", 7), (usize::try_from(fnv1("web")).unwrap() + 7) % 7);
    let wrapped = usize::try_from(fnv1("web").wrapping_add(u32::MAX)).unwrap();
    assert_eq!(first("data-web-4294967295", 7), wrapped % 7);
    assert_eq!(first("anything", 0), 0);
}

#[test]
fn allowed_topologies_are_multiplied_out() {
    let (one, two) = (&["zone1"][..], &["zone1", "zone2"][..]);
    let racks = &["rackA", "rackB"][..];
    let zone = |value| vec![("zone", value)];
    let both = |zone, rack| vec![("zone", zone), ("rack", rack)];
    let product = || [("zone1", "rackA"), ("zone1", "rackB"), ("zone2", "rackA"), ("zone2", "rackB")];
    let all_of_product = || product().map(|(zone, rack)| both(zone, rack)).to_vec();
    let cases = [
        ("1×1", allowed(&[&[("zone", one)]]), vec![zone("zone1")]),
        ("one key, two values", allowed(&[&[("zone", two)]]), vec![zone("zone1"), zone("zone2")]),
        ("two keys", allowed(&[&[("zone", one), ("rack", &["rackA"])]]), vec![both("zone1", "rackA")]),
        ("1×2", allowed(&[&[("zone", one), ("rack", racks)]]), vec![both("zone1", "rackA"), both("zone1", "rackB")]),
        ("2×2", allowed(&[&[("zone", two), ("rack", racks)]]), all_of_product()),
        (
            "two terms of different keys",
            allowed(&[&[("zone", one)], &[("rack", &["rackA"])]]),
            vec![zone("zone1"), vec![("rack", "rackA")]],
        ),
        (
            "overlapping keys",
            allowed(&[&[("zone", one), ("rack", &["rackA"])], &[("zone", &["zone2"]), ("rack", &["rackB"])]]),
            vec![both("zone1", "rackA"), both("zone2", "rackB")],
        ),
        (
            "overlapping values",
            allowed(&[&[("zone", two)], &[("zone", &["zone2", "zone3"])]]),
            vec![zone("zone1"), zone("zone2"), zone("zone3")],
        ),
        (
            "a term within another stays",
            allowed(&[&[("zone", one)], &[("zone", two), ("rack", racks)]]),
            [vec![zone("zone1")], all_of_product()].concat(),
        ),
        (
            "an equal term goes",
            allowed(&[&[("zone", two), ("rack", racks)], &[("zone", one), ("rack", &["rackA"])]]),
            all_of_product(),
        ),
    ];
    assert_eq!(cases.len(), 10);
    for (case, allowed, expected) in cases {
        let mut expected: Vec<Segment> = expected.into_iter().map(Segment::from_iter).collect();
        expected.sort();
        for flags in [lax(), strict(), without_immediate()] {
            let (requisite, _) = asked(&flags, "testpvc", None, allowed.clone(), &[]).unwrap().unwrap();
            assert_eq!(requisite, expected, "{case}");
        }
    }
}

#[test]
fn an_allowed_expression_without_values_says_nothing() {
    let rack = || terms(&[&[("rack", "rackA")]]);
    let cases = [
        (allowed(&[&[("zone", &[]), ("rack", &["rackA"])]]), Some(rack())),
        (allowed(&[&[("rack", &["rackA"]), ("zone", &[])]]), Some(rack())),
        (allowed(&[&[]]), None),
        (allowed(&[&[("zone", &[])]]), None),
    ];
    assert_eq!(cases.len(), 4);
    for (allowed, expected) in cases {
        let found = asked(&lax(), "testpvc", None, allowed.clone(), &[]).unwrap();
        assert_eq!(found.map(|(requisite, _)| requisite), expected, "{allowed}");
    }
}

const ZONE: &[&str] = &["zone"];

/// Nodes, the selected one, requisite of the lax and of the strict provisioner; `None` is an error.
type Aggregation =
    (&'static str, Vec<NodeIs>, Option<&'static str>, Option<&'static [&'static str]>, Option<&'static [&'static str]>);

fn aggregations() -> Vec<Aggregation> {
    let zones = |zones: [&'static [(&'static str, &'static str)]; 3]| {
        vec![node("n1", ZONE, zones[0]), node("n2", ZONE, zones[1]), node("n3", ZONE, zones[2])]
    };
    let (z1, z2, z3) = (&[("zone", "zone1")][..], &[("zone", "zone2")][..], &[("zone", "zone3")][..]);
    let no_csi_node = |name, labels| NodeIs { name, keys: None, labels: Some(labels) };
    let no_node = |name| NodeIs { name, keys: Some(ZONE), labels: None };
    let mixed = vec![
        node("n1", ZONE, z1),
        node("n2", ZONE_RACK, &[("zone", "zone1"), ("rack", "rackA")]),
        node("n3", ZONE_RACK, &[("zone", "zone1"), ("rack", "rackB")]),
    ];
    let one = Some(&["zone1"][..]);
    let both = Some(&["zone1", "zone2"][..]);
    let all = Some(&["zone1", "zone2", "zone3"][..]);
    let without_keys = vec![node("n1", &[], z1), node("n2", &[], z1), node("n3", &[], z1)];
    vec![
        ("one zone", zones([z1, z1, z1]), None, one, one),
        ("one zone, selected", zones([z1, z1, z1]), Some("n1"), one, one),
        ("two zones", zones([z1, z2, z2]), None, both, both),
        ("two zones, selected", zones([z1, z2, z2]), Some("n1"), both, one),
        ("other nodes have more keys, selected", mixed, Some("n1"), one, one),
        ("no Node", vec![no_node("n1"), no_node("n2")], None, None, None),
        ("no label", zones([&[], &[], &[]]), None, None, None),
        ("no CSINode", vec![no_csi_node("n1", z1), no_csi_node("n2", z1)], None, None, None),
        ("no keys", without_keys.clone(), None, None, None),
        (
            "one driver upgraded, its node labelled",
            vec![node("n1", &[], &[]), node("n2", &[], &[]), node("n3", ZONE, z3)],
            None,
            Some(&["zone3"]),
            Some(&["zone3"]),
        ),
        (
            "one driver upgraded, all nodes labelled",
            vec![node("n1", &[], z1), node("n2", &[], z2), node("n3", ZONE, z3)],
            None,
            all,
            all,
        ),
        ("no label, selected", zones([&[], z1, z1]), Some("n1"), None, None),
        ("no CSINode, selected", vec![no_csi_node("n1", z1), node("n2", ZONE, z1)], Some("n1"), None, None),
        ("no keys, selected", without_keys, Some("n1"), None, None),
    ]
}

#[test]
fn the_nodes_of_the_cluster_are_put_together() {
    let cases = aggregations();
    assert_eq!(cases.len(), 14);
    for (case, nodes, selected, lax_zones, strict_zones) in cases {
        for (flags, expected) in [(lax(), lax_zones), (strict(), strict_zones)] {
            let found = asked(&flags, "testpvc", selected, json!([]), &nodes);
            let zones = |zones: &[&str]| zones.iter().map(|zone| Segment::from_iter([("zone", *zone)])).collect();
            let expected: Option<Vec<Segment>> = expected.map(zones);
            assert_eq!(found.ok().flatten().map(|(requisite, _)| requisite), expected, "{case}");
        }
        if selected.is_none() {
            assert_eq!(asked(&without_immediate(), "testpvc", None, json!([]), &nodes), Ok(None), "{case}");
        }
    }
}

#[test]
fn the_selected_node_comes_first() {
    const KEYS: &[&str] = &["zone", "rack"];
    let place = |rack: &'static str, zone: &'static str| Segment::from_iter([("rack", rack), ("zone", zone)]);
    let product = || allowed(&[&[("zone", &["1", "2"]), ("rack", &["A", "B"])]]);
    let in_zone = |zone: &'static str| allowed(&[&[("zone", &[zone])]]);
    let n1 = |keys, labels| vec![node("n1", keys, labels)];
    let rack_and_zone: &[(&str, &str)] = &[("zone", "2"), ("rack", "A")];
    let three = vec![
        node("n1", KEYS, rack_and_zone),
        node("n2", KEYS, &[("zone", "1"), ("rack", "A")]),
        node("n3", KEYS, &[("zone", "1"), ("rack", "B")]),
    ];
    let ssd: &[(&str, &str)] = &[("zone", "1"), ("rack", "1"), ("disk", "ssd")];
    let ssd_place = Segment::from_iter([("disk", "ssd"), ("zone", "1")]);
    let ssd_node = Segment::from_iter([("disk", "ssd"), ("rack", "1"), ("zone", "1")]);
    let gone = vec![NodeIs { name: "n1", keys: None, labels: Some(rack_and_zone) }];
    let ten: &[(&str, &str)] = &[("zone", "10"), ("rack", "1")];
    let cases = [
        (
            "within the allowed",
            product(),
            n1(KEYS, rack_and_zone),
            Some(vec![place("A", "2"), place("B", "1"), place("B", "2"), place("A", "1")]),
            Some(vec![place("A", "2")]),
        ),
        ("allowed, no CSINode", product(), gone.clone(), None, None),
        ("allowed, other keys", product(), n1(&["foo", "rack"], rack_and_zone), None, None),
        (
            "nothing allowed",
            json!([]),
            three,
            Some(vec![place("A", "2"), place("B", "1"), place("A", "1")]),
            Some(vec![place("A", "2")]),
        ),
        ("no topology at all", json!([]), gone, None, None),
        ("not within the allowed", in_zone("1"), n1(ZONE, &[("zone", "2")]), None, None),
        (
            "allowed with fewer keys",
            allowed(&[&[("disk", &["ssd"]), ("zone", &["1"])]]),
            n1(&["zone", "rack", "disk"], ssd),
            Some(vec![ssd_node.clone(), ssd_place]),
            Some(vec![ssd_node]),
        ),
        ("a value that begins alike", in_zone("1"), n1(KEYS, ten), None, None),
    ];
    assert_eq!(cases.len(), 8, "allowed without CSINode and with other keys are one row of the contract");
    for (case, allowed, nodes, lax_order, strict_order) in cases {
        for (flags, expected) in [(lax(), lax_order), (strict(), strict_order)] {
            let found = asked(&flags, "testpvc", Some("n1"), allowed.clone(), &nodes);
            let strict = flags.strict_topology;
            if strict && let Ok(Some((requisite, preferred))) = &found {
                assert_eq!(requisite, preferred, "{case}");
            }
            assert_eq!(found.ok().flatten().map(|(_, preferred)| preferred), expected, "{case}, strict {strict}");
        }
    }
}

#[test]
fn what_is_wrong_with_the_selected_node_is_named() {
    let no = |keys, labels| {
        let not_registered = NodeIs { name: "n2", keys: None, labels: Some(&[]) };
        vec![NodeIs { name: "n1", keys, labels }, not_registered]
    };
    let z1 = &[("zone", "zone1")][..];
    let zone2 = || allowed(&[&[("zone", &["zone2"])]]);
    let cases = [
        ("CSINode", no(None, Some(z1)), json!([]), "no CSINode object", true),
        ("Node", no(Some(ZONE), None), json!([]), "does not exist", true),
        ("both", no(None, None), json!([]), "no CSINode object", true),
        ("keys", no(Some(&[]), Some(z1)), json!([]), "no topology key found on CSINode \"n1\"", false),
        ("label", no(Some(ZONE_RACK), Some(z1)), json!([]), "label rack is missing", false),
        ("allowed", no(Some(ZONE), Some(z1)), zone2(), "topology {zone=zone1} is not in the allowedTopologies", true),
    ];
    assert_eq!(cases.len(), 6);
    for (case, nodes, allowed, text, another) in cases {
        for flags in [lax(), strict()] {
            let error = asked(&flags, "testpvc", Some("n1"), allowed.clone(), &nodes).expect_err(case);
            assert!(error.to_string().contains(text) && error.to_string().contains("n1"), "{case}: {error}");
            assert_eq!(error.needs_another_node(), another, "{case}");
        }
    }
}
