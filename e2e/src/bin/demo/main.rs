//! `make demo`: a volume's whole way on a real cluster, with a timeline on the terminal.
//!
//! On a machine that can have no node the way ends at the API server, and the demo says so.
#![expect(clippy::print_stdout, reason = "the terminal is where the demo happens")]

use anyhow::Result;
use e2e::Node;

mod api_only;
mod timeline;
mod whole_way;

use timeline::Timeline;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    println!("Outrigger demo: a volume on a real cluster\n");
    let timeline = Timeline::start();
    match tokio::task::spawn_blocking(Node::possible).await? {
        Ok(()) => whole_way::show(&timeline).await?,
        Err(reason) => {
            println!(
                "No node on this machine, so no pods: {reason:#}.\nWhat follows is the part with the API server alone.\n"
            );
            api_only::show(&timeline).await?;
        }
    }
    println!("\nDone. Everything started here is stopped and removed.");
    Ok(())
}
