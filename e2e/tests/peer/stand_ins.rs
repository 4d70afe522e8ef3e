//! What is different in every run gets a name of its own, so that the rest can be compared.

use serde_json::Value;

/// Puts stand-ins for names into all texts and keys, in the order of the list.
pub(crate) fn replaced(value: &Value, names: &[(String, String)]) -> Value {
    let text = |text: &str| {
        let text = names.iter().fold(text.to_owned(), |text, (name, stand_in)| text.replace(name, stand_in));
        of_this_process(text)
    };
    match value {
        Value::String(value) => Value::String(text(value)),
        Value::Array(values) => values.iter().map(|value| replaced(value, names)).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (text(key), replaced(value, names))).collect(),
        other => other.clone(),
    }
}

/// Texts that each process makes of its time, its host and chance keep their form only.
fn of_this_process(text: String) -> String {
    const DRIVER: &str = "SITE.outrigger.dev";
    if let Some(rest) = text.strip_prefix(DRIVER).and_then(|rest| rest.strip_prefix('_')) {
        let uuid = rest.rsplit_once('_').is_some_and(|(host, uuid)| !host.is_empty() && uuid.len() == 36);
        return if uuid { format!("{DRIVER}_HOST_UUID") } else { text };
    }
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.splitn(3, '-').collect::<Vec<_>>()[..] {
        [millis, random, DRIVER] if number(millis) && number(random) && millis.len() == 13 && random.len() < 5 => {
            format!("MILLIS-RANDOM-{DRIVER}")
        }
        _ => text,
    }
}

#[test]
fn only_texts_of_the_right_form_get_a_stand_in() {
    let form = |text: &str| of_this_process(text.to_owned());
    assert_eq!(form("1766000000000-1234-SITE.outrigger.dev"), "MILLIS-RANDOM-SITE.outrigger.dev");
    assert_eq!(form("1766000000-1234-SITE.outrigger.dev"), "1766000000-1234-SITE.outrigger.dev");
    let uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";
    assert_eq!(form(&format!("SITE.outrigger.dev_some-host_{uuid}")), "SITE.outrigger.dev_HOST_UUID");
    assert_eq!(form("SITE.outrigger.dev_some-host"), "SITE.outrigger.dev_some-host");
}
