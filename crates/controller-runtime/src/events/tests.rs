#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fake_apiserver::{FakeApiServer, Matcher, Reaction, Status};
use tokio::task::JoinSet;

use super::*;

const BOUND: Duration = Duration::from_mins(1);

struct Scene {
    server: FakeApiServer,
    recorder: EventRecorder,
    drain: CancellationToken,
    writer: JoinSet<()>,
}

fn scene() -> Scene {
    let server = FakeApiServer::new();
    let (recorder, writer) = EventRecorder::new(server.client(), "driver_host_1".into(), "node-1".into());
    let drain = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(writer.run(drain.clone()));
    Scene { server, recorder, drain, writer: tasks }
}

impl Scene {
    fn record(&self, message: &str) {
        self.recorder.record(&claim(), EventKind::Warning, "ProvisioningFailed", message.to_owned());
    }

    async fn requests(&self, count: usize) -> Vec<String> {
        let seen = |server: &FakeApiServer| (server.requests().len() >= count).then_some(());
        self.server.until("the writes", BOUND, seen).await;
        self.server.requests().iter().map(|request| request.verb.to_owned()).collect()
    }

    /// Ends the writer; everything it was given is done then.
    async fn finish(mut self) -> FakeApiServer {
        self.drain.cancel();
        tokio::time::timeout(BOUND, self.writer.join_next()).await.expect("the writer ends").unwrap().unwrap();
        self.server
    }
}

