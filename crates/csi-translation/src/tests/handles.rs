//! Handles that the node completes.

use storage_kube::in_tree::InTreePlugin;

use crate::{Error, repaired_handle};

#[test]
fn the_node_tells_project_and_place_of_a_disk_of_gce() {
    let node = "projects/p/zones/us-central1-a/instances/n";
    let rows = [
        ("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", Some("projects/p/zones/us-central1-a/disks/d")),
        ("projects/UNSPECIFIED/zones/z/disks/d", Some("projects/p/zones/z/disks/d")),
        ("projects/UNSPECIFIED/regions/UNSPECIFIED/disks/d", Some("projects/p/regions/us-central1/disks/d")),
        ("projects/UNSPECIFIED/regions/r/disks/d", Some("projects/p/regions/r/disks/d")),
        ("projects/own/zones/UNSPECIFIED/disks/d", Some("projects/own/zones/UNSPECIFIED/disks/d")),
        ("projects/UNSPECIFIED/planets/UNSPECIFIED/disks/d", None),
        ("projects/UNSPECIFIED/zones/z", None),
        ("d", None),
    ];
    assert_eq!(rows.len(), 8);
    for (handle, expected) in rows {
        let found = repaired_handle(InTreePlugin::GcePd, handle, node);
        assert_eq!(found.as_deref().ok(), expected, "{handle}: {found:?}");
    }
    let open = rows[0].0;
    for node in ["n", "projects/p/zones/z"] {
        let found = repaired_handle(InTreePlugin::GcePd, open, node);
        assert!(matches!(found, Err(Error::NodeId { .. })), "{found:?}");
    }
    let far = repaired_handle(InTreePlugin::GcePd, rows[2].0, "projects/p/zones/mars/instances/n");
    assert!(matches!(far, Err(Error::Region { .. })), "{far:?}");
    for plugin in InTreePlugin::ALL.into_iter().filter(|plugin| *plugin != InTreePlugin::GcePd) {
        assert_eq!(repaired_handle(plugin, open, "n").as_deref(), Ok(open), "{plugin:?}");
    }
}
