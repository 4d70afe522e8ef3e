//! One log line before it is written in a format.

use jiff::Timestamp;

use super::{Format, json, klog};

/// The severity of a line; decides klog's first letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    Info,
    Warning,
    Error,
    Fatal,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Text, to be quoted.
    Text(String),
    /// A number or boolean, written as it is in both formats.
    Plain(String),
}

/// What an event or a span carries.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    pub(super) message: String,
    pub(super) error: Option<String>,
    pub(super) others: Vec<(&'static str, Value)>,
}

impl Fields {
    pub(super) fn push(&mut self, name: &'static str, value: Value) {
        match (name, value) {
            ("message", Value::Text(text)) => self.message = text,
            ("err" | "error", Value::Text(text) | Value::Plain(text)) => self.error = Some(text),
            // `r#type = …` is recorded with its prefix.
            (name, value) => self.others.push((name.strip_prefix("r#").unwrap_or(name), value)),
        }
    }
}

/// A line with all it shows.
pub(super) struct Line<'a> {
    pub(super) severity: Severity,
    /// The lowest `-v` that shows the line; 0 for those always shown.
    pub(super) level: u32,
    pub(super) time: Timestamp,
    /// The source file, as the compiler knows it.
    pub(super) file: &'a str,
    /// The line in that file.
    pub(super) row: u32,
    pub(super) crate_name: &'a str,
    pub(super) fields: &'a Fields,
    /// The enclosing spans, outermost first.
    pub(super) spans: &'a [Fields],
}

impl Line<'_> {
    /// The line in `format`, with its line end.
    pub(super) fn render(&self, format: Format, pid: u32) -> String {
        match format {
            Format::Text => klog::render(self, pid),
            Format::Json => json::render(self),
        }
    }

    pub(super) fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(self.file)
    }

    /// The fields of the spans, then those of the event.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.spans
            .iter()
            .chain([self.fields])
            .flat_map(|fields| fields.others.iter().map(|(name, value)| (*name, value)))
    }
}
