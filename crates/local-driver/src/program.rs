//! Programs of the system that do what cannot be done without `unsafe`.

use std::io;
use std::process::Command;

/// Why one of them did not do it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it; fields are what the messages name")]
pub enum ProgramError {
    #[error("{program} cannot be run ({source}): install {package}, in the image of the driver too")]
    Missing { program: String, package: &'static str, source: io::Error },
    #[error("{program}: {text}")]
    Failed { program: String, text: String },
}

impl ProgramError {
    /// Whether the privilege was missing, which they tell by text alone.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Failed { text, .. } if text.contains("ermission denied") || text.contains("not permitted"))
    }
}

/// Runs it to its end. `package` is the one of Debian that has it.
pub(crate) fn run(mut command: Command, package: &'static str) -> Result<(), ProgramError> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.env("LC_ALL", "C").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            Err(ProgramError::Failed { program, text: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
        }
        Err(source) => Err(ProgramError::Missing { program, package, source }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_missing_privilege_is_told_apart() {
        let failed =
            |text: &str| ProgramError::Failed { program: "losetup".to_owned(), text: text.to_owned() }.is_forbidden();
        assert!(failed("losetup: /dev/loop0: failed to set up loop device: Operation not permitted"));
        assert!(failed("losetup: cannot find an unused loop device: Permission denied"));
        assert!(!failed("losetup: cannot find an unused loop device: No such device"));
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let error = run(Command::new("/nowhere/mkfs.xfs"), "xfsprogs").unwrap_err();
        assert!(error.to_string().contains("mkfs.xfs") && error.to_string().contains("install xfsprogs"), "{error}");
        assert!(!error.is_forbidden());
    }
}
