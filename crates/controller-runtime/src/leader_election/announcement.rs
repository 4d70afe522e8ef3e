//! The `LeaderElection` events on the Lease.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::api::PostParams;
use kube::{Api, Client, Resource as _};

use super::lock::LeaseLock;
use crate::events::{EventKind, Source, new_event};

/// How long an announcement may hold up its process.
const LIMIT: Duration = Duration::from_secs(1);

/// Says on the Lease that this process did `what`, as client-go words it. It may fail: the Roles of some drivers do not
/// grant events.
pub(super) fn announce(lock: &LeaseLock, what: &str) -> impl Future<Output = ()> + Send + 'static {
    let lease = lock.lease();
    let about = ObjectReference {
        api_version: Some("coordination.k8s.io/v1".into()),
        kind: Some("Lease".into()),
        ..lease.object_ref(&())
    };
    let source = Source {
        component: format!("{}/{}", lock.election.lock_name, lock.election.host_name),
        instance: String::new(),
    };
    let event = new_event(&about, EventKind::Normal, "LeaderElection", &format!("{} {what}", lock.identity), &source);
    create(lock.api().clone().into_client(), lock.election.namespace.clone(), event)
}

async fn create(client: Client, namespace: String, event: Event) {
    let events = Api::<Event>::namespaced(client, &namespace);
    match tokio::time::timeout(LIMIT, events.create(&PostParams::default(), &event)).await {
        Ok(Ok(_)) => {}
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            tracing::info!(%namespace, "no LeaderElection event: the service account may not create events");
        }
        Ok(Err(error)) => tracing::warn!(%namespace, %error, "LeaderElection event not written"),
        Err(_) => tracing::warn!(%namespace, "LeaderElection event not written within {LIMIT:?}"),
    }
}
