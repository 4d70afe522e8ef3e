//! Comparing two documents, but for what is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::repeat;
use std::ops::Range;

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

/// Why our sidecars list, where Go's do not.
pub(crate) const PAGES: &str = "caches are filled by lists in pages, Go's by watches that begin with a list";

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

/// Lets ours have nothing where Go's JSON begins like that: what the Go sidecar has been seen to leave as well, when luck would
/// have it.
pub(crate) const fn lacks(
    scenarios: &'static str,
    path: &'static str,
    start: &'static str,
    reason: &'static str,
) -> Rule {
    Rule { scenarios, path, may: May::Lack(start), reason }
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
    let mut comparison = Comparison { scenario: split(scenario), rules, found: Vec::new(), used: BTreeSet::new() };
    comparison.compare(&mut Vec::new(), go, ours);
    used.append(&mut comparison.used);
    comparison.found.into_iter().map(|found| format!("{scenario} {found}")).collect()
}

struct Comparison {
    scenario: Vec<String>,
    rules: &'static [Rule],
    found: Vec<String>,
    used: BTreeSet<usize>,
}

impl Comparison {
    /// Looks at each leaf, and at each branch that one of the two has not.
    fn compare(&mut self, path: &mut Vec<String>, go: &Value, ours: &Value) {
        match (go, ours) {
            (Value::Object(go), Value::Object(ours)) => {
                let keys: BTreeSet<_> = go.keys().chain(ours.keys()).collect();
                for key in keys {
                    // A slash in a key would end it.
                    self.inside(path, key.replace('/', "~"), go.get(key), ours.get(key));
                }
            }
            (Value::Array(go), Value::Array(ours)) => {
                let same = |index: usize, our_index: usize| self.is_same(path, index, &go[index], &ours[our_index]);
                for (index, our_index) in pairs(go.len(), ours.len(), same) {
                    let at = index.or(our_index).unwrap_or_default().to_string();
                    self.inside(path, at, index.map(|index| &go[index]), our_index.map(|index| &ours[index]));
                }
            }
            _ if go == ours => {}
            _ => self.differ(path, go, ours),
        }
    }

    fn inside(&mut self, path: &mut Vec<String>, key: String, go: Option<&Value>, ours: Option<&Value>) {
        path.push(key);
        self.compare(path, go.unwrap_or(&Value::Null), ours.unwrap_or(&Value::Null));
        path.pop();
    }

    /// Whether there is nothing between two elements of a list that is not allowed. Plain values are to be equal.
    fn is_same(&self, path: &[String], index: usize, go: &Value, ours: &Value) -> bool {
        if !go.is_object() && !go.is_array() {
            return go == ours;
        }
        let (scenario, rules) = (self.scenario.clone(), self.rules);
        let mut trial = Self { scenario, rules, found: Vec::new(), used: BTreeSet::new() };
        trial.inside(&mut path.to_owned(), index.to_string(), Some(go), Some(ours));
        trial.found.is_empty()
    }

    fn differ(&mut self, path: &[String], go: &Value, ours: &Value) {
        let applies = |rule: &Rule| {
            matches(&self.scenario, &split(rule.scenarios))
                && matches(path, &split(rule.path)[1..])
                && allows(rule, go, ours)
        };
        let allowing: Vec<_> = (0..self.rules.len()).filter(|index| applies(&self.rules[*index])).collect();
        if allowing.is_empty() {
            self.found.push(format!("/{}\n    go:   {go}\n    ours: {ours}", path.join("/")));
        }
        self.used.extend(allowing);
    }
}

/// Pairs the elements of two lists in their order, so that as many as possible are the same: something more in one of them does
/// not shift what comes after it. What is between two pairs is paired as it comes.
fn pairs(go: usize, ours: usize, same: impl Fn(usize, usize) -> bool) -> Vec<(Option<usize>, Option<usize>)> {
    // The most pairs from there on.
    let mut most = vec![vec![0; ours + 1]; go + 1];
    for index in (0..go).rev() {
        for our_index in (0..ours).rev() {
            let paired = if same(index, our_index) { most[index + 1][our_index + 1] + 1 } else { 0 };
            most[index][our_index] = paired.max(most[index + 1][our_index]).max(most[index][our_index + 1]);
        }
    }
    let (mut found, mut start, mut our_start) = (Vec::new(), 0, 0);
    let (mut index, mut our_index) = (0, 0);
    while index < go && our_index < ours {
        let here = most[index][our_index];
        if here == most[index + 1][our_index] {
            index += 1;
        } else if here == most[index][our_index + 1] {
            our_index += 1;
        } else {
            found.extend(as_they_come(start..index, our_start..our_index));
            found.push((Some(index), Some(our_index)));
            (index, our_index) = (index + 1, our_index + 1);
            (start, our_start) = (index, our_index);
        }
    }
    found.extend(as_they_come(start..go, our_start..ours));
    found
}

fn as_they_come(go: Range<usize>, ours: Range<usize>) -> impl Iterator<Item = (Option<usize>, Option<usize>)> {
    let length = go.len().max(ours.len());
    let (go, ours) = (go.map(Some).chain(repeat(None)), ours.map(Some).chain(repeat(None)));
    go.zip(ours).take(length)
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

#[test]
fn only_what_a_rule_allows_may_differ() {
    use serde_json::json;
    const RULES: &[Rule] = &[
        Rule { scenarios: "a/*", path: "/times/*/at", may: May::Differ, reason: "" },
        Rule { scenarios: "*/*", path: "/calls", may: May::BeLess, reason: "" },
        Rule { scenarios: "*/*", path: "/open/**", may: May::Differ, reason: "" },
        lacks("*/*", "/late/*", "{\"late\"", ""),
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
    assert_eq!(differ("a/x", &json!([1, 2, 3]), &json!([1, 3])), 1, "what comes after it is the same");
    assert_eq!(differ("a/x", &json!([1, 3]), &json!([2, 1, 3, 4])), 2);
    assert_eq!(differ("a/x", &json!([1, 2]), &json!([2, 1])), 2, "another order");
    assert_eq!(differ("a/x", &json!([1, 2]), &json!([3, 2])), 1);
    let (go, ours) = (json!({ "late": [{ "late": 1 }, { "at": 1 }] }), json!({ "late": [{ "at": 1 }] }));
    assert_eq!(differ("a/x", &go, &ours), 0, "before something that both have");
    assert_eq!(differ("a/x", &ours, &go), 1, "ours may not");
}
