//! Processes (MOF classes `Process_V1_TypeGroup1` to `Process_V4_TypeGroup1`; the security
//! identifier is winnt.h's `TOKEN_USER` and `SID`).

use super::Change;
use crate::bytes::{Fields, Output};
use std::fmt::Write as _;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub change: Change,
    /// The kernel's key; up to version 1 the base of the page directory.
    pub unique_key: u64,
    pub process: u32,
    pub parent: u32,
    pub session: u32,
    /// 259 while it runs.
    pub exit_status: i32,
    /// From version 3 on.
    pub directory_table_base: u64,
    /// From version 4 on.
    pub flags: u32,
    /// The user's security identifier, as `S-1-5-18`.
    pub sid: Option<String>,
    /// The name of the image's file.
    pub image: String,
    /// From version 2 on.
    pub command_line: String,
    /// From version 4 on.
    pub package: String,
    /// The application in the package, from version 4 on.
    pub application: String,
    /// When a defunct process ended (FILETIME), from version 5 on.
    pub exit_time: u64,
}

impl Process {
    /// A process that runs, of which no more is known than its image.
    pub fn new(change: Change, process: u32, image: &str) -> Self {
        Self {
            change,
            unique_key: 0,
            process,
            parent: 4,
            session: 1,
            exit_status: 259,
            directory_table_base: 0,
            flags: 0,
            sid: None,
            image: image.to_owned(),
            command_line: String::new(),
            package: String::new(),
            application: String::new(),
            exit_time: 0,
        }
    }
}

pub(super) fn process(opcode: u8, version: u16, mut fields: Fields<'_>) -> Option<Process> {
    let fields = &mut fields;
    let change = Change::from_opcode(opcode)?;
    let has_exit_time = change == Change::Defunct && version >= 5;
    Some(Process {
        change,
        unique_key: fields.pointer()?,
        process: fields.u32()?,
        parent: fields.u32()?,
        session: fields.u32()?,
        exit_status: fields.i32()?,
        directory_table_base: if version >= 3 { fields.pointer()? } else { 0 },
        flags: if version >= 4 { fields.u32()? } else { 0 },
        sid: user(fields)?,
        image: fields.text()?,
        command_line: since(2, version, fields)?,
        package: since(4, version, fields)?,
        application: since(4, version, fields)?,
        exit_time: if has_exit_time { fields.u64()? } else { 0 },
    })
}

fn since(first: u16, version: u16, fields: &mut Fields<'_>) -> Option<String> {
    if version < first {
        return Some(String::new());
    }
    fields.utf16()
}

/// The user: `TOKEN_USER` (a pointer and flags) and a SID, or four bytes of 0 for none.
#[expect(clippy::option_option, reason = "the outer one says whether the bytes are there")]
fn user(fields: &mut Fields<'_>) -> Option<Option<String>> {
    let token = 2 * fields.pointer_size.bytes();
    let is_marked = fields.rest.first_chunk() != Some(&[0; 4]);
    if is_marked || is_cleared_token(fields.rest, token) {
        fields.take(token)?;
        return sid(fields).map(Some);
    }
    fields.take(4)?;
    Some(None)
}

/// Whether the first bytes are a `TOKEN_USER` whose pointer somebody cleared before publishing, and
/// not the mark of an absent user: then an image's name would follow, and those begin with a
/// character.
fn is_cleared_token(rest: &[u8], token: usize) -> bool {
    let authorities = rest.get(token + 1);
    rest.get(4) == Some(&0)
        && rest.get(token) == Some(&1)
        && authorities.is_some_and(|count| (1..=MOST_AUTHORITIES).contains(count))
}

/// winnt.h, `SID_MAX_SUB_AUTHORITIES`.
const MOST_AUTHORITIES: u8 = 15;

fn sid(fields: &mut Fields<'_>) -> Option<String> {
    let (revision, count) = (fields.u8()?, fields.u8()?);
    if count > MOST_AUTHORITIES {
        return None;
    }
    let authority = fields.take(6)?;
    let authority = authority.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    let mut text = format!("S-{revision}-{authority}");
    for _ in 0..count {
        write!(text, "-{}", fields.u32()?).ok()?;
    }
    Some(text)
}

/// Appends version 4, without its user.
pub fn write(process: &Process, output: &mut Output) {
    output.pointer(process.unique_key);
    output.u32(process.process);
    output.u32(process.parent);
    output.u32(process.session);
    output.i32(process.exit_status);
    output.pointer(process.directory_table_base);
    output.u32(process.flags);
    // No user.
    output.u32(0);
    output.text(&process.image);
    output.utf16(&process.command_line);
    output.utf16(&process.package);
    output.utf16(&process.application);
}
