//! A backlog has a visible reason.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use fake_driver::{Rpc, Step};
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

use super::objects::{attachment_of, node, volume_named};
use super::scene::{Config, Scene, config};

/// Log lines as they come.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

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

/// Half an hour of waiting must not be silent.
#[tokio::test(start_paused = true)]
async fn d7_work_that_waits_for_long_is_told_once_a_minute() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let scene = Scene::with(Config { worker_threads: 1, ..config() }, |_| ()).await;
    scene.add_node(node("node1", "nodeID1"));
    scene.driver.script_always(Rpc::ControllerPublishVolume, || Step::answer().after(Duration::from_secs(14)));
    for number in 0..100 {
        let name = format!("va-{number}");
        scene.add_volume(volume_named(&name, &name));
        scene.add_attachment(attachment_of(&name, &name, "node1"));
    }
    let told = || {
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        text.lines().filter(|line| line.contains("waiting for long")).map(str::to_owned).collect::<Vec<_>>()
    };
    scene.pass(Duration::from_secs(29)).await;
    assert!(told().is_empty(), "{:?}", told());
    scene.pass(Duration::from_secs(16)).await;
    assert_eq!(told().len(), 1);
    let line = told().remove(0);
    assert!(line.contains("WARN") && line.contains("age=") && line.contains("depth="), "{line}");
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!(told().len(), 11, "once a minute");
    assert!(told().iter().any(|line| line.contains("csi-attacher-va")), "{:?}", told());
}
