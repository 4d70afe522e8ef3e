//! Files are named for what they hold, and stay small enough to be read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

/// Names that say nothing; a second one beside them would not be found missing.
const BANNED: &[&str] = &[
    "util", "utils", "common", "commons", "helper", "helpers", "misc", "shared", "types", "core", "base", "manager",
    "mod",
];
const MOST_LINES: usize = 600;

#[test]
fn no_file_or_directory_has_a_name_that_says_nothing() {
    let named: Vec<_> = sources()
        .into_iter()
        .filter(|path| path.file_stem().is_some_and(|stem| BANNED.contains(&stem.to_string_lossy().as_ref())))
        .collect();
    assert!(named.is_empty(), "name these for the noun they handle: {named:?}");
}

#[test]
fn no_source_file_is_too_long() {
    let long: Vec<_> = sources()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| (fs::read_to_string(&path).unwrap().lines().count(), path))
        .filter(|(lines, _)| *lines > MOST_LINES)
        .collect();
    assert!(long.is_empty(), "split these: {long:?}");
}

/// Files and directories of the repository that people write.
fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with('.') || name == "target" {
                continue;
            }
            if path.is_dir() {
                pending.push(path.clone());
            }
            found.push(path);
        }
    }
    found
}

/// Documents that say by which test a rule is pinned.
const TABLES_OF_TESTS: [&str; 3] = ["docs/provisioner-tables.md", "docs/resizer-tables.md", "docs/differences.md"];

#[test]
fn a_test_that_a_document_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let known: HashSet<String> = sources()
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .flat_map(|path| identifiers(&fs::read_to_string(path).unwrap()))
        .collect();
    let is_there = |name: &str| match name.strip_suffix('*') {
        Some(start) => known.iter().any(|word| word.starts_with(start)),
        None => known.contains(name),
    };
    for document in TABLES_OF_TESTS {
        let text = fs::read_to_string(root.join(document)).unwrap();
        let last_cells = text.lines().filter_map(|line| line.strip_suffix('|')?.rsplit('|').next());
        let named: Vec<_> = last_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        let named: Vec<_> = named.into_iter().filter(|word| is_name_of_test(word)).collect();
        assert!(named.len() > 25, "{document} names {} tests", named.len());
        let missing: Vec<_> = named.into_iter().filter(|name| !is_there(name)).collect();
        assert!(missing.is_empty(), "{document} names tests that are not there: {missing:#?}");
    }
}

/// Tests are named by sentences; what a user can write down has no four words.
fn is_name_of_test(word: &str) -> bool {
    let sentence = word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '*');
    sentence && (word.matches('_').count() >= 3 || word.ends_with("_*"))
}

/// Tests of a table are made by macros, so every identifier counts.
fn identifiers(source: &str) -> Vec<String> {
    source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').map(str::to_owned).collect()
}
