#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::error::Error as _;
use std::io::{Read as _, Write as _};

use fake_apiserver::{FakeApiServer, Matcher, Reaction};
use futures_util::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{PostParams, WatchParams};
use kube::client::ClientBuilder;

use super::*;
use crate::{Backoff, Outcome, WorkQueue, WorkQueueMetrics, run_workers};
use tokio_util::sync::CancellationToken;

const TEN: Duration = Duration::from_secs(10);

fn secrets(server: &FakeApiServer) -> Api<Secret> {
    let client = ClientBuilder::new(server.service(), "default").with_layer(&Timeouts { limit: TEN }).build();
    Api::namespaced(client, "default")
}

fn is_timeout(error: &kube::Error) -> bool {
    let mut cause = error.source();
    while let Some(present) = cause {
        if present.is::<RequestTimeout>() {
            return true;
        }
        cause = present.source();
    }
    false
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_begin_in_time_is_an_error_that_names_the_request() {
    let server = FakeApiServer::new();
    server.react(Matcher::any(), Reaction::Hang);
    let start = Instant::now();
    let error = secrets(&server).get("s").await.unwrap_err();
    assert_eq!(start.elapsed(), TEN);
    assert!(is_timeout(&error), "{error:?}");
    assert!(error.to_string().contains("GET /api/v1/namespaces/default/secrets/s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_outlives_the_request_timeout_and_ends_when_its_connection_must_be_dead() {
    let server = FakeApiServer::new();
    let api = secrets(&server);
    let start = Instant::now();
    let events = api.watch(&WatchParams::default().timeout(60), "0").await.unwrap();
    pin_mut!(events);
    let end = events.next().await;
    assert!(end.is_none_or(|event| event.is_err()));
    assert!((60..=90).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_in_time_is_an_error() {
    use http_body_util::BodyExt as _;
    let never = tower::service_fn(|_: Request<Body>| async {
        let frames = futures_util::stream::pending::<Result<Frame<Bytes>, std::io::Error>>();
        Ok::<_, std::io::Error>(Response::new(http_body_util::StreamBody::new(frames).boxed_unsync()))
    });
    let client = ClientBuilder::new(never, "default").with_layer(&Timeouts { limit: TEN }).build();
    let start = Instant::now();
    let error = Api::<Secret>::namespaced(client, "default").get("s").await.unwrap_err();
    assert_eq!(start.elapsed(), TEN);
    assert!(is_timeout(&error), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_post_without_an_answer_ends_with_the_timeout_and_the_queue_makes_it_again() {
    for reaction in [Reaction::Hang, Reaction::HangAfterWrite] {
        let server = FakeApiServer::new();
        server.react(Matcher::of("create", "secrets").once(), reaction.clone());
        let secrets = secrets(&server);
        let metrics = WorkQueueMetrics::register(&prometheus::Registry::new()).unwrap();
        let queue = WorkQueue::new("secrets", Backoff { base: TEN / 10, max: TEN }, &metrics);
        let drain = CancellationToken::new();
        queue.add("s");
        let reconcile = |name: &'static str| {
            let secrets = secrets.clone();
            async move {
                let secret: Secret = serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap();
                match secrets.create(&PostParams::default(), &secret).await {
                    Ok(_) => Outcome::Done,
                    Err(kube::Error::Api(status)) if status.code == 409 => Outcome::Done,
                    Err(error) => {
                        assert!(is_timeout(&error), "{error}");
                        Outcome::Retry
                    }
                }
            }
        };
        let start = Instant::now();
        let retried = server.until("the second try", Duration::from_mins(1), |server| {
            (server.requests().len() == 2).then(|| start.elapsed())
        });
        let waited = tokio::select! {
            waited = retried => waited,
            () = run_workers(queue.clone(), 1, drain.clone(), reconcile) => panic!("not drained yet"),
        };
        assert_eq!(waited, TEN + TEN / 10, "the timeout, then the first backoff");
        drain.cancel();
        run_workers(queue, 1, drain, reconcile).await;
        assert_eq!(server.list::<Secret>().len(), 1, "{reaction:?}");
    }
}

#[test]
fn time_limits_of_bodies() {
    let table = [
        (None, Some(10)),
        (Some("limit=500"), Some(10)),
        (Some("watch=false"), Some(10)),
        (Some("fieldSelector=a%3Dwatch&watch=true&timeoutSeconds=290"), Some(320)),
        (Some("timeoutSeconds=5&watch=1"), Some(40)),
        (Some("watch=true"), None),
        (Some("watch=true&timeoutSeconds=soon"), None),
    ];
    for (query, expected) in table {
        assert_eq!(body_limit(query, TEN), expected.map(Duration::from_secs), "{query:?}");
    }
}

/// Answers 503 to the first request on each connection and reports what it was sent.
fn unavailable_server() -> (kube::Config, std::sync::mpsc::Receiver<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (heads, received) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(1) {
            let mut stream = stream.unwrap();
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).unwrap();
            heads.send(String::from_utf8_lossy(&head[..length]).into_owned()).unwrap();
            stream.write_all(b"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        }
    });
    (kube::Config::new(address.parse().unwrap()), received)
}

#[tokio::test]
async fn nothing_is_retried_behind_the_callers_back_and_the_agent_introduces_itself() {
    let (mut config, heads) = unavailable_server();
    set_user_agent(&mut config, "other/0").unwrap();
    set_user_agent(&mut config, "csi-provisioner/1 (outrigger)").unwrap();
    let api = Api::<Secret>::namespaced(client(&config, TEN).unwrap(), "default");
    let error = tokio::time::timeout(TEN, api.get("s")).await.unwrap().unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 503), "{error:?}");
    let head = heads.recv().unwrap().to_lowercase();
    assert!(head.contains("user-agent: csi-provisioner/1 (outrigger)\r\n") && !head.contains("other/0"), "{head}");
    assert!(heads.recv().is_err(), "one request");
}

#[test]
fn an_agent_that_is_no_header_is_named() {
    let mut config = kube::Config::new("http://localhost".parse().unwrap());
    let error = set_user_agent(&mut config, "a\nb").unwrap_err().to_string();
    assert!(error.contains("a\\nb"), "{error}");
}
