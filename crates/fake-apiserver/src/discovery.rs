//! Which resources a group and version has: every one that is known, under `v1`, and what a test says otherwise.

use serde_json::{Value, json};

use crate::{
    FakeApiServer,
    resource::{self, Resource},
    route::Route,
    status::Status,
};

/// What a test has said of a resource of a group and version.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    resource: Resource,
    served: bool,
}

impl FakeApiServer {
    /// Has a resource appear in discovery, or takes it away with all of its paths, as a server of another release.
    pub fn serve(&self, group: &str, version: &str, plural: &str, served: bool) {
        let resource = Resource::new(group, version, plural);
        self.shared.state.lock().served.push(Served { resource, served });
    }
}

/// What a GET of `/apis/GROUP/VERSION` answers.
///
/// # Errors
/// 404 when there is no resource.
pub(crate) fn resources(said: &[Served], route: &Route) -> Result<Value, Status> {
    let Resource { group, version, .. } = &route.resource;
    let known = resource::known(group).filter(|_| version == "v1").map(|plural| Resource::new(group, "v1", plural));
    let told = said.iter().filter(|told| told.resource.group == *group && told.resource.version == *version);
    let mut all: Vec<Resource> = known.chain(told.map(|told| told.resource.clone())).collect();
    all.sort();
    all.dedup();
    all.retain(|resource| !is_absent(said, resource));
    if all.is_empty() {
        return Err(Status::no_such_path());
    }
    let resources = all.iter().map(|resource| {
        json!({ "name": resource.plural, "kind": resource.kind, "namespaced": resource.traits.namespaced, "verbs": ["get", "list"] })
    });
    Ok(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": route.resource.api_version(),
        "resources": resources.collect::<Vec<_>>(),
    }))
}

/// Whether a test has taken it away.
pub(crate) fn is_absent(said: &[Served], resource: &Resource) -> bool {
    let same = |told: &&Served| {
        told.resource.group == resource.group
            && told.resource.version == resource.version
            && told.resource.plural == resource.plural
    };
    said.iter().rev().find(same).is_some_and(|told| !told.served)
}
