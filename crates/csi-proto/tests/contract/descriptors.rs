//! `proto/` holds exactly the wire facts of the Go modules.

use std::collections::BTreeSet;

use csi_proto::FILE_DESCRIPTOR_SET;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage, Value};

use crate::upstream;

/// Facts that may differ: where the file lies, and the comments.
const NOT_ON_THE_WIRE: [&str; 2] = ["name", "source_code_info"];

#[test]
fn our_files_say_what_the_go_modules_say() {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let [csi, registration] = upstream::descriptors();
    let files = [("csi/csi.proto", csi, 1500), ("pluginregistration/pluginregistration.proto", registration, 40)];
    for (name, theirs, at_least) in files {
        let ours = pool.get_file_by_name(name).unwrap().encode_to_vec();
        let (ours, theirs) = (facts(&pool, &ours), facts(&pool, &theirs));
        assert!(ours.len() >= at_least, "only {} facts in {name}", ours.len());
        let missing: Vec<_> = theirs.difference(&ours).map(|fact| format!("  - {fact}")).collect();
        let added: Vec<_> = ours.difference(&theirs).map(|fact| format!("  + {fact}")).collect();
        assert!(
            missing.is_empty() && added.is_empty(),
            "{name} differs from the Go module (- theirs, + ours):\n{}",
            [missing, added].concat().join("\n")
        );
    }
}

#[test]
fn a_fact_names_the_thing_it_is_about() {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let csi = facts(&pool, &pool.get_file_by_name("csi/csi.proto").unwrap().encode_to_vec());
    for expected in [
        "message_type[NodeExpandVolumeRequest].field[secrets].number = 6",
        "message_type[NodeExpandVolumeRequest].field[secrets].json_name = \"secrets\"",
        "message_type[NodeExpandVolumeRequest].field[secrets].options.[csi.v1.csi_secret] = true",
        "message_type[NodeExpandVolumeRequest].field[secrets].options.[csi.v1.alpha_field] = true",
        "message_type[VolumeCapability].nested_type[AccessMode].enum_type[Mode].value[SINGLE_NODE_WRITER].number = 1",
        "service[SnapshotMetadata].method[GetMetadataDelta].server_streaming = true",
        "service[SnapshotMetadata].options.[csi.v1.alpha_service] = true",
        "extension[csi_secret].number = 1059",
        "options.go_package = \"github.com/container-storage-interface/spec/lib/go/csi\"",
    ] {
        assert!(csi.contains(expected), "no fact {expected:?}");
    }
}

/// One line per value in a `FileDescriptorProto`. The order of declarations and empty option messages make no line.
fn facts(pool: &DescriptorPool, encoded: &[u8]) -> BTreeSet<String> {
    let descriptor = pool.get_message_by_name("google.protobuf.FileDescriptorProto").unwrap();
    let mut file = DynamicMessage::decode(descriptor, encoded).unwrap();
    for name in NOT_ON_THE_WIRE {
        file.clear_field_by_name(name);
    }
    let mut facts = BTreeSet::new();
    collect(&mut facts, "", &file);
    facts
}

fn collect(facts: &mut BTreeSet<String>, path: &str, message: &DynamicMessage) {
    assert_eq!(message.unknown_fields().count(), 0, "unknown fields at {path}");
    let fields = message.fields().map(|(field, value)| (field.name().to_owned(), value));
    let options = message.extensions().map(|(option, value)| (format!("[{}]", option.full_name()), value));
    for (name, value) in fields.chain(options) {
        let path = if path.is_empty() { name } else { format!("{path}.{name}") };
        match value {
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    collect_value(facts, &format!("{path}[{}]", label(item, index)), item);
                }
            }
            value => collect_value(facts, &path, value),
        }
    }
}

fn collect_value(facts: &mut BTreeSet<String>, path: &str, value: &Value) {
    match value {
        Value::Message(message) => collect(facts, path, message),
        value => {
            facts.insert(format!("{path} = {value}"));
        }
    }
}

/// A declaration by its name, anything else by its place.
fn label(item: &Value, index: usize) -> String {
    let name = item.as_message().filter(|message| message.descriptor().get_field_by_name("name").is_some());
    match name.and_then(|message| message.get_field_by_name("name")?.as_str().map(str::to_owned)) {
        Some(name) => name,
        None => index.to_string(),
    }
}
