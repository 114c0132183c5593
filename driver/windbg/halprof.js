"use strict";

// halprof.sys in WinDbg: what the driver is doing, live or in a kernel dump.
//
//     .scriptload halprof.js      then      !halprof
//
// Everything is found from one global of the driver, through the types of its own PDB. The parts
// of this file: 64-bit numbers, names, the reader of the driver's memory, one function for each
// command, and what the debugger is told. docs/windbg.md shows it all.
//
// A debugger script is one file, in the JavaScript of 2015: no BigInt, and the host's objects are
// those of "JavaScript Debugger Scripting" and "Native Objects in JavaScript Extensions" at
// learn.microsoft.com.

const MODULE = "halprof";
const GLOBAL = "halprof_driver::debugger::HALPROF";
const GLOBAL_TYPE = "halprof_driver::debugger::Global";
const SAMPLE_TYPE = "shared_types::sample::Sample";
const EVENT_TYPE = "shared_types::event::SystemEvent";
const MAGIC = "halprof\0";
// The layout of the global that this script reads: `version` in driver/src/debugger.rs.
const LAYOUT = 4;

// Entries of the trace, samples of a ring and events that are shown unless more are asked for.
const TRACE_SHOWN = 32;
const SAMPLES_SHOWN = 8;
const EVENTS_SHOWN = 16;

// A ring's words: hal-profile/src/run/ring.rs.
const RING = { produced: 0, consumed: 8, slots: 16 };
// The words of the ring of events: hal-profile/src/run/event_ring.rs.
const EVENT_RING = { produced: 0, lost: 1, consumed: 8, slots: 16 };
// Bytes of a branch; those of all slots stand behind the slots.
const BRANCH_SIZE = 24;
// A counter's number: hal-profile/src/cpu/counter.rs.
const FIXED_COUNTER = 0x20;
const COUNTER_INDEX = 0x1f;
// A session's number is its slot plus 1, and above that how often the slot was used:
// hal-profile/src/service/sessions.rs.
const SLOT_BITS = 8;

// What cannot be shown, and why.
class Refusal extends Error {}

// ---------------------------------------------------------------------------------------------
// 64-bit numbers: two halves, as a JavaScript number holds 53 bits.

const TWO_32 = 0x100000000;

function wide(value) {
    if (typeof value === "number") {
        return { high: Math.floor(value / TWO_32), low: value % TWO_32 };
    }
    return { high: value.getHighPart() >>> 0, low: value.getLowPart() >>> 0 };
}

function isZero(value) {
    return value.high === 0 && value.low === 0;
}

function minus(from, what) {
    const low = from.low - what.low;
    const borrow = low < 0 ? 1 : 0;
    return { high: (from.high - what.high - borrow) >>> 0, low: low >>> 0 };
}

function isAbove(one, other) {
    return one.high > other.high || (one.high === other.high && one.low > other.low);
}

// The nearest number; exact below 2^53.
function near(value) {
    return value.high * TWO_32 + value.low;
}

// The nearest number of a difference of time stamps, which may be negative.
function nearDifference(from, what) {
    return isAbove(what, from) ? -near(minus(what, from)) : near(minus(from, what));
}

function hex(value) {
    const { high, low } = typeof value === "number" ? wide(value) : value;
    const digits = low.toString(16);
    return "0x" + (high === 0 ? digits : high.toString(16) + ("0000000" + digits).slice(-8));
}

function decimal(value) {
    const BILLION = 1000000000;
    let parts = "";
    let { high, low } = value;
    while (high !== 0) {
        // high * 2^32 + low, divided by a billion in two steps that stay below 2^53.
        const top = Math.floor(high / BILLION);
        const middle = (high % BILLION) * 0x10000 + Math.floor(low / 0x10000);
        const bottom = (middle % BILLION) * 0x10000 + (low % 0x10000);
        const quotient =
            Math.floor(middle / BILLION) * 0x10000 + Math.floor(bottom / BILLION);
        parts = ("00000000" + (bottom % BILLION)).slice(-9) + parts;
        high = top + Math.floor(quotient / TWO_32);
        low = quotient % TWO_32;
    }
    return (low + parts).replace(/^0+(?=\d)/, "");
}

// ---------------------------------------------------------------------------------------------
// Names of numbers. The test compares them with the PDB's enumerations, and LossCause, which is an
// index in the driver and so in no PDB, with the sources. ErrorCode is made from facts/errors.csv, by
// tests/tests/requests_page.rs.

