//! Fills messages of any type through reflection.

use std::collections::HashMap;

use csi_proto::FILE_DESCRIPTOR_SET;
use prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value,
};

/// A source of choices; the same seed makes the same messages.
pub(crate) struct Choices(u64);

impl Choices {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }
}

/// What to put into fields.
pub(crate) enum Filling {
    /// Every field set; every text in a `csi_secret` field (keys too) is or contains this one, and no other text does.
    Canary(&'static str),
    /// Some fields set, with values that are hard to print.
    Awkward,
}

const AWKWARD_TEXTS: &[&str] = &[
    "",
    "pvc-1",
    "a b",
    "<a href=\"x\">&amp;</a>",
    "back\\slash / and 'quote'",
    "line\nline\r\ttab\u{8}\u{c}",
    "\u{0}\u{1}\u{1f}\u{7f}\u{85}",
    "\u{2028}\u{2029}\u{feff}\u{fffd}",
    "grün 漢字 🦀 \u{301}",
    "***stripped***",
];

/// A message of the given type.
pub(crate) fn fill(descriptor: &MessageDescriptor, filling: &Filling, choices: &mut Choices) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        let wanted = match filling {
            Filling::Canary(_) => true,
            Filling::Awkward => choices.below(4) > 0,
        };
        // Of a oneof the last field that is set wins; each gets its chance.
        if wanted && (field.containing_oneof().is_none() || choices.below(2) == 0) {
            let value = field_value(&field, filling, choices);
            message.set_field(&field, value);
        }
    }
    message
}

fn field_value(field: &FieldDescriptor, filling: &Filling, choices: &mut Choices) -> Value {
    let secret = is_secret(field);
    let length = match filling {
        Filling::Canary(_) => 2,
        Filling::Awkward => choices.below(4),
    };
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { panic!("{} is no map", field.full_name()) };
        let mut map = HashMap::new();
        for index in 0..length {
            let key = text(secret, filling, choices) + if index == 0 { "" } else { "2" };
            let value = single_value(&entry.map_entry_value_field(), secret, filling, choices);
            map.insert(MapKey::String(key), value);
        }
        return Value::Map(map);
    }
    if field.is_list() {
        return Value::List((0..length).map(|_| single_value(field, secret, filling, choices)).collect());
    }
    single_value(field, secret, filling, choices)
}

fn single_value(field: &FieldDescriptor, secret: bool, filling: &Filling, choices: &mut Choices) -> Value {
    match field.kind() {
        Kind::String => Value::String(text(secret, filling, choices)),
        Kind::Bool => Value::Bool(choices.below(2) == 0),
        Kind::Int32 => Value::I32(choices.of(&[0, 1, -1, i32::MAX, i32::MIN])),
        Kind::Int64 => Value::I64(choices.of(&[0, 1, -1, 1 << 40, i64::MAX, i64::MIN])),
        Kind::Enum(_) => Value::EnumNumber(choices.of(&[0, 1, 2, 5, 7, 11, 12_345, -1])),
        Kind::Message(inner) => Value::Message(fill(&inner, filling, choices)),
        kind => panic!("{}: no filling for {kind:?}", field.full_name()),
    }
}

fn text(secret: bool, filling: &Filling, choices: &mut Choices) -> String {
    match filling {
        Filling::Canary(canary) if secret => format!("{canary}-{}", choices.below(1000)),
        Filling::Canary(_) => "harmless".to_owned(),
        Filling::Awkward => choices.of(AWKWARD_TEXTS).to_owned(),
    }
}

/// Whether the field carries `csi_secret = true`.
pub(crate) fn is_secret(field: &FieldDescriptor) -> bool {
    field.options().get_extension(&csi_secret(field.parent_pool())).as_bool().unwrap()
}

fn csi_secret(pool: &DescriptorPool) -> ExtensionDescriptor {
    pool.get_extension_by_name("csi.v1.csi_secret").unwrap()
}

#[test]
fn awkward_messages_reach_every_field_and_every_arm_of_a_oneof() {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let descriptor = pool.get_message_by_name("csi.v1.VolumeCapability").unwrap();
    for field in descriptor.fields() {
        let reached = |seed| fill(&descriptor, &Filling::Awkward, &mut Choices::new(seed)).has_field(&field);
        assert!((0..20).any(reached), "{} is never set", field.full_name());
    }
}
