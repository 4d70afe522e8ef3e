//! Builds the Go programs of the clusters and the tests up front, so that no test has to.

use anyhow::Result;
use e2e::{Node, programs};

fn main() -> Result<()> {
    for program in programs::ALL {
        programs::ensure(program)?;
    }
    if Node::possible().is_ok() {
        for program in programs::node::ALL {
            programs::ensure(program)?;
        }
    }
    for upstream in programs::Upstream::ALL {
        programs::upstream_module(upstream)?;
    }
    Ok(())
}
