#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::ffi::OsString;

use super::super::probe::{Change, Probe, defaults};
use crate::exit::Exit;
use crate::parse;

fn probe(words: &[&str]) -> Result<Probe, Exit> {
    let argv = ["/usr/bin/probe"].iter().chain(words);
    parse(argv.map(|word| OsString::from(*word)))
}

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
        (&["--leader-election="], r#"invalid argument "" for "--leader-election" flag: strconv.ParseBool: parsing """#),
        (&["--automaxprocs=x"], r#"invalid argument "x" for "--automaxprocs" flag"#),
        (
            &["--worker-threads=-1"],
            r#"invalid argument "-1" for "--worker-threads" flag: strconv.ParseUint: parsing "-1": invalid syntax"#,
        ),
        (&["-vx"], r#"invalid argument "x" for "--v" flag"#),
        (&["--v=-1"], r#"invalid argument "-1" for "--v" flag"#),
        // The first of several mistakes is told.
        (&["--timeout=10", "--help"], r#"invalid argument "10" for "--timeout" flag"#),
        (&["--nonsense", "--timeout=10"], "unknown flag: --nonsense"),
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
