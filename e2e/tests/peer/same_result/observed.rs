//! One setup with one provisioner: everything it left behind, as JSON with the names of the run taken out.

mod sources;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use e2e::{Sidecar, audit, eventually};
use futures_util::future::try_join_all;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::scenarios::{Course, Scenario, Setup};
use crate::site::{PATIENCE, Side, Site, works};
use crate::stand_ins::replaced;

const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// A claim that is made last: what was written before it was asked for is there when it is done.
const FENCE: &str = "fence";

/// What is known of one claim when its scenario is over.
struct Life {
    claim: PersistentVolumeClaim,
    volume: Option<PersistentVolume>,
    /// What the driver has recorded of the volume when it is Bound.
    records: Vec<Value>,
    secrets: Vec<&'static str>,
}

/// By name of scenario, and one document more, `process`, for what belongs to none.
pub(super) async fn observe(setup: &Setup, side: Side) -> Result<BTreeMap<String, Value>> {
    let purpose = format!("{}-{}", setup.name, if side == Side::Go { "go" } else { "ours" });
    let site = Site::start_for(setup.driver_name, &purpose, setup.driver).await?;
    prepare(&site, setup).await?;
    let settings = site.settings(side).await?;
    let settings = setup.flags.iter().fold(settings, |settings, flag| settings.flag(flag));
    let mut provisioner = settings.start()?;
    works(&mut provisioner, side).await?;
    let names = sources::make(&site, &setup.sources).await.with_context(|| provisioner.process().tail())?;
    let lives = try_join_all(setup.scenarios.iter().map(|scenario| live(&site, &provisioner, scenario))).await;
    let lives = lives.with_context(|| provisioner.process().tail())?;
    fence(&site).await.with_context(|| provisioner.process().tail())?;
    let observations = Observations {
        events: events(&site).await?,
        requests: site.cluster.audit()?.into_iter().filter(|request| request.caller.0 == site.namespace).collect(),
        names,
        site,
    };
    let mut documents = BTreeMap::new();
    for (scenario, life) in setup.scenarios.iter().zip(&lives) {
        documents.insert(scenario.name.to_owned(), observations.document(life)?);
    }
    let mut process = observations.process(&lives);
    process["sources"] = sources::finalizers(&observations.site, &setup.sources).await?;
    documents.insert("process".to_owned(), process);
    Ok(documents)
}

async fn prepare(site: &Site, setup: &Setup) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(site.client.clone(), &site.namespace);
    for scenario in &setup.scenarios {
        if let Some(class) = &scenario.class {
            site.add_class(scenario.name, &at(site, class)).await?;
        }
        for name in scenario.secrets {
            let secret = json!({ "metadata": { "name": name }, "stringData": { "password": "canary" } });
            secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
        }
    }
    site.add_class(FENCE, &json!({})).await?;
    sources::prepare(site, &setup.sources).await?;
    for object in &setup.objects {
        site.cluster.create(&at(site, object)).await?;
    }
    site.cluster.grant(&site.account, setup.rules).await?;
    if setup.secrets_allowed {
        site.grant_secrets().await?;
    }
    Ok(())
}

/// Puts the names of this site into a text of a scenario.
fn at(site: &Site, value: &Value) -> Value {
    let text = value.to_string().replace("SITE", &site.namespace);
    serde_json::from_str(&text).unwrap_or_default()
}

async fn live(site: &Site, provisioner: &Sidecar, scenario: &Scenario) -> Result<Life> {
    let (name, secrets) = (scenario.name, scenario.secrets.to_vec());
    let course = async {
        site.claim(name, name, &at(site, &scenario.annotations), &at(site, &scenario.claim)).await?;
        if let Some(annotations) = &scenario.later {
            annotate(site, name, annotations).await?;
        }
        if let Some(annotations) = &scenario.moved {
            let is_taken_away = |claim: &PersistentVolumeClaim| !claim.annotations().contains_key(SELECTED_NODE);
            let what = "the selected node to be taken away";
            eventually::object(&site.claims(), name, what, PATIENCE, is_taken_away).await?;
            annotate(site, name, annotations).await?;
        }
        let claim = site.claims().get(name).await?;
        if scenario.course == Course::Refused {
            let class = site.class(name);
            let counter = "controller_persistentvolumeclaim_provision_failed_total";
            provisioner.metric(&format!("{counter}{{class=\"{class}\""), PATIENCE).await?;
            site.delete_claim(name).await?;
            eventually::gone(&site.claims(), name, PATIENCE).await?;
            return Ok(Life { claim, volume: None, records: Vec::new(), secrets });
        }
        let volume = site.bound(name).await?;
        let settled = |volume: &PersistentVolume| {
            let protected = volume.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
            // The volume of a plugin is marked by kube-controller-manager, in whatever order.
            let marked = is_csi(volume) || volume.annotations().contains_key(MIGRATED_TO);
            phase(volume) == Some("Bound") && protected == (scenario.course != Course::Kept) && marked
        };
        let volume = eventually::object(&site.volumes(), &volume, "the volume to settle", PATIENCE, settled).await?;
        let records = records_of(site, &volume.name_any())?;
        match scenario.course {
            Course::DeletedAfterClass => site.delete_class(name).await?,
            Course::DeletedBeforeClaim => {
                site.volumes().delete(&volume.name_any(), &DeleteParams::default()).await?;
            }
            _ => {}
        }
        site.delete_claim(name).await?;
        if scenario.course == Course::Kept {
            let released = |volume: &PersistentVolume| phase(volume) == Some("Released");
            eventually::object(&site.volumes(), &volume.name_any(), "Released", PATIENCE, released).await?;
        } else {
            eventually::gone(&site.volumes(), &volume.name_any(), PATIENCE).await?;
        }
        Ok(Life { claim, volume: Some(volume), records, secrets })
    };
    course.await.map_err(|error: anyhow::Error| error.context(format!("scenario {name} at {}", site.namespace)))
}