fn claim() -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("PersistentVolumeClaim".into()),
        namespace: Some("ns".into()),
        name: Some("claim".into()),
        uid: Some("u-1".into()),
        ..ObjectReference::default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_has_the_fields_upstreams_have() {
    let scene = scene();
    scene.record("no space");
    let server = scene.finish().await;
    let event = server.list::<Event>().remove(0);
    let name = event.metadata.name.clone().unwrap();
    let nanos = name.strip_prefix("claim.").expect("object name first");
    assert!(u64::from_str_radix(nanos, 16).is_ok(), "{name}");
    assert_eq!(event.metadata.namespace.as_deref(), Some("ns"));
    assert_eq!(event.involved_object, claim());
    assert_eq!((event.type_.as_deref(), event.reason.as_deref()), (Some("Warning"), Some("ProvisioningFailed")));
    assert_eq!(event.message.as_deref(), Some("no space"));
    assert_eq!(event.count, Some(1));
    assert!(event.first_timestamp.is_some() && event.first_timestamp == event.last_timestamp);
    let source = event.source.unwrap();
    assert_eq!((source.component.as_deref(), source.host.as_deref()), (Some("driver_host_1"), Some("node-1")));
    assert_eq!(event.reporting_component.as_deref(), Some("driver_host_1"));
    assert_eq!(event.reporting_instance.as_deref(), Some("node-1"));
    assert!(event.event_time.is_none() && event.series.is_none() && event.action.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_event_about_a_volume_lives_in_default() {
    let scene = scene();
    let volume = ObjectReference { kind: Some("PersistentVolume".into()), namespace: None, ..claim() };
    scene.recorder.record(&volume, EventKind::Warning, "VolumeFailedDelete", "busy".into());
    let server = scene.finish().await;
    assert_eq!(server.list::<Event>()[0].metadata.namespace.as_deref(), Some("default"));
}

#[tokio::test(start_paused = true)]
async fn identical_events_raise_the_count_of_the_first() {
    let scene = scene();
    for _ in 0..3 {
        scene.record("no space");
    }
    scene.record("another");
    let verbs = scene.requests(4).await;
    assert_eq!(verbs, ["create", "patch", "patch", "create"]);
    let server = scene.finish().await;
    let counts: Vec<_> = server.list::<Event>().into_iter().map(|event| (event.message, event.count)).collect();
    assert!(counts.contains(&(Some("no space".into()), Some(3))), "{counts:?}");
    assert!(counts.contains(&(Some("another".into()), Some(1))), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_repeat_of_an_event_that_is_gone_creates_it_again_with_its_count() {
    let scene = scene();
    scene.record("no space");
    scene.requests(1).await;
    let name = scene.server.list::<Event>()[0].metadata.name.clone().unwrap();
    scene.server.remove::<Event>("ns", &name);
    scene.record("no space");
    assert_eq!(scene.requests(3).await, ["create", "patch", "create"]);
    let server = scene.finish().await;
    assert_eq!(server.list::<Event>()[0].count, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_may_pass_later_is_tried_three_times_and_a_refusal_once() {
    let table = [
        (Reaction::Refuse(Status::internal_error("etcd")), 3),
        (Reaction::Refuse(Status::too_many_requests(1)), 3),
        (Reaction::BreakConnection, 3),
        (Reaction::Refuse(Status::forbidden("no")), 1),
        (Reaction::Refuse(Status::new(404, "NotFound", "namespaces \"ns\" not found")), 1),
    ];
    for (reaction, tries) in table {
        let scene = scene();
        scene.server.react(Matcher::of("create", "events"), reaction.clone());
        scene.record("lost");
        scene.requests(tries).await;
        tokio::time::sleep(BOUND).await;
        scene.server.clear_reactions();
        scene.record("written");
        let server = scene.finish().await;
        assert_eq!(server.requests().len(), tries + 1, "{reaction:?}");
        assert_eq!(server.list::<Event>()[0].message.as_deref(), Some("written"), "{reaction:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_does_not_make_a_second_event() {
    let scene = scene();
    scene.server.react(Matcher::of("create", "events").once(), Reaction::LoseAnswer);
    scene.record("once");
    scene.requests(2).await;
    scene.record("once");
    let server = scene.finish().await;
    let events = server.list::<Event>();
    assert_eq!((events.len(), events[0].count), (1, Some(2)));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_different_texts_about_one_object_becomes_a_few_writes() {
    let scene = scene();
    for number in 0..100 {
        scene.record(&format!("failed {number}"));
    }
    scene.requests(25).await;
    let server = scene.finish().await;
    let verbs: Vec<_> = server.requests().iter().map(|request| request.verb).collect();
    assert_eq!(verbs.iter().filter(|verb| **verb == "create").count(), 10);
    assert_eq!(verbs.iter().filter(|verb| **verb == "patch").count(), 15);
    let events = server.list::<Event>();
    let shared = events.iter().find(|event| event.count == Some(16)).expect("the shared event");
    assert_eq!(shared.message.as_deref(), Some("(combined from similar events): failed 24"));
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_first_write_was_refused_is_created_with_its_count() {
    let scene = scene();
    scene.server.react(Matcher::of("create", "events").once(), Reaction::Refuse(Status::forbidden("not yet")));
    scene.record("no space");
    scene.requests(1).await;
    scene.record("no space");
    assert_eq!(scene.requests(3).await, ["create", "patch", "create"]);
    let server = scene.finish().await;
    assert_eq!(server.list::<Event>()[0].count, Some(2));
}

#[tokio::test(start_paused = true)]
async fn an_idle_writer_forgets_and_sleeps() {
    let server = FakeApiServer::new();
    let (recorder, mut writer) = EventRecorder::new(server.client(), "driver".into(), String::new());
    recorder.record(&claim(), EventKind::Warning, "ProvisioningFailed", "no space".into());
    let drain = CancellationToken::new();
    let idle = tokio::time::timeout(Duration::from_hours(3), writer.write_all(&drain)).await;
    assert!(idle.is_err());
    assert_eq!(server.list::<Event>().len(), 1);
    assert!(writer.correlator.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts_and_never_blocks() {
    let scene = scene();
    scene.server.react(Matcher::any(), Reaction::Hang);
    for number in 0..QUEUE + 25 {
        scene.record(&number.to_string());
    }
    assert_eq!(scene.recorder.dropped(), 25);
    assert!(*scene.recorder.overflow.logged.lock());
    let start = tokio::time::Instant::now();
    scene.finish().await;
    assert_eq!(start.elapsed(), DRAIN, "the end does not wait for a dead server");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_burst_is_logged_anew() {
    let scene = scene();
    for number in 0..=QUEUE {
        let about = ObjectReference { name: Some(format!("claim-{number}")), ..claim() };
        scene.recorder.record(&about, EventKind::Warning, "ProvisioningFailed", "no space".into());
    }
    let overflow = scene.recorder.overflow.clone();
    let server = scene.finish().await;
    assert_eq!(server.list::<Event>().len(), QUEUE, "all that was queued");
    assert!(!*overflow.logged.lock());
}

#[tokio::test(start_paused = true)]
async fn a_long_message_is_cut() {
    let scene = scene();
    scene.record(&"ä".repeat(2000));
    let server = scene.finish().await;
    assert_eq!(server.list::<Event>()[0].message.as_ref().unwrap().len(), 1024);
}

#[tokio::test(start_paused = true)]
async fn the_writer_ends_with_its_last_recorder() {
    let Scene { recorder, mut writer, server, .. } = scene();
    recorder.record(&claim(), EventKind::Normal, "Provisioned", "done".into());
    drop(recorder);
    tokio::time::timeout(BOUND, writer.join_next()).await.expect("ends").unwrap().unwrap();
    assert_eq!(server.list::<Event>().len(), 1);
}
