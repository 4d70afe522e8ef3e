//! The edge cases of the contract, row by row, on the program itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use csi_proto::pluginregistration::v1::registration_client::RegistrationClient;
use csi_proto::pluginregistration::v1::{InfoRequest, RegistrationStatus};
use fake_driver::{FakeDriver, Rpc, Step};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint};

const PATIENCE: Duration = Duration::from_secs(30);
const ENDPOINT: &str = "/var/lib/kubelet/plugins/d/csi.sock";

/// A driver and a plugin directory.
struct Site {
    driver: FakeDriver,
    directory: TempDir,
}

/// The program.
struct Registrar(Child);

impl Site {
    async fn new() -> Self {
        Self { driver: FakeDriver::start().await, directory: tempfile::tempdir().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("fake.csi.example.com-reg.sock")
    }

    fn start(&self, flags: &[&str]) -> Registrar {
        let endpoint = format!("--kubelet-registration-path={ENDPOINT}");
        self.start_bare(&[&[endpoint.as_str()], flags].concat())
    }

    fn start_bare(&self, flags: &[&str]) -> Registrar {
        let mut command = Command::new(env!("CARGO_BIN_EXE_csi-node-driver-registrar"));
        command.arg("-csi-address").arg(self.driver.address());
        command.arg("-plugin-registration-path").arg(self.directory.path()).args(flags);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        Registrar(command.spawn().unwrap())
    }

    async fn kubelet(&self) -> RegistrationClient<Channel> {
        let path = self.socket();
        until("the registration socket", || std::os::unix::net::UnixStream::connect(&path).is_ok()).await;
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let channel = Endpoint::from_static("http://localhost").connect_with_connector(connector).await.unwrap();
        RegistrationClient::new(channel)
    }

    /// Runs the program to an end that must have that code and say that text.
    async fn ends(&self, registrar: Registrar, code: i32, text: &str) {
        let output = registrar.ended().await;
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{log}");
        assert!(log.contains(text), "{log}");
    }

    async fn registers(&self, mut registrar: Registrar) {
        assert_eq!(
            self.kubelet().await.get_info(InfoRequest {}).await.unwrap().into_inner().name,
            "fake.csi.example.com"
        );
        registrar.runs();
        registrar.signal(Signal::TERM);
        self.ends(registrar, 0, "").await;
        assert!(!self.socket().exists());
    }
}

impl Registrar {
    fn runs(&mut self) {
        assert_eq!(self.0.try_wait().unwrap(), None, "the program still runs");
    }

    fn pid(&self) -> u32 {
        self.0.id().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap(), signal).unwrap();
    }

    async fn ended(self) -> Output {
        timeout(PATIENCE, self.0.wait_with_output()).await.expect("the program ends").unwrap()
    }

    fn status(&self, field: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
        line.trim().to_owned()
    }
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let wait = async {
        while !done() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("waited in vain for {what}"));
}

async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

