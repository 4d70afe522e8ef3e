//! `--vmodule`: verbosity for single source files.

use std::str::FromStr;

use thiserror::Error;

/// Patterns of source files and the verbosity each gets: `http=5,kube*=9`.
///
/// A pattern is compared with the file's name without directory and `.rs`, or, when it contains a slash, with the
/// end of its path. `*` stands for any text, `?` for one character. The first pattern that fits counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vmodule(Vec<(String, u32)>);

/// An item of `--vmodule` that is not `pattern=N`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not a pattern=N; expected a list such as http=5,kube*=9, with * and ? as wildcards")]
pub struct MalformedPattern(String);

impl FromStr for Vmodule {
    type Err = MalformedPattern;

    fn from_str(text: &str) -> Result<Self, MalformedPattern> {
        text.split(',')
            .filter(|item| !item.is_empty())
            .map(|item| {
                let malformed = || MalformedPattern(item.to_owned());
                let (pattern, level) = item.split_once('=').ok_or_else(malformed)?;
                // Character classes would be taken for plain text; better refused than never matched.
                if pattern.is_empty() || pattern.contains(['[', ']', '\\']) {
                    return Err(malformed());
                }
                let level = level.parse().map_err(|_| malformed())?;
                Ok((pattern.to_owned(), level))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl Vmodule {
    /// The verbosity for a source file, when a pattern fits it.
    pub(super) fn level(&self, file: &str) -> Option<u32> {
        if self.0.is_empty() {
            return None;
        }
        let path = file.strip_suffix(".rs").unwrap_or(file);
        let name = path.rsplit('/').next().unwrap_or(path);
        self.0
            .iter()
            .find(|(pattern, _)| {
                if pattern.contains('/') {
                    path_ends(path).any(|end| fits(pattern.as_bytes(), end.as_bytes()))
                } else {
                    fits(pattern.as_bytes(), name.as_bytes())
                }
            })
            .map(|(_, level)| *level)
    }

    /// The highest verbosity any file can have.
    pub(super) fn highest(&self) -> u32 {
        self.0.iter().map(|(_, level)| *level).max().unwrap_or(0)
    }
}

/// `path` and every part of it that begins after a slash.
fn path_ends(path: &str) -> impl Iterator<Item = &str> {
    std::iter::once(path).chain(path.match_indices('/').map(|(at, _)| &path[at + 1..]))
}

fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => fits(rest, text) || text.split_first().is_some_and(|(_, tail)| fits(pattern, tail)),
        (Some((b'?', rest)), Some((_, tail))) => fits(rest, tail),
        (Some((a, rest)), Some((b, tail))) => a == b && fits(rest, tail),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_first_pattern_that_fits_a_file_counts() {
        let vmodule: Vmodule = "http=3,kube*=9,s?idecar=1,claim/work*=7,h*=2".parse().unwrap();
        let table = [
            ("crates/sidecar/src/http.rs", Some(3)),
            ("crates/x/src/https.rs", Some(2)),
            ("crates/x/src/kube_client.rs", Some(9)),
            ("crates/x/src/claim/worker.rs", Some(7)),
            ("crates/x/src/worker.rs", None),
            ("main.rs", None),
        ];
        for (file, want) in table {
            assert_eq!(vmodule.level(file), want, "{file}");
        }
        assert_eq!(vmodule.highest(), 9);
        assert_eq!(Vmodule::default().level("http.rs"), None);
    }

    #[test]
    fn an_item_without_pattern_or_number_is_malformed() {
        for text in ["http", "http=", "http=x", "=3", "http=-1", "h[a-z]=1"] {
            assert!(text.parse::<Vmodule>().is_err(), "{text}");
        }
        assert_eq!("".parse::<Vmodule>().unwrap(), Vmodule::default());
    }
}
