//! CreateVolume, decided: what the request wants, or why it cannot be had. No I/O.

use std::collections::BTreeMap;

use csi_proto::csi::v1 as csi;
use tonic::Status;

use crate::capabilities::{Capabilities, Capability};
use crate::controller::mutable_parameters;
use crate::image;
use crate::state::{Access, ContentSource, SizeRange, SnapshotId, VolumeId, Wanted};
use crate::topology::{Places, Topology};
use crate::volume_capability;

/// Longest name in bytes (CSI "Size Limits").
const MAX_NAME: usize = 128;

/// Parameter of a class: how its mount volumes are kept.
const BACKING: &str = "backing";

/// The volume the request wants; secrets are not looked at.
pub(super) fn check(
    request: &csi::CreateVolumeRequest,
    capabilities: &Capabilities,
    places: &Places,
    mutable_parameters: &mutable_parameters::Known,
) -> Result<Wanted, Status> {
    check_name(&request.name)?;
    let used = volume_capability::access(&request.volume_capabilities, capabilities)?;
    let access = backed(used, &request.parameters, &request.volume_capabilities)?;
    let source = request.volume_content_source.as_ref().map(|source| content_source(source, capabilities));
    mutable_parameters::check_supported(&request.mutable_parameters, mutable_parameters, capabilities)?;
    let requirement = request.accessibility_requirements.as_ref();
    Ok(Wanted {
        name: request.name.clone(),
        size: size_range(request.capacity_range.as_ref())?,
        access,
        parameters: request.parameters.clone(),
        mutable_parameters: request.mutable_parameters.clone(),
        source: source.transpose()?,
        place: place(requirement, places)?.cloned(),
        requisite: requirement.iter().flat_map(|asked| &asked.requisite).map(Topology::from).collect(),
    })
}

fn content_source(source: &csi::VolumeContentSource, capabilities: &Capabilities) -> Result<ContentSource, Status> {
    use csi::volume_content_source::Type;
    let (source, id, needed) = match &source.r#type {
        Some(Type::Snapshot(snapshot)) => {
            let id = snapshot.snapshot_id.as_str();
            (ContentSource::Snapshot(SnapshotId::from(id)), id, Capability::CreateDeleteSnapshot)
        }
        Some(Type::Volume(volume)) => {
            let id = volume.volume_id.as_str();
            (ContentSource::Volume(VolumeId::from(id)), id, Capability::CloneVolume)
        }
        None => return Err(Status::invalid_argument("volume_content_source names neither a snapshot nor a volume")),
    };
    if id.is_empty() {
        return Err(Status::invalid_argument("volume_content_source needs the id of its snapshot or volume"));
    }
    if capabilities.has(needed) {
        return Ok(source);
    }
    Err(Status::invalid_argument(format!("this volume_content_source needs the capability {}", needed.name())))
}

/// Where the volume is made; none where volumes have no topology.
fn place<'a>(
    requirement: Option<&csi::TopologyRequirement>,
    places: &'a Places,
) -> Result<Option<&'a Topology>, Status> {
    let Some(requirement) = requirement else { return Ok(places.first()) };
    if places.is_empty() {
        return Err(Status::invalid_argument("accessibility_requirements need --topology or --known-topology"));
    }
    let place = places.choose(requirement);
    place.map(Some).ok_or_else(|| Status::resource_exhausted("no volumes are made in any of the requisite topologies"))
}

pub(super) fn check_name(name: &str) -> Result<(), Status> {
    if name.is_empty() {
        return Err(Status::invalid_argument("name is required"));
    }
    if name.len() > MAX_NAME {
        return Err(Status::invalid_argument(format!("name is {} bytes long, {MAX_NAME} are allowed", name.len())));
    }
    // Tab, line feed and carriage return are the control characters CSI allows.
    if name.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r')) {
        return Err(Status::invalid_argument("name contains control characters"));
    }
    Ok(())
}

/// How a volume is kept that is used like that.
fn backed(
    used: Access,
    parameters: &BTreeMap<String, String>,
    wanted: &[csi::VolumeCapability],
) -> Result<Access, Status> {
    match (parameters.get(BACKING).map(String::as_str), used) {
        (None | Some("directory"), Access::Mount) => Ok(Access::Mount),
        (None, Access::Block) => Ok(Access::Block),
        (Some("image"), Access::Mount) => {
            let mut foreign = wanted.iter().filter_map(volume_capability::file_system);
            match foreign.find(|name| *name != image::FILE_SYSTEM) {
                Some(name) => Err(Status::invalid_argument(format!(
                    "the file system of an image is {}, not {name}: leave out the fs_type",
                    image::FILE_SYSTEM
                ))),
                None => Ok(Access::Image),
            }
        }
        (Some(backing), _) => Err(Status::invalid_argument(format!(
            "parameter {BACKING}: {backing:?} is none for a {used} volume: directory (the default) or image, for mount volumes"
        ))),
        (None, Access::Image) => Ok(used),
    }
}

