//! Who the driver is.

pub(crate) mod handshake;

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
        } else {
            None
        }
    }
}
