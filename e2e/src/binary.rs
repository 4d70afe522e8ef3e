//! Where the programs of this workspace are.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

/// The executable of this workspace with that name: from the environment (`CSI_PROVISIONER_BIN` for
/// `csi-provisioner`), else the one cargo put beside the running test or program.
///
/// # Errors
/// When it is not there, with the command that builds it.
pub fn bin(name: &str) -> Result<PathBuf> {
    let variable = format!("{}_BIN", name.to_uppercase().replace('-', "_"));
    let path = match std::env::var_os(&variable) {
        Some(path) => PathBuf::from(path),
        None => target_directory()?.join(name),
    };
    ensure!(path.is_file(), "{} is not built: run `make programs`, or set {variable}", path.display());
    Ok(path)
}

/// The static release build of that executable, which is what people run and what has a footprint worth measuring: from
/// the environment (`CSI_PROVISIONER_RELEASE_BIN` for `csi-provisioner`), else from cargo's directory for it.
///
/// # Errors
/// When it is not there, with the command that builds it.
pub fn release_bin(name: &str) -> Result<PathBuf> {
    let variable = format!("{}_RELEASE_BIN", name.to_uppercase().replace('-', "_"));
    let path = if let Some(path) = std::env::var_os(&variable) {
        PathBuf::from(path)
    } else {
        let built = |libc: &str| {
            let target = format!("{}-unknown-linux-{libc}", std::env::consts::ARCH);
            Ok::<_, anyhow::Error>(target_directory()?.with_file_name(target).join("release").join(name))
        };
        let (musl, glibc) = (built("musl")?, built("gnu")?);
        if musl.is_file() || !glibc.is_file() { musl } else { glibc }
    };
    ensure!(path.is_file(), "{} is not built: run `make release`, or set {variable}", path.display());
    Ok(path)
}

/// `target/debug`, also from a test executable in `target/debug/deps`.
fn target_directory() -> Result<PathBuf> {
    let running = std::env::current_exe().context("the path of the running program")?;
    let directory = running.parent().context("the running program has no directory")?;
    let directory = if directory.ends_with("deps") { directory.parent().unwrap_or(directory) } else { directory };
    Ok(directory.to_owned())
}
