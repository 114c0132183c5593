//! PDBs: of a program with one section of code.

use super::{Bytes, SymbolFile};
use halprof_profile::file::Identity;

/// `int`
pub const INT: u32 = 0x74;
/// Where the first type record is.
pub const FIRST: u32 = 0x1000;
/// The RVA of the section of code.
pub const CODE: u32 = 0x1000;

const PAGE: usize = 4096;
const GUID: [u8; 16] = [0x11; 16];

/// A function.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Its name, without its parameters.
    pub name: Vec<u8>,
    /// Where it is in the section.
    pub offset: u32,
    /// Its length.
    pub length: u32,
    /// Its type; 0 for none.
    pub index: u32,
    /// How often functions are inlined at its first byte, each into the one before.
    pub inlined: usize,
    /// Where it says that it ends: so many records behind its own end.
    pub overlap: u32,
}

/// A file to be written.
#[derive(Clone, Debug, Default)]
pub struct Pdb {
    /// Records of types, from [`FIRST`] on.
    pub types: Vec<Vec<u8>>,
    /// Records of identifiers, from [`FIRST`] on. The first is what is inlined.
    pub identifiers: Vec<Vec<u8>>,
    /// The functions of each module.
    pub modules: Vec<Vec<Function>>,
    /// Names that the linker knows, and their offsets.
    pub publics: Vec<(Vec<u8>, u32)>,
    /// All modules have the stream of the first.
    pub shares_stream: bool,
    /// The stream of types has its first page so many times more.
    pub repeated: usize,
}

/// `typedef const T`, or just another record of T.
pub fn modifier(of: u32, is_const: bool) -> Vec<u8> {
    Bytes::default().u16(&[0x1001]).u32(&[of]).u16(&[is_const.into()]).take()
}

/// A pointer.
pub fn pointer(to: u32) -> Vec<u8> {
    Bytes::default().u16(&[0x1002]).u32(&[to, 0x1_000C]).take()
}

/// The parameters of a function.
pub fn list(of: &[u32]) -> Vec<u8> {
    Bytes::default().u16(&[0x1201]).u32(&[of.len() as u32]).u32(of).take()
}

/// A function that returns `int`.
pub fn procedure(parameters: u32) -> Vec<u8> {
    Bytes::default().u16(&[0x1008]).u32(&[INT, 0, parameters]).take()
}

/// An array.
pub fn array(of: u32, length: u16) -> Vec<u8> {
    Bytes::default().u16(&[0x1503]).u32(&[of, INT]).u16(&[length]).text("").take()
}

/// A class of four bytes.
pub fn class(name: &[u8]) -> Vec<u8> {
    Bytes::default().u16(&[0x1505, 0, 0]).u32(&[0, 0, 0]).u16(&[4]).text(name).take()
}

/// A class that is defined elsewhere.
pub fn declared(name: &[u8]) -> Vec<u8> {
    Bytes::default().u16(&[0x1505, 0, 1 << 7]).u32(&[0, 0, 0]).u16(&[0]).text(name).take()
}

/// An enumeration.
pub fn enumeration(of: u32, name: &[u8]) -> Vec<u8> {
    Bytes::default().u16(&[0x1507, 0, 0]).u32(&[of, 0]).text(name).take()
}

/// A function that is inlined.
pub fn function(scope: u32, index: u32, name: &[u8]) -> Vec<u8> {
    Bytes::default().u16(&[0x1601]).u32(&[scope, index]).text(name).take()
}

/// Adds records with their lengths.
fn records(all: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Bytes::default();
    for record in all {
        let length = (record.len() + 2).next_multiple_of(4) - 2;
        bytes.u16(&[length as u16]).u8(record);
        (record.len()..length).for_each(|index| {
            bytes.u8(&[0xF0 + (length - index) as u8]);
        });
    }
    bytes.0
}

fn types(all: &[Vec<u8>]) -> Vec<u8> {
    let body = records(all);
    let mut bytes = Bytes::default();
    bytes.u32(&[20_040_203, 56, FIRST, FIRST + all.len() as u32, body.len() as u32]);
    bytes.u16(&[0xFFFF, 0xFFFF]).u32(&[4, 0x3FFFF, 0, 0, 0, 0, 0, 0]).u8(&body);
    bytes.0
}

/// The stream of a module: the length of its symbols, and the bytes.
fn module(functions: &[Function]) -> (usize, Vec<u8>) {
    // A site: its kind, its parent, its end, what is inlined, and its code: the first byte.
    const SITE: usize = 2 + 2 + 12 + 4;

    let mut bytes = Bytes::default();
    bytes.u32(&[4]);
    let padded = |bytes: &mut Bytes, mut record: Vec<u8>| {
        record.resize((record.len() + 2).next_multiple_of(4) - 2, 0);
        bytes.u16(&[record.len() as u16]).u8(&record);
        bytes.0.len()
    };
    for function in functions {
        let start = bytes.0.len();
        let own = 2 + (2 + 2 + 28 + 7 + function.name.len() + 1).next_multiple_of(4) - 2;
        let sites = start + own;
        let end = sites + function.inlined * (SITE + 4);
        let said = end as u32 + function.overlap;
        let mut record = Bytes::default();
        record.u16(&[0x1110]).u32(&[0, said, 0, function.length, 0, 0, function.index]);
        record.u32(&[function.offset]).u16(&[1]).u8(&[0]).text(&function.name);
        padded(&mut bytes, record.take());
        for site in 0..function.inlined {
            let end = sites + function.inlined * SITE + (function.inlined - 1 - site) * 4;
            let mut record = Bytes::default();
            record.u16(&[0x114D]).u32(&[0, end as u32, FIRST]).u8(&[0xC, 1, 0, 0]);
            padded(&mut bytes, record.take());
        }
        for _ in 0..function.inlined {
            padded(&mut bytes, Bytes::default().u16(&[0x114E]).take());
        }
        padded(&mut bytes, Bytes::default().u16(&[6]).take());
    }
    let symbols = bytes.0.len();
    // Where what is inlined begins: file 0, line 7.
    bytes.u32(&[0xF6, 16, 0, FIRST, 0, 7]);
    // The lines of the functions.
    for function in functions {
        bytes.u32(&[0xF2, 12 + 12 + 8, function.offset]).u16(&[1, 0]).u32(&[function.length]);
        bytes.u32(&[0, 1, 20, 0, 0x8000_002A]);
    }
    // A file: its name is the first text.
    bytes.u32(&[0xF4, 8, 1]).u8(&[0, 0, 0, 0]);
    (symbols, bytes.0)
}

