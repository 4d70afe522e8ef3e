//! Label and field selectors of list and watch requests.

use serde_json::Value;

use crate::{object, status::Status};

/// What an object must look like to be seen by a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

#[derive(Clone, Debug)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Equals(String),
    NotEquals(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

impl Selector {
    /// # Errors
    /// 400 for a term that cannot be read, or a field other than `metadata.name` and `metadata.namespace`: the
    /// storage kinds can be selected by no other.
    pub(crate) fn parse(labels: &str, fields: &str) -> Result<Self, Status> {
        let fields = terms(fields).iter().map(|term| comparison(term)).collect::<Result<Vec<_>, _>>()?;
        if let Some(other) = fields.iter().find(|f| !matches!(f.key.as_str(), "metadata.name" | "metadata.namespace")) {
            return Err(Status::bad_request(format!("field label not supported: {}", other.key)));
        }
        let labels = terms(labels).iter().map(|term| label_term(term)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { labels, fields })
    }

    /// Whether every object is seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        self.labels.iter().all(|want| want.holds(labels.and_then(|l| l.get(&want.key)).and_then(Value::as_str)))
            && self.fields.iter().all(|want| {
                let field = if want.key == "metadata.name" { object::name(object) } else { object::namespace(object) };
                want.holds(Some(field))
            })
    }
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        match &self.test {
            Test::Equals(wanted) => value == Some(wanted),
            Test::NotEquals(unwanted) => value != Some(unwanted),
            Test::In(wanted) => value.is_some_and(|v| wanted.iter().any(|w| w == v)),
            Test::NotIn(unwanted) => !value.is_some_and(|v| unwanted.iter().any(|w| w == v)),
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
        }
    }
}

/// Splits at commas outside parentheses.
fn terms(text: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let mut found = vec![String::new()];
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if letter == ',' && depth == 0 {
            found.push(String::new());
        } else if let Some(term) = found.last_mut() {
            term.push(letter);
        }
    }
    found.retain(|term| !term.trim().is_empty());
    found
}

fn label_term(term: &str) -> Result<Requirement, Status> {
    let term = term.trim();
    if let Some((key, set)) = term.split_once(" notin ") {
        return Ok(Requirement { key: key.trim().to_owned(), test: Test::NotIn(values(set)) });
    }
    if let Some((key, set)) = term.split_once(" in ") {
        return Ok(Requirement { key: key.trim().to_owned(), test: Test::In(values(set)) });
    }
    if term.contains('=') {
        return comparison(term);
    }
    Ok(match term.strip_prefix('!') {
        Some(key) => Requirement { key: key.to_owned(), test: Test::Absent },
        None => Requirement { key: term.to_owned(), test: Test::Exists },
    })
}

fn comparison(term: &str) -> Result<Requirement, Status> {
    let (key, test) = if let Some((key, value)) = term.split_once("!=") {
        (key, Test::NotEquals(value.trim().to_owned()))
    } else if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        (key, Test::Equals(value.trim().to_owned()))
    } else {
        return Err(Status::bad_request(format!("unable to parse requirement: {term}")));
    };
    Ok(Requirement { key: key.trim().to_owned(), test })
}

fn values(set: &str) -> Vec<String> {
    set.trim().trim_start_matches('(').trim_end_matches(')').split(',').map(|v| v.trim().to_owned()).collect()
}
