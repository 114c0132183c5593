//! Code that runtimes make while a program runs: methods of .NET and functions of JavaScript, from the
//! manifests that the runtimes publish (ClrEtwAll.man, and the provider that Chakra and V8 share). The
//! process is that of the event's header.

use super::Change;
use crate::bytes::{Fields, Layout, Output, layout};
use crate::id::Guid;

/// Microsoft-Windows-DotNETRuntime.
pub const DOTNET: Guid = Guid(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
/// Microsoft-Windows-DotNETRuntimeRundown: what was there when it was asked.
pub const DOTNET_RUNDOWN: Guid = Guid(0xa669021c_c450_4609_a035_5af59af4df18);
/// Microsoft-JScript, by which V8 reports too.
pub const JAVASCRIPT: Guid = Guid(0x57277741_3638_4a4b_bdba_0ac6e45da56c);

/// What a runtime says of its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Managed {
    Method(Change, DotNetMethod),
    Module(Change, DotNetModule),
    Function(Change, ScriptFunction),
    Source(ScriptSource),
}

layout! {
    /// Code of a method (`MethodLoadVerbose`, `MethodUnloadVerbose` and their rundown). A method may
    /// have several pieces at a time: a cold part, and older code that still runs.
    pub struct DotNetMethod {
        method: u64,
        module: u64,
        start: u64,
        /// In bytes.
        size: u32,
        token: u32,
        flags: u32,
        /// With the type.
        namespace: utf16,
        name: utf16,
        signature: utf16,
    }
}

layout! {
    /// A module of methods (`ModuleLoad`, `ModuleUnload` and their rundown).
    pub struct DotNetModule {
        module: u64,
        assembly: u64,
        flags: u32,
        reserved: u32,
        /// Empty if it is no file.
        il_path: utf16,
        native_path: utf16,
    }
}

layout! {
    /// Code of a function (`MethodLoad`, `MethodUnload` and their rundown).
    pub struct ScriptFunction {
        context: pointer,
        start: pointer,
        /// In bytes.
        size: u64,
        function: u32,
        flags: u16,
        range: u16,
        source: u64,
        line: u32,
        column: u32,
        name: utf16,
    }
}

layout! {
    /// A script (`SourceLoad`).
    pub struct ScriptSource {
        source: u64,
        context: pointer,
        flags: u32,
        url: utf16,
    }
}

/// The layouts that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Payload {
    Method,
    Module,
    Function,
    Source,
}

/// What an event is: its provider, its number, its layout and what it says. `ModuleLoad` of the runtime
/// has the number that `AssemblyLoad` follows, so that the rundown's numbers are others.
const EVENTS: [(Guid, u16, Payload, Change); 13] = [
    (DOTNET, 143, Payload::Method, Change::Start),
    (DOTNET, 144, Payload::Method, Change::End),
    (DOTNET, 152, Payload::Module, Change::Start),
    (DOTNET, 153, Payload::Module, Change::End),
    (DOTNET_RUNDOWN, 143, Payload::Method, Change::RundownStart),
    (DOTNET_RUNDOWN, 144, Payload::Method, Change::RundownEnd),
    (DOTNET_RUNDOWN, 153, Payload::Module, Change::RundownStart),
    (DOTNET_RUNDOWN, 154, Payload::Module, Change::RundownEnd),
    (JAVASCRIPT, 9, Payload::Function, Change::Start),
    (JAVASCRIPT, 10, Payload::Function, Change::End),
    (JAVASCRIPT, 5, Payload::Function, Change::RundownStart),
    (JAVASCRIPT, 6, Payload::Function, Change::RundownEnd),
    (JAVASCRIPT, 41, Payload::Source, Change::Start),
];

/// Reads an event; `None` if it is none of these, or too short.
pub(super) fn managed(provider: Guid, id: u16, mut fields: Fields<'_>) -> Option<Managed> {
    let mut events = EVENTS.iter();
    let &(_, _, payload, change) = events.find(|event| (event.0, event.1) == (provider, id))?;
    let fields = &mut fields;
    Some(match payload {
        Payload::Method => Managed::Method(change, DotNetMethod::read(fields)?),
        Payload::Module => Managed::Module(change, DotNetModule::read(fields)?),
        Payload::Function => Managed::Function(change, ScriptFunction::read(fields)?),
        Payload::Source => Managed::Source(ScriptSource::read(fields)?),
    })
}

