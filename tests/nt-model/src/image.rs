//! The driver's file, as the loader maps it.

use crate::exception::{self, Handler};
use crate::memory::{IMAGE, PAGE};
use anyhow::{Context, Result, ensure};
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register};
use object::LittleEndian as LE;
use object::pe;
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, Import, PeFile64};
use object::{Object, ObjectSection};
use rustc_hash::FxHashMap;

/// An instruction that silicon reserves to ring 0, or whose result depends on the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privileged {
    Cpuid,
    /// RDMSR.
    ReadMsr,
    /// WRMSR.
    WriteMsr,
    /// RDPMC.
    ReadPmc,
    /// RDTSC.
    ReadTimestamp,
    /// MOV from CR4, to RAX.
    ReadCr4,
    /// MOV to CR4, from RAX.
    WriteCr4,
    /// CLI, which the engine itself executes.
    Mask,
    /// STI, which the engine itself executes.
    Unmask,
}

/// A section as mapped.
#[derive(Debug)]
pub struct Section {
    /// Offset from the image's start.
    pub offset: u64,
    /// Size in memory, in whole pages.
    pub size: u64,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it may be executed.
    pub executable: bool,
}

/// An import: the place for its address.
#[derive(Debug)]
pub struct ImportSlot {
    /// The slot's address.
    pub slot: u64,
    /// The module, in lower case.
    pub module: String,
    pub name: String,
}

/// The image, relocated to [`IMAGE`].
#[derive(Debug)]
pub struct Image {
    pub bytes: Vec<u8>,
    pub sections: Vec<Section>,
    pub imports: Vec<ImportSlot>,
    /// The address of its entry.
    pub entry: u64,
    /// The instructions that the engine intercepts: it looks at them first, or replaces them.
    pub privileged: FxHashMap<u64, Privileged>,
    /// The functions that have an exception handler.
    pub handlers: Vec<Handler>,
}

impl Image {
    /// Maps and relocates a driver.
    pub fn load(file: &[u8]) -> Result<Self> {
        let pe = PeFile64::parse(file).context("this is no 64-bit PE file")?;
        let header = pe.nt_headers().optional_header();
        ensure!(
            header.subsystem() == pe::IMAGE_SUBSYSTEM_NATIVE,
            "the file is no driver: its subsystem is {}",
            header.subsystem()
        );
        let mut bytes = vec![0; header.size_of_image() as usize];
        let headers = header.size_of_headers() as usize;
        bytes[..headers].copy_from_slice(file.get(..headers).context("headers cut short")?);
        let mut sections = Vec::new();
        for section in pe.section_table().iter() {
            let offset = section.virtual_address.get(LE) as usize;
            let data = section.pe_data(file)?;
            // In the file a section is padded to the file's alignment.
            let data = &data[..data.len().min(section.virtual_size.get(LE) as usize)];
            let place = bytes.get_mut(offset..offset + data.len());
            place.context("a section beyond the image")?.copy_from_slice(data);
            let flags = section.characteristics.get(LE);
            sections.push(Section {
                offset: offset as u64,
                size: u64::from(section.virtual_size.get(LE)).next_multiple_of(PAGE),
                writable: flags & pe::IMAGE_SCN_MEM_WRITE != 0,
                executable: flags & pe::IMAGE_SCN_MEM_EXECUTE != 0,
            });
        }
        relocate(&pe, &mut bytes, header.image_base())?;
        let text = pe.section_by_name(".text").context("no .text")?;
        let start = text.address() - header.image_base();
        let privileged = privileged(&bytes, start, text.size());
        let handlers = exception::handlers(&pe, &bytes)?;
        Ok(Self {
            sections,
            imports: imports(&pe)?,
            entry: IMAGE + u64::from(header.address_of_entry_point()),
            bytes,
            privileged,
            handlers,
        })
    }
}

