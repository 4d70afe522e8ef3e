//! Listening on an address in Go's notation.

use std::io;

use tokio::net::TcpListener;

/// Listens on `host:port`; without a host on all interfaces, IPv6 and IPv4 where the machine has both.
pub(super) async fn listen(address: &str) -> io::Result<TcpListener> {
    let (host, port) = split(address).map_err(|problem| io::Error::new(io::ErrorKind::InvalidInput, problem))?;
    if !host.is_empty() {
        return TcpListener::bind((host, port)).await;
    }
    match TcpListener::bind(("::", port)).await {
        // Without IPv6 in the kernel; any other failure is the same for IPv4.
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => TcpListener::bind(("0.0.0.0", port)).await,
        result => result,
    }
}

fn split(address: &str) -> Result<(&str, u16), String> {
    let (host, port) = address
        .rsplit_once(':')
        .filter(|(_, port)| !port.ends_with(']'))
        .ok_or_else(|| format!("address {address}: missing port in address"))?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').ok_or_else(|| format!("address {address}: missing ']' in address"))?,
        None if host.contains(':') => return Err(format!("address {address}: too many colons in address")),
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
            ("::1:9", "too many colons"),
            (":", "port \"\" is not a number"),
            (":http", "port \"http\" is not a number"),
            (":65536", "port \"65536\" is not a number"),
        ] {
            let error = split(address).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }

    #[tokio::test]
    async fn without_a_host_all_interfaces_are_meant() {
        let listener = listen(":0").await.unwrap();
        assert!(listener.local_addr().unwrap().ip().is_unspecified());
    }
}
