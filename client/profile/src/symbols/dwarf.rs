//! Functions and lines from DWARF.

use super::Inlined;
use super::found::Found;
use super::functions::Function;
use super::image;
use addr2line::Loader;
use std::path::Path;

pub(super) struct Dwarf {
    loader: Loader,
    base: u64,
}

impl Dwarf {
    /// Opens a file whose tables place its start at the address `base`.
    pub(super) fn open(path: &Path, base: u64) -> Result<Self, String> {
        // A pipe or a folder cannot be mapped.
        image::open(path)?;
        let loader = Loader::new(path).map_err(|error| error.to_string())?;
        Ok(Self { loader, base })
    }

    /// The code at an address relative to the module's start; `function` is the symbol table's
    /// function there, which alone gives its bounds.
    pub(super) fn find(&self, address: u64, function: Option<&Function>) -> Option<Found> {
        let mut frames = self
            .loader
            .find_frames(address.wrapping_add(self.base))
            .ok()?;
        let mut found = Found {
            function: function.cloned(),
            ..Found::default()
        };
        let mut inner: Option<Inlined> = None;
        let mut first = true;
        while let Ok(Some(frame)) = frames.next() {
            let location = frame.location.as_ref();
            let file = location.and_then(|location| location.file);
            let line = location.and_then(|location| location.line);
            if first {
                (found.file, found.line) = (file.map(str::to_owned), line);
                first = false;
            }
            if let Some(mut inlined) = inner.take() {
                inlined.caller_file = file.map(Into::into);
                inlined.caller_line = line;
                found.inlined.push(inlined);
            }
            let name = frame
                .function
                .as_ref()
                .and_then(|name| name.demangle().ok());
            inner = Some(Inlined {
                function: name.as_deref().unwrap_or_default().into(),
                caller_file: None,
                caller_line: None,
            });
        }
        if let (None, Some(outer)) = (&found.function, inner) {
            found.function = unbounded(&outer.function, address);
        }
        Some(found)
    }
}

/// A function of which only the name is known.
fn unbounded(name: &str, address: u64) -> Option<Function> {
    (!name.is_empty()).then(|| Function {
        name: name.to_owned(),
        start: address,
        end: address.saturating_add(1),
    })
}
