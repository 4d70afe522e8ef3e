//! Which proxy the environment names for the API server, as Go's `net/http` (`ProxyFromEnvironment`) reads it.

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

use crate::EnvLookup;
use crate::exit::Exit;

/// The proxy of `HTTPS_PROXY` or `HTTP_PROXY`, by the scheme of the server, unless `NO_PROXY` names the server: a host, a domain
/// with those below it, an address or a network (CIDR), each with a port or without, or `*`. Loopback needs none.
///
/// A variable that names no proxy ends the process with code 255.
pub(super) fn from_environment(server: &Uri, env: EnvLookup<'_>) -> Result<Option<Uri>, Exit> {
    let names = if server.scheme_str() == Some("https") {
        ["HTTPS_PROXY", "https_proxy"]
    } else {
        ["HTTP_PROXY", "http_proxy"]
    };
    let Some((name, text)) = names.into_iter().find_map(|name| Some((name, env(name)?))) else {
        return Ok(None);
    };
    let excepted = env("NO_PROXY").or_else(|| env("no_proxy")).unwrap_or_default();
    if is_loopback(server) || excepted.split(',').any(|entry| entry.trim() == "*") {
        return Ok(None);
    }
    // The text may have a password in it.
    let no_proxy = || Exit::fatal(format!("{name} names no proxy; expected one such as http://proxy:3128"));
    let proxy = text.parse().map_err(|_| no_proxy())?;
    let any = || Matcher::builder().all(text.as_str());
    any().build().intercept(server).ok_or_else(no_proxy)?;
    Ok(any().no(without_ports(&excepted, server)).build().intercept(server).map(|_| proxy))
}

fn is_loopback(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The entries of `NO_PROXY` that hold for the server's port.
fn without_ports(excepted: &str, server: &Uri) -> String {
    let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("https") { 443 } else { 80 });
    let entries = excepted.split(',').filter_map(|entry| {
        let entry = entry.trim();
        let entry = entry.strip_prefix('*').unwrap_or(entry);
        match entry.rsplit_once(':') {
            // An IPv6 address has colons of its own.
            Some((host, only)) if !host.contains(':') || host.ends_with(']') => {
                (only.parse() == Ok(port)).then(|| host.trim_matches(['[', ']']))
            }
            _ => Some(entry.trim_matches(['[', ']'])),
        }
    });
    entries.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn proxy(server: &str, environment: &[(&str, &str)]) -> Result<Option<Uri>, Exit> {
        let env = |name: &str| environment.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
        from_environment(&server.parse().unwrap(), &env)
    }

    #[test]
    fn o17_no_proxy_is_read_as_go_reads_it() {
        // NO_PROXY, server, whether the proxy is used
        let table = [
            ("", "https://10.96.0.1", true),
            ("", "https://127.0.0.1:6443", false),
            ("", "https://[::1]:6443", false),
            ("", "https://localhost:6443", false),
            ("*", "https://10.96.0.1", false),
            ("10.96.0.1", "https://10.96.0.1", false),
            ("10.96.0.0/12", "https://10.96.0.1:6443", false),
            ("10.97.0.0/16, 10.98.0.1", "https://10.96.0.1", true),
            ("fd00::/8", "https://[fd00::1]:6443", false),
            ("[fd00::1]:6443", "https://[fd00::1]:6443", false),
            ("fd00::1", "https://[fd00::1]:6443", false),
            ("10.96.0.1:443", "https://10.96.0.1", false),
            ("10.96.0.1:443", "https://10.96.0.1:6443", true),
            ("a.example,.svc", "https://kubernetes.default.svc", false),
            ("*.svc", "https://kubernetes.default.svc", false),
            ("svc", "https://kubernetes.default.svc", false),
            ("default.svc", "https://kubernetes.default.svc.cluster.local", true),
            ("efault.svc", "https://kubernetes.default.svc", true),
            ("API.example:6443", "https://api.EXAMPLE:6443", false),
        ];
        assert_eq!(table.len(), 19);
        for (excepted, server, used) in table {
            let found = proxy(server, &[("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", excepted)]).unwrap();
            assert_eq!(found.is_some(), used, "{excepted} {server}");
        }
    }

    #[test]
    fn o17_the_variable_goes_by_the_scheme_of_the_server() {
        let server = "http://10.0.0.1:8080";
        assert_eq!(proxy(server, &[("HTTPS_PROXY", "http://proxy:1")]).unwrap(), None);
        for name in ["HTTP_PROXY", "http_proxy"] {
            assert_eq!(proxy(server, &[(name, "proxy:1")]).unwrap().unwrap(), "proxy:1");
        }
        let lower = [("https_proxy", "http://proxy:1"), ("no_proxy", "10.0.0.0/8")];
        assert_eq!(proxy("https://10.0.0.1", &lower).unwrap(), None);
        assert_eq!(proxy("https://11.0.0.1", &lower).unwrap().unwrap(), "http://proxy:1/");
    }

    #[test]
    fn o17_what_is_no_proxy_is_named_by_its_variable_and_not_shown() {
        for text in ["http://me:secret@proxy with blanks", "ftp://me:secret@proxy"] {
            let exit = proxy("https://10.0.0.1", &[("HTTPS_PROXY", text)]).unwrap_err();
            assert_eq!(exit.code, 255);
            assert!(exit.message.starts_with("HTTPS_PROXY names no proxy"), "{exit}");
            assert!(!exit.message.contains("secret"), "{exit}");
        }
    }
}
