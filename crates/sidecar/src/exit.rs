//! How a process ends: a code a supervisor understands and a last line a person understands.

use std::fmt;
use std::panic::Location;

/// The reason a sidecar ends, before it has become an exit code and a last line.
///
/// The codes are those of the Go sidecars, which scripts and alerts look at: 1 for an explicit error, 2 for a
/// command line that cannot be understood, 255 for a condition klog would call fatal.
#[derive(Debug, Clone)]
pub struct Exit {
    /// The process exit code.
    pub code: u8,
    /// What happened to which object, and the cure. Plain text, may be empty with code 0.
    pub message: String,
    at: &'static Location<'static>,
}

impl Exit {
    /// An error the process cannot go on with (code 1).
    #[track_caller]
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(1, message)
    }

    /// A command line that cannot be understood (code 2). Printed as it is, without a log header.
    #[track_caller]
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(2, message)
    }

    /// A condition of the kind klog ends a process for (code 255).
    #[track_caller]
    pub fn fatal(message: impl Into<String>) -> Self {
        Self::new(255, message)
    }

    /// The answer to `--help` and its like (code 0): `message` goes to standard output.
    #[track_caller]
    pub fn success(message: impl Into<String>) -> Self {
        Self::new(0, message)
    }

    /// The answer to `--version`: `<argv0> <version>`.
    #[track_caller]
    pub fn version(version: &str) -> Self {
        let program = std::env::args().next().unwrap_or_default();
        Self::new(0, format!("{program} {version}"))
    }

    /// Where in the source this exit was decided.
    pub(crate) fn location(&self) -> &'static Location<'static> {
        self.at
    }

    #[track_caller]
    fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), at: Location::caller() }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Exit {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_end_has_the_code_scripts_know() {
        assert_eq!(Exit::success("").code, 0);
        assert_eq!(Exit::error("x").code, 1);
        assert_eq!(Exit::usage("x").code, 2);
        assert_eq!(Exit::fatal("x").code, 255);
    }

    #[test]
    fn an_exit_remembers_where_it_was_decided() {
        assert!(Exit::error("x").location().file().ends_with("exit.rs"));
    }

    #[test]
    fn version_names_the_program_and_its_version() {
        let exit = Exit::version("1.2.3");
        assert_eq!(exit.code, 0);
        assert!(exit.message.ends_with(" 1.2.3"), "{}", exit.message);
    }
}
