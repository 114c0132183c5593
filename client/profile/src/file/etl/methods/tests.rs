//! Is code that runtimes made named as what it was when a sample was in it?

mod managed;

use self::managed::{ManagedRun, Runtime};
use crate::file::{self, Recording, Sample, StackId, mode_of};
use crate::symbols::{NO_ADDRESS, SymbolPath, Symbols, UNKNOWN};
use halprof_etw::PointerSize;
use halprof_etw::payload::managed::{
    DotNetMethod, DotNetModule, Managed, ScriptFunction, ScriptSource,
};
use halprof_etw::payload::process::Process;
use halprof_etw::payload::{Change, EventKind, processor};
use sim_etw::write::{self, Origin, Session};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const CODE: u64 = 0x7FF8_0000_1000;
const LENGTH: u32 = 0x100;
/// Processes, each with a thread of the next number.
const ONE: u32 = 1000;
const TWO: u32 = 2000;

/// What a sample's address and the callers' are called: `module!function`.
fn named(path: &Path) -> Vec<String> {
    let (mut samples, mut stacks) = (Vec::new(), Vec::new());
    let mut source = file::open(path).expect("a file");
    let mut extend = |some: &[Sample], of_some: &[StackId]| {
        samples.extend_from_slice(some);
        stacks.extend_from_slice(of_some);
    };
    source.samples(&mut extend).expect("samples");
    let recording: Recording = source.take_recording();
    let mut symbols = Symbols::open(&recording, &SymbolPath::default());
    let mut name = |sample: &Sample| {
        let mode = mode_of(sample.mode);
        let frame = symbols.frame(sample.process, sample.ip, mode);
        let alone = symbols.module_alone(sample.process, sample.ip, mode);
        assert_eq!(frame.module, alone.module, "with its function and without");
        assert_eq!(frame, symbols.resolve(sample.process, sample.ip, mode));
        match &frame.symbol {
            Some(symbol) => {
                let offset = frame.offset.expect("an offset");
                format!("{}!{symbol}+{offset:#x}", frame.module)
            }
            None => frame.module.to_string(),
        }
    };
    samples.iter().map(&mut name).collect()
}

fn traces(name: &str) -> Option<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/etw/files");
    let path = PathBuf::from(folder).join(name);
    if !path.exists() {
        eprintln!("skipped: {} is absent", path.display());
        return None;
    }
    Some(path)
}

/// How many samples of a trace are in no image, how many of these have a method, and the first three.
fn outside_images(path: &Path) -> (usize, usize, Vec<(String, usize)>) {
    let mut samples = Vec::new();
    let mut source = file::open(path).expect("a file");
    source.samples(&mut |some, _| samples.extend_from_slice(some)).expect("samples");
    let recording = source.take_recording();
    let mut symbols = Symbols::open(&recording, &SymbolPath::default());
    let (mut outside, mut of_method) = (0, BTreeMap::<String, usize>::new());
    for sample in &samples {
        let mode = mode_of(sample.mode);
        if symbols.module(sample.process, sample.ip, mode).is_some() {
            continue;
        }
        outside += 1;
        let frame = symbols.frame(sample.process, sample.ip, mode);
        assert_eq!(frame.symbol.is_none(), &*frame.module == UNKNOWN);
        assert_ne!(&*frame.module, NO_ADDRESS);
        if let Some(symbol) = &frame.symbol {
            let name = symbol.split('(').next().unwrap_or_default().to_owned();
            *of_method.entry(name).or_default() += 1;
        }
    }
    let methods = of_method.values().sum();
    let mut first: Vec<_> = of_method.into_iter().collect();
    first.sort_by_key(|&(_, samples)| std::cmp::Reverse(samples));
    first.truncate(3);
    (outside, methods, first)
}