const NAMES = {
    "shared_types::interface::ProfileInterface":
        ["Default", "Emon", "Amd64", "Pentium", "P6", "NetBurst"],
    "shared_types::interface::Reason": [
        "Architectural", "AmdVendor", "PentiumModel", "P6Model", "NetBurstModel", "OtherVendor",
        "Gate32", "NoLeaf0A", "VersionZero", "NoEventBits", "NoCoreCycles", "HypervisorMasks",
        "HypervisorUnproved", "TooManyCpuTypes", "MonitoringDisabled", "HistoricNotBuilt",
    ],
    "shared_types::interface::Delivery": ["None", "ByValue", "Acknowledged", "CccrFlag"],
    "hal_profile::cpu::capabilities::Apic": ["None", "XApic", "X2Apic"],
    "hal_profile::run::state::Phase":
        ["Stopped", "Suspended", "Ended", "Running", "Halted", "Testing", "Tested"],
    "shared_types::error::ErrorCode": [
        undefined, "VersionMismatch", "WrongSize", "ReplyTooSmall", "UnknownFlags",
        "ReservedNotZero", "UnknownSession", "TooManySessions", "NoSources", "TooManySources",
        "SourceUnknown", "SourceNotSupported", "SourceApproximate", "SourceDuplicate", "DoesNotFit",
        "RawRefused", "BadFilter", "ProcessorUnknown", "SamplingUnavailable", "NoReferenceCycles",
        "KernelNotGranted", "Busy", "Running", "NotRunning", "NotConfigured", "SourceNotInSession",
        "NoMemory", "NotSampling", "BadValue", "CountersReserved", "Suspended", "InterruptTaken",
        "CountersDead", "InterruptsDead", "InterruptStorm", "KernelAddressesNotGranted",
        "FixedCounterTaken", "Hypervisor", "RdpmcRefused", "ThreadsOwned", "ThreadsUnavailable",
        "ThreadsKept", "NotByThread", "BranchesUnavailable", "BranchDepth", "BranchesNeedSamples",
        "BranchesTaken", "BranchesChanged", "BranchesKernelNotGranted", "NoEvents", "HandlerStuck",
        "NeedsPair", "RdpmcUnavailable", "CountersLeft",
    ],
    "shared_types::sample::Mode": ["Unknown", "User", "Kernel"],
    "shared_types::event::EventKind": [
        "SessionStarted", "SessionStopped", "Asleep", "Awake", "ProcessorAdded", "Throttled",
        "SamplesLost", "Storm",
    ],
    "halprof_driver::trace::What": [
        undefined, "Ready", "Released", "Awake", "Asleep", "ProcessorAdded", "Closed",
        "Refused", "Reserved", "GivenBack", "NotReady", "HandlerStuck",
    ],
};
const LOSS_CAUSES = ["RingFull", "KernelHidden", "Coalesced", "Missed"];
// What requests are called, by their number: made from shared-types/src/request, as ErrorCode is.
const REQUESTS = [
    "HELLO", "DESCRIBE", "PROCESSORS", "REGISTERS", "ENUMERATE", "QUERY", "PLAN", "OPEN",
    "CONFIGURE", "START", "STOP", "CLOSE", "SET_INTERVAL", "SNAPSHOT", "DRAIN", "STATISTICS",
    "ALLOW", "RELEASE", "STATUS", "THREADS", "DRAIN_EVENTS",
];
const OVERFLOWS = ["ignored", "interrupt"];
// WDF_POWER_DEVICE_STATE (wdfdevice.h).
const POWER_STATES =
    ["invalid", "D0", "D1", "D2", "D3", "D3Final", "PrepareForHibernation"];
// KPROFILE_SOURCE (wdm.h).
const SOURCES = [
    "Time", "AlignmentFixup", "TotalIssues", "PipelineDry", "LoadInstructions", "PipelineFrozen",
    "BranchInstructions", "TotalNonissues", "DcacheMisses", "IcacheMisses", "CacheMisses",
    "BranchMispredictions", "StoreInstructions", "FpInstructions", "IntegerInstructions", "2Issue",
    "3Issue", "4Issue", "SpecialInstructions", "TotalCycles", "IcacheIssues", "DcacheAccesses",
    "MemoryBarrierCycles", "LoadLinkedIssues",
];
const RAW_SOURCE = 0x80000000;

// What an entry of the trace means: its two numbers in words.
const ENTRIES = {
    Ready: (first, second) => `${decimal(first)} processors, ${decimal(second)} ticks a second`,
    Asleep: (first) => `for ${name(POWER_STATES, near(first))}`,
    ProcessorAdded: (first, second) => `processor ${decimal(first)}, status ${status(second.low)}`,
    Closed: (first) => `handle ${hex(first)}`,
    Refused: (first, second) =>
        `${request(first.low)}, status ${status(second.high)}, error ${refusal(second.low)}`,
    Reserved: (first, second) =>
        `overflows: ${name(OVERFLOWS, near(first))}; status ${status(second.low)}`,
    GivenBack: (first, second) =>
        `status of the interrupt ${status(first.low)}, of the counters ${status(second.low)}`,
    NotReady: (first) => `status ${status(first.low)}`,
    HandlerStuck: (first) => `the overflow handler stays, status ${status(first.low)}`,
};

// What an event means beyond its process: its subject and its amount in words.
const EVENTS = {
    SessionStopped: ({ subject }) => (subject === 0 ? "" : refusal(subject)),
    ProcessorAdded: ({ subject }) => `processor ${subject}`,
    Throttled: ({ subject, amount }) => `processor ${subject}, ${decimal(amount)} times`,
    SamplesLost: ({ subject, amount }) => `processor ${subject}, ${decimal(amount)} samples`,
    Storm: ({ subject }) => `processor ${subject}`,
};

