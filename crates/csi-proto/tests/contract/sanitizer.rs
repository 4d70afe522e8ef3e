//! The JSON form of messages, by examples and against csi-lib-utils itself.

use csi_proto::Sanitize;
use csi_proto::csi::v1::{
    CapacityRange, ControllerServiceCapability, CreateVolumeRequest, DeleteVolumeRequest, GetCapacityResponse,
    NodeGetVolumeStatsResponse, ProbeResponse, Snapshot, Topology, TopologyRequirement, VolumeCapability,
    VolumeContentSource, VolumeUsage, controller_service_capability, volume_capability, volume_content_source,
};
use csi_proto::pluginregistration::v1::PluginInfo;
use prost::Message;

use crate::any_message::{Choices, Filling, fill};
use crate::every_type::{messages, print};
use crate::upstream;

fn map<const N: usize>(entries: [(&str, &str); N]) -> std::collections::BTreeMap<String, String> {
    entries.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn mode(mode: i32) -> volume_capability::AccessMode {
    volume_capability::AccessMode { mode }
}

#[test]
fn messages_become_one_line_of_sorted_json() {
    let create = CreateVolumeRequest {
        name: "pvc-1".to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: 1024, limit_bytes: 0 }),
        volume_capabilities: vec![
            VolumeCapability {
                access_mode: Some(mode(volume_capability::access_mode::Mode::MultiNodeMultiWriter as i32)),
                access_type: Some(volume_capability::AccessType::Mount(volume_capability::MountVolume {
                    fs_type: "ext4".to_owned(),
                    mount_flags: vec!["ro".to_owned(), String::new()],
                    volume_mount_group: String::new(),
                })),
            },
            VolumeCapability::default(),
        ],
        secrets: map([("user", "root"), ("password", "1234")]),
        parameters: map([("zone", "b"), ("Zone", ""), ("a", "1\n2")]),
        accessibility_requirements: Some(TopologyRequirement {
            requisite: vec![Topology { segments: map([("foo", "bar")]) }, Topology::default()],
            preferred: vec![],
        }),
        ..CreateVolumeRequest::default()
    };
    let expected = concat!(
        r#"{"accessibility_requirements":{"requisite":[{"segments":{"foo":"bar"}},{}]},"#,
        r#""capacity_range":{"required_bytes":1024},"name":"pvc-1","#,
        r#""parameters":{"Zone":"","a":"1\n2","zone":"b"},"secrets":"***stripped***","#,
        r#""volume_capabilities":[{"access_mode":{"mode":"MULTI_NODE_MULTI_WRITER"},"#,
        r#""mount":{"fs_type":"ext4","mount_flags":["ro",""]}},{}]}"#,
    );
    assert_eq!(create.sanitized(), expected);
    assert_eq!(create.secrets, map([("user", "root"), ("password", "1234")]), "the message itself keeps its secrets");
}

