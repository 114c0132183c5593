//! One module's symbols: finds the files of its build, and looks addresses up in them.

use super::Kind;
use super::dwarf::Dwarf;
use super::functions::{Function, Functions, Symbols};
use super::image::{DebugLink, Image};
use super::pdb::Pdb;
use super::search::{Fetched, SymbolPath};
use super::store::Key;
use super::store_file::StoreFile;
use super::symbol_match::SymbolMatch;
use crate::file::{Identity, Module};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::{NamedTempFile, TempPath};

/// Why a path that a recording names is not opened.
const NOT_OURS: &str =
    "the recording was not made here, or was changed, and the file is not in the symbol path";

/// What is wrong with a PDB of /DEBUG:FASTLINK.
const PARTIAL: &str = "it was linked with /DEBUG:FASTLINK, so most functions and lines are in the object files; link \
     with /DEBUG:FULL, or complete it with mspdbcmf.exe";

/// The open files of one module, and what was found out about them.
#[derive(Default)]
pub(super) struct Lookup {
    /// What the module is called.
    module: String,
    /// The module itself, if it was found.
    pub(super) image: Option<Image>,
    /// Where it was found, which may be a compressed file in a store; for one that is in no folder,
    /// its name.
    image_file: Option<PathBuf>,
    lines: Lines,
    /// Functions of the image, or of the file with its separate symbols.
    table: Functions,
    pub(super) kind: Kind,
    /// The file that names the functions.
    pub(super) file: Option<PathBuf>,
    /// What could not be used when it was opened, and what to do about it.
    pub(super) notes: Vec<String>,
    /// Those of the notes that say what could not be fetched though a server was asked.
    failed_downloads: Vec<String>,
    /// Whether a server might have the PDB, and asking it was not allowed.
    pub(super) download_might_help: bool,
    /// Expanded files, kept while they are read.
    expanded: Vec<TempPath>,
}

#[derive(Default)]
enum Lines {
    Pdb(Box<Pdb>),
    Dwarf(Box<Dwarf>),
    #[default]
    None,
}

impl Lookup {
    /// Opens the files of a module that is called `name`.
    pub(super) fn open(module: &Module, name: &str, path: &SymbolPath) -> Self {
        let mut lookup = Self { module: name.to_owned(), ..Self::default() };
        lookup.find_image(module, path);
        let own = lookup.image.as_ref().and_then(|image| image.identity.clone());
        match module.identity.clone().or(own) {
            Some(identity @ Identity::Pdb { .. }) => lookup.find_pdb(&identity, path),
            identity => lookup.find_dwarf(identity.as_ref(), path),
        }
        if lookup.kind == Kind::None {
            lookup.take_table();
        }
        if lookup.image.is_some() && lookup.image_file.is_none() {
            let name = PathBuf::from(&module.name);
            (lookup.file, lookup.image_file) = (Some(name.clone()), Some(name));
        }
        if !lookup.failed_downloads.is_empty() {
            path.tell_failure(&module.name, &lookup.failed_downloads);
        }
        lookup
    }

    fn find_image(&mut self, module: &Module, path: &SymbolPath) {
        if let Some(image) = self.built_in_image(module, path) {
            self.image = Some(image);
            return;
        }
        let candidates = path.images(module);
        let key = Key::of_image(module);
        if let Some((image, file)) =
            self.first_usable(&candidates, key, path, |file| image_of(file, module))
        {
            (self.image, self.image_file) = (Some(image), Some(file));
        } else if self.notes.is_empty() {
            let tried: Vec<_> = candidates.iter().map(|at| at.display().to_string()).collect();
            let refused = module.path.as_ref().filter(|_| path.loaded_from(module).is_none());
            self.notes.push(match (refused, tried.is_empty()) {
                (None, true) => "the recording does not name the module's file".to_owned(),
                (None, false) => format!("the module was not found at {}", tried.join(", ")),
                (Some(named), true) => format!("{named} was not opened: {NOT_OURS}"),
                (Some(named), false) => format!(
                    "the module was not found at {}; {named} was not opened: {NOT_OURS}",
                    tried.join(", ")
                ),
            });
        }
    }

    /// The module's file, if it is of this build and is in no folder: it is put into one while it is
    /// read.
    fn built_in_image(&mut self, module: &Module, path: &SymbolPath) -> Option<Image> {
        let bytes = path.built_in(module)?;
        let mut file = NamedTempFile::new().ok()?;
        file.write_all(bytes).ok()?;
        let file = file.into_temp_path();
        let image = image_of(&file, module).ok()?;
        self.expanded.push(file);
        Some(image)
    }