/// The numbers of an independent reader.
#[test]
fn samples_outside_images_have_the_methods_that_an_independent_reader_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(path) = traces("net.4.5.2.x64.etl") else { return };
    let converted = folder.path().join("a.rec");
    file::convert(&path, &converted, None, |_| {}, None, None).expect("converted");
    for path in [&path, &converted] {
        let (outside, methods, first) = outside_images(path);
        assert_eq!((outside, methods), (4678, 4494));
        let expected = [
            ("System.DateTime.GetDatePart", 1856),
            ("System.TimeZoneInfo.TransitionTimeToDateTime", 566),
            ("System.DateTime.get_DayOfWeek", 470),
        ];
        assert_eq!(first, expected.map(|(name, samples)| (name.to_owned(), samples)));
    }
    let Some(path) = traces("net.4.5.x86.etl") else { return };
    let (outside, methods, _) = outside_images(&path);
    assert_eq!((outside, methods), (110, 68));
}

/// Something that happens: when, in which process, what.
type Happens = (i64, u32, EventKind<'static>);

fn written(pointer_size: PointerSize, events: &[Happens]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.etl");
    let session = Session { pointer_size, origin: 1000, ..Session::default() };
    let events = events.iter().map(|&(time, process, ref kind)| {
        let origin = Origin { time, processor: 0, thread: process + 4, process };
        (origin, kind, &[][..])
    });
    write::trace(File::create(&path).expect("a file"), session, events).expect("written");
    (folder, path)
}

/// The names of the samples of a trace, and of the recording that it becomes: they are the same.
fn names_in(pointer_size: PointerSize, events: &[Happens]) -> Vec<String> {
    let threads = [ONE, TWO].map(|process| {
        let thread = super::super::tests::a_thread(Change::RundownStart, process, process + 4);
        (1000, process, thread)
    });
    let events: Vec<_> = threads.into_iter().chain(events.iter().cloned()).collect();
    let (folder, path) = written(pointer_size, &events);
    named_and_converted(folder.path(), &path)
}

fn named_and_converted(folder: &Path, trace: &Path) -> Vec<String> {
    let names = named(trace);
    let converted = folder.join("a.rec");
    file::convert(trace, &converted, None, |_| {}, None, None).expect("converted");
    assert_eq!(named(&converted), names);
    names
}

fn names(events: &[Happens]) -> Vec<String> {
    names_in(PointerSize::Eight, events)
}

fn a_sample(time: i64, process: u32, ip: u64) -> Happens {
    let thread = process + 4;
    (time, process, EventKind::Sample(processor::Sample { ip, thread, count: 1, reserved: 0 }))
}

fn a_method(change: Change, process: u32, time: i64, start: u64, name: &str) -> Happens {
    let method = DotNetMethod {
        method: name.bytes().map(u64::from).sum(),
        module: 0x77,
        start,
        size: LENGTH,
        namespace: "A.B".to_owned(),
        name: name.to_owned(),
        signature: "instance void  (int32,!0)".to_owned(),
        ..DotNetMethod::default()
    };
    (time, process, EventKind::Managed(Box::new(Managed::Method(change, method))))
}

fn a_module(change: Change, process: u32, time: i64, il: &str, native: &str) -> Happens {
    let (il_path, native_path) = (il.to_owned(), native.to_owned());
    let module = DotNetModule { module: 0x77, il_path, native_path, ..DotNetModule::default() };
    (time, process, EventKind::Managed(Box::new(Managed::Module(change, module))))
}

fn a_process(change: Change, time: i64) -> Happens {
    (time, ONE, EventKind::Process(Box::new(Process::new(change, ONE, "a.exe"))))
}

const F: &str = "JIT (.NET)!A.B.F(int32,!0)+0x4";
const G: &str = "JIT (.NET)!A.B.G(int32,!0)+0x4";

/// Newest load at or before the sample, until the unload.
#[test]
fn code_is_what_was_there_at_the_time() {
    use Change::{End, Start};
    let sample = |time| a_sample(time, ONE, CODE + 4);
    let found = names(&[
        sample(1010),
        a_method(Start, ONE, 1020, CODE, "F"),
        sample(1020),
        sample(1030),
        a_method(End, ONE, 1040, CODE, "F"),
        sample(1050),
        a_method(Start, ONE, 1060, CODE, "G"),
        sample(1070),
        // Replaced without an unload.
        a_method(Start, ONE, 1080, CODE - 0x10, "F"),
        sample(1090),
    ]);
    let last = "JIT (.NET)!A.B.F(int32,!0)+0x14";
    assert_eq!(found, [UNKNOWN, F, F, UNKNOWN, G, last]);
}

/// A method that is compiled again is elsewhere, and its old code may go on; so may its cold part.
#[test]
fn all_pieces_of_a_method_live_together() {
    use Change::Start;
    let found = names(&[
        a_method(Start, ONE, 1010, CODE, "F"),
        a_method(Start, ONE, 1020, CODE + 0x1000, "F"),
        a_sample(1030, ONE, CODE + 4),
        a_sample(1040, ONE, CODE + 0x1004),
        a_sample(1050, ONE, CODE + u64::from(LENGTH)),
    ]);
    assert_eq!(found, [F, F, UNKNOWN]);
}

/// A rundown names what was there all the time, unless a load says since when, or something else was
/// there before.
#[test]
fn a_rundown_names_what_was_there_before() {
    use Change::{End, RundownEnd, RundownStart, Start};
    for rundown in [RundownStart, RundownEnd] {
        let at = |offset: u64| CODE + 0x1000 * offset + 4;
        let found = names(&[
            a_sample(1010, ONE, at(0)),
            a_sample(1010, ONE, at(1)),
            a_sample(1010, ONE, at(2)),
            a_method(Start, ONE, 1020, at(1) - 4, "F"),
            a_method(Start, ONE, 1020, at(2) - 4, "G"),
            a_sample(1030, ONE, at(1)),
            a_method(End, ONE, 1040, at(2) - 4, "G"),
            a_sample(1050, ONE, at(2)),
            a_method(rundown, ONE, 1060, at(0) - 4, "F"),
            a_method(rundown, ONE, 1060, at(1) - 4, "F"),
            a_method(rundown, ONE, 1060, at(2) - 4, "F"),
            a_sample(1070, ONE, at(0)),
        ]);
        assert_eq!(found, [F, UNKNOWN, UNKNOWN, F, F, F], "{rundown:?}");
    }
}

/// Code without a load came when the last of what had been there was gone: the method before it, or its
/// process was not there earlier either.
#[test]
fn code_without_a_load_is_there_since_the_last_before_it() {
    use Change::{End, RundownEnd, Start};
    const H: &str = "JIT (.NET)!A.B.H(int32,!0)";
    let half = u64::from(LENGTH) / 2;
    let found = names(&[
        a_process(Start, 1001),
        (1002, ONE, super::super::tests::a_thread(Start, ONE, ONE + 4)),
        a_sample(1005, ONE, CODE + 4),
        a_method(End, ONE, 1010, CODE, "F"),
        a_sample(1015, ONE, CODE + half),
        a_sample(1015, ONE, CODE + 2 * half + 4),
        a_method(End, ONE, 1020, CODE + 2 * half, "G"),
        a_sample(1025, ONE, CODE + half),
        a_sample(1025, ONE, CODE + 2 * half + 4),
        // Over the end of one and the start of the other.
        a_method(RundownEnd, ONE, 1030, CODE + half, "H"),
    ]);
    assert_eq!(found, [F, UNKNOWN, G, &format!("{H}+0x0"), &format!("{H}+{:#x}", half + 4)]);
}

/// The unload of the one and the load of the other are lost.
#[test]
fn a_rundown_does_not_rename_what_was_there_before() {
    use Change::{RundownEnd, Start};
    let found = names(&[
        a_method(Start, ONE, 1010, CODE, "F"),
        a_sample(1020, ONE, CODE + 4),
        a_method(RundownEnd, ONE, 1030, CODE, "G"),
        a_sample(1040, ONE, CODE + 4),
    ]);
    assert_eq!(found, [F, G]);
}

#[test]
fn an_unload_alone_names_what_was_there_before() {
    let found = names(&[
        a_sample(1010, ONE, CODE + 4),
        a_method(Change::End, ONE, 1020, CODE, "F"),
        a_sample(1030, ONE, CODE + 4),
    ]);
    assert_eq!(found, [F, UNKNOWN]);
}

#[test]
fn names_are_those_of_the_modelled_runtime_whatever_the_seed() {
    let (mut named, mut unknown) = (0, 0);
    for seed in 0..200 {
        let runtime = if seed % 2 == 0 { Runtime::DotNet } else { Runtime::JavaScript };
        let pointer_size = if seed % 3 == 0 { PointerSize::Four } else { PointerSize::Eight };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.etl");
        let run = ManagedRun { seed, pointer_size, runtime };
        let truth = run.write(File::create(&path).expect("a file")).expect("written");
        let expected = truth.iter().map(|sample| match (&sample.method, runtime) {
            (None, _) => UNKNOWN.to_owned(),
            (Some((name, offset)), Runtime::DotNet) => format!("JIT (.NET)!{name}()+{offset:#x}"),
            (Some((name, offset)), Runtime::JavaScript) => {
                format!("JIT (JavaScript)!{name}+{offset:#x}")
            }
        });
        let expected: Vec<String> = expected.collect();
        assert_eq!(named_and_converted(folder.path(), &path), expected, "seed {seed}");
        unknown += expected.iter().filter(|name| *name == UNKNOWN).count();
        named += expected.iter().filter(|name| *name != UNKNOWN).count();
    }
    assert!(named > 10_000 && unknown > 5_000, "{named} named, {unknown} not");
}

#[test]
fn processes_have_their_own_code_at_one_address() {
    use Change::{End, RundownEnd, Start};
    let found = names(&[
        a_process(Start, 1001),
        a_method(Start, ONE, 1010, CODE, "F"),
        a_method(Start, TWO, 1010, CODE, "G"),
        a_sample(1020, ONE, CODE + 4),
        a_sample(1020, TWO, CODE + 4),
        // Another program with the same identifier.
        a_process(End, 1030),
        a_process(Start, 1040),
        (1040, ONE, super::super::tests::a_thread(Start, ONE, ONE + 4)),
        a_sample(1050, ONE, CODE + 4),
        a_sample(1050, ONE, CODE + 0x1004),
        a_method(RundownEnd, ONE, 1060, CODE + 0x1000, "G"),
    ]);
    assert_eq!(found, [F, G, UNKNOWN, G]);
}

/// The module is the file that a method was compiled from, whenever it is named.
#[test]
fn a_method_has_the_file_that_it_was_compiled_from() {
    use Change::{RundownEnd, Start};
    let (before, after) = (r"C:\a\Before.dll", r"C:\a\After.dll");
    let found = names(&[
        a_module(Start, ONE, 1005, before, r"C:\n\Before.ni.dll"),
        a_method(Start, ONE, 1010, CODE, "F"),
        a_method(Start, TWO, 1010, CODE, "F"),
        a_sample(1020, ONE, CODE + 4),
        a_sample(1020, TWO, CODE + 4),
        // Its number stands for another file later.
        a_module(Start, ONE, 1030, after, ""),
        a_module(RundownEnd, TWO, 1040, "", after),
    ]);
    let of = |module| format!("{module}!A.B.F(int32,!0)+0x4");
    assert_eq!(found, [of("Before.dll"), of("After.dll")]);
}

/// What was compiled ahead of time is in an image, which keeps its name.
#[test]
fn a_method_in_an_image_keeps_the_image() {
    let image = super::super::tests::an_image(Change::RundownStart, CODE, ONE, r"C:\n\A.ni.dll");
    let found = names(&[
        (1001, ONE, image),
        a_method(Change::RundownEnd, ONE, 1010, CODE, "F"),
        a_sample(1020, ONE, CODE + 4),
        a_sample(1030, ONE, CODE + u64::from(LENGTH) + 4),
    ]);
    assert_eq!(found, ["A.ni.dll!A.B.F(int32,!0)+0x4", "A.ni.dll"]);
}

#[test]
fn functions_of_scripts_are_named_whatever_the_pointer_size() {
    let function = |change, time, start, name: &str| {
        let (size, source, name) = (LENGTH.into(), 7, name.to_owned());
        let function = ScriptFunction { start, size, source, name, ..ScriptFunction::default() };
        (time, ONE, EventKind::Managed(Box::new(Managed::Function(change, function))))
    };
    let url = "https://example.org/js/app.js?v=1/2".to_owned();
    let source = Managed::Source(ScriptSource { source: 7, url, ..ScriptSource::default() });
    for (pointer_size, code) in [(PointerSize::Four, 0x40_0000), (PointerSize::Eight, CODE)] {
        let found = names_in(
            pointer_size,
            &[
                function(Change::Start, 1010, code, "run"),
                (1015, ONE, EventKind::Managed(Box::new(source.clone()))),
                a_sample(1020, ONE, code + 4),
                function(Change::End, 1030, code, "run"),
                a_sample(1040, ONE, code + 4),
                a_sample(1040, ONE, code + 0x1004),
                function(Change::RundownEnd, 1050, code + 0x1000, ""),
            ],
        );
        assert_eq!(found, ["app.js!run+0x4", UNKNOWN, "app.js!(anonymous)+0x4"]);
    }
}

/// Methods that no sample is in are left out of recordings, callers included.
#[test]
fn a_recording_has_the_methods_that_samples_are_in() {
    use super::super::tests::{a_stack, frames};
    let frames = frames(&[CODE + 4, CODE + 0x1000 + u64::from(LENGTH)]);
    let stack: &'static [u8] = Box::leak(frames.into_boxed_slice());
    let (_folder, path) = written(
        PointerSize::Eight,
        &[
            a_method(Change::Start, ONE, 1005, CODE, "F"),
            a_method(Change::Start, ONE, 1005, CODE + 0x1000, "G"),
            a_method(Change::Start, ONE, 1005, CODE + 0x2000, "H"),
            a_sample(1020, ONE, CODE + 4),
            (1021, ONE, a_stack(1020, ONE, ONE + 4, stack)),
        ],
    );
    let mut source = file::open(&path).expect("a trace");
    source.samples(&mut |_, _| {}).expect("samples");
    let methods = source.take_recording().methods;
    let names: Vec<_> = methods.iter().map(|method| method.name.as_str()).collect();
    assert_eq!(names, ["A.B.F(int32,!0)", "A.B.G(int32,!0)"]);
    assert!(methods.iter().all(|method| method.loaded.is_none()), "no sample is older");
}

/// A method that is in no file has its samples, and no instructions.
#[test]
fn annotation_of_a_method_is_its_head() {
    use crate::aggregate::filter::Filter;
    use crate::symbols::FunctionPattern;
    use crate::views::annotate::{Annotated, Target};
    let (_folder, path) = written(
        PointerSize::Eight,
        &[
            (1000, ONE, super::super::tests::a_thread(Change::RundownStart, ONE, ONE + 4)),
            a_method(Change::Start, ONE, 1005, CODE, "F"),
            a_method(Change::Start, ONE, 1005, CODE + 0x1000, "G"),
            a_sample(1020, ONE, CODE + 4),
            a_sample(1030, ONE, CODE + 8),
            a_sample(1040, ONE, CODE + 0x1008),
        ],
    );
    for target in [Target::Hottest, Target::Symbol(FunctionPattern::new("A.B.F"))] {
        let path = std::slice::from_ref(&path);
        let read = Annotated::read(path, &target, &Filter::default(), &SymbolPath::default());
        let annotated = read.expect("annotated");
        assert_eq!(annotated.code.start..annotated.code.end, CODE..CODE + u64::from(LENGTH));
        assert_eq!(&*annotated.code.symbol, "A.B.F(int32,!0)");
        let samples: Vec<u64> = annotated.sums.iter().map(|sum| sum.samples).collect();
        assert_eq!((samples, annotated.instructions.len()), (vec![2], 0));
    }
}
