//! Programs for the guest feed: real x86-64 code that runs in ring 3, and what it retires.
//!
//! A program is a function that its thread calls and that returns. What it retires follows from the
//! code as it is written here, and is not measured. The code of a file can run too, if it is at
//! [`CODE`], needs no data of its own and calls nothing outside.

use crate::memory::PAGE;
use anyhow::{Context, Result, ensure};
use object::{Architecture, Object, ObjectSection, ObjectSegment};
use std::path::Path;

/// The addresses of a program's code, the same as the modelled user code's; the end is exclusive.
pub const CODE: (u64, u64) = sim::load::workload::USER_CODE;
/// The return address of a program: its thread ends there and retires nothing more.
pub const EXIT: u64 = CODE.1 - 16;
/// The default number of rounds of a program.
pub const ROUNDS: u32 = 100_000;

/// What one run of a program retires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amounts {
    /// Instructions; one that repeats (REP) counts once.
    pub instructions: u64,
    /// Calls, returns, and jumps taken or not.
    pub branches: u64,
    /// Loads and stores of data, including those to the stack; an instruction that does both counts
    /// as two.
    pub accesses: u64,
}

pub struct Program {
    /// Its name, and that of its module without `.exe`.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// What this many rounds of it retire; zeros for a file, where it is not known beforehand.
    pub amounts: fn(u64) -> Amounts,
    /// Its module: the first address, and the first one after it.
    pub module: (u64, u64),
    code: Code,
}

/// Where a program's code comes from.
enum Code {
    /// It is written here; the number of rounds replaces the four bytes at the offset.
    Written(&'static [u8], usize),
    /// It was read from a file, which decides the number of rounds.
    Read(&'static [u8]),
}

pub const PROGRAMS: &[Program] = &[
    Program {
        name: "loop",
        what: "arithmetic on registers",
        amounts: |rounds| Amounts {
            instructions: 5 * rounds + 3,
            branches: rounds + 1,
            accesses: 1,
        },
        module: CODE,
        code: Code::Written(LOOP, 1),
    },
    Program {
        name: "branches",
        what: "calls, returns, jumps taken and not",
        amounts: |rounds| Amounts {
            instructions: 7 * rounds + rounds.div_ceil(2) + 2,
            branches: 5 * rounds + 1,
            accesses: 2 * rounds + 1,
        },
        module: CODE,
        code: Code::Written(BRANCHES, 1),
    },
    Program {
        name: "loads",
        what: "loads, stores, both at once, and the stack",
        amounts: |rounds| Amounts {
            instructions: 7 * rounds + 3,
            branches: rounds + 1,
            accesses: 6 * rounds + 1,
        },
        module: CODE,
        code: Code::Written(LOADS, 1),
    },
    Program {
        name: "copy",
        what: "64 bytes copied by one repeated instruction",
        amounts: |rounds| Amounts {
            instructions: 6 * rounds + 2,
            branches: rounds + 1,
            accesses: 16 * rounds + 1,
        },
        module: CODE,
        code: Code::Written(COPY, 2),
    },
];

impl Program {
    /// The program with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|program| program.name == name)
    }

    /// The program in a PE or ELF file. It lives as long as this process.
    ///
    /// # Errors
    /// If the file cannot be read or cannot run here.
    pub fn read(path: &Path) -> Result<&'static Self> {
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let file = object::File::parse(&*bytes).context("it is no program")?;
        ensure!(file.architecture() == Architecture::X86_64, "it is not for x64");
        let entry = file.entry();
        ensure!(entry == CODE.0, "its entry is at {entry:#x}, not at {:#x}", CODE.0);
        ensure!(file.imports()?.is_empty(), "it imports functions, and there are none");
        let code = file.sections().find(|section| section.address() == CODE.0);
        let code = code.context("no section begins at its entry")?.data()?;
        // What follows the code in its last page is padding.
        let end = code.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let code = code.get(..end).unwrap_or_default();
        let room = EXIT - CODE.0;
        ensure!(code.len() as u64 <= room, "its code is longer than {room} bytes");
        let name = path.file_stem().context("it has no name")?.to_string_lossy();
        Ok(Box::leak(Box::new(Self {
            name: name.into_owned().leak(),
            what: "a file",
            amounts: |_| Amounts { instructions: 0, branches: 0, accesses: 0 },
            module: module(&file).context("it has no segments")?,
            code: Code::Read(code.to_vec().leak()),
        })))
    }

