#![allow(clippy::unwrap_used)]

use std::{collections::HashMap, convert::Infallible, sync::Arc};

use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;

use super::*;

/// A client whose every request is answered with `status` and `body`, and the paths it asked for.
fn client(status: u16, body: Vec<u8>) -> (kube::Client, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let journal = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        journal.lock().push(format!("{} {}", request.method(), request.uri()));
        let response = Response::builder().status(status).body(Body::from(body.clone())).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    (kube::Client::new(service, "default"), asked)
}

fn status_body(code: u16, message: &str) -> Vec<u8> {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"{message}","reason":"X","code":{code}}}"#
    )
    .into_bytes()
}

fn secret_ref() -> SecretRef {
    SecretRef { namespace: "ns".into(), name: "creds.v1".into() }
}

async fn fetched(status: u16, body: &[u8]) -> Result<Credentials, Error> {
    fetch(&client(status, body.to_vec()).0, &secret_ref()).await
}

#[tokio::test]
async fn one_get_gives_the_decoded_pairs() {
    let body = br#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"creds.v1"},"data":{"user":"YWRtaW4=","empty":""},"type":"Opaque"}"#;
    let (client, asked) = client(200, body.to_vec());
    let credentials = fetch(&client, &secret_ref()).await.unwrap();
    assert_eq!(
        credentials.expose::<HashMap<_, _>>(),
        HashMap::from([("user".into(), "admin".into()), ("empty".into(), String::new())])
    );
    assert!(!credentials.is_empty());
    assert_eq!(*asked.lock(), ["GET /api/v1/namespaces/ns/secrets/creds.v1"]);
}

#[tokio::test]
async fn a_secret_without_data_is_empty() {
    for body in [r#"{"metadata":{}}"#, r#"{"data":null}"#, r#"{"data":{}}"#] {
        assert!(fetched(200, body.as_bytes()).await.unwrap().is_empty(), "{body}");
    }
}

#[tokio::test]
async fn failures_name_the_secret_and_the_cure() {
    let missing = fetched(404, &status_body(404, "not found")).await.unwrap_err();
    assert_eq!(
        missing.to_string(),
        "secret ns/creds.v1 does not exist: create it, or correct the StorageClass parameters that name it"
    );
    let forbidden = fetched(403, &status_body(403, "sa cannot get")).await.unwrap_err();
    assert_eq!(
        forbidden.to_string(),
        "secret ns/creds.v1 may not be read: allow get on secrets in the RBAC rules of this sidecar (sa cannot get)"
    );
    let other = fetched(500, &status_body(500, "etcd is away")).await.unwrap_err();
    assert!(matches!(other, Error::Unavailable { .. }), "{other:?}");
    assert!(other.to_string().starts_with("secret ns/creds.v1 could not be read: etcd is away;"), "{other}");
}

#[tokio::test]
async fn a_binary_value_is_refused_by_its_key() {
    let error = fetched(200, br#"{"data":{"token":"/w==","z":"YQ=="}}"#).await.unwrap_err();
    assert!(matches!(&error, Error::NotUtf8 { key, .. } if key == "token"), "{error:?}");
    assert!(error.to_string().contains(r#"ns/creds.v1: the value of key "token""#), "{error}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_decoded_is_not_quoted() {
    for body in [
        br#"{"data":{"pw":"hunter2-not-base64!"}}"#.as_slice(),
        br#"{"data":"hunter2"}"#,
        br"hunter2",
        b"\"hunter2\xff\"",
    ] {
        let error = fetched(200, body).await.unwrap_err();
        assert!(matches!(error, Error::Malformed(_)), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn names_that_would_leave_the_path_are_not_asked_for() {
    for (namespace, name) in [("ns", "../other/secrets/x"), ("a/b", "x"), ("", "x"), ("ns", ""), ("ns", "x?watch=1")] {
        let (client, asked) = client(200, b"{}".to_vec());
        let secret = SecretRef { namespace: namespace.into(), name: name.into() };
        assert!(matches!(fetch(&client, &secret).await, Err(Error::Impossible(_))), "{secret}");
        assert!(asked.lock().is_empty());
    }
}

#[test]
fn debug_shows_nothing() {
    let credentials = Credentials(BTreeMap::from([("user".into(), "admin".into())]));
    assert_eq!(format!("{credentials:?}"), "Credentials(hidden)");
    assert_eq!(format!("{credentials:#?}"), "Credentials(hidden)");
}
