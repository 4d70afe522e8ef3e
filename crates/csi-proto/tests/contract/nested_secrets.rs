//! The build script finds secrets at any depth. CSI 1.13 has them at the top of a message only, so this reads `nested.proto`.

use std::path::Path;

use prost_reflect::DescriptorPool;

use self::secret_fields::messages_with_secrets;

#[path = "../../build/secret_fields.rs"]
mod secret_fields;

#[test]
fn a_secret_is_found_through_fields_lists_maps_oneofs_and_cycles() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = protox::Compiler::new([here.join("tests/contract"), here.join("../../proto")]).unwrap();
    compiler.open_file("nested.proto").unwrap();
    let found: Vec<_> = messages_with_secrets(&compiler.descriptor_pool())
        .unwrap()
        .into_iter()
        .filter_map(|name| name.strip_prefix("nested.").map(str::to_owned))
        .collect();
    assert_eq!(found, ["Cycle", "Direct", "InCycle", "InField", "InList", "InMap", "InMap.ItemsEntry", "InOneof"]);
}

#[test]
fn without_the_option_the_build_stops() {
    let pool = DescriptorPool::global();
    assert!(pool.get_extension_by_name("csi.v1.csi_secret").is_none());
    let error = messages_with_secrets(&pool).unwrap_err();
    assert!(error.contains("csi.v1.csi_secret"), "{error}");
}
