//! Objects the wire type does not fit: said once each, remembered while they stay that way.

use std::collections::HashMap;

/// Above this many at once, further ones are said at every sight and not remembered.
const REMEMBERED: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct MalformedObjects {
    told: HashMap<String, Told>,
    list: u32,
}

#[derive(Debug)]
struct Told {
    cause: String,
    list: u32,
}

/// `namespace/name`, or the name alone.
pub(super) fn object_name(namespace: &str, name: &str) -> String {
    match (namespace, name) {
        (_, "") => "without a readable name".to_owned(),
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

impl MalformedObjects {
    pub(super) fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// Forgets those a complete list has not seen.
    pub(super) fn end_list(&mut self) {
        let list = self.list;
        self.told.retain(|_, told| told.list == list);
    }

    /// Whether this is to be said: the object is malformed for the first time or for another cause.
    pub(super) fn is_news(&mut self, object: String, cause: &str) -> bool {
        let list = self.list;
        if let Some(told) = self.told.get_mut(&object) {
            told.list = list;
            if told.cause == cause {
                return false;
            }
            cause.clone_into(&mut told.cause);
            return true;
        }
        if self.told.len() < REMEMBERED {
            let cause = cause.to_owned();
            self.told.insert(object, Told { cause, list });
        }
        true
    }

    /// The object is in order or gone.
    pub(super) fn is_well(&mut self, namespace: Option<&str>, name: Option<&str>) {
        // Nearly always empty, and then no name is put together.
        if !self.told.is_empty() {
            self.told.remove(&object_name(namespace.unwrap_or(""), name.unwrap_or("")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_said_once_until_it_changes_or_is_well_in_between() {
        let mut malformed = MalformedObjects::default();
        let name = || object_name("ns", "claim");
        assert!(malformed.is_news(name(), "bad"));
        assert!(!malformed.is_news(name(), "bad"));
        assert!(malformed.is_news(name(), "worse"));
        malformed.is_well(Some("ns"), Some("claim"));
        assert!(malformed.is_news(name(), "worse"));
    }

    #[test]
    fn a_list_forgets_the_ones_that_are_gone() {
        let mut malformed = MalformedObjects::default();
        malformed.is_news("stays".to_owned(), "bad");
        malformed.is_news("goes".to_owned(), "bad");
        malformed.begin_list();
        malformed.is_news("stays".to_owned(), "bad");
        malformed.end_list();
        assert_eq!(malformed.told.keys().collect::<Vec<_>>(), ["stays"]);
    }

    #[test]
    fn the_memory_of_them_is_bounded() {
        let mut malformed = MalformedObjects::default();
        for number in 0..REMEMBERED + 5 {
            assert!(malformed.is_news(number.to_string(), "bad"));
        }
        assert_eq!(malformed.told.len(), REMEMBERED);
    }
}
