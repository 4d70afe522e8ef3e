//! Which requests suffer what, switchable at any time.

use std::time::Duration;

use tokio::sync::watch;

use super::request::Request;

/// What a request suffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is forwarded that much later, even when its sender has given up by then.
    DelayRequest(Duration),
    /// It is forwarded at once, and its answer begins that much later.
    DelayAnswer(Duration),
    /// It is forwarded when the fault is over, unless its sender has given up by then.
    Hold,
    /// It is forwarded at once; its answer, and what comes on a watch that is open already, waits until the fault is over.
    HoldAnswer,
    /// It is not forwarded; the answer is this code, with `Retry-After` in seconds.
    Answer {
        /// HTTP status.
        code: u16,
        /// Seconds.
        retry_after: Option<u32>,
    },
    /// It is not forwarded; the answer is a stream whose first event is an error of this code.
    AnswerInStream {
        /// Code of the `Status`.
        code: u16,
    },
    /// Its connection is closed instead of forwarding it.
    Cut,
    /// It is forwarded, and its connection is closed instead of answering.
    LoseAnswer,
}

/// The requests a fault is for.
#[derive(Clone, Copy, Debug)]
pub struct On {
    verb: Option<&'static str>,
    resource: Option<&'static str>,
    watch_list: Option<bool>,
}

impl On {
    /// Watches that are to begin with all objects, of whatever resource.
    pub const WATCH_LISTS: Self = Self { verb: None, resource: None, watch_list: Some(true) };

    /// Those with a verb for a resource, `create persistentvolumes` for example.
    pub const fn only(verb: &'static str, resource: &'static str) -> Self {
        Self { verb: Some(verb), resource: Some(resource), watch_list: None }
    }

    /// Those with any verb for a resource.
    pub const fn resource(resource: &'static str) -> Self {
        Self { verb: None, resource: Some(resource), watch_list: None }
    }

    fn matches(&self, request: &Request) -> bool {
        self.verb.is_none_or(|verb| verb == request.verb)
            && self.resource.is_none_or(|resource| resource == request.resource)
            && self.watch_list.is_none_or(|watch_list| watch_list == request.watch_list)
    }
}

#[derive(Debug)]
struct Rule {
    id: u64,
    on: On,
    fault: Fault,
    /// Requests it still holds for.
    left: Option<usize>,
    hits: usize,
}

/// The faults that are on. Of several for a request, the first counts that is not used up.
#[derive(Debug)]
pub(super) struct Rules(watch::Sender<(u64, Vec<Rule>)>);

/// A fault as it holds for one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    id: u64,
    pub(super) fault: Fault,
}

impl Rules {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new((0, Vec::new())))
    }

    pub(super) fn add(&self, on: On, fault: Fault, times: Option<usize>) -> u64 {
        let mut id = 0;
        self.0.send_modify(|(last, rules)| {
            *last += 1;
            id = *last;
            rules.push(Rule { id, on, fault, left: times, hits: 0 });
        });
        id
    }

    pub(super) fn remove(&self, id: u64) {
        self.0.send_modify(|(_, rules)| rules.retain(|rule| rule.id != id));
    }

    pub(super) fn hits(&self, id: u64) -> usize {
        self.0.borrow().1.iter().find(|rule| rule.id == id).map_or(0, |rule| rule.hits)
    }

    pub(super) fn hit(&self, request: &Request) -> Option<Hit> {
        let mut hit = None;
        self.0.send_modify(|(_, rules)| {
            let rule = rules.iter_mut().find(|rule| rule.left != Some(0) && rule.on.matches(request));
            if let Some(rule) = rule {
                rule.left = rule.left.map(|left| left - 1);
                rule.hits += 1;
                hit = Some(Hit { id: rule.id, fault: rule.fault });
            }
        });
        hit
    }

    /// Waits until the fault is over.
    pub(super) fn over(&self, hit: Hit) -> impl Future<Output = ()> + Send + 'static {
        let mut rules = self.0.subscribe();
        async move {
            // The sender goes with the proxy, and then this does too.
            let _ = rules.wait_for(|(_, rules)| rules.iter().all(|rule| rule.id != hit.id)).await;
        }
    }

    /// Whether what comes for this request is to be kept back.
    pub(super) fn holds_answer(&self, request: &Request) -> bool {
        holds_answer(&self.0.borrow().1, request)
    }

    /// Waits until nothing keeps back what comes for this request.
    pub(super) fn answer_free(&self, request: Request) -> impl Future<Output = ()> + Send + 'static {
        let mut rules = self.0.subscribe();
        async move {
            let _ = rules.wait_for(|(_, rules)| !holds_answer(rules, &request)).await;
        }
    }
}

fn holds_answer(rules: &[Rule], request: &Request) -> bool {
    rules.iter().any(|rule| rule.fault == Fault::HoldAnswer && rule.left != Some(0) && rule.on.matches(request))
}
