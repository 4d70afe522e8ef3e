//! One program of the control plane, which tests stop, pause and start again.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use rustix::process::Signal;

use crate::{
    eventually::eventually,
    kubeconfig,
    process::{self, Process, Program},
};

/// Ready takes about 3 s on an idle machine; several clusters may start on a busy one.
const TO_BE_READY: Duration = Duration::from_mins(2);

/// How a component shows that it serves.
#[derive(Debug)]
pub(super) enum Readiness {
    /// Whoever needs it waits.
    Immediate,
    /// `/readyz` says so to a client with this kubeconfig.
    Apiserver { kubeconfig: PathBuf },
}

/// A program of the control plane, running or not.
#[derive(Debug)]
pub struct Component {
    program: Program,
    readiness: Readiness,
    process: Option<Process>,
}

impl Component {
    pub(super) fn new(program: Program, readiness: Readiness) -> Self {
        Self { program, readiness, process: None }
    }

    /// Starts it and waits until it is ready. Does nothing when it runs.
    ///
    /// # Errors
    /// When it ends or is not ready in time, with the tail of its log.
    pub async fn start(&mut self) -> Result<()> {
        if self.process.is_none() {
            self.process = Some(self.program.start()?);
        }
        self.ready().await.with_context(|| self.tail())
    }

    /// Ends it in good order: TERM, then KILL.
    ///
    /// # Errors
    /// When not even that ends it.
    pub async fn stop(&mut self) -> Result<()> {
        process::stop(&mut self.process).await
    }

    /// Kills it.
    ///
    /// # Errors
    /// When that does not end it.
    pub async fn kill(&mut self) -> Result<()> {
        process::kill(&mut self.process).await
    }

    /// [`stop`](Self::stop), then [`start`](Self::start).
    ///
    /// # Errors
    /// As those.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.start().await
    }

    /// Freezes it: connections stay and nothing answers.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&mut self) -> Result<()> {
        self.running()?.signal(Signal::STOP)
    }

    /// Lets it go on after [`pause`](Self::pause).
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&mut self) -> Result<()> {
        self.running()?.signal(Signal::CONT)
    }

    /// Its process.
    ///
    /// # Errors
    /// When it does not run.
    pub fn running(&mut self) -> Result<&mut Process> {
        self.process.as_mut().ok_or_else(|| anyhow!("{} does not run", self.program.name))
    }

    /// The last lines of its log.
    pub fn tail(&self) -> String {
        self.process.as_ref().map_or_else(|| format!("{} does not run", self.program.name), Process::tail)
    }

    async fn ready(&mut self) -> Result<()> {
        let Readiness::Apiserver { kubeconfig } = &self.readiness else { return Ok(()) };
        let client = kubeconfig::client(kubeconfig).await?;
        let process = self.process.as_mut().context("it does not run")?;
        let ready = eventually("the API server to be ready", TO_BE_READY, async || {
            if let Some(code) = process.exit_code()? {
                return Ok(Some(Err(anyhow!("kube-apiserver ended with exit code {code}"))));
            }
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let answer = client.request_text(request).await?;
            Ok((answer == "ok").then_some(Ok(())))
        });
        ready.await.flatten()
    }
}
