//! Contract §7.3: which size is asked for, row by row. Claims in G, volumes in Gi.

use storage_kube::quantity::Quantity;
use storage_kube::wire::ResizeStatus::{
    self, ControllerResizeInProgress as InProgress, ControllerResizeInfeasible as Infeasible, NodeResizeInProgress,
    NodeResizeInfeasible, NodeResizePending,
};

use crate::expand::decision::{SizeDecision, SizeView, decide};
use crate::records::claim::ClaimSize;
use crate::settings::Expansion;

struct Row {
    wanted: u32,
    allocated: Option<u32>,
    status: Option<ResizeStatus>,
    volume: u32,
    expansion: Expansion,
    failed_finally: bool,
    waits_for_node: bool,
    recovers: bool,
    /// What is asked for; none: nothing.
    grows_to: Option<u32>,
}

const ROW: Row = Row {
    wanted: 0,
    allocated: None,
    status: None,
    volume: 0,
    expansion: Expansion::Controller,
    failed_finally: false,
    waits_for_node: false,
    recovers: true,
    grows_to: None,
};

fn check(rows: &[Row]) {
    for (index, row) in rows.iter().enumerate() {
        let size = ClaimSize {
            requested: format!("{}G", row.wanted),
            capacity: Some("1G".to_owned()),
            allocated: row.allocated.map(|size| format!("{size}G")),
            status: row.status,
            resizer: None,
            node_not_required: false,
        };
        let decision = decide(SizeView {
            size: &size,
            volume: Quantity::parse(&format!("{}Gi", row.volume)).unwrap(),
            expansion: row.expansion,
            recovers: row.recovers,
            failed_finally: row.failed_finally,
            waits_for_node: row.waits_for_node,
        });
        let expected = row.grows_to.map_or(SizeDecision::Nothing, |size| SizeDecision::Grow(format!("{size}G")));
        assert_eq!(decision, expected, "row {index}");
    }
}

#[test]
fn the_size_asked_for_is_that_of_the_go_resizer() {
    let rows = [
        Row { wanted: 2, volume: 1, grows_to: Some(2), ..ROW },
        Row { wanted: 1, volume: 1, grows_to: Some(1), ..ROW },
        Row { wanted: 5, allocated: Some(10), status: Some(Infeasible), volume: 3, grows_to: Some(5), ..ROW },
        Row {
            wanted: 5,
            allocated: Some(10),
            status: Some(InProgress),
            volume: 3,
            failed_finally: true,
            grows_to: Some(5),
            ..ROW
        },
        Row { wanted: 5, allocated: Some(10), status: Some(InProgress), volume: 3, grows_to: Some(10), ..ROW },
        Row {
            wanted: 5,
            allocated: Some(10),
            status: Some(NodeResizeInfeasible),
            volume: 10,
            expansion: Expansion::NodeOnly,
            grows_to: Some(5),
            ..ROW
        },
        Row { wanted: 1, allocated: Some(1), status: Some(NodeResizePending), volume: 1, ..ROW },
        Row { wanted: 2, allocated: Some(2), status: Some(NodeResizeInfeasible), volume: 1, grows_to: Some(2), ..ROW },
        Row { wanted: 10, allocated: Some(3), status: Some(NodeResizePending), volume: 3, ..ROW },
        Row { wanted: 10, allocated: Some(3), status: Some(NodeResizeInProgress), volume: 3, ..ROW },
    ];
    assert_eq!(rows.len(), 10, "the other three differ in the driver's answer only: `claims`");
    check(&rows);
}

/// The rest of contract §4.3.
#[test]
fn every_line_of_the_size_decision_holds() {
    let allocated = |size| Some(size);
    let rows = [
        Row {
            wanted: 5,
            allocated: allocated(4),
            status: Some(NodeResizePending),
            volume: 3,
            grows_to: Some(4),
            ..ROW
        },
        Row { wanted: 5, status: Some(NodeResizePending), volume: 3, grows_to: Some(5), ..ROW },
        Row { wanted: 5, status: Some(NodeResizeInfeasible), volume: 3, grows_to: Some(5), ..ROW },
        Row { wanted: 5, status: Some(InProgress), volume: 3, grows_to: Some(5), ..ROW },
        Row {
            wanted: 5,
            allocated: allocated(9),
            status: Some(ResizeStatus::Other),
            volume: 3,
            grows_to: Some(5),
            ..ROW
        },
        Row { wanted: 5, allocated: allocated(9), volume: 3, grows_to: Some(5), ..ROW },
        Row { wanted: 5, allocated: allocated(9), status: Some(NodeResizeInProgress), volume: 9, ..ROW },
        Row {
            wanted: 5,
            allocated: allocated(9),
            status: Some(NodeResizeInfeasible),
            volume: 9,
            grows_to: Some(9),
            ..ROW
        },
        Row { wanted: 5, status: Some(NodeResizeInfeasible), volume: 9, grows_to: Some(5), ..ROW },
        Row { wanted: 5, allocated: allocated(9), status: Some(InProgress), volume: 9, grows_to: Some(9), ..ROW },
        Row { wanted: 5, status: Some(Infeasible), volume: 9, grows_to: Some(5), ..ROW },
        Row { wanted: 5, allocated: allocated(9), volume: 9, grows_to: Some(9), ..ROW },
        Row { wanted: 5, volume: 9, waits_for_node: true, ..ROW },
        Row { wanted: 5, status: Some(ResizeStatus::Other), volume: 9, grows_to: Some(5), ..ROW },
        // Without KEP-1790.
        Row { wanted: 5, allocated: allocated(9), volume: 3, recovers: false, grows_to: Some(5), ..ROW },
        Row { wanted: 5, volume: 9, recovers: false, waits_for_node: true, ..ROW },
        Row { wanted: 5, volume: 9, recovers: false, grows_to: Some(5), ..ROW },
    ];
    assert_eq!(rows.len(), 17);
    check(&rows);
}
