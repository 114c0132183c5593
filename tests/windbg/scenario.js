"use strict";

// What the driver's memory holds in the tests: two processors that sample two sources for one
// session. Each structure is written at the PDB's offsets; pointers come from `write`.

const GLOBAL = "halprof_driver::debugger::Global";
const BLOCK = "halprof_driver::per_cpu::PerCpu";
const TABLE = "halprof_driver::per_cpu::Table";
const HARDWARE = "halprof_driver::device::Hardware";
const TRACE = "halprof_driver::trace::Trace";
const POINTER = "core::sync::atomic::AtomicPtr";
const SESSION = "hal_profile::service::session::Session";
const PROGRAM = "hal_profile::plan::program::Program";
const STATE = "hal_profile::run::state::ProcessorState";
const SAMPLE = "shared_types::sample::Sample";
const EVENTS = "halprof_driver::system_events::SystemEvents";
const EVENT = "shared_types::event::SystemEvent";
const WORD = "core::sync::atomic::AtomicU64";

const STARTED = 9_000_000_000_000_000_000n;
const OWNER = { handle: 0xffffbe0f12345678n, process: 4242 };
const HANDLE = 0xffffbe0f0badcafen;
const RING_WORDS = 16 + 4 * 5;
const EVENT_RING_WORDS = 16 + 4 * 4;

const both = { user: true, kernel: true };

const capabilities = {
    identity: { vendor: Buffer.from("GenuineIntel"), family: 6, model: 0x8f, stepping: 8 },
    selection: {
        used: { interface: "Emon", reason: "Architectural" },
        hal: { interface: "Emon", reason: "Architectural" },
    },
    core_type: 0x40,
    pmu_version: 5,
    counters: 0xff,
    width: 48,
    fixed: 0xf,
    fixed_width: 48,
    global: { control: 0x38f, acknowledge: 0x390, status: 0x38e },
    delivery: "Acknowledged",
    apic: "X2Apic",
    masks_lvtpc: true,
};

// Of a processor whose counters are masked.
const unused = {
    identity: { vendor: Buffer.from("AuthenticAMD"), family: 0x19, model: 0x21, stepping: 2 },
    selection: {
        used: { interface: "Default", reason: "HypervisorMasks" },
        hal: { interface: "Amd64", reason: "AmdVendor" },
    },
    pmu_version: 1,
    delivery: "None",
    apic: "None",
};

const program = {
    sources: { each: [
        {
            id: 2, raw: 0, filter: both, group: 0, timer: false,
            interval: { source: 2, used: 0, events: 100_000 },
        },
        {
            id: 0x80000000, raw: 0x412en, filter: { user: true, kernel: false }, group: 1,
            timer: false, interval: { source: 0x80000000, used: 0, events: 20_000 },
        },
    ] },
    settings: {
        count: 2,
        samples: true,
        events: true,
        kernel: true,
        processors: Array(32).fill(0xffffffffffffffffn),
        slice: 100_000,
        ring_samples: 4,
    },
};

const states = [
    {
        capabilities,
        known: true,
        cpu_type: 0,
        active: {
            counters: [
                {
                    config: { counter: 0, source: { __0: 0 }, select: 0x1300c0n, interrupts: true },
                    preset: 0xfffffffe7960n, last: 0xfffffffe8000n,
                },
                {
                    config: { counter: 1, source: { __0: 1 }, select: 0x11412en, interrupts: true },
                    preset: 0xffffffffb1e0n, last: 0xffffffffb200n,
                },
            ],
            count: 2,
        },
        order: { slices: [3, 2], at: 1, count: 4 },
        totals: { each: [
            { counted: 0xffffffffffffffffn, current_period: 100_000, carried: 17 },
            { counted: 65_536, current_period: 20_000, carried: 0 },
        ] },
        counts: { each: [
            { running: 5_000_000_000, slices: 3 },
            { running: 5_000_000_000, slices: 3 },
        ] },
        statistics: {
            generated: 9, stored: 3, lost: [1, 2, 3], spurious: 4, throttled: 5,
            handler_ticks: 123_456,
        },
        phase: "Running",
    },
    {
        capabilities,
        known: true,
        cpu_type: 0,
        active: { count: 0 },
        order: { slices: [1], at: 0, count: 4 },
        totals: { each: [{ counted: 11 }, { counted: 12 }] },
        phase: "Suspended",
    },
];

const samples = [
    { timestamp: STARTED + 100n, ip: 0x7ff6deadbeefn, period: 100_000, process: 4242, thread: 4250,
        processor: 0, source: 0, mode: 1 },
    { timestamp: STARTED + 200n, ip: 0xfffff80312345678n, period: 100_000, process: 4, thread: 88,
        processor: 0, source: 0, mode: 2 },
    { timestamp: STARTED + 300n, ip: 0, period: 20_000, process: 0, thread: 0, processor: 0,
        source: 1, mode: 0 },
];

// Newest last.
const events = [
    { timestamp: STARTED, kind: 0, process: 4242 },
    { timestamp: STARTED + 100n, kind: 2 },
    { timestamp: STARTED + 200n, kind: 3 },
    { timestamp: STARTED + 300n, kind: 6, subject: 1, amount: 12 },
];

