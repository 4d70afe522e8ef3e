//! Where the two attachers may differ, and why. Anything else fails, and so does a line that nothing needs.

use crate::differences::{PAGES, Rule, differ, lacks, less, vary};

const COUNTER: &str = "counter of the cluster";
const UID: &str = "the object's own";
const GUARD: &str = "patches are for the object and version that was looked at";
const GONE: &str = "an attachment without finalizer is gone, and its status with it";
const ONE_EACH: &str = "the Go attacher repeats finished work until its caches show it";
const ERROR_STAYS: &str = "the Go attacher leaves the error of an earlier try on what it has attached";
const TWO_CLOCKS: &str = "the driver may tell the deadline before the caller notices it";
const LOOK: &str = "before something is refused or repeated because of what a cache shows, the API server is asked";
const CURE: &str =
    "refusals say in our own words what is wrong and what to do about it; the driver's errors are told alike";
const NOT_OURS: &str = "nothing is written to a volume that is no volume of the driver";
const NODE_COMES: &str = "an attachment waits for its node to register the driver";
const NODE_RETURNS: &str = "a volume is taken from the node id it was published to, and from the present one";

/// What Go's writes say when it detaches once more what it has detached, and the attachment is gone meanwhile.
const DETACHED_ONCE_MORE: &str =
    r#"{"status":{"detachError":{"message":"could not mark as detached: volumeattachments.storage.k8s.io "#;

pub(super) const RULES: &[Rule] = &[
    differ("*/*", "/seen/*/metadata/resourceVersion", COUNTER),
    differ("*/*", "/seen/*/metadata/uid", UID),
    differ("*/*", "/requests/*/bodies/*/metadata/uid", GUARD),
    differ("*/*", "/requests/*/bodies/*/metadata/resourceVersion", GUARD),
    differ("*/*", "/requests/*/bodies/*/metadata", GUARD),
    lacks("*/*", "/requests/*/bodies/*", r#"{"status":{"attached":false,"#, GONE),
    lacks("*/*", "/requests/*/bodies/*", DETACHED_ONCE_MORE, ONE_EACH),
    lacks("*/*", "/requests/*/codes/*", "404", GONE),
    less("/calls/ControllerPublishVolume/count", ONE_EACH),
    less("/calls/ControllerUnpublishVolume/count", ONE_EACH),
    less("/requests/*/count", ONE_EACH),
    differ("*/process", "/requests/list volumeattachments", PAGES),
    differ("*/process", "/requests/list persistentvolumes", PAGES),
    differ("*/process", "/requests/list csinodes", PAGES),
    differ("*/*", "/requests/get persistentvolumes", LOOK),
    differ("listing/lost", "/requests/get volumeattachments", LOOK),
    differ("refused/*", "/requests/*/bodies/*/status/attachError/message", CURE),
    differ("refused/*", "/seen/refused/status/attachError/message", CURE),
    differ("forbidden/*", "/requests/*/bodies/*/status/attachError/message", CURE),
    differ("forbidden/*", "/seen/refused/status/attachError/message", CURE),
    differ("refused/other-source", "/requests/patch persistentvolumes", NOT_OURS),
    vary("refused/other-source", "/seen/volume/metadata/**", NOT_OURS),
    lacks("*/*", "/seen/attached/status/attachError", "{", ERROR_STAYS),
    lacks("*/*", "/seen/attached/metadata/managedFields/*/f:status/f:attachError", "{", ERROR_STAYS),
    vary("publish-slow/*", "/requests/*/bodies/*/status/attachError/message", TWO_CLOCKS),
    vary("publish-slow/*", "/requests/*/bodies/*/status/attachError/errorCode", TWO_CLOCKS),
    vary(
        "publish-slow/*",
        "/calls/ControllerPublishVolume/count",
        "the driver may end before it has written down a call that its caller has given up",
    ),
    differ("refused/node-late", "/requests/patch volumeattachments~status/**", NODE_COMES),
    differ("courses/node-returned", "/calls/ControllerUnpublishVolume/requests/1", NODE_RETURNS),
    differ("courses/node-returned", "/calls/ControllerUnpublishVolume/count", NODE_RETURNS),
    differ("courses/node-returned", "/left at the driver/0", NODE_RETURNS),
    differ("trivial/process", "/requests/watch persistentvolumes", "a driver that does not attach needs no volumes"),
];
