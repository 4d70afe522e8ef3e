//! Asks the driver who it is, on every connection to it, for as long as the process lives.
//!
//! Dial → name → node facts → wait for the end of the connection → dial again. There is no limit in time: a driver that is not there,
//! hangs or fails is asked again, and every ten seconds a line says what is waited for.

use std::convert::Infallible;
use std::time::Duration;

use csi_client::{Address, CallError, CallMetrics, Code, Session, Waiting, pause_after_dial};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use crate::driver_identity::{DriverIdentity, Node, other_values};
use crate::error::Error;

/// How often the path is looked at while a connection is up: a driver may have a new socket while its old process lives on.
const FILE_INTERVAL: Duration = Duration::from_secs(5);
/// Between two questions the pause doubles from the first to the last of these.
const ASK_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// The longest a `NodeGetInfo` may take, which is as long as kubelet itself waits for it.
const LONGEST_NODE_INFO: Duration = Duration::from_mins(2);

/// For a node that has indeed moved.
const CURE: &str = "correct the driver, or drain the node, take the label off the Node and restart the registrar";

/// The questions and where the answers go.
pub(crate) struct DriverWatch {
    pub(crate) address: Address,
    /// Deadline of a question.
    pub(crate) timeout: Duration,
    /// The answers; `None` before the first.
    pub(crate) answers: watch::Sender<Option<DriverIdentity>>,
}

impl DriverWatch {
    /// Asks for ever. Resolves only when the first driver has no name.
    pub(crate) async fn run(self) -> Error {
        match self.follow().await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn follow(&self) -> Result<Infallible, Error> {
        let waiting = Waiting::new();
        // Connections without a single answer: a driver that accepts and dies is not dialled without pause.
        let mut in_vain = 0_u32;
        // The last answers that were told.
        let mut told = None;
        loop {
            let session = tokio::select! {
                biased;
                session = self.connect(&waiting, &mut in_vain) => session,
                never = waiting.report(&self.address) => match never {},
            };
            waiting.because("the driver accepted the connection and has not answered GetPluginInfo yet");
            tokio::select! {
                biased;
                () = gone(&session) => {}
                never = self.ask(&session, &waiting, &mut in_vain, &mut told) => match never? {},
            }
            // One that never answers is told of every ten seconds, not at each connection.
            if in_vain == 0 {
                info!(address = %self.address, "The CSI driver's socket is gone or another one, connecting again");
            }
            waiting.because("the driver closed the connection");
            session.close().await;
        }
    }

    async fn connect(&self, waiting: &Waiting, in_vain: &mut u32) -> Session {
        loop {
            if *in_vain > 0 {
                sleep(pause_after_dial(*in_vain - 1)).await;
            }
            *in_vain = in_vain.saturating_add(1);
            match Session::open(&self.address, &CallMetrics::none()).await {
                Ok(session) => return session,
                Err(error) => waiting.because(error.to_string()),
            }
        }
    }

    /// Name, then node facts, then nothing more on this connection. Facts that kubelet would refuse are not told, and asked for again.
    async fn ask(
        &self,
        session: &Session,
        waiting: &Waiting,
        in_vain: &mut u32,
        told: &mut Option<DriverIdentity>,
    ) -> Result<Infallible, Error> {
        let name = tokio::select! {
            biased;
            name = self.name(session, waiting) => name?,
            never = waiting.report(&self.address) => match never {},
        };
        *in_vain = 0;
        self.tell(&name, Node::NotAsked);
        let mut failures = 0;
        loop {
            let node = self.node(session, failures).await;
            let registered = told.as_ref().filter(|told| told.name == name);
            if let Some(change) = registered.and_then(|told| other_values(&told.node, &node)) {
                warn!(
                    change,
                    cure = CURE,
                    driver = name,
                    "The CSI driver answers another topology value and is asked again"
                );
            } else {
                let known = node != Node::Unknown;
                self.tell(&name, node.clone());
                if known {
                    *told = Some(DriverIdentity { name, node });
                    return std::future::pending().await;
                }
            }
            sleep(pause_after(failures)).await;
            failures = failures.saturating_add(1);
        }
    }

    async fn name(&self, session: &Session, waiting: &Waiting) -> Result<String, Error> {
        let mut failures = 0;
        loop {
            match session.plugin_info(self.timeout).await {
                Ok(info) if !info.name.is_empty() => return Ok(info.name),
                // Kubelet knows nothing yet, so this cannot be a driver that is just starting again.
                Ok(_) if self.answers.borrow().is_none() => {
                    return Err(Error::EmptyName { address: self.address.clone() });
                }
                Ok(_) => waiting.because("driver name is empty"),
                Err(error) => waiting.because(format!("GetPluginInfo: {error}")),
            }
            debug!(reason = %waiting.reason(), "No driver name");
            sleep(pause_after(failures)).await;
            failures = failures.saturating_add(1);
        }
    }

    async fn node(&self, session: &Session, failures: u32) -> Node {
        match session.node_info(node_info_timeout(self.timeout, failures)).await {
            Ok(response) => response.into(),
            Err(CallError::Status { code: Code::Unimplemented, .. }) => Node::NoFacts,
            Err(error) => {
                let consequence = "a change of node id or topology is noticed when it answers";
                warn!(%error, failures, consequence, "The CSI driver does not answer NodeGetInfo");
                Node::Unknown
            }
        }
    }

    fn tell(&self, name: &str, node: Node) {
        self.answers.send_replace(Some(DriverIdentity { name: name.to_owned(), node }));
    }
}

/// Resolves when the driver's side has ended, or its path leads elsewhere.
async fn gone(session: &Session) {
    let elsewhere = async {
        while session.socket_is_current() {
            sleep(FILE_INTERVAL).await;
        }
    };
    tokio::select! {
        biased;
        () = session.ended() => {}
        () = elsewhere => {}
    }
}

fn pause_after(failures: u32) -> Duration {
    let (first, last) = ASK_PAUSES;
    first.saturating_mul(2_u32.saturating_pow(failures)).min(last)
}

/// Longer each time: a driver that asks a slow backend for its node id would never answer within the first deadline.
fn node_info_timeout(timeout: Duration, failures: u32) -> Duration {
    timeout.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_NODE_INFO.max(timeout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_repeated_after_a_second_and_at_least_every_minute() {
        let pauses = [0, 1, 5, 6, 31, 32, u32::MAX].map(|failures| pause_after(failures).as_secs());
        assert_eq!(pauses, [1, 2, 32, 60, 60, 60, 60]);
    }

    #[test]
    fn a_slow_node_service_gets_more_time_each_time_up_to_kubelets_own_patience() {
        let limits = [0, 1, 6, 7, 40].map(|failures| node_info_timeout(Duration::from_secs(1), failures).as_secs());
        assert_eq!(limits, [1, 2, 64, 120, 120]);
        assert_eq!(node_info_timeout(Duration::from_mins(5), 3), Duration::from_mins(5));
    }
}
