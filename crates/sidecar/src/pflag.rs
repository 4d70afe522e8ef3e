//! The command line in the dialect of Go's pflag, on top of clap.
//!
//! `parse` first rewrites every word to the one form `--name=value`, by the flags the clap command declares, and
//! only then lets clap read values. What differs from clap's own dialect is decided here: booleans take a value only
//! after `=`, a value may look like a flag, positional words are ignored wherever they stand, and the last one of a
//! repeated flag wins.

use std::error::Error as _;
use std::ffi::OsString;
use std::path::Path;

use clap::builder::ValueRange;
use clap::error::{ContextKind, ErrorKind};
use clap::{ArgAction, Command};
use thiserror::Error;

use crate::exit::Exit;
use crate::flag_value::go_bool;
use crate::go_duration;
use crate::quote::quoted;

/// Reads the command line; `argv` includes the program's name.
///
/// Declare booleans as plain `bool` fields (with `default_value_t = true` where upstream's default is true).
/// Ends with code 2 and a usage text for what cannot be understood, with code 0 for `--help`.
pub fn parse<A: clap::Parser>(argv: impl IntoIterator<Item = OsString>) -> Result<A, Exit> {
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
    let words = match normalize(&Flags::of(&command), argv) {
        Ok(words) => words,
        Err(Refusal::Help) => return Err(Exit::success(command.render_help().to_string())),
        Err(refusal) => return Err(refuse(refusal.to_string())),
    };
    command
        .try_get_matches_from_mut(words)
        .and_then(|mut matches| A::from_arg_matches_mut(&mut matches))
        .map_err(|error| refuse(describe(&error)))
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

/// Why a word of the command line was refused; the first half of each text is pflag's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
enum Refusal {
    #[error("help requested")]
    Help,
    #[error("unknown flag: --{0}")]
    UnknownFlag(String),
    #[error("unknown shorthand flag: {letter:?} in {word}{cure}")]
    UnknownShorthand { letter: char, word: String, cure: String },
    #[error("flag needs an argument: {0}")]
    NeedsArgument(String),
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    #[error("not valid UTF-8: {0}")]
    NotUtf8(String),
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
        Self(
            command
                .get_arguments()
                .filter_map(|arg| {
                    Some(Flag {
                        long: arg.get_long()?.to_owned(),
                        short: arg.get_short(),
                        value_optional: arg.get_num_args().is_some_and(|count: ValueRange| count.min_values() == 0),
                    })
                })
                .collect(),
        )
    }

    fn long(&self, name: &str) -> Option<&Flag> {
        self.0.iter().find(|flag| flag.long == name)
    }

    fn short(&self, letter: char) -> Option<&Flag> {
        self.0.iter().find(|flag| flag.short == Some(letter))
    }
}

/// Every flag of `argv` as one word `--name=value`; positional words and all after `--` left out.
fn normalize(flags: &Flags, argv: impl Iterator<Item = OsString>) -> Result<Vec<String>, Refusal> {
    let mut argv =
        argv.map(|word| word.into_string().map_err(|word| Refusal::NotUtf8(word.to_string_lossy().into_owned())));
    let mut words = Vec::new();
    while let Some(word) = argv.next().transpose()? {
        let mut next = |flag: String| argv.next().ok_or(Refusal::NeedsArgument(flag))?;
        if word == "--" {
            break;
        }
        if let Some(body) = word.strip_prefix("--") {
            words.push(long_flag(flags, body, &word, &mut next)?);
        } else if let Some(body) = word.strip_prefix('-').filter(|body| !body.is_empty()) {
            words.push(shorthand(flags, body, &word, &mut next)?);
        }
    }
    Ok(words)
}

fn long_flag(
    flags: &Flags,
    body: &str,
    word: &str,
    next: &mut dyn FnMut(String) -> Result<String, Refusal>,
) -> Result<String, Refusal> {
    let (name, value) = match body.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (body, None),
    };
    if name.is_empty() || name.starts_with('-') {
        return Err(Refusal::Syntax(word.to_owned()));
    }
    let Some(flag) = flags.long(name) else {
        return Err(if name == "help" { Refusal::Help } else { Refusal::UnknownFlag(name.to_owned()) });
    };
    let value = match value {
        Some(value) => value,
        None if flag.value_optional => "true".to_owned(),
        None => next(format!("--{name}"))?,
    };
    Ok(format!("--{name}={value}"))
}