function name(names, number) {
    return names[number] === undefined ? `${number} (unknown)` : names[number];
}

function status(number) {
    return number === 0 ? "success" : hex(number);
}

// The number is in bits 13 to 2 of the code, from 0x800 on (CTL_CODE).
function request(code) {
    const known = REQUESTS[((code >>> 2) & 0xfff) - 0x800];
    return known === undefined ? `request ${hex(code)}` : `${known} ${hex(code)}`;
}

function refusal(code) {
    return code === 0 ? "none" : name(NAMES["shared_types::error::ErrorCode"], code);
}

function source(id) {
    if (id === RAW_SOURCE) {
        return `${hex(id)} raw`;
    }
    return SOURCES[id] === undefined ? hex(id) : `${hex(id)} ${SOURCES[id]}`;
}

function counter(number) {
    const kind = (number & FIXED_COUNTER) !== 0 ? "fixed" : "general";
    return `${kind} ${number & COUNTER_INDEX}`;
}

// "0 to 3, 8" of a list of numbers in order.
function ranges(numbers) {
    const parts = [];
    for (let at = 0; at < numbers.length; ) {
        let end = at;
        while (numbers[end + 1] === numbers[end] + 1) {
            end += 1;
        }
        parts.push(end === at ? `${numbers[at]}` : `${numbers[at]} to ${numbers[end]}`);
        at = end + 1;
    }
    return parts.length === 0 ? "none" : parts.join(", ");
}

function yes(flag) {
    return flag ? "yes" : "no";
}

// ---------------------------------------------------------------------------------------------
// The driver's memory, through the debugger's typed objects.

// Structures around one value: atomics, cells, NonNull and newtypes.
const WRAPPERS = ["value", "v", "p", "pointer", "__0"];

// The tag of None in each Option that is read, as rustc lays it out. Where the debugger shows the
// PDB's own constant, that decides.
const NONE = [
    ["Option<hal_profile::service::ActiveSession>", 2],
    ["Option<halprof_driver::reservation::Reservation>", 2],
    ["Option<hal_profile::service::Timer>", 2],
];

class Reader {
    constructor(api) {
        this.api = api;
    }

    // The global, when its magic and its version are ours.
    global() {
        const address = this.address();
        const global = this.typed(address, GLOBAL_TYPE);
        const magic = this.text(this.field(global, "magic").targetLocation, MAGIC.length);
        if (magic !== MAGIC) {
            throw new Refusal(
                `${MODULE}!${GLOBAL} does not begin with "halprof": the symbols are of another ` +
                "build than the driver (lmv m halprof), or the dump does not hold this memory.");
        }
        const version = this.number(global, "version");
        if (version !== LAYOUT) {
            throw new Refusal(
                `The driver's layout is version ${version}, this script reads ${LAYOUT}: ` +
                "load the halprof.js that came with the driver.");
        }
        return global;
    }

    address() {
        let address;
        try {
            address = this.api.getModuleSymbolAddress(MODULE, GLOBAL);
        } catch (error) {
            address = undefined;
        }
        if (address === undefined || address === null || isZero(wide(address))) {
            throw new Refusal(this.isLoaded()
                ? `${MODULE}!${GLOBAL} is not found: give the path of halprof.pdb to .sympath, ` +
                  "then .reload /f halprof.sys"
                : "halprof.sys is not loaded in this target (lm m halprof).");
        }
        return address;
    }

    // Whether the module is there. Where the debugger does not tell, it is taken to be.
    isLoaded() {
        try {
            for (const module of this.api.currentProcess.Modules) {
                if (/(^|[\\/])halprof(\.sys)?$/i.test(module.Name)) {
                    return true;
                }
            }
            return false;
        } catch (error) {
            return true;
        }
    }

    typed(address, type) {
        let object;
        try {
            object = this.api.createTypedObject(address, MODULE, type);
        } catch (error) {
            object = undefined;
        }
        if (object === undefined || object === null) {
            throw new Refusal(
                `The symbols of ${MODULE} have no type ${type}: they are stripped or of another ` +
                "build. Give the path of the halprof.pdb that was built with the driver to " +
                ".sympath, then .reload /f halprof.sys");
        }
        return object;
    }

    // A field of a field: "active.count".
    field(object, path) {
        return path.split(".").reduce((from, part) => {
            const found = from[part];
            if (found === undefined || found === null) {
                throw new Refusal(
                    `The type ${typeName(from)} in the symbols has no field ${part}: load the ` +
                    "halprof.js that came with the driver.");
            }
            return found;
        }, object);
    }

    // Without what is wrapped around it: a number, a pointer, or a structure of its own.
    bare(value) {
        let inner = value;
        for (;;) {
            if (typeof inner !== "object" || isPointer(inner) || isWide(inner)) {
                return inner;
            }
            const wrapper = WRAPPERS.find((part) => inner[part] !== undefined);
            if (wrapper === undefined) {
                return inner;
            }
            inner = inner[wrapper];
        }
    }

