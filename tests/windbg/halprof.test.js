"use strict";

// driver/windbg/halprof.js against a target whose structures stand as the driver's PDB says.

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { test } = require("node:test");
const { Pdb } = require("./pdb.js");
const { Target, Host } = require("./target.js");
const scenario = require("./scenario.js");

const REPOSITORY = path.join(__dirname, "../..");
const SCRIPT = path.join(REPOSITORY, "driver/windbg/halprof.js");
const COMMANDS = ["state", "processors", "sessions", "rings", "events", "trace"];

const pdb = new Pdb(path.join(REPOSITORY, "target/driver/halprof.pdb"));

function file(name) {
    return fs.readFileSync(path.join(REPOSITORY, name), "utf8");
}

// A target with the scenario, its commands, and where its structures stand. `change` may write
// more; `options` are the debugger's.
function debug({ options, change, types = pdb } = {}) {
    const target = new Target(types);
    const places = scenario.write(target);
    change?.(target, places);
    const host = new Host(target, options);
    return { ...host.load(SCRIPT), inside: host.inside, version: host.version };
}

// What a command prints where something was changed.
function printed(command, options) {
    return debug(options)[`halprof_${command}`]();
}

// What docs/windbg.md shows of a command.
function documented(command) {
    const heading = new RegExp(`### \`!halprof_${command}\`\n\n\`\`\`text\n([^]*?)\`\`\``);
    return heading.exec(file("docs/windbg.md"))[1];
}

// The PDB with one record changed, as text.
function changed(edit) {
    const other = Object.assign(Object.create(Pdb.prototype), pdb);
    other.records = new Map([...pdb.records].map(([number, { type, ...entry }]) =>
        [number, { ...entry, record: edit(entry.record) }]));
    return other;
}

for (const command of COMMANDS) {
    test(`!halprof_${command} shows the scenario as documented`, () => {
        assert.strictEqual(printed(command), documented(command));
    });

    test(`!halprof_${command} shows the same, however the debugger hands numbers over`, () => {
        const options = { wide: true, statics: false };
        assert.strictEqual(printed(command, { options }), documented(command));
    });

    test(`!halprof_${command} says that the driver is not loaded`, () => {
        assert.match(printed(command, { options: { loaded: false } }), /is not loaded/);
    });

    test(`!halprof_${command} says that symbols are missing`, () => {
        const text = printed(command, { options: { symbols: false } });
        assert.match(text, /HALPROF is not found: give the path of halprof\.pdb/);
    });

    test(`!halprof_${command} says that the symbols have no types`, () => {
        const types = Object.assign(Object.create(Pdb.prototype), pdb, {
            type: (name) => (name === scenario.GLOBAL && types.isStripped
                ? undefined : pdb.type(name)),
        });
        const stripped = debug({ types });
        types.isStripped = true;
        assert.match(stripped[`halprof_${command}`](), /have no type halprof_driver::debugger/);
    });

    test(`!halprof_${command} refuses a global without the magic`, () => {
        const change = (target, { global }) =>
            target.write(global, scenario.GLOBAL, { magic: Buffer.from("halprog\0") });
        assert.match(printed(command, { change }), /does not begin with "halprof"/);
    });

    test(`!halprof_${command} refuses another version`, () => {
        const change = (target, { global }) =>
            target.write(global, scenario.GLOBAL, { version: 5 });
        assert.match(printed(command, { change }), /layout is version 5, this script reads 4/);
    });
}

test("the script asks for the API that has function aliases, and names every command", () => {
    const { halprof, version } = debug();
    assert.deepStrictEqual([...version], [1, 7]);
    COMMANDS.forEach((command) => assert.match(halprof(), new RegExp(`!halprof_${command} `)));
});

test("where nothing is ready the trace is shown all the same", () => {
    const change = (target, { cells }) => {
        target.write(cells.table, `${scenario.POINTER}<${scenario.TABLE}>`, 0n);
        target.write(cells.hardware, `${scenario.POINTER}<${scenario.HARDWARE}>`, 0n);
    };
    const ready = debug({ change });
    for (const command of ["state", "processors", "sessions", "rings"]) {
        assert.match(ready[`halprof_${command}`](), /hardware is not ready/);
    }
    assert.strictEqual(ready.halprof_trace(), documented("trace"));
});

