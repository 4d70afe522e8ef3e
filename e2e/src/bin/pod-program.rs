//! What runs in the pods of the tests: reads and writes volumes. Compiled a second time on its own, static, for the image,
//! so that it may use nothing but the standard library.
//!
//! `pod-program STEP [then STEP...]` does one step after the other; the first that fails ends it with code 1. What steps
//! find goes to standard output and, as far as it fits, to the termination message of the pod.
//!
//! | step | |
//! |---|---|
//! | `pause` | does nothing until killed |
//! | `write PATH TEXT` | writes a file or the beginning of a block device, and syncs it |
//! | `append PATH TEXT` | adds to a file, and syncs it |
//! | `fill PATH MIB` | writes a file of that many MiB, waiting where there is no room for more |
//! | `read PATH` | tells what is in a file, or in a block device up to the first zero byte |
//! | `list DIR` | tells the names in a directory, sorted |
//! | `size PATH` | tells how many bytes a file or a block device has |
//! | `mount DIR` | tells file system type and options of what is mounted there |
//! | `await PATH` | waits until a file exists |
//! | `exit CODE` | ends |

use std::{
    fs::{self, File, OpenOptions},
    io::{Error, ErrorKind, Read as _, Result, Seek as _, SeekFrom, Write as _, stdout},
    path::Path,
    process::ExitCode,
    thread::{park, sleep},
    time::Duration,
};

const TERMINATION_MESSAGE: &str = "/dev/termination-log";
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// As much of a block device as may hold a text.
const BLOCK: usize = 64 << 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    for step in arguments.split(|argument| argument == "then") {
        let step: Vec<&str> = step.iter().map(String::as_str).collect();
        match run(&step) {
            Ok(None) => {}
            Ok(Some(code)) => return ExitCode::from(code),
            Err(error) => {
                tell(&format!("{}: {error}", step.join(" ")));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// One step; its exit code when it is the last.
fn run(step: &[&str]) -> Result<Option<u8>> {
    match *step {
        ["pause"] => loop {
            park();
        },
        ["write", path, text] => {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
        }
        ["append", path, text] => {
            let mut file = OpenOptions::new().append(true).create(true).open(path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
        }
        ["fill", path, mebibytes] => fill(path, mebibytes.parse().map_err(|_| Error::from(ErrorKind::InvalidInput))?)?,
        ["read", path] => tell(&read(path)?),
        ["list", path] => {
            let names = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            let mut names = names.collect::<Result<Vec<_>>>()?;
            names.sort();
            tell(&names.join(" "));
        }
        ["size", path] => tell(&File::open(path)?.seek(SeekFrom::End(0))?.to_string()),
        ["mount", path] => tell(&mounted(path)?),
        ["await", path] => {
            while !Path::new(path).exists() {
                sleep(BETWEEN_LOOKS);
            }
        }
        ["exit", code] => return code.parse().map(Some).map_err(|_| Error::from(ErrorKind::InvalidInput)),
        _ => return Err(Error::new(ErrorKind::InvalidInput, "no such step")),
    }
    Ok(None)
}

fn fill(path: &str, mebibytes: u64) -> Result<()> {
    const CHUNK: u64 = 1 << 20;
    let zeros = vec![0; usize::try_from(CHUNK).unwrap_or_default()];
    let mut file = File::create(path)?;
    let mut left = mebibytes << 20;
    while left > 0 {
        match file.write(zeros.get(..usize::try_from(left.min(CHUNK)).unwrap_or_default()).unwrap_or_default()) {
            Ok(written) => left -= u64::try_from(written).unwrap_or(left),
            Err(error) if error.kind() == ErrorKind::StorageFull => sleep(BETWEEN_LOOKS),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read(path: &str) -> Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(u64::try_from(BLOCK).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned())
}

/// The last one that is mounted there hides the others.
fn mounted(path: &str) -> Result<String> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = fields.rfind(|fields| fields.get(1) == Some(&path));
    let found = found.ok_or_else(|| Error::new(ErrorKind::NotFound, "nothing is mounted there"))?;
    Ok(found.get(2..4).unwrap_or_default().join(" "))
}

/// Failing to tell is no failure of the step.
fn tell(text: &str) {
    drop(writeln!(stdout(), "{text}"));
    if let Ok(mut message) = OpenOptions::new().append(true).open(TERMINATION_MESSAGE) {
        drop(writeln!(message, "{text}"));
    }
}
