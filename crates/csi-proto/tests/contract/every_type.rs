//! Every Rust type of the crate by the name of its message.

use std::fmt::Debug;

use csi_proto::{FILE_DESCRIPTOR_SET, Sanitize};
use prost::Message;
use prost_reflect::{DescriptorPool, MessageDescriptor};

/// How a message is printed.
pub(crate) struct Printed {
    pub(crate) sanitized: String,
    pub(crate) debug: String,
    pub(crate) pretty_debug: String,
}

type Visit = fn(&[u8]) -> Printed;

const TABLE: &[(&str, Visit)] = include!(concat!(env!("OUT_DIR"), "/message_table.rs"));

fn visit<M: Message + Default + Debug + Sanitize + PartialEq + Clone>(encoded: &[u8]) -> Printed {
    let message = M::decode(encoded).unwrap();
    let original = message.clone();
    let printed = Printed {
        sanitized: message.sanitized(),
        debug: format!("{message:?}"),
        pretty_debug: format!("{message:#?}"),
    };
    assert!(message == original, "printing changed the message");
    printed
}

pub(crate) fn print(message: &str, encoded: &[u8]) -> Printed {
    let (_, visit) =
        TABLE.iter().find(|(name, _)| *name == message).unwrap_or_else(|| panic!("no Rust type for {message}"));
    visit(encoded)
}

/// All messages of `proto/`, found in the descriptors and so independent of the table.
pub(crate) fn messages() -> Vec<MessageDescriptor> {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let ours = |message: &MessageDescriptor| !message.is_map_entry() && message.package_name() != "google.protobuf";
    pool.all_messages().filter(ours).collect()
}

#[test]
fn every_message_has_a_rust_type() {
    let messages = messages();
    assert_eq!(messages.len(), TABLE.len());
    for message in messages {
        assert_eq!(print(message.full_name(), &[]).sanitized, "{}", "empty {}", message.full_name());
    }
}
