//! Newtypes for the strings that get mixed up, and the table that stores repeated ones once.

use std::{borrow::Borrow, fmt, sync::Arc};

use foldhash::HashSet;
use parking_lot::Mutex;

pub use crate::attachment_name::AttachmentName;
use crate::uid::Uid;
pub use crate::volume_name::VolumeName;

/// Defines a name as its own type over a shared string: cloning counts a reference, comparing compares the text.
///
/// Cloning a name over a `Box<str>` copies the text. It is for those of which nearly every one is kept once.
macro_rules! name {
    ($(#[$meta:meta])* $name:ident) => {
        name! { $(#[$meta])* $name(Arc<str>) }
    };
    ($(#[$meta:meta])* $name:ident($text:ty)) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name($text);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl From<$text> for $name {
            fn from(text: $text) -> Self {
                Self(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

name! {
    /// What the driver calls the volume: `spec.csi.volumeHandle`, CSI `volume_id`.
    VolumeHandle(Box<str>)
}
name! {
    /// `metadata.name` of a `StorageClass`.
    ClassName
}
name! {
    /// `metadata.name` of a `Node`.
    NodeName
}
name! {
    /// What the driver calls a node: `spec.drivers[].nodeID` of a `CSINode`, CSI `node_id`.
    NodeId
}
name! {
    /// `metadata.name` of a `CSIStorageCapacity`; the API server makes it up.
    CapacityName
}
name! {
    /// A namespace.
    Namespace
}
name! {
    /// `metadata.name` of a `PersistentVolumeClaim`; unique only within a [`Namespace`].
    ClaimName
}

name! {
    /// `metadata.name` of a `VolumeSnapshot`; unique only within a [`Namespace`].
    SnapshotName
}

/// UID of a `PersistentVolumeClaim`, the identity of a claim: a claim deleted and created again under the
/// same name is another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimUid(pub Uid);

impl From<&str> for ClaimUid {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ClaimUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Stores each distinct string once: class, driver and namespace names repeat in every cached record.
///
/// A string lives as long as somebody outside holds it; entries nobody holds are dropped whenever the table
/// has doubled since the last sweep, so it stays within twice the strings in use.
#[derive(Debug, Default)]
pub struct Interner {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    strings: HashSet<Arc<str>>,
    sweep_at: usize,
}

/// Below this many entries a sweep is not worth the walk.
const SMALLEST_SWEEP: usize = 64;

impl Interner {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The one shared copy of `text`.
    pub fn intern(&self, text: &str) -> Arc<str> {
        let mut table = self.table.lock();
        if let Some(known) = table.strings.get(text) {
            return Arc::clone(known);
        }
        if table.strings.len() >= table.sweep_at.max(SMALLEST_SWEEP) {
            table.strings.retain(|string| Arc::strong_count(string) > 1);
            table.strings.shrink_to_fit();
            table.sweep_at = table.strings.len() * 2;
        }
        let shared: Arc<str> = text.into();
        table.strings.insert(Arc::clone(&shared));
        shared
    }

    /// How many strings the table holds, including those a sweep would drop.
    pub fn len(&self) -> usize {
        self.table.lock().strings.len()
    }

    /// Whether the table holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_one_allocation() {
        let interner = Interner::new();
        let first = interner.intern("fast");
        let second = interner.intern(&String::from("fast"));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &interner.intern("slow")));
    }

    #[test]
    fn strings_nobody_holds_leave_the_table_and_held_ones_stay() {
        let interner = Interner::new();
        let held: Vec<Arc<str>> = (0..10).map(|i| interner.intern(&format!("held-{i}"))).collect();
        for i in 0..10_000 {
            interner.intern(&format!("passing-{i}"));
        }
        assert!(interner.len() <= SMALLEST_SWEEP + 1, "{}", interner.len());
        for (i, string) in held.iter().enumerate() {
            assert!(Arc::ptr_eq(string, &interner.intern(&format!("held-{i}"))));
        }
    }

    #[test]
    fn a_name_is_looked_up_by_its_text() {
        let names = HashSet::from_iter([NodeName::from("node-1")]);
        assert!(names.contains("node-1"));
        assert_eq!(NodeName::from(Arc::<str>::from("node-1")).to_string(), "node-1");
        assert_eq!(ClaimUid::from("u").to_string(), "u");
    }
}
