//! The loop that owns the registration socket: the driver's answers, kubelet's calls and the state of the path come in, and the socket
//! is made, made again, left to another, or removed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::args::Config;
use crate::connections::Connections;
use crate::driver_identity::{DriverIdentity, Step, step};
use crate::error::Error;
use crate::health::Registered;
use crate::registration::Registration;
use crate::registration_service::{Note, RegistrationService, Said};
use crate::registration_socket::{self, AtPath, RegistrationSocket};

/// How often the path is looked at: one `lstat`.
pub(crate) const PATH_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a failed accept: usually no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(900);
/// Notes of kubelet's calls that may wait for the loop.
const NOTES: usize = 16;

/// The registration of one driver at one kubelet.
pub(crate) struct Registrar {
    config: Config,
    /// What kubelet knows, or is to know.
    driver: Option<DriverIdentity>,
    place: Place,
    /// How many sockets were made: kubelet's word about an earlier one does not count.
    sockets: u64,
    registration: Registration,
    connections: Connections,
    registered: watch::Sender<Option<Registered>>,
    notes: (mpsc::Sender<Note>, mpsc::Receiver<Note>),
}

/// Who has the path.
enum Place {
    /// No driver, no path.
    Nobody,
    /// We do.
    Ours(RegistrationSocket),
    /// Another process does. Nothing is kept meanwhile.
    Foreign(PathBuf),
}

impl Registrar {
    /// A registrar, and what its health check has to know.
    pub(crate) fn new(config: Config) -> (Self, watch::Receiver<Option<Registered>>) {
        let (registered, health) = watch::channel(None);
        let registrar = Self {
            config,
            driver: None,
            place: Place::Nobody,
            sockets: 0,
            registration: Registration::new(),
            connections: Connections::new(),
            registered,
            notes: mpsc::channel(NOTES),
        };
        (registrar, health)
    }

    /// Registers whatever driver `answers` tell of, until `shutdown` or an error, and removes the socket, if it is still ours.
    pub(crate) async fn run(
        mut self,
        answers: watch::Receiver<Option<DriverIdentity>>,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        let ended = self.serve(answers, shutdown).await;
        if let Place::Ours(socket) = self.place {
            info!(path = %socket.path().display(), "Removing the registration socket");
            socket.remove();
        }
        ended
    }

