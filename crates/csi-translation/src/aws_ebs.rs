//! `awsElasticBlockStore` and `ebs.csi.aws.com`.

use serde_json::{Map, Value, json};
use storage_kube::in_tree::InTreePlugin;
use storage_kube::wire::InTreeSource;

use crate::class::{Class, fs_type_renamed, zones_as_topology};
use crate::new_volume::{CsiSource, one_region};
use crate::topology::zone_key;
use crate::{CsiVolume, Error};

const PLUGIN: InTreePlugin = InTreePlugin::AwsEbs;

pub(crate) fn class(class: Class) -> Result<Class, Error> {
    let mut class = zones_as_topology(class, zone_key(PLUGIN).unwrap_or_default())?;
    if class.parameters.keys().any(|key| key.eq_ignore_ascii_case("iopspergb")) {
        // The plugin raised what is too low for the size, the driver does so when it is told to.
        class.parameters.insert("allowautoiopspergbincrease".to_owned(), "true".to_owned());
    }
    class.parameters = fs_type_renamed(class.parameters);
    Ok(class)
}

pub(crate) fn to_csi(source: &InTreeSource) -> Result<CsiVolume, Error> {
    let id = volume_id(&source.id).ok_or_else(|| Error::Handle {
        plugin: PLUGIN,
        handle: source.id.clone(),
        form: "aws://ZONE/vol-ID, aws:///vol-ID or vol-ID",
    })?;
    Ok(CsiVolume::new(PLUGIN, id, source).with("partition", source.partition.to_string()))
}

pub(crate) fn source(csi: &CsiSource) -> Result<Map<String, Value>, Error> {
    let mut source = csi.as_source("volumeID", csi.handle());
    match csi.partition().transpose()? {
        None | Some(0) => {}
        Some(partition) => {
            source.insert("partition".to_owned(), json!(partition));
        }
    }
    Ok(source)
}

/// `us-west-2a`, `us-gov-east-1a`; `us-west-2-lax-1a` and `us-east-1-wl1-bos-wlz-1`, which lie in `us-west-2` and `us-east-1`.
pub(crate) fn region(zones: &[&str]) -> Result<String, Error> {
    one_region(zones, "us-west-2a", |zone| {
        let parts: Vec<_> = zone.split('-').collect();
        let last = parts.last()?;
        match parts.len() {
            3 | 4 if last.len() == 2 => zone.get(..zone.len() - 1).map(str::to_owned),
            5 | 7 => Some(parts[..3].join("-")),
            _ => None,
        }
    })
}

/// The backend's id: of a URL the path, anything else as it is.
fn volume_id(id: &str) -> Option<String> {
    let Some(rest) = id.strip_prefix("aws://") else { return Some(id.to_owned()) };
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    unescaped(fragment)?;
    if rest.bytes().any(|byte| byte.is_ascii_control()) {
        return None;
    }
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    let slash = rest.find('/').unwrap_or(rest.len());
    if !is_host(&rest[..slash]) {
        return None;
    }
    let path = unescaped(&rest[slash..])?;
    let id = path.trim_matches('/');
    (id.starts_with("vol-") && !id.contains('/')).then(|| id.to_owned())
}

/// Whether a URL may have it as its host, as Go reads URLs; one with a user or a literal address, which no zone is, may not.
fn is_host(host: &str) -> bool {
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    let allowed = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:]<>\"%".contains(c);
    let escapes = host.match_indices('%').all(|(at, _)| match host.as_bytes().get(at + 1..at + 3) {
        Some(b"25") => true,
        // In a host only what is not ASCII may be escaped.
        Some([high, low]) => high.is_ascii_hexdigit() && *high >= b'8' && low.is_ascii_hexdigit(),
        _ => false,
    });
    port.bytes().all(|byte| byte.is_ascii_digit()) && host.chars().all(allowed) && escapes
}

/// Without its percent escapes; `None` when one is cut or comes to no text.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let code = digit()? * 16 + digit()?;
            bytes.push(u8::try_from(code).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
