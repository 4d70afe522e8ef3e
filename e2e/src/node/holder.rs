//! The `hold-node` process of a node.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::Ipv4Addr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result};

use super::mount_namespace::MountNamespace;
use crate::binary::bin;

/// Holds the namespaces of a node. Dropping it takes away everything of the node, and waits for that.
#[derive(Debug)]
pub(super) struct Holder {
    process: Child,
    log: PathBuf,
    answers: BufReader<ChildStdout>,
    pub(super) address: Ipv4Addr,
    pub(super) mounts: MountNamespace,
    /// Process 1 of the process namespace, 0 while the node is down.
    pub(super) init: i32,
}

impl Holder {
    /// Starts it; the node is up then, without anything that runs in it.
    pub(super) fn start(directory: &Path, name: &str) -> Result<Self> {
        let log = directory.join("hold-node.log");
        let mut process = Command::new(bin("hold-node")?)
            .arg(directory)
            .arg(name)
            // Ctrl-C at the terminal is for the owner alone, whose end is noticed.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log)?)
            .spawn()
            .context("cannot start hold-node")?;
        let answers = BufReader::new(process.stdout.take().context("no output")?);
        let mounts = MountNamespace::default();
        let mut holder = Self { process, log, answers, address: Ipv4Addr::UNSPECIFIED, mounts, init: 0 };
        let started = holder.answer().and_then(|address| {
            holder.address = address.parse()?;
            holder.came_up()
        });
        started.with_context(|| holder.complaint())?;
        Ok(holder)
    }

    /// Kills everything in the node, and with it all mounts.
    pub(super) fn down(&mut self) -> Result<()> {
        self.mounts.held_by(0);
        self.init = 0;
        self.order(b'd')?;
        self.answer().map(drop)
    }

    pub(super) fn up(&mut self) -> Result<()> {
        self.order(b'u')?;
        self.came_up()
    }

    /// What it wrote, which it does only when something fails.
    fn complaint(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }

    fn came_up(&mut self) -> Result<()> {
        let line = self.answer()?;
        let (mounts, init) = line.split_once(' ').context("hold-node ended")?;
        self.mounts.held_by(mounts.parse()?);
        self.init = init.parse()?;
        Ok(())
    }

    fn order(&mut self, order: u8) -> Result<()> {
        let orders = self.process.stdin.as_mut().context("hold-node has no input")?;
        orders.write_all(&[order]).context("hold-node has ended")
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Without this order it would remove the directory as well, since nobody else would.
        drop(self.order(b'q'));
        drop(self.process.stdin.take());
        match self.process.wait() {
            Ok(status) if status.success() => {}
            _ => crate::say(&format!("cannot take everything of the node away: {}", self.complaint())),
        }
    }
}
