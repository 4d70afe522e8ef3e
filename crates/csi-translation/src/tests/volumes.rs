//! Volumes of a plugin.

use serde_json::{Value, json};
use storage_kube::access_mode::AccessMode;
use storage_kube::wire::{PersistentVolume, SecretReference};

use crate::{CsiVolume, Error, volume_to_csi};

fn volume(field: &str, source: Value, metadata: Value) -> PersistentVolume {
    let mut object = json!({ "metadata": metadata, "spec": { "accessModes": ["ReadWriteOnce"] } });
    object["spec"][field] = source;
    serde_json::from_value(object).unwrap()
}

fn translated(field: &str, source: Value) -> Result<CsiVolume, Error> {
    volume_to_csi(&volume(field, source, json!({ "name": "pv" })))
}

/// Source, handle, file system, read-only, attributes.
#[test]
fn each_source_as_the_driver_knows_it() {
    let disk = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d";
    let rows = [
        ("awsElasticBlockStore", json!({ "volumeID": "vol-1" }), "vol-1", "", false, json!({ "partition": "0" })),
        (
            "awsElasticBlockStore",
            json!({ "volumeID": "aws://us-east-1a/vol-1", "fsType": "xfs", "partition": 2, "readOnly": true }),
            "vol-1",
            "xfs",
            true,
            json!({ "partition": "2" }),
        ),
        (
            "awsElasticBlockStore",
            json!({ "volumeID": "aws:///vol-1" }),
            "vol-1",
            "",
            false,
            json!({ "partition": "0" }),
        ),
        (
            "gcePersistentDisk",
            json!({ "pdName": "d" }),
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            "",
            false,
            json!({ "partition": "" }),
        ),
        (
            "gcePersistentDisk",
            json!({ "pdName": "d", "partition": 3, "readOnly": true }),
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            "",
            true,
            json!({ "partition": "3" }),
        ),
        ("cinder", json!({ "volumeID": "c", "fsType": "ext4", "readOnly": true }), "c", "ext4", true, json!({})),
        ("azureDisk", json!({ "diskName": "d", "diskURI": disk }), disk, "", false, json!({ "kind": "Managed" })),
        (
            "azureDisk",
            json!({ "diskURI": disk, "kind": "managed", "cachingMode": "None", "fsType": "xfs", "readOnly": true }),
            disk,
            "xfs",
            true,
            json!({ "kind": "Managed", "cachingmode": "None", "fstype": "xfs" }),
        ),
        (
            "vsphereVolume",
            json!({ "volumePath": "[ds] a.vmdk", "fsType": "ext4", "storagePolicyName": "gold" }),
            "[ds] a.vmdk",
            "ext4",
            false,
            json!({ "storagepolicyname": "gold" }),
        ),
        ("portworxVolume", json!({ "volumeID": "p", "fsType": "xfs", "readOnly": true }), "p", "xfs", false, json!({})),
    ];
    assert_eq!(rows.len(), 10);
    for (field, source, handle, fs_type, read_only, attributes) in rows {
        let volume = translated(field, source).unwrap();
        assert_eq!((volume.handle.as_str(), volume.fs_type.as_str(), volume.read_only), (handle, fs_type, read_only));
        assert_eq!(json!(volume.attributes), attributes, "{field}");
        assert_eq!(volume.access_modes, [AccessMode::ReadWriteOnce]);
    }
}

#[test]
fn the_zone_labels_of_gce_are_in_the_handle() {
    let (beta, ga) = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
    let handle = |labels: Value| {
        let metadata = json!({ "name": "pv", "labels": labels });
        volume_to_csi(&volume("gcePersistentDisk", json!({ "pdName": "d" }), metadata)).map(|volume| volume.handle)
    };
    let zone = |zone: &str| Ok(format!("projects/UNSPECIFIED/zones/{zone}/disks/d"));
    assert_eq!(handle(json!({ ga: "europe-west1-b" })), zone("europe-west1-b"));
    assert_eq!(handle(json!({ ga: "x", beta: "y" })), zone("y"));
    assert_eq!(handle(json!({ ga: "x", beta: "" })), zone("x"));
    assert_eq!(handle(json!({ ga: "" })), zone("UNSPECIFIED"));
    let region = "projects/UNSPECIFIED/regions/europe-west1/disks/d".to_owned();
    assert_eq!(handle(json!({ ga: "europe-west1-b__europe-west1-c" })), Ok(region));
    assert!(matches!(handle(json!({ ga: "europe-west1-b__us-west1-c" })), Err(Error::Region { .. })));
}