    // A number of up to 64 bits; an enumeration's too.
    wide(object, path) {
        const value = this.bare(path === undefined ? object : this.field(object, path));
        if (typeof value === "boolean") {
            return wide(value ? 1 : 0);
        }
        if (typeof value === "number" || isWide(value)) {
            return wide(value);
        }
        const bytes = this.memory(value.targetLocation, size(value), 1);
        return bytes.reduceRight(
            (sum, byte, at) => (at < 4
                ? { high: sum.high, low: sum.low * 256 + byte }
                : { high: sum.high * 256 + byte, low: 0 }),
            { high: 0, low: 0 });
    }

    number(object, path) {
        return near(this.wide(object, path));
    }

    // The address that a pointer holds.
    pointer(object, path) {
        return wide(this.bare(this.field(object, path)).address);
    }

    // What a pointer points to; undefined where it is null.
    target(object, path) {
        const pointer = this.bare(path === undefined ? object : this.field(object, path));
        return isZero(wide(pointer.address)) ? undefined : pointer.dereference();
    }

    // How many elements an array of structures has.
    length(array) {
        return size(array) / size(array[0]);
    }

    // How many elements of an array are in use; refused where there cannot be as many.
    count(object, path, most) {
        const count = this.wide(object, path);
        if (count.high !== 0 || count.low > most) {
            throw new Refusal(
                `${path} is ${decimal(count)}, and there are only ${most}: the memory is corrupt ` +
                "or was read while it changed.");
        }
        return count.low;
    }

    // The value of an Option, and of a type around one; undefined for None.
    some(option) {
        const type = typeName(option);
        const known = NONE.find(([value]) => type.indexOf(value) !== -1);
        const told = this.field(option, "variant0").DISCR_EXACT;
        if (told === undefined && known === undefined) {
            throw new Refusal(`Which value of ${type} is None is not known.`);
        }
        const none = told === undefined ? wide(known[1]) : wide(told);
        const isNone = isZero(minus(this.wide(option, "tag"), none));
        return isNone ? undefined : this.payload(option);
    }

    // What an Option would hold: for those whose None is told otherwise.
    payload(option) {
        return this.field(option, "variant1.value.__0");
    }

    // Element `index` of a Pool.
    element(pool, index) {
        return this.bare(this.field(pool, "at")).add(index).dereference();
    }

    // Elements of 1, 2 or 4 bytes.
    memory(location, count, size) {
        return Array.from(this.api.memory.readMemoryValues(location, count, size));
    }

    text(location, length) {
        return String.fromCharCode.apply(null, this.memory(location, length, 1));
    }

    // A 64-bit word of memory, `index` words from `address`.
    word(address, index) {
        const [low, high] = this.memory(this.offset(address, index * 8), 2, 4);
        return { high, low };
    }

    offset(address, bytes) {
        const low = address.low + bytes;
        const carry = Math.floor(low / TWO_32);
        return new this.api.Int64(low % TWO_32, address.high + carry);
    }
}

function isPointer(value) {
    return typeof value.dereference === "function";
}

function isWide(value) {
    return typeof value.getLowPart === "function";
}

function size(object) {
    return near(wide(object.targetSize));
}

function typeName(object) {
    return object.targetType === undefined ? "?" : String(object.targetType.name);
}

// ---------------------------------------------------------------------------------------------
// The ways through the driver's structures that several commands take.

function service(reader, global) {
    const hardware = reader.target(reader.target(global, "hardware"));
    if (hardware === undefined) {
        throw new Refusal(
            "The driver is loaded, and its hardware is not ready: the device was not started, " +
            "was removed, or failed (!halprof_trace).");
    }
    return reader.field(hardware, "service");
}

function table(reader, global) {
    const found = reader.target(reader.target(global, "table"));
    if (found === undefined) {
        throw new Refusal(
            "The driver is loaded, and has no processors: its hardware is not ready " +
            "(!halprof_trace).");
    }
    return found;
}

// The blocks of all processors, in order; undefined for one without memory.
function blocks(reader, found) {
    const pool = reader.field(found, "blocks");
    const count = reader.count(found, "count", reader.number(pool, "length"));
    return Array.from({ length: count }, (_, index) => reader.target(reader.element(pool, index)));
}

// The session that holds the counters; undefined where none does.
function activeSession(reader, from) {
    const found = reader.some(reader.field(from, "active_session"));
    return found && {
        slot: reader.number(found, "slot"),
        since: reader.wide(found, "since"),
        reserved: reader.number(found, "reserved") !== 0,
    };
}

// The sources of a program, in order.
function sources(reader, program) {
    const all = reader.field(program, "sources.each");
    const count = reader.count(program, "settings.count", reader.length(all));
    return Array.from({ length: count }, (_, index) => all[index]);
}

function sessionNumber(reader, session, slot) {
    return hex(reader.number(session, "uses") * (1 << SLOT_BITS) + slot + 1);
}

function session(reader, from, slot) {
    return reader.element(reader.field(from, "sessions"), slot);
}

// ---------------------------------------------------------------------------------------------
// The commands: each answers lines.

