//! One `CreateVolume` call and the checks of its answer.

pub(crate) mod request;

use std::time::Duration;

use controller_runtime::EventKind;
use csi_client::{CallError, ControllerClient};
use csi_proto::csi::v1::{CreateVolumeResponse, DeleteVolumeRequest, Volume};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::capacity::refresh;
use crate::claim::claim_reference;
use crate::error::ProvisionError;
use crate::persistent_volume::{NewVolume, capacity, new_volume};
use crate::term_context::TermContext;
use request::Plan;

/// A call that takes longer than this is announced on the claim, so that the wait has a visible reason.
const SLOW_CALL: Duration = Duration::from_secs(1);

/// Tries to remove a volume that must not be used; all within one `--timeout`.
const CLEANUP_TRIES: usize = 5;

/// Asks the driver for the volume of a plan. `driver` carries the conditions under which the call may be sent; cleaning
/// up after it has none but the term.
pub(crate) async fn create_volume(
    term: &TermContext,
    driver: &ControllerClient,
    plan: &Plan,
) -> Result<NewVolume, ProvisionError> {
    let response = call(term, driver, plan).await?;
    let volume = response.volume.filter(|volume| !volume.volume_id.is_empty()).ok_or(ProvisionError::NoVolume)?;
    let actual = capacity(plan, &volume);
    if actual < plan.requested_bytes {
        let requested = plan.requested_bytes;
        return Err(match clean_up(term, plan, &volume).await {
            Ok(()) => ProvisionError::TooSmall { requested, actual },
            Err(why) => ProvisionError::TooSmallAndLeft { requested, actual, why },
        });
    }
    // A driver that knows nothing of sources would leave the volume empty (CSI spec, `Volume.content_source`).
    if plan.request.volume_content_source.is_some() && volume.content_source.is_none() {
        return Err(match clean_up(term, plan, &volume).await {
            Ok(()) => ProvisionError::NoContent,
            Err(why) => ProvisionError::NoContentAndLeft { why },
        });
    }
    info!(claim = plan.claim.full_name(), volume = %plan.volume_name, handle = volume.volume_id, bytes = actual, "volume created");
    match new_volume(&term.settings, plan, &volume) {
        Ok(new) => {
            refresh::volume_made(term, &plan.class.name, &volume);
            Ok(new)
        }
        Err(source) => {
            let (handle, source) = (volume.volume_id.clone(), Box::new(source));
            Err(match clean_up(term, plan, &volume).await {
                Ok(()) => ProvisionError::NotInTree { handle, source },
                Err(why) => ProvisionError::NotInTreeAndLeft { handle, source, why },
            })
        }
    }
}

async fn call(term: &TermContext, driver: &ControllerClient, plan: &Plan) -> Result<CreateVolumeResponse, CallError> {
    let driver = driver.for_migrated(plan.is_migrated());
    let mut call = std::pin::pin!(driver.create_volume(plan.message()));
    tokio::select! {
        biased;
        outcome = &mut call => return outcome,
        () = sleep(SLOW_CALL) => {}
    }
    let text = format!("External provisioner is provisioning volume for claim \"{}\"", plan.claim.full_name());
    term.events.record(&claim_reference(&plan.claim), EventKind::Normal, "Provisioning", text);
    call.await
}

/// Removes a volume that must not be used.
async fn clean_up(term: &TermContext, plan: &Plan, volume: &Volume) -> Result<(), String> {
    let request = DeleteVolumeRequest { volume_id: volume.volume_id.clone(), secrets: plan.request.secrets.clone() };
    let driver = term.driver.for_migrated(plan.is_migrated());
    let tries = async {
        let mut tries = 1;
        loop {
            match driver.delete_volume(request.clone()).await {
                Ok(_) => return Ok(()),
                Err(error) if tries == CLEANUP_TRIES => return Err(error),
                Err(error) => {
                    warn!(handle = volume.volume_id, err = %error, "volume that must not be used is not deleted yet");
                }
            }
            tries += 1;
        }
    };
    match timeout(term.settings.timeout, tries).await {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(_) => Err("it took too long".to_owned()),
    }
}
