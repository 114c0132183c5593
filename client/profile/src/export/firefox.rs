//! The Firefox Profiler: <https://profiler.firefox.com>, its processed profile format.

use super::{Place, Source, View};
use crate::recording::{Identity, Module};
use fxprof_processed_profile::debugid::DebugId;
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, LibraryHandle,
    LibraryInfo, Profile, ReferenceTimestamp, SamplingInterval, StackHandle, Symbol, SymbolTable,
    ThreadHandle, Timestamp,
};
use shared_types::Mode;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

/// Writes one source: a track for each thread, every sample with a weight of samples.
pub(super) fn write(view: &View<'_>, out: &mut impl Write) -> io::Result<()> {
    let source = view.source();
    let mut writer = Writer::new(view, &source);
    writer.threads();
    writer.samples();
    Ok(serde_json::to_writer(out, &writer.profile)?)
}

struct Writer<'a> {
    view: &'a View<'a>,
    source: &'a Source,
    profile: Profile,
    user: CategoryHandle,
    kernel: CategoryHandle,
    threads: HashMap<(u32, u32), ThreadHandle>,
    libraries: HashMap<usize, LibraryHandle>,
    stacks: HashMap<usize, Option<StackHandle>>,
}

impl<'a> Writer<'a> {
    fn new(view: &'a View<'a>, source: &'a Source) -> Self {
        let began = view.gathered.recording.metadata.began;
        let began = ReferenceTimestamp::from_millis_since_unix_epoch(began as f64 * 1000.0);
        let interval = SamplingInterval::from_nanos(interval_ns(view, source));
        let (machine, rest) = {
            let mut captions = view.captions();
            let machine = captions.remove(0);
            (machine, captions.join("; "))
        };
        let product = format!("halprof: {} of {}; {rest}", source.name, view.title);
        let mut profile = Profile::new(&product, began, interval);
        profile.set_os_name(&machine);
        profile.set_symbolicated(true);
        let user = profile.add_category("User", CategoryColor::Blue);
        let kernel = profile.add_category("Kernel", CategoryColor::Orange);
        Self {
            view,
            source,
            profile,
            user,
            kernel,
            threads: HashMap::new(),
            libraries: HashMap::new(),
            stacks: HashMap::new(),
        }
    }

    fn threads(&mut self) {
        let gathered = self.view.gathered;
        let begin = Timestamp::from_nanos_since_reference(0);
        let mut process = None;
        for (place, _) in gathered.spots_of(self.source) {
            let handle = match process {
                Some((id, handle)) if id == place.process => handle,
                _ => {
                    let name = gathered.process_name(place.process);
                    self.profile.add_process(&name, place.process, begin)
                }
            };
            let main = process.is_none_or(|(id, _)| id != place.process);
            process = Some((place.process, handle));
            let profile = &mut self.profile;
            self.threads
                .entry((place.process, place.thread))
                .or_insert_with(|| {
                    let thread = profile.add_thread(handle, place.thread, begin, main);
                    profile.set_thread_name(thread, &format!("thread {}", place.thread));
                    thread
                });
        }
    }

    fn samples(&mut self) {
        let gathered = self.view.gathered;
        let moments = gathered.moments.iter();
        for moment in moments.filter(|moment| moment.source == self.source.index) {
            let Some(place) = gathered.places.get(moment.place) else {
                continue;
            };
            let Some(&thread) = self.threads.get(&(place.process, place.thread)) else {
                continue;
            };
            let stack = if let Some(&known) = self.stacks.get(&moment.place) {
                known
            } else {
                let frame = self.frame(place);
                let stack = self
                    .profile
                    .intern_stack_frames(thread, [frame].into_iter());
                self.stacks.insert(moment.place, stack);
                stack
            };
            let time = Timestamp::from_nanos_since_reference(gathered.nanoseconds(moment.time));
            let weight = i32::try_from(moment.weight.samples).unwrap_or(i32::MAX);
            self.profile
                .add_sample(thread, time, stack, CpuDelta::ZERO, weight);
        }
    }

    fn frame(&mut self, place: &Place) -> FrameInfo {
        let category = if place.mode == Mode::Kernel {
            self.kernel
        } else {
            self.user
        };
        let frame = self.library_frame(place).unwrap_or_else(|| {
            let name = place.frame.symbol.as_ref().unwrap_or(&place.frame.module);
            Frame::Label(self.profile.intern_string(name))
        });
        FrameInfo {
            frame,
            category_pair: category.into(),
            flags: FrameFlags::empty(),
        }
    }

    /// An address in a library; `None` where no module is known or it is too long for the format.
    fn library_frame(&mut self, place: &Place) -> Option<Frame> {
        let (index, module) = self.view.gathered.module_of(place)?;
        let address = u32::try_from(place.address.checked_sub(module.start)?).ok()?;
        let library = if let Some(&known) = self.libraries.get(&index) {
            known
        } else {
            let library = self.profile.add_lib(self.library(index, module));
            self.libraries.insert(index, library);
            library
        };
        Some(Frame::RelativeAddressFromInstructionPointer(
            library, address,
        ))
    }

    fn library(&self, index: usize, module: &Module) -> LibraryInfo {
        let path = module.path.clone().unwrap_or_else(|| module.name.clone());
        let (debug_path, debug_id, code_id) = match &module.identity {
            Some(Identity::Pdb { file, guid, age }) => (
                file.clone(),
                DebugId::from_breakpad(&format!("{guid}{age:x}")).ok(),
                None,
            ),
            Some(Identity::BuildId(id)) => (path.clone(), None, Some(id.clone())),
            None => (path.clone(), None, None),
        };
        let debug_name = debug_path.rsplit(['/', '\\']).next().unwrap_or_default();
        LibraryInfo {
            name: module.name.clone(),
            debug_name: debug_name.to_owned(),
            path,
            debug_path: debug_path.clone(),
            debug_id: debug_id.unwrap_or_default(),
            code_id,
            arch: Some("x86_64".to_owned()),
            symbol_table: Some(Arc::new(self.symbols(index, module))),
        }
    }

    /// The symbols of a module that samples are in.
    fn symbols(&self, index: usize, module: &Module) -> SymbolTable {
        let places = self.view.gathered.places.iter();
        let places = places.filter(|place| place.module == Some(index));
        let symbols = places.filter_map(|place| {
            let name = place.frame.symbol.as_ref()?.to_string();
            let begin = place.address.checked_sub(place.frame.offset)?;
            let address = u32::try_from(begin.checked_sub(module.start)?).ok()?;
            // What lies behind the last sampled address may belong to another symbol.
            let size = u32::try_from(place.frame.offset).ok()?.checked_add(1)?;
            Some(Symbol {
                address,
                size: Some(size),
                name,
            })
        });
        let mut longest: HashMap<u32, Symbol> = HashMap::new();
        for symbol in symbols {
            let known = longest
                .entry(symbol.address)
                .or_insert_with(|| symbol.clone());
            known.size = known.size.max(symbol.size);
        }
        SymbolTable::new(longest.into_values().collect())
    }
}

/// The mean time between samples.
fn interval_ns(view: &View<'_>, source: &Source) -> u64 {
    let elapsed = view.gathered.recording.elapsed_ns();
    elapsed
        .checked_div(source.weight.samples)
        .unwrap_or(0)
        .max(1)
}
