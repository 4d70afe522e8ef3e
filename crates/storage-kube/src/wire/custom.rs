//! Kinds that come from custom resource definitions: no generated type knows their group.

/// `Resource` of a namespaced kind. The `metadata` field of the type is its `ObjectMeta`.
macro_rules! custom_resource {
    ($type:ident, $group:literal, $version:literal, $plural:literal, $scope:ty) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($type).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(super) use custom_resource;

/// Scope of the kinds whose objects are in a namespace.
pub(super) type Namespaced = <k8s_openapi::api::core::v1::PersistentVolumeClaim as kube::Resource>::Scope;
/// Scope of the kinds whose objects are in none.
pub(super) type ClusterWide = <k8s_openapi::api::core::v1::PersistentVolume as kube::Resource>::Scope;
