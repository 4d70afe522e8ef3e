//! Waiting with a bound and a reason.

use std::{fmt::Debug, future::Future, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use kube::{Api, Resource};
use kube_runtime::wait::await_condition;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

const BETWEEN_LOOKS: Duration = Duration::from_millis(25);

/// Looks again and again until there is a value. An error is looked past, and told only when time is up: what is
/// waited for may have to start first.
///
/// # Errors
/// After `bound`, saying what was waited for and what the last look met.
pub async fn eventually<T, F>(what: &str, bound: Duration, mut look: F) -> Result<T>
where
    F: AsyncFnMut() -> Result<Option<T>>,
{
    let deadline = Instant::now() + bound;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let looked = tokio::time::timeout(left.max(BETWEEN_LOOKS), look()).await;
        let miss = match looked {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(anyhow!("the last look did not end")),
        };
        if Instant::now() >= deadline {
            let waited = format!("waited {bound:?} in vain for {what}");
            return Err(miss.map_or_else(|| anyhow!("{waited}"), |error| error.context(waited.clone())));
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

/// Waits until an object is as `condition` wants it, and gives it.
///
/// # Errors
/// After `bound`, with the object as it was last seen.
pub async fn object<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    bound: Duration,
    condition: impl Fn(&K) -> bool,
) -> Result<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let reached = |object: Option<&K>| object.is_some_and(&condition);
    watched(api, name, what, bound, reached).await?.with_context(|| format!("{name} is gone"))
}

/// Waits until an object is gone.
///
/// # Errors
/// After `bound`, with the object as it was last seen.
pub async fn gone<K>(api: &Api<K>, name: &str, bound: Duration) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watched(api, name, &format!("{name} to be gone"), bound, |object: Option<&K>| object.is_none()).await.map(drop)
}

/// Watches an object until it is as `condition` wants it, or gone if that is wanted. A watch that fails is begun anew: the API
/// server may be restarted meanwhile.
async fn watched<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    bound: Duration,
    condition: impl Fn(Option<&K>) -> bool,
) -> Result<Option<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let last = Mutex::new(None);
    let noted = |object: Option<&K>| {
        *last.lock() = object.cloned();
        condition(object)
    };
    let mut failure = None;
    let found = async {
        loop {
            // Boxed: it is large, and awaited everywhere.
            match Box::pin(await_condition(api.clone(), name, noted)).await {
                Ok(found) => return found,
                Err(error) => failure = Some(error),
            }
            sleep(BETWEEN_LOOKS).await;
        }
    };
    if let Ok(found) = timeout(bound, found).await {
        return Ok(found);
    }
    let waited = format!("waited {bound:?} in vain for {what}");
    let error = failure.map_or_else(|| anyhow!("{waited}"), |error| anyhow!(error).context(waited.clone()));
    Err(error.context(format!("{name} is {:#?}", last.into_inner())))
}

/// Makes sure that a condition holds for a whole time, for what must not happen.
///
/// # Errors
/// At the first look that is false or fails.
pub async fn throughout<F, Fut>(what: &str, time: Duration, mut look: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<bool>>,
{
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        if !look().await? {
            return Err(anyhow!("no longer so: {what}"));
        }
        sleep(BETWEEN_LOOKS).await;
    }
    Ok(())
}
