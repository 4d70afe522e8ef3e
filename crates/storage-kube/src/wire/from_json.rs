//! Decoding, compiled in this crate.
//!
//! A process that starts in a large cluster decodes each volume, claim and attachment there is, and does little else. Generic
//! code is compiled where its types are filled in; filled in here, it is compiled as fast as the release profile makes
//! this crate, and nothing else of a program has to grow for it.

use std::borrow::Cow;

use super::{ClaimProgress, PersistentVolume, PersistentVolumeClaim, VolumeAttachment};

macro_rules! from_json {
    ($($kind:ident)*) => {$(
        impl $kind {
            /// Decodes one object.
            pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
                // Looked through once as a whole, and not each string in it.
                let text = str::from_utf8(json).map_or_else(|_| String::from_utf8_lossy(json), Cow::Borrowed);
                serde_json::from_str(&text)
            }
        }
    )*};
}

from_json!(ClaimProgress PersistentVolume PersistentVolumeClaim VolumeAttachment);
