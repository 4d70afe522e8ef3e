//! Kubernetes storage vocabulary: the words and published rules the controllers share, without I/O loops.
//!
//! A claim on its way to the driver passes these modules in this order:
//!
//! 1. [`wire`] decodes claims, volumes, classes and attachments, only the fields a rule reads;
//!    [`uid`] and [`names`] keep what a cache remembers of them small and typed.
//! 2. [`class_name`] says which class a claim asks for, [`annotations`] which keys say whose claim it is.
//! 3. [`volume_name`] names the volume, [`quantity`] its size, [`access_mode`], [`fs_type`] and
//!    [`volume_capability`] how it is used, [`parameters`] what of the class the driver gets.
//! 4. [`secret_ref`] finds the secrets of the class, [`credentials`] reads one of them.
//! 5. [`topology`] says which nodes reach it.
//! 6. [`finalizers`] protects the volume that comes back.
//!
//! [`in_tree`] knows which plugin built into Kubernetes each driver replaces.
//!
//! Everything here is a pure function or a type, except [`credentials::fetch`], which is one GET.
//!
//! Not guaranteed: types in [`wire`] are views for reading. They hold less than the object, so they cannot
//! be serialised and must never be the source of a PUT.

pub mod access_mode;
pub mod annotations;
mod attachment_name;
pub mod class_name;
pub mod credentials;
pub mod dns_1123;
pub mod finalizers;
pub mod fs_type;
pub mod in_tree;
pub mod names;
mod open_enum;
pub mod parameters;
pub mod quantity;
pub mod reclaim_policy;
pub mod secret_ref;
pub mod topology;
pub mod uid;
pub mod volume_capability;
pub mod volume_mode;
pub mod volume_name;
pub mod wire;
