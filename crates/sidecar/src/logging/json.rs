//! Kubernetes' JSON format: `ts` (epoch milliseconds), `caller`, `msg`, `v` (not for errors), `err`, then fields.

use std::fmt::Write as _;

use super::line::{Line, Severity, Value};

/// The line as one JSON object. A fatal line has the shape of an info line, as upstream's has.
pub(super) fn render(line: &Line<'_>) -> String {
    let mut out = String::with_capacity(192);
    let micros = line.time.as_microsecond();
    let _ = write!(out, "{{\"ts\":{}.{:03},\"caller\":", micros.div_euclid(1000), micros.rem_euclid(1000));
    push_string(&mut out, &format!("{}/{}:{}", line.crate_name, line.file_name(), line.row));
    out.push_str(",\"msg\":");
    push_string(&mut out, &line.fields.message);
    if line.severity != Severity::Error {
        let _ = write!(out, ",\"v\":{}", line.level);
    }
    if let Some(error) = &line.fields.error {
        out.push_str(",\"err\":");
        push_string(&mut out, error);
    }
    for (name, value) in line.pairs() {
        out.push(',');
        push_string(&mut out, name);
        out.push(':');
        match value {
            Value::Text(text) => push_string(&mut out, text),
            Value::Plain(text) => out.push_str(text),
        }
    }
    out.push_str("}\n");
    out
}

fn push_string(out: &mut String, text: &str) {
    // Strings always serialise.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}