impl Managed {
    /// The provider and the number that say it; `None` if no event does.
    pub fn event(&self) -> Option<(Guid, u16)> {
        let (payload, change) = match *self {
            Self::Method(change, _) => (Payload::Method, change),
            Self::Module(change, _) => (Payload::Module, change),
            Self::Function(change, _) => (Payload::Function, change),
            Self::Source(_) => (Payload::Source, Change::Start),
        };
        let mut events = EVENTS.iter();
        let event = events.find(|event| event.2 == payload && event.3 == change)?;
        Some((event.0, event.1))
    }
}

/// Appends the payload.
pub fn write(managed: &Managed, output: &mut Output) {
    match managed {
        Managed::Method(_, method) => method.write(output),
        Managed::Module(_, module) => module.write(output),
        Managed::Function(_, function) => function.write(output),
        Managed::Source(source) => source.write(output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::PointerSize;

    /// The offsets of the published manifest, in a payload written by hand.
    #[test]
    fn a_method_is_where_the_manifest_has_it() {
        let mut bytes: Vec<u8> = Vec::new();
        for field in [0x1111_u64, 0x2222, 0x7FF8_0000_1000] {
            bytes.extend(field.to_le_bytes());
        }
        for field in [0x40_u32, 0x0600_0001, 0x1000_0008] {
            bytes.extend(field.to_le_bytes());
        }
        for text in ["A.B", "M", "void ()"] {
            bytes.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        }
        let read = |id, bytes| managed(DOTNET, id, Fields::new(bytes, PointerSize::Four));
        let expected = DotNetMethod {
            method: 0x1111,
            module: 0x2222,
            start: 0x7FF8_0000_1000,
            size: 0x40,
            token: 0x0600_0001,
            flags: 0x1000_0008,
            namespace: "A.B".to_owned(),
            name: "M".to_owned(),
            signature: "void ()".to_owned(),
        };
        assert_eq!(read(143, &bytes), Some(Managed::Method(Change::Start, expected.clone())));
        assert_eq!(read(144, &bytes), Some(Managed::Method(Change::End, expected)));
        assert_eq!(read(143, &bytes[..35]), None);
        // AssemblyLoad, whose payload is another.
        assert_eq!(read(154, &bytes), None);
    }

    #[test]
    fn a_function_has_pointers_of_its_process() {
        for (pointer, length) in [(PointerSize::Four, 4), (PointerSize::Eight, 8)] {
            let mut bytes: Vec<u8> = Vec::new();
            bytes.extend(&0x10_u64.to_le_bytes()[..length]);
            bytes.extend(&0x2000_u64.to_le_bytes()[..length]);
            bytes.extend(0x30_u64.to_le_bytes());
            bytes.extend(4_u32.to_le_bytes());
            bytes.extend([2, 0, 3, 0]);
            bytes.extend(5_u64.to_le_bytes());
            bytes.extend([6, 0, 0, 0, 7, 0, 0, 0]);
            bytes.extend("f".encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
            let expected = ScriptFunction {
                context: 0x10,
                start: 0x2000,
                size: 0x30,
                function: 4,
                flags: 2,
                range: 3,
                source: 5,
                line: 6,
                column: 7,
                name: "f".to_owned(),
            };
            let read = managed(JAVASCRIPT, 9, Fields::new(&bytes, pointer));
            assert_eq!(read, Some(Managed::Function(Change::Start, expected)));
        }
    }

    #[test]
    fn every_event_is_read_as_it_is_written() {
        for (provider, id, payload, change) in EVENTS {
            let kind = match payload {
                Payload::Method => Managed::Method(change, DotNetMethod::default()),
                Payload::Module => Managed::Module(change, DotNetModule::default()),
                Payload::Function => Managed::Function(change, ScriptFunction::default()),
                Payload::Source => Managed::Source(ScriptSource::default()),
            };
            assert_eq!(kind.event(), Some((provider, id)));
            let pointer_size = PointerSize::Four;
            let mut output = Output { bytes: Vec::new(), pointer_size };
            write(&kind, &mut output);
            assert_eq!(managed(provider, id, Fields::new(&output.bytes, pointer_size)), Some(kind));
        }
    }
}
