//! Names in a Lease: the object's own and the holder's.

/// The Lease name (or holder identity) the Go sidecars make of `raw`: everything but ASCII letters, digits and `-`
/// becomes `-`, and a trailing `-` gets an `X` after it.
///
/// A name that ends in `X` this way is refused by the API server, as it is upstream: object names are lower case.
pub fn lease_name(raw: &str) -> String {
    let mut name: String = raw.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect();
    if name.ends_with('-') {
        name.push('X');
    }
    name
}

/// A holder identity no other process has, not even on the same host: the host name alone would let two processes of a
/// host network pod take the lease for their own.
pub(super) fn unique_identity(host_name: &str) -> String {
    lease_name(&format!("{host_name}_{}", uuid::Uuid::new_v4()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e11_lock_name_and_type_are_upstreams() {
        let table = [
            ("test-driver", "test-driver"),
            ("test!driver/foo", "test-driver-foo"),
            ("driver\\", "driver-X"),
            ("hostpath.csi.k8s.io", "hostpath-csi-k8s-io"),
            ("external-attacher-leader-hostpath.csi.k8s.io", "external-attacher-leader-hostpath-csi-k8s-io"),
            ("Driver.Example", "Driver-Example"),
            ("trailing-", "trailing-X"),
            ("ümlaut", "-mlaut"),
            ("a__b", "a--b"),
            ("", ""),
        ];
        assert_eq!(table.len(), 10);
        for (raw, expected) in table {
            assert_eq!(lease_name(raw), expected, "{raw:?}");
        }
    }

    #[test]
    fn identities_of_one_host_differ() {
        let (one, other) = (unique_identity("node-1.example"), unique_identity("node-1.example"));
        assert_ne!(one, other);
        assert!(one.starts_with("node-1-example-"), "{one}");
        assert_eq!(lease_name(&one), one, "already sanitised");
    }
}
