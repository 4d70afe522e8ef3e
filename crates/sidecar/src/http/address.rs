//! Listening on an address in Go's notation.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::sockopt::set_ipv6_v6only;
use tokio::net::{TcpListener, TcpSocket, lookup_host};

/// Connections that the kernel holds until they are accepted.
const BACKLOG: u32 = 1024;

/// Listens on `host:port` as Go does: on the first IPv4 address of a name, else on its first address; without a host, or with
/// an unspecified one such as `0.0.0.0`, on all interfaces, IPv6 and IPv4 where the machine has both.
pub(super) async fn listen(address: &str) -> io::Result<TcpListener> {
    let (host, port) = split(address).map_err(|problem| io::Error::new(io::ErrorKind::InvalidInput, problem))?;
    if host.is_empty() {
        return listen_everywhere(port);
    }
    let found: Vec<_> = lookup_host((host, port)).await?.collect();
    match preferred(&found) {
        Some(address) if address.ip().is_unspecified() => listen_everywhere(port),
        Some(address) => TcpListener::bind(address).await,
        None => Err(io::Error::new(io::ErrorKind::AddrNotAvailable, format!("{host} has no address"))),
    }
}

fn preferred(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    addresses.iter().find(|address| address.is_ipv4()).or(addresses.first()).copied()
}

fn listen_everywhere(port: u16) -> io::Result<TcpListener> {
    match listen_on_both(port) {
        // Without IPv6 in the kernel; any other failure is the same for IPv4.
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind((IpAddr::from(Ipv4Addr::UNSPECIFIED), port).into())?;
            socket.listen(BACKLOG)
        }
        result => result,
    }
}

fn listen_on_both(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    // The default is the node's `net.ipv6.bindv6only`.
    set_ipv6_v6only(&socket, false)?;
    socket.set_reuseaddr(true)?;
    socket.bind((IpAddr::from(Ipv6Addr::UNSPECIFIED), port).into())?;
    socket.listen(BACKLOG)
}

fn split(address: &str) -> Result<(&str, u16), String> {
    let (host, port) = address
        .rsplit_once(':')
        .filter(|(_, port)| !port.ends_with(']'))
        .ok_or_else(|| format!("address {address}: missing port in address"))?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').ok_or_else(|| format!("address {address}: missing ']' in address"))?,
        // The Go sidecars refuse an IPv6 address without brackets, which is what a pod is told as its own.
        None if host.contains(':') && host.parse::<Ipv6Addr>().is_err() => {
            return Err(format!("address {address}: too many colons in address"));
        }
        None => host,
    };
    let port = port.parse().map_err(|_| format!("address {address}: port {port:?} is not a number up to 65535"))?;
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_splits_into_host_and_port() {
        for (address, want) in [
            (":8080", ("", 8080)),
            ("0.0.0.0:80", ("0.0.0.0", 80)),
            ("localhost:0", ("localhost", 0)),
            ("[::1]:9", ("::1", 9)),
            ("[::]:9", ("::", 9)),
        ] {
            assert_eq!(split(address).unwrap(), want);
        }
        for (address, want) in [
            ("8080", "missing port"),
            ("[::1]", "missing port"),
            ("[::1:9", "missing ']'"),
            ("fd00::x:9", "too many colons"),
            (":", "port \"\" is not a number"),
            (":http", "port \"http\" is not a number"),
            (":65536", "port \"65536\" is not a number"),
        ] {
            let error = split(address).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn o6_after_an_ipv6_address_without_brackets_the_last_group_is_the_port() {
        assert_eq!(split("fd00::1:8090").unwrap(), ("fd00::1", 8090));
        assert_eq!(split("::1:9").unwrap(), ("::1", 9));
        assert_eq!(split("fd00:1:2:3:4:5:6:7:8090").unwrap(), ("fd00:1:2:3:4:5:6:7", 8090));
    }

    #[test]
    fn o16_of_the_addresses_of_a_name_the_first_ipv4_counts() {
        let [v6, v4, other] = ["[::1]:1", "127.0.0.1:1", "127.0.0.2:1"].map(|text| text.parse().unwrap());
        assert_eq!(preferred(&[v6, v4, other]), Some(v4));
        assert_eq!(preferred(&[v6]), Some(v6));
    }

    #[tokio::test]
    async fn without_a_host_all_interfaces_are_meant() {
        for address in [":0", "0.0.0.0:0", "[::]:0"] {
            let listener = listen(address).await.unwrap();
            assert!(listener.local_addr().unwrap().ip().is_unspecified());
        }
    }
}
