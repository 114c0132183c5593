//! Which build a file is: names and dates cannot tell, these identifiers can.

use super::trust::is_device;
use crate::file::Identity;
use std::fmt;

impl Identity {
    /// From the sixteen bytes in the debug record.
    pub fn pdb(guid: [u8; 16], age: u32, file: &[u8]) -> Self {
        // The first three fields are little-endian numbers.
        let mut digits = guid;
        for field in [0..4, 4..6, 6..8] {
            digits[field].reverse();
        }
        Self::Pdb { guid: capitals(&digits), age, file: String::from_utf8_lossy(file).into_owned() }
    }

    /// From the bytes of the note.
    pub fn build_id(bytes: &[u8]) -> Self {
        Self::BuildId(capitals(bytes).to_lowercase())
    }

    /// Whether both identify the same build; the path of a PDB does not matter.
    pub fn is_same_build(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pdb { guid, age, .. }, Self::Pdb { guid: other, age: other_age, .. }) => {
                guid.eq_ignore_ascii_case(other) && age == other_age
            }
            (Self::BuildId(id), Self::BuildId(other)) => id.eq_ignore_ascii_case(other),
            _ => false,
        }
    }

    /// The folder in a symbol store: the GUID and the age. `None` if the text is anything else,
    /// which must not become part of a path.
    pub(super) fn folder(&self) -> Option<String> {
        match self {
            Self::Pdb { guid, age, .. } if is_hex(guid) => Some(format!("{guid}{age:X}")),
            _ => None,
        }
    }

    /// The two parts of a file's path below `.build-id`, without `.debug`.
    pub(super) fn build_id_path(&self) -> Option<(&str, &str)> {
        match self {
            Self::BuildId(id) if is_hex(id) => id.split_at_checked(2),
            _ => None,
        }
    }

    /// The PDB's name without its folders, for the separators of Windows and of other systems.
    pub(super) fn pdb_name(&self) -> Option<&str> {
        match self {
            Self::Pdb { file, .. } => file_name(file),
            Self::BuildId(_) => None,
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pdb { guid, age, .. } => write!(f, "{guid} age {age}"),
            Self::BuildId(id) => write!(f, "build-id {id}"),
        }
    }
}

/// The last component of a Windows or Unix path, if it names a file.
pub(super) fn file_name(path: &str) -> Option<&str> {
    let name = path.rsplit(['\\', '/']).next()?;
    let is_file = !matches!(name, "" | "." | "..") && !name.contains([':', '\0']);
    (is_file && !is_device(name)).then_some(name)
}

fn is_hex(text: &str) -> bool {
    text.len() > 2 && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn capitals(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02X}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUID: [u8; 16] = [0x78, 0x56, 0x34, 0x12, 0xBC, 0x9A, 0xF0, 0xDE, 1, 2, 3, 4, 5, 6, 7, 8];

    #[test]
    fn a_store_has_the_guid_in_the_order_of_its_fields() {
        let identity = Identity::pdb(GUID, 26, b"C:\\build\\a.pdb");
        assert_eq!(identity.folder().as_deref(), Some("123456789ABCDEF001020304050607081A"));
        assert_eq!(identity.pdb_name(), Some("a.pdb"));
    }

    #[test]
    fn what_a_file_claims_does_not_leave_its_folder() {
        for name in ["..", "a/..", "C:", "a\\", "", "x/c:evil", "NUL", "a/com1.pdb"] {
            assert_eq!(file_name(name), None, "{name}");
        }
        let hostile =
            |guid: &str| Identity::Pdb { guid: guid.to_owned(), age: 1, file: String::new() };
        assert_eq!(hostile("../../../etc").folder(), None);
        assert_eq!(Identity::BuildId("ab/../../x".into()).build_id_path(), None);
        assert_eq!(Identity::BuildId("é1".into()).build_id_path(), None);
    }

    #[test]
    fn builds_are_told_apart() {
        let a = Identity::pdb(GUID, 1, b"a.pdb");
        assert!(a.is_same_build(&Identity::pdb(GUID, 1, b"C:\\a.pdb")));
        assert!(!a.is_same_build(&Identity::pdb(GUID, 2, b"a.pdb")));
        assert!(!a.is_same_build(&Identity::build_id(&GUID)));
        assert_eq!(Identity::build_id(&[0xAB, 1]).to_string(), "build-id ab01");
    }
}
