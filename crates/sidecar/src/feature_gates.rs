//! Feature gates: `--feature-gates=Name=true,Other=false`, checked against the gates a sidecar knows.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

use thiserror::Error;

use crate::exit::Exit;
use crate::flag_value::go_bool;

/// How far a feature has come; decides what the bulk switches `AllAlpha` and `AllBeta` turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Off unless asked for.
    Alpha,
    /// Near its final form.
    Beta,
    /// Final; the gate is there for those who still set it.
    GeneralAvailability,
    /// The Go sidecar no longer knows the gate, and ends when it is set. Manifests still set it, so it is only warned of.
    Removed {
        /// Version of the Go sidecar that no longer has the gate: the feature is always on.
        since: &'static str,
    },
}

/// A gate a sidecar knows.
#[derive(Debug, Clone, Copy)]
pub struct FeatureGate {
    /// The name in the flag, case-sensitive.
    pub name: &'static str,
    /// Its stage.
    pub stage: Stage,
    /// Its value when neither it nor a bulk switch is set.
    pub default: bool,
}

/// One value of `--feature-gates`, syntax checked but names not yet looked up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assignments(Vec<(String, bool)>);

/// Why a value of `--feature-gates` was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// No `=`.
    #[error("malformed pair {0:?}, expect Name=true or Name=false")]
    NoValue(String),
    /// A value that is no boolean.
    #[error("invalid value of {name}: {source}")]
    NotBool {
        /// The gate.
        name: String,
        /// What is wrong with the value.
        source: crate::flag_value::Error,
    },
}

impl FromStr for Assignments {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.split(',')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').ok_or_else(|| Error::NoValue(pair.to_owned()))?;
                let name = name.trim().to_owned();
                match go_bool(value.trim()) {
                    Ok(on) => Ok((name, on)),
                    Err(source) => Err(Error::NotBool { name, source }),
                }
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

/// The value of every known gate.
#[derive(Debug, Clone)]
pub struct FeatureGates {
    known: &'static [FeatureGate],
    set: HashMap<String, bool>,
}

impl FeatureGates {
    /// Applies `given` (later ones win) to the `known` gates. A name that is not known ends the start with code 255.
    ///
    /// A gate set by name keeps its value whatever `AllAlpha` and `AllBeta` say, in any order.
    pub fn new(known: &'static [FeatureGate], given: &[Assignments]) -> Result<Self, Exit> {
        let set: BTreeMap<&str, bool> =
            given.iter().flat_map(|assignments| &assignments.0).map(|(name, on)| (name.as_str(), *on)).collect();
        for name in set.keys().copied() {
            let Some(stage) = known.iter().find(|gate| gate.name == name).map(|gate| gate.stage) else {
                if name == ALL_ALPHA || name == ALL_BETA {
                    continue;
                }
                return Err(Exit::fatal(unknown(name, known)));
            };
            match stage {
                Stage::GeneralAvailability => {
                    tracing::warn!(gate = name, "Setting a GA feature gate; it can be left out");
                }
                Stage::Removed { since } => tracing::warn!(
                    gate = name,
                    since,
                    "Feature gate has no effect: the Go sidecar dropped it in that version, and the feature is always on; leave it out"
                ),
                Stage::Alpha | Stage::Beta => {}
            }
        }
        Ok(Self { known, set: set.into_iter().map(|(name, on)| (name.to_owned(), on)).collect() })
    }

    /// Whether the feature is on. A name that is not known is off.
    pub fn enabled(&self, name: &str) -> bool {
        let Some(gate) = self.known.iter().find(|gate| gate.name == name) else {
            return false;
        };
        let bulk = match gate.stage {
            Stage::Alpha => self.set.get(ALL_ALPHA),
            Stage::Beta => self.set.get(ALL_BETA),
            Stage::GeneralAvailability => None,
            Stage::Removed { .. } => return gate.default,
        };
        self.set_explicitly(name).or(bulk.copied()).unwrap_or(gate.default)
    }

