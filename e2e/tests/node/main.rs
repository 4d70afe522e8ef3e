//! A real node: pods with volumes, from the start of the node to what is left of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod access_modes;
mod alone;
mod attacher;
mod csi_node;
mod driver_restarts;
mod force_deleted;
mod images;
mod kinds;
mod reboot;
mod registration;
mod resize;
mod restarts;
mod rights;
mod secrets;
mod two_drivers;
mod whole_way;
mod without_publishing;

/// Where a node is expected, its tests must not be skipped in silence.
#[test]
fn a_node_is_possible_where_it_is_required() {
    if std::env::var_os("OUTRIGGER_REQUIRE_NODE").is_some() {
        e2e::Node::possible().expect("OUTRIGGER_REQUIRE_NODE is set");
    }
}
