//! Images as the events of a trace report them: where each was, during which time, which build it
//! is, and where its file is.

use crate::file::methods::SampledAddresses;
use crate::file::{Build, Identity, Module, Stamp};
use halprof_etw::PointerSize;
use halprof_etw::payload::Change;
use halprof_etw::payload::image::{Image, ImageId, Pdb};
use halprof_etw::payload::volume::Volume as VolumeEvent;
use halprof_measure::native_path::{self, Volume};
use rustc_hash::FxHashMap;

use super::{Files, IDLE, SYSTEM};

/// An address of a process, or of the kernel without a process.
pub(super) type Place = (Option<u32>, u64);

/// The images of all processes.
pub(super) struct Images {
    pointer: PointerSize,
    modules: Vec<Module>,
    /// The image at an address now, as an index of `modules`.
    live: FxHashMap<Place, usize>,
    /// What xperf's merge adds about the image at an address, in order of time.
    builds: FxHashMap<Place, Vec<(u64, BuildEvent)>>,
    /// The folder of Windows, and the drives of the machine that was traced.
    windows: Option<String>,
    volumes: Vec<Volume>,
}

/// A part of a build's identity.
enum BuildEvent {
    Stamp(Stamp),
    Pdb(Identity),
}

/// Where an image is. Images in the kernel's half belong to the kernel, though events give them the idle
/// process or the system's.
pub(super) fn place(pointer: PointerSize, process: u32, base: u64) -> Place {
    let is_kernel = pointer.is_kernel(base) && matches!(process, IDLE | SYSTEM);
    ((!is_kernel).then_some(process), base)
}

/// An image as a recording has it.
pub(super) fn module((process, start): Place, event: &Image, loaded: Option<u64>) -> Module {
    let stamp = event.file.filter(|file| file.time_date_stamp != 0).map(|file| Stamp {
        time: file.time_date_stamp,
        size: u32::try_from(event.size).unwrap_or(0),
    });
    Module {
        process,
        name: event.name.rsplit(['\\', '/']).next().unwrap_or_default().to_owned(),
        path: Some(event.name.clone()).filter(|path| !path.is_empty()),
        start,
        end: start.saturating_add(event.size),
        loaded,
        stamp,
        ..Module::default()
    }
}

/// The build of an image whose PDB a trace names.
pub(super) fn identity(pdb: Pdb) -> Identity {
    let guid = pdb.guid.to_string().replace('-', "").to_uppercase();
    Identity::Pdb { file: pdb.name, guid, age: pdb.age }
}

impl Images {
    pub(super) fn new(pointer: PointerSize) -> Self {
        Self {
            pointer,
            modules: Vec::new(),
            live: FxHashMap::default(),
            builds: FxHashMap::default(),
            windows: None,
            volumes: Vec::new(),
        }
    }

    pub(super) fn image(&mut self, time: u64, event: &Image) {
        let key = self.place(event.process.unwrap_or(IDLE), event.base);
        let known = self.live.get(&key).copied();
        match event.change {
            Change::End => {
                let index = known.unwrap_or_else(|| self.add(key, event, None));
                self.modules[index].unloaded = Some(time);
                self.live.remove(&key);
            }
            Change::Start => _ = self.add(key, event, Some(time)),
            // A rundown names what has been there all the time, and again what the trace saw
            // loaded.
            _ if known.is_none() => _ = self.add(key, event, None),
            _ => {}
        }
    }

    fn add(&mut self, key: Place, event: &Image, loaded: Option<u64>) -> usize {
        self.live.insert(key, self.modules.len());
        self.modules.push(module(key, event, loaded));
        self.modules.len() - 1
    }

    pub(super) fn image_id(&mut self, time: u64, id: &ImageId) {
        let Ok(size) = u32::try_from(id.size) else { return };
        let stamp = Stamp { time: id.time_date_stamp, size };
        self.build(time, (id.process, id.base), BuildEvent::Stamp(stamp));
    }

    pub(super) fn pdb(&mut self, time: u64, pdb: Pdb) {
        let place = (pdb.process, pdb.base);
        self.build(time, place, BuildEvent::Pdb(identity(pdb)));
    }

    fn build(&mut self, time: u64, (process, base): (u32, u64), event: BuildEvent) {
        let key = self.place(process, base);
        self.builds.entry(key).or_default().push((time, event));
    }

    pub(super) fn volume(&mut self, event: &VolumeEvent) {
        let drive = event.dos_path.trim_end_matches('\\');
        let device = event.nt_path.trim_end_matches('\\');
        if device.eq_ignore_ascii_case(r"\SystemRoot") {
            self.windows = Some(drive.to_owned());
        } else if drive.ends_with(':') && !device.is_empty() {
            self.volumes.push(Volume { drive: drive.to_owned(), device: device.to_owned() });
        }
    }

    fn place(&self, process: u32, base: u64) -> Place {
        place(self.pointer, process, base)
    }

    /// All images, with the builds that are known, and with the paths that programs of the traced machine
    /// could open, if the trace has its drives.
    pub(super) fn finish(mut self) -> Vec<Module> {
        self.name_builds();
        // If the trace does not name the folder, paths in it stay as they are.
        let windows = self.windows.as_deref().unwrap_or(r"\SystemRoot");
        if !self.volumes.is_empty() {
            for path in self.modules.iter_mut().filter_map(|module| module.path.as_mut()) {
                *path = native_path::on_disk(path, windows, &self.volumes);
            }
        }
        self.modules
    }

    /// Gives each image its build. The event of a build has the time of an event of its image, so
    /// the build belongs to the image that was loaded last before it; another image may be at that
    /// address earlier or later.
    fn name_builds(&mut self) {
        let mut at: FxHashMap<Place, Vec<usize>> = FxHashMap::default();
        for (index, module) in self.modules.iter().enumerate() {
            at.entry((module.process, module.start)).or_default().push(index);
        }
        for (key, builds) in std::mem::take(&mut self.builds) {
            let Some(images) = at.get_mut(&key) else { continue };
            images.sort_by_key(|&index| self.modules[index].loaded);
            for (time, build) in builds {
                let loaded = |&index: &usize| self.modules[index].loaded.unwrap_or(0) <= time;
                let before = images.partition_point(loaded);
                let module = &mut self.modules[images[before.saturating_sub(1)]];
                match build {
                    BuildEvent::Stamp(stamp) => module.stamp = Some(stamp),
                    BuildEvent::Pdb(identity) => module.identity = Some(identity),
                }
            }
        }
    }
}

/// Gives images the paths by which programs of this machine open their files. Only images with
/// samples or callers get the build of their file, because thousands may be loaded.
pub(super) fn locate(modules: &mut [Module], addresses: &SampledAddresses, files: Files<'_>) {
    let Files { system, build } = files;
    let mut builds: FxHashMap<String, Build> = FxHashMap::default();
    for module in modules {
        let Some(path) = &mut module.path else { continue };
        *path = system.on_disk(path);
        if module.identity.is_none() && addresses.any(module.start..module.end) {
            let file = builds.entry(path.clone()).or_insert_with(|| build(path)).clone();
            // Another stamp means that the file was replaced after the image was loaded.
            let is_other = module.stamp.zip(file.stamp).is_some_and(|(own, other)| own != other);
            if !is_other {
                module.identity = file.identity;
                module.stamp = file.stamp.or(module.stamp);
            }
        }
    }
}
