//! Code that runtimes make, at random, with the truth about each sample.
//!
//! Methods are compiled, compiled again elsewhere while their old code runs on, divided into a hot and
//! a cold part, unloaded, and replaced without a word; processes have other code at the same addresses.
//! Some of it was there before the session, and only the rundown at its end names it.

use fastrand::Rng;
use halprof_etw::PointerSize;
use halprof_etw::payload::managed::{DotNetMethod, Managed, ScriptFunction};
use halprof_etw::payload::{Change, EventKind, processor, thread};
use sim_etw::write::{self, Origin, Session};
use std::io::{self, Seek, Write};

/// The run that is modelled.
#[derive(Clone, Copy, Debug)]
pub(super) struct ManagedRun {
    /// Decides everything.
    pub(super) seed: u64,
    /// The pointer size of the system and its processes.
    pub(super) pointer_size: PointerSize,
    /// Which runtime makes the code.
    pub(super) runtime: Runtime,
}

/// What makes code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runtime {
    /// .NET.
    DotNet,
    /// V8 or Chakra.
    JavaScript,
}

/// A sample, and what it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InMethod {
    /// Its process.
    pub(super) process: u32,
    /// Its address.
    pub(super) ip: u64,
    /// The method, and how far behind the beginning of its piece; `None` outside of all code, and in
    /// code that no event of the trace names.
    pub(super) method: Option<(String, u64)>,
}

/// Where processes have code: as many places of [`PLACE`] bytes, each with one piece at most.
const PLACES: usize = 6;
const PLACE: u64 = 0x1000;
const PROCESSES: [u32; 2] = [1000, 2000];
/// Steps of the run; something happens at each.
const STEPS: i64 = 300;
const ORIGIN: i64 = 1000;
/// The piece is the cold part of its method (MethodFlags, the extent).
const COLD: u32 = 0x1000_0000;

/// A piece of a method.
#[derive(Clone, Copy)]
struct Piece {
    method: u32,
    start: u64,
    size: u32,
    flags: u32,
    /// Whether an event has named it: not if it was there before the session.
    is_named: bool,
}

struct Generator {
    run: ManagedRun,
    rng: Rng,
    events: Vec<(Origin, EventKind<'static>)>,
    samples: Vec<InMethod>,
    pieces: [[Option<Piece>; PLACES]; PROCESSES.len()],
}

impl ManagedRun {
    /// Writes the trace; returns its samples in the order of time.
    pub(super) fn write<W: Write + Seek>(self, output: W) -> io::Result<Vec<InMethod>> {
        let mut generator = Generator {
            run: self,
            rng: Rng::with_seed(self.seed),
            events: Vec::new(),
            samples: Vec::new(),
            pieces: [[None; PLACES]; PROCESSES.len()],
        };
        generator.generate();
        let Generator { events, samples, .. } = generator;
        let session =
            Session { pointer_size: self.pointer_size, origin: ORIGIN, ..Session::default() };
        write::trace(
            output,
            session,
            events.iter().map(|(origin, kind)| (*origin, kind, &[][..])),
        )?;
        Ok(samples)
    }

    /// The first address of code: the same in all processes.
    const fn code(self) -> u64 {
        match self.pointer_size {
            PointerSize::Four => 0x40_0000,
            PointerSize::Eight => 0x7FF8_0000_0000,
        }
    }

    fn name(self, method: u32) -> String {
        match self.runtime {
            Runtime::DotNet => format!("Modelled.Type.Method{method}"),
            Runtime::JavaScript => format!("function{method}"),
        }
    }

    fn event(self, change: Change, piece: Piece) -> EventKind<'static> {
        let Piece { method, start, size, flags, .. } = piece;
        EventKind::Managed(Box::new(match self.runtime {
            Runtime::DotNet => Managed::Method(
                change,
                DotNetMethod {
                    method: method.into(),
                    start,
                    size,
                    flags,
                    namespace: "Modelled.Type".to_owned(),
                    name: format!("Method{method}"),
                    signature: "void  ()".to_owned(),
                    ..DotNetMethod::default()
                },
            ),
            Runtime::JavaScript => Managed::Function(
                change,
                ScriptFunction {
                    start,
                    size: size.into(),
                    function: method,
                    name: self.name(method),
                    ..ScriptFunction::default()
                },
            ),
        }))
    }
}

