//! Where the two resizers may differ, and why. Anything else fails, and so does a line that nothing needs.

use crate::differences::{PAGES, Rule, differ, lacks, less};

const LIVE: &str = "the one volume is read when its claim is to grow, and volumes are not watched";
const NO_PODS: &str = "pods are watched when the driver has said that a volume is in use, and not before";
const LOOKS_ONCE: &str = "whether pods may be seen at all is asked before they are watched";
const ONE_EACH: &str = "the Go resizer's own status writes wake it up, past its backoff";

const CURE: &str =
    "refusals say in our own words what is wrong and what to do about it; the driver's errors are told alike";
const IMPOSSIBLE: &str = "a size that cannot be is told, and not written";

const WAIT_IS_TOLD: &str = "a claim that asks for more while a smaller size waits for a pod says so (n7)";

pub(super) const RULES: &[Rule] = &[
    differ("*/*", "/requests/get persistentvolumes", LIVE),
    differ("*/process", "/requests/watch persistentvolumes", LIVE),
    differ("*/process", "/requests/watch pods", NO_PODS),
    differ("in-use/process", "/requests/list pods", LOOKS_ONCE),
    differ("*/process", "/requests/list persistentvolumeclaims", PAGES),
    differ("*/process", "/requests/list volumeattributesclasses", PAGES),
    differ("forbidden/kept", "/events/Warning VolumeResizeFailed/texts/0", CURE),
    differ("node/twice", "/events/Normal FileSystemResizeRequired/texts/1", WAIT_IS_TOLD),
    differ("nothing/volume", "/events/Warning VolumeResizeFailed/texts/0", CURE),
    differ("nothing/volume", "/requests/patch persistentvolumes", IMPOSSIBLE),
    less("/calls/*/count", ONE_EACH),
    less("/requests/*/count", ONE_EACH),
    lacks("*/*", "/requests/*/codes/*", "409", "one at a time works on a claim"),
];