test("a processor without memory does not hide the others", () => {
    const change = (target, { table }) => {
        const blocks = target.type(scenario.TABLE).fields.get("blocks");
        const pool = table + BigInt(blocks.offset);
        const at = target.memory.get(pool, 8);
        target.write(at, "core::sync::atomic::AtomicPtr<halprof_driver::per_cpu::PerCpu>",
            0n);
    };
    for (const command of ["processors", "rings"]) {
        const text = printed(command, { change });
        assert.match(text, /^processor 0 {2}no memory for it\nprocessor 1 {2}group 1 number 5/);
    }
});

test("memory that the dump does not hold does not hide the rest", () => {
    const change = (target, { ring }) => target.memory.pages.delete(ring / 4096n);
    const text = printed("rings", { change });
    assert.match(text, /processor 0 {2}The target's memory could not be read: Unable to read/);
    assert.match(text, /processor 1 .* no ring/);
});

for (const [produced, consumed] of [[9, 4], [1, 3], [2n ** 63n, 0]]) {
    test(`a ring that produced ${produced} and consumed ${consumed} of 4 is inconsistent`, () => {
        const change = (target, { ring }) =>
            scenario.writeCounts(target, ring, produced, consumed);
        const text = printed("rings", { change });
        assert.match(text, new RegExp(
            `inconsistent: capacity 4, produced ${produced}, consumed ${consumed}; `));
        assert.doesNotMatch(text, /ip 0x/);
    });
}

test("a ring whose counts have wrapped at 32 bits shows its newest samples", () => {
    const change = (target, { ring }) =>
        scenario.writeCounts(target, ring, 2n ** 32n + 3n, 2n ** 32n - 1n);
    const lines = printed("rings", { change }).split("\n");
    assert.match(lines[0], /produced 4294967299, consumed 4294967295, waiting 4 \(100 %\)/);
    assert.match(lines[1], /9000000000000000300 /);
    assert.strictEqual(lines.filter((line) => /ip 0x/.test(line)).length, 4);
});

test("as many samples, events and entries are shown as asked for", () => {
    const { halprof_rings, halprof_events, halprof_trace } = debug();
    assert.strictEqual(halprof_rings(1).match(/ip 0x/g).length, 1);
    assert.deepStrictEqual(halprof_events(1), documented("events").split("\n").slice(0, 2)
        .concat("").join("\n"));
    const trace = halprof_trace(2).split("\n");
    assert.match(trace[0], /^5 entries made, the newest 2 of 5/);
    assert.deepStrictEqual(trace.slice(1), documented("trace").split("\n").slice(1, 3).concat(""));
});

test("a count beyond its array is refused", () => {
    const change = (target, { program }) =>
        target.write(program, scenario.PROGRAM, { settings: { count: 257 } });
    assert.match(printed("processors", { change }), /count is 257, and there are only 256/);
});

test("the trace goes round, and takes the frequency of the hardware when Ready is gone", () => {
    const change = (target, { trace }) => {
        const entries = Array.from({ length: 256 }, (_, place) => ({
            // Entry 299 stands in place 43, and is the newest.
            timestamp: scenario.STARTED + BigInt(2_500 * ((place + 256 - 44) % 256)),
            what: 6,
            first: 0x1000 + place,
        }));
        target.write(trace, scenario.TRACE, { made: 300, entries });
    };
    const lines = printed("trace", { change }).split("\n");
    assert.match(lines[0], /^300 entries made, the newest 32 of 256 that are kept; ms/);
    assert.match(lines[1], /^ +0\.000 +0\.001 {2}Closed: handle 0x102b$/);
    assert.match(lines[2], /^ +-0\.001 +0\.001 {2}Closed: handle 0x102a$/);
    assert.strictEqual(lines.length, 1 + 32 + 1);
});

for (const [what, first, second, text] of [
    [2, 0, 0, "Released"],
    [3, 0, 0, "Awake"],
    [5, 3, 0xc000009a, "ProcessorAdded: processor 3, status 0xc000009a"],
    [7, 0x222000, 0xc00000a3n << 32n, "Refused: HELLO 0x222000, status 0xc00000a3, error none"],
    [7, 0x1234, 0xc0000010n << 32n, "Refused: request 0x1234, status 0xc0000010, error none"],
    [8, 1, 0xc0000022, "Reserved: overflows: interrupt; status 0xc0000022"],
    [9, 1, 2, "GivenBack: status of the interrupt 0x1, of the counters 0x2"],
    [10, 0xc000009a, 0, "NotReady: status 0xc000009a"],
    [11, 0xc0000001, 0, "HandlerStuck: the overflow handler stays, status 0xc0000001"],
]) {
    test(`the trace says: ${text}`, () => {
        const change = (target, { trace }) => target.write(trace, scenario.TRACE,
            { made: 1, entries: [{ what, first, second, process: 0 }] });
        assert.ok(printed("trace", { change }).endsWith(`  ${text}\n`));
    });
}

test("without a ring of events, it is said", () => {
    const change = (target, { events }) => target.write(events, scenario.EVENTS,
        { ring: { value: { some: { at: 0n, length: 0 } } } });
    assert.strictEqual(printed("events", { change }), "no session records system events\n");
});

for (const [event, text] of [
    [{ kind: 1, process: 9 }, "SessionStopped (process 9)"],
    [{ kind: 1, process: 9, subject: 34 }, "SessionStopped (process 9): InterruptStorm"],
    [{ kind: 4, subject: 3 }, "ProcessorAdded: processor 3"],
    [{ kind: 5, subject: 3, amount: 2 }, "Throttled: processor 3, 2 times"],
    [{ kind: 7, subject: 3 }, "Storm: processor 3"],
    [{ kind: 8 }, "8 (unknown)"],
]) {
    test(`an event says: ${text}`, () => {
        const all = { kind: 0, process: 0, subject: 0, amount: 0, ...event };
        const change = (target, { newestEvent }) =>
            target.write(newestEvent, scenario.EVENT, all);
        const [, line] = printed("events", { change }).split("\n");
        assert.ok(line.endsWith(`00  ${text}`), line);
    });
}

test("an entry that this script does not know is shown as it is", () => {
    const change = (target, { trace }) => target.write(trace, scenario.TRACE,
        { made: 1, entries: [{ what: 77, first: 1, second: 2 }] });
    assert.match(printed("trace", { change }), /77 \(unknown\): 0x1 0x2\n/);
});

test("a service without active session, reservation and timer says so", () => {
    const change = (target, { hardware }) => target.write(hardware, scenario.HARDWARE, {
        service: {
            active_session: null,
            suspended: true,
            processors: { reservation: null, timers: { setting: null } },
        },
    });
    const text = printed("state", { change });
    for (const line of ["active       none", "reservation  none", "timer        off",
        "suspended    yes"]) {
        assert.ok(text.includes(line), `${line} is not in\n${text}`);
    }
    assert.match(printed("sessions", { change }), /^session 0x302 {2}slot 1, not running/);
});

test("a session that counts by a timer on some processors says which", () => {
    const change = (target, { sessions }) => {
        const sources = [{ id: 0, raw: 0, timer: true, interval: { used: 10_000 } }];
        const processors = [0b1011n, 1n, ...Array(30).fill(0n)];
        target.write(sessions[1], scenario.SESSION, {
            kernel: false,
            approximate: true,
            program: { sources, settings: { samples: false, processors } },
        });
    };
    const text = printed("sessions", { change });
    for (const line of ["flags       approximate, events\n", "processors  0 to 1, 3, 64\n",
        "source 0    0x0 Time, user and kernel, every 10000 x 100 ns\n",
        "source 1    0x80000000 raw 0x412e, user, group 1\n"]) {
        assert.ok(text.includes(line), `${line} is not in\n${text}`);
    }
});

test("a processor of a type that there cannot be is refused", () => {
    const change = (target, { hardware }) =>
        target.write(hardware, scenario.HARDWARE, { service: { cpu_types: { of: [0, 9] } } });
    assert.match(printed("state", { change }), /Processor 1 is of CPU type 9: the memory is corrupt/);
});

test("CPU types are shown apart", () => {
    const change = (target, { hardware }) => target.write(hardware, scenario.HARDWARE, {
        service: { cpu_types: { of: [0, 1], list: [undefined, scenario.unused] } },
    });
    const text = printed("state", { change });
    assert.match(text, /CPU type 0 {3}processors 0\n[^]*CPU type 1 {3}processors 1\n/);
    assert.match(text, /interface {2}Default \(HypervisorMasks\); the HAL's Amd64\n/);
    assert.match(text, /processor {2}AuthenticAMD, family 0x19, model 0x21, stepping 0x2, /);
    assert.match(text, /general none, fixed none, version 1\n/);
    assert.match(text, /overflow {3}None, APIC None, masks LVTPC no\n/);
});

test("where the debugger lists no modules, symbols are asked for", () => {
    const options = { symbols: false, modules: { [Symbol.iterator]: undefined } };
    assert.match(printed("state", { options }), /HALPROF is not found/);
});

for (const [field, command] of [
    ["version", "state"], ["selection", "state"], ["suspended", "state"], ["active_session", "sessions"],
    ["subject", "events"], ["preset", "processors"], ["carried", "processors"], ["order", "processors"],
    ["owned", "sessions"], ["slice", "sessions"], ["ring", "rings"], ["thread", "rings"],
    ["made", "trace"],
]) {
    test(`a PDB without the field ${field} is named by !halprof_${command}`, () => {
        const others = changed((record) =>
            record.replaceAll(`[name = \`${field}\`,`, `[name = \`${field}_of_old\`,`));
        // The scenario is written with the real PDB, and read with the other.
        const target = new Target(pdb);
        scenario.write(target);
        target.pdb = others;
        const text = new Host(target).load(SCRIPT)[`halprof_${command}`]();
        assert.match(text, new RegExp(`The type \\S+.* in the symbols has no field ${field}:`));
    });
}

test("a layout that has moved is followed", () => {
    const offset = (of, field) => of.type("hal_profile::plan::counter_config::Active").fields.get(field).offset;
    const [preset, last] = ["preset", "last"].map((field) => offset(pdb, field));
    // The two change places.
    const others = changed((record) => record
        .replace(new RegExp(`(\\[name = \`preset\`, .*offset = )${preset},`), `$1${last},`)
        .replace(new RegExp(`(\\[name = \`last\`, .*offset = )${last},`), `$1${preset},`));
    assert.notStrictEqual(preset, last);
    assert.deepStrictEqual(["preset", "last"].map((field) => offset(others, field)),
        [last, preset]);
    assert.strictEqual(printed("processors", { types: others }), documented("processors"));
});

test("every name is the PDB's", () => {
    for (const [type, names] of Object.entries(debug().inside("NAMES"))) {
        const known = Array.from(names, (name, number) => [name, number]).filter(([name]) => name);
        const values = [...pdb.type(type).values].sort(([, one], [, other]) => one - other);
        assert.deepStrictEqual(known, values, type);
    }
});

test("every None has the PDB's tag", () => {
    for (const [option, tag] of debug().inside("NONE")) {
        const none = `enum2$<core::option::${option} >::Variant0::DISCR_EXACT`;
        assert.strictEqual(pdb.constants.get(none), BigInt(tag), none);
    }
});

test("what the PDB does not tell is as in the sources", () => {
    const inside = debug().inside;
    const constant = (source, name) =>
        Number(new RegExp(`const ${name}: \\w+ = (\\w+);`).exec(file(source))[1]);
    const ring = "hal-profile/src/run/ring.rs";
    assert.deepStrictEqual({ ...inside("RING") }, {
        produced: constant(ring, "PRODUCED"),
        consumed: constant(ring, "CONSUMED"),
        slots: constant(ring, "SLOTS"),
    });
    const events = "hal-profile/src/run/event_ring.rs";
    assert.deepStrictEqual({ ...inside("EVENT_RING") }, {
        produced: constant(events, "PRODUCED"),
        lost: constant(events, "LOST"),
        consumed: constant(events, "CONSUMED"),
        slots: constant(events, "SLOTS"),
    });
    assert.strictEqual(inside("FIXED_COUNTER"), constant("hal-profile/src/cpu/counter.rs", "FIXED"));
    assert.strictEqual(inside("SLOT_BITS"),
        constant("hal-profile/src/service/session.rs", "SLOT_BITS"));
    assert.match(file("driver/src/debugger.rs"), new RegExp(`version: ${inside("LAYOUT")},`));
});

test("the layout that is documented is the PDB's", () => {
    const offset = (type, field) => pdb.type(type).fields.get(field).offset;
    const trace = offset(scenario.GLOBAL, "trace");
    const offsets = [
        offset(scenario.GLOBAL, "table"), offset(scenario.GLOBAL, "hardware"), trace,
        offset(scenario.TRACE, "entries"), offset(scenario.GLOBAL, "events"),
    ];
    const table = file("docs/windbg.md").match(/^\| 0x[^]*?(?=\n\n)/m)[0];
    const documented = table.split("\n").flatMap((row) => row.match(/0x[0-9a-f]+/g).map(Number));
    assert.deepStrictEqual(documented, offsets);
    const size = pdb.type("halprof_driver::trace::Entry").size;
    assert.match(table, new RegExp(`256 entries of ${size} bytes`));
});

test("causes of loss are called as in the sources", () => {
    const [, causes] = /\n    LossCause \{([^}]*)\}/.exec(file("shared-types/src/sample.rs"));
    const named = [...causes.matchAll(/^ +(\w+) = (\d+) "/gm)]
        .map(([, cause, number]) => [Number(number), cause]);
    assert.notStrictEqual(named.length, 0);
    assert.deepStrictEqual(named, Array.from(debug().inside("LOSS_CAUSES"), (cause, number) =>
        [number, cause]));
});

test("a handler that Windows does not remove is shown", () => {
    const handler_status = 0xc0000001;
    const change = (target, { hardware }) => target.write(hardware, scenario.HARDWARE, {
        service: { processors: { reservation: { some: { interrupt: true, handler_status } } } },
    });
    assert.match(printed("state", { change }),
        /own overflow interrupt that Windows does not remove, status 0xc0000001\n/);
});

test("a run that the driver has ended says why, and where", () => {
    const change = (target, { sessions, states }) => {
        const ended = { error: 34, subject: 1, detail: 0x10400n };
        target.write(sessions[1], scenario.SESSION, { ended });
        target.write(states[1], scenario.STATE, { phase: "Ended", ended: 34 });
    };
    assert.match(printed("sessions", { change }),
        /\n {2}ended {7}InterruptStorm, subject 1, detail 0x10400\n/);
    assert.match(printed("processors", { change }),
        /^processor 1 .* ended by InterruptStorm, CPU type 0, slice 1$/m);
});

test("requests are called as in the sources", () => {
    const folder = path.join(REPOSITORY, "shared-types/src/request");
    const requests = fs.readdirSync(folder).flatMap((name) => [...fs.readFileSync(
        path.join(folder, name), "utf8").matchAll(/const (\w+): .* = RequestCode::new\((\d+),/g)]);
    const byNumber = requests.map(([, name, number]) => [Number(number), name])
        .sort(([one], [other]) => one - other);
    assert.deepStrictEqual(byNumber, Array.from(debug().inside("REQUESTS"), (name, number) =>
        [number, name]));
});

test("sources are called as Windows lists them", () => {
    const names = debug().inside("SOURCES");
    const listed = file("tests/data/windows-ids.csv").trim().split("\n").slice(1)
        .map((line) => line.split(",")).filter(([, id]) => Number(id) > 0 && Number(id) < 24);
    assert.notStrictEqual(listed.length, 0);
    for (const [, id, name] of listed) {
        assert.strictEqual(names[Number(id)], name);
    }
});

test("64-bit numbers are exact", () => {
    const inside = debug().inside;
    const numbers = [0n, 1n, 999_999_999n, 10n ** 9n, 2n ** 32n, 2n ** 53n + 1n,
        10n ** 18n, 1_000_000_000_000_000_001n, 9_999_999_999_000_000_000n, 2n ** 64n - 1n];
    for (const number of numbers) {
        const halves = `{ high: ${number >> 32n}, low: ${number & 0xffffffffn} }`;
        assert.strictEqual(inside(`decimal(${halves})`), String(number));
        assert.strictEqual(inside(`hex(${halves})`), `0x${number.toString(16)}`);
    }
});

test("the script is of the JavaScript that the debugger runs", () => {
    const text = file("driver/windbg/halprof.js").replace(/\/\/.*$/gm, "");
    for (const later of [/\?\?/, /\?\./, /\d+n\b/, /\bBigInt\b/, /\*\*/, /#\w+;/, /\basync\b/,
        /\{\s*\.\.\./, /\.flatMap\(/, /\.matchAll\(/, /\.replaceAll\(/, /\.padStart\(/]) {
        assert.doesNotMatch(text, later);
    }
});

// The visualizers: natvis names types with * for any parameter, and writes C++ over fields.
const natvis = file("driver/windbg/halprof.natvis").replace(/<!--[^]*?-->/g, "");
const visualized = [...natvis.matchAll(/<Type Name="(.*?)">([^]*?)<\/Type>/g)]
    .map(([, name, body]) => [unescape(name), unescape(body)]);

function unescape(text) {
    return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

// The types of the PDB that a natvis name stands for.
function named(name) {
    const pattern = name.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
    const names = new RegExp(`^${pattern.join(".*")}$`);
    return [...pdb.named.keys()].filter((type) => names.test(type));
}

// Whether a chain of fields leads somewhere.
function leads(type, chain) {
    const [field, ...rest] = chain;
    if (field === undefined) {
        return true;
    }
    const place = type.fields?.get(field);
    return place === undefined
        ? pdb.constants.has(`${type.name}::${field}`)
        : leads(pdb.numbered(place.type), rest);
}

// The chains of fields in a body's expressions.
function chains(body) {
    const inBraces = [...body.matchAll(/\{([^{}]*)\}/g)].map(([, expression]) => expression);
    const inElements = [...body.matchAll(/<(Item|Size|ValuePointer|ExpandedItem)\b[^>]*>([^<]*)/g)]
        .map(([, , expression]) => expression);
    const inConditions = [...body.matchAll(/Condition="([^"]*)"/g)]
        .map(([, expression]) => expression);
    return [...inBraces, ...inElements, ...inConditions].flatMap((expression) =>
        expression.replace(/\([\w:]+\)/g, "").replace(/,\w+$/, "").match(/[A-Za-z_][\w.]*/g) ?? [])
        .filter((chain) => !/^x[0-9a-f]+$/.test(chain));
}

test("every visualizer is of a type in the PDB, and of its fields", () => {
    assert.ok(visualized.length > 15);
    for (const [name, body] of visualized) {
        // Variants are structures of their own; nothing stands where Infallible would; a tag of
        // 128 bits is two fields, which the debugger then shows as they are.
        const types = named(name).filter((type) => !/::Variant|Infallible/.test(type)
            && !pdb.type(type).fields.has("tag128_lo"));
        assert.ok(types.length > 0, `the PDB has no ${name}`);
        assert.ok(chains(body).length > 0, name);
        for (const chain of chains(body)) {
            const lacking = types.filter((type) => !leads(pdb.type(type), chain.split(".")));
            assert.deepStrictEqual(lacking, [], `${name}: ${chain}`);
        }
    }
});

test("the enumerations that visualizers cast to are in the PDB", () => {
    const casts = [...natvis.matchAll(/\((\w+(?:::\w+)+)\)/g)].map(([, type]) => type);
    assert.ok(casts.length > 0);
    casts.forEach((type) => assert.strictEqual(pdb.type(type)?.kind, "enumeration", type));
});