#[test]
fn gce_never_attached_a_disk_for_writing_twice() {
    use AccessMode::{ReadOnlyMany as Rox, ReadWriteMany as Rwx, ReadWriteOnce as Rwo, ReadWriteOncePod as Rwop};
    let rows = [
        (vec![], vec![]),
        (vec![Rwo], vec![Rwo]),
        (vec![Rwx], vec![Rwo]),
        (vec![Rox], vec![Rox]),
        (vec![Rwop], vec![Rwo]),
        (vec![Rwo, Rox], vec![Rwo]),
        (vec![Rox, Rwx], vec![Rwo]),
        (vec![Rwo, Rwx], vec![Rwo]),
        (vec![Rox, Rox], vec![Rox]),
    ];
    assert_eq!(rows.len(), 9);
    for (modes, expected) in rows {
        assert_eq!(crate::gce_pd::access_modes(&modes), expected, "{modes:?}");
    }
}

#[test]
fn the_share_of_azure_has_a_handle_of_five_parts() {
    let share = |source: Value, metadata: Value, claim: Value| {
        let mut object = json!({ "metadata": metadata, "spec": { "azureFile": source } });
        object["spec"]["claimRef"] = claim;
        volume_to_csi(&serde_json::from_value(object).unwrap())
    };
    let claim = json!({ "namespace": "shop", "name": "c" });
    let secret =
        |name: &str, namespace: &str| Some(SecretReference { name: name.to_owned(), namespace: namespace.to_owned() });
    let made = json!({ "secretName": "azure-storage-account-acc-secret", "shareName": "s", "readOnly": true });
    let group = json!({ "name": "pv", "annotations": { "kubernetes.io/azure-file-resource-group": "rg" } });
    let volume = share(made, group, claim.clone()).unwrap();
    assert_eq!(volume.handle, "rg#acc#s#pv#shop");
    assert_eq!(volume.secrets.node_stage, secret("azure-storage-account-acc-secret", "shop"));
    assert_eq!(json!(volume.attributes), json!({ "sharename": "s" }));
    assert!(volume.read_only);

    let own = json!({ "secretName": "own", "shareName": "s", "secretNamespace": "vault" });
    let volume = share(own, json!({ "name": "pv" }), claim.clone()).unwrap();
    assert_eq!(volume.handle, "#own#s#pv#vault");
    assert_eq!(volume.secrets.node_stage, secret("own", "vault"));

    let own = json!({ "secretName": "own", "shareName": "s" });
    assert_eq!(share(own, json!({ "name": "pv" }), Value::Null), Err(Error::SecretNamespace));
    let empty = json!({ "secretName": "own", "shareName": "s", "secretNamespace": "" });
    assert_eq!(share(empty, json!({ "name": "pv" }), claim), Err(Error::SecretNamespace));
}

#[test]
fn the_secret_of_portworx_is_in_the_annotations() {
    let annotated = |annotations: Value| {
        let metadata = json!({ "name": "pv", "annotations": annotations });
        volume_to_csi(&volume("portworxVolume", json!({ "volumeID": "p" }), metadata)).unwrap().secrets
    };
    let secrets =
        annotated(json!({ "openstorage.io/auth-secret-name": "s", "openstorage.io/auth-secret-namespace": "n" }));
    let expected = Some(SecretReference { name: "s".to_owned(), namespace: "n".to_owned() });
    for secret in [
        secrets.controller_publish,
        secrets.node_stage,
        secrets.node_publish,
        secrets.controller_expand,
        secrets.node_expand,
    ] {
        assert_eq!(secret, expected);
    }
    assert_eq!(annotated(json!({ "openstorage.io/auth-secret-name": "s" })).controller_publish, None);
}

#[test]
fn what_makes_no_sense_is_an_error() {
    let ebs = |id: &str| translated("awsElasticBlockStore", json!({ "volumeID": id })).map(|volume| volume.handle);
    for id in [
        "aws://a/b/vol-1",
        "aws://a/disk-1",
        "aws:///",
        "aws://",
        "aws://a b/vol-1",
        "aws:///vol-%zz",
        "aws://a:b/vol-1",
    ] {
        assert!(matches!(ebs(id), Err(Error::Handle { .. })), "{id}");
    }
    for (id, handle) in [("aws://a/vol-1/", "vol-1"), ("aws://a/vol-1?x#y", "vol-1"), ("gcp://x", "gcp://x"), ("", "")]
    {
        assert_eq!(ebs(id).as_deref(), Ok(handle), "{id}");
    }
    assert_eq!(
        translated("azureDisk", json!({ "diskURI": "u", "kind": "Dedicated" })),
        Err(Error::DiskKind("Dedicated".to_owned()))
    );
    assert_eq!(translated("nfs", json!({})), Err(Error::NotInTree));
    assert_eq!(translated("csi", json!({ "driver": "ebs.csi.aws.com" })), Err(Error::NotInTree));
}
