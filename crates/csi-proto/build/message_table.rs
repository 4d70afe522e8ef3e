//! Writes a table of all messages, so that the tests can visit every Rust type by the name of its message.

use std::fmt::Write;

use prost_reflect::DescriptorPool;

use crate::rust_paths::type_path;

/// One line `("csi.v1.Volume", visit::<csi_proto::csi::v1::Volume>),` per message of the packages, which are given with the
/// paths of their modules. Whoever includes the table defines `visit`.
pub(crate) fn generate<'a>(pool: &DescriptorPool, packages: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut table = String::from("&[\n");
    for (package, module) in packages {
        for message in
            pool.all_messages().filter(|message| message.package_name() == package && !message.is_map_entry())
        {
            let name = message.full_name();
            let _ = writeln!(table, "    ({name:?}, visit::<csi_proto::{module}::{}>),", type_path(package, name));
        }
    }
    table + "]\n"
}
