//! Classes.

use std::collections::BTreeMap;

use storage_kube::in_tree::InTreePlugin::{self, AwsEbs, AzureDisk, AzureFile, Cinder, GcePd, Portworx, Vsphere};
use storage_kube::wire::{AllowedTopology, LabelValues};

use crate::{Class, Error, class_provisioner, class_to_csi};

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn parameters(pairs: Pairs<'_>) -> BTreeMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// One term of one key.
fn allowed(key: &str, values: &[&str]) -> Vec<AllowedTopology> {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    vec![AllowedTopology { match_label_expressions: vec![LabelValues { key: key.to_owned(), values }] }]
}

fn translated(plugin: InTreePlugin, pairs: Pairs<'_>, allowed: Vec<AllowedTopology>) -> Result<Class, Error> {
    class_to_csi(plugin, Class { parameters: parameters(pairs), allowed_topologies: allowed })
}

#[test]
fn parameters_get_the_names_that_the_driver_knows() {
    let fs = "csi.storage.k8s.io/fstype";
    let rows: &[(InTreePlugin, Pairs<'_>, Pairs<'_>)] = &[
        (AwsEbs, &[], &[]),
        (AwsEbs, &[("FSType", "xfs"), ("type", "io1")], &[(fs, "xfs"), ("type", "io1")]),
        (AwsEbs, &[("iopsPerGB", "100")], &[("iopsPerGB", "100"), ("allowautoiopspergbincrease", "true")]),
        (GcePd, &[("fstype", "ext4"), ("Type", "pd-ssd")], &[(fs, "ext4"), ("Type", "pd-ssd")]),
        (Cinder, &[("fstype", "ext4"), ("availability", "nova")], &[(fs, "ext4"), ("availability", "nova")]),
        (AzureDisk, &[("fstype", "ext4"), ("kind", "managed")], &[("fstype", "ext4"), ("kind", "managed")]),
        (AzureFile, &[("fstype", "x"), ("zone", "a")], &[("fstype", "x"), ("zone", "a")]),
        (Vsphere, &[], &[("csimigration", "true")]),
        (
            Vsphere,
            &[("diskFormat", "thin"), ("datastore", "d"), ("storagePolicyName", "p"), ("fstype", "xfs"), ("odd", "1")],
            &[
                ("diskformat-migrationparam", "thin"),
                ("datastore-migrationparam", "d"),
                ("storagepolicyname", "p"),
                (fs, "xfs"),
                ("csimigration", "true"),
            ],
        ),
        (
            Vsphere,
            &[
                ("hostFailuresToTolerate", "1"),
                ("forceProvisioning", "2"),
                ("cacheReservation", "3"),
                ("diskStripes", "4"),
                ("objectSpaceReservation", "5"),
                ("iopsLimit", "6"),
            ],
            &[
                ("hostfailurestotolerate-migrationparam", "1"),
                ("forceprovisioning-migrationparam", "2"),
                ("cachereservation-migrationparam", "3"),
                ("diskstripes-migrationparam", "4"),
                ("objectspacereservation-migrationparam", "5"),
                ("iopslimit-migrationparam", "6"),
                ("csimigration", "true"),
            ],
        ),
        (Portworx, &[("repl", "2")], &[("repl", "2")]),
    ];
    assert_eq!(rows.len(), 11);
    for (plugin, before, after) in rows {
        let class = translated(*plugin, before, Vec::new()).unwrap();
        assert_eq!(class.parameters, parameters(after), "{plugin:?}");
        assert!(class.allowed_topologies.is_empty(), "{plugin:?}");
    }
}

#[test]
fn the_secret_of_portworx_goes_with_every_call() {
    let class = translated(
        Portworx,
        &[("openstorage.io/auth-secret-name", "s"), ("openstorage.io/auth-secret-namespace", "n")],
        Vec::new(),
    );
    let parameters = class.unwrap().parameters;
    for call in ["provisioner", "controller-publish", "node-publish", "node-stage", "controller-expand", "node-expand"]
    {
        assert_eq!(parameters[&format!("csi.storage.k8s.io/{call}-secret-name")], "s", "{call}");
        assert_eq!(parameters[&format!("csi.storage.k8s.io/{call}-secret-namespace")], "n", "{call}");
    }
    assert_eq!(parameters.len(), 12);
}

#[test]
fn zones_become_allowed_topologies() {
    let (beta, ga) = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
    let ebs = "topology.ebs.csi.aws.com/zone";
    let disk = "topology.disk.csi.azure.com/zone";
    let rows: &[(InTreePlugin, Pairs<'_>, Vec<AllowedTopology>, Vec<AllowedTopology>)] = &[
        (AwsEbs, &[("Zone", "a")], vec![], allowed(ebs, &["a"])),
        (AwsEbs, &[("zones", "a,b")], vec![], allowed(ebs, &["a", "b"])),
        (AwsEbs, &[], allowed(beta, &["a"]), allowed(ebs, &["a"])),
        (AwsEbs, &[], allowed(ga, &["a", "b"]), allowed(ebs, &["a", "b"])),
        (AwsEbs, &[], allowed("rack", &["r"]), allowed("rack", &["r"])),
        (GcePd, &[("zone", "a")], vec![], allowed("topology.gke.io/zone", &["a"])),
        (GcePd, &[], allowed(beta, &["a"]), allowed("topology.gke.io/zone", &["a"])),
        (Cinder, &[], allowed(ga, &["a"]), allowed("topology.cinder.csi.openstack.org/zone", &["a"])),
        (AzureDisk, &[("zones", "1,eu-1,0")], vec![], allowed(disk, &["", "eu-1", ""])),
        (AzureDisk, &[], allowed(ga, &["1", "eu-1"]), allowed(disk, &["", "eu-1"])),
        (AzureDisk, &[], allowed("rack", &["1"]), allowed("rack", &["1"])),
        (Vsphere, &[], allowed(ga, &["a"]), allowed("topology.csi.vmware.com/zone", &["a"])),
        (AzureFile, &[], allowed(ga, &["a"]), allowed(ga, &["a"])),
        (Portworx, &[], allowed(ga, &["a"]), allowed(ga, &["a"])),
    ];
    assert_eq!(rows.len(), 14);
    for (plugin, parameters, before, after) in rows {
        let class = translated(*plugin, parameters, before.clone()).unwrap();
        assert_eq!(class.allowed_topologies, *after, "{plugin:?} {before:?}");
        assert!(!class.parameters.keys().any(|key| key.to_lowercase().starts_with("zone")), "{plugin:?}");
    }
    for plugin in [AwsEbs, GcePd, AzureDisk] {
        assert_eq!(translated(plugin, &[("zone", "a")], allowed(ga, &["a"])), Err(Error::ZonesTwice), "{plugin:?}");
    }
}

/// The Go library takes either. A request that is repeated must not change.
#[test]
fn of_two_parameters_that_become_one_the_last_counts() {
    let class =
        translated(AwsEbs, &[("zones", "b,c"), ("zone", "a"), ("FSType", "xfs"), ("fstype", "ext4")], Vec::new());
    let class = class.unwrap();
    assert_eq!(class.parameters, parameters(&[("csi.storage.k8s.io/fstype", "ext4")]));
    assert_eq!(class.allowed_topologies, allowed("topology.ebs.csi.aws.com/zone", &["b", "c"]));
}

#[test]
fn only_the_class_of_portworx_changes_its_provisioner() {
    for plugin in InTreePlugin::ALL {
        let expected = if plugin == Portworx { "pxd.portworx.com" } else { plugin.as_str() };
        assert_eq!(class_provisioner(plugin), expected);
    }
}
