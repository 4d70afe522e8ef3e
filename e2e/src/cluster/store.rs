//! What administrators do to the store behind the API server: they copy it, put the copy back, compact it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Cluster, control_plane::etcd_data};

const TO_FREEZE: Duration = Duration::from_secs(20);

/// A copy of etcd's data directory, removed when dropped.
#[derive(Debug)]
pub struct Backup(TempDir);

impl Cluster {
    /// Copies what etcd holds at one moment. It is frozen meanwhile, so that the copy is what would be left if it were killed
    /// then; its clients notice a delay and nothing else.
    ///
    /// # Errors
    /// When etcd does not run, or its files cannot be copied.
    pub async fn backup(&mut self) -> Result<Backup> {
        let backup = crate::temporary_directory("backup")?;
        self.etcd.pause()?;
        let copied = match self.etcd.running()?.frozen(TO_FREEZE).await {
            Ok(()) => copy(&etcd_data(self.directory()), &etcd_data(backup.path())),
            Err(error) => Err(error),
        };
        self.etcd.resume()?;
        copied.map(|()| Backup(backup))
    }

    /// Puts a copy back and nothing more: what was written since is gone, and resourceVersions that were given out are given out
    /// again. The programs of the control plane start anew, since they, too, would go on with what they remember; all other
    /// clients find their connections broken. Returns when the API server is ready.
    ///
    /// # Errors
    /// When a program does not end or start, or the files cannot be copied.
    pub async fn restore(&mut self, backup: &Backup) -> Result<()> {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.kill().await?;
        }
        self.controller_manager.kill().await?;
        self.apiserver.kill().await?;
        self.etcd.kill().await?;
        let data = etcd_data(self.directory());
        fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
        copy(&etcd_data(backup.0.path()), &data)?;
        self.etcd.start().await?;
        self.apiserver.start().await?;
        self.controller_manager.start().await?;
        match &mut self.scheduler {
            Some(scheduler) => scheduler.start().await,
            None => Ok(()),
        }
    }

    /// Has etcd forget all states but the present one, as the API server asks it to every five minutes. The API server starts
    /// anew, since it keeps states of its own.
    ///
    /// # Errors
    /// When etcd refuses, or the API server does not end or start.
    pub async fn compact(&mut self) -> Result<()> {
        let [store, ..] = &self.ports;
        let etcd = kube::Client::try_from(kube::Config::new(format!("http://{}", store.address()).parse()?))?;
        let ask = async |path: &str, question: Value| {
            let request = http::Request::post(path).body(question.to_string().into_bytes())?;
            etcd.request::<Value>(request).await.with_context(|| format!("etcd does not answer to {path}"))
        };
        // The key does not matter: the answer begins with the present revision.
        let present = ask("/v3/kv/range", json!({ "key": "Lw==" })).await?;
        let revision = present["header"]["revision"].clone();
        ask("/v3/kv/compaction", json!({ "revision": revision, "physical": true })).await?;
        self.apiserver.restart().await
    }
}

/// Copies a directory with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target: PathBuf = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("cannot copy {}", entry.path().display()))?;
        }
    }
    Ok(())
}