function showState(reader) {
    const global = reader.global();
    const from = service(reader, global);
    const host = reader.field(from, "processors");
    const held = activeSession(reader, from);
    return [
        `driver       ${str(reader, reader.field(from, "about.driver_name"))}, layout ${LAYOUT}`,
        `active       ${heldBy(reader, from, held)}`,
        `reservation  ${reservation(reader, reader.some(reader.field(host, "reservation")))}`,
        `suspended    ${yes(reader.number(from, "suspended"))}`,
        `timer        ${timer(reader, host)}`,
        `time stamps  ${decimal(reader.wide(host, "frequency"))} a second`,
        `rings        ${decimal(reader.wide(from, "ring_bytes"))} bytes of at most ` +
            decimal(reader.wide(from, "about.ring_bytes_max")),
    ].concat(...cpuTypes(reader, reader.field(from, "cpu_types")));
}

// A Rust string.
function str(reader, object) {
    return reader.text(
        reader.offset(reader.pointer(object, "data_ptr"), 0), reader.number(object, "length"));
}

function heldBy(reader, from, held) {
    if (held === undefined) {
        return "none";
    }
    const number = sessionNumber(reader, session(reader, from, held.slot), held.slot);
    const counters = held.reserved ? "counters reserved" : "no counter";
    return `session ${number}, since ${decimal(held.since)}, ${counters}`;
}

function reservation(reader, found) {
    if (found === undefined) {
        return "none";
    }
    const interrupt = reader.number(found, "interrupt") !== 0;
    // The debugger's NTSTATUS has a sign.
    const removed = reader.number(found, "handler_status") >>> 0;
    return `handle ${hex(reader.pointer(found, "handle"))}, ` +
        (interrupt ? "own overflow interrupt" : "no overflow interrupt of its own") +
        (removed === 0 ? "" : ` that Windows does not remove, status ${status(removed)}`);
}

function timer(reader, host) {
    const setting = reader.some(reader.field(host, "timers.setting"));
    return setting === undefined
        ? "off"
        : `every ${reader.number(setting, "period") / 10000} ms, ` +
            (reader.number(setting, "precise") ? "high-resolution" : "without waking processors");
}

function cpuTypes(reader, found) {
    const of = reader.field(found, "of");
    const count = reader.count(found, "processors", size(of));
    const list = reader.field(found, "list");
    const members = Array.from({ length: reader.length(list) }, () => []);
    reader.memory(of.targetLocation, count, 1).forEach((cpuType, processor) => {
        if (members[cpuType] === undefined) {
            throw new Refusal(`Processor ${processor} is of CPU type ${cpuType}: the memory is corrupt.`);
        }
        members[cpuType].push(processor);
    });
    // Every type that a processor is of is there.
    return members.map((processors, cpuType) => (processors.length === 0
        ? []
        : capabilities(reader, list[cpuType], cpuType, processors)));
}

function capabilities(reader, found, cpuType, processors) {
    const named = (type, path) => name(NAMES[type], reader.number(found, path));
    const used = named("shared_types::interface::ProfileInterface", "selection.used.interface");
    const hal = named("shared_types::interface::ProfileInterface", "selection.hal.interface");
    const reason = named("shared_types::interface::Reason", "selection.used.reason");
    const identity = reader.field(found, "identity");
    const vendor = reader.field(identity, "vendor");
    const numbers = ["family", "model", "stepping"]
        .map((part) => `${part} ${hex(reader.number(identity, part))}`).join(", ");
    const counters = (mask, width) => {
        const bits = reader.number(found, mask);
        return bits === 0
            ? "none"
            : `${hex(bits)} of ${reader.number(found, width)} bits`;
    };
    return [
        `CPU type ${cpuType}   processors ${ranges(processors)}`,
        `  interface  ${used} (${reason}); the HAL's ${hal}`,
        `  processor  ${reader.text(vendor.targetLocation, 12).replace(/\0+$/, "")}, ${numbers}, ` +
            `core type ${hex(reader.number(found, "core_type"))}`,
        `  counters   general ${counters("counters", "width")}, ` +
            `fixed ${counters("fixed", "fixed_width")}, ` +
            `version ${reader.number(found, "pmu_version")}`,
        `  overflow   ${named("shared_types::interface::Delivery", "delivery")}, ` +
            `APIC ${named("hal_profile::cpu::capabilities::Apic", "apic")}, ` +
            `masks LVTPC ${yes(reader.number(found, "masks_lvtpc"))}`,
    ];
}

function showProcessors(reader) {
    const found = table(reader, reader.global());
    const program = reader.target(found, "program.at");
    const ids = sources(reader, program).map((one) => reader.number(one, "id"));
    return each(blocks(reader, found), (block) => processor(reader, block, ids));
}

