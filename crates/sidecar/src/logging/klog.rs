//! klog's text format: `I1129 18:56:19.123456       1 http.rs:57] "msg" key="value"`.

use std::fmt::Write as _;

use jiff::tz::TimeZone;

use super::line::{Line, Severity, Value};
use crate::quote::push_quoted;

/// The line as klog writes it, except that times are always in UTC: the images have no other time zone.
pub(super) fn render(line: &Line<'_>, pid: u32) -> String {
    let letter = match line.severity {
        Severity::Info => 'I',
        Severity::Warning => 'W',
        Severity::Error => 'E',
        Severity::Fatal => 'F',
    };
    let time = line.time.to_zoned(TimeZone::UTC);
    let mut out = String::with_capacity(128);
    let _ = write!(
        out,
        "{letter}{:02}{:02} {:02}:{:02}:{:02}.{:06} {pid:>7} {}:{}] ",
        time.month(),
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
        line.time.subsec_microsecond(),
        line.file_name(),
        line.row,
    );
    if line.severity == Severity::Fatal {
        // klog writes the text of a fatal line unquoted; it must not span lines all the same.
        out.extend(line.fields.message.chars().map(|c| if c.is_control() { ' ' } else { c }));
    } else {
        push_quoted(&mut out, &line.fields.message);
    }
    if let Some(error) = &line.fields.error {
        out.push_str(" err=");
        push_quoted(&mut out, error);
    }
    for (name, value) in line.pairs() {
        out.push(' ');
        out.push_str(name);
        out.push('=');
        match value {
            Value::Text(text) => push_quoted(&mut out, text),
            Value::Plain(text) => out.push_str(text),
        }
    }
    out.push('\n');
    out
}