    /// Its code for this many rounds, at least one, to be placed at [`CODE`].
    pub fn code(&self, rounds: u32) -> Vec<u8> {
        match self.code {
            Code::Read(code) => code.to_vec(),
            Code::Written(code, offset) => {
                let mut code = code.to_vec();
                code[offset..offset + 4].copy_from_slice(&rounds.to_le_bytes());
                code
            }
        }
    }
}

/// Where the whole image is loaded; a PE file's headers are in none of its segments.
fn module(file: &object::File<'_>) -> Option<(u64, u64)> {
    let segments = || file.segments().filter(|segment| segment.size() != 0);
    let base = file.relative_address_base();
    let start = if base == 0 { segments().map(|segment| segment.address()).min()? } else { base };
    let end = segments().map(|segment| segment.address() + segment.size()).max()?;
    Some((start, end.next_multiple_of(PAGE)))
}

#[rustfmt::skip]
const LOOP: &[u8] = &[
    0xb9, 0, 0, 0, 0,                                //           mov  ecx, rounds
    0x31, 0xc0,                                      //           xor  eax, eax
    0x48, 0x01, 0xc8,                                // round:    add  rax, rcx
    0x48, 0x8d, 0x14, 0x40,                          //           lea  rdx, [rax + rax * 2]
    0x48, 0x31, 0xd0,                                //           xor  rax, rdx
    0xff, 0xc9,                                      //           dec  ecx
    0x75, 0xf2,                                      //           jnz  round
    0xc3,                                            //           ret
];

#[rustfmt::skip]
const BRANCHES: &[u8] = &[
    0xb9, 0, 0, 0, 0,                                //           mov  ecx, rounds
    0xe8, 0x0e, 0, 0, 0,                             // round:    call function
    0xf6, 0xc1, 0x01,                                //           test cl, 1
    0x74, 0x02,                                      //           jz   even
    0xff, 0xc0,                                      //           inc  eax
    0xeb, 0x00,                                      // even:     jmp  next
    0xff, 0xc9,                                      // next:     dec  ecx
    0x75, 0xee,                                      //           jnz  round
    0xc3,                                            //           ret
    0xc3,                                            // function: ret
];

#[rustfmt::skip]
const LOADS: &[u8] = &[
    0xb9, 0, 0, 0, 0,                                //           mov  ecx, rounds
    0x48, 0x8d, 0x74, 0x24, 0x80,                    //           lea  rsi, [rsp - 0x80]
    0x48, 0x8b, 0x06,                                // round:    mov  rax, [rsi]
    0x48, 0x89, 0x46, 0x08,                          //           mov  [rsi + 8], rax
    0x83, 0x06, 0x01,                                //           add  dword [rsi], 1
    0x50,                                            //           push rax
    0x5a,                                            //           pop  rdx
    0xff, 0xc9,                                      //           dec  ecx
    0x75, 0xf0,                                      //           jnz  round
    0xc3,                                            //           ret
];

#[rustfmt::skip]
const COPY: &[u8] = &[
    0x41, 0xb8, 0, 0, 0, 0,                          //           mov  r8d, rounds
    0x48, 0x8d, 0xb4, 0x24, 0x00, 0xfe, 0xff, 0xff,  // round:    lea  rsi, [rsp - 0x200]
    0x48, 0x8d, 0xbc, 0x24, 0x00, 0xff, 0xff, 0xff,  //           lea  rdi, [rsp - 0x100]
    0xb9, 8, 0, 0, 0,                                //           mov  ecx, 8
    0xf3, 0x48, 0xa5,                                //           rep  movsq
    0x41, 0xff, 0xc8,                                //           dec  r8d
    0x75, 0xe3,                                      //           jnz  round
    0xc3,                                            //           ret
];