impl Image {
    /// Address and bytes of what the driver may write: what a second load has to restore.
    pub fn writable(&self) -> Vec<(u64, Vec<u8>)> {
        let sections = self.sections.iter().filter(|section| section.writable);
        sections
            .map(|section| {
                let (start, end) = (section.offset, section.offset + section.size);
                let end = end.min(self.bytes.len() as u64);
                let bytes = &self.bytes[start as usize..end as usize];
                (IMAGE + start, bytes.to_vec())
            })
            .collect()
    }
}

fn relocate(pe: &PeFile64<'_>, bytes: &mut [u8], base: u64) -> Result<()> {
    let moved = IMAGE.wrapping_sub(base);
    let sections = pe.section_table();
    let Some(mut blocks) = pe.data_directories().relocation_blocks(pe.data(), &sections)? else {
        return Ok(());
    };
    while let Some(block) = blocks.next()? {
        for relocation in block {
            ensure!(
                relocation.typ == pe::IMAGE_REL_BASED_DIR64,
                "a relocation of type {}",
                relocation.typ
            );
            let at = relocation.virtual_address as usize;
            let place = bytes.get_mut(at..at + 8).context("a relocation beyond")?;
            let value = u64::from_le_bytes(place.try_into()?);
            place.copy_from_slice(&value.wrapping_add(moved).to_le_bytes());
        }
    }
    Ok(())
}

fn imports(pe: &PeFile64<'_>) -> Result<Vec<ImportSlot>> {
    let mut found = Vec::new();
    let table = pe.import_table()?.context("no imports")?;
    let mut descriptors = table.descriptors()?;
    while let Some(descriptor) = descriptors.next()? {
        let module = String::from_utf8_lossy(table.name(descriptor.name.get(LE))?);
        let module = module.to_lowercase();
        // The original thunks have the names; the others are the slots for the addresses.
        let mut thunks = table.thunks(descriptor.original_first_thunk.get(LE))?;
        let first = IMAGE + u64::from(descriptor.first_thunk.get(LE));
        for index in 0.. {
            let Some(thunk) = thunks.next::<pe::ImageNtHeaders64>()? else {
                break;
            };
            let Import::Name(_, name) = table.import::<pe::ImageNtHeaders64>(thunk)? else {
                anyhow::bail!("an import of {module} by ordinal");
            };
            found.push(ImportSlot {
                slot: first + index * 8,
                module: module.clone(),
                name: String::from_utf8_lossy(name).into_owned(),
            });
        }
    }
    Ok(found)
}

fn is_move(one: &Instruction, to: Register, from: Register) -> bool {
    (one.op0_register(), one.op1_register()) == (to, from)
}

/// Privileged instructions, found by a linear sweep over the code; the gaps between functions are
/// INT3.
fn privileged(bytes: &[u8], start: u64, size: u64) -> FxHashMap<u64, Privileged> {
    let code = &bytes[start as usize..(start + size) as usize];
    let decoder = Decoder::with_ip(64, code, IMAGE + start, DecoderOptions::NONE);
    let kind = |one: &Instruction| match one.code() {
        Code::Mov_r64_cr if is_move(one, Register::RAX, Register::CR4) => Some(Privileged::ReadCr4),
        Code::Mov_cr_r64 if is_move(one, Register::CR4, Register::RAX) => {
            Some(Privileged::WriteCr4)
        }
        Code::Cpuid => Some(Privileged::Cpuid),
        Code::Rdmsr => Some(Privileged::ReadMsr),
        Code::Wrmsr => Some(Privileged::WriteMsr),
        Code::Rdpmc => Some(Privileged::ReadPmc),
        Code::Cli => Some(Privileged::Mask),
        Code::Sti => Some(Privileged::Unmask),
        Code::Rdtsc => Some(Privileged::ReadTimestamp),
        _ => None,
    };
    decoder
        .into_iter()
        .filter_map(|instruction| Some((instruction.ip(), kind(&instruction)?)))
        .collect()
}
