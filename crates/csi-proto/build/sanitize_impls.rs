//! Writes `impl Sanitize` for every message of a package, and `impl Debug` for those that can hold secrets.
//!
//! Fields are visited in the order of their names, which is the order of the keys in the JSON text.

use std::fmt::Write;

use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

use crate::rust_paths::{field_name, type_path, variant_path};
use crate::secret_fields::{is_secret, messages_with_secrets};

/// The impls of one package, to be included in the module of the package.
///
/// # Errors
/// A field of a kind that CSI did not use so far: it names the field, which this file must learn to write.
pub(crate) fn generate(pool: &DescriptorPool, package: &str) -> Result<String, String> {
    let secretive = messages_with_secrets(pool)?;
    let mut code = String::new();
    for message in pool.all_messages().filter(|message| message.package_name() == package && !message.is_map_entry()) {
        let name = type_path(package, message.full_name());
        code.push_str(&sanitize_impl(&message, package, &name)?);
        if secretive.contains(message.full_name()) {
            if message.oneofs().len() > 0 {
                return Err(format!("{}: a oneof beside a secret has no Debug yet", message.full_name()));
            }
            code.push_str(&debug_impl(&name));
        }
    }
    Ok(code)
}

fn sanitize_impl(message: &MessageDescriptor, package: &str, name: &str) -> Result<String, String> {
    let mut fields: Vec<FieldDescriptor> = message.fields().collect();
    fields.sort_by(|a, b| a.name().cmp(b.name()));
    let mut body = String::new();
    for field in &fields {
        let _ = writeln!(body, "            {}", statement(field, package)?);
    }
    let binding = if body.is_empty() { "let object" } else { "let mut object" };
    Ok(format!(
        "impl crate::Sanitize for {name} {{
    fn write_sanitized(&self, out: &mut ::std::string::String) {{
        {binding} = crate::sanitize::Object::open(out);
{body}        object.close();
    }}
}}
"
    ))
}

fn debug_impl(name: &str) -> String {
    format!(
        "impl ::core::fmt::Debug for {name} {{
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {{
        f.write_str(&crate::Sanitize::sanitized(self))
    }}
}}
"
    )
}

/// The statement that adds one field to `object` (see `Object` in `src/sanitize.rs`).
fn statement(field: &FieldDescriptor, package: &str) -> Result<String, String> {
    let key = field.name();
    let value = format!("self.{}", field_name(key));
    let unknown = || Err(format!("{}: build/sanitize_impls.rs cannot write {:?}", field.full_name(), field.kind()));

    if let Some(oneof) = field.containing_oneof() {
        let variant = variant_path(package, field.parent_message().full_name(), oneof.name(), key);
        return match field.kind() {
            Kind::Message(_) if !is_secret(field)? => Ok(format!(
                "if let Some({variant}(value)) = &self.{} {{ object.message({key:?}, Some(value)); }}",
                field_name(oneof.name())
            )),
            _ => unknown(),
        };
    }
    if is_secret(field)? {
        return if field.is_map() || field.is_list() || field.kind() == Kind::String {
            Ok(format!("object.secret({key:?}, !{value}.is_empty());"))
        } else {
            unknown()
        };
    }
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else {
            return unknown();
        };
        return match (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind()) {
            (Kind::String, Kind::String) => Ok(format!("object.string_map({key:?}, &{value});")),
            _ => unknown(),
        };
    }
    Ok(match (field.kind(), field.is_list()) {
        (Kind::Message(_), true) => format!("object.messages({key:?}, &{value});"),
        (Kind::String, true) => format!("object.strings({key:?}, &{value});"),
        // prost turns the wrapper messages into options of what they wrap.
        (Kind::Message(inner), false) => match inner.full_name() {
            "google.protobuf.BoolValue" => format!("object.wrapped_bool({key:?}, {value});"),
            "google.protobuf.Int64Value" => format!("object.wrapped_integer({key:?}, {value});"),
            _ => format!("object.message({key:?}, {value}.as_ref());"),
        },
        (Kind::String, false) => format!("object.string({key:?}, &{value});"),
        (Kind::Bool, false) => format!("object.bool({key:?}, {value});"),
        (Kind::Int32, false) => format!("object.integer({key:?}, {value}.into());"),
        (Kind::Int64, false) => format!("object.integer({key:?}, {value});"),
        (Kind::Enum(inner), false) => {
            let path = type_path(package, inner.full_name());
            format!(
                "object.enumeration({key:?}, {value}, {path}::try_from({value}).ok().map(|value| value.as_str_name()));"
            )
        }
        _ => return unknown(),
    })
}
