//! Where files of symbols are looked for. Nothing is ever downloaded.

use super::identity::file_name;
use super::trust::{is_below, local, origin};
use crate::recording::{Identity, Metadata, Module};
use std::path::{Path, PathBuf};

/// Where distributions put the symbols that they part from their programs.
const SYSTEM_FOLDER: &str = "/usr/lib/debug";

/// Folders and stores that the user names, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymbolPath {
    folders: Vec<PathBuf>,
    servers: Vec<String>,
    /// What only this machine knows.
    secret: Option<Vec<u8>>,
    /// The recording was made on this machine.
    here: bool,
}

impl SymbolPath {
    /// Reads what `_NT_SYMBOL_PATH` and `--symbols` hold: parts between semicolons, each a folder,
    /// `srv*FOLDER*...*URL`, `cache*FOLDER` or `symsrv*DLL*FOLDER*...`. Only folders are searched;
    /// [servers](Self::servers) are kept to be told.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut path = Self::default();
        for part in text.split(';').map(str::trim) {
            let mut stores = part.split('*');
            let skipped = match stores
                .clone()
                .next()
                .map(str::to_ascii_lowercase)
                .as_deref()
            {
                Some("srv" | "cache") => 1,
                Some("symsrv") => 2,
                _ => 0,
            };
            stores.by_ref().take(skipped).for_each(drop);
            stores.for_each(|store| path.add(store));
        }
        path
    }

    /// Searches one more folder, which the user named.
    pub fn add_folder(&mut self, folder: &Path) {
        self.folders.push(folder.to_owned());
    }

    fn add(&mut self, store: &str) {
        match store.trim() {
            "" => {}
            server if server.contains("://") => self.servers.push(server.to_owned()),
            folder => self.folders.push(folder.into()),
        }
    }

    /// Searches what `other` names behind what this one names.
    pub fn extend(&mut self, other: Self) {
        self.folders.extend(other.folders);
        self.servers.extend(other.servers);
    }

    /// The same for a user of the machine with this secret: files that a recording names are
    /// opened where they were loaded from if the recording was made on it.
    #[must_use]
    pub fn on_machine(mut self, secret: Option<Vec<u8>>) -> Self {
        self.secret = secret;
        self
    }

    /// The same for what was loaded on this machine.
    #[must_use]
    pub fn loaded_here(mut self) -> Self {
        self.here = true;
        self
    }

    /// The same for one recording.
    pub(super) fn for_recording(&self, metadata: &Metadata) -> Self {
        let mut path = self.clone();
        let secret = self.secret.as_ref();
        path.here |= secret.is_some_and(|secret| origin(secret, metadata) == metadata.origin);
        path
    }

    /// A file that debug information or a recording names, where it lies below a folder that the
    /// user named.
    #[must_use]
    pub fn below(&self, named: &str) -> Option<PathBuf> {
        let path = local(named)?;
        let mut folders = self.folders.iter();
        folders
            .any(|folder| is_below(&path, folder))
            .then_some(path)
    }

    /// The file that a module was loaded from, if it may be opened.
    pub(super) fn loaded_from(&self, named: &str) -> Option<PathBuf> {
        if self.here {
            local(named)
        } else {
            self.below(named)
        }
    }

    /// The folders that are searched.
    #[must_use]
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The servers that it names, which are not asked.
    #[must_use]
    pub fn servers(&self) -> &[String] {
        &self.servers
    }

    /// Where a module itself may be: where it was loaded from, then by its name in the folders.
    pub(super) fn images(&self, module: &Module) -> Vec<PathBuf> {
        let path = module.path.as_deref();
        let name = file_name(path.unwrap_or(&module.name));
        let named = name.map(|name| self.folders.iter().map(move |at| at.join(name)));
        let loaded = path.and_then(|path| self.loaded_from(path));
        loaded
            .into_iter()
            .chain(named.into_iter().flatten())
            .collect()
    }

    /// Where the PDB of that identity may be: in the folders, beside the module, and where the
    /// linker wrote it if the user named that folder.
    pub(super) fn pdbs(&self, identity: &Identity, image: Option<&Path>) -> Vec<PathBuf> {
        let (Some(name), Some(build)) = (identity.pdb_name(), identity.folder()) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for folder in &self.folders {
            all.push(folder.join(name));
            all.push(folder.join(name).join(&build).join(name));
            // A store of two tiers: a folder for the first two letters.
            if let Some(letters) = name.get(..2) {
                all.push(folder.join(letters).join(name).join(&build).join(name));
            }
        }
        all.extend(image.map(|image| image.with_file_name(name)));
        if let Identity::Pdb { file, .. } = identity {
            all.extend(self.below(file));
        }
        all
    }

    /// Where the separated symbols of an ELF file may be, `link` being the name that it has for
    /// them.
    pub(super) fn debug_files(
        &self,
        identity: Option<&Identity>,
        link: Option<&str>,
        image: &Path,
    ) -> Vec<PathBuf> {
        let mut all = Vec::new();
        let system = Path::new(SYSTEM_FOLDER);
        let folders = self.folders.iter().map(PathBuf::as_path).chain([system]);
        if let Some((first, rest)) = identity.and_then(Identity::build_id_path) {
            let below = Path::new(".build-id")
                .join(first)
                .join(format!("{rest}.debug"));
            all.extend(folders.map(|folder| folder.join(&below)));
        }
        if let Some(link) = link.and_then(file_name) {
            all.extend(self.folders.iter().map(|folder| folder.join(link)));
            all.push(image.with_file_name(link));
            if let Some(folder) = image.parent() {
                all.push(folder.join(".debug").join(link));
                let below = folder.strip_prefix("/").unwrap_or(folder);
                all.push(system.join(below).join(link));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_symbol_path() {
        let text = r"C:\sym; srv*D:\cache*https://example.com/symbols ;;cache*E:\c;SRV*F:\a*F:\b;symsrv*symsrv.dll*G:\s*http://x/y";
        let path = SymbolPath::parse(text);
        let folders = [r"C:\sym", r"D:\cache", r"E:\c", r"F:\a", r"F:\b", r"G:\s"];
        assert_eq!(path.folders(), folders.map(PathBuf::from));
        assert_eq!(
            path.servers(),
            ["https://example.com/symbols", "http://x/y"]
        );
        assert_eq!(SymbolPath::parse(" ;"), SymbolPath::default());
    }

    #[test]
    fn a_pdb_is_looked_for_in_stores_then_beside_and_not_where_it_was_linked() {
        let identity = Identity::pdb([0; 16], 2, b"/build/a.pdb");
        let found = SymbolPath::parse("/s").pdbs(&identity, Some(Path::new("/bin/a.exe")));
        let build = "000000000000000000000000000000002";
        let expected = [
            "/s/a.pdb".to_owned(),
            format!("/s/a.pdb/{build}/a.pdb"),
            format!("/s/a./a.pdb/{build}/a.pdb"),
            "/bin/a.pdb".to_owned(),
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn separated_symbols_are_looked_for_by_build_id_then_by_link() {
        let identity = Identity::build_id(&[0xAB, 0xCD]);
        let path = SymbolPath::parse("/s");
        let image = Path::new("/bin/a");
        let found = path.debug_files(Some(&identity), Some("a.debug"), image);
        let expected = [
            "/s/.build-id/ab/cd.debug",
            "/usr/lib/debug/.build-id/ab/cd.debug",
            "/s/a.debug",
            "/bin/a.debug",
            "/bin/.debug/a.debug",
            "/usr/lib/debug/bin/a.debug",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn a_module_is_opened_where_it_was_loaded_only_on_the_same_machine() {
        let module = Module {
            name: "a".to_owned(),
            path: Some("/bin/a".to_owned()),
            ..Module::default()
        };
        let metadata = |secret: &[u8]| {
            let mut metadata = Metadata::default();
            metadata.origin = origin(secret, &metadata);
            metadata
        };
        let path = SymbolPath::default().on_machine(Some(b"ours".to_vec()));
        let images =
            |path: &SymbolPath, secret| path.for_recording(&metadata(secret)).images(&module);
        assert_eq!(images(&path, b"ours"), [PathBuf::from("/bin/a")]);
        assert!(images(&path, b"theirs").is_empty());
        let nobody = SymbolPath::default();
        let unknown = nobody.for_recording(&Metadata::default());
        assert!(unknown.images(&module).is_empty());
    }
}
