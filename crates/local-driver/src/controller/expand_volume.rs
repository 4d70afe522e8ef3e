//! ControllerExpandVolume, decided: the size that is wanted, or why it cannot be had. No I/O.

use csi_proto::csi::v1 as csi;
use tonic::Status;

use crate::capabilities::Capabilities;
use crate::controller::create_volume;
use crate::state::{Access, SizeRange, VolumeId};
use crate::volume_capability;

/// An expansion that is wanted.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) id: VolumeId,
    pub(super) size: SizeRange,
    /// How the volume is used, if the caller says it.
    pub(super) access: Option<Access>,
}

/// What the request wants; secrets are not looked at.
pub(super) fn check(
    request: &csi::ControllerExpandVolumeRequest,
    capabilities: &Capabilities,
    max_volume_size: Option<i64>,
) -> Result<Wanted, Status> {
    let id = super::volume_id("volume_id", &request.volume_id)?;
    let range = request.capacity_range.as_ref();
    if range.is_none_or(|range| range.required_bytes == 0 && range.limit_bytes == 0) {
        return Err(Status::invalid_argument("capacity_range is required, with required_bytes or limit_bytes"));
    }
    let size = within(create_volume::size_range(range)?, max_volume_size)?;
    let capability = request.volume_capability.as_ref().map(std::slice::from_ref);
    let access = capability.map(|capability| volume_capability::access(capability, capabilities)).transpose()?;
    Ok(Wanted { id, size, access })
}

/// The sizes of the range that a volume may have.
pub(super) fn within(size: SizeRange, max_volume_size: Option<i64>) -> Result<SizeRange, Status> {
    let Some(max) = max_volume_size else { return Ok(size) };
    if size.required > max {
        let message = format!("{} bytes are required, --max-volume-size allows {max}", size.required);
        return Err(Status::out_of_range(message));
    }
    Ok(SizeRange { limit: Some(size.limit.map_or(max, |limit| limit.min(max))), ..size })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use tonic::Code;

    use super::*;

    #[test]
    fn requests_are_refused_with_the_code_of_the_specification() {
        let range = |required_bytes, limit_bytes| Some(csi::CapacityRange { required_bytes, limit_bytes });
        let cases = [
            ("no volume", "", range(5, 0), Err(Code::InvalidArgument)),
            ("no range", "v", None, Err(Code::InvalidArgument)),
            ("empty range", "v", range(0, 0), Err(Code::InvalidArgument)),
            ("negative", "v", range(-5, 0), Err(Code::InvalidArgument)),
            ("limit below required", "v", range(5, 4), Err(Code::OutOfRange)),
            ("too large", "v", range(11, 0), Err(Code::OutOfRange)),
            ("largest", "v", range(10, 0), Ok((10, Some(10)))),
            ("limit alone", "v", range(0, 7), Ok((0, Some(7)))),
            ("high limit", "v", range(5, 20), Ok((5, Some(10)))),
        ];
        assert_eq!(cases.len(), 9);
        let capabilities = Capabilities::parse("CONTROLLER_SERVICE,EXPAND_VOLUME").unwrap();
        for (name, id, capacity_range, expected) in cases {
            let request = csi::ControllerExpandVolumeRequest {
                volume_id: id.to_owned(),
                capacity_range,
                ..csi::ControllerExpandVolumeRequest::default()
            };
            let wanted = check(&request, &capabilities, Some(10));
            let found = wanted.map(|wanted| (wanted.size.required, wanted.size.limit)).map_err(|status| status.code());
            assert_eq!(found, expected, "{name}");
        }
    }
}
