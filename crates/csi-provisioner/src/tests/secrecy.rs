//! No secret in a log line or an event, at any verbosity.

use std::io::Write;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::Event;
use parking_lot::Mutex;
use serde_json::json;
use tonic::Code;
use tracing::Dispatch;

use super::objects::{claim, class, secret};
use super::scene::Scene;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn i2_a_canary_secret_is_in_no_log_line_and_no_event() {
    // With a single subscriber in the process, a call site first reached by a thread without one is switched off for all.
    static SECOND: OnceLock<Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| Dispatch::new(tracing_subscriber::registry()));
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let scene = Scene::start().await;
    let parameters = json!({
        "csi.storage.k8s.io/secret-name": "key",
        "csi.storage.k8s.io/secret-namespace": "shop",
    });
    scene.add_class(class("fast", parameters));
    scene.add_secret(secret("shop", "key", "password", "Y2FuYXJ5LWluLWEtY29hbG1pbmU="));
    scene.driver.script(Rpc::CreateVolume, Step::work_then_fail(Code::DeadlineExceeded, "slow"));
    scene.driver.script(Rpc::CreateVolume, Step::fail(Code::InvalidArgument, "no"));
    let uid = scene.add_claim(claim("data", "fast"));
    let name = format!("pvc-{uid}");
    scene.volume(&name).await;
    scene.driver.script(Rpc::DeleteVolume, Step::fail(Code::Internal, "no"));
    scene.release(&name);
    scene.volume_gone(&name).await;
    scene.pass(Duration::from_secs(1)).await;
    let (api, driver) = scene.stop().await;

    let requests = driver.requests::<csi_proto::csi::v1::DeleteVolumeRequest>();
    assert_eq!(requests[0].secrets["password"], "canary-in-a-coalmine", "the driver does get it");
    let log = String::from_utf8(log.0.lock().clone()).unwrap();
    assert!(log.contains("***stripped***"), "calls are logged: {log}");
    let events = serde_json::to_string(&api.list::<Event>()).unwrap();
    for text in [log, events] {
        assert!(!text.contains("canary-in-a-coalmine"), "{text}");
    }
}
