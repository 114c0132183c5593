//! Where symbol files are looked for. Missing ones are fetched from a server only if the user asked
//! for that.

use super::folders::Folders;
use super::identity::file_name;
use super::store::{Check, Fetch, Key, Server, TellFailure};
use super::trust::{has_links, is_below, local, moved_below};
use crate::file::origin::{origin, seal};
use crate::file::{Identity, Metadata, Module};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Where distributions put the symbols that they separate from their programs.
const SYSTEM_FOLDER: &str = "/usr/lib/debug";

/// What `srv*` alone stands for: Microsoft's server.
const MICROSOFT: &str = "https://msdl.microsoft.com/download/symbols";

/// What came of asking the servers for a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fetched {
    /// Where it is now.
    pub(super) file: Option<PathBuf>,
    /// Which servers do not have it, each as a sentence.
    pub(super) absent: Vec<String>,
    /// From which servers it could not be fetched and why.
    pub(super) failures: Vec<String>,
}

/// The file of a module that whoever reads a recording has within itself.
pub type BuiltIn = fn(&Module) -> Option<&'static [u8]>;

/// Folders and stores that the user names, in their order.
#[derive(Clone, Debug, Default)]
pub struct SymbolPath {
    folders: Vec<PathBuf>,
    /// Searched for modules, but not for their symbols.
    image_folders: Vec<PathBuf>,
    servers: Vec<Server>,
    /// How to ask the servers, if the user wants that.
    fetch: Option<Fetch>,
    tell_failure: Option<TellFailure>,
    built_in: Option<BuiltIn>,
    /// The key that seals the user's recordings.
    key: Option<Vec<u8>>,
    /// Whether all modules were loaded on this machine.
    here: bool,
    /// The recording's origin, if the key has sealed it.
    origin: Option<String>,
    /// The folders that were looked through so far.
    searched: Folders,
    /// Whether inlined functions are left out.
    is_without_inlined: bool,
}

impl SymbolPath {
    /// Makes symbols leave out inlined functions: their code belongs to the function around them.
    #[must_use]
    pub fn without_inlined(mut self) -> Self {
        self.is_without_inlined = true;
        self
    }

    /// Whether symbols have inlined functions.
    pub(super) const fn has_inlined(&self) -> bool {
        !self.is_without_inlined
    }

    /// Parses the contents of `_NT_SYMBOL_PATH` and `--symbol-path`: parts separated by semicolons,
    /// each a folder, `srv*FOLDER*...*URL`, `cache*FOLDER` or `symsrv*DLL*FOLDER*...`. An empty
    /// folder is the debuggers' default store, and `srv*` alone is Microsoft's server.
    pub fn parse(text: &str) -> Self {
        Self::parse_with(text, default_store().as_deref())
    }

    fn parse_with(text: &str, default: Option<&Path>) -> Self {
        let default = default.map(Path::to_owned);
        let mut path = Self::default();
        // `cache*` applies to everything after it.
        let mut cache: Option<PathBuf> = None;
        for part in text.split(';').map(str::trim) {
            let (kind, stores) = part.split_once('*').unwrap_or(("", part));
            let kind = kind.to_ascii_lowercase();
            let stores = match kind.as_str() {
                "symsrv" => stores.split_once('*').map_or("", |(_, stores)| stores),
                "srv" | "cache" => stores,
                _ => part,
            };
            let is_store = stores.len() != part.len();
            if is_store && kind != "cache" && stores.is_empty() {
                path.add_server(MICROSOFT, cache.clone().or_else(|| default.clone()));
                continue;
            }
            // The store nearest to the user: files from a server are put there.
            let mut nearest = None;
            for store in stores.split('*').map(str::trim) {
                if store.contains("://") {
                    path.add_server(store, cache.clone().or_else(|| nearest.clone()));
                    continue;
                }
                let named = (!store.is_empty()).then(|| PathBuf::from(store));
                let standard = default.clone().filter(|_| is_store);
                let Some(folder) = named.or(standard) else {
                    continue;
                };
                path.folders.push(folder.clone());
                nearest.get_or_insert(folder);
            }
            if kind == "cache" {
                cache = nearest;
            }
        }
        path
    }

    fn add_server(&mut self, url: &str, store: Option<PathBuf>) {
        // What was fetched before is found there without asking the server again.
        let known = store.as_ref().is_none_or(|at| self.folders.contains(at));
        if !known {
            self.folders.extend(store.clone());
        }
        self.servers.push(Server { url: url.to_owned(), store });
    }

