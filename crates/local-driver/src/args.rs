//! Flags, and the checked configuration made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Parser;
use tracing::level_filters::LevelFilter;

use crate::capabilities::{self, Capabilities, Capability};
use crate::error::Error;
use crate::fault::Fault;
use crate::topology::{Places, Topology};

/// A CSI driver that keeps each volume as a directory or a file below --state-dir, on one node.
#[derive(Clone, Debug, Parser)]
#[command(name = "local-driver", version)]
pub struct Args {
    /// Socket to serve.
    #[arg(long, value_name = "SOCKET", help = "Socket to serve: unix:///path/to/csi.sock or an absolute path")]
    pub endpoint: String,

    /// Directory for volumes and their records; created when missing, used by one driver at a time.
    #[arg(long, value_name = "DIR")]
    pub state_dir: PathBuf,

    /// Name of the driver (`provisioner` in a StorageClass).
    #[arg(long, value_name = "NAME", default_value = "local.outrigger.dev")]
    pub driver_name: String,

    /// Name of this node; the host name unless given.
    #[arg(long, value_name = "ID")]
    pub node_id: Option<String>,

    /// A node that ControllerPublishVolume accepts besides this one, may be repeated; any node unless given.
    #[arg(long = "known-node", value_name = "ID")]
    pub known_nodes: Vec<String>,

    /// Volumes a node takes, for NodeGetInfo and ControllerPublishVolume; no limit unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_volumes_per_node: Option<u32>,

    /// A topology segment of this node as KEY=VALUE, may be repeated; with it the driver has
    /// `VOLUME_ACCESSIBILITY_CONSTRAINTS`.
    #[arg(long = "topology", value_name = "KEY=VALUE")]
    pub topology: Vec<String>,

    /// A place besides this node's in which CreateVolume makes volumes, for clusters whose nodes are not all real:
    /// KEY=VALUE,KEY=VALUE; may be repeated. Elsewhere it is `RESOURCE_EXHAUSTED`.
    #[arg(long = "known-topology", value_name = "SEGMENTS")]
    pub known_topologies: Vec<String>,

    /// Capabilities to advertise, separated by commas; also known: `PUBLISH_UNPUBLISH_VOLUME`, `PUBLISH_READONLY`,
    /// `LIST_VOLUMES_PUBLISHED_NODES`, `GET_CAPACITY`, `CREATE_DELETE_SNAPSHOT`, `LIST_SNAPSHOTS`, `GET_SNAPSHOT`,
    /// `CLONE_VOLUME`, `MODIFY_VOLUME`, `EXPAND_VOLUME`, `VOLUME_EXPANSION_OFFLINE`, `VOLUME_ACCESSIBILITY_CONSTRAINTS`
    /// (comes with --topology), `SINGLE_NODE_MULTI_WRITER`, and of the node `STAGE_UNSTAGE_VOLUME`, `GET_VOLUME_STATS`,
    /// `NODE_EXPAND_VOLUME`.
    #[arg(long, value_name = "LIST", default_value = capabilities::DEFAULT)]
    pub capabilities: String,

    /// A parameter that `MODIFY_VOLUME` lets a VolumeAttributesClass set, as KEY or as KEY=VALUE,VALUE with the values it
    /// may have; may be repeated. Others are `INVALID_ARGUMENT`. Values are recorded and have no effect.
    #[arg(long = "mutable-parameter", value_name = "KEY[=VALUES]", default_values = ["iops", "throughput"])]
    pub mutable_parameters: Vec<String>,

    /// Bytes all volumes and snapshots may take together; without it, CreateVolume has no limit and `GetCapacity` asks
    /// the file system.
    #[arg(long, value_name = "BYTES")]
    pub capacity: Option<i64>,

    /// Bytes one volume may have: more is `OUT_OF_RANGE` for CreateVolume and ControllerExpandVolume.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(i64).range(1..))]
    pub max_volume_size: Option<i64>,

    /// Bytes that ControllerExpandVolume says a volume has, whatever it has: for tests of callers.
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub answered_size: Option<i64>,

    /// Makes calls slow or fail, may be repeated: RPC:KEY=VALUE,... with the keys delay=TIME (before the work),
    /// answer-delay=TIME (after the work), code=CODE (instead of the work), after=CODE (the work is done, then the
    /// error is answered), message=TEXT, times=N (calls it holds for, for ever unless given).
    /// Example: CreateVolume:delay=2s,code=ABORTED,times=2.
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<String>,

    /// File to which every finished call is appended as one line of JSON.
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,

    /// Log level: off, error, warn, info, debug, trace.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: LevelFilter,
}

/// What the driver runs with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Absolute path of the socket.
    pub socket: PathBuf,
    /// Directory of volumes and records.
    pub state_dir: PathBuf,
    /// Plugin name.
    pub driver_name: String,
    /// Node id.
    pub node_id: String,
    /// Nodes besides this one; empty means that any is accepted.
    pub known_nodes: BTreeSet<String>,
    /// Volumes a node takes.
    pub max_volumes_per_node: Option<u32>,
    /// Topology of this node.
    pub topology: Topology,
    /// Where volumes are made.
    pub places: Places,
    /// What is advertised.
    pub capabilities: Capabilities,
    /// Mutable parameters: keys with the values they may have, none for any.
    pub mutable_parameters: BTreeMap<String, Vec<String>>,
    /// Limit on the bytes of all volumes and snapshots together.
    pub capacity: Option<i64>,
    /// Limit on the bytes of one volume.
    pub max_volume_size: Option<i64>,
    /// What ControllerExpandVolume says instead of the truth.
    pub answered_size: Option<i64>,
    /// Injected faults, first match wins.
    pub faults: Vec<Fault>,
    /// Journal file.
    pub journal: Option<PathBuf>,
}

