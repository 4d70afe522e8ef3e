//! Names that prost gives to what it generates (`heck` is what prost itself uses).

use heck::{ToSnakeCase, ToUpperCamelCase};

/// Path of a message's or enum's type, seen from the module of its package:
/// `csi.v1.VolumeContentSource.SnapshotSource` is `volume_content_source::SnapshotSource`.
pub(crate) fn type_path(package: &str, full_name: &str) -> String {
    let local = full_name.strip_prefix(package).unwrap_or(full_name).trim_start_matches('.');
    let mut path = String::new();
    let mut name = local;
    while let Some((outer, inner)) = name.split_once('.') {
        path += &identifier(&outer.to_snake_case());
        path += "::";
        name = inner;
    }
    path + &name.to_upper_camel_case()
}

/// Path of the variant of a oneof's enum, seen from the module of its package.
pub(crate) fn variant_path(package: &str, message: &str, oneof: &str, field: &str) -> String {
    let oneof = type_path(package, &format!("{message}.{oneof}"));
    format!("{oneof}::{}", field.to_upper_camel_case())
}

/// A struct field's name.
pub(crate) fn field_name(name: &str) -> String {
    identifier(&name.to_snake_case())
}

/// `type` is the only keyword among the names of CSI; another one would not compile and be noticed.
fn identifier(name: &str) -> String {
    if name == "type" { "r#type".to_owned() } else { name.to_owned() }
}
