#![allow(missing_docs, clippy::all, clippy::pedantic, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]
use std::time::{Duration};
use controller_runtime::*;
use k8s_openapi::api::core::v1::{PersistentVolume, ConfigMap};
use kube::{Api, api::*};
use serde_json::json;
struct P;
impl Projection for P {
    type Wire = PersistentVolume; type Key = String; type Record = u64; type Group = ();
    fn key(&self, o: &PersistentVolume) -> Option<String> { o.metadata.name.clone() }
    fn project(&self, o: PersistentVolume) -> Option<u64> { o.metadata.resource_version?.parse().ok() }
}
fn rss() -> String { std::fs::read_to_string("/proc/self/status").unwrap().lines().filter(|l| l.starts_with("VmRSS")||l.starts_with("VmHWM")||l.starts_with("RssAnon")).map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(", ") }
#[tokio::main(flavor="current_thread")]
async fn main() {
    tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_env_filter_off().init_it();
    let kc = kube::config::Kubeconfig::read_from(std::env::var("KC").unwrap()).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(kc, &Default::default()).await.unwrap();
    config.read_timeout = None;
    let client = kube::Client::try_from(config).unwrap();
    let api: Api<PersistentVolume> = Api::all(client.clone());
    let n: usize = std::env::var("N").unwrap().parse().unwrap();
    let have = api.list(&ListParams::default().limit(1)).await.unwrap();
    if have.items.is_empty() {
        for i in 0..n {
            let pv = serde_json::from_value(json!({"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":format!("pv-{i}")},"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"csi":{"driver":"x","volumeHandle":format!("h{i}")}}})).unwrap();
            api.create(&PostParams::default(), &pv).await.unwrap();
        }
    }
    println!("before {}", rss());
    let (inf, task) = Informer::new(api.clone(), P, None);
    let tasks = Tasks::new();
    tasks.spawn("informer", task.run());
    let t = tokio::time::Instant::now();
    inf.synced().await;
    println!("synced {} in {:?}; {}", inf.len(), t.elapsed(), rss());
    let t = tokio::time::Instant::now();
    inf.caught_up().await.unwrap();
    println!("caught up (fresh) in {:?} {inf:?}", t.elapsed());
    let cms: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let _ = cms.delete("probe", &Default::default()).await;
    cms.create(&PostParams::default(), &serde_json::from_value(json!({"metadata":{"name":"probe"}})).unwrap()).await.unwrap();
    let t = tokio::time::Instant::now();
    inf.caught_up().await.unwrap();
    println!("caught up (behind) in {:?} {inf:?} {}", t.elapsed(), rss());
    let name = "pv-0".to_string();
    let before = inf.get(&name);
    api.patch("pv-0", &PatchParams::default(), &Patch::Merge(json!({"metadata":{"labels":{"x":format!("{}", std::process::id())}}}))).await.unwrap();
    let t = tokio::time::Instant::now();
    while inf.get(&name) == before { tokio::time::sleep(Duration::from_millis(1)).await; assert!(t.elapsed() < Duration::from_secs(5)); }
    println!("event after {:?}", t.elapsed());
    let v0 = format!("{inf:?}");
    let t = tokio::time::Instant::now();
    while format!("{inf:?}") == v0 { tokio::time::sleep(Duration::from_millis(100)).await; if t.elapsed() > Duration::from_secs(150) { println!("no bookmark in 150 s"); break } }
    println!("bookmark after {:?} {inf:?}", t.elapsed());
    tasks.shutdown().await;
}
trait Ext { fn with_env_filter_off(self) -> Self; fn init_it(self); }
impl Ext for tracing_subscriber::fmt::SubscriberBuilder<tracing_subscriber::fmt::format::DefaultFields, tracing_subscriber::fmt::format::Format, tracing::level_filters::LevelFilter> { fn with_env_filter_off(self) -> Self { self } fn init_it(self) { use tracing_subscriber::prelude::*; let f = tracing_subscriber::filter::Targets::new().with_target("controller_runtime", tracing::Level::DEBUG); self.finish().with(f).init() } }
