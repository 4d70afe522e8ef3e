//! The Go program of `tests/upstream/`, which says what the Go modules say. Needs `go`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// `FileDescriptorProto` of `csi.proto` and of kubelet's `api.proto`, encoded.
pub(crate) fn descriptors() -> [Vec<u8>; 2] {
    let files: Vec<_> = run("descriptors", String::new()).iter().map(|line| from_hex(line)).collect();
    files.try_into().expect("two files")
}

/// What csi-lib-utils logs for each of the messages, which are given by full name and encoded.
pub(crate) fn sanitize(messages: &[(String, Vec<u8>)]) -> Vec<String> {
    let mut input = String::new();
    for (name, encoded) in messages {
        writeln!(input, "{name} {}", to_hex(encoded)).unwrap();
    }
    run("sanitize", input)
}

fn run(command: &str, input: String) -> Vec<String> {
    let mut program = Command::new("go")
        .args(["run", ".", command])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream"))
        .env("GOWORK", "off")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cannot start `go`; these tests need a Go toolchain in PATH");
    let mut stdin = program.stdin.take().unwrap();
    // In a thread of its own, since the program answers while it reads. It fails only if the program ends early.
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = program.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`go run . {command}` in tests/upstream failed:\n{stderr}");
    writer.join().unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
