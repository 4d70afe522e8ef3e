//! The client-side limit of Kubernetes API requests, `--kube-api-qps` and `--kube-api-burst`.
//!
//! Without these flags nothing is limited here and the API server's own flow control decides.

use std::sync::Arc;
use std::time::Duration;

use controller_runtime::ApiServer;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::exit::Exit;

/// A token bucket: `qps` requests a second in the long run, `burst` at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestLimit {
    /// Tokens that come back each second; finite and above zero.
    pub qps: f64,
    /// Tokens the full bucket holds; at least one.
    pub burst: u32,
}

/// client-go's values for what is zero or not given.
const DEFAULT_QPS: f64 = 5.0;
const DEFAULT_BURST: u32 = 10;

impl RequestLimit {
    /// The limit the flags ask for, with client-go's meaning of odd values: zero is its default, a negative
    /// `--kube-api-qps` turns the limit off.
    pub(crate) fn from_flags(qps: Option<f64>, burst: Option<i64>) -> Result<Option<Self>, Exit> {
        if qps.is_none() && burst.is_none() {
            return Ok(None);
        }
        Self::of_values(qps.unwrap_or_default(), burst.unwrap_or_default(), "--kube-api-burst")
    }

    /// The limit of two values as client-go reads them: zero is its default, a negative `qps` turns the limit off.
    ///
    /// # Errors
    /// Exit 1 for a burst that is no number of requests, naming `burst_flag`.
    pub fn of_values(qps: f64, burst: i64, burst_flag: &str) -> Result<Option<Self>, Exit> {
        // Zero of either sign.
        let qps = if qps.abs() < f64::MIN_POSITIVE { DEFAULT_QPS } else { qps };
        if qps.is_nan() || qps < 0.0 || qps.is_infinite() {
            return Ok(None);
        }
        let burst = match burst {
            0 => DEFAULT_BURST,
            burst => u32::try_from(burst).map_err(|_| {
                Exit::error(format!(
                    "{burst_flag} ({burst}) must be between 0 and {}; 0 stands for {DEFAULT_BURST}",
                    u32::MAX
                ))
            })?,
        };
        Ok(Some(Self { qps, burst }))
    }

    /// The way to a server whose requests, with those of all its clones, wait for their turn in one bucket.
    ///
    /// A watch takes one token when it starts. Leases must not go through it: a renewal that waits is a lost lease.
    pub fn limit(&self, server: &ApiServer) -> ApiServer {
        self.limit_adjustably(server).0
    }

    /// The same, with a handle that changes the limit of all these requests.
    pub fn limit_adjustably(&self, server: &ApiServer) -> (ApiServer, AdjustableLimit) {
        let bucket = Arc::new(Bucket::new(*self));
        let limit = AdjustableLimit(bucket.clone());
        let limited = server.behind(move |server, request| {
            let bucket = bucket.clone();
            Box::pin(async move {
                bucket.take().await;
                server.send(request).await
            })
        });
        (limited, limit)
    }
}

/// The limit of requests that are under way.
#[derive(Debug, Clone)]
pub struct AdjustableLimit(Arc<Bucket>);

impl AdjustableLimit {
    /// From here on another limit. Requests that wait for their turn keep it.
    pub fn set(&self, limit: RequestLimit) {
        self.0.set(limit, Instant::now());
    }
}

#[derive(Debug)]
struct Bucket {
    level: Mutex<Level>,
}

/// How many tokens there were at a moment; below zero while requests wait for tokens to come.
#[derive(Debug)]
struct Level {
    limit: RequestLimit,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn new(limit: RequestLimit) -> Self {
        Self { level: Mutex::new(Level { limit, tokens: f64::from(limit.burst), at: Instant::now() }) }
    }

    /// Waits for one token, in the order of the calls. A wait that is given up returns its token.
    async fn take(&self) {
        let wait = self.reserve(Instant::now());
        if wait > Duration::ZERO {
            let reservation = Reservation { bucket: self };
            tokio::time::sleep(wait).await;
            std::mem::forget(reservation);
        }
    }

