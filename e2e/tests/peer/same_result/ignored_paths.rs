//! Where the two provisioners may differ, and why. Anything else fails, and so does a line that nothing needs.

use crate::differences::{PAGES, Rule, differ, less, vary};

const TIME: &str = "time of the run";
const COUNTER: &str = "counter of the cluster";
const ONE_EACH: &str = "the Go provisioner repeats finished work until its caches show it";
const CURE: &str =
    "refusals say in our own words what is wrong and what to do about it; the driver's errors are told alike";
const QUIET_UPDATE: &str = "an update or deletion of the claim starts a try of the Go provisioner, whatever it changes";
const WHOLE_OBJECT: &str = "the caches have no whole objects: what is to be updated is read first";
const RELEASED: &str = "the protection of a source is taken off when no clone is in flight, not when it is deleted";
const NO_SNAPSHOT_CACHE: &str =
    "snapshots are read when they are needed, and listed to look for protection left behind";
const DETACHED_FIRST: &str = "volumes are deleted when nothing is attached, whatever the driver can do";
const OF_OTHER_SETUPS: &str = "both look for protection left behind, Go's takes that of other drivers off: there are the snapshots of other setups";
const CONFLICT: &str =
    "claims that protect one source at the same time: the Go provisioner reports the conflict and tries again";
const WAITS_ARE_TOLD: &str = "a deleted volume says that it waits for its claim, if it is seen before the claim goes";
const HANDED_BACK: &str = "a claim whose node is not allowed goes back to the scheduler, if it is not deleted before";
const FAST_CALL: &str = "a call that takes less than a second is not announced";

pub(super) const RULES: &[Rule] = &[
    differ("*/*", "/volume/metadata/creationTimestamp", TIME),
    differ("*/*", "/volume/metadata/managedFields/*/time", TIME),
    differ("*/*", "/volume/metadata/resourceVersion", COUNTER),
    differ("*/*", "/volume/spec/claimRef/resourceVersion", COUNTER),
    differ("*/*", "/volume/status/lastPhaseTransitionTime", TIME),
    differ("*/*", "/events/*/*/firstTimestamp", TIME),
    differ("*/*", "/events/*/*/lastTimestamp", TIME),
    differ("*/*", "/events/*/*/metadata/creationTimestamp", TIME),
    differ("*/*", "/events/*/*/metadata/managedFields/*/time", TIME),
    differ("*/*", "/events/*/*/metadata/resourceVersion", COUNTER),
    differ("*/*", "/events/*/*/metadata/uid", "the event's own"),
    differ("*/*", "/events/*/*/involvedObject/resourceVersion", COUNTER),
    differ("*/*", "/backend/*/*/sequence", "the driver numbers volumes as they come"),
    // The driver is asked no more often than by the Go provisioner, and neither is the API server.
    less("/calls/CreateVolume/count", ONE_EACH),
    less("/calls/DeleteVolume/count", ONE_EACH),
    less("/requests/get secrets/count", ONE_EACH),
    less("/requests/create persistentvolumes/count", ONE_EACH),
    less("/requests/create persistentvolumes/codes/*", ONE_EACH),
    less("/requests/delete persistentvolumes", ONE_EACH),
    less("/requests/delete persistentvolumes/count", ONE_EACH),
    less("/requests/delete persistentvolumes/codes/*", ONE_EACH),
    less("/requests/patch persistentvolumes/count", ONE_EACH),
    less("/requests/patch persistentvolumes/codes/*", ONE_EACH),
    differ("*/*", "/requests/get persistentvolumeclaims", WHOLE_OBJECT),
    less("/events/PersistentVolumeClaim Normal ProvisioningSucceeded/*/count", ONE_EACH),
    less("/events/PersistentVolumeClaim Warning ProvisioningFailed/*/count", QUIET_UPDATE),
    less("/events/PersistentVolumeClaim Normal Provisioning/0/count", QUIET_UPDATE),
    less("/requests/create events/count", FAST_CALL),
    less("/requests/patch events", QUIET_UPDATE),
    less("/requests/patch events/count", FAST_CALL),
    differ("*/*", "/events/PersistentVolumeClaim Normal Provisioning", FAST_CALL),
    differ("refused/populated", "/events/PersistentVolumeClaim Normal Provisioning/1", FAST_CALL),
    differ(
        "refused/populated",
        "/events/PersistentVolumeClaim Normal Provisioning/0/reportingComponent",
        "one source for all events of a process",
    ),
    differ(
        "refused/populated",
        "/events/PersistentVolumeClaim Normal Provisioning/0/source/component",
        "one source for all events of a process",
    ),
    differ("refused/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    differ("forbidden/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    differ("places/no-such-node", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    differ("strict-places/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    differ("not-allowed/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    vary("not-allowed/*", "/requests/update persistentvolumeclaims", HANDED_BACK),
    vary("*/volume-first", "/events/PersistentVolume Normal VolumeDelete", WAITS_ARE_TOLD),
    differ("incapable-of-copies/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    differ("incapable-of-attributes/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    differ("refused-copies/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    differ("refused-attributes/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    differ("forbidden-attributes/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    differ("copies/process", "/sources/source/1", RELEASED),
    differ("copies/process", "/sources/block-source/1", RELEASED),
    differ("*/process", "/requests/watch volumesnapshots", NO_SNAPSHOT_CACHE),
    differ("*/process", "/requests/list volumeattachments", DETACHED_FIRST),
    differ("*/process", "/requests/list persistentvolumeclaims", PAGES),
    differ("*/process", "/requests/list persistentvolumes", PAGES),
    differ("*/process", "/requests/list storageclasses", PAGES),
    differ("*/process", "/requests/list csinodes", PAGES),
    differ("*/process", "/requests/list nodes", PAGES),
    differ("*/process", "/requests/list referencegrants", PAGES),
    differ("*/process", "/requests/watch volumeattachments", DETACHED_FIRST),
    differ("copies-across/process", "/sources/far-source/1", RELEASED),
    vary("copies-across/process", "/sources/far-snapshot/0", RELEASED),
    differ("refused-across/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    differ("no-copies-across/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    vary("*/process", "/requests/get volumesnapshots", OF_OTHER_SETUPS),
    vary("*/process", "/requests/get volumesnapshotcontents", OF_OTHER_SETUPS),
    vary("*/process", "/requests/update volumesnapshots", OF_OTHER_SETUPS),
    differ("untranslatable/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    differ("untranslatable/*", "/backend/afterwards/0", "what cannot be a volume of the plugin is deleted again"),
    differ("untranslatable-class/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    vary("copies/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed", CONFLICT),
    vary("copies/process", "/requests/update persistentvolumeclaims/*", CONFLICT),
    vary("copies/process", "/requests/update volumesnapshots/*", CONFLICT),
    differ("incapable/*", "/events/PersistentVolumeClaim Warning ProvisioningFailed/0/message", CURE),
    differ(
        "refused/no-class",
        "/events/PersistentVolumeClaim Warning ProvisioningFailed",
        "the Go provisioner only logs that the class is missing",
    ),
    differ("refused/no-class", "/requests/create events", "the event above"),
];
