//! Identifies the build of a file or a module, which names and dates cannot.

use super::trust::is_device;
use crate::file::{Identity, Module};
use rustc_hash::FxHashMap;
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

/// These identify a build if its linker recorded nothing: the time stamp, the size and the path.
type FileFacts = (Option<u32>, u64, String);

/// The build of a module.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ModuleBuild {
    /// The identity that its linker recorded, without the path of the PDB.
    Identity(String),
    File(FileFacts),
}

impl Module {
    /// Whether both are loads of one build: their identities are the same or, if one of them has none,
    /// their time stamps, sizes and paths.
    pub fn is_same_build(&self, other: &Self) -> bool {
        if !self.name.eq_ignore_ascii_case(&other.name) {
            return false;
        }
        match (&self.identity, &other.identity) {
            (Some(own), Some(others)) => own.is_same_build(others),
            _ => self.file_facts() == other.file_facts(),
        }
    }

    /// Its build, as far as the module itself tells it.
    pub(crate) fn build(&self) -> ModuleBuild {
        match &self.identity {
            Some(identity) => ModuleBuild::Identity(identity.to_string().to_lowercase()),
            None => ModuleBuild::File(self.file_facts()),
        }
    }

    fn file_facts(&self) -> FileFacts {
        let path = self.path.as_deref().unwrap_or_default();
        let stamp = self.stamp.map(|stamp| stamp.time);
        (stamp, self.end.saturating_sub(self.start), path.to_lowercase())
    }
}

/// The build of each module. A trace may lack the identity of some loads. Such a module is of the same
/// build as one with an identity, if their time stamps, sizes and paths are equal.
pub(super) fn builds(modules: &[Module]) -> Vec<ModuleBuild> {
    let identified = modules.iter().filter(|module| module.identity.is_some());
    let identified: FxHashMap<FileFacts, ModuleBuild> =
        identified.map(|module| (module.file_facts(), module.build())).collect();
    let build = |module: &Module| match module.build() {
        ModuleBuild::File(facts) => {
            identified.get(&facts).cloned().unwrap_or(ModuleBuild::File(facts))
        }
        build @ ModuleBuild::Identity(_) => build,
    };
    modules.iter().map(build).collect()
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
pub(super) mod tests {
    use super::*;
    use crate::file::Stamp;

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

    pub(crate) fn module(path: &str, time: u32) -> Module {
        let name = path.rsplit('\\').next().unwrap_or_default().to_owned();
        let stamp = (time != 0).then_some(Stamp { time, size: 0x1000 });
        Module { name, path: Some(path.to_owned()), end: 0x1000, stamp, ..Module::default() }
    }

    pub(crate) fn with_identity(path: &str, byte: u8) -> Module {
        Module { identity: Some(Identity::build_id(&[byte; 8])), ..module(path, 0) }
    }

    #[test]
    fn a_build_is_known_by_its_identity_and_else_by_its_file() {
        let (a, b) = (module(r"C:\A\p.dll", 3), module(r"C:\B\p.dll", 5));
        for (one, other, same) in [
            (&a, &a, true),
            (&a, &b, false),
            (&a, &module(r"c:\a\P.dll", 3), true),
            (&a, &module(r"C:\A\p.dll", 4), false),
            (&with_identity(r"C:\A\p.dll", 1), &with_identity(r"C:\B\p.dll", 1), true),
            (&with_identity(r"C:\A\p.dll", 1), &with_identity(r"C:\A\p.dll", 2), false),
            (&with_identity(r"C:\A\p.dll", 1), &module(r"C:\A\p.dll", 0), true),
            (&a, &Module { end: 0x2000, ..a.clone() }, false),
        ] {
            assert_eq!(one.is_same_build(other), same, "{one:?} {other:?}");
        }
    }
}