/// Code and body of `/healthz`, as soon as the port is served.
async fn healthz(port: u16) -> (u16, String) {
    let connect = async {
        loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await {
                return stream;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    let mut stream = timeout(PATIENCE, connect).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

async fn healthz_becomes(port: u16, want: (u16, &str)) {
    let wait = async {
        while healthz(port).await != (want.0, want.1.to_owned()) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("waited in vain for {want:?}"));
}

fn verdict(error: &str) -> RegistrationStatus {
    RegistrationStatus { plugin_registered: error.is_empty(), error: error.to_owned() }
}

/// One test a row, and one that counts them.
macro_rules! rows {
    ($($name:ident $check:block)*) => {
        $(#[tokio::test] async fn $name() $check)*

        #[test]
        fn the_table_has_22_rows() {
            assert_eq!([$(stringify!($name)),*].len(), 22);
        }
    };
}

rows! {
    row_01_the_old_probe_mode_without_the_required_path_is_an_error {
        let site = Site::new().await;
        let registrar = site.start_bare(&["--mode=kubelet-registration-probe"]);
        site.ends(registrar, 1, "--kubelet-registration-path").await;
    }

    row_02_the_old_probe_mode_ends_at_once_without_a_driver {
        let site = Site { driver: FakeDriver::stopped(), directory: tempfile::tempdir().unwrap() };
        site.ends(site.start(&["--mode=kubelet-registration-probe"]), 0, "").await;
    }

    row_03_any_other_mode_registers {
        let site = Site::new().await;
        site.registers(site.start(&["--mode=foo"])).await;
    }

    row_04_two_http_addresses_are_an_error {
        let site = Site::new().await;
        site.ends(site.start(&["--health-port=9809", "--http-endpoint=:8080"]), 1, "--health-port").await;
    }

    row_05_a_negative_health_port_is_none {
        let site = Site::new().await;
        let port = free_port().await;
        let registrar = site.start(&["--health-port=-1", &format!("--http-endpoint=127.0.0.1:{port}")]);
        healthz_becomes(port, (200, "ok")).await;
        site.registers(registrar).await;
    }

    row_06_the_old_probe_mode_comes_before_the_http_flags {
        let site = Site::new().await;
        let flags = ["--mode=kubelet-registration-probe", "--health-port=9809", "--http-endpoint=:8080"];
        site.ends(site.start(&flags), 0, "").await;
    }

    // Differs: asked again.
    row_07_a_driver_slower_than_the_deadline_is_asked_again {
        let site = Site::new().await;
        site.driver.script(Rpc::GetPluginInfo, Step::answer().after(Duration::from_secs(5)));
        site.registers(site.start(&["--timeout=200ms"])).await;
        assert_eq!(site.driver.calls_of(Rpc::GetPluginInfo).len(), 2);
    }

    row_08_a_driver_with_an_empty_name_is_an_error {
        let site = Site::new().await;
        site.driver.configure(|identity| identity.name.clear());
        site.ends(site.start(&[]), 1, "driver name is empty").await;
    }

    row_09_a_stale_socket_is_replaced {
        let site = Site::new().await;
        drop(UnixListener::bind(site.socket()).unwrap());
        let registrar = site.start(&[]);
        site.registers(registrar).await;
    }

    row_10_a_regular_file_in_the_way_is_an_error {
        let site = Site::new().await;
        std::fs::write(site.socket(), "precious").unwrap();
        site.ends(site.start(&[]), 1, "a file is there, not a socket").await;
        assert_eq!(std::fs::read(site.socket()).unwrap(), b"precious");
    }

    row_11_a_missing_plugin_directory_is_an_error {
        let site = Site::new().await;
        let missing = site.directory.path().join("missing");
        let registrar = site.start(&["-plugin-registration-path", missing.to_str().unwrap()]);
        site.ends(registrar, 1, "--plugin-registration-path").await;
    }

    row_12_get_info_says_type_name_endpoint_and_version {
        let site = Site::new().await;
        let registrar = site.start(&[]);
        let info = site.kubelet().await.get_info(InfoRequest {}).await.unwrap().into_inner();
        assert_eq!((info.r#type.as_str(), info.name.as_str()), ("CSIPlugin", "fake.csi.example.com"));
        assert_eq!((info.endpoint.as_str(), info.supported_versions), (ENDPOINT, vec!["1.0.0".to_owned()]));
        site.registers(registrar).await;
    }

    row_13_a_registration_keeps_it_running {
        let site = Site::new().await;
        let registrar = site.start(&[]);
        site.kubelet().await.notify_registration_status(verdict("")).await.unwrap();
        site.registers(registrar).await;
    }

    // Differs: answered, and tried again.
    row_14_a_refusal_is_answered_and_the_socket_made_again {
        let site = Site::new().await;
        let mut registrar = site.start(&[]);
        site.kubelet().await.notify_registration_status(verdict("x")).await.unwrap();
        let mut log = Vec::new();
        let mut stderr = registrar.0.stderr.take().unwrap();
        let again = async {
            // The first line is said before the new socket has the path.
            let made = |log: &str| {
                let (_, after) = log.split_once("Making the registration socket again")?;
                after.contains("Registration socket is there").then_some(())
            };
            while made(&String::from_utf8_lossy(&log)).is_none() {
                stderr.read_buf(&mut log).await.unwrap();
            }
        };
        timeout(PATIENCE, again).await.unwrap();
        registrar.0.stderr = Some(stderr);
        site.registers(registrar).await;
    }

    // Differs: the address is taken before a socket is made, so none stays.
    row_15_an_http_address_that_is_taken_is_an_error {
        let site = Site::new().await;
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let held = TcpListener::bind(taken).await.unwrap();
        site.ends(site.start(&[&format!("--http-endpoint={taken}")]), 1, "--http-endpoint").await;
        assert!(!site.socket().exists());
        drop(held);
    }

    row_16_what_no_socket_can_be_made_of_is_an_error {
        let site = Site::new().await;
        std::os::unix::fs::symlink("nowhere", site.socket()).unwrap();
        site.ends(site.start(&[]), 1, "a dangling symbolic link is there").await;
        std::fs::remove_file(site.socket()).unwrap();
        std::fs::create_dir(site.socket()).unwrap();
        site.ends(site.start(&[]), 1, "a directory is there").await;
        site.driver.configure(|identity| identity.name = "d".repeat(100));
        site.ends(site.start(&[]), 1, "the kernel allows 107").await;
        site.driver.configure(|identity| "a/b".clone_into(&mut identity.name));
        site.ends(site.start(&[]), 1, "it contains a slash").await;
    }

    // Differs: each removes its own socket only, and one that was displaced comes back.
    row_17_of_two_registrars_the_newest_has_the_path_and_the_firsts_end_leaves_it {
        let site = Site::new().await;
        let first = site.start(&[]);
        site.kubelet().await;
        let inode = || {
            use std::os::unix::fs::MetadataExt as _;
            std::fs::symlink_metadata(site.socket()).map(|found| found.ino()).ok()
        };
        let firsts = inode();
        let second = site.start(&[]);
        until("the second one's socket", || inode() != firsts).await;
        let seconds = inode();
        first.signal(Signal::TERM);
        site.ends(first, 0, "").await;
        assert_eq!(inode(), seconds);
        site.registers(second).await;
    }

    row_18_sigterm_and_sigint_remove_the_socket_and_end_well {
        for signal in [Signal::TERM, Signal::INT] {
            let site = Site::new().await;
            let registrar = site.start(&[]);
            site.kubelet().await;
            registrar.signal(signal);
            site.ends(registrar, 0, "Shutting down").await;
            assert_eq!(std::fs::read_dir(site.directory.path()).unwrap().count(), 0);
        }
        let site = Site { driver: FakeDriver::stopped(), directory: tempfile::tempdir().unwrap() };
        let port = free_port().await;
        let registrar = site.start(&[&format!("--http-endpoint=127.0.0.1:{port}")]);
        healthz(port).await;
        registrar.signal(Signal::TERM);
        site.ends(registrar, 0, "Shutting down").await;
    }

    // Differs: only until it is made again.
    row_19_a_deleted_socket_is_not_healthy_until_it_is_back {
        let site = Site::new().await;
        let port = free_port().await;
        let registrar = site.start(&[&format!("--http-endpoint=127.0.0.1:{port}")]);
        healthz_becomes(port, (200, "ok")).await;
        std::fs::remove_file(site.socket()).unwrap();
        assert_eq!(healthz(port).await, (404, "registration socket does not exist".to_owned()));
        healthz_becomes(port, (200, "ok")).await;
        site.registers(registrar).await;
    }

    row_20_a_file_in_the_sockets_place_is_not_healthy {
        let site = Site::new().await;
        let port = free_port().await;
        let mut registrar = site.start(&[&format!("--http-endpoint=127.0.0.1:{port}")]);
        healthz_becomes(port, (200, "ok")).await;
        std::fs::remove_file(site.socket()).unwrap();
        std::fs::write(site.socket(), "").unwrap();
        let (code, text) = healthz(port).await;
        assert_eq!(code, 500);
        assert!(text.starts_with("file exists in socketPath") && text.contains("not a socket"), "{text}");
        registrar.runs();
        std::fs::remove_file(site.socket()).unwrap();
        site.registers(registrar).await;
    }

    row_21_a_driver_that_goes_away_ends_nothing {
        let site = Site::new().await;
        let port = free_port().await;
        let registrar = site.start(&[&format!("--http-endpoint=127.0.0.1:{port}")]);
        healthz_becomes(port, (200, "ok")).await;
        site.driver.stop().await;
        assert_eq!(healthz(port).await, (200, "ok".to_owned()));
        site.registers(registrar).await;
    }

    row_22_the_socket_is_its_owners_alone_and_the_umask_is_left {
        let site = Site::new().await;
        let registrar = site.start(&[]);
        site.kubelet().await;
        let mode = std::fs::symlink_metadata(site.socket()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        let own = std::fs::read_to_string("/proc/self/status").unwrap();
        assert!(own.contains(&format!("Umask:\t{}", registrar.status("Umask"))));
        site.registers(registrar).await;
    }
}

#[tokio::test]
async fn f8_one_thread_whatever_the_number_of_cores() {
    let site = Site::new().await;
    let port = free_port().await;
    let registrar = site.start(&[&format!("--http-endpoint=127.0.0.1:{port}"), "--automaxprocs"]);
    site.kubelet().await.notify_registration_status(verdict("")).await.unwrap();
    healthz_becomes(port, (200, "ok")).await;
    // A thread that looked an address up goes within a second.
    until("a single thread", || registrar.status("Threads") == "1").await;
    // What the release build shares with its file is measured elsewhere; this is what it asks for by itself.
    let anonymous: u64 = registrar.status("RssAnon").trim_end_matches(" kB").parse().unwrap();
    assert!(anonymous < 4096, "{anonymous} kB of its own");
    site.registers(registrar).await;
}

#[tokio::test]
async fn a_killed_registrar_leaves_its_socket_and_the_next_one_replaces_it() {
    let site = Site::new().await;
    let registrar = site.start(&[]);
    site.kubelet().await;
    registrar.signal(Signal::KILL);
    registrar.ended().await;
    assert!(site.socket().exists());
    site.registers(site.start(&[])).await;
}

#[tokio::test]
async fn version_and_help_are_answered() {
    let site = Site::new().await;
    let output = site.start_bare(&["--version"]).ended().await;
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).ends_with(concat!(" ", env!("CARGO_PKG_VERSION"), "\n")));
    let output = site.start_bare(&["-h"]).ended().await;
    assert_eq!(output.status.code(), Some(0));
    let output = site.start_bare(&["--no-such-flag"]).ended().await;
    assert_eq!(output.status.code(), Some(2));
}
