//! Where the driver listens.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::Error;

/// Bytes of a Unix socket path that fit the kernel's `sun_path` beside its closing NUL.
const LONGEST_PATH: usize = 107;

/// The Unix socket of a driver. `Display` is the `unix://` form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    path: PathBuf,
}

impl Address {
    /// Accepts `/absolute/path` and `unix:///absolute/path`, as the Go sidecars do when they watch for a lost connection.
    ///
    /// The file need not exist. Every other form is [`Error::Address`].
    pub fn parse(given: &str) -> Result<Self, Error> {
        let path = given.strip_prefix("unix://").unwrap_or(given);
        let problem = if given.is_empty() {
            "is empty"
        } else if given.contains('\0') {
            "contains a NUL byte"
        } else if path.len() > LONGEST_PATH {
            "is longer than the 107 bytes the kernel allows for the path of a socket"
        } else if path.starts_with('/') {
            return Ok(Self { path: PathBuf::from(path) });
        } else if given.starts_with("unix:") {
            "has no absolute path after \"unix://\""
        } else {
            "is not the absolute path of a Unix socket"
        };
        Err(Error::Address { given: given.to_owned(), problem })
    }

    /// As [`parse`](Self::parse), and also `unix:/absolute/path`: the Go programs on the node, which do not watch for a lost
    /// connection, take it.
    pub fn parse_on_node(given: &str) -> Result<Self, Error> {
        let path = given.strip_prefix("unix:").filter(|path| path.starts_with('/') && !path.starts_with("//"));
        Self::parse(path.unwrap_or(given))
    }

    /// The path of the socket file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self, Error> {
        Self::parse(given)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_path_and_its_unix_form_are_the_same_address() {
        for given in ["/run/csi/socket", "unix:///run/csi/socket"] {
            let address = Address::parse(given).unwrap();
            assert_eq!(address.path(), Path::new("/run/csi/socket"));
            assert_eq!(address.to_string(), "unix:///run/csi/socket");
        }
    }

    #[test]
    fn on_the_node_the_short_unix_form_is_an_address_too() {
        for given in ["/run/csi/socket", "unix:///run/csi/socket", "unix:/run/csi/socket"] {
            assert_eq!(Address::parse_on_node(given).unwrap().path(), Path::new("/run/csi/socket"));
        }
        for given in ["", "unix:csi.sock", "unix://csi.sock", "unix:", "dns:driver", "127.0.0.1:9000"] {
            let text = Address::parse_on_node(given).expect_err(given).to_string();
            assert!(text.contains(&format!("{given:?}")), "{given}: {text}");
        }
    }

    #[test]
    fn a_bad_address_is_named_together_with_the_cure() {
        let long = format!("/{}", "x".repeat(LONGEST_PATH));
        let bad = [
            ("", "is empty"),
            ("csi.sock", "is not the absolute path"),
            ("./csi.sock", "is not the absolute path"),
            ("unix:/run/csi/socket", "no absolute path after \"unix://\""),
            ("unix://csi.sock", "no absolute path after \"unix://\""),
            ("unix-abstract:csi", "is not the absolute path"),
            ("dns:///driver:9000", "is not the absolute path"),
            ("dns:driver", "is not the absolute path"),
            ("127.0.0.1:9000", "is not the absolute path"),
            ("tcp://127.0.0.1:9000", "is not the absolute path"),
            ("/run/csi\0/socket", "NUL"),
            (long.as_str(), "107 bytes"),
        ];
        for (given, problem) in bad {
            let text = Address::parse(given).expect_err(given).to_string();
            assert!(text.contains(problem), "{given}: {text}");
            assert!(text.contains(&format!("{given:?}")), "{given}: {text}");
            assert!(text.contains("/run/csi/socket or unix:///run/csi/socket"), "{given}: {text}");
        }
    }
}
