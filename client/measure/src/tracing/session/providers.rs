//! The providers that a session enables beside the kernel's: runtimes in programs, for the methods
//! that they compile.

use halprof_etw::Guid;
use halprof_etw::payload::managed::{DOTNET, DOTNET_RUNDOWN, JAVASCRIPT};

/// A provider whose events go into a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provider {
    /// The provider's identifier.
    pub guid: Guid,
    /// The highest level of events that it writes.
    pub level: u8,
    /// The kinds of events, of which any is enough.
    pub keywords: u64,
    /// How long Windows waits for programs to answer, in milliseconds; 0 does not wait.
    pub patience_ms: u32,
}

/// Events with names (TRACE_LEVEL_VERBOSE, evntrace.h).
const VERBOSE: u8 = 5;
/// Keywords of .NET's manifest: modules; methods that are compiled while programs run; methods that
/// were compiled before; a list of what is there when the list is asked for.
const LOADER: u64 = 0x8;
const JIT: u64 = 0x10;
const NGEN: u64 = 0x20;
const END_ENUMERATION: u64 = 0x80;
/// V8 and Chakra: the only kind that they have for code (`JScriptRuntimeKeyword`). V8 lists what is
/// there when it is asked first.
const SCRIPT_RUNTIME: u64 = 0x1;

/// What is asked for from the start of a session.
pub(super) const METHODS: [Provider; 2] = [
    Provider { guid: DOTNET, level: VERBOSE, keywords: LOADER | JIT | NGEN, patience_ms: 0 },
    Provider { guid: JAVASCRIPT, level: VERBOSE, keywords: SCRIPT_RUNTIME, patience_ms: 0 },
];

/// What is asked for before a session ends: what was compiled before it began. A runtime writes the
/// list while it answers, so that Windows waits for the last event of it (EnableTraceEx2, Timeout).
/// PerfView waits as long.
pub(super) const RUNDOWN: [Provider; 1] = [Provider {
    guid: DOTNET_RUNDOWN,
    level: VERBOSE,
    keywords: END_ENUMERATION | LOADER | JIT | NGEN,
    patience_ms: 10_000,
}];
