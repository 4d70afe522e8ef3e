//! The flags of every program of the suite, those beside the driver on its node included.

use super::buffer_size::BufferSize;
use crate::exit::Exit;
use crate::flag_value::{self, go_bool, go_uint};
use crate::go_duration::GoDuration;
use crate::logging;

/// A flag that was given and tunes what this program does not have, and why it changes nothing.
pub(super) type IgnoredFlag = (&'static str, &'static str);

/// Logging and `--automaxprocs`, with upstream's names and defaults. Part of [`StandardArgs`](super::StandardArgs); the node
/// programs flatten it alone.
#[derive(Debug, Clone, clap::Args)]
pub struct LoggingArgs {
    /// Without effect: there are no threads to fit to a CPU quota
    #[arg(
        long, value_parser = empty_or_bool, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_name = "BOOL"
    )]
    pub automaxprocs: Option<bool>,

    /// Log verbosity: details from 2, every CSI call from 5, libraries from 8
    #[arg(long = "v", short = 'v', value_parser = verbosity, default_value = "0")]
    pub verbosity: u32,
    /// Verbosity per source file, file=N,pattern*=N; text format only
    #[arg(long)]
    pub vmodule: Option<logging::Vmodule>,
    /// Log format: text or json
    #[arg(long, default_value = "text")]
    pub logging_format: String,
    /// Without effect: log lines are written at once
    #[arg(long)]
    pub log_flush_frequency: Option<GoDuration>,
    /// Alpha, cannot be turned on
    #[arg(long)]
    pub log_text_split_stream: bool,
    /// Alpha, cannot be turned on
    #[arg(long, default_value = "0")]
    pub log_text_info_buffer_size: BufferSize,
    /// Alpha, cannot be turned on
    #[arg(long)]
    pub log_json_split_stream: bool,
    /// Alpha, cannot be turned on
    #[arg(long, default_value = "0")]
    pub log_json_info_buffer_size: BufferSize,
}

impl LoggingArgs {
    /// The logging the flags ask for; to be applied before anything else is checked. Code 1 where they contradict each other.
    pub fn config(&self) -> Result<logging::Config, Exit> {
        let invalid = |text: String| Exit::error(format!("LoggingConfiguration is invalid: {text}"));
        let format = match self.logging_format.as_str() {
            "text" => logging::Format::Text,
            "json" => logging::Format::Json,
            other => {
                return Err(invalid(format!(
                    "--logging-format={other}: unsupported log format; expected text or json"
                )));
            }
        };
        if self.log_flush_frequency.is_some_and(|every| every.positive().is_none()) {
            return Err(invalid("--log-flush-frequency: must be greater than 0".into()));
        }
        if format == logging::Format::Json && self.vmodule.is_some() {
            return Err(invalid("--vmodule: only supported with --logging-format=text".into()));
        }
        let alpha = [
            ("--log-text-split-stream", self.log_text_split_stream),
            ("--log-text-info-buffer-size", self.log_text_info_buffer_size.asks_for_a_buffer()),
            ("--log-json-split-stream", self.log_json_split_stream),
            ("--log-json-info-buffer-size", self.log_json_info_buffer_size.asks_for_a_buffer()),
        ];
        if let Some((flag, _)) = alpha.into_iter().find(|(_, used)| *used) {
            return Err(invalid(format!(
                "{flag}: feature LoggingAlphaOptions is disabled and cannot be enabled; remove the flag"
            )));
        }
        Ok(logging::Config { format, verbosity: self.verbosity, vmodule: self.vmodule.clone().unwrap_or_default() })
    }

    /// Warns, once, of each given flag that tunes what this program does not have.
    pub fn log_ignored_flags(&self) {
        warn_of(&self.without_effect());
    }

    pub(super) fn without_effect(&self) -> Vec<IgnoredFlag> {
        let mut flags = Vec::new();
        if self.automaxprocs.is_some() {
            flags.push(("--automaxprocs", "all work is done by one thread"));
        }
        if self.log_flush_frequency.is_some() {
            flags.push(("--log-flush-frequency", "log lines are written at once"));
        }
        flags
    }
}

pub(super) fn warn_of(flags: &[IgnoredFlag]) {
    for (flag, reason) in flags {
        tracing::warn!(flag, reason, "Flag has no effect");
    }
}

fn empty_or_bool(text: &str) -> Result<bool, flag_value::Error> {
    if text.is_empty() { Ok(true) } else { go_bool(text) }
}

fn verbosity(text: &str) -> Result<u32, flag_value::Error> {
    let value = go_uint(text)?;
    u32::try_from(value).map_err(|_| flag_value::Error::Range { function: "ParseUint", text: text.to_owned() })
}
