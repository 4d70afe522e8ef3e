//! CreateVolume, decided: what the request wants, or why it cannot be had. No I/O.

use csi_proto::csi::v1 as csi;
use tonic::Status;

use crate::capabilities::Capabilities;
use crate::state::{SizeRange, Wanted};
use crate::topology::Topology;
use crate::volume_capability;

/// Longest name in bytes (CSI "Size Limits").
const MAX_NAME: usize = 128;

/// The volume the request wants; secrets are not looked at.
pub(super) fn check(
    request: &csi::CreateVolumeRequest,
    capabilities: &Capabilities,
    topology: &Topology,
) -> Result<Wanted, Status> {
    let unsupported = |field: &str| Status::invalid_argument(format!("{field} is not supported by this driver"));
    check_name(&request.name)?;
    let access = volume_capability::access(&request.volume_capabilities, capabilities)?;
    if request.volume_content_source.is_some() {
        return Err(unsupported("volume_content_source"));
    }
    match &request.accessibility_requirements {
        Some(_) if topology.is_empty() => return Err(unsupported("accessibility_requirements")),
        Some(requirement) if !topology.satisfies(requirement) => {
            return Err(Status::resource_exhausted("this node is in none of the requisite topologies"));
        }
        _ => {}
    }
    if !request.mutable_parameters.is_empty() {
        return Err(unsupported("mutable_parameters"));
    }
    Ok(Wanted {
        name: request.name.clone(),
        size: size_range(request.capacity_range.as_ref())?,
        access,
        parameters: request.parameters.clone().into_iter().collect(),
    })
}

fn check_name(name: &str) -> Result<(), Status> {
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

/// CSI "CapacityRange": 0 is unspecified, negative is not allowed.
fn size_range(range: Option<&csi::CapacityRange>) -> Result<SizeRange, Status> {
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
            let result = check(&request, &capabilities, &Topology::default());
            assert_eq!(result.map_or_else(|status| status.code(), |_| Code::Ok), *code, "{name}");
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "the type of the field")]
    fn range(required_bytes: i64, limit_bytes: i64) -> Option<csi::CapacityRange> {
        Some(csi::CapacityRange { required_bytes, limit_bytes })
    }

    #[test]
    fn a_volume_is_made_only_where_it_is_wanted() {
        let capabilities = Capabilities::parse(crate::capabilities::DEFAULT).unwrap();
        let here = Topology::parse(&["zone=a".to_owned()]).unwrap();
        for (zone, code) in [("a", Code::Ok), ("b", Code::ResourceExhausted)] {
            let wanted = Topology::parse(&[format!("zone={zone}")]).unwrap().accessible().unwrap();
            let requirement = csi::TopologyRequirement { requisite: vec![wanted], preferred: Vec::new() };
            let request = csi::CreateVolumeRequest { accessibility_requirements: Some(requirement), ..good() };
            let result = check(&request, &capabilities, &here);
            assert_eq!(result.map_or_else(|status| status.code(), |_| Code::Ok), code, "{zone}");
        }
    }

    #[test]
    fn secrets_do_not_get_past_the_check() {
        let mut request = good();
        request.secrets.insert("password".to_owned(), "hunter2".to_owned());
        let capabilities = Capabilities::parse(crate::capabilities::DEFAULT).unwrap();
        assert!(!format!("{:?}", check(&request, &capabilities, &Topology::default()).unwrap()).contains("hunter2"));
    }
}
