//! The image of the test pods, made here: one static program, no registry.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::programs;

/// Name of the image in pods, for `imagePullPolicy: Never`. It is the node's pause image as well.
pub const NAME: &str = "localhost/outrigger-pod:1";
/// Path of the program in the image.
pub const PROGRAM: &str = "/pod-program";

const SOURCE: &str = include_str!("bin/pod-program.rs");
const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

/// Writes the image as an OCI archive, compiling the program first when the cache does not have it.
///
/// # Errors
/// When the program cannot be compiled (as a static one), or a file cannot be written.
pub fn write(path: &Path) -> Result<()> {
    let program = fs::read(pod_program()?)?;
    let file = fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    archive(file, &program)
}

/// Of the same source as the `pod-program` beside the tests, but static.
fn pod_program() -> Result<PathBuf> {
    let cache = programs::cache_directory()?.join("programs");
    let path = cache.join(format!("pod-program-{}", digest(SOURCE.as_bytes()).trim_start_matches("sha256:")));
    if path.is_file() {
        return Ok(path);
    }
    fs::create_dir_all(&cache)?;
    // Others may compile it at the same time.
    let directory = tempfile::tempdir_in(&cache)?;
    let unfinished = directory.path().join("pod-program");
    let mut refused = String::new();
    for (target, flags) in [("musl", "opt-level=s"), ("gnu", "target-feature=+crt-static")] {
        let target = format!("{}-unknown-linux-{target}", std::env::consts::ARCH);
        let output = Command::new("rustc")
            .args(["--edition=2024", "-Cstrip=symbols", "-Cpanic=abort", "--target", &target, "-C", flags, "-o"])
            .arg(&unfinished)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/pod-program.rs"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .context("cannot run rustc")?;
        if output.status.success() {
            fs::rename(&unfinished, &path)?;
            return Ok(path);
        }
        refused.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    bail!("cannot compile a static program for the pods: {refused}")
}

/// The OCI image layout in a tar: one layer, one manifest, one index.
fn archive(output: impl Write, program: &[u8]) -> Result<()> {
    let layer = layer(program)?;
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    // Process 1 of a container ignores every signal it does not handle, and the program handles none.
    let config = json!({ "architecture": architecture, "os": "linux",
        "config": { "Entrypoint": [PROGRAM], "Cmd": ["pause"], "StopSignal": "SIGKILL" },
        "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] } });
    let config = config.to_string().into_bytes();
    let manifest = json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("config.v1+json", &config),
        "layers": [described("layer.v1.tar", &layer)] });
    let manifest = manifest.to_string().into_bytes();
    let mut described = described("manifest.v1+json", &manifest);
    described["annotations"] = json!({ "io.containerd.image.name": NAME });
    let index = json!({ "schemaVersion": 2, "manifests": [described] }).to_string();

    let mut archive = tar::Builder::new(output);
    add(&mut archive, "oci-layout", 0o644, LAYOUT.as_bytes())?;
    add(&mut archive, "index.json", 0o644, index.as_bytes())?;
    for blob in [&layer, &config, &manifest] {
        add(&mut archive, &format!("blobs/{}", digest(blob).replace(':', "/")), 0o644, blob)?;
    }
    Ok(archive.into_inner()?.flush()?)
}

fn layer(program: &[u8]) -> Result<Vec<u8>> {
    let mut layer = tar::Builder::new(Vec::new());
    add(&mut layer, PROGRAM.trim_start_matches('/'), 0o755, program)?;
    Ok(layer.into_inner()?)
}

fn add(archive: &mut tar::Builder<impl Write>, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(u64::try_from(bytes.len())?);
    header.set_mode(mode);
    header.set_cksum();
    Ok(archive.append_data(&mut header, path, bytes)?)
}

fn described(kind: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": format!("application/vnd.oci.image.{kind}"), "digest": digest(bytes), "size": bytes.len() })
}

fn digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_archive_holds_each_blob_under_its_digest() {
        let mut bytes = Vec::new();
        archive(&mut bytes, b"program").unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut blobs = 0;
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
            if let Some(name) = path.strip_prefix("blobs/") {
                assert_eq!(digest(&content), name.replace('/', ":"));
                blobs += 1;
            }
        }
        assert_eq!(blobs, 3);
    }
}
