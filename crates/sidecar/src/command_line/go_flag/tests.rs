#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::ffi::OsString;

use super::super::probe::{Change, Probe, defaults};
use crate::exit::Exit;
use crate::parse_go_flags;

fn probe(words: &[&str]) -> Result<Probe, Exit> {
    let argv = ["/usr/bin/probe"].iter().chain(words);
    parse_go_flags(argv.map(|word| OsString::from(*word)))
}

#[test]
fn words_are_read_as_go_reads_them() {
    let table: &[(&[&str], Change)] = &[
        (&[], |_| {}),
        // One dash or two.
        (&["-csi-address=/a"], |p| p.csi_address = "/a".into()),
        (&["--csi-address=/a"], |p| p.csi_address = "/a".into()),
        (&["-csi-address", "/a"], |p| p.csi_address = "/a".into()),
        (&["--csi-address", "/a"], |p| p.csi_address = "/a".into()),
        (&["-csi-address="], |p| p.csi_address = String::new()),
        (&["-csi-address", ""], |p| p.csi_address = String::new()),
        (&["-csi-address=a=b"], |p| p.csi_address = "a=b".into()),
        // The next word is the value, whatever it looks like.
        (&["-csi-address", "-leader-election"], |p| p.csi_address = "-leader-election".into()),
        (&["-csi-address", "--", "-v=5"], |p| {
            p.csi_address = "--".into();
            p.verbosity = 5;
        }),
        (&["-timeout", "-1s"], |p| p.timeout = "-1s".parse().unwrap()),
        (&["-length", "-5"], |p| p.length = -5),
        (&["-worker-threads=0x10"], |p| p.worker_threads = 16),
        (&["-timeout=1s", "--timeout=2s"], |p| p.timeout = "2s".parse().unwrap()),
        (&["-label=a", "--label", "b"], |p| p.label = vec!["a".into(), "b".into()]),
        // Booleans take a value after = only.
        (&["-leader-election"], |p| p.leader_election = true),
        (&["--leader-election=T"], |p| p.leader_election = true),
        (&["-leader-election=1"], |p| p.leader_election = true),
        (&["-leader-election=False"], |_| {}),
        (&["-immediate-topology=f"], |p| p.immediate_topology = false),
        (&["-leader-election", "--leader-election=false"], |_| {}),
        (&["-automaxprocs"], |p| p.automaxprocs = Some(true)),
        (&["-automaxprocs=0"], |p| p.automaxprocs = Some(false)),
        // A name of one letter is no shorthand.
        (&["-v=5"], |p| p.verbosity = 5),
        (&["-v", "5"], |p| p.verbosity = 5),
        (&["--v=5"], |p| p.verbosity = 5),
        (&["--v", "5"], |p| p.verbosity = 5),
        // The first word that is no flag ends the flags, also one meant as the value of a boolean.
        (&["-leader-election", "false", "-v=5"], |p| p.leader_election = true),
        (&["-automaxprocs", "0", "-v=5"], |p| p.automaxprocs = Some(true)),
        (&["-v=1", "one", "-v=2", "--nonsense"], |p| p.verbosity = 1),
        (&["-v=1", "-", "-v=2", "--nonsense"], |p| p.verbosity = 1),
        (&["-v=1", "", "-v=2", "--help"], |p| p.verbosity = 1),
        (&["-v=1", "--", "-v=2", "--nonsense"], |p| p.verbosity = 1),
    ];
    assert_eq!(table.len(), 33);
    for (words, change) in table {
        let mut want = defaults();
        change(&mut want);
        let got = probe(words).unwrap_or_else(|exit| panic!("{words:?}: {exit}"));
        assert_eq!(got, want, "{words:?}");
    }
}

#[test]
fn what_go_refuses_ends_with_code_2_and_names_the_flag() {
    let table: &[(&[&str], &str)] = &[
        (&["-x"], "flag provided but not defined: -x"),
        (&["--nonsense"], "flag provided but not defined: -nonsense"),
        (&["--nonsense=1"], "flag provided but not defined: -nonsense"),
        (&["-v5"], "flag provided but not defined: -v5"),
        (&["--logtostderr"], "flag provided but not defined: -logtostderr"),
        (&["-master=x"], "flag provided but not defined: -master"),
        (&["-csi_address=/a"], "flag provided but not defined: -csi_address"),
        (&["---v=1"], "bad flag syntax: ---v=1"),
        (&["-=1"], "bad flag syntax: -=1"),
        (&["--=1"], "bad flag syntax: --=1"),
        (&["-csi-address"], "flag needs an argument: -csi-address"),
        (&["--v"], "flag needs an argument: -v"),
        (&["-timeout=10"], r#"invalid value "10" for flag -timeout: parse error; expected a number with a unit"#),
        (&["--timeout="], r#"invalid value "" for flag -timeout: parse error"#),
        (
            &["-worker-threads=-1"],
            r#"invalid value "-1" for flag -worker-threads: parse error; expected a whole number"#,
        ),
        (&["-worker-threads", "many"], r#"invalid value "many" for flag -worker-threads: parse error"#),
        (
            &["-length=9223372036854775808"],
            r#"invalid value "9223372036854775808" for flag -length: value out of range"#,
        ),
        (&["-leader-election=maybe"], r#"invalid boolean value "maybe" for -leader-election: parse error"#),
        (&["-leader-election="], r#"invalid boolean value "" for -leader-election: parse error"#),
        (&["-automaxprocs=x"], r#"invalid boolean value "x" for -automaxprocs: parse error"#),
        // The first of several mistakes is told.
        (&["-timeout=10", "--nonsense"], r#"invalid value "10" for flag -timeout"#),
        (&["-timeout=10", "-h"], r#"invalid value "10" for flag -timeout"#),
        (&["--nonsense", "-timeout=10"], "flag provided but not defined: -nonsense"),
    ];
    assert_eq!(table.len(), 23);
    for (words, want) in table {
        let exit = probe(words).expect_err(&format!("{words:?}"));
        assert_eq!(exit.code, 2, "{words:?}");
        assert!(exit.message.starts_with(want), "{words:?}: {exit}");
        assert!(exit.message.contains("Usage: probe [flags]"), "{exit}");
    }
}

#[test]
fn help_in_all_its_spellings_ends_with_code_0() {
    for words in [&["-h"] as &[_], &["--h"], &["-help"], &["--help"], &["--help=x"], &["-v=1", "-h", "--nonsense"]] {
        let exit = probe(words).unwrap_err();
        assert_eq!(exit.code, 0, "{words:?}");
        assert!(exit.message.contains("--csi-address"), "{exit}");
    }
}

#[cfg(unix)]
#[test]
fn a_word_that_is_no_text_is_refused_where_it_is_read() {
    use std::os::unix::ffi::OsStringExt as _;
    let word = || OsString::from_vec(b"-csi-address=\xff".to_vec());
    let exit = parse_go_flags::<Probe>([OsString::from("probe"), word()]).unwrap_err();
    assert_eq!(exit.code, 2);
    assert!(exit.message.starts_with("not valid UTF-8"), "{exit}");
    parse_go_flags::<Probe>([OsString::from("probe"), OsString::from("--"), word()]).unwrap();
}
