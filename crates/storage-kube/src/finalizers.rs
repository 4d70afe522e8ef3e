//! Finalizers: their names, editing a list of them, and patches that touch only our own.

use serde_json::{Value, json};

use crate::uid::Uid;

/// On a volume with reclaim policy Delete: the object stays until the driver has deleted the volume. Put on
/// and taken off by the provisioner.
pub const VOLUME_PROTECTION: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// On a claim that is being cloned: the source stays until the clone is made. Put on and taken off by the provisioner.
pub const CLONE_SOURCE_PROTECTION: &str = "provisioner.storage.kubernetes.io/cloning-protection";

/// On a `VolumeSnapshot` that is being restored. Put on and taken off by the provisioner.
pub const SNAPSHOT_SOURCE_PROTECTION: &str = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";

/// On volumes and attachments of `driver`: they stay until the driver has detached the volume. Put on and taken off by the
/// attacher.
///
/// What a finalizer's name may not contain becomes a dash, and a name that ends in one gets an `X`.
pub fn attacher(driver: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let mut name: String = "external-attacher/".chars().chain(driver.chars().map(plain)).collect();
    if name.ends_with('-') {
        name.push('X');
    }
    name
}

/// The outcome of editing a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The list already is as wanted; nothing needs to be written.
    Unchanged,
    /// The list to write; `None` when the last finalizer is gone and with it the field.
    Changed(Option<Vec<String>>),
}

/// Whether `finalizer` is in the list.
pub fn contains(list: &[String], finalizer: &str) -> bool {
    list.iter().any(|entry| entry == finalizer)
}

/// Appends `finalizer`, keeping the order of the others.
pub fn add(list: &[String], finalizer: &str) -> Edit {
    if contains(list, finalizer) {
        return Edit::Unchanged;
    }
    let mut edited = Vec::with_capacity(list.len() + 1);
    edited.extend_from_slice(list);
    edited.push(finalizer.to_owned());
    Edit::Changed(Some(edited))
}

/// Takes `finalizer` out, keeping the order of the others.
pub fn remove(list: &[String], finalizer: &str) -> Edit {
    let edited: Vec<String> = list.iter().filter(|entry| *entry != finalizer).cloned().collect();
    if edited.len() == list.len() { Edit::Unchanged } else { Edit::Changed((!edited.is_empty()).then_some(edited)) }
}

/// Strategic-merge patch body that adds one finalizer and leaves all others alone, whoever changed them since.
///
/// The UID is a precondition: for an object created anew under the same name the answer is 422 Invalid, or 409 Conflict. The
/// server also refuses a new finalizer on an object that is being deleted.
pub fn add_patch(uid: &Uid, finalizer: &str) -> Value {
    json!({ "metadata": { "uid": uid.to_string(), "finalizers": [finalizer] } })
}

/// Strategic-merge patch body that removes one finalizer and leaves all others alone; the UID is a precondition
/// as in [`add_patch`]. Removing one that is not there changes nothing.
pub fn remove_patch(uid: &Uid, finalizer: &str) -> Value {
    json!({ "metadata": { "uid": uid.to_string(), "$deleteFromPrimitiveList/finalizers": [finalizer] } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|&entry| entry.to_owned()).collect()
    }

    type Row = (&'static [&'static str], &'static str, Option<Option<&'static [&'static str]>>);

    fn check(rows: &[Row], edit: fn(&[String], &str) -> Edit) {
        for (input, finalizer, expected) in rows {
            let before = list(input);
            let expected = expected.map_or(Edit::Unchanged, |after| Edit::Changed(after.map(list)));
            assert_eq!(edit(&before, finalizer), expected, "{input:?} {finalizer}");
            assert_eq!(before, list(input), "the input is not mutated");
        }
    }

    #[test]
    fn the_attachers_finalizer_has_only_what_a_name_may_have() {
        let rows = [
            ("no-Change", "no-Change"),
            ("not!allowed/characters", "not-allowed-characters"),
            ("trailing\\", "trailing-X"),
            ("csi/test", "csi-test"),
            ("s!a@n#i$t(i%z^e&d*", "s-a-n-i-t-i-z-e-d-X"),
            ("hostpath.csi.k8s.io", "hostpath-csi-k8s-io"),
        ];
        assert_eq!(rows.len(), 6);
        for (driver, rest) in rows {
            assert_eq!(attacher(driver), format!("external-attacher/{rest}"));
        }
    }

    #[test]
    fn removing_keeps_the_order_and_drops_an_empty_list() {
        let rows: &[Row] = &[
            (&["a"], "a", Some(None)),
            (&["a", "b"], "a", Some(Some(&["b"]))),
            (&["a", "b"], "b", Some(Some(&["a"]))),
            (&["a", "b", "c"], "b", Some(Some(&["a", "c"]))),
            (&["a", "b", "a"], "a", Some(Some(&["b"]))),
            (&["a", "b"], "c", None),
            (&["aa"], "a", None),
            (&[], "a", None),
        ];
        assert_eq!(rows.len(), 8);
        check(rows, remove);
    }

    #[test]
    fn adding_appends_once() {
        let rows: &[Row] = &[
            (&[], "a", Some(Some(&["a"]))),
            (&["a"], "b", Some(Some(&["a", "b"]))),
            (&["b", "a"], "c", Some(Some(&["b", "a", "c"]))),
            (&["a"], "a", None),
            (&["a", "b"], "a", None),
        ];
        assert_eq!(rows.len(), 5);
        check(rows, add);
    }

    #[test]
    fn patches_name_only_our_own_finalizer_and_carry_the_uid() {
        let uid = Uid::from("0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f");
        assert_eq!(
            add_patch(&uid, VOLUME_PROTECTION).to_string(),
            r#"{"metadata":{"finalizers":["external-provisioner.volume.kubernetes.io/finalizer"],"uid":"0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f"}}"#
        );
        assert_eq!(
            remove_patch(&uid, VOLUME_PROTECTION).to_string(),
            r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["external-provisioner.volume.kubernetes.io/finalizer"],"uid":"0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f"}}"#
        );
    }
}
