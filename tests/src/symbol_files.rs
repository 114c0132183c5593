//! Symbol files that are well formed, and hostile in what they have: many, deep, long, shared or
//! overlapping parts. Damaged bytes are for others; here every file is one that a linker could have
//! written.

pub mod dwarf;
pub mod elf;
pub mod pdb;
pub mod pe;
pub mod random;

use halprof_profile::file::{Identity, Module, Recording};
use halprof_profile::symbols::{Frame, Opened, SymbolPath, Symbols};
use shared_types::Mode;
use std::fs;
use std::path::Path;

/// Where modules are loaded.
pub const LOADED: u64 = 0x1000_0000;
/// Their process.
pub const PROCESS: u32 = 8;

/// Fields of a file, the lowest byte first.
#[derive(Debug, Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// Adds numbers of one byte.
    pub fn u8(&mut self, values: &[u8]) -> &mut Self {
        self.0.extend(values);
        self
    }

    /// Adds numbers of two bytes.
    pub fn u16(&mut self, values: &[u16]) -> &mut Self {
        self.0.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self
    }

    /// Adds numbers of four bytes.
    pub fn u32(&mut self, values: &[u32]) -> &mut Self {
        self.0.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self
    }

    /// Adds numbers of eight bytes.
    pub fn u64(&mut self, values: &[u64]) -> &mut Self {
        self.0.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self
    }

    /// Adds a text and a zero.
    pub fn text(&mut self, text: impl AsRef<[u8]>) -> &mut Self {
        self.0.extend(text.as_ref());
        self.0.push(0);
        self
    }

    /// Adds a number of as few bytes as it needs (LEB128).
    pub fn leb(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    /// Adds zeros up to a multiple of `length`.
    pub fn pad(&mut self, length: usize) -> &mut Self {
        self.0.resize(self.0.len().next_multiple_of(length), 0);
        self
    }

    /// The bytes.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// A file with the symbols of a module, and where to look.
#[derive(Clone, Debug)]
pub struct SymbolFile {
    /// Its name.
    pub name: &'static str,
    /// Its contents.
    pub contents: Vec<u8>,
    /// What identifies its build, if anything does.
    pub identity: Option<Identity>,
    /// Addresses relative to the start of the module.
    pub addresses: Vec<u64>,
}

impl SymbolFile {
    /// What is known of its addresses, and of the module.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn look_up(&self, folder: &Path) -> (Vec<Frame>, Opened) {
        fs::write(folder.join(self.name), &self.contents).expect("written");
        let module = Module {
            process: Some(PROCESS),
            name: self.name.replace(".pdb", ".exe"),
            path: Some(format!("/nowhere/{}", self.name.replace(".pdb", ".exe"))),
            start: LOADED,
            end: LOADED + (1 << 31),
            identity: self.identity.clone(),
            ..Module::default()
        };
        let recording = Recording { modules: vec![module], ..Recording::default() };
        let mut path = SymbolPath::default();
        path.add_folder(folder);
        let mut symbols = Symbols::open(&recording, &path);
        let frame = |&address: &u64| symbols.frame(PROCESS, LOADED + address, Mode::User);
        let frames = self.addresses.iter().map(frame).collect();
        let opened = symbols.opened().pop();
        (frames, opened.expect("one module"))
    }
}
