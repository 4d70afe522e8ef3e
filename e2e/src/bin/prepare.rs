//! Builds the Go programs of the clusters and the tests up front, so that no test has to.

use anyhow::Result;
use e2e::programs;

fn main() -> Result<()> {
    for program in programs::ALL {
        programs::ensure(program)?;
    }
    programs::upstream_module()?;
    Ok(())
}
