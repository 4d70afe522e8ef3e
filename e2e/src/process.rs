//! Processes that end with their owner.

use std::{
    ffi::OsString,
    fmt::Debug,
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{binary::bin, eventually::eventually, node::MountNamespace};

/// Longer than the time `supervise` gives a program between TERM and KILL.
const TO_STOP: Duration = Duration::from_secs(20);
const TAIL: usize = 25;

/// What to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name for messages.
    pub name: String,
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables added to our environment.
    pub environment: Vec<(String, OsString)>,
    /// File its output is appended to.
    pub log: PathBuf,
    /// Directory to remove when this process is killed; as long as it lives, it removes what it made itself.
    pub scratch: Option<PathBuf>,
    /// Mount namespace of a node to start in; it must be up then.
    pub mounts: Option<MountNamespace>,
}

impl Program {
    /// A program without arguments, that logs to `NAME.log` in a directory.
    pub fn new(name: &str, path: PathBuf, directory: &Path) -> Self {
        Self {
            name: name.to_owned(),
            path,
            arguments: Vec::new(),
            environment: Vec::new(),
            log: directory.join(format!("{name}.log")),
            scratch: Some(directory.to_owned()),
            mounts: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds several arguments.
    #[must_use]
    pub fn arguments<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Starts it through another program, which gets the path of this one before its arguments.
    #[must_use]
    pub fn through(mut self, launcher: &str) -> Self {
        let path = std::mem::replace(&mut self.path, launcher.into());
        self.arguments.insert(0, path.into());
        self
    }

    /// Starts it in the mount namespace of a node.
    #[must_use]
    pub fn in_mounts(mut self, mounts: &MountNamespace) -> Self {
        self.mounts = Some(mounts.clone());
        self
    }

    /// Starts it under supervision.
    ///
    /// # Errors
    /// When `supervise` is not built or the program cannot be started.
    pub fn start(&self) -> Result<Process> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.with_context(|| format!("cannot open the log {}", self.log.display()))?;
        let mut command = Command::new(bin("supervise")?);
        if let Some(scratch) = &self.scratch {
            command.arg("--remove").arg(scratch);
        }
        if let Some(mounts) = &self.mounts {
            // It becomes the program, so the process id is that of the program.
            let namespace = format!("--mount={}", mounts.path()?.display());
            command.arg("nsenter").arg(namespace).arg("--");
        }
        command.arg(&self.path).args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // Ctrl-C at the terminal is for the owner alone, whose end is noticed.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut supervisor = command.spawn().with_context(|| format!("cannot supervise {}", self.name))?;
        let mut line = String::new();
        if let Some(stdout) = supervisor.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let (name, log) = (self.name.clone(), self.log.clone());
        let mut process = Process { name, log, pid: 0, started_monotonic_nanos: 0, supervisor, quiet: false };
        let announced = line.trim().split_once(' ').and_then(|(pid, at)| Some((pid.parse().ok()?, at.parse().ok()?)));
        let Some((pid, at)) = announced else { bail!("{} did not start: {}", self.name, process.tail()) };
        process.pid = pid;
        process.started_monotonic_nanos = at;
        Ok(process)
    }
}

/// Ends what may run with [`Process::stop`].
pub(crate) async fn stop(process: &mut Option<Process>) -> Result<()> {
    match process.take() {
        Some(mut process) => process.stop().await.map(drop),
        None => Ok(()),
    }
}

/// Ends what may run with [`Process::kill`].
pub(crate) async fn kill(process: &mut Option<Process>) -> Result<()> {
    match process.take() {
        Some(mut process) => process.kill().await,
        None => Ok(()),
    }
}

/// A running program, killed and waited for when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    pid: i32,
    started_monotonic_nanos: i64,
    supervisor: Child,
    /// Ended on request: its log is not of interest when the test fails later.
    quiet: bool,
}

impl Process {
    /// Process id of the program itself, as a CSI driver sees its peer.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Nanoseconds on the monotonic clock of this boot, right before the program was started: comparable with a driver's
    /// journal.
    pub fn started_monotonic_nanos(&self) -> i64 {
        self.started_monotonic_nanos
    }

    /// Everything it has written, earlier runs with the same log included.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The last lines of the log under a title, for messages.
    pub fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.get(lines.len().saturating_sub(TAIL)..).unwrap_or_default();
        format!("last lines of {}:\n    {}", self.name, last.join("\n    "))
    }

    /// Its exit code when it has ended: 128 + N when signal N ended it.
    ///
    /// # Errors
    /// When the system will not say.
    pub fn exit_code(&mut self) -> Result<Option<i32>> {
        Ok(self.supervisor.try_wait()?.map(|status| status.code().unwrap_or(-1)))
    }

    /// Sends a signal to the program; `Signal::STOP` and `Signal::CONT` make it pause.
    ///
    /// # Errors
    /// When it has ended.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if let Some(code) = self.exit_code()? {
            bail!("{} has ended with exit code {code}; {}", self.name, self.tail());
        }
        let pid = Pid::from_raw(self.pid).context("no process id")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Waits until `Signal::STOP` has stopped all of its threads.
    ///
    /// # Errors
    /// When they have not stopped within `bound`.
    pub async fn frozen(&self, bound: Duration) -> Result<()> {
        let what = format!("all threads of {} to be stopped", self.name);
        let threads = PathBuf::from(format!("/proc/{}/task", self.pid));
        eventually(&what, bound, async || {
            for thread in fs::read_dir(&threads)? {
                let state = fs::read_to_string(thread?.path().join("stat"))?;
                // Behind the name, which is in parentheses and may have some itself.
                if !state.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T')) {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await
    }

    /// Waits for the end of the program and gives its exit code.
    ///
    /// # Errors
    /// When it runs longer than `bound`.
    pub async fn ended(&mut self, bound: Duration) -> Result<i32> {
        let what = format!("the end of {}", self.name);
        let ended = eventually(&what, bound, async || self.exit_code()).await;
        self.quiet = ended.is_ok();
        ended.with_context(|| self.tail())
    }

    /// Waits until the log holds a text.
    ///
    /// # Errors
    /// When it does not within `bound`, or the program ends before.
    pub async fn logged(&mut self, text: &str, bound: Duration) -> Result<()> {
        let what = format!("{text:?} in the log of {}", self.name);
        let logged = eventually(&what, bound, async || {
            if self.log().contains(text) {
                return Ok(Some(Ok(())));
            }
            Ok(self.exit_code()?.map(|code| Err(anyhow::anyhow!("{} ended with exit code {code}", self.name))))
        });
        logged.await.flatten().with_context(|| self.tail())
    }

    /// Ends it: TERM, and KILL when it does not obey. Gives its exit code.
    ///
    /// # Errors
    /// When not even that ends it.
    pub async fn stop(&mut self) -> Result<i32> {
        self.order(b't');
        self.ended(TO_STOP).await
    }

    /// Kills it.
    ///
    /// # Errors
    /// When that does not end it.
    pub async fn kill(&mut self) -> Result<()> {
        self.order(b'k');
        self.ended(TO_STOP).await.map(drop)
    }

    /// An order that comes too late is no error: the program has ended.
    fn order(&mut self, order: u8) {
        if let Some(orders) = &mut self.supervisor.stdin {
            drop(orders.write_all(&[order]));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.quiet {
            crate::say(&self.tail());
        }
        self.order(b'k');
        drop(self.supervisor.wait());
    }
}
