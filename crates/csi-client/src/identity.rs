//! Who the driver is.

pub(crate) mod handshake;

use std::collections::BTreeMap;
use std::fmt;

use crate::{ControllerCapabilities, PluginCapabilities};

/// The name a driver gives itself in `GetPluginInfo`, for example `hostpath.csi.k8s.io`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DriverName(String);

impl DriverName {
    /// Stands where the driver was not asked ([`Handshake::Probe`]); the same word as in the metric.
    pub(crate) fn unknown() -> Self {
        Self("unknown-driver".to_owned())
    }
}

impl From<String> for DriverName {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl AsRef<str> for DriverName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DriverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What each new connection is asked before calls pass on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// `Probe` until ready.
    Probe,
    /// `Probe`, then `GetPluginInfo`.
    Name,
    /// `Probe`, `GetPluginInfo`, `GetPluginCapabilities` and `ControllerGetCapabilities`.
    Controller,
    /// As [`Self::Controller`], but a driver without the plugin capability `CONTROLLER_SERVICE` is not asked for
    /// `ControllerGetCapabilities`, which it need not answer.
    ControllerIfServed,
    /// As [`Self::Controller`], then `NodeGetInfo`: for a controller that serves the node it runs on.
    ControllerOfNode,
    /// As [`Self::ControllerIfServed`]; a driver whose controller cannot expand volumes is asked for `NodeGetCapabilities`.
    ControllerOrNodeExpansion,
}

/// What the handshake has found out. Equal on every connection of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverInfo {
    /// Its name; `unknown-driver` after [`Handshake::Probe`].
    pub name: DriverName,
    /// Empty unless asked for, see [`Handshake`].
    pub plugin: PluginCapabilities,
    /// Empty unless asked for, see [`Handshake`].
    pub controller: ControllerCapabilities,
    /// Segments of `NodeGetInfoResponse.accessible_topology`: where the driver's node is. `None` where the driver does not say, and
    /// unless asked for, see [`Handshake`].
    pub node_topology: Option<BTreeMap<String, String>>,
    /// Node capability `EXPAND_VOLUME`. `false` unless asked for, see [`Handshake`].
    pub node_expands: bool,
}

impl DriverInfo {
    /// Says how `other` differs, if it does.
    pub(crate) fn change_to(&self, other: &Self) -> Option<String> {
        if self.name != other.name {
            Some(format!("the name was {}, is {}", self.name, other.name))
        } else if self.plugin != other.plugin {
            Some(format!("the plugin capabilities of {} were {}, are {}", self.name, self.plugin, other.plugin))
        } else if self.controller != other.controller {
            Some(format!(
                "the controller capabilities of {} were {}, are {}",
                self.name, self.controller, other.controller
            ))
        } else if self.node_topology != other.node_topology {
            Some(format!(
                "the topology of the node of {} was {}, is {}",
                self.name,
                Place(self.node_topology.as_ref()),
                Place(other.node_topology.as_ref())
            ))
        } else if self.node_expands != other.node_expands {
            Some(format!(
                "EXPAND_VOLUME of the node service of {} was {}, is {}",
                self.name, self.node_expands, other.node_expands
            ))
        } else {
            None
        }
    }
}

/// Segments as `key=value`, for messages.
struct Place<'a>(Option<&'a BTreeMap<String, String>>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(segments) = self.0 else { return f.write_str("not given") };
        let segments: Vec<_> = segments.iter().map(|(key, value)| format!("{key}={value}")).collect();
        write!(f, "[{}]", segments.join(", "))
    }
}
