//! VolumeAttributesClasses at creation.

use e2e::OptionalRule;
use serde_json::{Value, json};

use super::{Course, ONCE, QUICK, Scenario, Setup, bound, parameters, setup};

const DRIVER: &[&str] = &["--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,MODIFY_VOLUME"];

pub(super) fn setups() -> Vec<Setup> {
    let classes = || {
        vec![
            class("gold.SITE", "SITE.outrigger.dev", &json!({ "iops": "700", "throughput": "5" })),
            class("foreign.SITE", "none.example.com", &json!({ "iops": "1" })),
            class("unknown.SITE", "SITE.outrigger.dev", &json!({ "colour": "blue" })),
        ]
    };
    let attributes = |name, flags, scenarios| Setup {
        driver: DRIVER,
        flags,
        objects: classes(),
        secrets_allowed: true,
        rules: &[OptionalRule::VolumeAttributesClasses],
        ..setup(name, scenarios)
    };
    let refused = |scenario| Scenario { course: Course::Refused, ..scenario };
    let secret = json!({ "csi.storage.k8s.io/controller-modify-secret-name": "${pvc.name}",
        "csi.storage.k8s.io/controller-modify-secret-namespace": "${pvc.namespace}" });
    vec![
        attributes(
            "attributes",
            &[QUICK],
            vec![of("gold", "gold.SITE"), of_class(parameters("with-secret", &secret), "gold.SITE"), bound("none")],
        ),
        attributes(
            "refused-attributes",
            ONCE,
            vec![
                refused(of("missing", "none.SITE")),
                refused(of("foreign", "foreign.SITE")),
                refused(of("unknown", "unknown.SITE")),
            ],
        ),
        Setup { rules: &[], ..attributes("forbidden-attributes", ONCE, vec![refused(of("gold", "gold.SITE"))]) },
        Setup { driver: &[], ..attributes("incapable-of-attributes", ONCE, vec![refused(of("gold", "gold.SITE"))]) },
        attributes("no-attributes", &[QUICK, "--feature-gates=VolumeAttributesClass=false"], vec![bound("none")]),
    ]
}

fn of(name: &'static str, class: &str) -> Scenario {
    of_class(bound(name), class)
}

fn of_class(scenario: Scenario, class: &str) -> Scenario {
    Scenario { claim: json!({ "volumeAttributesClassName": class }), ..scenario }
}

fn class(name: &str, driver: &str, parameters: &Value) -> Value {
    json!({ "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": { "name": name },
        "driverName": driver, "parameters": parameters })
}
