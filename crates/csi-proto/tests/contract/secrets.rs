//! No printed form of a message shows a secret.

use prost::Message;
use prost_reflect::{DynamicMessage, Value};

use crate::any_message::{Choices, Filling, fill, is_secret};
use crate::every_type::{messages, print};

const CANARY: &str = "canary";

#[test]
fn no_message_shows_a_csi_secret_in_debug_or_sanitized_form() {
    let mut with_secrets = 0;
    for descriptor in messages() {
        for seed in 0..16 {
            let message = fill(&descriptor, &Filling::Canary(CANARY), &mut Choices::new(seed));
            let secrets = secrets_in(&message);
            with_secrets += usize::from(seed == 0 && secrets > 0);
            let printed = print(descriptor.full_name(), &message.encode_to_vec());
            for (form, text) in
                [("sanitized", &printed.sanitized), ("debug", &printed.debug), ("pretty debug", &printed.pretty_debug)]
            {
                assert!(!text.contains(CANARY), "{} shows a secret, {form}: {text}", descriptor.full_name());
            }
            assert_eq!(printed.sanitized.matches("\"***stripped***\"").count(), secrets, "{}", printed.sanitized);
            if secrets > 0 {
                assert_eq!(printed.debug, printed.sanitized);
                assert_eq!(printed.pretty_debug, printed.sanitized);
            }
        }
    }
    assert_eq!(with_secrets, 22, "messages with secrets in CSI 1.13");
}

#[test]
fn every_field_called_secrets_is_marked() {
    for message in messages() {
        for field in message.fields().filter(|field| field.name().contains("secret")) {
            assert!(is_secret(&field), "{}", field.full_name());
        }
    }
}

#[test]
fn a_request_in_tonics_envelope_shows_no_secret() {
    let request = csi_proto::csi::v1::DeleteVolumeRequest {
        volume_id: "vol-1".to_owned(),
        secrets: [("key".to_owned(), CANARY.to_owned())].into(),
    };
    let text = format!("{:?}", tonic::Request::new(request));
    assert!(text.contains(r#""secrets":"***stripped***""#) && !text.contains(CANARY), "{text}");
}

/// Secret fields that are set, at any depth; asserts that the filling has put the canary into each.
fn secrets_in(message: &DynamicMessage) -> usize {
    let mut found = 0;
    for (field, value) in message.fields() {
        if is_secret(&field) {
            assert!(value.to_string().contains(CANARY), "{} has no canary: {value}", field.full_name());
            found += 1;
        } else {
            found += inner(value).into_iter().map(secrets_in).sum::<usize>();
        }
    }
    found
}

fn inner(value: &Value) -> Vec<&DynamicMessage> {
    match value {
        Value::Message(message) => vec![message],
        Value::List(items) => items.iter().flat_map(inner).collect(),
        Value::Map(entries) => entries.values().flat_map(inner).collect(),
        _ => Vec::new(),
    }
}
