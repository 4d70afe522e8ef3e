//! Ports on loopback that no other cluster of this machine gets while they are held.

use std::{
    fs::File,
    hash::{BuildHasher as _, RandomState},
    net::{Ipv4Addr, TcpListener},
};

use anyhow::{Context as _, Result, bail};

use crate::programs;

/// Below the range the kernel takes ports of outgoing connections from, so that a port stays free while the process
/// that listens there restarts.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// A port that is ours until dropped. Nothing listens on it yet; a program outside the harness may still take it.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Claims a free port.
    ///
    /// # Errors
    /// When the cache directory cannot be written, or no port is free.
    pub fn claim() -> Result<Self> {
        let directory = programs::cache_directory()?.join("ports");
        std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        // The hasher of the standard library is seeded at random: tests start looking at different places.
        let start = RandomState::new().hash_one(std::process::id());
        for offset in 0..COUNT {
            let number = FIRST + u16::try_from((start.wrapping_add(u64::from(offset))) % u64::from(COUNT))?;
            let lock = File::create(directory.join(number.to_string()))?;
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        bail!("no free port from {FIRST} on");
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("{}:{}", Ipv4Addr::LOCALHOST, self.number)
    }
}