impl TryFrom<&Args> for Config {
    type Error = Error;

    fn try_from(args: &Args) -> Result<Self, Error> {
        let faults = args
            .faults
            .iter()
            .map(|fault| fault.parse().map_err(|reason| Error::Fault { fault: fault.clone(), reason }));
        let topology = Topology::parse(&args.topology)?;
        let places = Places::new(&topology, known_topologies(&args.known_topologies)?);
        let capabilities = Capabilities::parse(&args.capabilities)?;
        if capabilities.has(Capability::VolumeAccessibilityConstraints) && places.is_empty() {
            let dependent = Capability::VolumeAccessibilityConstraints.name();
            return Err(Error::CapabilityAlone { dependent, on: "--topology or --known-topology" });
        }
        Ok(Self {
            socket: socket_path(&args.endpoint)?,
            state_dir: args.state_dir.clone(),
            driver_name: driver_name(&args.driver_name)?,
            node_id: args.node_id.clone().unwrap_or_else(host_name),
            known_nodes: args.known_nodes.iter().cloned().collect(),
            max_volumes_per_node: args.max_volumes_per_node,
            topology,
            places,
            capabilities,
            mutable_parameters: args.mutable_parameters.iter().map(|flag| mutable_parameter(flag)).collect(),
            capacity: args
                .capacity
                .map(|bytes| if bytes < 0 { Err(Error::Capacity(bytes)) } else { Ok(bytes) })
                .transpose()?,
            max_volume_size: args.max_volume_size,
            answered_size: args.answered_size,
            faults: faults.collect::<Result<_, _>>()?,
            journal: args.journal.clone(),
        })
    }
}

fn socket_path(endpoint: &str) -> Result<PathBuf, Error> {
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    if path.starts_with('/') && !path.ends_with('/') {
        Ok(PathBuf::from(path))
    } else {
        Err(Error::Endpoint(endpoint.to_owned()))
    }
}

fn mutable_parameter(flag: &str) -> (String, Vec<String>) {
    let (key, values) = flag.split_once('=').unwrap_or((flag, ""));
    let values = values.split(',').filter(|value| !value.is_empty());
    (key.to_owned(), values.map(str::to_owned).collect())
}

fn known_topologies(flags: &[String]) -> Result<Vec<Topology>, Error> {
    let segments = |flag: &String| flag.split(',').map(str::to_owned).collect::<Vec<_>>();
    flags.iter().map(|flag| Topology::parse(&segments(flag))).collect()
}

/// CSI "GetPluginInfo": domain name notation, at most 63 characters, alphanumeric at both ends.
fn driver_name(name: &str) -> Result<String, Error> {
    let inner = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if inner && name.len() <= 63 && ends(name.chars().next()) && ends(name.chars().next_back()) {
        Ok(name.to_owned())
    } else {
        Err(Error::DriverName(name.to_owned()))
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn config(flags: &[&str]) -> Result<Config, String> {
        let always = ["local-driver", "--endpoint", "/run/csi.sock", "--state-dir", "/var/lib/local"];
        let args = Args::try_parse_from(always.iter().chain(flags)).map_err(|error| error.to_string())?;
        Config::try_from(&args).map_err(|error| error.to_string())
    }

    #[test]
    fn endpoints_are_absolute_paths_with_or_without_the_scheme() {
        assert_eq!(socket_path("unix:///run/a.sock").unwrap(), PathBuf::from("/run/a.sock"));
        assert_eq!(socket_path("/run/a.sock").unwrap(), PathBuf::from("/run/a.sock"));
        for wrong in ["", "a.sock", "unix://a.sock", "tcp://127.0.0.1:1", "/run/"] {
            assert!(socket_path(wrong).unwrap_err().to_string().contains("unix:///path"), "{wrong}");
        }
    }

    #[test]
    fn flags_alone_are_enough_to_start() {
        let config = config(&[]).unwrap();
        assert_eq!(config.driver_name, "local.outrigger.dev");
        assert!(!config.node_id.is_empty() && config.faults.is_empty() && config.journal.is_none());
    }

    #[test]
    fn wrong_flags_name_themselves() {
        for (flags, part) in [
            (["--driver-name", "a_b"], "--driver-name"),
            (["--driver-name", ""], "--driver-name"),
            (["--capacity", "ten"], "--capacity"),
            (["--fault", "CreateVolume"], "--fault"),
            (["--capabilities", "NONE"], "--capabilities"),
            (["--log-level", "loud"], "--log-level"),
            (["--topology", "zone"], "--topology"),
            (["--known-topology", "zone=a,rack"], "\"rack\""),
            (
                ["--capabilities", "CONTROLLER_SERVICE,VOLUME_ACCESSIBILITY_CONSTRAINTS"],
                "without --topology or --known-topology",
            ),
            (["--max-volumes-per-node", "0"], "--max-volumes-per-node"),
            (["--max-volume-size", "0"], "--max-volume-size"),
        ] {
            let message = config(&flags).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
        assert!(config(&["--capacity=-1"]).unwrap_err().contains("--capacity -1"));
    }
}