/// `-v5`, `-v=5` or `-v 5`. Only shorthands that take a value exist.
fn shorthand(
    flags: &Flags,
    body: &str,
    word: &str,
    next: &mut dyn FnMut(String) -> Result<String, Refusal>,
) -> Result<String, Refusal> {
    let mut letters = body.chars();
    let letter = letters.next().unwrap_or('-');
    let Some(flag) = flags.short(letter) else {
        if letter == 'h' {
            return Err(Refusal::Help);
        }
        let long = body.split('=').next().unwrap_or(body);
        let cure = match flags.long(long) {
            Some(_) => format!("; a flag with a long name needs two dashes: --{long}"),
            None => String::new(),
        };
        return Err(Refusal::UnknownShorthand { letter, word: word.to_owned(), cure });
    };
    let rest = letters.as_str();
    let value = match rest.strip_prefix('=') {
        Some(value) => value.to_owned(),
        None if !rest.is_empty() => rest.to_owned(),
        None => next(format!("{letter:?} in {word}"))?,
    };
    Ok(format!("--{}={value}", flag.long))
}

/// A refused value in pflag's words, with what would have been accepted.
fn describe(error: &clap::Error) -> String {
    let text = |kind| error.get(kind).map(std::string::ToString::to_string).unwrap_or_default();
    let argument = text(ContextKind::InvalidArg);
    let flag = argument.split([' ', '=', '[']).next().unwrap_or_default();
    match (error.kind(), error.source()) {
        (ErrorKind::ValueValidation, Some(source)) => {
            let expected = if source.is::<go_duration::Error>() {
                "; expected a number with a unit, such as 10s, 1m30s or 500ms"
            } else {
                ""
            };
            let value = quoted(&text(ContextKind::InvalidValue));
            format!("invalid argument {value} for \"{flag}\" flag: {source}{expected}")
        }
        _ => error.to_string().trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::flag_value::{go_int, go_uint};
    use crate::go_duration::GoDuration;

    #[derive(Debug, PartialEq, clap::Parser)]
    #[command(name = "probe")]
    struct Probe {
        #[arg(long, default_value = "/run/csi/socket")]
        csi_address: String,
        #[arg(long)]
        leader_election: bool,
        #[arg(long, default_value_t = true)]
        immediate_topology: bool,
        #[arg(long, default_value = "10s")]
        timeout: GoDuration,
        #[arg(long, value_parser = go_uint, default_value = "100")]
        worker_threads: u64,
        #[arg(long, value_parser = go_int, default_value = "-1")]
        length: i64,
        #[arg(long = "v", short = 'v', value_parser = go_uint, default_value = "0")]
        verbosity: u64,
        #[arg(
            long,
            value_parser = go_bool, num_args = 0..=1, require_equals = true,
            default_missing_value = "true"
        )]
        automaxprocs: Option<bool>,
        #[arg(long)]
        label: Vec<String>,
    }

    fn probe(words: &[&str]) -> Result<Probe, Exit> {
        let argv = ["/usr/bin/probe"].iter().chain(words);
        parse(argv.map(|word| OsString::from(*word)))
    }

    fn defaults() -> Probe {
        Probe {
            csi_address: "/run/csi/socket".into(),
            leader_election: false,
            immediate_topology: true,
            timeout: "10s".parse().unwrap(),
            worker_threads: 100,
            length: -1,
            verbosity: 0,
            automaxprocs: None,
            label: vec![],
        }
    }

    type Change = fn(&mut Probe);

    #[test]
    fn words_are_read_as_pflag_reads_them() {
        let table: &[(&[&str], Change)] = &[
            (&[], |_| {}),
            (&["--csi-address=/a"], |p| p.csi_address = "/a".into()),
            (&["--csi-address", "/a"], |p| p.csi_address = "/a".into()),
            (&["--csi-address="], |p| p.csi_address = String::new()),
            (&["--csi-address", ""], |p| p.csi_address = String::new()),
            // The next word is the value, whatever it looks like.
            (&["--csi-address", "--leader-election"], |p| {
                p.csi_address = "--leader-election".into();
            }),
            (&["--csi-address=a=b"], |p| p.csi_address = "a=b".into()),
            (&["--leader-election"], |p| p.leader_election = true),
            (&["--leader-election=true"], |p| p.leader_election = true),
            (&["--leader-election=1"], |p| p.leader_election = true),
            (&["--leader-election=t"], |p| p.leader_election = true),
            (&["--leader-election=T"], |p| p.leader_election = true),
            (&["--leader-election=TRUE"], |p| p.leader_election = true),
            (&["--leader-election=False"], |_| {}),
            (&["--leader-election=0"], |_| {}),
            // A word after a boolean is positional, and ignored.
            (&["--leader-election", "false"], |p| p.leader_election = true),
            (&["--immediate-topology=false"], |p| {
                p.immediate_topology = false;
            }),
            (&["--immediate-topology=f"], |p| p.immediate_topology = false),
            (&["--immediate-topology"], |_| {}),
            (&["--leader-election", "--leader-election=false"], |_| {}),
            (&["--timeout=1m30s"], |p| {
                p.timeout = "90s".parse().unwrap();
            }),
            (&["--timeout", "0"], |p| p.timeout = "0s".parse().unwrap()),
            (&["--timeout", "-1s"], |p| {
                p.timeout = "-1s".parse().unwrap();
            }),
            (&["--timeout=1s", "--timeout=2s"], |p| {
                p.timeout = "2s".parse().unwrap();
            }),
            (&["--worker-threads=0x10"], |p| p.worker_threads = 16),
            (&["--length", "-5"], |p| p.length = -5),
            (&["-v5"], |p| p.verbosity = 5),
            (&["-v=5"], |p| p.verbosity = 5),
            (&["-v", "5"], |p| p.verbosity = 5),
            (&["--v=5"], |p| p.verbosity = 5),
            (&["--v", "5"], |p| p.verbosity = 5),
            (&["--v=5", "-v2"], |p| p.verbosity = 2),
            (&["--automaxprocs"], |p| p.automaxprocs = Some(true)),
            (&["--automaxprocs=0"], |p| p.automaxprocs = Some(false)),
            (&["--automaxprocs", "0"], |p| p.automaxprocs = Some(true)),
            (&["one", "--v=1", "two", "-", "--leader-election"], |p| {
                p.verbosity = 1;
                p.leader_election = true;
            }),
            (&["--v=1", "--", "--v=2", "--nonsense"], |p| p.verbosity = 1),
            (&["--label=a", "--label", "b"], |p| {
                p.label = vec!["a".into(), "b".into()];
            }),
        ];
        for (words, change) in table {
            let mut want = defaults();
            change(&mut want);
            let got = probe(words).unwrap_or_else(|exit| panic!("{words:?}: {exit}"));
            assert_eq!(got, want, "{words:?}");
        }
    }

    #[test]
    fn what_pflag_refuses_ends_with_code_2_and_names_the_flag() {
        let table: &[(&[&str], &str)] = &[
            (&["--nonsense"], "unknown flag: --nonsense"),
            (&["--nonsense=1"], "unknown flag: --nonsense"),
            (&["--logtostderr"], "unknown flag: --logtostderr"),
            (&["--connection-timeout=5s"], "unknown flag: --connection-timeout"),
            (&["--csi-addres=/a"], "unknown flag: --csi-addres"),
            (&["--csi_address=/a"], "unknown flag: --csi_address"),
            (
                &["-csi-address=/a"],
                "unknown shorthand flag: 'c' in -csi-address=/a; a flag with a long name needs two dashes: --csi-address",
            ),
            (&["-x"], "unknown shorthand flag: 'x' in -x"),
            (&["---v=1"], "bad flag syntax: ---v=1"),
            (&["--=1"], "bad flag syntax: --=1"),
            (&["--csi-address"], "flag needs an argument: --csi-address"),
            (&["-v"], "flag needs an argument: 'v' in -v"),
            (
                &["--timeout=10"],
                r#"invalid argument "10" for "--timeout" flag: time: missing unit in duration "10"; expected a number with a unit, such as 10s, 1m30s or 500ms"#,
            ),
            (&["--timeout="], r#"invalid argument "" for "--timeout" flag: time: invalid duration """#),
            (
                &["--leader-election=maybe"],
                r#"invalid argument "maybe" for "--leader-election" flag: strconv.ParseBool: parsing "maybe": invalid syntax; expected true or false"#,
            ),
            (
                &["--leader-election="],
                r#"invalid argument "" for "--leader-election" flag: strconv.ParseBool: parsing """#,
            ),
            (&["--automaxprocs=x"], r#"invalid argument "x" for "--automaxprocs" flag"#),
            (
                &["--worker-threads=-1"],
                r#"invalid argument "-1" for "--worker-threads" flag: strconv.ParseUint: parsing "-1": invalid syntax"#,
            ),
            (&["-vx"], r#"invalid argument "x" for "--v" flag"#),
            (&["--v=-1"], r#"invalid argument "-1" for "--v" flag"#),
        ];
        for (words, want) in table {
            let exit = probe(words).expect_err(&format!("{words:?}"));
            assert_eq!(exit.code, 2, "{words:?}");
            assert!(exit.message.starts_with(want), "{words:?}: {exit}");
            assert!(exit.message.contains("Usage: probe [flags]"), "{exit}");
        }
    }

    #[test]
    fn help_lists_the_flags_and_ends_with_code_0() {
        for words in [&["--help"] as &[_], &["-h"], &["--v=1", "--help", "--nonsense"]] {
            let exit = probe(words).unwrap_err();
            assert_eq!(exit.code, 0);
            assert!(exit.message.contains("--csi-address"), "{exit}");
            assert!(exit.message.contains("probe [flags]"), "{exit}");
            assert!(exit.message.contains("[default: 10s]"), "{exit}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_word_that_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStringExt as _;
        let word = OsString::from_vec(b"--csi-address=\xff".to_vec());
        let exit = parse::<Probe>([OsString::from("probe"), word]).unwrap_err();
        assert_eq!(exit.code, 2);
        assert!(exit.message.starts_with("not valid UTF-8"), "{exit}");
    }
}
