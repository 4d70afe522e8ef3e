#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::Registry;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::*;
use crate::metrics::WorkQueueMetrics;
use crate::rate_limiter::Backoff;

const SECOND: Duration = Duration::from_secs(1);

fn queue() -> WorkQueue<u32> {
    let metrics = WorkQueueMetrics::register(&Registry::new()).unwrap();
    let backoff = Backoff { base: SECOND, max: Duration::from_mins(5) };
    WorkQueue::new("claims", backoff, &metrics)
}

async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    timeout(limit, future).await.unwrap_or_else(|_| panic!("{what} took more than {limit:?}"))
}

#[tokio::test(start_paused = true)]
async fn at_most_limit_keys_are_in_process() {
    let queue = queue();
    (0..10).for_each(|key| queue.add(key));
    let gate = Arc::new(Semaphore::new(0));
    let (started, mut starts) = mpsc::channel(20);
    let running = Arc::new(Mutex::new((0_usize, 0_usize)));
    let mut workers = JoinSet::new();
    workers.spawn(run_workers(queue.clone(), 3, CancellationToken::new(), {
        let (gate, running) = (gate.clone(), running.clone());
        move |key| {
            let (gate, running, started) = (gate.clone(), running.clone(), started.clone());
            async move {
                {
                    let mut running = running.lock();
                    running.0 += 1;
                    running.1 = running.1.max(running.0);
                }
                started.send(key).await.unwrap();
                gate.acquire().await.unwrap().forget();
                running.lock().0 -= 1;
                Outcome::Done
            }
        }
    }));
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(starts.recv().await.unwrap());
    }
    assert!(timeout(SECOND, starts.recv()).await.is_err(), "a fourth run started");
    gate.add_permits(10);
    for _ in 0..7 {
        seen.push(starts.recv().await.unwrap());
    }
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
    assert_eq!(running.lock().1, 3);
}

#[tokio::test(start_paused = true)]
async fn one_key_is_never_in_two_runs() {
    let queue = queue();
    let in_process = Arc::new(Mutex::new(BTreeSet::new()));
    let drain = CancellationToken::new();
    let mut workers = JoinSet::new();
    workers.spawn(run_workers(queue.clone(), 10, drain.clone(), {
        let in_process = in_process.clone();
        move |key: u32| {
            let in_process = in_process.clone();
            async move {
                assert!(in_process.lock().insert(key), "{key} is in process twice");
                tokio::time::sleep(SECOND).await;
                in_process.lock().remove(&key);
                Outcome::Done
            }
        }
    }));
    for _ in 0..20 {
        (0..3).for_each(|key| queue.add(key));
        tokio::time::sleep(SECOND / 3).await;
    }
    drain.cancel();
    within(10 * SECOND, "draining", workers.join_all()).await;
    assert!((0..3).all(|key| queue.failures(&key) == 0), "no run panicked");
}

#[tokio::test(start_paused = true)]
async fn outcomes_decide_when_a_key_comes_back() {
    let queue = queue();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    let mut workers = JoinSet::new();
    workers.spawn(run_workers(queue.clone(), 1, CancellationToken::new(), {
        let runs = runs.clone();
        move |_| {
            let runs = runs.clone();
            async move {
                let mut runs = runs.lock();
                runs.push(start.elapsed().as_secs());
                match runs.len() {
                    1 | 2 | 4 => Outcome::Retry,
                    3 => Outcome::RetryAfter(60 * SECOND),
                    _ => Outcome::Done,
                }
            }
        }
    }));
    queue.add(1);
    tokio::time::sleep(Duration::from_hours(1)).await;
    // Backoff of 1 and 2 s, the asked-for minute, which left the failure count alone, then 4 s.
    assert_eq!(*runs.lock(), [0, 1, 3, 63, 67]);
    assert_eq!(queue.failures(&1), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_retry_and_the_others_go_on() {
    let queue = queue();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let mut workers = JoinSet::new();
    workers.spawn(run_workers(queue.clone(), 2, CancellationToken::new(), {
        let runs = runs.clone();
        move |key| {
            let runs = runs.clone();
            let first = !runs.lock().contains(&key);
            runs.lock().push(key);
            assert!(!(key == 7 && first), "in the closure, before there is a future");
            async move {
                assert!(!(key == 8 && first), "in the future");
                Outcome::Done
            }
        }
    }));
    for key in [7, 8, 9] {
        queue.add(key);
    }
    tokio::time::sleep(SECOND / 2).await;
    assert_eq!(*runs.lock(), [7, 8, 9]);
    assert_eq!((queue.failures(&7), queue.failures(&8), queue.failures(&9)), (1, 1, 0));
    tokio::time::sleep(SECOND).await;
    assert_eq!(*runs.lock(), [7, 8, 9, 7, 8]);
    assert_eq!((queue.failures(&7), queue.failures(&8)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn draining_awaits_what_runs_and_takes_nothing_new() {
    let queue = queue();
    let drain = CancellationToken::new();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let mut workers = JoinSet::new();
    workers.spawn(run_workers(queue.clone(), 1, drain.clone(), {
        let runs = runs.clone();
        move |key| {
            let runs = runs.clone();
            async move {
                tokio::time::sleep(30 * SECOND).await;
                runs.lock().push(key);
                Outcome::Done
            }
        }
    }));
    queue.add(1);
    queue.add(2);
    tokio::time::sleep(SECOND).await;
    drain.cancel();
    queue.add(1);
    let start = Instant::now();
    workers.join_all().await;
    assert_eq!(start.elapsed(), 29 * SECOND);
    assert_eq!(*runs.lock(), [1]);
    assert_eq!(queue.len(), 2, "2 and the second run of 1 stay queued");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_workers_drops_their_runs_at_once_and_keeps_the_keys() {
    let queue = queue();
    queue.add(1);
    queue.add(2);
    let alive = Arc::new(());
    {
        let alive = alive.clone();
        let workers = run_workers(queue.clone(), 2, CancellationToken::new(), move |_| {
            let alive = alive.clone();
            async move {
                std::future::pending::<()>().await;
                drop(alive);
                Outcome::Done
            }
        });
        assert!(timeout(SECOND, workers).await.is_err());
    }
    assert_eq!(Arc::strong_count(&alive), 1, "both runs are gone");
    assert_eq!(queue.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_still_works() {
    let queue = queue();
    let drain = CancellationToken::new();
    let mut workers = JoinSet::new();
    workers.spawn(run_workers(queue.clone(), 0, drain.clone(), {
        let drain = drain.clone();
        move |_| {
            drain.cancel();
            async { Outcome::Done }
        }
    }));
    queue.add(1);
    within(SECOND, "the run", workers.join_all()).await;
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_hangs_does_not_hold_up_the_other() {
    let queue = queue();
    (0..10).for_each(|key| queue.add(key));
    let drain = CancellationToken::new();
    let hang = run_lane(queue.clone(), Lane::Ordinary, 2, drain.clone(), |_| std::future::pending());
    let (ran, mut runs) = mpsc::channel(1);
    let urgent = run_lane(queue.clone(), Lane::Urgent, 1, drain, move |key| {
        let ran = ran.clone();
        async move {
            ran.send(key).await.unwrap();
            Outcome::Done
        }
    });
    let mut workers = JoinSet::new();
    workers.spawn(hang);
    workers.spawn(urgent);
    tokio::task::yield_now().await;
    queue.add_urgent(42);
    assert_eq!(within(SECOND, "the urgent key", runs.recv()).await, Some(42));
}
