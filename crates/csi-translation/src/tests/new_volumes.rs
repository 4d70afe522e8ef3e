//! Volumes that a driver has made.

use serde_json::{Value, json};

use crate::{Error, volume_to_in_tree};

fn volume(csi: Value) -> Value {
    json!({ "metadata": { "name": "pv" }, "spec": { "capacity": { "storage": "1Gi" }, "csi": csi } })
}

#[test]
fn each_volume_becomes_one_of_its_plugin() {
    let disk = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d";
    let rows = [
        (
            json!({ "driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "xfs", "readOnly": true, "volumeAttributes": { "partition": "2" } }),
            "awsElasticBlockStore",
            json!({ "volumeID": "vol-1", "fsType": "xfs", "readOnly": true, "partition": 2 }),
        ),
        (
            json!({ "driver": "ebs.csi.aws.com", "volumeHandle": "vol-1" }),
            "awsElasticBlockStore",
            json!({ "volumeID": "vol-1" }),
        ),
        (
            json!({ "driver": "pd.csi.storage.gke.io", "volumeHandle": "projects/p/zones/z/disks/d", "volumeAttributes": { "partition": "" } }),
            "gcePersistentDisk",
            json!({ "pdName": "d" }),
        ),
        (
            json!({ "driver": "pd.csi.storage.gke.io", "volumeHandle": "projects/p/regions/r/disks/d", "volumeAttributes": { "partition": "1" } }),
            "gcePersistentDisk",
            json!({ "pdName": "d", "partition": 1 }),
        ),
        (
            json!({ "driver": "cinder.csi.openstack.org", "volumeHandle": "c", "fsType": "ext4", "readOnly": true }),
            "cinder",
            json!({ "volumeID": "c", "fsType": "ext4", "readOnly": true }),
        ),
        (
            json!({ "driver": "disk.csi.azure.com", "volumeHandle": disk, "fsType": "ext4" }),
            "azureDisk",
            json!({ "diskName": "d", "diskURI": disk, "fsType": "ext4", "readOnly": false, "kind": "Managed" }),
        ),
        (
            json!({ "driver": "disk.csi.azure.com", "volumeHandle": disk, "volumeAttributes": { "CachingMode": "None", "fsType": "xfs" } }),
            "azureDisk",
            json!({ "diskName": "d", "diskURI": disk, "fsType": "xfs", "readOnly": false, "kind": "Managed", "cachingMode": "None" }),
        ),
        (
            json!({ "driver": "file.csi.azure.com", "volumeHandle": "rg#acc#s#pv", "nodeStageSecretRef": { "name": "x", "namespace": "n" }, "volumeAttributes": { "shareName": "t" } }),
            "azureFile",
            json!({ "shareName": "t", "secretName": "x", "secretNamespace": "n" }),
        ),
        (
            json!({ "driver": "csi.vsphere.vmware.com", "volumeHandle": "id", "volumeAttributes": { "initialvolumefilepath": "[ds] a.vmdk" } }),
            "vsphereVolume",
            json!({ "volumePath": "[ds] a.vmdk" }),
        ),
        (
            json!({ "driver": "pxd.portworx.com", "volumeHandle": "p", "readOnly": true }),
            "portworxVolume",
            json!({ "volumeID": "p", "readOnly": true }),
        ),
    ];
    assert_eq!(rows.len(), 10);
    for (csi, field, source) in rows {
        let mut expected = json!({ "metadata": { "name": "pv" }, "spec": { "capacity": { "storage": "1Gi" } } });
        expected["spec"][field] = source;
        assert_eq!(volume_to_in_tree(volume(csi)), Ok(expected), "{field}");
    }
}

#[test]
fn the_handle_tells_share_account_and_resource_group_where_nothing_else_does() {
    let csi = json!({ "driver": "file.csi.azure.com", "volumeHandle": "rg#acc#s#pv" });
    let found = volume_to_in_tree(volume(csi)).unwrap();
    let source =
        json!({ "shareName": "s", "secretName": "azure-storage-account-acc-secret", "secretNamespace": "default" });
    assert_eq!(found["spec"]["azureFile"], source);
    assert_eq!(found["metadata"]["annotations"], json!({ "kubernetes.io/azure-file-resource-group": "rg" }));
}

#[test]
fn what_the_driver_says_must_fit_into_the_source() {
    let refused = |csi: Value| volume_to_in_tree(volume(csi)).unwrap_err();
    let ebs = json!({ "driver": "ebs.csi.aws.com", "volumeHandle": "v", "volumeAttributes": { "partition": "x" } });
    assert_eq!(refused(ebs), Error::Partition("x".to_owned()));
    for (driver, handle) in [
        ("pd.csi.storage.gke.io", "d"),
        ("disk.csi.azure.com", "/subscriptions/s/disks/d"),
        ("disk.csi.azure.com", "http://host/blob.vhd"),
        ("file.csi.azure.com", "rg#acc"),
    ] {
        let error = refused(json!({ "driver": driver, "volumeHandle": handle }));
        assert!(matches!(error, Error::Handle { .. }), "{error}");
    }
    assert_eq!(refused(json!({ "driver": "other", "volumeHandle": "h" })), Error::NotCsi);
    assert_eq!(volume_to_in_tree(json!({ "spec": { "nfs": {} } })), Err(Error::NotCsi));
}