async fn annotate(site: &Site, name: &str, annotations: &Value) -> Result<()> {
    let patch = json!({ "metadata": { "annotations": at(site, annotations) } });
    site.claims().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

fn records_of(site: &Site, volume: &str) -> Result<Vec<Value>> {
    Ok(site.backend()?.into_iter().filter(|record| record["name"] == volume).collect())
}

/// What the driver calls the volume, also that of a plugin whose handles are the driver's.
fn handle(volume: &PersistentVolume) -> Option<String> {
    let spec = volume.spec.as_ref()?;
    let csi = spec.csi.as_ref().map(|source| &source.volume_handle);
    let ebs = spec.aws_elastic_block_store.as_ref().map(|source| &source.volume_id);
    let cinder = spec.cinder.as_ref().map(|source| &source.volume_id);
    let portworx = spec.portworx_volume.as_ref().map(|source| &source.volume_id);
    csi.or(ebs).or(cinder).or(portworx).cloned()
}

fn is_csi(volume: &PersistentVolume) -> bool {
    volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some())
}

fn phase(volume: &PersistentVolume) -> Option<&str> {
    volume.status.as_ref().and_then(|status| status.phase.as_deref())
}

/// Each provisioner writes its events one after the other, so when that of the fence is there, so are all before it.
async fn fence(site: &Site) -> Result<()> {
    site.claim(FENCE, FENCE, &json!({}), &json!({})).await?;
    eventually("the event of the fence in the audit log", PATIENCE, async || {
        let requests = site.cluster.audit()?;
        let told = requests.iter().any(|request| {
            request.caller.0 == site.namespace
                && request.body["involvedObject"]["name"] == FENCE
                && request.body["reason"] != "Provisioning"
        });
        Ok(told.then_some(()))
    })
    .await
}

/// The events about claims and volumes, those of other controllers left out.
async fn events(site: &Site) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for namespace in [site.namespace.as_str(), "default"] {
        let api: Api<Event> = Api::namespaced(site.client.clone(), namespace);
        events.extend(api.list(&ListParams::default()).await?.items);
    }
    let told_by = |event: &Event| event.source.as_ref().and_then(|source| source.component.clone()).unwrap_or_default();
    events.retain(|event| told_by(event).starts_with(site.driver.name()) || told_by(event) == "external-provisioner");
    Ok(events)
}

struct Observations {
    /// Of the sources.
    names: sources::StandIns,
    site: Site,
    events: Vec<Event>,
    requests: Vec<audit::Request>,
}

impl Observations {
    fn document(&self, life: &Life) -> Result<Value> {
        let calls = self.calls(life)?;
        let requests = self.requests_about(life);
        let document = json!({
            "volume": life.volume,
            "backend": { "bound": life.records, "afterwards": self.left(life)? },
            "calls": calls,
            "events": self.events_about(life),
            "requests": requests,
        });
        Ok(self.without_names(&document, Some(life)))
    }

    /// What the driver was asked: each distinct request, how often, and the codes it answered.
    fn calls(&self, life: &Life) -> Result<Value> {
        let Some(volume) = &life.volume else {
            return self.calls_where(|request| request["name"].as_str().is_some_and(|name| life.has_named(name)));
        };
        let handle = handle(volume);
        let name = volume.name_any();
        self.calls_where(|request| {
            request["name"] == name || request["volume_id"] == handle.clone().unwrap_or_default()
        })
    }

    fn calls_where(&self, about: impl Fn(&Value) -> bool) -> Result<Value> {
        let mut calls: BTreeMap<String, (Vec<Value>, Vec<String>, usize)> = BTreeMap::new();
        for call in self.site.driver.journal()?.into_iter().filter(|call| about(&call.request)) {
            let (requests, codes, count) = calls.entry(call.rpc).or_default();
            *count += 1;
            if !requests.contains(&call.request) {
                requests.push(call.request);
            }
            if codes.last() != Some(&call.code) {
                codes.push(call.code);
            }
        }
        let described = |(requests, codes, count)| json!({ "requests": requests, "codes": codes, "count": count });
        Ok(calls.into_iter().map(|(rpc, calls)| (rpc, described(calls))).collect())
    }

