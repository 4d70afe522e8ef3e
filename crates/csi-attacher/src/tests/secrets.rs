//! Secrets are for the driver alone.

use std::io::Write;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fake_driver::{Rpc, Step};
use parking_lot::Mutex;
use serde_json::json;
use tonic::Code;
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Level};
use tracing_subscriber::fmt::MakeWriter;

use super::objects::{attachment, node, secret, volume, with};
use super::scene::{Scene, config};

/// Log lines as they come.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Everything up to this level that this thread logs while the guard is there.
    pub(super) fn capture(level: Level) -> (Self, DefaultGuard) {
        // With a single subscriber in the process, a call site first reached by a thread without one is switched off for all.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(tracing_subscriber::registry()));
        let lines = Self::default();
        let subscriber = tracing_subscriber::fmt().with_max_level(level).with_writer(lines.clone()).with_ansi(false);
        (lines, tracing::subscriber::set_default(subscriber.finish()))
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// At the most talkative level, over calls that fail and calls that succeed.
#[tokio::test(start_paused = true)]
async fn no_secret_is_in_a_log_line_a_status_or_a_write() {
    let (lines, _guard) = Lines::capture(Level::TRACE);
    let scene = Scene::with(config(), |_| ()).await;
    let reference = json!({ "controllerPublishSecretRef": { "namespace": "default", "name": "secret" } });
    scene.add_secret(secret("secret", json!({ "password": "aHVudGVyMg==" })));
    scene.add_volume(with(volume(), json!({ "spec": { "csi": reference } })));
    scene.add_node(node("node1", "nodeID1"));
    for rpc in [Rpc::ControllerPublishVolume, Rpc::ControllerUnpublishVolume] {
        scene.driver.script(rpc, Step::fail(Code::Internal, "no"));
    }
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.published()[0].secrets["password"], "hunter2");
    assert_eq!(scene.unpublished()[0].secrets["password"], "hunter2");
    let text = lines.text();
    assert!(text.contains("ControllerPublishVolume"), "the calls are in the log: {text}");
    for hidden in ["hunter2", "aHVudGVyMg"] {
        assert!(!text.contains(hidden), "{text}");
        let written = scene.api.requests().iter().any(|request| request.body.to_string().contains(hidden));
        assert!(!written);
    }
}
