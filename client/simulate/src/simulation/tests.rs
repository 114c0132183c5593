use super::*;
use crate::cache::{Caches, Geometry};

const START: u64 = 0x1_4000_1000;

fn simulation(code: &[u8]) -> Simulation {
    let first = Geometry { level: 1, kind: Kind::Data, line: 64, associativity: 8, sets: 64 };
    Simulation::new(START, code.to_vec(), false, Caches::new(&[first]))
}

fn at(offset: u64) -> Registers {
    Registers { ip: START + offset, general: [0x1000; 16], ..Registers::default() }
}

#[test]
fn a_rep_is_one_execution_and_many_iterations() {
    // rep stosb; ret
    let mut simulation = simulation(&[0xF3, 0xAA, 0xC3]);
    assert!(repeats(&simulation.instruction(START)));
    for left in (1..=70_u64).rev() {
        let mut registers = at(0);
        registers.general[1] = left;
        registers.general[7] = 0x1000 + 70 - left;
        let after = if left == 1 { START + 2 } else { START };
        simulation.executed(&registers, after, left != 70);
    }
    let counts = simulation.rows()[0].counts.clone();
    assert_eq!((counts.executions, counts.iterations), (1, 70));
    assert_eq!((counts.writes, counts.bytes, counts.reads), (70, 70, 0));
    // Two lines of 64 bytes.
    assert_eq!((counts.misses["L1D"], counts.taken), (2, 0));
}

#[test]
fn a_rep_with_nothing_to_do_touches_nothing() {
    let mut simulation = simulation(&[0xF3, 0xAA, 0xC3]);
    let mut registers = at(0);
    registers.general[1] = 0;
    simulation.executed(&registers, START + 2, false);
    let counts = simulation.rows()[0].counts.clone();
    assert_eq!((counts.executions, counts.iterations), (1, 0));
    assert_eq!((counts.writes, counts.bytes), (0, 0));
}

#[test]
fn operands_are_found_by_the_registers() {
    // mov rax,[rbx+rcx*8+4]; add [rip+0],eax; mov eax,fs:[0x28]; push rax; lea rax,[rbx]
    let code = [
        &[0x48, 0x8B, 0x44, 0xCB, 0x04][..],
        &[0x01, 0x05, 0, 0, 0, 0],
        &[0x64, 0x8B, 0x04, 0x25, 0x28, 0, 0, 0],
        &[0x50],
        &[0x48, 0x8D, 0x03],
    ]
    .concat();
    let mut simulation = simulation(&code);
    let mut offset = 0;
    for length in [5, 6, 8, 1, 3] {
        let mut registers = at(offset);
        registers.fs = 0x7000;
        offset += length;
        simulation.executed(&registers, START + offset, false);
    }
    let rows = simulation.rows();
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            let counts = &row.counts;
            (counts.reads, counts.writes, counts.bytes, counts.misaligned)
        })
        .collect();
    assert_eq!(told, [(1, 0, 8, 1), (1, 1, 8, 1), (1, 0, 4, 0), (0, 1, 8, 0), (0, 0, 0, 0)]);
    assert!(rows.iter().all(|row| row.counts.unknown == 0));
    // 0x1000 + 0x8000 + 4, the byte after the add, 0x7028 and 0xFF8 are in four lines.
    assert_eq!(simulation.caches().totals()[0].misses, 4);
}

/// Compilers align a `long double` of 10 bytes to 16.
#[test]
fn a_size_that_is_no_power_of_two_is_aligned_to_the_next() {
    // fld tbyte ptr [rbx]; fnstenv [rbx], which writes 28 bytes
    for (code, bytes, cases) in [
        ([0xDB, 0x2B], 10, [(0x1000, 0), (0x1004, 1), (0x1008, 1)]),
        ([0xD9, 0x33], 28, [(0x1000, 0), (0x1014, 1), (0x1010, 1)]),
    ] {
        for (address, misaligned) in cases {
            let mut simulation = simulation(&code);
            let registers = Registers { general: [address; 16], ..at(0) };
            simulation.executed(&registers, START + 2, false);
            let counts = &simulation.rows()[0].counts;
            assert_eq!((counts.bytes, counts.misaligned), (bytes, misaligned), "{address:#x}");
        }
    }
}

#[test]
fn branches_are_taken_where_they_lead_elsewhere() {
    // dec ecx; jnz -4; ret
    let mut simulation = simulation(&[0xFF, 0xC9, 0x75, 0xFC, 0xC3]);
    for turn in 0..10 {
        simulation.executed(&at(0), START + 2, false);
        let after = if turn == 9 { START + 4 } else { START };
        simulation.executed(&at(2), after, false);
    }
    assert_eq!(flow(&simulation.instruction(START + 4)), Flow::Return);
    simulation.executed(&at(4), 0x5000, false);
    let rows = simulation.rows();
    let told = rows.iter().map(|row| {
        let counts = &row.counts;
        (counts.executions, counts.taken)
    });
    assert_eq!(told.collect::<Vec<_>>(), [(10, 0), (10, 9), (1, 1)]);
}

#[test]
fn what_ran_is_shown_where_bytes_can_be_read_two_ways() {
    // A jump over one byte that would begin a longer instruction: jmp +1; (48); ret
    let mut simulation = simulation(&[0xEB, 0x01, 0x48, 0xC3]);
    simulation.executed(&at(0), START + 3, false);
    simulation.executed(&at(3), 0x5000, false);
    let rows = simulation.rows();
    let starts: Vec<u64> = rows.iter().map(|row| row.address - START).collect();
    assert_eq!(starts, [0, 2, 3]);
    assert_eq!(rows[2].counts.executions, 1);
}

#[test]
fn an_address_inside_an_instruction_cuts_it() {
    // mov rax,[rbx+rcx*8+4]; ret
    let code = [0x48, 0x8B, 0x44, 0xCB, 0x04, 0xC3];
    for (offset, cuts) in [(0, false), (1, true), (4, true), (5, false), (6, false)] {
        let found = cut(&code, START, START + offset, false);
        assert_eq!(found, cuts.then_some(START..START + 5), "{offset}");
    }
}