impl Generator {
    fn generate(&mut self) {
        for (process, &id) in PROCESSES.iter().enumerate() {
            let running = thread::Thread::new(Change::RundownStart, id, id + 4);
            self.push(ORIGIN, process, EventKind::Thread(Box::new(running)));
            for place in 0..PLACES {
                if self.rng.bool() {
                    let piece = Piece { is_named: false, ..self.piece(process, place) };
                    self.pieces[process][place] = Some(piece);
                }
            }
        }
        for time in ORIGIN + 1..=ORIGIN + STEPS {
            let (process, place) = (self.rng.usize(..PROCESSES.len()), self.rng.usize(..PLACES));
            match self.rng.u32(..8) {
                0 => self.load(time, process, place),
                1 => self.unload(time, process, place),
                _ => self.sample(time, process, place),
            }
        }
        for process in 0..PROCESSES.len() {
            for place in 0..PLACES {
                if let Some(piece) = self.pieces[process][place] {
                    let rundown = self.run.event(Change::RundownEnd, piece);
                    self.push(ORIGIN + STEPS + 1, process, rundown);
                    self.name(process, piece);
                }
            }
        }
    }

    /// Code of a method: a new one, the cold part of one that is there, or that one compiled again.
    fn piece(&mut self, process: usize, place: usize) -> Piece {
        // What replaces other code begins where that did: no other has gone by it.
        let before = self.pieces[process][place].map(|piece| piece.start);
        let start = before.unwrap_or_else(|| {
            self.run.code() + PLACE * place as u64 + self.rng.u64(..0x100) * 0x10
        });
        let most = (self.run.code() + PLACE * (place as u64 + 1) - start) as u32;
        let size = self.rng.u32(0x10..=most.max(0x10));
        let there: Vec<u32> = self.pieces[process].iter().flatten().map(|one| one.method).collect();
        let (method, flags) = match self.rng.choice(there).filter(|_| self.rng.bool()) {
            Some(method) if self.run.runtime == Runtime::DotNet && self.rng.bool() => {
                (method, COLD)
            }
            Some(method) => (method, 0),
            None => (self.rng.u32(..), 0),
        };
        Piece { method, start, size, flags, is_named: true }
    }

    /// Code is compiled to a place; what was there is gone without an event of its own.
    fn load(&mut self, time: i64, process: usize, place: usize) {
        let piece = self.piece(process, place);
        self.push(time, process, self.run.event(Change::Start, piece));
        self.pieces[process][place] = Some(piece);
    }

    fn unload(&mut self, time: i64, process: usize, place: usize) {
        if let Some(piece) = self.pieces[process][place].take() {
            self.push(time, process, self.run.event(Change::End, piece));
            self.name(process, piece);
        }
    }

    /// A sample in a place, often in its piece.
    fn sample(&mut self, time: i64, process: usize, place: usize) {
        let piece = self.pieces[process][place];
        let ip = match piece.filter(|_| self.rng.u32(..4) != 0) {
            Some(piece) => piece.start + self.rng.u64(..u64::from(piece.size)),
            None => self.run.code() + PLACE * place as u64 + self.rng.u64(..PLACE),
        };
        let own =
            piece.filter(|piece| (piece.start..piece.start + u64::from(piece.size)).contains(&ip));
        let named = own.filter(|piece| piece.is_named);
        let method = named.map(|piece| (self.run.name(piece.method), ip - piece.start));
        let id = PROCESSES[process];
        self.samples.push(InMethod { process: id, ip, method });
        let sample = processor::Sample { ip, thread: id + 4, count: 1, reserved: 0 };
        self.push(time, process, EventKind::Sample(sample));
    }

    /// An event names code that was there before: its samples are in it.
    fn name(&mut self, process: usize, piece: Piece) {
        if piece.is_named {
            return;
        }
        let code = piece.start..piece.start + u64::from(piece.size);
        for sample in &mut self.samples {
            if sample.process == PROCESSES[process] && code.contains(&sample.ip) {
                sample.method = Some((self.run.name(piece.method), sample.ip - piece.start));
            }
        }
    }

    fn push(&mut self, time: i64, process: usize, kind: EventKind<'static>) {
        let id = PROCESSES[process];
        let origin = Origin { time, processor: 0, thread: id + 4, process: id };
        self.events.push((origin, kind));
    }
}