    /// The value the command line gave this gate by name, if it did.
    pub fn set_explicitly(&self, name: &str) -> Option<bool> {
        self.set.get(name).copied()
    }
}

fn unknown(name: &str, known: &[FeatureGate]) -> String {
    let settable = known.iter().filter(|gate| !matches!(gate.stage, Stage::Removed { .. }));
    let names: Vec<&str> = settable.map(|gate| gate.name).chain([ALL_ALPHA, ALL_BETA]).collect();
    format!("--feature-gates: unrecognized feature gate: {name}; known are {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const KNOWN: &[FeatureGate] = &[
        FeatureGate { name: "Topology", stage: Stage::GeneralAvailability, default: true },
        FeatureGate { name: "CrossNamespaceVolumeDataSource", stage: Stage::Alpha, default: false },
        FeatureGate { name: "ReleaseLeaderElectionOnExit", stage: Stage::Alpha, default: false },
        FeatureGate { name: "Steady", stage: Stage::Beta, default: true },
    ];

    fn gates(values: &[&str]) -> Result<FeatureGates, Exit> {
        let given: Vec<Assignments> = values.iter().map(|v| v.parse().unwrap()).collect();
        FeatureGates::new(KNOWN, &given)
    }

    #[test]
    fn gates_take_defaults_bulk_switches_and_names_in_that_order() {
        // given; Topology, CrossNamespaceVolumeDataSource, ReleaseLeaderElectionOnExit, Steady
        let table: &[(&[&str], [bool; 4])] = &[
            (&[], [true, false, false, true]),
            (&[""], [true, false, false, true]),
            (&["Topology=false"], [false, false, false, true]),
            (&["AllAlpha=true"], [true, true, true, true]),
            (&["AllBeta=false"], [true, false, false, false]),
            (&["ReleaseLeaderElectionOnExit=false,AllAlpha=true"], [true, true, false, true]),
            (&["AllAlpha=true", "ReleaseLeaderElectionOnExit=f"], [true, true, false, true]),
            (&["Topology=false", "Topology=true"], [true, false, false, true]),
            (&[" Topology = 0 , Steady = F"], [false, false, false, false]),
        ];
        for (given, want) in table {
            let gates = gates(given).unwrap();
            let got = KNOWN.iter().map(|gate| gates.enabled(gate.name));
            assert!(got.eq(want.iter().copied()), "{given:?}");
        }
    }

    #[test]
    fn an_unknown_gate_is_fatal_and_named() {
        let exit = gates(&["Topology=true,Topologie=true"]).unwrap_err();
        assert_eq!(exit.code, 255);
        assert!(exit.message.contains("unrecognized feature gate: Topologie"), "{exit}");
        assert!(exit.message.contains("CrossNamespaceVolumeDataSource"));
    }

    #[test]
    fn o18_a_gate_that_the_go_sidecar_has_dropped_has_no_effect() {
        const DROPPED: &[FeatureGate] = &[
            FeatureGate { name: "Honored", stage: Stage::Removed { since: "6.2.0" }, default: true },
            FeatureGate { name: "Topology", stage: Stage::GeneralAvailability, default: true },
        ];
        let given = ["Topology=true,Honored=false".parse().unwrap()];
        assert!(FeatureGates::new(DROPPED, &given).unwrap().enabled("Honored"));
        let exit = FeatureGates::new(DROPPED, &["Honoured=true".parse().unwrap()]).unwrap_err();
        assert!(exit.message.ends_with("known are Topology, AllAlpha, AllBeta"), "{exit}");
    }

    #[test]
    fn a_pair_without_a_boolean_is_refused() {
        let error = "Topology".parse::<Assignments>().unwrap_err();
        assert!(error.to_string().contains("malformed pair \"Topology\""));
        let error = "Topology=maybe".parse::<Assignments>().unwrap_err();
        assert!(error.to_string().starts_with("invalid value of Topology: "));
    }

    #[test]
    fn only_gates_set_by_name_count_as_explicit() {
        let gates = gates(&["Topology=true,AllAlpha=true"]).unwrap();
        assert_eq!(gates.set_explicitly("Topology"), Some(true));
        assert_eq!(gates.set_explicitly("CrossNamespaceVolumeDataSource"), None);
    }
}