    /// The first candidate that can be opened, else what a server has.
    fn first_usable<T>(
        &mut self,
        candidates: &[PathBuf],
        key: Option<Key<'_>>,
        path: &SymbolPath,
        open: impl Fn(&Path) -> Result<T, String>,
    ) -> Option<(T, PathBuf)> {
        for file in path.existing(candidates) {
            if let Some(opened) = self.open_stored(&file, path, &open) {
                return Some((opened, file));
            }
        }
        let check = |file: &Path, name: &str| {
            let readable = StoreFile::named(file, name, path)?;
            open(&readable.path).map(drop)
        };
        let Fetched { file, absent, failures } = path.fetched(&key?, &check);
        self.notes.extend(absent.into_iter().chain(failures.iter().cloned()));
        self.failed_downloads.extend(failures);
        let file = file?;
        Some((self.open_stored(&file, path, &open)?, file))
    }

    /// Opens a file, which may be compressed or a pointer; notes why if it is not used.
    fn open_stored<T>(
        &mut self,
        file: &Path,
        path: &SymbolPath,
        open: impl Fn(&Path) -> Result<T, String>,
    ) -> Option<T> {
        let readable = StoreFile::of(file, path);
        match readable.and_then(|readable| Ok((open(&readable.path)?, readable.expanded))) {
            Ok((opened, expanded)) => {
                self.expanded.extend(expanded);
                Some(opened)
            }
            Err(why) => {
                self.reject(file, &why);
                None
            }
        }
    }

    fn find_pdb(&mut self, identity: &Identity, path: &SymbolPath) {
        let candidates = path.pdbs(identity, self.image_file());
        let key = Key::of_pdb(identity);
        if let Some((pdb, file)) =
            self.first_usable(&candidates, key, path, |file| Pdb::open(file, identity))
        {
            // The linkers of MinGW write a PDB of public symbols beside the DWARF.
            if !pdb.has_lines {
                self.find_dwarf(None, path);
            }
            if self.kind == Kind::None {
                if pdb.is_partial {
                    self.notes.push(format!("{}: {PARTIAL}", file.display()));
                }
                self.lines = Lines::Pdb(Box::new(pdb));
                (self.kind, self.file) = (Kind::Pdb, Some(file));
            }
            return;
        }
        // Compilers other than Microsoft's leave DWARF in PE files, or link to it.
        self.find_dwarf(None, path);
        if self.kind != Kind::None {
            return;
        }
        let name = identity.pdb_name().unwrap_or("its PDB");
        let missing = format!("{name} ({identity}) was not found");
        let fill = "`symchk` of the Windows debuggers fills a store";
        self.notes.push(match path.servers().first() {
            Some(_) if path.fetch().is_some() => missing,
            Some(server) => {
                self.download_might_help = true;
                format!("{missing}; {} was not asked", server.url)
            }
            None => format!(
                "{missing}; put it beside the module, or its folder or store into the symbol path; \
                 {fill}"
            ),
        });
    }

    fn find_dwarf(&mut self, identity: Option<&Identity>, path: &SymbolPath) {
        let Some(image) = &self.image else {
            return;
        };
        let own = image.has_dwarf.then(|| image.path.clone());
        let link = image.debug_link.clone();
        let name = link.as_ref().map(|link| link.name.as_str());
        let separated = path.debug_files(identity, name, &image.path);
        let (base, own_file) = (image.base, image.path.clone());
        // Without a build-id, the link's checksum tells the build.
        let link = link.filter(|_| identity.is_none());
        let candidates: Vec<_> = own.into_iter().chain(separated).collect();
        for file in path.existing(&candidates) {
            let link = link.as_ref().filter(|_| file != own_file);
            match self.take_dwarf(&file, identity, link, base) {
                Ok(()) => return,
                Err(why) => self.reject(&file, &why),
            }
        }
    }

    fn take_dwarf(
        &mut self,
        file: &Path,
        identity: Option<&Identity>,
        link: Option<&DebugLink>,
        base: u64,
    ) -> Result<(), String> {
        let is_own = self.image.as_ref().is_some_and(|image| image.path == file);
        let separate = if is_own { None } else { Some(image_of_build(file, identity)?) };
        if let Some(link) = link
            && !link.is_of(file)?
        {
            return Err("build mismatch: its checksum is not that of the debug link".to_owned());
        }
        self.lines = Lines::Dwarf(Box::new(Dwarf::open(file, base)?));
        self.take_symbols(separate.and_then(|image| image.symbols));
        (self.kind, self.file) = (Kind::Dwarf, Some(file.to_owned()));
        Ok(())
    }

