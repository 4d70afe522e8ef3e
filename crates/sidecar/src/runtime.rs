//! The frame around a sidecar's own `run`: the runtime before it, the exit code after it.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::exit::Exit;
use crate::logging;

/// Runs a sidecar, given its command line, on one thread and turns its end into an exit code.
///
/// An end with code 0 or 2 prints its message as it is (`--help`, `--version` on standard output, usage on standard
/// error); any other is the last log line.
pub fn main<F, Fut>(run: F) -> ExitCode
where
    F: FnOnce(Vec<OsString>) -> Fut,
    Fut: Future<Output = Result<(), Exit>>,
{
    let result = match runtime() {
        Ok(runtime) => {
            let result = runtime.block_on(run(std::env::args_os().collect()));
            // A look-up that hangs must not keep a process that is done.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(Exit::fatal(format!("cannot start the runtime: {error}"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => {
            announce(&exit);
            ExitCode::from(exit.code)
        }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        // For name look-ups; each thread costs memory and goes soon after its work. Enough of them that look-ups which
        // hang do not hold up those of the lease's own client.
        .max_blocking_threads(16)
        .thread_keep_alive(Duration::from_secs(1))
        .build()
}

fn announce(exit: &Exit) {
    let text = exit.message.trim_end();
    // Standard output or error may be closed; the exit code still tells.
    let _ = match exit.code {
        _ if text.is_empty() && exit.code == 0 => Ok(()),
        0 => writeln!(std::io::stdout(), "{text}"),
        2 => writeln!(std::io::stderr(), "{text}"),
        _ => {
            logging::write_last_line(exit);
            Ok(())
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_that_of_the_end() {
        let code = |result: Result<(), Exit>| format!("{:?}", main(|_| async { result }));
        let want = |code: u8| format!("{:?}", ExitCode::from(code));
        assert_eq!(code(Ok(())), want(0));
        assert_eq!(code(Err(Exit::success(""))), want(0));
        assert_eq!(code(Err(Exit::error("a test's error"))), want(1));
        assert_eq!(code(Err(Exit::usage("a test's usage"))), want(2));
        assert_eq!(code(Err(Exit::fatal("a test's fatal"))), want(255));
    }
}
