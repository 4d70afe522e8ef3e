//! The calls of the CSI Controller service, as values.

/// Declares [`Rpc`] with the full name of each method, so that the two cannot differ.
macro_rules! controller_rpcs {
    ($($name:ident)+) => {
        /// One method of the CSI Controller service.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Rpc {
            $(#[doc = concat!("`", stringify!($name), "`")] $name,)+
        }

        impl Rpc {
            /// Every method.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Full method name: the path of the request and the `method_name` of the metric.
            pub const fn method(self) -> &'static str {
                match self {
                    $(Self::$name => concat!("/csi.v1.Controller/", stringify!($name)),)+
                }
            }
        }
    };
}

controller_rpcs! {
    CreateVolume
    DeleteVolume
    ControllerPublishVolume
    ControllerUnpublishVolume
    ValidateVolumeCapabilities
    ListVolumes
    ControllerListVolumeHealth
    ControllerGetVolumeHealth
    GetCapacity
    ControllerGetCapabilities
    CreateSnapshot
    DeleteSnapshot
    ListSnapshots
    GetSnapshot
    ControllerExpandVolume
    ControllerGetVolume
    ControllerModifyVolume
}
