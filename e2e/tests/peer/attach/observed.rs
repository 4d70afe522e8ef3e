//! One setup with one attacher: everything it left behind, as JSON with the names of the run taken out.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use e2e::attach_scene::AttachScene;
use e2e::{Cluster, audit};
use futures_util::future::try_join_all;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::life::{FENCE, Life, fence, live, prepare, second};
use super::scenarios::{Course, Setup};
use crate::site::Side;
use crate::stand_ins::replaced;

const FINALIZER_AT: &str = "/metadata/finalizers/";

/// By name of scenario, and one document more, `process`, for what belongs to none.
pub(super) async fn observe(setup: &Setup, side: Side) -> Result<BTreeMap<String, Value>> {
    let cluster = Cluster::shared_with_audit().await?;
    let purpose = format!("{}-{}", setup.name, if side == Side::Go { "go" } else { "ours" });
    let scene = AttachScene::start(cluster, &purpose, setup.driver).await?;
    if setup.secrets_allowed {
        cluster.grant_secrets(&scene.account).await?;
    }
    for scenario in &setup.scenarios {
        prepare(&scene, scenario).await?;
    }
    scene.add_volume(FENCE, &json!({ "accessModes": ["ReadWriteMany"] }), &json!({})).await?;
    let settings = super::settings(&scene, side).await?;
    let mut attacher = setup.flags.iter().fold(settings, |settings, flag| settings.flag(flag)).start()?;
    super::works(&mut attacher, side).await?;
    // The Go attacher starts its work before its cache of nodes is filled.
    fence(&scene).await.with_context(|| attacher.process().tail())?;
    let lives = try_join_all(setup.scenarios.iter().map(|scenario| live(&scene, scenario))).await;
    let lives = lives.with_context(|| attacher.process().tail())?;
    fence(&scene).await.with_context(|| attacher.process().tail())?;
    let requests = cluster.audit()?.into_iter().filter(|request| request.caller.0 == scene.namespace).collect();
    let observations = Observations { scene, requests };
    let mut documents = BTreeMap::new();
    for life in &lives {
        documents.insert(life.scenario.name.to_owned(), observations.document(life)?);
    }
    documents.insert("process".to_owned(), observations.process(&lives));
    Ok(documents)
}

struct Observations {
    scene: AttachScene,
    requests: Vec<audit::Request>,
}

impl Observations {
    fn document(&self, life: &Life<'_>) -> Result<Value> {
        // The list of finalizers was another when the patch arrived: other controllers keep theirs there.
        let outrun =
            |request: &audit::Request| request.resource == "persistentvolumes" && [404, 422].contains(&request.code);
        let about = |request: &&audit::Request| life.is(&self.scene, &request.name) && !outrun(request);
        let requests = self.requests.iter().filter(about);
        let document = json!({
            "at most": life.scenario.calls,
            "seen": life.seen,
            "left at the driver": if life.handle.is_empty() { Vec::new() } else { self.scene.published_to(&life.handle)? },
            "calls": self.calls(life)?,
            "requests": self.counted(life, requests),
        });
        let document = self.without_names(&document, &life.handle);
        // Another controller takes its finalizer off at the same time.
        let certain = matches!(life.scenario.course, Course::VolumeFirst | Course::TwoNodes);
        Ok(if certain {
            document
        } else {
            replaced(&document, &[(format!("{FINALIZER_AT}1"), format!("{FINALIZER_AT}0"))])
        })
    }

    /// By verb, resource and object: how often, the codes answered, and each distinct body in its order.
    fn counted<'a>(&self, life: &Life<'_>, requests: impl Iterator<Item = &'a audit::Request>) -> Value {
        #[derive(Default)]
        struct Counted {
            count: usize,
            codes: BTreeSet<u16>,
            bodies: Vec<Value>,
        }
        let second = self.scene.name(&second(life.scenario.name));
        let mut counted: BTreeMap<String, Counted> = BTreeMap::new();
        for request in requests {
            let which = if request.name == second { "second " } else { "" };
            let of = counted.entry(format!("{} {which}{}", request.verb, request.resource)).or_default();
            of.count += 1;
            of.codes.insert(request.code);
            let body = without_times(&request.body);
            if !body.is_null() && !tells_nothing(&body) && !of.bodies.contains(&body) {
                of.bodies.push(body);
            }
        }
        let described = |of: Counted| json!({ "count": of.count, "codes": of.codes, "bodies": of.bodies });
        counted.into_iter().map(|(key, of)| (key, described(of))).collect()
    }

    /// What the driver was asked: each distinct request, how often, and the codes it answered.
    fn calls(&self, life: &Life<'_>) -> Result<Value> {
        let mut calls: BTreeMap<String, (Vec<Value>, Vec<String>, usize)> = BTreeMap::new();
        for call in self.scene.calls_about(&life.handle)? {
            let (requests, codes, count) = calls.entry(call.rpc).or_default();
            *count += 1;
            if !requests.contains(&call.request) {
                requests.push(call.request);
            }
            if codes.last() != Some(&call.code) {
                codes.push(call.code);
            }
        }
        // Two nodes are asked for at once.
        for (requests, ..) in calls.values_mut() {
            requests.sort_by_key(Value::to_string);
        }
        let described = |(requests, codes, count)| json!({ "requests": requests, "codes": codes, "count": count });
        Ok(calls.into_iter().map(|(rpc, calls)| (rpc, described(calls))).collect())
    }

    /// The verbs of requests that are about none of the scenarios, without their number: it depends on the time.
    fn process(&self, lives: &[Life<'_>]) -> Value {
        let fence = format!("{FENCE}-");
        let of_one = |request: &audit::Request| {
            request.name.starts_with(&fence)
                || request.name == self.scene.name(FENCE)
                || lives.iter().any(|life| life.is(&self.scene, &request.name))
        };
        let rest = self.requests.iter().filter(|request| !of_one(request));
        let asked: BTreeMap<String, BTreeSet<u16>> = rest.fold(BTreeMap::new(), |mut asked, request| {
            asked.entry(format!("{} {}", request.verb, request.resource)).or_default().insert(request.code);
            asked
        });
        self.without_names(&json!({ "requests": asked }), "")
    }

    fn without_names(&self, document: &Value, handle: &str) -> Value {
        let driver = self.scene.driver.name();
        let names = [
            (driver.to_owned(), "DRIVER"),
            (driver.replace('.', "-"), "DRIVER-WITH-DASHES"),
            (self.scene.namespace.clone(), "SITE"),
            (handle.to_owned(), "HANDLE"),
        ];
        let names: Vec<_> =
            names.into_iter().filter(|(name, _)| !name.is_empty()).map(|(name, to)| (name, to.to_owned())).collect();
        replaced(&without_times(document), &names)
    }
}

/// Patches without effect, or with nothing but a new time: that they come depends on the caches of the Go attacher.
fn tells_nothing(body: &Value) -> bool {
    let time = json!({ "time": "TIME" });
    [json!({}), json!({ "status": { "attachError": time } }), json!({ "status": { "detachError": time } })]
        .contains(body)
}

/// Times to the second in their form, as the API has them.
fn without_times(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() == 20 && text.ends_with('Z') && text.parse::<Timestamp>().is_ok() => {
            json!("TIME")
        }
        Value::Array(values) => values.iter().map(without_times).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), without_times(value))).collect(),
        other => other.clone(),
    }
}
