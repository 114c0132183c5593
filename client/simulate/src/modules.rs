//! The files that a program has in its memory, and what its code is called.

use halprof_profile::symbols::{Executable, Function, SymbolPath, qualified};
use std::cell::OnceCell;
use std::ops::Range;
use std::path::PathBuf;

/// A file in the program's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    pub(crate) path: PathBuf,
    pub(crate) range: Range<u64>,
}

/// The files that were in memory when code of theirs ran.
#[derive(Debug, Default)]
pub(crate) struct Modules(Vec<Loaded>);

impl Modules {
    /// Adds files that are not known yet.
    pub(crate) fn add(&mut self, loaded: Vec<Loaded>) {
        for one in loaded {
            if !self.0.contains(&one) {
                self.0.push(one);
            }
        }
    }

    /// The index of the file whose code is at an address.
    pub(crate) fn at(&self, address: u64) -> Option<usize> {
        self.0.iter().position(|one| one.range.contains(&address))
    }
}

/// The modules with their symbols, which are looked for when they are needed.
pub(crate) struct NamedModules {
    modules: Modules,
    symbols: SymbolPath,
    /// `None` of a file that has no code to read.
    opened: Vec<OnceCell<Option<Executable>>>,
}

/// Where code is: in which module, and in which function of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) module: Option<String>,
    pub(crate) symbol: Option<String>,
}

impl NamedModules {
    pub(crate) fn new(modules: Modules, symbols: &SymbolPath) -> Self {
        let opened = modules.0.iter().map(|_| OnceCell::new()).collect();
        Self { modules, symbols: symbols.clone(), opened }
    }

    fn executable(&self, index: usize) -> Option<(&Loaded, Option<&Executable>)> {
        let loaded = self.modules.0.get(index)?;
        let open = || Executable::open(&loaded.path, &self.symbols).ok();
        Some((loaded, self.opened.get(index)?.get_or_init(open).as_ref()))
    }

    /// The module at an address, the address relative to its start, and the function there.
    fn find(&self, address: u64) -> Option<(String, u64, Option<Function>)> {
        let (loaded, executable) = self.executable(self.modules.at(address)?)?;
        let offset = address - loaded.range.start;
        let file = loaded.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Some(match executable {
            Some(executable) => {
                (executable.module().name.clone(), offset, executable.function_at(offset))
            }
            None => (file, offset, None),
        })
    }

    pub(crate) fn place(&self, address: u64) -> Place {
        match self.find(address) {
            Some((module, _, function)) => {
                Place { module: Some(module), symbol: function.map(|function| function.name) }
            }
            None => Place { module: None, symbol: None },
        }
    }

    /// The name of a function that starts at an address.
    pub(crate) fn name(&self, address: u64) -> String {
        match self.find(address) {
            Some((module, offset, Some(function))) if function.start == offset => {
                qualified(&module, &function.name)
            }
            Some((module, offset, Some(function))) => {
                format!("{}+{:#x}", qualified(&module, &function.name), offset - function.start)
            }
            Some((module, offset, None)) => format!("{module}+{offset:#x}"),
            None => format!("{address:#x}"),
        }
    }
}
