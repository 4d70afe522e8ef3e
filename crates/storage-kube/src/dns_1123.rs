//! The two name forms of RFC 1123 that Kubernetes demands of namespaces and of most object names.

/// Longest label, in bytes.
const LABEL_MAX: usize = 63;
/// Longest subdomain, in bytes.
const SUBDOMAIN_MAX: usize = 253;

/// Whether `text` is a DNS-1123 label: lower-case letters, digits and inner dashes, 1 to 63 bytes. The form of a namespace.
pub fn is_label(text: &str) -> bool {
    text.len() <= LABEL_MAX && is_part(text)
}

/// Whether `text` is a DNS-1123 subdomain: label-like parts joined by dots, 1 to 253 bytes in all. The form
/// of the name of a Secret or a volume. As in Kubernetes, a single part may be longer than a label.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_MAX && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match text.as_bytes() {
        [] => false,
        bytes @ [first, .., last] => {
            alphanumeric(*first) && alphanumeric(*last) && bytes.iter().all(|&byte| byte == b'-' || alphanumeric(byte))
        }
        [only] => alphanumeric(*only),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_subdomains() {
        let l63 = "a".repeat(63);
        let l64 = "a".repeat(64);
        let s253 = "a".repeat(253);
        let s254 = "a".repeat(254);
        // text, label, subdomain
        let rows = [
            ("a", true, true),
            ("0", true, true),
            ("a-b", true, true),
            ("a--b9", true, true),
            ("a.b", false, true),
            ("a.b-c.0", false, true),
            ("", false, false),
            ("-", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("A", false, false),
            ("a_b", false, false),
            ("a b", false, false),
            ("é", false, false),
            ("a..b", false, false),
            (".a", false, false),
            ("a.", false, false),
            ("a.-b", false, false),
            ("a/b", false, false),
            ("..", false, false),
            (l63.as_str(), true, true),
            (l64.as_str(), false, true),
            (s253.as_str(), false, true),
            (s254.as_str(), false, false),
        ];
        assert_eq!(rows.len(), 24);
        for (text, label, subdomain) in rows {
            assert_eq!(is_label(text), label, "label {text:?}");
            assert_eq!(is_subdomain(text), subdomain, "subdomain {text:?}");
        }
    }
}
