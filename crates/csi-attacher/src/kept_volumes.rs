//! Volumes whose objects are gone while an attachment still needs them: a volume that was deleted by force can be detached
//! all the same. Lost with the term, like all that a term has learnt from its caches.

use std::collections::HashMap;
use std::sync::Arc;

use controller_runtime::{Informer, Subscription};
use parking_lot::Mutex;
use storage_kube::uid::Uid;

use crate::records::{AttachmentProjection, VolumeProjection, VolumeRecord};

/// By the UID of the attachment: a volume made anew under the name is not what the attachment was made for.
#[derive(Debug, Default)]
pub(crate) struct KeptVolumes {
    volumes: Mutex<HashMap<Uid, Arc<VolumeRecord>>>,
}

impl KeptVolumes {
    /// The volume an attachment was made for, if its object has vanished since.
    pub(crate) fn get(&self, attachment: &Uid) -> Option<Arc<VolumeRecord>> {
        self.volumes.lock().get(attachment).cloned()
    }

    /// Nothing was published for the attachment, or it is gone.
    pub(crate) fn forget(&self, attachment: &Uid) {
        let mut volumes = self.volumes.lock();
        volumes.remove(attachment);
        if volumes.is_empty() {
            *volumes = HashMap::new();
        }
    }
}

/// Keeps volumes for as long as the subscriptions are held.
pub(crate) fn keep(
    kept: &Arc<KeptVolumes>,
    attachments: &Informer<AttachmentProjection>,
    volumes: &Informer<VolumeProjection>,
) -> Vec<Subscription> {
    let (keeper, of_volume) = (Arc::clone(kept), attachments.clone());
    let gone = volumes.subscribe(move |change| {
        let (Some(volume), None) = (change.old, change.new) else { return };
        for name in of_volume.in_group(change.key) {
            // Also for one that does not have our finalizer: it may be on its way, and the call right behind.
            let Some(attachment) = of_volume.get(&name) else { continue };
            keeper.volumes.lock().entry(attachment.uid.clone()).or_insert_with(|| Arc::clone(volume));
        }
    });
    let keeper = Arc::clone(kept);
    let not_needed = attachments.subscribe(move |change| {
        let Some(old) = change.old else { return };
        if change.new.is_none_or(|new| new.uid != old.uid) {
            keeper.forget(&old.uid);
        }
    });
    vec![gone, not_needed]
}
