//! Runs one program and ends it with its owner.
//!
//! `supervise [--remove DIR] PROGRAM [ARGUMENT...]` prints the process id of the program on standard output, and the
//! nanoseconds on the monotonic clock right before it was started. It obeys standard input: `t` ends the program (TERM, then KILL), `k` kills it, and the end of input means that the owner is
//! gone: the program is ended and DIR removed, since nobody else will. Output of the program goes to our standard
//! error. The exit code is the program's, 128 + N when signal N ended it, 127 when it could not be started.

use std::{
    ffi::OsString,
    os::{fd::AsFd as _, unix::process::ExitStatusExt as _},
    process::{ExitCode, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use rustix::{
    process::{Pid, Signal, kill_process},
    time::{ClockId, Timespec, clock_gettime},
};
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe,
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep_until},
};

/// How long a program gets between TERM and KILL.
const GRACE: Duration = Duration::from_secs(10);
/// The same when nobody waits for it any more.
const ORPHAN_GRACE: Duration = Duration::from_secs(2);
const NOT_STARTED: u8 = 127;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(std::env::args_os().skip(1).collect()).await {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the log of the program is the only place to say it")]
            {
                eprintln!("supervise: {error:#}");
            }
            ExitCode::from(NOT_STARTED)
        }
    }
}

async fn run(mut arguments: Vec<OsString>) -> Result<u8> {
    let mut leftovers = None;
    if arguments.first().is_some_and(|first| first == "--remove") {
        leftovers = arguments.drain(..2.min(arguments.len())).nth(1);
    }
    let Some((program, arguments)) = arguments.split_first() else { bail!("no program given") };
    let mut orders = pipe::Receiver::from_owned_fd(std::io::stdin().as_fd().try_clone_to_owned()?)
        .context("standard input must be a pipe")?;
    let log = || std::io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    let starting = clock_gettime(ClockId::Monotonic);
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log()?)
        .stderr(log()?)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    announce(&child, starting)?;
    let (status, orphaned) = supervise(&mut child, &mut orders).await?;
    if let (true, Some(directory)) = (orphaned, leftovers) {
        // Others of the same owner may still write there; whoever is last succeeds.
        drop(std::fs::remove_dir_all(directory));
    }
    Ok(exit_code(status))
}

/// The owner reads this line to know the program's id, and when it was started.
#[expect(clippy::print_stdout, reason = "the line is the protocol")]
fn announce(child: &Child, started: Timespec) -> Result<()> {
    let nanos = started.tv_sec * 1_000_000_000 + started.tv_nsec;
    println!("{} {nanos}", child.id().context("the program ended at once")?);
    Ok(())
}

/// Waits for the end of the program, ordered or not; true when the owner went away before.
async fn supervise(child: &mut Child, orders: &mut pipe::Receiver) -> Result<(ExitStatus, bool)> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut kill_at: Option<Instant> = None;
    let mut orphaned = false;
    // An owner that has it killed waits with the pipe closed.
    let mut killed = false;
    let mut order = [0_u8; 1];
    loop {
        let patience = kill_at.unwrap_or_else(|| Instant::now() + GRACE);
        tokio::select! {
            status = child.wait() => return Ok((status?, orphaned)),
            read = orders.read(&mut order), if !orphaned && !killed => match (read, order) {
                (Ok(1), [b'k']) => {
                    killed = true;
                    child.start_kill()?;
                }
                (Ok(1), [b't']) => kill_at = Some(end(child, GRACE)),
                (Ok(1), _) => {}
                (Ok(_) | Err(_), _) => {
                    orphaned = true;
                    kill_at = Some(end(child, ORPHAN_GRACE));
                }
            },
            _ = terminate.recv() => kill_at = Some(end(child, GRACE)),
            _ = interrupt.recv() => kill_at = Some(end(child, GRACE)),
            () = sleep_until(patience), if kill_at.is_some() => {
                kill_at = None;
                child.start_kill()?;
            }
        }
    }
}

/// Asks the program to end; says when to stop being patient. A stopped program is woken, else it could not obey.
fn end(child: &Child, grace: Duration) -> Instant {
    if let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
        let _ = kill_process(pid, Signal::CONT);
    }
    Instant::now() + grace
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
