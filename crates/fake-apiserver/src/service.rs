//! One HTTP request in, one answer out: route, record, reaction, verb.

use std::{future, sync::Arc};

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::Value;

use crate::{
    Shared, discovery, list, metadata, object, reaction::Reaction, request::Request, route::Route, status::Status,
    watch, write,
};

/// A connection that broke, as the client sees it.
type Broken = std::io::Error;

/// The body of an answer: whole, or a watch that goes on.
pub type AnswerBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// # Errors
/// A connection error when a reaction says so or the server is down.
pub(crate) async fn answer(shared: Arc<Shared>, request: http::Request<Body>) -> Result<Response<AnswerBody>, Broken> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let header = |name: header::HeaderName| {
        parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let query = parts.uri.query().unwrap_or_default();
    let route = match Route::parse(&parts.method, parts.uri.path(), query) {
        Ok(route) => route,
        Err(status) => return Ok(refusal(&status)),
    };
    let record = Request {
        verb: route.verb,
        group: route.resource.group.clone(),
        resource: route.resource.plural.clone(),
        subresource: route.subresource.clone(),
        namespace: route.namespace.clone(),
        name: name(&route, &body),
        query: query.to_owned(),
        content_type: header(header::CONTENT_TYPE),
        accept: header(header::ACCEPT),
        user_agent: header(header::USER_AGENT),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        at: tokio::time::Instant::now(),
    };
    let content_type = record.content_type.clone();
    let metadata_only = record.is_metadata_only();
    let reaction = shared.arrived(record)?;
    let events = match reaction {
        Some(Reaction::BreakWatchAfter(events)) => Some(events),
        _ => None,
    };
    let serve = || serve(&shared, &parts.method, route.clone(), &content_type, &body, events, metadata_only);
    match reaction {
        None | Some(Reaction::BreakWatchAfter(_)) => serve(),
        Some(Reaction::Refuse(status)) => Ok(refusal(&status)),
        Some(Reaction::Delay(time)) => {
            tokio::time::sleep(time).await;
            serve()
        }
        Some(Reaction::DelayAnswer(time)) => {
            let answer = serve();
            tokio::time::sleep(time).await;
            answer
        }
        Some(Reaction::Hang) => future::pending().await,
        Some(Reaction::HangAfterWrite) => {
            drop(serve());
            future::pending().await
        }
        Some(Reaction::LoseAnswer) => {
            drop(serve());
            Err(std::io::ErrorKind::ConnectionReset.into())
        }
        Some(Reaction::BreakConnection) => Err(std::io::ErrorKind::ConnectionReset.into()),
    }
}

fn name(route: &Route, body: &[u8]) -> String {
    if route.verb != "create" || !route.name.is_empty() {
        return route.name.clone();
    }
    object::parse(body).map(|object| object::name(&object).to_owned()).unwrap_or_default()
}

fn serve(
    shared: &Arc<Shared>,
    method: &http::Method,
    route: Route,
    content_type: &str,
    body: &[u8],
    watch_breaks_after: Option<usize>,
    metadata_only: bool,
) -> Result<Response<AnswerBody>, Broken> {
    let mut guard = shared.state.lock();
    let state = &mut *guard;
    if !state.reachable {
        return Err(std::io::ErrorKind::ConnectionRefused.into());
    }
    if discovery::is_absent(&state.served, &route.resource) {
        return Ok(refusal(&Status::no_such_path()));
    }
    let before = state.store.revision();
    let answered = match route.verb {
        "watch" => {
            let cuts = state.cuts.len();
            return Ok(match watch::open(shared, &state.store, route, metadata_only, state.watch_list, cuts) {
                Ok(watch) => {
                    let watch = watch.breaking_after(watch_breaks_after);
                    response(200, StreamBody::new(watch.frames()).boxed_unsync())
                }
                Err(status) => refusal(&status),
            });
        }
        "list" => list::list(&state.store, &route).map(|list| (200, list)),
        "get" if route.resource.plural.is_empty() => {
            discovery::resources(&state.served, &route).map(|list| (200, list))
        }
        "get" => state
            .store
            .require(&route.resource, &(route.namespace.clone(), route.name.clone()))
            .map(|object| (200, (*object).clone())),
        "create" => write::create(&mut state.store, &route, body),
        "delete" => write::delete(&mut state.store, &route, body),
        "deletecollection" => Ok(write::delete_collection(&mut state.store, &route)),
        _ => write::change(&mut state.store, &route, method, content_type, body),
    };
    let changed = state.store.revision() != before;
    drop(guard);
    if changed {
        shared.wake();
    }
    Ok(match answered {
        Ok((code, object)) if metadata_only => response(code, whole(&metadata::alone(&object))),
        Ok((code, object)) => response(code, whole(&object)),
        Err(status) => refusal(&status),
    })
}

fn refusal(status: &Status) -> Response<AnswerBody> {
    let mut response = response(status.code, whole(&status.body()));
    if let Some(seconds) = status.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn whole(object: &Value) -> AnswerBody {
    Full::new(Bytes::from(object.to_string())).map_err(|never| match never {}).boxed_unsync()
}

fn response(code: u16, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