#[test]
fn each_kind_of_field_has_its_form() {
    let timestamp = |seconds, nanos| Snapshot {
        creation_time: Some(prost_types::Timestamp { seconds, nanos }),
        ..Snapshot::default()
    };
    let rpc = |number| ControllerServiceCapability {
        r#type: Some(controller_service_capability::Type::Rpc(controller_service_capability::Rpc { r#type: number })),
    };
    let snapshot = volume_content_source::SnapshotSource { snapshot_id: "s".to_owned() };
    let volume = volume_content_source::VolumeSource::default();
    let cases = [
        ("empty message", CreateVolumeRequest::default().sanitized(), "{}"),
        ("unknown enum value", mode(12345).sanitized(), r#"{"mode":12345}"#),
        ("negative enum value", mode(-1).sanitized(), r#"{"mode":-1}"#),
        ("enum value zero", mode(0).sanitized(), "{}"),
        ("nested enum", rpc(9).sanitized(), r#"{"rpc":{"type":"EXPAND_VOLUME"}}"#),
        ("withdrawn enum value", rpc(11).sanitized(), r#"{"rpc":{"type":11}}"#),
        (
            "first arm of a oneof",
            VolumeContentSource { r#type: Some(volume_content_source::Type::Snapshot(snapshot)) }.sanitized(),
            r#"{"snapshot":{"snapshot_id":"s"}}"#,
        ),
        (
            "second arm of a oneof, empty",
            VolumeContentSource { r#type: Some(volume_content_source::Type::Volume(volume)) }.sanitized(),
            r#"{"volume":{}}"#,
        ),
        ("oneof not set", VolumeContentSource::default().sanitized(), "{}"),
        ("wrapped true", ProbeResponse { ready: Some(true) }.sanitized(), r#"{"ready":{"value":true}}"#),
        ("wrapped false", ProbeResponse { ready: Some(false) }.sanitized(), r#"{"ready":{}}"#),
        ("absent wrapper", ProbeResponse { ready: None }.sanitized(), "{}"),
        (
            "wrapped integers",
            GetCapacityResponse {
                available_capacity: i64::MAX,
                maximum_volume_size: Some(-1),
                minimum_volume_size: Some(0),
            }
            .sanitized(),
            r#"{"available_capacity":9223372036854775807,"maximum_volume_size":{"value":-1},"minimum_volume_size":{}}"#,
        ),
        ("timestamp", timestamp(1, 2).sanitized(), r#"{"creation_time":{"nanos":2,"seconds":1}}"#),
        ("timestamp zero", timestamp(0, 0).sanitized(), r#"{"creation_time":{}}"#),
        ("empty secrets", DeleteVolumeRequest::default().sanitized(), "{}"),
        (
            "secrets with an empty entry",
            DeleteVolumeRequest { secrets: map([("", "")]), ..DeleteVolumeRequest::default() }.sanitized(),
            r#"{"secrets":"***stripped***"}"#,
        ),
        (
            "list of messages",
            NodeGetVolumeStatsResponse {
                usage: vec![VolumeUsage { unit: 1, total: 2, ..VolumeUsage::default() }, VolumeUsage::default()],
            }
            .sanitized(),
            r#"{"usage":[{"total":2,"unit":"BYTES"},{}]}"#,
        ),
        (
            "characters that need care",
            PluginInfo { name: "<\"a\\b\">&\n\u{2028}\u{1}é".to_owned(), ..PluginInfo::default() }.sanitized(),
            r#"{"name":"\u003c\"a\\b\"\u003e\u0026\n\u2028\u0001é"}"#,
        ),
    ];
    assert_eq!(cases.len(), 19);
    for (case, text, expected) in cases {
        assert_eq!(text, expected, "{case}");
    }
}

#[test]
fn sanitized_text_is_appended() {
    let mut line = String::from("request=");
    ProbeResponse { ready: Some(true) }.write_sanitized(&mut line);
    assert_eq!(line, r#"request={"ready":{"value":true}}"#);
}

#[test]
fn every_message_prints_byte_for_byte_as_csi_lib_utils_prints_it() {
    // Field 9999 with the value 1: newer drivers send fields we do not know.
    const UNKNOWN_FIELD: [u8; 4] = [0xf8, 0xf0, 0x04, 0x01];

    let mut cases = Vec::new();
    for descriptor in messages() {
        for seed in 0..24 {
            let mut encoded = fill(&descriptor, &Filling::Awkward, &mut Choices::new(seed)).encode_to_vec();
            if seed % 2 == 0 {
                encoded.extend(UNKNOWN_FIELD);
            }
            cases.push((descriptor.full_name().to_owned(), encoded));
        }
    }
    let theirs = upstream::sanitize(&cases);
    assert_eq!(theirs.len(), cases.len());
    for ((name, encoded), theirs) in cases.iter().zip(theirs) {
        assert_eq!(print(name, encoded).sanitized, theirs, "{name}");
    }
}
