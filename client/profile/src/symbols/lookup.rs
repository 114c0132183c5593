//! One module's symbols: finds the files of its build, and looks addresses up in them.

use super::Kind;
use super::dwarf::Dwarf;
use super::functions::{Function, Functions};
use super::image::Image;
use super::pdb::Pdb;
use super::search::SymbolPath;
use super::store::Key;
use super::store_file::StoreFile;
use super::symbol_match::SymbolMatch;
use crate::file::{Identity, Module};
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// Why a path that a recording names is not opened.
const NOT_OURS: &str = "the path comes from a recording of another machine or user, or from one that was changed, or is no local path, and is outside the symbol path";

/// The open files of one module, and what was found out about them.
#[derive(Default)]
pub(super) struct Lookup {
    /// The module itself, if it was found.
    pub(super) image: Option<Image>,
    /// Where it was found, which may be a compressed file in a store.
    image_file: Option<PathBuf>,
    lines: Lines,
    /// Functions of the image, or of the file with its separate symbols.
    table: Functions,
    pub(super) kind: Kind,
    /// The file that names the functions.
    pub(super) file: Option<PathBuf>,
    /// What could not be used when it was opened, and what to do about it.
    pub(super) notes: Vec<String>,
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
    pub(super) fn open(module: &Module, path: &SymbolPath) -> Self {
        let mut lookup = Self::default();
        lookup.find_image(module, path);
        let own = lookup.image.as_ref().and_then(|image| image.identity.clone());
        match module.identity.clone().or(own) {
            Some(identity @ Identity::Pdb { .. }) => lookup.find_pdb(&identity, path),
            identity => lookup.find_dwarf(identity.as_ref(), path),
        }
        if lookup.kind == Kind::None {
            lookup.take_table();
        }
        lookup
    }

    fn find_image(&mut self, module: &Module, path: &SymbolPath) {
        let candidates = path.images(module);
        let key = Key::of_image(module);
        if let Some((image, file)) =
            self.first_usable(&candidates, key, path, |file| image_of(file, module))
        {
            (self.image, self.image_file) = (Some(image), Some(file));
        } else if self.notes.is_empty() {
            let tried = candidates.iter().map(|at| at.display().to_string());
            let tried: Vec<_> = tried.collect();
            let refused = module.path.as_ref();
            let refused = refused.filter(|_| path.loaded_from(module).is_none());
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

    /// The first candidate that can be opened, else what a server has.
    fn first_usable<T>(
        &mut self,
        candidates: &[PathBuf],
        key: Option<Key<'_>>,
        path: &SymbolPath,
        open: impl Fn(&Path) -> Result<T, String>,
    ) -> Option<(T, PathBuf)> {
        for file in existing(candidates) {
            if let Some(opened) = self.open_stored(file, path, &open) {
                return Some((opened, file.clone()));
            }
        }
        let (file, mut notes) = path.fetched(&key?);
        self.notes.append(&mut notes);
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
            self.lines = Lines::Pdb(Box::new(pdb));
            (self.kind, self.file) = (Kind::Pdb, Some(file));
            return;
        }
        // Compilers other than Microsoft's may leave DWARF in PE files.
        if self.image.as_ref().is_some_and(|image| image.has_dwarf) {
            return self.find_dwarf(None, path);
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
        let link = image.debug_link.as_deref();
        let separated = path.debug_files(identity, link, &image.path);
        let base = image.base;
        let candidates: Vec<_> = own.into_iter().chain(separated).collect();
        for file in existing(&candidates) {
            match self.take_dwarf(file, identity, base) {
                Ok(()) => return,
                Err(why) => self.reject(file, &why),
            }
        }
    }

    fn take_dwarf(
        &mut self,
        file: &Path,
        identity: Option<&Identity>,
        base: u64,
    ) -> Result<(), String> {
        let image = image_of_build(file, identity)?;
        self.lines = Lines::Dwarf(Box::new(Dwarf::open(file, base)?));
        self.table = image.functions;
        (self.kind, self.file) = (Kind::Dwarf, Some(file.to_owned()));
        Ok(())
    }

    /// Falls back on the names in the image itself.
    fn take_table(&mut self) {
        let Some(image) = &mut self.image else {
            return;
        };
        self.table = std::mem::take(&mut image.functions);
        if self.table.is_empty() {
            return;
        }
        let (kind, why) = if self.table.only_exports {
            let why = "only its exports have names: what lies behind one is counted to it";
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
    pub(super) fn find(&self, address: u64) -> SymbolMatch {
        let function = self.table.containing(address);
        let symbol_match = match &self.lines {
            Lines::Pdb(pdb) => pdb.find(address),
            Lines::Dwarf(dwarf) => dwarf.find(address, function),
            Lines::None => None,
        };
        symbol_match.unwrap_or_else(|| SymbolMatch {
            function: function.cloned(),
            ..SymbolMatch::default()
        })
    }

    pub(super) fn functions(&self) -> Vec<Function> {
        match &self.lines {
            Lines::Pdb(pdb) => pdb.functions(),
            Lines::Dwarf(_) | Lines::None => self.table.to_vec(),
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

fn existing(candidates: &[PathBuf]) -> impl Iterator<Item = &PathBuf> {
    candidates.iter().filter(|path| path.is_file())
}
