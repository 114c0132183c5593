//! Images (MOF classes `Image_V0` to `Image_V2`; version 3 has the signature). Their identities are
//! written by the merge of traces (xperf, WPR): the layouts are those of public readers.

use super::Change;
use crate::bytes::{Fields, Layout, Output, layout};

/// An image in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub change: Change,
    pub base: u64,
    /// The length in memory.
    pub size: u64,
    /// 0 and 4 are the kernel. Version 0 has none.
    pub process: Option<u32>,
    /// The path, as the kernel names it.
    pub name: String,
    /// What else is known of the file, from version 2 on.
    pub file: Option<File>,
}

layout! {
    /// The file of an image.
    #[derive(Copy)]
    pub struct File {
        checksum: u32,
        /// With the size, the image's identity.
        time_date_stamp: u32,
        /// From version 3 on, else without meaning.
        signature_level: u8,
        /// From version 3 on, else without meaning.
        signature_type: u8,
        /// Wrong of 32-bit images: in the lower half is another field of the file.
        default_base: pointer after 2,
    }
}

layout! {
    /// An image's identity.
    pub struct ImageId {
        base: pointer,
        size: pointer,
        process: u32,
        time_date_stamp: u32,
        /// The name that it was built with.
        name: utf16,
    }
}

layout! {
    /// The PDB of an image (its debug directory's `RSDS`).
    pub struct Pdb {
        base: pointer,
        process: u32,
        guid: guid,
        age: u32,
        name: text,
    }
}

/// Unused bytes before the name.
const RESERVED: usize = 16;

pub(super) fn image(opcode: u8, version: u16, mut fields: Fields<'_>) -> Option<Image> {
    let fields = &mut fields;
    let change = Change::from_opcode(opcode)?;
    let base = fields.pointer()?;
    let (size, process) = match version {
        0 => (u64::from(fields.u32()?), None),
        _ => (fields.pointer()?, Some(fields.u32()?)),
    };
    let mut file = None;
    if version >= 2 {
        file = Some(File::read(fields)?);
        fields.take(RESERVED)?;
    }
    Some(Image { change, base, size, process, name: fields.utf16()?, file })
}

/// Appends version 3.
pub fn write(image: &Image, output: &mut Output) {
    output.pointer(image.base);
    output.pointer(image.size);
    output.u32(image.process.unwrap_or_default());
    image.file.unwrap_or_default().write(output);
    output.zeros(RESERVED);
    output.utf16(&image.name);
}
