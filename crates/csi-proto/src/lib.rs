//! The wire contract: messages, clients and servers of CSI 1.13 and of the kubelet's plugin registration.
//!
//! `proto/*.proto` → `build/` (at compile time) → the modules here. Two things are added to what tonic and prost generate:
//! every message can write itself as one line of JSON with its secrets hidden ([`Sanitize`]), and the messages that can hold
//! secrets have that text as their [`Debug`](std::fmt::Debug) form. So no log line can show a secret by printing a message;
//! printing the `secrets` field itself still does.

mod sanitize;

pub use sanitize::Sanitize;

/// Container Storage Interface.
pub mod csi {
    /// Package `csi.v1` of CSI 1.13.
    #[expect(clippy::pedantic, reason = "generated code")]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/csi.v1.rs"));
        include!(concat!(env!("OUT_DIR"), "/csi.v1.sanitize.rs"));
    }
}

/// Kubelet's plugin registration.
pub mod pluginregistration {
    /// Version 1 (the package name on the wire is `pluginregistration`, without a version).
    #[expect(clippy::pedantic, reason = "generated code")]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/pluginregistration.rs"));
        include!(concat!(env!("OUT_DIR"), "/pluginregistration.sanitize.rs"));
    }
}

/// Encoded `google.protobuf.FileDescriptorSet` of `proto/` with the files they import, for reflection. No comments in it.
///
/// Takes no space in a binary that does not name it.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor_set.bin"));
