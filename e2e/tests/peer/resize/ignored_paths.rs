//! Where the two resizers may differ, and why. Anything else fails, and so does a line that nothing needs.

use crate::differences::{Rule, differ, lacks, less, vary};

const LIVE: &str = "the one volume is read when its claim is to grow, and volumes are not watched";
const NO_PODS: &str = "pods are watched when the driver has said that a volume is in use, and not before";
const ONE_EACH: &str = "the Go resizer's own status writes wake it up, past its backoff";

pub(super) const RULES: &[Rule] = &[
    differ("*/*", "/requests/get persistentvolumes", LIVE),
    differ("*/process", "/requests/watch persistentvolumes", LIVE),
    differ("*/process", "/requests/watch pods", NO_PODS),
    less("/calls/*/count", ONE_EACH),
    less("/requests/*/count", ONE_EACH),
    lacks("/requests/*/codes/*", "409", "one at a time works on a claim"),
];
