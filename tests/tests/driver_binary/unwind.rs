//! Which functions have an exception handler, and which is it?

use super::driver::Driver;
use super::raised::unwind_entries;
use super::{Policy, Refusals};
use iced_x86::Mnemonic;
use object::LittleEndian as LE;
use object::pe::IMAGE_SCN_MEM_WRITE;

/// The handler of the exceptions of RDMSR, WRMSR and RDPMC.
pub(crate) const HANDLER: &str = "halprof_driver::fault::refused";
/// The functions that have it, and their only instruction that raises exceptions.
const GUARDED: [(&str, Mnemonic); 3] = [
    ("halprof_rdmsr", Mnemonic::Rdmsr),
    ("halprof_wrmsr", Mnemonic::Wrmsr),
    ("halprof_rdpmc", Mnemonic::Rdpmc),
];

/// Version 1 with UNW_FLAG_EHANDLER; no prologue, no unwind codes, no frame register.
const HEADER: [u8; 4] = [1 | 1 << 3, 0, 0, 0];
const FLAGS: u8 = 0xF8;

pub(crate) const POLICIES: &[Policy] = &[Policy {
    holds: "RDMSR, WRMSR and RDPMC that may be refused alone have an exception handler",
    refuses: handlers,
    notices: |driver| {
        let unwind = |name: &str| {
            let start = driver.function(name);
            unwind_entries(driver).find(|entry| entry.0 == start).expect(name).1
        };
        let [(read, _), (write, _), _] = GUARDED;
        let other = unwind_entries(driver).find(|&(_, unwind)| driver.data(unwind)[0] == 1);
        let other = other.expect("a function without a handler").1;
        let entry = driver.function("Unload").to_le_bytes();
        // NOP, NOP in place of RDMSR, behind XOR R8D, R8D.
        let nothing = driver.over(driver.function(read) + 3, &[0x90, 0x90]);
        vec![
            ("halprof_rdmsr has no handler".to_owned(), driver.over(unwind(read), &[1])),
            ("has a handler that".to_owned(), driver.over(unwind(write) + 4, &entry)),
            ("has a handler, and nobody knows why".to_owned(), driver.over(other, &[1 | 1 << 3])),
            ("halprof_rdmsr has 0".to_owned(), nothing),
        ]
    },
}];

fn handlers(driver: &Driver) -> Refusals {
    let mut refusals = Refusals::new();
    for (start, unwind) in unwind_entries(driver) {
        let header = driver.u32_at(unwind).to_le_bytes();
        let name = driver.functions.get(&start).map_or("code without a name", |one| one.name());
        let guarded = GUARDED.iter().any(|row| row.0 == name);
        match (guarded, header == HEADER, header[0] & FLAGS & !(4 << 3) != 0) {
            (true, false, _) => refusals.push(format!("{name} has no handler: {header:x?}")),
            (false, _, true) => {
                refusals.push(format!("{name} has a handler, and nobody knows why"));
            }
            (true, true, _) => {
                let handler = driver.u32_at(unwind + 4);
                if handler != driver.function(HANDLER) {
                    refusals.push(format!("{name} has a handler that is not {HANDLER}"));
                }
            }
            (false, ..) => {}
        }
        if driver.section_of(unwind).characteristics.get(LE) & IMAGE_SCN_MEM_WRITE != 0 {
            refusals.push(format!("the unwind information of {name} can be written"));
        }
    }
    for (name, mnemonic) in GUARDED {
        let function = &driver.functions[&driver.function(name)];
        let count = function.instructions.iter().filter(|one| one.mnemonic() == mnemonic).count();
        if count != 1 {
            refusals.push(format!("{name} has {count} of its instruction"));
        }
        if !unwind_entries(driver).any(|(start, _)| start == function.range.start) {
            refusals.push(format!("{name} has no handler: it is not in the unwind information"));
        }
    }
    refusals
}
