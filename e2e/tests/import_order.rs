//! Who may import whom: the layers of ARCHITECTURE.md, read from the manifests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;

/// Our libraries and what each may import of ours, outside tests.
const LAYERS: &[(&str, &[&str])] = &[
    ("gathered-writes", &[]),
    ("csi-proto", &[]),
    ("csi-client", &["csi-proto", "gathered-writes"]),
    ("storage-kube", &["csi-proto"]),
    ("csi-translation", &["storage-kube"]),
    ("controller-runtime", &["gathered-writes"]),
    ("sidecar", &["csi-client", "controller-runtime"]),
];
/// Everything that runs in a pod beside a driver: sees the libraries and never another of its kind.
const SIDECARS: &[&str] = &[
    "csi-provisioner",
    "csi-attacher",
    "csi-resizer",
    "csi-node-driver-registrar",
    "livenessprobe",
    "csi-snapshotter",
    "snapshot-controller",
];
/// Drivers: they know the wire and nothing of Kubernetes.
const DRIVERS: &[&str] = &["local-driver", "fake-driver"];
const TEST_ONLY: &[&str] = &["fake-apiserver", "fake-driver", "e2e", "bench"];
/// Crates that make something depend on Kubernetes.
const KUBERNETES: &[&str] = &["kube", "k8s-openapi", "kube-runtime", "kube-client", "kube-core"];

struct Package {
    /// Dependencies outside tests.
    imports: BTreeSet<String>,
    /// All dependencies.
    all: BTreeSet<String>,
}

fn packages() -> BTreeMap<String, Package> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--manifest-path", manifest])
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata");
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap();
            let name = |dependency: &Value| dependency["name"].as_str().unwrap().to_owned();
            let imports = dependencies.iter().filter(|d| d["kind"] != "dev").map(name).collect();
            let all = dependencies.iter().map(name).collect();
            (package["name"].as_str().unwrap().to_owned(), Package { imports, all })
        })
        .collect()
}

fn ours<'a>(package: &'a Package, packages: &BTreeMap<String, Package>) -> BTreeSet<&'a str> {
    package.imports.iter().filter(|name| packages.contains_key(*name)).map(String::as_str).collect()
}

#[test]
fn libraries_import_only_what_lies_below_them() {
    let packages = packages();
    for (name, allowed) in LAYERS {
        let extra: Vec<_> = ours(&packages[*name], &packages).into_iter().filter(|n| !allowed.contains(n)).collect();
        assert!(extra.is_empty(), "{name} must not import {extra:?}");
    }
}

#[test]
fn sidecars_import_the_libraries_and_never_each_other() {
    let packages = packages();
    let libraries: BTreeSet<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    for (name, package) in packages.iter().filter(|(name, _)| SIDECARS.contains(&name.as_str())) {
        let extra: Vec<_> = ours(package, &packages).into_iter().filter(|n| !libraries.contains(n)).collect();
        assert!(extra.is_empty(), "{name} must not import {extra:?}");
    }
}

#[test]
fn the_driver_side_knows_no_kubernetes_and_the_kubernetes_side_no_csi() {
    let packages = packages();
    for name in ["gathered-writes", "csi-proto", "csi-client"].iter().chain(DRIVERS) {
        let found: Vec<_> = packages[*name].all.iter().filter(|n| KUBERNETES.contains(&n.as_str())).collect();
        assert!(found.is_empty(), "{name} must not import {found:?}");
    }
    let runtime = &packages["controller-runtime"].all;
    let found: Vec<_> = runtime.iter().filter(|n| n.starts_with("csi-") || *n == "tonic").collect();
    assert!(found.is_empty(), "controller-runtime must not import {found:?}");
}

#[test]
fn what_is_for_tests_is_imported_by_tests_alone() {
    let packages = packages();
    for (name, package) in packages.iter().filter(|(name, _)| !TEST_ONLY.contains(&name.as_str())) {
        let found: Vec<_> = package.imports.iter().filter(|n| TEST_ONLY.contains(&n.as_str())).collect();
        assert!(found.is_empty(), "{name} imports {found:?} outside its tests");
    }
}

#[test]
fn every_crate_has_a_place_in_the_order() {
    let placed: BTreeSet<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    let known = |name: &str| {
        placed.contains(name) || SIDECARS.contains(&name) || DRIVERS.contains(&name) || TEST_ONLY.contains(&name)
    };
    let unknown: Vec<_> = packages().into_keys().filter(|name| !known(name)).collect();
    assert!(unknown.is_empty(), "say in this file what {unknown:?} may import");
}