    /// Takes a token that may be still to come, and returns how long it takes to come.
    fn reserve(&self, now: Instant) -> Duration {
        let mut level = self.level.lock();
        level.refill(now);
        level.tokens -= 1.0;
        // A limit of almost nothing would ask for more seconds than a duration holds.
        Duration::try_from_secs_f64((-level.tokens / level.limit.qps).max(0.0)).unwrap_or(Duration::MAX / 4)
    }

    fn set(&self, limit: RequestLimit, now: Instant) {
        let mut level = self.level.lock();
        level.refill(now);
        level.limit = limit;
    }
}

impl Level {
    /// Puts in what has come since.
    fn refill(&mut self, now: Instant) {
        let RequestLimit { qps, burst } = self.limit;
        let came = now.saturating_duration_since(self.at).as_secs_f64() * qps;
        self.tokens = (self.tokens + came).min(f64::from(burst));
        self.at = now;
    }
}

/// Gives the token back when the request that waits for it is dropped.
struct Reservation<'a> {
    bucket: &'a Bucket,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.bucket.level.lock().tokens += 1.0;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    fn limit(qps: f64, burst: u32) -> RequestLimit {
        RequestLimit { qps, burst }
    }

    #[test]
    fn flags_give_the_limit_client_go_would_use() {
        let table = [
            (None, None, None),
            (Some(20.0), None, Some(limit(20.0, 10))),
            (None, Some(7), Some(limit(5.0, 7))),
            (Some(0.0), Some(0), Some(limit(5.0, 10))),
            (Some(0.5), Some(1), Some(limit(0.5, 1))),
            (Some(-1.0), Some(5), None),
            (Some(f64::INFINITY), None, None),
            (Some(f64::NAN), None, None),
        ];
        for (qps, burst, want) in table {
            assert_eq!(RequestLimit::from_flags(qps, burst).unwrap(), want, "{qps:?} {burst:?}");
        }
        let exit = RequestLimit::from_flags(None, Some(-1)).unwrap_err();
        assert_eq!(exit.code, 1);
        assert!(exit.message.starts_with("--kube-api-burst (-1)"), "{exit}");
    }

    /// When each of `count` requests, all made at once, was let through, in milliseconds.
    async fn let_through(bucket: &Bucket, count: usize) -> Vec<u128> {
        let start = Instant::now();
        let takes = (0..count).map(|_| async {
            bucket.take().await;
            start.elapsed().as_millis()
        });
        futures_util::future::join_all(takes).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_burst_goes_at_once_and_the_rest_at_the_rate() {
        let bucket = Bucket::new(limit(10.0, 3));
        assert_eq!(let_through(&bucket, 6).await, [0, 0, 0, 100, 200, 300]);
        // The bucket fills up again, but not above the burst.
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(let_through(&bucket, 5).await, [0, 0, 0, 100, 200]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_gives_up_leaves_its_token_to_others() {
        let bucket = Bucket::new(limit(1.0, 1));
        bucket.take().await;
        let given_up = tokio::time::timeout(Duration::from_millis(500), bucket.take()).await;
        assert!(given_up.is_err());
        assert_eq!(let_through(&bucket, 1).await, [500]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_is_raised_counts_for_the_requests_that_come_after() {
        let bucket = Bucket::new(limit(1.0, 1));
        bucket.take().await;
        bucket.set(limit(100.0, 3), Instant::now());
        assert_eq!(let_through(&bucket, 2).await, [10, 20]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(let_through(&bucket, 4).await, [0, 0, 0, 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn clones_of_a_limited_client_share_the_bucket() {
        let served = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, std::convert::Infallible>(Response::new(Body::empty()))
        });
        let client = limit(1.0, 1).limit(&ApiServer::from(&kube::Client::new(served, "ns"))).client();
        assert_eq!(client.default_namespace(), "ns");
        let start = Instant::now();
        let request = || Request::get("/x").body(Body::empty()).unwrap();
        client.clone().send(request()).await.unwrap();
        client.send(request()).await.unwrap();
        assert_eq!(start.elapsed().as_millis(), 1000);
    }
}