    fn left(&self, life: &Life) -> Result<Vec<Value>> {
        if let Some(volume) = &life.volume {
            return records_of(&self.site, &volume.name_any());
        }
        let mut left = self.site.backend()?;
        left.retain(|record| record["name"].as_str().is_some_and(|name| life.has_named(name)));
        Ok(left)
    }

    /// By kind, type and reason; within these by text.
    fn events_about(&self, life: &Life) -> Value {
        let mut told: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for event in &self.events {
            let object = event.involved_object.name.clone().unwrap_or_default();
            if !life.is(&object) {
                continue;
            }
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            let kind = text(&event.involved_object.kind);
            let key = format!("{kind} {} {}", text(&event.type_), text(&event.reason));
            let mut document = json!(event);
            // The rest of the name is the time.
            document["metadata"]["name"] = json!(event.name_any().strip_prefix(&object).map(|rest| rest.split_at(1).0));
            told.entry(key).or_default().push(document);
        }
        for events in told.values_mut() {
            events.sort_by_key(|event| event["message"].to_string());
        }
        json!(told)
    }

    /// By verb and resource: how often, and the codes answered.
    fn requests_about(&self, life: &Life) -> Value {
        counted(self.requests.iter().filter(|request| life.is_asked_about_in(request)))
    }

    /// The verbs of requests that are about none of the claims, without their number: it depends on the time.
    fn process(&self, lives: &[Life]) -> Value {
        let about_one = |request: &audit::Request| lives.iter().any(|life| life.is_asked_about_in(request));
        let about_fence = |request: &audit::Request| {
            request.resource == "events" || request.resource == "persistentvolumes" && !request.name.is_empty()
        };
        let rest = self.requests.iter().filter(|request| !about_one(request) && !about_fence(request));
        let asked: BTreeMap<String, BTreeSet<u16>> = rest.fold(BTreeMap::new(), |mut asked, request| {
            asked.entry(format!("{} {}", request.verb, request.resource)).or_default().insert(request.code);
            asked
        });
        self.without_names(&json!({ "requests": asked }), None)
    }

    fn without_names(&self, document: &Value, life: Option<&Life>) -> Value {
        let driver = (self.site.driver.name().to_owned(), "SITE.outrigger.dev".to_owned());
        let mut names = vec![driver, (self.site.namespace.clone(), "SITE".to_owned())];
        names.extend(self.names.iter().cloned());
        if let Some(life) = life {
            let uid = life.claim.uid().unwrap_or_default();
            let short: String = uid.chars().filter(|c| *c != '-').take(12).collect();
            names.extend([(uid, "CLAIM-UID".to_owned()), (short, "CLAIM-UID-12".to_owned())]);
            if let Some(volume) = &life.volume {
                names.extend([(volume.uid().unwrap_or_default(), "VOLUME-UID".to_owned())]);
                names.extend(handle(volume).map(|handle| (handle, "HANDLE".to_owned())));
            }
        }
        let names: Vec<_> = names.into_iter().filter(|(name, _)| !name.is_empty()).collect();
        replaced(document, &names)
    }
}

/// By verb and resource: how often, and the codes answered.
fn counted<'a>(requests: impl Iterator<Item = &'a audit::Request>) -> Value {
    let mut counted: BTreeMap<String, (usize, BTreeSet<u16>)> = BTreeMap::new();
    for request in requests {
        let (count, codes) = counted.entry(format!("{} {}", request.verb, request.resource)).or_default();
        *count += 1;
        codes.insert(request.code);
    }
    let described = |(count, codes)| json!({ "count": count, "codes": codes });
    counted.into_iter().map(|(key, counts)| (key, described(counts))).collect()
}

impl Life {
    /// Whether that is the name of its claim or volume.
    fn is(&self, name: &str) -> bool {
        name == self.claim.name_any() || self.volume.as_ref().is_some_and(|volume| name == volume.name_any())
    }

    /// Whether the driver's volume of that name is for its claim.
    fn has_named(&self, volume: &str) -> bool {
        self.claim.uid().is_some_and(|uid| volume.contains(&uid))
    }

    fn is_asked_about_in(&self, request: &audit::Request) -> bool {
        match request.resource.as_str() {
            "events" => {
                let involved = request.body["involvedObject"]["name"].as_str().unwrap_or_default();
                self.is(involved) || request.name.rsplit_once('.').is_some_and(|(object, _)| self.is(object))
            }
            "secrets" => self.secrets.contains(&request.name.as_str()),
            "persistentvolumes" | "persistentvolumeclaims" => self.is(&request.name),
            _ => false,
        }
    }
}
