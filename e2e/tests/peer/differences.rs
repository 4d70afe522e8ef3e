//! Comparing two documents, but for what is listed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What may differ at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum May {
    /// Everything, presence included.
    Differ,
    /// The same, and it may be equal by chance.
    Vary,
    /// Ours is not there, or a number that is not the greater one.
    BeLess,
    /// Ours is not there, and Go's JSON begins like that.
    Lack(&'static str),
}

/// One line of the list.
#[derive(Debug)]
#[expect(dead_code, reason = "reasons are for readers, of the list and of its Debug form")]
pub(crate) struct Rule {
    /// `setup/scenario`; `*` stands for any of either.
    pub(crate) scenarios: &'static str,
    /// Keys and indices after `/`; `*` stands for any one, a last `**` for all below.
    pub(crate) path: &'static str,
    pub(crate) may: May,
    /// Why. Where there is a choice behind it, docs/differences.md has a row for it.
    pub(crate) reason: &'static str,
}

/// Lets anything differ there.
pub(crate) const fn differ(scenarios: &'static str, path: &'static str, reason: &'static str) -> Rule {
    Rule { scenarios, path, may: May::Differ, reason }
}

/// Lets anything differ there that may be equal by chance.
pub(crate) const fn vary(scenarios: &'static str, path: &'static str, reason: &'static str) -> Rule {
    Rule { scenarios, path, may: May::Vary, reason }
}

/// Lets ours be less there, in every scenario.
pub(crate) const fn less(path: &'static str, reason: &'static str) -> Rule {
    Rule { scenarios: "*/*", path, may: May::BeLess, reason }
}

/// Lets ours have nothing where Go's JSON begins like that, in every scenario.
pub(crate) const fn lacks(path: &'static str, start: &'static str, reason: &'static str) -> Rule {
    Rule { scenarios: "*/*", path, may: May::Lack(start), reason }
}

/// What one side left behind, by scenario.
pub(crate) type LeftBehind = BTreeMap<String, Value>;

/// Compares what both sides left behind, by setup and scenario. Fails for each difference that is not in the list, for each rule
/// that allowed none, and for what `also` finds wrong with ours.
pub(crate) fn assert_only_listed(
    runs: &[(&str, LeftBehind, LeftBehind)],
    rules: &'static [Rule],
    also: impl Fn(&str, &Value) -> Vec<String>,
) {
    let mut used = BTreeSet::new();
    let mut found = Vec::new();
    for (setup, go, ours) in runs {
        for (scenario, go) in go {
            let ours = ours.get(scenario).unwrap_or(&Value::Null);
            let name = format!("{setup}/{scenario}");
            found.extend(differences(&name, go, ours, rules, &mut used));
            found.extend(also(&name, ours));
        }
    }
    assert!(found.is_empty(), "{} differences that are not listed:\n{}", found.len(), found.join("\n"));
    // What is only less may be equal by chance: the Go sidecars do not repeat their work every time.
    let unused = (0..rules.len()).filter(|index| !used.contains(index)).map(|index| &rules[index]);
    let idle: Vec<_> = unused.filter(|rule| rule.may == May::Differ).collect();
    assert!(idle.is_empty(), "listed differences that are none: {idle:#?}");
}

/// The differences that no rule allows; `used` gets the numbers of those that allowed one.
fn differences(
    scenario: &str,
    go: &Value,
    ours: &Value,
    rules: &'static [Rule],
    used: &mut BTreeSet<usize>,
) -> Vec<String> {
    let mut found = Vec::new();
    compare(&mut Vec::new(), go, ours, &mut |path, go, ours| {
        let applies = |rule: &Rule| {
            matches(&split(scenario), &split(rule.scenarios))
                && matches(path, &split(rule.path)[1..])
                && allows(rule, go, ours)
        };
        let allowing: Vec<_> = (0..rules.len()).filter(|index| applies(&rules[*index])).collect();
        if allowing.is_empty() {
            found.push(format!("{scenario} /{}\n    go:   {go}\n    ours: {ours}", path.join("/")));
        }
        used.extend(allowing);
    });
    found
}

