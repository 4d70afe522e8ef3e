#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::sync::Arc;

use parking_lot::Mutex;

use super::*;

/// Runs `events` with the given configuration and returns what was written, with line numbers as `N`.
fn written(config: Config, events: impl FnOnce()) -> String {
    let lines = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&lines);
    let output = Output {
        write: Box::new(move |line| sink.lock().push_str(line)),
        now: || Timestamp::from_microsecond(1_796_063_379_123_456).unwrap(),
        pid: 42,
    };
    tracing::subscriber::with_default(subscriber(config, output), events);
    let text = lines.lock().clone();
    text.lines().map(without_line_number).collect()
}

fn without_line_number(line: &str) -> String {
    let file = "tests.rs:";
    let Some(at) = line.find(file) else {
        return format!("{line}\n");
    };
    let (before, after) = line.split_at(at + file.len());
    format!("{before}N{}\n", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

fn config(format: Format, verbosity: u32) -> Config {
    Config { format, verbosity, vmodule: Vmodule::default() }
}

fn sample_events() {
    tracing::info!("Started");
    tracing::info!(driver = "a.b", volumes = 3, ready = true, "Driver \"ready\"");
    tracing::warn!(error = %"no such file", path = ?"/x", "Cannot read\nfile");
    tracing::error!(claim = %"ns/claim", err = %"boom", "Provisioning failed");
    tracing::debug!(part = 0.5, "Detail");
    tracing::trace!(request = "{\"name\":\"v\"}", "GRPC call");
    tracing::debug!(target: "hyper::proto", "noise");
}

#[test]
fn text_lines_are_those_of_klog() {
    assert_eq!(
        written(config(Format::Text, 5), sample_events),
        r#"I1130 18:29:39.123456      42 tests.rs:N] "Started"
I1130 18:29:39.123456      42 tests.rs:N] "Driver \"ready\"" driver="a.b" volumes=3 ready=true
W1130 18:29:39.123456      42 tests.rs:N] "Cannot read\nfile" err="no such file" path="\"/x\""
E1130 18:29:39.123456      42 tests.rs:N] "Provisioning failed" err="boom" claim="ns/claim"
I1130 18:29:39.123456      42 tests.rs:N] "Detail" part=0.5
I1130 18:29:39.123456      42 tests.rs:N] "GRPC call" request="{\"name\":\"v\"}"
"#
    );
}

#[test]
fn json_lines_have_the_keys_of_kubernetes() {
    assert_eq!(
        written(config(Format::Json, 5), sample_events),
        r#"{"ts":1796063379123.456,"caller":"sidecar/tests.rs:N","msg":"Started","v":0}
{"ts":1796063379123.456,"caller":"sidecar/tests.rs:N","msg":"Driver \"ready\"","v":0,"driver":"a.b","volumes":3,"ready":true}
{"ts":1796063379123.456,"caller":"sidecar/tests.rs:N","msg":"Cannot read\nfile","v":0,"err":"no such file","path":"\"/x\""}
{"ts":1796063379123.456,"caller":"sidecar/tests.rs:N","msg":"Provisioning failed","err":"boom","claim":"ns/claim"}
{"ts":1796063379123.456,"caller":"sidecar/tests.rs:N","msg":"Detail","v":2,"part":0.5}
{"ts":1796063379123.456,"caller":"sidecar/tests.rs:N","msg":"GRPC call","v":5,"request":"{\"name\":\"v\"}"}
"#
    );
}

#[test]
fn every_json_line_can_be_read_back() {
    let text = written(config(Format::Json, 9), || {
        sample_events();
        tracing::info!(not_a_number = f64::NAN, control = "\u{0}\u{1b}", "x");
    });
    for line in text.lines() {
        let line = line.replace("tests.rs:N", "tests.rs:1");
        serde_json::from_str::<serde_json::Value>(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
    }
}

#[test]
fn details_need_verbosity() {
    let count = |verbosity| written(config(Format::Text, verbosity), sample_events).lines().count();
    assert_eq!([0, 1, 2, 4, 5, 8].map(count), [4, 4, 5, 5, 6, 7]);
}

#[test]
fn vmodule_raises_single_files() {
    let count = |vmodule: &str| {
        let config = Config { vmodule: vmodule.parse().unwrap(), ..Config::default() };
        written(config, sample_events).lines().count()
    };
    assert_eq!(count("tests=5"), 6);
    assert_eq!(count("logging/tests=2"), 5);
    assert_eq!(count("other=5"), 4);
    // A file can be lowered, too, but never below what is always written.
    assert_eq!(count("tests=0"), 4);
}

#[test]
fn fields_of_spans_come_before_those_of_the_event() {
    let text = written(config(Format::Text, 0), || {
        let outer = tracing::info_span!("term", term = 7);
        let _outer = outer.enter();
        let inner = tracing::info_span!("claim", claim = "ns/a", node = tracing::field::Empty);
        let _inner = inner.enter();
        inner.record("node", "n1");
        tracing::info!(took = 2, "Done");
    });
    assert_eq!(text, "I1130 18:29:39.123456      42 tests.rs:N] \"Done\" term=7 claim=\"ns/a\" node=\"n1\" took=2\n");
}

#[test]
fn the_last_line_has_the_severity_of_the_exit_code() {
    let time = Timestamp::from_microsecond(1_796_063_379_000_001).unwrap();
    let line = |exit: &Exit, format| {
        let text = last_line(exit, format, time, 1);
        text.replace(&format!(":{}", exit.location().line()), ":N")
    };
    let fatal = Exit::fatal("unknown \"gate\"\nx");
    assert_eq!(line(&fatal, Format::Text), "F1130 18:29:39.000001       1 tests.rs:N] unknown \"gate\" x\n");
    assert_eq!(
        line(&Exit::error("no \"socket\""), Format::Text),
        "E1130 18:29:39.000001       1 tests.rs:N] \"no \\\"socket\\\"\"\n"
    );
    assert_eq!(
        line(&fatal, Format::Json),
        "{\"ts\":1796063379000.001,\"caller\":\"sidecar/tests.rs:N\",\"msg\":\"unknown \\\"gate\\\"\\nx\",\"v\":0}\n"
    );
}