function processor(reader, block, ids) {
    const state = reader.target(block, "state.at");
    const phase = name(NAMES["hal_profile::run::state::Phase"], reader.number(state, "phase"));
    const ended = reader.number(state, "ended");
    const lines = [
        `${processorName(reader, block)}  ${phase.toLowerCase()}` +
            `${ended === 0 ? "" : ` by ${refusal(ended)}`}, ` +
            `CPU type ${reader.number(state, "cpu_type")}, slice ${slice(reader, state)}`,
    ];
    // Of a slice that is over only totals are worth showing.
    if (phase === "Running") {
        lines.push(...counters(reader, reader.field(state, "active"), ids));
    }
    return lines.concat(totals(reader, state, ids), statistics(reader, state));
}

// The slice that is due.
function slice(reader, state) {
    const slices = reader.field(state, "order.slices");
    const at = reader.count(state, "order.at", size(slices) - 1);
    return reader.memory(slices.targetLocation, at + 1, 1)[at];
}

function processorName(reader, block) {
    return `processor ${reader.number(block, "index")}  ` +
        `group ${reader.number(block, "number.Group")} ` +
        `number ${reader.number(block, "number.Number")}`;
}

function counters(reader, active, ids) {
    const all = reader.field(active, "counters");
    const count = reader.count(active, "count", reader.length(all));
    return Array.from({ length: count }, (_, at) => {
        const one = all[at];
        const index = reader.number(one, "config.source.__0");
        const interrupts = reader.number(one, "config.interrupts") !== 0 ? ", interrupts" : "";
        return `  ${counter(reader.number(one, "config.counter"))}: source ${index} ` +
            `(${source(ids[index])}), select ${hex(reader.wide(one, "config.select"))}, ` +
            `preset ${hex(reader.wide(one, "preset"))}, ` +
            `last ${hex(reader.wide(one, "last"))}${interrupts}`;
    });
}

function totals(reader, state, ids) {
    const all = reader.field(state, "totals.each");
    // As of the end of each source's last slice.
    const ended = reader.field(state, "counts.each");
    return ids.map((id, index) => {
        const part = (of, path) => decimal(reader.wide(of[index], path));
        return `  total of source ${index} (${source(id)}): ${part(all, "counted")} counted in ` +
            `${part(ended, "slices")} slices of ${part(ended, "running")} ticks, ` +
            `period ${part(all, "current_period")}, carried ${part(all, "carried")}`;
    });
}

function statistics(reader, state) {
    const part = (path) => decimal(reader.wide(state, `statistics.${path}`));
    const lost = LOSS_CAUSES.map((cause, index) =>
        `${decimal(reader.wide(reader.field(state, "statistics.lost")[index]))} ${cause}`);
    return [
        `  samples: ${part("generated")} generated, ${part("stored")} stored; ` +
            `lost ${lost.join(", ")}`,
        `  interrupts: ${part("spurious")} spurious, ${part("throttled")} times throttled, ` +
            `${part("handler_ticks")} ticks in the handler`,
    ];
}

function showSessions(reader) {
    const from = service(reader, reader.global());
    const pool = reader.field(from, "sessions");
    const held = activeSession(reader, from);
    const lines = [];
    for (let slot = 0; slot < reader.number(pool, "length"); slot += 1) {
        const one = reader.element(pool, slot);
        if (reader.number(one, "owned") !== 0) {
            const runs = held !== undefined && held.slot === slot;
            lines.push(...openSession(reader, one, slot, runs));
        }
    }
    return lines.length === 0 ? ["no session is open"] : lines;
}

function openSession(reader, one, slot, runs) {
    const settings = reader.field(one, "program.settings");
    const flags = ["kernel", "approximate"].filter((flag) => reader.number(one, flag) !== 0)
        .concat(["samples", "by_thread", "events"].filter((flag) => reader.number(settings, flag)));
    const found = sources(reader, reader.field(one, "program"));
    const ended = reader.number(one, "ended.error");
    const lines = [
        `session ${sessionNumber(reader, one, slot)}  slot ${slot}, ` +
            (runs ? "running" : "not running"),
        `  owner       handle ${hex(reader.wide(one, "owner.handle"))}, ` +
            `process ${reader.number(one, "owner.process")}`,
        `  flags       ${flags.length === 0 ? "none" : flags.join(", ")}`,
    ];
    if (ended !== 0) {
        lines.push(`  ended       ${refusal(ended)}, subject ` +
            `${reader.number(one, "ended.subject")}, detail ` +
            hex(reader.wide(one, "ended.detail")));
    }
    if (found.length !== 0) {
        lines.push(
            `  processors  ${processorSet(reader, reader.field(settings, "processors"))}`,
            `  slice       ${reader.number(settings, "slice") / 10000} ms`,
            `  ring        ${reader.number(settings, "ring_samples")} samples a processor, ` +
                `${reader.number(settings, "branches")} branches each`);
    }
    const samples = reader.number(settings, "samples") !== 0;
    return lines.concat(found.map((what, index) => sessionSource(reader, what, index, samples)));
}

