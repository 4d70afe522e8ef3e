//! The command line in one of the two dialects of the Go sidecars, on top of clap.
//!
//! The dialect first rewrites every word to the one form `--name=value`, by the flags the clap command declares, and only
//! then clap reads the values. So the same structs serve both: [`parse`] for programs that use Go's pflag,
//! [`parse_go_flags`] for those that use Go's own `flag` package. What both have in common against clap: booleans take a value only after
//! `=`, a value may look like a flag, and the last one of a repeated flag wins.

mod go_flag;
mod pflag;
#[cfg(test)]
mod probe;

use std::error::Error as _;
use std::ffi::OsString;
use std::path::Path;

use clap::builder::ValueRange;
use clap::error::{ContextKind, ErrorKind};
use clap::{ArgAction, Command};

use crate::exit::Exit;
use crate::flag_value::go_bool;
use crate::go_duration;

/// Reads the command line as pflag does: `csi-provisioner`. `argv` includes the program's name.
///
/// Declare booleans as plain `bool` fields (with `default_value_t = true` where upstream's default is true).
/// Ends with code 2 and a usage text for what cannot be understood, with code 0 for `--help`.
pub fn parse<A: clap::Parser>(argv: impl IntoIterator<Item = OsString>) -> Result<A, Exit> {
    read::<A, pflag::Pflag>(argv)
}

/// Reads the command line as Go's `flag` package does: every other sidecar. Otherwise as [`parse`].
///
/// The first word that is no flag ends the flags, and all after it is ignored: in `-leader-election true -v=5` the
/// verbosity is not set.
pub fn parse_go_flags<A: clap::Parser>(argv: impl IntoIterator<Item = OsString>) -> Result<A, Exit> {
    read::<A, go_flag::GoFlag>(argv)
}

/// How words become flags, and how what is refused is told.
trait Dialect {
    /// Rewrites words up to the first that cannot be understood.
    fn rewrite(flags: &Flags, argv: impl Iterator<Item = OsString>) -> Rewritten;
    /// Tells of a value that the flag of this long name does not take.
    fn bad_value(flag: &Flag, value: &str, error: &(dyn std::error::Error + 'static)) -> String;
}

/// Every understood flag as one word `--name=value`, and what ended the reading before its time.
#[derive(Debug, Default)]
struct Rewritten {
    words: Vec<String>,
    end: Option<Refusal>,
}

/// Why the reading ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Refusal {
    /// Help was asked for.
    Help,
    /// A word was refused, for this reason.
    Word(String),
}

/// What the rewriting has to know of the declared flags.
struct Flags(Vec<Flag>);

struct Flag {
    long: String,
    short: Option<char>,
    /// Whether the flag may stand without a value, so that the next word is not its value.
    value_optional: bool,
}

impl Flags {
    fn of(command: &Command) -> Self {
        let flag = |arg: &clap::Arg| {
            Some(Flag {
                long: arg.get_long()?.to_owned(),
                short: arg.get_short(),
                value_optional: arg.get_num_args().is_some_and(|count: ValueRange| count.min_values() == 0),
            })
        };
        Self(command.get_arguments().filter_map(flag).collect())
    }

    fn long(&self, name: &str) -> Option<&Flag> {
        self.0.iter().find(|flag| flag.long == name)
    }

    fn short(&self, letter: char) -> Option<&Flag> {
        self.0.iter().find(|flag| flag.short == Some(letter))
    }
}

fn read<A: clap::Parser, D: Dialect>(argv: impl IntoIterator<Item = OsString>) -> Result<A, Exit> {
    let mut command = A::command()
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .mut_args(take_go_booleans);
    let mut argv = argv.into_iter();
    let program = argv.next().map_or_else(
        || command.get_name().to_owned(),
        |program| {
            let name = Path::new(&program).file_name().unwrap_or(&program);
            name.to_string_lossy().into_owned()
        },
    );
    command = command.override_usage(format!("{program} [flags]"));
    let refuse = |text: String| Exit::usage(format!("{text}\nUsage: {program} [flags]; {program} --help lists them\n"));

    let flags = Flags::of(&command);
    let Rewritten { words, end } = D::rewrite(&flags, argv);
    let read = command.try_get_matches_from_mut(words).and_then(|mut matches| A::from_arg_matches_mut(&mut matches));
    match (read, end) {
        // What was read before the end counts first, as when values are read one by one.
        (Err(error), _) => Err(refuse(describe::<D>(&flags, &error))),
        (Ok(_), Some(Refusal::Help)) => Err(Exit::success(command.render_help().to_string())),
        (Ok(_), Some(Refusal::Word(reason))) => Err(refuse(reason)),
        (Ok(args), None) => Ok(args),
    }
}

/// Turns a clap switch into a flag with the values of Go's booleans.
fn take_go_booleans(arg: clap::Arg) -> clap::Arg {
    if !matches!(arg.get_action(), ArgAction::SetTrue) {
        return arg;
    }
    let arg = if arg.get_default_values().is_empty() { arg.default_value("false") } else { arg };
    arg.action(ArgAction::Set)
        .value_parser(go_bool)
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .value_name("BOOL")
}

fn describe<D: Dialect>(flags: &Flags, error: &clap::Error) -> String {
    let text = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let argument = text(ContextKind::InvalidArg);
    let name = argument.split([' ', '=', '[']).next().unwrap_or_default().trim_start_matches('-');
    match (error.kind(), error.source(), flags.long(name)) {
        (ErrorKind::ValueValidation, Some(source), Some(flag)) => {
            D::bad_value(flag, &text(ContextKind::InvalidValue), source)
        }
        _ => error.to_string().trim_end().to_owned(),
    }
}

/// What a flag would have taken, for values whose error does not tell.
fn expected(error: &(dyn std::error::Error + 'static)) -> &'static str {
    if error.is::<go_duration::Error>() { "; expected a number with a unit, such as 10s, 1m30s or 500ms" } else { "" }
}

fn utf8(word: OsString) -> Result<String, Refusal> {
    word.into_string().map_err(|word| Refusal::Word(format!("not valid UTF-8: {}", word.to_string_lossy())))
}
