//! The functions of a program, and which of them ran.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The functions of a program that was built with symbols.
pub struct Functions {
    by_address: Vec<Function>,
}

struct Function {
    address: u64,
    size: u64,
    name: String,
}

impl Functions {
    /// Reads them with `nm`.
    ///
    /// # Errors
    /// When that is not installed, or the program has no symbols.
    pub fn of(program: &Path) -> Result<Self> {
        let output = Command::new("nm").args(["--defined-only", "--format=posix"]).arg(program).output();
        let output = output.context("cannot run nm; install binutils")?;
        let mut by_address: Vec<_> = String::from_utf8(output.stdout)?.lines().filter_map(function).collect();
        ensure!(!by_address.is_empty(), "{} has no symbols", program.display());
        by_address.sort_by_key(|function| function.address);
        Ok(Self { by_address })
    }

    /// Names of those that ran, in the order of their first call, by the log that QEMU's user-mode emulator writes with
    /// `in_asm`: each piece of code when it is met for the first time, with its address at the beginning of each line.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn ran(&self, log: &Path) -> Result<Vec<&str>> {
        let file = File::open(log).with_context(|| format!("cannot open {}", log.display()))?;
        let (mut ran, mut known) = (Vec::new(), HashSet::new());
        let mut begins = false;
        for line in BufReader::new(file).lines() {
            let line = line?;
            let address = line.strip_prefix("0x").and_then(|line| line.split_once(':'));
            if let Some((address, _)) = address.filter(|_| begins) {
                let function = self.at(u64::from_str_radix(address, 16)?);
                ran.extend(function.filter(|name| known.insert(*name)));
            }
            begins = line.starts_with("IN:");
        }
        ensure!(!ran.is_empty(), "no function of the program ran, by {}", log.display());
        Ok(ran)
    }

    fn at(&self, address: u64) -> Option<&str> {
        let next = self.by_address.partition_point(|function| function.address <= address);
        let function = self.by_address.get(next.checked_sub(1)?)?;
        (address - function.address < function.size.max(1)).then_some(&function.name)
    }
}

/// `NAME TYPE ADDRESS SIZE`, and nothing when it is no function.
fn function(line: &str) -> Option<Function> {
    let mut words = line.split(' ');
    let (name, kind, address) = (words.next()?, words.next()?, words.next()?);
    let number = |word| u64::from_str_radix(word, 16).ok();
    let size = words.next().and_then(number).unwrap_or(0);
    let address = number(address).filter(|_| matches!(kind, "T" | "t" | "W" | "w"))?;
    Some(Function { address, size, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SYMBOLS: &str = "main T 1000 20\ndata D 1800 8\nnever t 1020 10\nhelper W 2000 8\n_start T 3000 ";
    const LOG: &str = "----------------\nIN: _start\n0x00003000:  c3  retq\n\n----------------\nIN: \n0x00001004:  48  a\n\
        0x00002000:  48  b\n\nIN: helper\n0x00002000:  48  b\nIN: main\n0x00001000:  48  c\nIN:\n0x00001804:  c3  d\n";

    #[test]
    fn functions_come_in_the_order_of_their_first_call() {
        let mut by_address: Vec<_> = SYMBOLS.lines().filter_map(function).collect();
        by_address.sort_by_key(|function| function.address);
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        std::fs::write(&log, LOG).unwrap();
        assert_eq!(Functions { by_address }.ran(&log).unwrap(), ["_start", "main", "helper"]);
    }
}