    /// Searches one more folder, which the user named.
    pub fn add_folder(&mut self, folder: &Path) {
        self.folders.push(folder.to_owned());
    }

    /// Also searches what `other` names, after what this one names.
    pub fn extend(&mut self, other: Self) {
        self.folders.extend(other.folders);
        self.image_folders.extend(other.image_folders);
        self.servers.extend(other.servers);
    }

    /// Searches the folders and stores of `_NT_EXECUTABLE_IMAGE_PATH`, for modules only.
    pub fn extend_images(&mut self, text: &str) {
        self.image_folders.extend(Self::parse(text).folders);
    }

    /// This path for a user who wants missing files fetched from the servers.
    #[must_use]
    pub fn downloading(mut self, fetch: Fetch) -> Self {
        self.fetch = Some(fetch);
        self
    }

    /// This path for a user who is told once for each module what of it could not be fetched.
    #[must_use]
    pub fn telling_failures(mut self, tell: TellFailure) -> Self {
        self.tell_failure = Some(tell);
        self
    }

    /// This path with modules that are in no folder.
    #[must_use]
    pub fn with_built_in(mut self, built_in: BuiltIn) -> Self {
        self.built_in = Some(built_in);
        self
    }

    pub(super) fn built_in(&self, module: &Module) -> Option<&'static [u8]> {
        self.built_in?(module)
    }

    pub(super) fn tell_failure(&self, module: &str, why: &[String]) {
        if let Some(tell) = self.tell_failure {
            tell(&format!("symbols of {module}: {}", why.join("; ")));
        }
    }

    /// How to ask the servers, if the user wants that.
    pub(super) const fn fetch(&self) -> Option<Fetch> {
        self.fetch
    }

    /// This path for the user with this key: if it has sealed a recording, the files that the recording
    /// names are opened where they were loaded from.
    #[must_use]
    pub fn with_key(mut self, key: Option<Vec<u8>>) -> Self {
        self.key = key;
        self
    }

    /// This path for modules that were loaded on this machine.
    #[must_use]
    pub fn loaded_here(mut self) -> Self {
        self.here = true;
        self
    }

    /// This path for one recording.
    pub(super) fn for_recording(&self, metadata: &Metadata) -> Self {
        let mut path = self.clone();
        // A recording of another machine or user has an origin that this key does not make.
        let own = self.key.as_ref().map(|key| origin(key, metadata));
        path.origin = own.filter(|own| *own == metadata.origin);
        path
    }

    /// Whether halprof recorded here that this module was loaded.
    fn was_loaded_here(&self, module: &Module) -> bool {
        let ours = self.key.as_ref().zip(self.origin.as_ref());
        let sealed = ours.map(|(key, origin)| seal(key, origin, module));
        self.here || sealed.is_some_and(|sealed| module.seal.as_ref() == Some(&sealed))
    }

    /// A file that debug information or a recording names, if it lies below a folder that the user
    /// named. Capital and small letters are the same, as on Windows.
    pub fn below(&self, named: &str) -> Option<PathBuf> {
        let path = local(named)?;
        let folders = self.folders.iter().chain(&self.image_folders);
        folders.filter_map(|folder| moved_below(&path, folder).zip(Some(folder))).find_map(
            |(named, folder)| {
                let found = self.searched.file(&named)?;
                is_below(&found, folder).then_some(found)
            },
        )
    }

    /// Those of the candidates that are files, as this system names them.
    pub(super) fn existing(&self, candidates: &[PathBuf]) -> Vec<PathBuf> {
        let found = candidates.iter().filter_map(|path| self.searched.file(path));
        each_once(found.collect())
    }

    /// The file that a module was loaded from, if it is known and may be opened.
    pub(super) fn loaded_from(&self, module: &Module) -> Option<PathBuf> {
        let named = module.path.as_deref()?;
        if self.was_loaded_here(module) {
            local(named).filter(|path| !has_links(path))
        } else {
            self.below(named)
        }
    }

    /// The folders that are searched.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The servers that it names, which are asked only by a path that is [`Self::downloading`].
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Where a module itself may be: where it was loaded from, then in the folders and stores.
    pub(super) fn images(&self, module: &Module) -> Vec<PathBuf> {
        let path = module.path.as_deref();
        let name = file_name(path.unwrap_or(&module.name));
        let mut all: Vec<PathBuf> = self.loaded_from(module).into_iter().collect();
        for folder in self.folders.iter().chain(&self.image_folders) {
            all.extend(name.map(|name| folder.join(name)));
            let key = Key::of_image(module);
            all.extend(key.into_iter().flat_map(|key| key.locations(folder)));
        }
        each_once(all)
    }

    /// Where the PDB of that identity may be: in the folders and stores, beside the module, and
    /// where the linker wrote it if the user named that folder.
    pub(super) fn pdbs(&self, identity: &Identity, image: Option<&Path>) -> Vec<PathBuf> {
        let (Some(name), Some(key)) = (identity.pdb_name(), Key::of_pdb(identity)) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for folder in &self.folders {
            all.push(folder.join(name));
            all.extend(key.locations(folder));
        }
        all.extend(image.map(|image| image.with_file_name(name)));
        if let Identity::Pdb { file, .. } = identity {
            all.extend(self.below(file));
        }
        each_once(all)
    }

    /// Where the separate symbols of an ELF file may be; `link` is its own name for them.
    pub(super) fn debug_files(
        &self,
        identity: Option<&Identity>,
        link: Option<&str>,
        image: &Path,
    ) -> Vec<PathBuf> {
        let mut all = Vec::new();
        // GDB looks in these places too (its manual, "Debugging Information in Separate Files").
        let system = Path::new(SYSTEM_FOLDER);
        let folders = self.folders.iter().map(PathBuf::as_path).chain([system]);
        if let Some((first, rest)) = identity.and_then(Identity::build_id_path) {
            let below = Path::new(".build-id").join(first).join(format!("{rest}.debug"));
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
        each_once(all)
    }

    /// Asks the servers in their order, if the user wants that.
    pub(super) fn fetched(&self, key: &Key<'_>, check: Check<'_>) -> Fetched {
        let mut fetched = Fetched::default();
        let Some(fetch) = self.fetch else {
            return fetched;
        };
        for server in &self.servers {
            match key.fetch(fetch, server, check) {
                Ok(Some(file)) => {
                    fetched.file = Some(file);
                    break;
                }
                Ok(None) => {
                    fetched.absent.push(format!("{} does not have {}", server.url, key.name));
                }
                Err(why) => {
                    let failure =
                        format!("{} was not fetched from {}: {why}", key.name, server.url);
                    fetched.failures.push(failure);
                }
            }
        }
        fetched
    }
}

