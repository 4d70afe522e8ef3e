//! The name of a volume; that of a new one is made from the claim, so that every retry asks for the same volume.

mod packed;

use std::num::NonZeroUsize;

use crate::dns_1123;
pub use packed::VolumeName;

/// How much of the claim's UID goes into the name (`--volume-name-uuid-length`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UuidLength {
    /// The whole UID with its dashes.
    Full,
    /// The UID without dashes, cut to this many characters. Two claims whose UIDs begin alike get one name,
    /// and so one volume: only safe with enough characters.
    First(NonZeroUsize),
}

/// Why a volume cannot be named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The flag is neither -1 nor positive. Zero would give all claims one name.
    #[error(
        "--volume-name-uuid-length={0} is not possible: use -1 for the whole UID or a positive number of characters"
    )]
    BadUuidLength(i64),
    /// The prefix is empty.
    #[error("volume name prefix is empty: set --volume-name-prefix, the default is pvc")]
    EmptyPrefix,
    /// The claim has no UID.
    #[error("the claim has no UID, so its volume cannot be named: it was not read from the API server")]
    EmptyUid,
    /// The UID is shorter than what the flag asks for.
    #[error(
        "claim UID {uid:?} has {available} characters without dashes, --volume-name-uuid-length={wanted} asks for more: use a smaller number or -1"
    )]
    UidTooShort {
        /// The claim's UID.
        uid: String,
        /// Characters it has without dashes.
        available: usize,
        /// Characters asked for.
        wanted: usize,
    },
    /// The result could not be stored as a `PersistentVolume`, which would be found out only after the driver made it.
    #[error(
        "{name:?} cannot be the name of a PersistentVolume: --volume-name-prefix must be lower-case letters, digits, '-' and '.', starting with a letter or digit, and name no more than 253 characters in all"
    )]
    NotAnObjectName {
        /// The name that was made.
        name: String,
    },
}

impl UuidLength {
    /// From the value of `--volume-name-uuid-length`: -1 or a positive number.
    pub fn from_flag(value: i64) -> Result<Self, Error> {
        if value == -1 {
            return Ok(Self::Full);
        }
        usize::try_from(value).ok().and_then(NonZeroUsize::new).map(Self::First).ok_or(Error::BadUuidLength(value))
    }
}

/// The name of the volume for a claim: `<prefix>-<uid>`, both as `CreateVolume` name and as object name.
pub fn volume_name(prefix: &str, claim_uid: &str, length: UuidLength) -> Result<VolumeName, Error> {
    if prefix.is_empty() {
        return Err(Error::EmptyPrefix);
    }
    if claim_uid.is_empty() {
        return Err(Error::EmptyUid);
    }
    let name = match length {
        UuidLength::Full => format!("{prefix}-{claim_uid}"),
        UuidLength::First(wanted) => {
            let stripped: Vec<char> = claim_uid.chars().filter(|&c| c != '-').collect();
            let first = stripped.get(..wanted.get()).ok_or_else(|| Error::UidTooShort {
                uid: claim_uid.to_owned(),
                available: stripped.len(),
                wanted: wanted.get(),
            })?;
            format!("{prefix}-{}", first.iter().collect::<String>())
        }
    };
    if !dns_1123::is_subdomain(&name) {
        return Err(Error::NotAnObjectName { name });
    }
    Ok(name.as_str().into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const UID: &str = "0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f";

    #[test]
    fn names_by_prefix_and_length() {
        let long = "p".repeat(253);
        let rows: &[(&str, &str, i64, Result<&str, Error>)] = &[
            ("pvc", UID, -1, Ok("pvc-0f3a1c5e-8b1d-4a57-9b0e-2f3b6d7c8e9f")),
            ("test", "testid", 5, Ok("test-testi")),
            ("pvc", UID, 10, Ok("pvc-0f3a1c5e8b")),
            ("pvc", UID, 32, Ok("pvc-0f3a1c5e8b1d4a579b0e2f3b6d7c8e9f")),
            ("a.b", UID, 1, Ok("a.b-0")),
            ("pvc", UID, 33, Err(Error::UidTooShort { uid: UID.into(), available: 32, wanted: 33 })),
            (
                "pvc",
                "testid",
                i64::MAX,
                Err(Error::UidTooShort { uid: "testid".into(), available: 6, wanted: usize::MAX >> 1 }),
            ),
            ("", UID, -1, Err(Error::EmptyPrefix)),
            ("", "", -1, Err(Error::EmptyPrefix)),
            ("pvc", "", -1, Err(Error::EmptyUid)),
            ("pvc", "", 5, Err(Error::EmptyUid)),
            ("PVC", UID, 2, Err(Error::NotAnObjectName { name: "PVC-0f".into() })),
            ("-a", UID, 2, Err(Error::NotAnObjectName { name: "-a-0f".into() })),
            (&long, UID, 2, Err(Error::NotAnObjectName { name: format!("{long}-0f") })),
        ];
        assert_eq!(rows.len(), 14);
        for (prefix, uid, length, expected) in rows {
            let got = volume_name(prefix, uid, UuidLength::from_flag(*length).unwrap());
            assert_eq!(
                got.map(|name| name.to_string()),
                expected.clone().map(str::to_owned),
                "{prefix} {uid} {length}"
            );
        }
    }

    #[test]
    fn the_flag_is_minus_one_or_positive() {
        for bad in [0, -2, i64::MIN] {
            assert_eq!(UuidLength::from_flag(bad), Err(Error::BadUuidLength(bad)));
        }
        assert_eq!(UuidLength::from_flag(-1), Ok(UuidLength::Full));
    }
}