/// CSI "CapacityRange": 0 is unspecified, negative is not allowed.
pub(super) fn size_range(range: Option<&csi::CapacityRange>) -> Result<SizeRange, Status> {
    let (required, limit) = range.map_or((0, 0), |range| (range.required_bytes, range.limit_bytes));
    if required < 0 || limit < 0 {
        return Err(Status::invalid_argument("capacity_range must not be negative"));
    }
    if limit > 0 && limit < required {
        return Err(Status::out_of_range(format!("capacity_range: {required} bytes are required, {limit} the limit")));
    }
    Ok(SizeRange { required, limit: (limit > 0).then_some(limit) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use csi_proto::csi::v1::volume_capability::access_mode::Mode;
    use csi_proto::csi::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
    use csi_proto::csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
    use tonic::Code;

    use super::*;

    fn mount(mode: Mode) -> csi::VolumeCapability {
        csi::VolumeCapability {
            access_type: Some(AccessType::Mount(MountVolume::default())),
            access_mode: Some(AccessMode { mode: mode.into() }),
        }
    }

    fn block() -> csi::VolumeCapability {
        csi::VolumeCapability { access_type: Some(AccessType::Block(BlockVolume {})), ..mount(Mode::SingleNodeWriter) }
    }

    fn good() -> csi::CreateVolumeRequest {
        csi::CreateVolumeRequest {
            name: "pvc-1".to_owned(),
            volume_capabilities: vec![mount(Mode::SingleNodeWriter)],
            ..csi::CreateVolumeRequest::default()
        }
    }

    type Case = (&'static str, fn(&mut csi::CreateVolumeRequest), Code);

    #[test]
    fn requests_are_refused_with_the_code_of_the_specification() {
        let cases: &[Case] = &[
            ("no name", |r| r.name.clear(), Code::InvalidArgument),
            ("longest name", |r| r.name = "x".repeat(128), Code::Ok),
            ("name too long", |r| r.name = "x".repeat(129), Code::InvalidArgument),
            ("any other name", |r| r.name = "../ö\t/..".to_owned(), Code::Ok),
            ("control character", |r| r.name = "a\u{7f}".to_owned(), Code::InvalidArgument),
            ("no capabilities", |r| r.volume_capabilities.clear(), Code::InvalidArgument),
            ("no access type", |r| r.volume_capabilities[0].access_type = None, Code::InvalidArgument),
            ("no access mode", |r| r.volume_capabilities[0].access_mode = None, Code::InvalidArgument),
            ("unknown mode", |r| r.volume_capabilities = vec![mount(Mode::Unknown)], Code::InvalidArgument),
            (
                "future mode",
                |r| r.volume_capabilities[0].access_mode = Some(AccessMode { mode: 99 }),
                Code::InvalidArgument,
            ),
            ("RWOP", |r| r.volume_capabilities = vec![mount(Mode::SingleNodeSingleWriter)], Code::InvalidArgument),
            ("many nodes", |r| r.volume_capabilities = vec![mount(Mode::MultiNodeMultiWriter)], Code::Ok),
            ("block", |r| r.volume_capabilities = vec![block()], Code::Ok),
            ("block and mount", |r| r.volume_capabilities.push(block()), Code::InvalidArgument),
            ("source", |r| r.volume_content_source = Some(csi::VolumeContentSource::default()), Code::InvalidArgument),
            (
                "topology",
                |r| r.accessibility_requirements = Some(csi::TopologyRequirement::default()),
                Code::InvalidArgument,
            ),
            (
                "attributes class",
                |r| drop(r.mutable_parameters.insert("a".to_owned(), "b".to_owned())),
                Code::InvalidArgument,
            ),
            ("directory", |r| drop(r.parameters.insert(BACKING.to_owned(), "directory".to_owned())), Code::Ok),
            ("image", |r| drop(r.parameters.insert(BACKING.to_owned(), "image".to_owned())), Code::Ok),
            (
                "unknown backing",
                |r| drop(r.parameters.insert(BACKING.to_owned(), "tape".to_owned())),
                Code::InvalidArgument,
            ),
            (
                "image for a block volume",
                |r| {
                    r.volume_capabilities = vec![block()];
                    r.parameters.insert(BACKING.to_owned(), "image".to_owned());
                },
                Code::InvalidArgument,
            ),
            (
                "image with another file system",
                |r| {
                    let mount = MountVolume { fs_type: "ext4".to_owned(), ..MountVolume::default() };
                    r.volume_capabilities[0].access_type = Some(AccessType::Mount(mount));
                    r.parameters.insert(BACKING.to_owned(), "image".to_owned());
                },
                Code::InvalidArgument,
            ),
            ("exact size", |r| r.capacity_range = range(5, 5), Code::Ok),
            ("limit below required", |r| r.capacity_range = range(5, 4), Code::OutOfRange),
            ("negative required", |r| r.capacity_range = range(-1, 0), Code::InvalidArgument),
            ("negative limit", |r| r.capacity_range = range(0, -1), Code::InvalidArgument),
            ("empty range", |r| r.capacity_range = range(0, 0), Code::Ok),
        ];
        let capabilities = Capabilities::parse(crate::capabilities::DEFAULT).unwrap();
        for (name, change, code) in cases {
            let mut request = good();
            change(&mut request);
            let result = check(&request, &capabilities, &Places::default(), &mutable_parameters::Known::new());
            assert_eq!(result.map_or_else(|status| status.code(), |_| Code::Ok), *code, "{name}");
        }
    }

    fn copy_of(source: Type) -> csi::CreateVolumeRequest {
        let source = csi::VolumeContentSource { r#type: Some(source) };
        csi::CreateVolumeRequest { volume_content_source: Some(source), ..good() }
    }

    #[test]
    fn a_source_needs_an_id_and_its_capability() {
        let snapshot = |id: &str| Type::Snapshot(SnapshotSource { snapshot_id: id.to_owned() });
        let volume = |id: &str| Type::Volume(VolumeSource { volume_id: id.to_owned() });
        let (clones, snapshots) = ("CLONE_VOLUME", "CREATE_DELETE_SNAPSHOT");
        let (s, v) = (ContentSource::Snapshot("s".into()), ContentSource::Volume("v".into()));
        let cases = [
            (snapshot("s"), snapshots, Ok(s)),
            (snapshot("s"), clones, Err(Code::InvalidArgument)),
            (snapshot(""), snapshots, Err(Code::InvalidArgument)),
            (volume("v"), clones, Ok(v)),
            (volume("v"), snapshots, Err(Code::InvalidArgument)),
            (volume(""), clones, Err(Code::InvalidArgument)),
        ];
        assert_eq!(cases.len(), 6);
        for (source, capability, expected) in cases {
            let list = format!("CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,{capability}");
            let capabilities = Capabilities::parse(&list).unwrap();
            let wanted =
                check(&copy_of(source.clone()), &capabilities, &Places::default(), &mutable_parameters::Known::new());
            let found = wanted.map(|wanted| wanted.source.unwrap()).map_err(|status| status.code());
            assert_eq!(found, expected, "{source:?} with {capability}");
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "the type of the field")]
    fn range(required_bytes: i64, limit_bytes: i64) -> Option<csi::CapacityRange> {
        Some(csi::CapacityRange { required_bytes, limit_bytes })
    }

    #[test]
    fn a_volume_is_made_only_where_it_is_wanted() {
        let capabilities = Capabilities::parse(crate::capabilities::DEFAULT).unwrap();
        let zone = |zone: &str| Topology::parse(&[format!("zone={zone}")]).unwrap();
        let places = Places::new(&zone("a"), vec![zone("b")]);
        for (wanted, expected) in [("a", Ok(zone("a"))), ("b", Ok(zone("b"))), ("c", Err(Code::ResourceExhausted))] {
            let requisite = vec![zone(wanted).accessible().unwrap()];
            let requirement = csi::TopologyRequirement { requisite, preferred: Vec::new() };
            let request = csi::CreateVolumeRequest { accessibility_requirements: Some(requirement), ..good() };
            let wanted = check(&request, &capabilities, &places, &mutable_parameters::Known::new());
            assert_eq!(wanted.map(|wanted| wanted.place.unwrap()).map_err(|status| status.code()), expected);
        }
        assert_eq!(
            check(&good(), &capabilities, &places, &mutable_parameters::Known::new()).unwrap().place,
            Some(zone("a"))
        );
    }

    #[test]
    fn secrets_do_not_get_past_the_check() {
        let mut request = good();
        request.secrets.insert("password".to_owned(), "hunter2".to_owned());
        let capabilities = Capabilities::parse(crate::capabilities::DEFAULT).unwrap();
        let wanted = check(&request, &capabilities, &Places::default(), &mutable_parameters::Known::new()).unwrap();
        assert!(!format!("{wanted:?}").contains("hunter2"));
    }
}