/// These paths without repetitions: a module's own folder may be one that is searched.
fn each_once(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut known = HashSet::new();
    paths.retain(|path| known.insert(path.clone()));
    paths
}

/// Where the debuggers put what they fetch by default.
fn default_store() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    let home = folder("DBGHELP_HOMEDIR").map(|home| home.join("sym"));
    home.or_else(|| Some(folder("ProgramData")?.join("Dbg").join("sym")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Statistics, Writer, read};
    use std::fs::{self, File};
    use std::io::Write;

    #[test]
    fn every_form_of_a_symbol_path() {
        const ALL: &str = r"C:\sym; srv*D:\cache*https://example.com/s ;;cache*E:\c;SRV*F:\a*F:\b;symsrv*symsrv.dll*G:\s*http://x/y";
        const URL: &str = "http://x/y";
        let stores = r"C:\sym D:\cache E:\c F:\a F:\b G:\s";
        for (text, default, folders, servers) in [
            // Files from the stores after `cache*` are kept there.
            (ALL, "/d", stores, &[("https://example.com/s", r"D:\cache"), (URL, r"E:\c")][..]),
            (" ;", "/d", "", &[]),
            // An empty store is the default one.
            ("srv**http://x/y", "/d", "/d", &[(URL, "/d")]),
            ("srv*", "/d", "/d", &[(MICROSOFT, "/d")]),
            ("cache*;srv*http://x/y", "/d", "/d", &[(URL, "/d")]),
            ("cache*/c;SRV*", "/d", "/c", &[(MICROSOFT, "/c")]),
            ("srv**http://x/y", "", "", &[(URL, "")]),
            ("srv*/a**http://x/y", "/d", "/a /d", &[(URL, "/a")]),
            ("symsrv*symsrv.dll*/a*http://x/y", "", "/a", &[(URL, "/a")]),
        ] {
            let path_of = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
            let path = SymbolPath::parse_with(text, path_of(default).as_deref());
            let folders = folders.split_whitespace().map(PathBuf::from);
            assert_eq!(path.folders(), folders.collect::<Vec<_>>(), "{text}");
            let server = |&(url, store): &(&str, &str)| Server {
                url: url.to_owned(),
                store: path_of(store),
            };
            assert_eq!(path.servers(), servers.iter().map(server).collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn modules_are_looked_for_in_the_image_path_too() {
        let mut path = SymbolPath::parse("/s");
        path.extend_images("srv*/i");
        let module = Module {
            name: "a.dll".to_owned(),
            stamp: Some(crate::file::Stamp { time: 0x1234, size: 0x5000 }),
            ..Module::default()
        };
        let candidates = path.images(&module);
        for wanted in ["/s/a.dll", "/i/a.dll", "/i/a.dll/000012345000/a.dll"] {
            assert!(candidates.contains(&PathBuf::from(wanted)), "{candidates:?}");
        }
        let identity = Identity::pdb([0; 16], 2, b"a.pdb");
        let pdbs = path.pdbs(&identity, None);
        assert!(!pdbs.contains(&PathBuf::from("/i/a.pdb")), "{pdbs:?}");
    }

    #[test]
    fn a_module_s_own_folder_is_searched_once() {
        let module = Module {
            name: "a.exe".to_owned(),
            path: Some("/bin/a.exe".to_owned()),
            ..Module::default()
        };
        let path = SymbolPath::parse("/bin;/bin/").loaded_here();
        assert_eq!(path.images(&module), [PathBuf::from("/bin/a.exe")]);
        let pdbs = path.pdbs(&Identity::pdb([0; 16], 2, b"a.pdb"), Some(Path::new("/bin/a.exe")));
        let beside = Path::new("/bin/a.pdb");
        assert_eq!(pdbs.iter().filter(|&path| path == beside).count(), 1);
    }

    #[test]
    fn a_pdb_is_looked_for_in_stores_then_beside_and_not_where_it_was_linked() {
        let identity = Identity::pdb([0; 16], 2, b"/build/a.pdb");
        let candidates = SymbolPath::parse("/s").pdbs(&identity, Some(Path::new("/bin/a.exe")));
        let key = Key::of_pdb(&identity).expect("a key");
        let [plain, beside] = ["/s/a.pdb", "/bin/a.pdb"].map(|path| vec![PathBuf::from(path)]);
        assert_eq!(candidates, [plain, key.locations(Path::new("/s")), beside].concat());
    }

    #[test]
    fn separated_symbols_are_looked_for_by_build_id_then_by_link() {
        let identity = Identity::build_id(&[0xAB, 0xCD]);
        let path = SymbolPath::parse("/s");
        let candidates = path.debug_files(Some(&identity), Some("a.debug"), Path::new("/bin/a"));
        let expected = [
            "/s/.build-id/ab/cd.debug",
            "/usr/lib/debug/.build-id/ab/cd.debug",
            "/s/a.debug",
            "/bin/a.debug",
            "/bin/.debug/a.debug",
            "/usr/lib/debug/bin/a.debug",
        ];
        assert_eq!(candidates, expected.map(PathBuf::from));
    }

    /// Compresses the requested file, as a server would return it.
    fn answers_compressed(url: &str, file: &mut File) -> Result<bool, String> {
        file.write_all(url.as_bytes()).map_err(|error| error.to_string())?;
        Ok(url.ends_with('_'))
    }

    /// One server does not have the file, and the other cannot be reached.
    fn answers_nothing(url: &str, _: &mut File) -> Result<bool, String> {
        if url.starts_with("http://dead") {
            return Err("the line is dead".to_owned());
        }
        Ok(false)
    }

    /// What does not pass the check stays nowhere.
    #[test]
    fn only_what_was_asked_for_is_put_into_a_store() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!("srv*{}*http://a", folder.path().display());
        let identity = Identity::pdb([0x11; 16], 0x2A, b"a.pdb");
        let key = Key::of_pdb(&identity).expect("a key");
        let path = SymbolPath::parse(&text).downloading(answers_compressed);
        let fetched = path.fetched(&key, &|file, name| {
            let came = fs::read_to_string(file).expect("it came");
            assert!(came.ends_with("/a.pd_") && name == "a.pd_", "{came}");
            Err("it is of another build".to_owned())
        });
        assert_eq!(fetched.file, None);
        assert!(fetched.failures[0].ends_with("another build"), "{fetched:?}");
        assert_eq!(fs::read_dir(folder.path()).expect("a store").count(), 0);
    }

    #[test]
    fn what_a_server_has_is_put_into_its_store() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().display();
        let text = format!("srv*{store}*http://a/b/");
        let identity = Identity::pdb([0x11; 16], 0x2A, b"C:\\build\\my app.pdb");
        let key = Key::of_pdb(&identity).expect("a key");
        let fetched = |path: SymbolPath| path.fetched(&key, &|_, _| Ok(()));
        // Nothing is requested unless the user asked for it.
        assert_eq!(fetched(SymbolPath::parse(&text)), Fetched::default());
        let path = |fetch| SymbolPath::parse(&text).downloading(fetch);
        let Fetched { file, absent, failures } = fetched(path(answers_compressed));
        let file = file.expect("it came");
        assert_eq!([absent, failures].concat(), [""; 0]);
        assert!(key.locations(folder.path()).contains(&file));
        assert_eq!(
            fs::read_to_string(file).expect("it is there"),
            "http://a/b/my%20app.pdb/111111111111111111111111111111112A/my%20app.pd_"
        );
        let nothing = fetched(path(answers_nothing));
        assert_eq!(nothing.absent, ["http://a/b/ does not have my app.pdb"]);
        let dead = text.replace("http://a", "http://dead");
        let dead = fetched(SymbolPath::parse(&dead).downloading(answers_nothing));
        assert!(dead.failures[0].ends_with("the line is dead"), "{dead:?}");
        // Only complete files are left behind.
        assert_eq!(fs::read_dir(folder.path()).expect("a store").count(), 1);
        let nowhere = SymbolPath::parse("srv*http://a/b").downloading(answers_compressed);
        let nowhere = fetched(nowhere);
        assert!(nowhere.failures[0].contains("srv*FOLDER*URL"), "{nowhere:?}");
    }

    /// A module in a recording that a key has sealed, and that began at some time.
    fn recorded(key: &[u8], began: u64) -> (Metadata, Module) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.rec");
        let mut metadata = Metadata { began, ..Metadata::default() };
        metadata.origin = origin(key, &metadata);
        let module = Module {
            name: "a".to_owned(),
            path: Some("/nowhere/a".to_owned()),
            identity: Some(Identity::pdb([0; 16], 2, b"a.pdb")),
            ..Module::default()
        };
        let writer = Writer::create(&file, &metadata).expect("created");
        let mut writer = writer.sealing(Some(key.to_vec()));
        writer.modules(&[module]).expect("written");
        let finished = writer.finish(&Statistics::default(), false);
        finished.expect("finished");
        let recording = read(&file, |_| {}).expect("readable");
        (recording.metadata, recording.modules[0].clone())
    }

    #[test]
    fn a_module_is_opened_where_it_was_loaded_only_with_the_key_that_sealed_it() {
        let path = SymbolPath::default().with_key(Some(b"ours".to_vec()));
        let images = |path: &SymbolPath, key| {
            let (metadata, module) = recorded(key, 1);
            path.for_recording(&metadata).images(&module)
        };
        assert_eq!(images(&path, b"ours"), [PathBuf::from("/nowhere/a")]);
        assert!(images(&path, b"theirs").is_empty());
        assert!(images(&SymbolPath::default(), b"ours").is_empty());
        let here = SymbolPath::default().loaded_here();
        assert_eq!(images(&here, b"theirs"), [PathBuf::from("/nowhere/a")]);
    }

    #[test]
    fn a_sealed_recording_that_was_edited_opens_nothing_else() {
        let path = SymbolPath::default().with_key(Some(b"ours".to_vec()));
        let (metadata, module) = recorded(b"ours", 1);
        let path = path.for_recording(&metadata);
        let edits: [fn(&mut Module); 5] = [
            |module| module.path = Some("/bin/ls".to_owned()),
            |module| module.name = "ls".to_owned(),
            |module| module.identity = Some(Identity::pdb([0; 16], 2, b"ls.pdb")),
            |module| module.identity = None,
            |module| module.seal = None,
        ];
        for (number, edit) in edits.into_iter().enumerate() {
            let mut module = module.clone();
            edit(&mut module);
            assert!(path.images(&module).is_empty(), "edit {number}");
        }
        let (_, of_another) = recorded(b"ours", 2);
        assert!(path.images(&of_another).is_empty());
    }
}
