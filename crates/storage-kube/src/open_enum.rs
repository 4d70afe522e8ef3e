//! Enums over API strings that stay decodable when a later Kubernetes adds a value.

/// Defines an enum of the values an API field is known to take, plus `Other` for every other text.
///
/// The type is one byte, so it can sit in a cached record. `Other` does not keep the text: code that has to
/// copy the field to another object gets `None` from `as_str` and must refuse instead of guessing.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name {
            $( $(#[$variant_meta])* $variant, )+
            /// A value this version does not know; no rule matches it.
            Other,
        }

        impl $name {
            /// The API's spelling; `None` for [`Self::Other`].
            $vis fn as_str(self) -> Option<&'static str> {
                match self {
                    $( Self::$variant => Some(stringify!($variant)), )+
                    Self::Other => None,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $( stringify!($variant) => Self::$variant, )+
                    _ => Self::Other,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str().unwrap_or("(unknown)"))
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("a string (", stringify!($name), ")"))
                    }

                    fn visit_str<E>(self, text: &str) -> Result<$name, E> {
                        Ok($name::from(text))
                    }
                }
                deserializer.deserialize_str(Visitor)
            }
        }
    };
}

pub(crate) use open_enum;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    open_enum! {
        /// For the test.
        enum Colour {
            /// The first.
            Red,
            /// The second.
            Green,
        }
    }

    #[test]
    fn known_values_round_trip_and_unknown_ones_decode_as_other() {
        assert_eq!(serde_json::from_str::<Colour>(r#""Green""#).unwrap(), Colour::Green);
        assert_eq!(serde_json::from_str::<Colour>(r#""Mauve""#).unwrap(), Colour::Other);
        assert!(serde_json::from_str::<Colour>("7").is_err());
        assert_eq!(Colour::from("Red").as_str(), Some("Red"));
        assert_eq!(Colour::Other.as_str(), None);
        assert_eq!(Colour::Other.to_string(), "(unknown)");
        assert_eq!(size_of::<Option<Colour>>(), 1);
    }
}
