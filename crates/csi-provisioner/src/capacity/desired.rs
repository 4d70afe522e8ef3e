//! Which objects there should be: every wanted class in every segment. Plain data.

use std::collections::BTreeSet;
use std::sync::Arc;

use storage_kube::names::ClassName;
use storage_kube::topology::Segment;
use storage_kube::wire::BindingMode;

use super::item::Item;
use crate::records::ClassRecord;
use crate::records::class::ClassOwner;

/// Whether a class gets objects. One without a binding mode does: only those that bind at once say so (KEP-1472).
pub(crate) fn is_wanted(class: &ClassRecord, immediate_binding: bool) -> bool {
    class.owner == ClassOwner::Driver && (immediate_binding || class.binding_mode != Some(BindingMode::Immediate))
}

/// The product of segments and classes. Not written out: it may be long.
#[derive(Debug, Default)]
pub(crate) struct Desired {
    segments: BTreeSet<Arc<Segment>>,
    classes: BTreeSet<ClassName>,
}

impl Desired {
    /// How many objects there should be.
    pub(crate) fn len(&self) -> usize {
        self.segments.len() * self.classes.len()
    }

    pub(crate) fn contains(&self, item: &Item) -> bool {
        self.classes.contains(&item.class) && item.segment.as_ref().is_some_and(|one| self.segments.contains(one))
    }

    /// All of them, segment by segment.
    pub(crate) fn items(&self) -> Vec<Item> {
        self.segments.iter().flat_map(|segment| self.of_segment(segment)).collect()
    }

    /// Those of a class, whether it is wanted or not.
    pub(crate) fn of_class(&self, class: &ClassName) -> Vec<Item> {
        self.segments.iter().map(|segment| item(class, segment)).collect()
    }

    /// Those of exactly this segment; none when there is no such segment.
    pub(crate) fn of_known_segment(&self, segment: &Segment) -> Vec<Item> {
        self.segments.get(segment).map(|segment| self.of_segment(segment)).unwrap_or_default()
    }

    pub(crate) fn wants_class(&self, class: &ClassName) -> bool {
        self.classes.contains(class)
    }

    /// Takes the segments that there are, and returns the items of those that came and of those that went.
    pub(crate) fn set_segments(&mut self, segments: BTreeSet<Arc<Segment>>) -> Vec<Item> {
        let changed: Vec<_> = self.segments.symmetric_difference(&segments).cloned().collect();
        self.segments = segments;
        changed.iter().flat_map(|segment| self.of_segment(segment)).collect()
    }

    /// Takes a class in or out; says whether that changed anything.
    pub(crate) fn set_class(&mut self, class: &ClassName, wanted: bool) -> bool {
        if wanted { self.classes.insert(class.clone()) } else { self.classes.remove(class) }
    }

    fn of_segment(&self, segment: &Arc<Segment>) -> Vec<Item> {
        self.classes.iter().map(|class| item(class, segment)).collect()
    }
}

fn item(class: &ClassName, segment: &Arc<Segment>) -> Item {
    Item { class: class.clone(), segment: Some(Arc::clone(segment)) }
}