// Newest last.
const entries = [
    { timestamp: STARTED - 2_500_000_000n, what: 1, process: 0, first: 2, second: 2_500_000_000n },
    { timestamp: STARTED - 5_000_000n, what: 7, process: 99, first: 0x22a024,
        second: 21 },
    { timestamp: STARTED, what: 8, process: 0, first: 1, second: 0 },
    { timestamp: STARTED + 2_500n, what: 4, process: 0, first: 4, second: 0 },
    { timestamp: STARTED + 1_000_000n, what: 6, process: 0, first: 0xffffbe0f99999999n, second: 0 },
];

// Writes it all; answers where what stands.
function write(target) {
    const rings = [ring(target, 3, 1), null];
    const kept = states.map((state) => written(target, STATE, state));
    const blocks = states.map(({ phase }, index) =>
        block(target, index, phase === "Running", kept[index], rings[index]));
    const loaded = written(target, PROGRAM, program);
    const table = written(target, TABLE, {
        count: blocks.length,
        blocks: pool(target, `${POINTER}<${BLOCK}>`, [...blocks, 0n]),
        program: { at: loaded, length: 1 },
    });
    const pooled = sessions(target);
    const hardware = written(target, HARDWARE, { service: service(target, table, pooled) });
    const global = target.symbol("halprof_driver::debugger::HALPROF");
    target.memory.room(global, target.type(GLOBAL).size);
    const cells = {
        table: written(target, `${POINTER}<${TABLE}>`, table),
        hardware: written(target, `${POINTER}<${HARDWARE}>`, hardware),
    };
    const trace = written(target, TRACE, { made: entries.length, entries });
    const ofEvents = eventRing(target);
    target.write(global, GLOBAL, {
        magic: Buffer.from("halprof\0"),
        version: 4,
        ...cells,
        trace,
        events: ofEvents.at,
    });
    return {
        events: ofEvents.at, newestEvent: ofEvents.newest, global, cells, trace, table, hardware, blocks, program: loaded, states: kept,
        ring: rings[0].at,
        sessions: Array.from({ length: pooled.length }, (_, slot) =>
            pooled.at + BigInt(slot * target.type(SESSION).size)),
    };
}

// One that nobody uses, one in use, and one that was.
function sessions(target) {
    return pool(target, SESSION, [
        { owned: false },
        { owned: true, owner: OWNER, uses: 3, kernel: true, program },
        { owned: false, uses: 1 },
    ]);
}

function service(target, table, sessions) {
    const driver_name = Buffer.from("halprof.sys 0.1.0");
    return {
        processors: {
            table: { at: table, length: 1 },
            timers: { setting: { some: { period: 50_000_000, precise: false } } },
            reservation: { some: { handle: HANDLE, interrupt: true, handler_status: 0 } },
            frequency: 2_500_000_000n,
            resolution: 5000,
        },
        sessions,
        about: {
            driver_name: { data_ptr: pool(target, "u8", driver_name).at, length: driver_name.length },
            modelled: false,
            ring_bytes_max: 268_435_456,
        },
        cpu_types: { list: [capabilities], of: [0, 0], processors: 2 },
        active_session: { some: { slot: 1, since: STARTED, reserved: true } },
        results_of: { some: 1 },
        ring_bytes: 2 * RING_WORDS * 8,
        suspended: false,
    };
}

function block(target, index, running, state, ring) {
    return written(target, BLOCK, {
        index,
        number: { Group: index, Number: index + 4 },
        running,
        state: { at: state, length: 1 },
        // A cell; its value is the Option.
        ring: { value: ring && { some: ring } },
    });
}

// A ring with its counts, and the samples in the slots after them.
function ring(target, produced, consumed) {
    const words = pool(target, WORD, Array(RING_WORDS).fill(0));
    writeCounts(target, words.at, produced, consumed);
    const slots = words.at + 16n * 8n;
    samples.forEach((sample, index) => {
        target.write(slots + BigInt(index * target.type(SAMPLE).size), SAMPLE, sample);
    });
    return words;
}

// The ring of events, of which the client has one; two found it full.
function eventRing(target) {
    const words = pool(target, WORD, Array(EVENT_RING_WORDS).fill(0));
    writeCounts(target, words.at, events.length, 1);
    target.write(words.at + 8n, WORD, 2);
    const slots = words.at + 16n * 8n;
    const slot = (index) => slots + BigInt(index * target.type(EVENT).size);
    events.forEach((event, index) => target.write(slot(index), EVENT, event));
    const at = written(target, EVENTS, { ring: { value: { some: words } } });
    return { at, newest: slot(events.length - 1) };
}

function writeCounts(target, ring, produced, consumed) {
    target.write(ring, WORD, produced);
    target.write(ring + 8n * 8n, WORD, consumed);
}

const u8 = { kind: "number", name: "u8", size: 1 };

function pool(target, name, values) {
    const type = name === "u8" ? u8 : target.type(name);
    const at = target.room(type, values.length);
    values.forEach((value, index) => target.write(at + BigInt(index * type.size), type, value));
    return { at, length: values.length };
}

function written(target, type, value) {
    const at = target.room(type);
    target.write(at, type, value);
    return at;
}

module.exports = {
    GLOBAL, TABLE, HARDWARE, TRACE, POINTER, SESSION, PROGRAM, STATE, STARTED, unused, write,
    writeCounts, EVENT, EVENTS,
};
