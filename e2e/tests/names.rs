//! Files are named for what they hold, and stay small enough to be read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
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
