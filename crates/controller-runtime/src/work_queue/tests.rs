#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use prometheus::Registry;
use tokio::time::{Instant, timeout};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn queue() -> WorkQueue<&'static str> {
    let metrics = WorkQueueMetrics::register(&Registry::new()).unwrap();
    let backoff = Backoff { base: SECOND, max: Duration::from_mins(5) };
    WorkQueue::new("claims", backoff, &metrics)
}

/// The next key, without waiting for a delay to run out.
async fn next_now(queue: &WorkQueue<&'static str>) -> Option<&'static str> {
    timeout(Duration::ZERO, queue.get()).await.ok()
}

/// The next key and how long it took to come.
async fn next(queue: &WorkQueue<&'static str>) -> (&'static str, Duration) {
    let start = Instant::now();
    let key = timeout(Duration::from_hours(10), queue.get()).await.expect("a key within ten hours");
    (key, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn keys_come_out_in_the_order_they_went_in() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    assert_eq!(queue.len(), 3);
    for key in ["a", "b", "c"] {
        assert_eq!(next_now(&queue).await, Some(key));
    }
    assert_eq!(next_now(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_key_is_not_added_twice_and_keeps_its_turn() {
    let queue = queue();
    for key in ["a", "b", "a", "a"] {
        queue.add(key);
    }
    queue.add_keeping_backoff("a");
    assert_eq!(next_now(&queue).await, Some("a"));
    assert_eq!(next_now(&queue).await, Some("b"));
    assert_eq!(next_now(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_process_is_not_handed_out_again() {
    let queue = queue();
    queue.add("a");
    assert_eq!(next_now(&queue).await, Some("a"));
    queue.add("a");
    assert_eq!(next_now(&queue).await, None);
    queue.done(&"a");
    assert_eq!(next_now(&queue).await, Some("a"));
    queue.done(&"a");
    assert_eq!(next_now(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn several_adds_during_a_run_are_one_more_run() {
    let queue = queue();
    queue.add("a");
    next_now(&queue).await.unwrap();
    queue.add("a");
    queue.add("a");
    queue.add_keeping_backoff("a");
    queue.done(&"a");
    assert_eq!(next_now(&queue).await, Some("a"));
    queue.done(&"a");
    assert_eq!(next_now(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_key_run_again_queues_behind_the_others() {
    let queue = queue();
    queue.add("a");
    next_now(&queue).await.unwrap();
    queue.add("a");
    queue.add("b");
    queue.done(&"a");
    assert_eq!(next_now(&queue).await, Some("b"));
    assert_eq!(next_now(&queue).await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn done_without_get_changes_nothing() {
    let queue = queue();
    queue.done(&"a");
    queue.add("a");
    queue.done(&"a");
    assert_eq!(next_now(&queue).await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_comes_after_its_delay() {
    let queue = queue();
    queue.add_after("a", 3 * SECOND);
    queue.add_after("b", 2 * SECOND);
    assert_eq!(queue.len(), 0);
    assert_eq!(next(&queue).await, ("b", 2 * SECOND));
    assert_eq!(next(&queue).await, ("a", SECOND));
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_zero_is_an_add() {
    let queue = queue();
    queue.add_after("a", Duration::ZERO);
    assert_eq!(next_now(&queue).await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn an_endless_delay_does_not_overflow() {
    let queue = queue();
    queue.add_after("a", Duration::MAX);
    queue.add_after("b", SECOND);
    assert_eq!(next(&queue).await, ("b", SECOND));
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_sooner_of_two_delays_counts() {
    let queue = queue();
    queue.add_after("later first", 9 * SECOND);
    queue.add_after("later first", 2 * SECOND);
    queue.add_after("sooner first", 3 * SECOND);
    queue.add_after("sooner first", 9 * SECOND);
    assert_eq!(next(&queue).await, ("later first", 2 * SECOND));
    assert_eq!(next(&queue).await, ("sooner first", SECOND));
    tokio::time::advance(20 * SECOND).await;
    queue.done(&"later first");
    queue.done(&"sooner first");
    assert_eq!(next_now(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn delays_of_one_instant_keep_their_order() {
    let queue = queue();
    for key in ["c", "a", "b"] {
        queue.add_after(key, SECOND);
    }
    for key in ["c", "a", "b"] {
        assert_eq!(next(&queue).await.0, key);
    }
}

#[tokio::test(start_paused = true)]
async fn an_add_cancels_the_delay() {
    let queue = queue();
    queue.add_after("a", 5 * SECOND);
    queue.add("a");
    assert_eq!(next_now(&queue).await, Some("a"));
    queue.done(&"a");
    tokio::time::advance(10 * SECOND).await;
    assert_eq!(next_now(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_getter_that_waits_for_a_late_key_sees_an_early_one() {
    let queue = queue();
    queue.add_after("late", 60 * SECOND);
    let waiting = tokio::task::JoinSet::from_iter([{
        let queue = queue.clone();
        async move { next(&queue).await }
    }]);
    tokio::task::yield_now().await;
    queue.add_after("early", SECOND);
    assert_eq!(waiting.join_all().await, [("early", SECOND)]);
}

#[tokio::test(start_paused = true)]
async fn every_waiting_getter_gets_a_key() {
    let queue = queue();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let queue = queue.clone();
        waiting.spawn(async move { next(&queue).await.0 });
    }
    tokio::task::yield_now().await;
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    let mut got = waiting.join_all().await;
    got.sort_unstable();
    assert_eq!(got, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_getter_loses_no_key() {
    let queue = queue();
    for _ in 0..2 {
        assert_eq!(next_now(&queue).await, None);
    }
    let mut waiting = tokio::task::JoinSet::new();
    let dropped = {
        let queue = queue.clone();
        waiting.spawn(async move { queue.get().await })
    };
    let stays = {
        let queue = queue.clone();
        tokio::task::JoinSet::from_iter([async move { next(&queue).await.0 }])
    };
    tokio::task::yield_now().await;
    queue.add("a");
    dropped.abort();
    assert_eq!(stays.join_all().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn failures_double_the_delay_until_they_are_forgotten() {
    let queue = queue();
    queue.add("a");
    for (failures, seconds) in [(1, 1), (2, 2), (3, 4), (4, 8)] {
        next(&queue).await;
        queue.add_rate_limited("a");
        queue.done(&"a");
        assert_eq!(queue.failures(&"a"), failures);
        assert_eq!(next(&queue).await, ("a", seconds * SECOND));
        queue.add("a");
        queue.done(&"a");
    }
    queue.forget(&"a");
    assert_eq!(queue.failures(&"a"), 0);
    next(&queue).await;
    queue.add_rate_limited("a");
    queue.done(&"a");
    assert_eq!(next(&queue).await, ("a", SECOND));
}

#[tokio::test(start_paused = true)]
async fn a20_the_queue_never_gives_a_key_up() {
    let queue = queue();
    queue.add("a");
    for _ in 0..1000 {
        let (key, _) = next(&queue).await;
        queue.add_rate_limited(key);
        queue.done(&key);
    }
    assert_eq!(queue.failures(&"a"), 1000);
    assert_eq!(next(&queue).await, ("a", Duration::from_mins(5)));
}

#[tokio::test(start_paused = true)]
async fn an_event_during_a_failing_run_is_served_at_once() {
    let queue = queue();
    queue.add("a");
    next(&queue).await;
    queue.add("a");
    queue.add_rate_limited("a");
    queue.done(&"a");
    assert_eq!(next_now(&queue).await, Some("a"));
    queue.done(&"a");
    tokio::time::advance(10 * SECOND).await;
    assert_eq!(next_now(&queue).await, None, "the delay was overtaken by the run");
}

#[tokio::test(start_paused = true)]
async fn an_add_after_a_failing_run_overtakes_its_delay() {
    let queue = queue();
    queue.add("a");
    next(&queue).await;
    queue.add_rate_limited("a");
    queue.add("a");
    queue.done(&"a");
    assert_eq!(next_now(&queue).await, Some("a"));
}

mod keeping_the_backoff {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unknown_key_is_added() {
        let queue = queue();
        queue.add_keeping_backoff("a");
        assert_eq!(next_now(&queue).await, Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_key_stays_delayed() {
        let queue = queue();
        queue.add_rate_limited("a");
        queue.add_keeping_backoff("a");
        assert_eq!(next(&queue).await, ("a", SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_in_process_runs_again_when_the_run_succeeds() {
        let queue = queue();
        queue.add("a");
        next(&queue).await;
        queue.add_keeping_backoff("a");
        queue.forget(&"a");
        queue.done(&"a");
        assert_eq!(next_now(&queue).await, Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_in_process_waits_out_the_delay_when_the_run_fails() {
        let queue = queue();
        queue.add("a");
        next(&queue).await;
        queue.add_keeping_backoff("a");
        queue.add_rate_limited("a");
        queue.add_keeping_backoff("a");
        queue.done(&"a");
        queue.add_keeping_backoff("a");
        assert_eq!(next(&queue).await, ("a", SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_plain_add_beside_it_wins() {
        let queue = queue();
        for plain_first in [true, false] {
            queue.add("a");
            next(&queue).await;
            if plain_first {
                queue.add("a");
                queue.add_keeping_backoff("a");
            } else {
                queue.add_keeping_backoff("a");
                queue.add("a");
            }
            queue.add_rate_limited("a");
            queue.done(&"a");
            assert_eq!(next_now(&queue).await, Some("a"), "plain add first: {plain_first}");
            queue.done(&"a");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_ends_during_the_run_starts_the_next_at_once() {
    let queue = queue();
    queue.add("a");
    next(&queue).await;
    queue.add_after("a", 2 * SECOND);
    tokio::time::advance(5 * SECOND).await;
    assert_eq!(next_now(&queue).await, None, "still in process");
    queue.done(&"a");
    assert_eq!(next_now(&queue).await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn c4_a_burst_of_keys_leaves_no_memory_behind() {
    let metrics = WorkQueueMetrics::register(&Registry::new()).unwrap();
    let backoff = Backoff { base: SECOND, max: SECOND };
    let queue = WorkQueue::new("claims", backoff, &metrics);
    for key in 0..50_000_u32 {
        queue.add(key);
    }
    for _ in 0..50_000 {
        let key = queue.get().await;
        queue.forget(&key);
        queue.done(&key);
    }
    let inner = queue.shared.inner.lock();
    assert!(inner.state.slots() <= 2048, "{} slots", inner.state.slots());
}

#[tokio::test(start_paused = true)]
async fn urgent_keys_come_first_and_have_workers_of_their_own() {
    let queue = queue();
    queue.add("ordinary");
    queue.add_urgent("urgent");
    assert_eq!(next_now(&queue).await, Some("urgent"));
    assert_eq!(next_now(&queue).await, Some("ordinary"));

    queue.add("another");
    let urgent = timeout(SECOND, queue.get_from(Lane::Urgent)).await;
    assert!(urgent.is_err(), "a worker of the urgent lane got {urgent:?}");
    assert_eq!(queue.get_from(Lane::Ordinary).await, "another");
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_in_one_lane_and_retries_in_the_ordinary_one() {
    let queue = queue();
    queue.add_urgent("a");
    queue.add("a");
    assert_eq!(queue.len(), 1);
    assert_eq!(queue.get_from(Lane::Urgent).await, "a");
    queue.add_urgent("a");
    queue.add("a");
    queue.done(&"a");
    assert_eq!(queue.get_from(Lane::Ordinary).await, "a", "the last add in the course of a run chooses the lane");
    queue.add_rate_limited("a");
    queue.done(&"a");
    let urgent = timeout(2 * SECOND, queue.get_from(Lane::Urgent)).await;
    assert!(urgent.is_err(), "the retry is in the urgent lane");
    assert_eq!(timeout(SECOND, queue.get_from(Lane::Ordinary)).await, Ok("a"));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_for_its_lane_wakes_for_it_alone() {
    let queue = queue();
    let mut waiting = std::pin::pin!(queue.get_from(Lane::Urgent));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    queue.add("ordinary");
    assert!(futures_util::poll!(&mut waiting).is_pending());
    queue.add_urgent("urgent");
    assert_eq!(timeout(SECOND, waiting).await, Ok("urgent"));
    assert_eq!(next_now(&queue).await, Some("ordinary"));
}

#[tokio::test(start_paused = true)]
async fn n15_ended_delays_come_out_in_the_order_of_their_beginnings_and_keep_their_failures() {
    let queue = queue();
    for (key, failures) in [("a", 8), ("b", 1), ("c", 3)] {
        for _ in 0..failures {
            queue.add(key);
            assert_eq!(next_now(&queue).await, Some(key));
            queue.add_rate_limited(key);
            queue.done(&key);
        }
    }
    queue.add("new");
    assert_eq!(queue.end_delays(), 3);
    for key in ["new", "a", "b", "c"] {
        assert_eq!(next_now(&queue).await, Some(key));
    }
    assert_eq!((queue.failures(&"a"), queue.failures(&"b")), (8, 1));
    assert_eq!(queue.end_delays(), 0, "nothing waits");
}

#[tokio::test(start_paused = true)]
async fn n15_a_key_in_process_when_delays_end_is_not_delayed_by_that_run() {
    for told_before in [true, false] {
        let queue = queue();
        queue.add("a");
        assert_eq!(next_now(&queue).await, Some("a"));
        if told_before {
            queue.add_after("a", SECOND);
        }
        assert_eq!(queue.end_delays(), 0);
        if !told_before {
            queue.add_rate_limited("a");
        }
        queue.done(&"a");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(next_now(&queue).await, Some("a"), "told before: {told_before}");
        queue.add_rate_limited("a");
        queue.done(&"a");
        assert_eq!(next_now(&queue).await, None, "the run after it is delayed as ever");
    }
}
