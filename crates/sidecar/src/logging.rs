//! Log lines as the Go sidecars write them: klog's text or Kubernetes' JSON, on standard error.
//!
//! Errors, warnings and infos are always written, `debug!` from verbosity 2, `trace!` from verbosity 5. A field
//! `err` or `error` comes first, as `err`. Libraries are heard only when something is wrong, and in full from
//! verbosity 8. Nothing is masked here: what a caller passes is written.

use std::io::Write;
use std::panic::Location;
use std::sync::OnceLock;

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use crate::exit::Exit;

mod json;
mod klog;
mod line;
mod verbosity;
mod vmodule;

pub use vmodule::Vmodule;

use line::{Fields, Line, Severity};

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// klog's header and `"message" key="value"`.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What is written, and how.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// How a line looks.
    pub format: Format,
    /// The `-v` level.
    pub verbosity: u32,
    /// Levels for single source files.
    pub vmodule: Vmodule,
}

/// The format of the last line; text until [`init`] was called.
static FORMAT: OnceLock<Format> = OnceLock::new();

/// Starts logging for the whole process, once.
pub fn init(config: &Config) -> Result<(), Exit> {
    let output = Output {
        write: Box::new(|line| {
            // Nobody is left to be told when standard error is closed.
            let _ = std::io::stderr().lock().write_all(line.as_bytes());
        }),
        now: Timestamp::now,
        pid: std::process::id(),
    };
    let _ = FORMAT.set(config.format);
    tracing::subscriber::set_global_default(subscriber(config.clone(), output))
        .map_err(|error| Exit::error(format!("logging is already set up: {error}")))
}

/// Writes the last line of a process that ends with an error: severity `F` for code 255, else `E`.
pub(crate) fn write_last_line(exit: &Exit) {
    let format = FORMAT.get().copied().unwrap_or_default();
    let text = last_line(exit, format, Timestamp::now(), std::process::id());
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

fn last_line(exit: &Exit, format: Format, time: Timestamp, pid: u32) -> String {
    let at: &Location<'_> = exit.location();
    let severity = if exit.code == 255 { Severity::Fatal } else { Severity::Error };
    let fields = Fields { message: exit.message.clone(), ..Fields::default() };
    Line {
        severity,
        level: 0,
        time,
        file: at.file(),
        row: at.line(),
        crate_name: "sidecar",
        fields: &fields,
        spans: &[],
    }
    .render(format, pid)
}

/// Where lines go, and what they cannot know themselves; replaced in tests.
struct Output {
    write: Box<dyn Fn(&str) + Send + Sync>,
    now: fn() -> Timestamp,
    pid: u32,
}

fn subscriber(config: Config, output: Output) -> impl Subscriber + Send + Sync {
    Registry::default().with(Log { config, output })
}

/// The one layer: decides what is written and writes it.
struct Log {
    config: Config,
    output: Output,
}

impl Log {
    fn shows(&self, metadata: &Metadata<'_>) -> bool {
        let own = metadata.file().and_then(|file| self.config.vmodule.level(file));
        verbosity::shows(*metadata.level(), metadata.target(), own.unwrap_or(self.config.verbosity))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.shows(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.shows(metadata)
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        let highest = self.config.vmodule.highest().max(self.config.verbosity);
        Some(verbosity::most_detailed(highest))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let spans: Vec<Fields> = context
            .event_scope(event)
            .into_iter()
            .flat_map(tracing_subscriber::registry::Scope::from_root)
            .filter_map(|span| span.extensions().get::<Fields>().cloned())
            .collect();
        let line = Line {
            severity: match *metadata.level() {
                Level::ERROR => Severity::Error,
                Level::WARN => Severity::Warning,
                _ => Severity::Info,
            },
            level: verbosity::threshold(*metadata.level()),
            time: (self.output.now)(),
            file: metadata.file().unwrap_or("???"),
            row: metadata.line().unwrap_or(0),
            crate_name: verbosity::crate_of(metadata.target()),
            fields: &fields,
            spans: &spans,
        };
        (self.output.write)(&line.render(self.config.format, self.output.pid));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.push(field.name(), line::Value::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field.name(), line::Value::Text(value.to_owned()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field.name(), line::Value::Plain(value.to_string()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field.name(), line::Value::Plain(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field.name(), line::Value::Plain(value.to_string()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        let text = value.to_string();
        self.push(field.name(), if value.is_finite() { line::Value::Plain(text) } else { line::Value::Text(text) });
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.push(field.name(), line::Value::Text(value.to_string()));
    }
}

#[cfg(test)]
mod tests;
