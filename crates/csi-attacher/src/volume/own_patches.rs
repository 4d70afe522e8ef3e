//! What this term has made of volumes, until the cache shows it; and whose turn it is to patch one.

use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;
use storage_kube::names::VolumeName;

use crate::records::VolumeRecord;
use crate::turns::Turns;

/// Holds only volumes that are being patched, or that the cache does not show yet as they are.
#[derive(Default)]
pub(crate) struct OwnPatches {
    answers: Mutex<HashMap<VolumeName, Arc<VolumeRecord>>>,
    /// To patch a volume.
    pub(crate) turns: Turns<VolumeName>,
}

impl OwnPatches {
    /// The newer of the cached record and the API server's last answer.
    pub(crate) fn newest(&self, name: &VolumeName, cached: Arc<VolumeRecord>) -> Arc<VolumeRecord> {
        match self.answers.lock().get(name) {
            Some(answer) if answer.resource_version > cached.resource_version => Arc::clone(answer),
            _ => cached,
        }
    }

    /// The API server has answered this to an own patch.
    pub(crate) fn answered(&self, name: &VolumeName, answer: &Arc<VolumeRecord>) {
        self.answers.lock().insert(name.clone(), Arc::clone(answer));
    }

    /// The cache shows this: an older answer is not needed any more. `None`: the volume is gone.
    pub(crate) fn seen(&self, name: &VolumeName, cached: Option<&VolumeRecord>) {
        let mut answers = self.answers.lock();
        let needed =
            |answer: &Arc<VolumeRecord>| cached.is_some_and(|cached| answer.resource_version > cached.resource_version);
        if answers.get(name).is_some_and(|answer| !needed(answer)) {
            answers.remove(name);
            if answers.is_empty() {
                *answers = HashMap::default();
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.answers.lock().len() + self.turns.len()
    }
}
