#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use super::*;

fn user(json: serde_json::Value) -> AuthInfo {
    serde_json::from_value(json).unwrap()
}

async fn header_of(credentials: &Credentials) -> Option<String> {
    credentials.header().await.unwrap().map(|value| value.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn each_way_to_say_who_we_are_gives_its_header() {
    let table = [
        (serde_json::json!({}), None),
        (serde_json::json!({ "token": "t" }), Some("Bearer t")),
        (serde_json::json!({ "username": "u", "password": "p" }), Some("Basic dTpw")),
        (serde_json::json!({ "auth-provider": { "name": "oidc", "config": { "id-token": "i" } } }), Some("Bearer i")),
    ];
    for (json, want) in table {
        assert_eq!(header_of(&Credentials::of(&user(json.clone())).unwrap()).await.as_deref(), want, "{json}");
    }
}

#[test]
fn what_is_not_supported_or_cannot_be_sent_is_named() {
    for (json, want) in [
        (serde_json::json!({ "auth-provider": { "name": "gcp" } }), "auth-provider \"gcp\""),
        (serde_json::json!({ "token": "a\nb" }), "characters that cannot be sent"),
        (serde_json::json!({ "tokenFile": "/nonexistent/token" }), "cannot read /nonexistent/token"),
    ] {
        let error = Credentials::of(&user(json)).err().unwrap().to_string();
        assert!(error.contains(want), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_file_is_read_again_each_minute_and_its_last_word_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    fs::write(&path, "first\n").unwrap();
    let credentials = Credentials::of(&user(serde_json::json!({ "tokenFile": path }))).unwrap();
    assert_eq!(header_of(&credentials).await.as_deref(), Some("Bearer first"));
    fs::write(&path, "second").unwrap();
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(header_of(&credentials).await.as_deref(), Some("Bearer first"));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(header_of(&credentials).await.as_deref(), Some("Bearer second"));
    fs::remove_file(&path).unwrap();
    tokio::time::advance(Duration::from_mins(2)).await;
    assert_eq!(header_of(&credentials).await.as_deref(), Some("Bearer second"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_read_again_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    fs::write(&path, "old").unwrap();
    let credentials = Credentials::of(&user(serde_json::json!({ "tokenFile": path }))).unwrap();
    fs::write(&path, "new").unwrap();
    assert_eq!(header_of(&credentials).await.as_deref(), Some("Bearer old"));
    credentials.were_refused();
    assert_eq!(header_of(&credentials).await.as_deref(), Some("Bearer new"));
}

/// As client-go has it: the file wins, the token beside it is for a file that is not there yet.
#[tokio::test(start_paused = true)]
async fn a_token_beside_a_file_stands_in_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    let json = serde_json::json!({ "token": "inline", "tokenFile": path });
    let credentials = Credentials::of(&user(json.clone())).unwrap();
    assert_eq!(header_of(&credentials).await.as_deref(), Some("Bearer inline"));
    fs::write(&path, "of the file").unwrap();
    assert_eq!(header_of(&Credentials::of(&user(json)).unwrap()).await.as_deref(), Some("Bearer of the file"));
    tokio::time::advance(Duration::from_mins(2)).await;
    assert_eq!(header_of(&credentials).await.as_deref(), Some("Bearer of the file"));
}