fn split(path: &str) -> Vec<String> {
    path.split('/').map(str::to_owned).collect()
}

fn allows(rule: &Rule, go: &Value, ours: &Value) -> bool {
    match rule.may {
        May::Differ | May::Vary => true,
        May::Lack(start) => ours.is_null() && go.to_string().starts_with(start),
        May::BeLess => ours.is_null() || ours.as_u64().zip(go.as_u64()).is_some_and(|(ours, go)| ours <= go),
    }
}

fn matches(path: &[String], pattern: &[String]) -> bool {
    match (path, pattern) {
        ([], []) => true,
        (_, [last]) if last == "**" => true,
        ([first, path @ ..], [wanted, pattern @ ..]) => (wanted == "*" || first == wanted) && matches(path, pattern),
        _ => false,
    }
}

/// Calls `differ` for each leaf that is not the same, and for each branch that one of the two has not.
fn compare(path: &mut Vec<String>, go: &Value, ours: &Value, differ: &mut impl FnMut(&[String], &Value, &Value)) {
    let mut inside = |key: String, go: &Value, ours: &Value| {
        // A slash in a key would end it.
        path.push(key.replace('/', "~"));
        compare(path, go, ours, differ);
        path.pop();
    };
    match (go, ours) {
        (Value::Object(go), Value::Object(ours)) => {
            let keys: BTreeSet<_> = go.keys().chain(ours.keys()).collect();
            for key in keys {
                inside(key.clone(), go.get(key).unwrap_or(&Value::Null), ours.get(key).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(go), Value::Array(ours)) => {
            for index in 0..go.len().max(ours.len()) {
                inside(
                    index.to_string(),
                    go.get(index).unwrap_or(&Value::Null),
                    ours.get(index).unwrap_or(&Value::Null),
                );
            }
        }
        _ if go == ours => {}
        _ => differ(path, go, ours),
    }
}

#[test]
fn only_what_a_rule_allows_may_differ() {
    use serde_json::json;
    const RULES: &[Rule] = &[
        Rule { scenarios: "a/*", path: "/times/*/at", may: May::Differ, reason: "" },
        Rule { scenarios: "*/*", path: "/calls", may: May::BeLess, reason: "" },
        Rule { scenarios: "*/*", path: "/open/**", may: May::Differ, reason: "" },
        lacks("/late/*", "{\"late\"", ""),
    ];
    let differ =
        |scenario: &str, go: &Value, ours: &Value| differences(scenario, go, ours, RULES, &mut BTreeSet::new()).len();
    let (go, ours) = (json!({ "times": [{ "at": 1 }] }), json!({ "times": [{ "at": 2 }] }));
    assert_eq!((differ("a/x", &go, &ours), differ("b/x", &go, &ours)), (0, 1));
    assert_eq!(differ("a/x", &json!({ "times": [] }), &ours), 1, "an element more");
    assert_eq!(differ("a/x", &json!({ "calls": 2 }), &json!({ "calls": 1 })), 0);
    assert_eq!(differ("a/x", &json!({ "calls": 1 }), &json!({ "calls": 2 })), 1);
    assert_eq!(differ("a/x", &json!({}), &json!({ "calls": 1 })), 1, "a call more");
    assert_eq!(differ("a/x", &json!({ "calls": 1 }), &json!({})), 0);
    assert_eq!(differ("a/x", &json!({ "late": [{ "late": 1 }] }), &json!({ "late": [] })), 0);
    assert_eq!(differ("a/x", &json!({ "late": [{ "other": 1 }] }), &json!({ "late": [] })), 1);
    assert_eq!(differ("a/x", &json!({ "late": [] }), &json!({ "late": [{ "late": 1 }] })), 1);
    assert_eq!(differ("a/x", &json!({ "open": { "a/b": [1] } }), &json!({ "open": { "a/b": [2], "c": 1 } })), 0);
}
