//! Clients of every kind are answered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use csi_proto::pluginregistration::v1::PluginInfo;
use tonic::codegen::Bytes;

use super::raw_client::{Reply, call, exchange};
use super::scene::{ENDPOINT, Scene};

const GET_INFO: &str = "/pluginregistration.Registration/GetInfo";

fn encoded_info() -> Vec<u8> {
    let info = PluginInfo {
        r#type: "CSIPlugin".to_owned(),
        name: "fake.csi.example.com".to_owned(),
        endpoint: ENDPOINT.to_owned(),
        supported_versions: vec!["1.0.0".to_owned()],
    };
    let message = prost_bytes(&info);
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend(message);
    framed
}

/// The fields of `PluginInfo` on the wire: all are strings shorter than 128 bytes.
fn prost_bytes(info: &PluginInfo) -> Bytes {
    let fields = [(1, &info.r#type), (2, &info.name), (3, &info.endpoint), (4, &info.supported_versions[0])];
    let mut bytes = Vec::new();
    for (number, text) in fields {
        bytes.extend([number << 3 | 2, u8::try_from(text.len()).unwrap()]);
        bytes.extend(text.as_bytes());
    }
    bytes.into()
}

#[tokio::test]
async fn f9_every_authority_a_client_may_send_is_answered() {
    let scene = Scene::new().await;
    let running = scene.start();
    scene.kubelet().await;
    let raw = scene.socket().display().to_string();
    let encoded = raw.replace('/', "%2F");
    for authority in [Some(&*encoded), Some(&*raw), Some(""), None, Some("localhost")] {
        let reply = call(&scene.socket(), GET_INFO, authority).await;
        assert_eq!(reply, Reply::Answer { grpc_status: "0".to_owned(), data: encoded_info() }, "{authority:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_method_that_is_not_served_is_unimplemented() {
    let scene = Scene::new().await;
    let running = scene.start();
    scene.kubelet().await;
    for method in ["/pluginregistration.Registration/NoSuch", "/csi.v1.Identity/Probe"] {
        let reply = call(&scene.socket(), method, Some("%2Fx")).await;
        assert_eq!(reply, Reply::Answer { grpc_status: "12".to_owned(), data: Vec::new() }, "{method}");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_makes_no_sense_loses_its_connection_and_no_other() {
    let scene = Scene::new().await;
    let mut running = scene.start();
    let mut kubelet = scene.kubelet().await;
    let garbage: [&[u8]; 3] = [
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x02\x01\x05\x00\x00\x00\x01\xff\xff",
    ];
    for bytes in garbage {
        assert_eq!(exchange(&scene.socket(), bytes).await, Reply::Closed);
    }
    assert_eq!(kubelet.get_info().await.name, "fake.csi.example.com");
    assert!(running.is_running());
    running.stop().await;
}

#[tokio::test]
async fn more_connections_than_places_wait_and_are_served_later() {
    let scene = Scene::new().await;
    let running = scene.start();
    scene.socket_other_than(None).await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(tokio::net::UnixStream::connect(scene.socket()).await.unwrap());
    }
    let path = scene.socket();
    let waiting = call(&path, GET_INFO, None);
    tokio::pin!(waiting);
    let early = tokio::time::timeout(std::time::Duration::from_millis(100), waiting.as_mut()).await;
    assert!(early.is_err(), "all places are taken");
    drop(idle);
    assert!(matches!(waiting.await, Reply::Answer { .. }));
    running.stop().await;
}
