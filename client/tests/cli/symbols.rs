//! Are functions, lines and inlined functions those of the source that a program was built from?

use crate::binaries::{self, Built, SOURCE};
use halprof::recording::{Identity, Module, Recording};
use halprof::symbols::{Frame, Kind, Opened, SymbolPath, Symbols, identity_of};
use object::{Object, ObjectSection};
use shared_types::Mode;
use std::path::Path;

/// Where the modules of these tests are loaded: not where their linkers put them.
const LOADED: u64 = 0x7FFE_1234_0000;

fn module(path: &Path) -> Module {
    Module {
        name: path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned(),
        path: Some(path.to_str().expect("UTF-8").to_owned()),
        start: LOADED,
        end: LOADED + 0x10_0000,
        identity: identity_of(path).expect("an executable"),
        ..Module::default()
    }
}

fn recording(modules: Vec<Module>) -> Recording {
    Recording {
        modules,
        ..Recording::default()
    }
}

/// Every address of its code, four bytes apart, and what the symbols say of each.
fn all_frames(symbols: &mut Symbols, file: &Path) -> Vec<(u64, Frame)> {
    let bytes = std::fs::read(file).expect("the file");
    let object = object::File::parse(&*bytes).expect("an executable");
    let text = object.section_by_name(".text").expect("code");
    let base = object.relative_address_base();
    let start = LOADED + (text.address() - base);
    let addresses = (start..start + text.size()).step_by(4);
    addresses
        .map(|ip| (ip, symbols.frame(7, ip, Mode::User)))
        .collect()
}

/// Holds what is found in a program against its source.
fn assert_true(built: &Built, opened: &[Opened], frames: &[(u64, Frame)], kind: Kind) {
    assert_eq!(opened.len(), 1, "{opened:?}");
    assert_eq!(opened[0].kind, kind, "{opened:?}");
    let source = std::fs::read_to_string(SOURCE).expect("the source");
    let of = |symbol: &str| {
        let of: Vec<_> = frames
            .iter()
            .filter(|(_, frame)| {
                frame
                    .symbol
                    .as_deref()
                    .is_some_and(|s| s.split('(').next() == Some(symbol))
            })
            .collect();
        assert!(!of.is_empty(), "{symbol} in {}", built.path());
        of
    };
    let lines_of = |symbol: &str| -> Vec<u32> {
        of(symbol)
            .iter()
            .filter_map(|(_, frame)| frame.line)
            .collect()
    };
    for (symbol, first, last) in [("spin", 9, 16), ("wait", 21, 24)] {
        for (_, frame) in of(symbol) {
            let file = frame.file.as_deref().expect("a file");
            assert!(file.ends_with("work.c"), "{file}");
            let line = frame.line.expect("a line");
            let inlined = !frame.inlined.is_empty() && (4..=7).contains(&line);
            assert!(
                inlined || (first..=last).contains(&line),
                "{symbol}: {frame:?}"
            );
        }
    }
    assert!(lines_of("wait").contains(&22));
    assert!(lines_of("spin").contains(&13));
    let inlined: Vec<_> = of("spin")
        .iter()
        .flat_map(|(_, frame)| frame.inlined.to_vec())
        .collect();
    assert!(!inlined.is_empty(), "twice is in spin");
    for call in inlined {
        assert_eq!(call.function.split('(').next(), Some("twice"));
        assert_eq!(
            call.caller_line,
            Some(12),
            "{}",
            source.lines().nth(11).expect("it")
        );
    }
    // Offsets count from the function's start.
    let starts: Vec<u64> = of("spin")
        .iter()
        .map(|(ip, frame)| ip - frame.offset)
        .collect();
    assert!(starts.windows(2).all(|two| two[0] == two[1]), "{starts:x?}");
}

#[test]
fn a_pdb_names_functions_and_lines() {
    let Some(built) = binaries::pe() else { return };
    let module = module(&built.file);
    assert!(matches!(module.identity, Some(Identity::Pdb { .. })));
    let mut symbols = Symbols::open(&recording(vec![module]), &SymbolPath::default());
    assert_eq!(
        symbols.opened(),
        [],
        "nothing is opened before it is needed"
    );
    let frames = all_frames(&mut symbols, &built.file);
    assert_true(&built, &symbols.opened(), &frames, Kind::Pdb);
}

#[test]
fn dwarf_names_functions_and_lines() {
    let Some(built) = binaries::elf() else { return };
    let mut symbols = Symbols::open(
        &recording(vec![module(&built.file)]),
        &SymbolPath::default(),
    );
    let frames = all_frames(&mut symbols, &built.file);
    assert_true(&built, &symbols.opened(), &frames, Kind::Dwarf);
}