    /// Makes functions of symbols, without any of the image's own. Their code and its unwinding
    /// information are in the image.
    fn take_symbols(&mut self, separate: Option<Symbols>) {
        if let Some(image) = &mut self.image
            && let Some(symbols) = separate.or_else(|| image.symbols.take())
        {
            self.table = Functions::new(symbols, &image.code, &image.unwinding);
        }
    }

    /// Falls back on the names in the image itself.
    fn take_table(&mut self) {
        self.take_symbols(None);
        let Some(image) = self.image.as_ref().filter(|_| !self.table.is_empty()) else {
            return;
        };
        let (kind, why) = if self.table.only_exports() {
            let why = "only its exports have names; other functions are shown by their offsets";
            (Kind::Exports, why)
        } else {
            let why = "only its table of symbols is used: it has no lines";
            (Kind::Table, why)
        };
        (self.kind, self.file) = (kind, Some(image.path.clone()));
        self.notes.push(why.to_owned());
    }

    fn reject(&mut self, file: &Path, why: &str) {
        self.notes.push(format!("{} is not used: {why}", file.display()));
    }

    /// The module itself, or why it was not found.
    pub(super) fn image(&self) -> Result<&Image, String> {
        self.image.as_ref().ok_or_else(|| self.notes.join("; "))
    }

    /// Where the module itself was found.
    pub(super) fn image_file(&self) -> Option<&Path> {
        self.image_file.as_deref()
    }

    /// The code at an address relative to the module's start.
    ///
    /// Where no symbol names code that has unwinding information, its function is named by the chain
    /// of entries if it is a part of one elsewhere, else by the module and the offset.
    pub(super) fn find(&self, address: u64) -> SymbolMatch {
        let mut symbol_match = self.named(address);
        if symbol_match.function.is_none()
            && let Some(part) = self.image.as_ref().and_then(|image| image.unwinding.part(address))
        {
            let Range { start, end } = part.range;
            let first = (part.function != start).then(|| self.named(part.function).function);
            let name = first.flatten().map(|function| function.name);
            let name = name.unwrap_or_else(|| format!("{}+{:#x}", self.module, part.function));
            symbol_match.function = Some(Function { name, also: Arc::default(), start, end });
        }
        symbol_match
    }

    /// The code at an address as far as symbols name it.
    fn named(&self, address: u64) -> SymbolMatch {
        let unwinding = self.image.as_ref().map(|image| &image.unwinding);
        let function = self.table.containing(address);
        match &self.lines {
            Lines::Pdb(pdb) => pdb.find(address, unwinding).unwrap_or_default(),
            Lines::Dwarf(dwarf) => dwarf.find(address, function, unwinding),
            Lines::None => SymbolMatch { function, ..SymbolMatch::default() },
        }
    }

    /// What was cut or left out of the symbols, because it is more than the file is worth.
    pub(super) fn limits(&self) -> Vec<String> {
        let mut all: Vec<String> = match &self.lines {
            Lines::Pdb(pdb) => pdb.notes().collect(),
            Lines::Dwarf(dwarf) => dwarf.notes().collect(),
            Lines::None => Vec::new(),
        };
        all.extend(self.image.iter().flat_map(Image::notes));
        all.extend(self.table.note());
        all
    }

    pub(super) fn functions(&self) -> Vec<Function> {
        match &self.lines {
            Lines::Pdb(pdb) => pdb.functions(),
            Lines::Dwarf(_) | Lines::None => self.table.all(),
        }
    }
}

/// Opens a module's file if it is of the recorded build; any build will do if that is unknown.
fn image_of(path: &Path, module: &Module) -> Result<Image, String> {
    let image = image_of_build(path, module.identity.as_ref())?;
    match (module.stamp, image.stamp) {
        (Some(recorded), Some(actual)) if module.identity.is_none() && recorded != actual => {
            Err("build mismatch: it was linked at another time".to_owned())
        }
        _ => Ok(image),
    }
}

/// Opens a file if it is of the recorded build; any build will do if that is unknown.
fn image_of_build(path: &Path, recorded: Option<&Identity>) -> Result<Image, String> {
    let image = Image::open(path)?;
    match (recorded, &image.identity) {
        (Some(recorded), Some(actual)) if !actual.is_same_build(recorded) => {
            Err(format!("build mismatch: file has {actual}, recording needs {recorded}"))
        }
        (Some(recorded), None) => {
            Err(format!("it has no build identity, and {recorded} is needed"))
        }
        _ => Ok(image),
    }
}