impl Pdb {
    /// The file, and the first bytes of functions.
    pub fn file(&self) -> SymbolFile {
        let mut information = Bytes::default();
        information.u32(&[20_000_404, 0x5F00_0000, 1]).u8(&GUID);
        // One name of a stream: of the texts.
        information.u32(&[7]).text("/names").u32(&[1, 2, 1, 1, 0, 0, 7]);
        let mut names = Bytes::default();
        names.u32(&[0xEFFE_EFFE, 1, 5]).text("").text("a.c").u32(&[0]);
        let mut section = Bytes(b".text\0\0\0".to_vec());
        section.u32(&[1 << 24, CODE, 1 << 24, 0x200, 0, 0, 0, 0x6000_0020]);
        let mut publics = Bytes::default();
        for (name, offset) in &self.publics {
            let length = (2 + 10 + name.len() + 1 + 2).next_multiple_of(4) - 2;
            publics.u16(&[length as u16, 0x110E]).u32(&[2, *offset]).u16(&[1]).text(name).pad(4);
        }
        let mut streams = vec![
            Vec::new(),
            information.take(),
            types(&self.types),
            Vec::new(),
            types(&self.identifiers),
            section.take(),
            publics.take(),
            names.take(),
        ];
        let (mut modules, mut contributions) = (Bytes::default(), Bytes::default());
        contributions.u32(&[0xF12E_BA2D]);
        for (index, functions) in self.modules.iter().enumerate() {
            let (symbols, contents) = module(functions);
            let (length, stream) = (contents.len(), if self.shares_stream { 8 } else { 8 + index });
            if stream == streams.len() {
                streams.push(contents);
            }
            let ends = functions.iter().map(|function| function.offset + function.length);
            let start = functions.iter().map(|function| function.offset).min().unwrap_or(0);
            let size = ends.max().unwrap_or(0) - start;
            let mut contribution = Bytes::default();
            contribution.u16(&[1, 0]).u32(&[start, size, 0x6000_0020]).u16(&[index as u16, 0]);
            contribution.u32(&[0, 0]);
            let contribution = contribution.take();
            contributions.u8(&contribution);
            modules.u32(&[0]).u8(&contribution).u16(&[0, stream as u16]);
            modules.u32(&[symbols as u32, 0, (length - symbols) as u32]).u16(&[0, 0]);
            modules.u32(&[0, 0, 0]).text("a.obj").text("a.obj").pad(4);
        }
        let mut debug = Bytes::default();
        debug.u32(&[u32::MAX, 19_990_903, 1]).u16(&[0xFFFF, 0, 0xFFFF, 0, 6, 0]);
        let lengths = [modules.0.len() as u32, contributions.0.len() as u32];
        debug.u32(&lengths).u32(&[0, 0, 0, 0, 22, 0]).u16(&[0, 0x8664]).u32(&[0]);
        debug.u8(&modules.take()).u8(&contributions.take());
        let mut numbers = [0xFFFF; 11];
        numbers[5] = 5;
        debug.u16(&numbers);
        streams[3] = debug.take();
        let starts = self.modules.iter().flatten().map(|function| function.offset);
        let publics = self.publics.iter().map(|(_, offset)| *offset);
        SymbolFile {
            name: "a.pdb",
            contents: self.pages(&streams),
            identity: Some(Identity::pdb(GUID, 1, b"a.pdb")),
            addresses: starts.chain(publics).map(|offset| u64::from(CODE + offset)).collect(),
        }
    }

    /// The pages of streams.
    fn pages(&self, streams: &[Vec<u8>]) -> Vec<u8> {
        let mut pages = vec![vec![0; PAGE]; 3];
        let mut add = |contents: &[u8]| -> Vec<u32> {
            let first = pages.len() as u32;
            pages.extend(contents.chunks(PAGE).map(<[u8]>::to_vec));
            (first..pages.len() as u32).collect()
        };
        let mut directory = Bytes::default();
        directory.u32(&[streams.len() as u32]);
        let mut numbers = Bytes::default();
        for (index, stream) in streams.iter().enumerate() {
            let mut own = add(stream);
            let mut length = stream.len();
            if index == 2 && self.repeated > 0 {
                own.extend(std::iter::repeat_n(own[0], self.repeated));
                length = own.len() * PAGE;
            }
            directory.u32(&[length as u32]);
            numbers.u32(&own);
        }
        let directory = directory.u8(&numbers.take()).take();
        let list = Bytes::default().u32(&add(&directory)).take();
        let lists = add(&list);
        let mut header = Bytes(b"Microsoft C/C++ MSF 7.00\r\n\x1ADS\0\0\0".to_vec());
        header.u32(&[PAGE as u32, 1, pages.len() as u32, directory.len() as u32, 0]).u32(&lists);
        pages[0] = header.take();
        for page in &mut pages {
            page.resize(PAGE, 0);
        }
        pages.concat()
    }
}
