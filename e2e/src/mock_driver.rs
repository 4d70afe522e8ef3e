//! The CSI mock driver of Kubernetes' own end-to-end tests, as a driver that others wrote.

use anyhow::Result;

use crate::{
    Driver,
    programs::{self, MOCK_DRIVER},
};

/// Starts one and waits until it serves. It keeps its volumes in memory, knows one node id, its plugin name, and takes none
/// of `local-driver`'s further flags. Its journal has no caller's process id.
///
/// # Errors
/// When it cannot be built, or does not serve in time.
pub async fn start(name: &str) -> Result<Driver> {
    let mut driver = Driver::of(programs::ensured(&MOCK_DRIVER).await?, name, &[])?;
    driver.start_again().await?;
    Ok(driver)
}