function sessionSource(reader, what, index, samples) {
    const modes = ["user", "kernel"].filter((mode) => reader.number(what, `filter.${mode}`) !== 0);
    const parts = [source(reader.number(what, "id")), modes.join(" and ")];
    const raw = reader.wide(what, "raw");
    if (!isZero(raw)) {
        parts[0] += ` ${hex(raw)}`;
    }
    if (reader.number(what, "timer") !== 0) {
        parts.push(`every ${decimal(reader.wide(what, "interval.used"))} x 100 ns`);
    } else if (samples) {
        parts.push(`every ${decimal(reader.wide(what, "interval.events"))} events`);
    }
    const group = reader.number(what, "group");
    if (group !== 0) {
        parts.push(`group ${group}`);
    }
    return `  source ${index}    ${parts.join(", ")}`;
}

function processorSet(reader, set) {
    const words = reader.field(set, "__0");
    const halves = reader.memory(words.targetLocation, size(words) / 4, 4);
    if (halves.every((half) => half === 0xffffffff)) {
        return "all";
    }
    const numbers = [];
    halves.forEach((half, at) => {
        for (let bit = 0; bit < 32; bit += 1) {
            if ((half >>> bit) & 1) {
                numbers.push(at * 32 + bit);
            }
        }
    });
    return ranges(numbers);
}

function showRings(reader, most) {
    const shown = most === undefined ? SAMPLES_SHOWN : near(wide(most));
    const found = table(reader, reader.global());
    const program = reader.target(found, "program.at");
    const branches = reader.number(program, "settings.branches");
    return each(blocks(reader, found), (block) => ring(reader, block, shown, branches));
}

function ring(reader, block, shown, branches) {
    const who = processorName(reader, block);
    const pool = reader.payload(reader.bare(reader.field(block, "ring")));
    const address = reader.pointer(pool, "at");
    // A null pointer is None.
    if (isZero(address)) {
        return [`${who}  no ring`];
    }
    const first = reader.typed(reader.offset(address, RING.slots * 8), SAMPLE_TYPE);
    const sampleSize = size(first);
    const entrySize = sampleSize + branches * BRANCH_SIZE;
    const capacity = powerBelow((reader.number(pool, "length") - RING.slots) * 8 / entrySize);
    const { counts, slots } = newest(reader, address, RING, capacity, shown);
    return [`${who}  ${counts}`].concat(slots.map(({ slot, isWaiting }) => {
        const at = reader.offset(address, RING.slots * 8 + slot * sampleSize);
        return sample(reader, reader.typed(at, SAMPLE_TYPE), isWaiting);
    }));
}

// A ring's counts in words, and its newest slots, newest first.
function newest(reader, address, words, capacity, shown) {
    const produced = reader.word(address, words.produced);
    const consumed = reader.word(address, words.consumed);
    const waiting = minus(produced, consumed);
    const counts = `capacity ${capacity}, produced ${decimal(produced)}, ` +
        `consumed ${decimal(consumed)}`;
    if (waiting.high !== 0 || waiting.low > capacity) {
        const why = "the memory is corrupt or was read while it changed";
        return { counts: `inconsistent: ${counts}; ${why}`, slots: [] };
    }
    const fill = Math.floor(waiting.low / capacity * 100);
    const last = Math.min(near(produced), capacity, shown);
    return {
        counts: `${counts}, waiting ${waiting.low} (${fill} %)`,
        slots: Array.from({ length: last }, (_, at) => ({
            // The capacity is a power of two, so the low half of the count is enough.
            slot: (minus(produced, wide(at + 1)).low & (capacity - 1)) >>> 0,
            isWaiting: at < waiting.low,
        })),
    };
}

function sample(reader, one, isWaiting) {
    const part = (path) => reader.number(one, path);
    const mode = name(NAMES["shared_types::sample::Mode"], part("mode"));
    return `  ${decimal(reader.wide(one, "timestamp"))}  ip ${hex(reader.wide(one, "ip"))} ` +
        `(${mode}), process ${part("process")}, thread ${part("thread")}, ` +
        `source ${part("source")}, period ${decimal(reader.wide(one, "period"))}` +
        (isWaiting ? "" : ", drained");
}

function showEvents(reader, most) {
    const shown = most === undefined ? EVENTS_SHOWN : near(wide(most));
    const events = reader.target(reader.global(), "events");
    const pool = reader.payload(reader.bare(reader.field(events, "ring")));
    const address = reader.pointer(pool, "at");
    // A null pointer is None.
    if (isZero(address)) {
        return ["no session records system events"];
    }
    const first = reader.typed(reader.offset(address, EVENT_RING.slots * 8), EVENT_TYPE);
    const eventSize = size(first);
    const capacity =
        powerBelow((reader.number(pool, "length") - EVENT_RING.slots) * 8 / eventSize);
    const { counts, slots } = newest(reader, address, EVENT_RING, capacity, shown);
    const lost = decimal(reader.word(address, EVENT_RING.lost));
    return [`${counts}; ${lost} lost`].concat(slots.map(({ slot, isWaiting }) => {
        const at = reader.offset(address, EVENT_RING.slots * 8 + slot * eventSize);
        return event(reader, reader.typed(at, EVENT_TYPE), isWaiting);
    }));
}

