//! Generates the Rust side of `proto/` into `OUT_DIR`, without a protoc binary:
//!
//! protos → descriptor set (protox) → messages, clients and servers (tonic-prost-build)
//!                                  → `Sanitize` and secret-free `Debug` impls (`sanitize_impls`)
//!                                  → a list of all messages, for the tests only (`message_table`)
//!
//! Messages in which a `csi_secret` field can be reached get no derived `Debug`; `sanitize_impls` writes one.

mod message_table;
mod rust_paths;
mod sanitize_impls;
mod secret_fields;

use std::error::Error;
use std::path::Path;
use std::{env, fs};

struct Package {
    name: &'static str,
    file: &'static str,
    /// Where `src/lib.rs` includes what is generated.
    module: &'static str,
}

const PACKAGES: [Package; 2] = [
    Package { name: "csi.v1", file: "csi/csi.proto", module: "csi::v1" },
    Package {
        name: "pluginregistration",
        file: "pluginregistration/pluginregistration.proto",
        module: "pluginregistration::v1",
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    let protos = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    tell_cargo(&format!("rerun-if-changed={}", protos.display()));
    tell_cargo("rerun-if-changed=build");

    let mut compiler = protox::Compiler::new([&protos])?;
    compiler.open_files(PACKAGES.map(|package| package.file))?;
    compiler.include_imports(true);
    fs::write(out.join("descriptor_set.bin"), compiler.encode_file_descriptor_set())?;

    // For doc comments.
    compiler.include_source_info(true);
    let pool = compiler.descriptor_pool();
    tonic_prost_build::configure()
        .build_transport(false)
        // Sorted maps: the same message is always the same bytes, and the same line in a log.
        .btree_map(".")
        .skip_debug(secret_fields::messages_with_secrets(&pool)?.iter().map(|name| format!(".{name}")))
        .compile_fds(compiler.file_descriptor_set())?;

    for Package { name, .. } in PACKAGES {
        fs::write(out.join(format!("{name}.sanitize.rs")), sanitize_impls::generate(&pool, name)?)?;
    }
    let modules = PACKAGES.map(|package| (package.name, package.module));
    fs::write(out.join("message_table.rs"), message_table::generate(&pool, modules))?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "cargo reads its instructions there")]
fn tell_cargo(instruction: &str) {
    println!("cargo::{instruction}");
}
