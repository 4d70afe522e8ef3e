//! Scripted misbehaviour: which requests, how often, and what happens to them.

use std::time::Duration;

use crate::{request::Request, status::Status};

/// What happens to a request instead of, before or after the normal answer.
#[derive(Clone, Debug)]
pub enum Reaction {
    /// This answer; nothing is read or written.
    Refuse(Status),
    /// The normal answer after this time; nothing is read or written before.
    Delay(Duration),
    /// Read and written at once, answered after this time.
    DelayAnswer(Duration),
    /// Never answered; nothing is read or written. Ends when the client gives up.
    Hang,
    /// Read and written at once, never answered.
    HangAfterWrite,
    /// Read and written, then the connection breaks before the answer.
    LoseAnswer,
    /// The connection breaks before anything is read or written.
    BreakConnection,
    /// A watch whose connection breaks after this many events, initial ones included. Other requests are answered.
    BreakWatchAfter(usize),
}

/// Selects requests: every field that is set must be equal.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    verb: Option<String>,
    resource: Option<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    skip: usize,
    times: Option<usize>,
}

impl Matcher {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests of this verb (`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`) on
    /// this resource (its plural), its subresources included.
    pub fn of(verb: &str, resource: &str) -> Self {
        Self { verb: Some(verb.to_owned()), resource: Some(resource.to_owned()), ..Self::default() }
    }

    /// Only this verb.
    #[must_use]
    pub fn verb(self, verb: &str) -> Self {
        Self { verb: Some(verb.to_owned()), ..self }
    }

    /// Only this resource, by its plural.
    #[must_use]
    pub fn resource(self, resource: &str) -> Self {
        Self { resource: Some(resource.to_owned()), ..self }
    }

    /// Only this subresource; `""` is the object itself.
    #[must_use]
    pub fn subresource(self, subresource: &str) -> Self {
        Self { subresource: Some(subresource.to_owned()), ..self }
    }

    /// Only this namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..self }
    }

    /// Only the object of this name; for create the name is that in the body.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Leaves the first `count` matching requests alone.
    #[must_use]
    pub fn after(self, count: usize) -> Self {
        Self { skip: count, ..self }
    }

    /// Ends after `count` requests; without it the reaction stays until [`clear`](crate::FakeApiServer::clear_reactions).
    #[must_use]
    pub fn times(self, count: usize) -> Self {
        Self { times: Some(count), ..self }
    }

    /// [`times`](Self::times)`(1)`.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Whether a request is of those selected, counts apart.
    pub fn matches(&self, request: &Request) -> bool {
        let equal = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        equal(&self.verb, request.verb)
            && equal(&self.resource, &request.resource)
            && equal(&self.subresource, &request.subresource)
            && equal(&self.namespace, &request.namespace)
            && equal(&self.name, &request.name)
    }
}

/// The reactions in force, in the order they were given: the first that matches acts.
#[derive(Debug, Default)]
pub(crate) struct Script(Vec<(Matcher, Reaction)>);

impl Script {
    pub(crate) fn add(&mut self, matcher: Matcher, reaction: Reaction) {
        self.0.push((matcher, reaction));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The reaction to a request, counted as used.
    pub(crate) fn take(&mut self, request: &Request) -> Option<Reaction> {
        for (matcher, reaction) in &mut self.0 {
            if matcher.times == Some(0) || !matcher.matches(request) {
                continue;
            }
            if matcher.skip > 0 {
                matcher.skip -= 1;
                continue;
            }
            if let Some(left) = &mut matcher.times {
                *left -= 1;
            }
            return Some(reaction.clone());
        }
        None
    }
}