    async fn serve(
        &mut self,
        mut answers: watch::Receiver<Option<DriverIdentity>>,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        let mut look = interval(PATH_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.registration.due();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                Ok(()) = answers.changed() => {
                    let answered = answers.borrow_and_update().clone();
                    if let Some(answered) = answered {
                        self.driver_answered(answered)?;
                    }
                }
                Some(note) = self.notes.1.recv() => self.kubelet_called(&note),
                () = sleep_until(due.map_or_else(far_away, |(at, _)| at)), if due.is_some() => {
                    self.try_again(due.map_or("", |(_, why)| why))?;
                }
                _ = look.tick(), if !matches!(self.place, Place::Nobody) => self.look_at_path()?,
                () = self.connections.one_ended() => {}
                stream = accept(&self.place), if self.connections.have_place() => self.connected(stream),
            }
        }
    }

    fn driver_answered(&mut self, answered: DriverIdentity) -> Result<(), Error> {
        match step(self.driver.as_ref(), &answered) {
            Step::Nothing => {
                debug!(driver = answered.name, "The driver is the one kubelet knows");
                return Ok(());
            }
            Step::ClearPath => return registration_socket::clear_stale(&self.path_of(&answered)?),
            Step::Learn => {}
            Step::Register => {
                info!(driver = answered.name, "Registering the CSI driver");
                let path = self.path_of(&answered)?;
                self.take(&path, &answered.name)?;
            }
            Step::RegisterAnew { change } => {
                warn!(change, driver = answered.name, "The CSI driver changed, registering it anew");
                let path = self.path_of(&answered)?;
                self.leave(&path, &answered.name)?;
            }
        }
        self.driver = Some(answered);
        Ok(())
    }

    fn path_of(&self, driver: &DriverIdentity) -> Result<PathBuf, Error> {
        registration_socket::path(&self.config.directory, &driver.name)
    }

    /// Takes the old registration away before the new one is there. A path that another registrar of this driver has stays its.
    fn leave(&mut self, path: &Path, driver: &str) -> Result<(), Error> {
        match std::mem::replace(&mut self.place, Place::Nobody) {
            Place::Foreign(foreign) if foreign == path => {
                self.place = Place::Foreign(foreign);
                return Ok(());
            }
            Place::Ours(socket) => socket.remove(),
            Place::Foreign(_) | Place::Nobody => {}
        }
        self.registration = Registration::new();
        self.take(path, driver)
    }

    /// Puts a new socket at the path, in the place of any other.
    fn take(&mut self, path: &Path, driver: &str) -> Result<(), Error> {
        let socket = RegistrationSocket::take(path)?;
        self.sockets += 1;
        self.registration.socket_appeared(Instant::now());
        // A new socket does not undo a refusal: kubelet has to accept the driver.
        let refusal =
            self.registered.borrow().as_ref().filter(|one| one.driver == driver).and_then(|one| one.refusal.clone());
        self.registered.send_replace(Some(Registered { path: path.to_owned(), driver: driver.to_owned(), refusal }));
        info!(path = %path.display(), driver, "Registration socket is there for kubelet");
        self.place = Place::Ours(socket);
        Ok(())
    }

    fn take_again(&mut self, path: &Path) -> Result<(), Error> {
        match self.driver.as_ref().map(|driver| driver.name.clone()) {
            Some(driver) => self.take(path, &driver),
            None => Ok(()),
        }
    }

    fn kubelet_called(&mut self, note: &Note) {
        if note.socket != self.sockets {
            return;
        }
        match &note.said {
            Said::Asked => self.registration.asked(Instant::now()),
            Said::Accepted => {
                self.registration.accepted();
                self.set_refusal(None);
            }
            Said::Refused(reason) => {
                self.set_refusal(Some(reason.clone()));
                self.registration.refused(Instant::now());
                if let Some((at, _)) = self.registration.due() {
                    info!(pause = ?at.saturating_duration_since(Instant::now()), "Registering again after a pause");
                }
            }
        }
    }

    /// What the health check says of kubelet.
    fn set_refusal(&self, refusal: Option<String>) {
        self.registered.send_modify(|registered| {
            if let Some(registered) = registered {
                registered.refusal = refusal;
            }
        });
    }

    /// Makes the socket again for kubelet to look at.
    fn try_again(&mut self, why: &str) -> Result<(), Error> {
        let Place::Ours(socket) = &self.place else { return Ok(()) };
        // Who has the path is another matter, looked at within a second.
        if !socket.is_in_place() {
            return self.look_at_path();
        }
        warn!(reason = why, path = %socket.path().display(), "Making the registration socket again");
        let path = socket.path().to_owned();
        self.registration.retried();
        self.take_again(&path)
    }

    fn look_at_path(&mut self) -> Result<(), Error> {
        match &self.place {
            Place::Nobody => Ok(()),
            Place::Ours(socket) if socket.is_in_place() => Ok(()),
            Place::Ours(socket) => {
                let path = socket.path().to_owned();
                match registration_socket::look(&path) {
                    Ok(AtPath::Nothing) => {
                        warn!(path = %path.display(), "The registration socket was deleted, making it again");
                        return self.take_again(&path);
                    }
                    Ok(AtPath::Socket) => {
                        info!(path = %path.display(), "Another registrar has taken the path, standing by until it is gone");
                    }
                    Ok(AtPath::Other(kind)) => {
                        warn!(path = %path.display(), kind, "Something that is no socket stands at the path; remove it");
                    }
                    Err(error) => {
                        warn!(%error, path = %path.display(), "Cannot look at the path, standing by until that is possible");
                    }
                }
                self.registration.socket_gone();
                self.place = Place::Foreign(path);
                Ok(())
            }
            Place::Foreign(path) => {
                let path = path.clone();
                let free = match registration_socket::look(&path) {
                    Ok(AtPath::Nothing) => true,
                    Ok(AtPath::Socket) => registration_socket::is_stale(&path),
                    Ok(AtPath::Other(_)) | Err(_) => false,
                };
                if !free {
                    return Ok(());
                }
                info!(path = %path.display(), "The path is free, registering again");
                self.registration = Registration::new();
                self.take_again(&path)
            }
        }
    }

    fn connected(&mut self, stream: UnixStream) {
        let Some(driver) = &self.driver else { return };
        let service = RegistrationService {
            driver: driver.name.clone(),
            endpoint: self.config.endpoint.clone(),
            socket: self.sockets,
            notes: self.notes.0.clone(),
        };
        self.connections.add(stream, service);
    }
}

/// The next connection. Pending while we have no socket.
async fn accept(place: &Place) -> UnixStream {
    let Place::Ours(socket) = place else { return std::future::pending().await };
    loop {
        match socket.accept().await {
            Ok(stream) => return stream,
            Err(error) => {
                warn!(%error, "Cannot accept a connection to the registration socket");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A time nobody waits for.
fn far_away() -> Instant {
    Instant::now() + Duration::from_hours(1)
}