function event(reader, one, isWaiting) {
    const kind = name(NAMES["shared_types::event::EventKind"], reader.number(one, "kind"));
    const process = reader.number(one, "process");
    const meaning = EVENTS[kind] === undefined ? "" : EVENTS[kind]({
        subject: reader.number(one, "subject"),
        amount: reader.wide(one, "amount"),
    });
    return `  ${decimal(reader.wide(one, "timestamp"))}  ${kind}` +
        (process === 0 ? "" : ` (process ${process})`) +
        (meaning === "" ? "" : `: ${meaning}`) +
        (isWaiting ? "" : ", drained");
}

// The highest power of two that is not above `limit`.
function powerBelow(limit) {
    let power = 1;
    while (power * 2 <= limit) {
        power *= 2;
    }
    return power;
}

// What `show` answers for each block; one that cannot be read does not hide the others.
function each(found, show) {
    return [].concat(...found.map((block, index) => (block === undefined
        ? [`processor ${index}  no memory for it`]
        : attempt(() => show(block), `processor ${index}  `))));
}

// What `show` answers, or why it cannot.
function attempt(show, who) {
    try {
        return show();
    } catch (error) {
        return [who + (error instanceof Refusal
            ? error.message
            : `The target's memory could not be read: ${error.message || error}`)];
    }
}

function showTrace(reader, most) {
    const shown = most === undefined ? TRACE_SHOWN : near(wide(most));
    const global = reader.global();
    const trace = reader.target(global, "trace");
    const entries = reader.field(trace, "entries");
    const kept = reader.length(entries);
    const made = reader.wide(trace, "made");
    const there = Math.min(near(made), kept);
    const newestFirst = Array.from({ length: there }, (_, back) =>
        entry(reader, entries[minus(made, wide(back + 1)).low % kept]));
    const frequency = ticksASecond(reader, global, newestFirst);
    const lines = newestFirst.slice(0, shown).map((one, back) => {
        const before = newestFirst[back + 1];
        return `  ${time(one, newestFirst[0], frequency)}  ${gap(one, before, frequency)}  ` +
            words(one);
    });
    const unit = frequency === undefined ? "ticks" : "ms";
    return [
        `${decimal(made)} entries made, the newest ${lines.length} of ${there} that are kept; ` +
            `${unit} before the newest, and since the one before:`,
    ].concat(lines);
}

function entry(reader, one) {
    return {
        timestamp: reader.wide(one, "timestamp"),
        what: reader.number(one, "what"),
        process: reader.number(one, "process"),
        first: reader.wide(one, "first"),
        second: reader.wide(one, "second"),
    };
}

// As the newest Ready says; else as the hardware does; undefined where nobody does.
function ticksASecond(reader, global, newestFirst) {
    const ready = newestFirst.find((one) =>
        NAMES["halprof_driver::trace::What"][one.what] === "Ready");
    if (ready !== undefined) {
        return near(ready.second);
    }
    const hardware = reader.target(reader.target(global, "hardware"));
    return hardware && reader.number(hardware, "service.processors.frequency");
}

function time(one, newest, frequency) {
    return duration(nearDifference(one.timestamp, newest.timestamp), frequency);
}

function gap(one, before, frequency) {
    return before === undefined
        ? pad("")
        : duration(nearDifference(one.timestamp, before.timestamp), frequency);
}

function duration(ticks, frequency) {
    return pad(frequency ? (ticks * 1000 / frequency).toFixed(3) : String(ticks));
}

function pad(text) {
    return ("              " + text).slice(-Math.max(14, text.length));
}

function words(one) {
    const what = name(NAMES["halprof_driver::trace::What"], one.what);
    const meaning = ENTRIES[what] === undefined
        ? `${hex(one.first)} ${hex(one.second)}`
        : ENTRIES[what](one.first, one.second);
    const bare = isZero(one.first) && isZero(one.second) && ENTRIES[what] === undefined;
    const process = one.process === 0 ? "" : ` (process ${one.process})`;
    return `${what}${process}${bare ? "" : `: ${meaning}`}`;
}

// ---------------------------------------------------------------------------------------------
// What the debugger is told.

const COMMANDS = [
    ["state", showState, "interface, capabilities, active session, reservation, timer"],
    ["processors", showProcessors, "counters that run, totals, what became of samples"],
    ["sessions", showSessions, "owners, flags, sources"],
    ["rings", showRings, `counts and the last samples: ${SAMPLES_SHOWN}, or as many as given`],
    ["events", showEvents, `system events: ${EVENTS_SHOWN}, or as many as given`],
    ["trace", showTrace, `what happened lately: ${TRACE_SHOWN} entries, or as many as given`],
];

function showHelp() {
    return COMMANDS.map(([command, , what]) => `!halprof_${command}  ${what}`);
}

function run(show, argument) {
    attempt(() => show(new Reader(host), argument), "")
        .forEach((line) => host.diagnostics.debugLog(line + "\n"));
}

function initializeScript() {
    const aliases = COMMANDS.map(([command, show]) =>
        new host.functionAlias((argument) => run(show, argument), `halprof_${command}`));
    return [
        new host.apiVersionSupport(1, 7),
        new host.functionAlias(() => run(showHelp), "halprof"),
    ].concat(aliases);
}
