//! What is counted, and where it can be read.

use csi_client::Code;
use fake_driver::{FakeDriver, Rpc, Step};
use livenessprobe::Program;

use crate::scene::{Scene, config, get};

fn families(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect()
}

fn counted(text: &str, driver: &str, method: &str, code: &str) -> Option<u64> {
    let series = format!(
        "csi_sidecar_operations_seconds_count{{driver_name=\"{driver}\",grpc_status_code=\"{code}\",method_name=\"{method}\"}} "
    );
    text.lines().find_map(|line| line.strip_prefix(&series)).map(|value| value.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn the_families_of_the_go_livenessprobe_are_beside_the_health() {
    let scene = Scene::ready(&["--http-endpoint=127.0.0.1:0"]).await;
    scene.driver.script(Rpc::Probe, Step::answer());
    scene.driver.script(Rpc::Probe, Step::fail(Code::Internal, "x"));
    for code in [200, 500, 200] {
        assert_eq!(scene.healthz().await.0, code);
    }
    let (code, text) = get(scene.health, "/metrics").await;
    assert_eq!(code, 200);
    assert_eq!(families(&text), ["csi_sidecar_operations_seconds histogram", "process_start_time_seconds gauge"]);
    let name = scene.driver.calls();
    assert_eq!(name[0].rpc, Rpc::GetPluginInfo);
    let driver = text
        .lines()
        .filter_map(|line| line.split_once("driver_name=\"")?.1.split_once('"'))
        .map(|(name, _)| name)
        .find(|name| *name != "unknown-driver")
        .expect("a probe under the driver's name");
    assert_eq!(counted(&text, "unknown-driver", "/csi.v1.Identity/GetPluginInfo", "OK"), Some(1));
    assert_eq!(counted(&text, driver, "/csi.v1.Identity/Probe", "OK"), Some(2));
    assert_eq!(counted(&text, driver, "/csi.v1.Identity/Probe", "Internal"), Some(1));
    assert_eq!(counted(&text, "unknown-driver", "/csi.v1.Identity/Probe", "OK"), None);
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dials_that_fail_are_not_counted() {
    let scene = Scene::with(FakeDriver::stopped(), &["--http-endpoint=127.0.0.1:0"]).await;
    assert_eq!(scene.healthz().await.0, 500);
    let text = get(scene.health, "/metrics").await.1;
    assert_eq!(families(&text), ["process_start_time_seconds gauge"]);
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_address_for_metrics_alone_has_no_health() {
    let scene = Scene::ready(&["--metrics-address=127.0.0.1:0", "--metrics-path=/m/"]).await;
    let metrics = scene.metrics.unwrap();
    for (path, code) in [("/m/", 200), ("/m/x", 200), ("/metrics", 404), ("/healthz", 404)] {
        assert_eq!(get(metrics, path).await.0, code, "{path}");
    }
    assert_eq!(get(scene.health, "/m/").await.0, 404);
    assert_eq!(scene.healthz().await.0, 200);
    let taken = format!("--metrics-address={metrics}");
    let exit = Program::bind(config(&["--health-port=0", &taken]).unwrap()).await.err().unwrap();
    assert_eq!(exit.code, 1, "{exit}");
    assert!(exit.message.contains(&metrics.to_string()), "{exit}");
    scene.end().await.unwrap();
}
