"use strict";

// driver/windbg/halprof.js against the memory of a machine that sampled: what it shows is what the
// client was told, and what the processors' registers held.

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { test } = require("node:test");
const { Pdb } = require("./pdb.js");
const { Host } = require("./target.js");
const { Recorded } = require("./recorded.js");

const REPOSITORY = path.join(__dirname, "../..");
const RECORDED = path.join(REPOSITORY, "target/memory-image");
const DRIVER = path.join(REPOSITORY, "target/driver");
const HEADERS = 0x400;
const COUNTER_MASK = (1n << 48n) - 1n;
// PERFEVTSEL's EN, which the driver keeps apart; a fixed counter's select has no such bit.
const ENABLE = 1n << 22n;
// The first session of a driver: slot 0, used for the first time.
const SESSION = "0x101";

const known = JSON.parse(fs.readFileSync(path.join(RECORDED, "known.json"), "utf8"));
const target = new Recorded(new Pdb(path.join(DRIVER, "halprof.pdb")), RECORDED);
const commands = new Host(target).load(path.join(REPOSITORY, "driver/windbg/halprof.js"));

function shown(command, argument) {
    return commands[`halprof_${command}`](argument);
}

// What is shown of each processor: its first line, and those behind it.
function parts(text) {
    return text.trimEnd().split(/\n(?=processor )/).map((part) => part.split("\n"));
}

function lines(text, expected) {
    for (const line of expected) {
        assert.ok(text.split("\n").includes(line), `${line} is not in\n${text}`);
    }
}

const SOURCES = known.sources.map(({ id }) =>
    `0x${id.toString(16)} ${{ 2: "TotalIssues", 6: "BranchInstructions" }[id]}`);

// Of the newest sample on: those that wait for the client, and those that it has taken.
function samples(index) {
    const of = (list) => list.filter(({ processor }) => processor === index);
    const line = (one) => `  ${one.timestamp}  ip ${one.ip} (${one.mode}), ` +
        `process ${one.process}, thread ${one.thread}, source ${one.source}, ` +
        `period ${one.period}`;
    return [
        ...of(known.waiting).reverse().map(line),
        ...of(known.drained).reverse().map((one) => `${line(one)}, drained`),
    ];
}

test("it is the memory of this driver", () => {
    const file = fs.readFileSync(path.join(DRIVER, "halprof.sys")).subarray(0, HEADERS);
    const loaded = Buffer.from(Array.from(file, (_, at) =>
        Number(target.memory.get(target.image + BigInt(at), 1))));
    assert.ok(file.equals(loaded), "run `cargo run --profile suite -p nt-model --bin memory-image`");
});

test("the state is what the client was told", () => {
    const [processor] = known.processors;
    lines(shown("state"), [
        `driver       ${known.driver}, layout 4`,
        `time stamps  ${known.frequency} a second`,
        "suspended    no",
        `CPU type 0   processors 0 to ${known.processors.length - 1}`,
        `  interface  ${known.interface} (${known.reason}); the HAL's ${known.interface}`,
        `  processor  ${processor.vendor}, family 0x${processor.family.toString(16)}, ` +
            `model 0x${processor.model.toString(16)}, ` +
            `stepping 0x${processor.stepping.toString(16)}, core type 0x0`,
    ]);
    assert.match(shown("state"), new RegExp(`^active {7}session ${SESSION}, .* reserved$`, "m"));
});

test("the session is the client's", () => {
    lines(shown("sessions"), [
        `session ${SESSION}  slot 0, running`,
        `  owner       handle ${known.handle}, process ${known.process}`,
        "  flags       kernel, samples, events",
        ...known.sources.map(({ user_only, every }, index) => `  source ${index}    ` +
            `${SOURCES[index]}, ${user_only ? "user" : "user and kernel"}, every ${every} events`),
    ]);
});

test("each counter's select is the processor's, and its total comes to what was counted", () => {
    const processors = parts(shown("processors"));
    assert.strictEqual(processors.length, known.processors.length);
    processors.forEach(([first, ...rest], index) => {
        const { group, number } = known.processors[index];
        assert.strictEqual(first, `processor ${index}  group ${group} number ${number}  ` +
            "running, CPU type 0, slice 0");
        const inUse = new Set();
        known.sources.forEach((_, source) => {
            const seat = new RegExp(`^  (general|fixed) (\\d): source ${source} \\((.*)\\), ` +
                "select (\\w+), preset (\\w+), last (\\w+), interrupts$");
            const [, kind, counter, name, select, preset, last] =
                rest.map((line) => seat.exec(line)).find((match) => match);
            const register = known.registers[index][kind][Number(counter)];
            assert.strictEqual(name, SOURCES[source]);
            assert.strictEqual(BigInt(select) | (kind === "general" ? ENABLE : 0n),
                BigInt(register.select));
            const since = (value) => (BigInt(register.value) - BigInt(value)) & COUNTER_MASK;
            const total = new RegExp(`^  total of source ${source} .*: (\\d+) counted in 0 slices`);
            const [, counted] = rest.map((line) => total.exec(line)).find((match) => match);
            assert.strictEqual(BigInt(counted) + since(last),
                BigInt(known.counted[index][source]));
            assert.ok(since(preset) < (-BigInt(preset) & COUNTER_MASK), "it has not overflowed");
            inUse.add(`${kind} ${counter}`);
        });
        for (const [kind, registers] of Object.entries(known.registers[index])) {
            registers.forEach(({ select }, counter) => assert.strictEqual(BigInt(select) !== 0n,
                inUse.has(`${kind} ${counter}`), `${kind} ${counter}`));
        }
    });
});

test("what became of the samples is what the client was told", () => {
    const totals = { generated: 0, stored: 0, lost: known.statistics.lost.map(() => 0),
        spurious: 0, throttled: 0, handler_ticks: 0 };
    for (const part of parts(shown("processors"))) {
        const text = part.join("\n");
        const of = (pattern) => pattern.exec(text).slice(1).map(Number);
        const [generated, stored] = of(/(\d+) generated, (\d+) stored; lost /);
        const lost = of(/ lost (\d+) RingFull, (\d+) KernelHidden, (\d+) Coalesced, (\d+) Missed/);
        const [spurious, throttled, ticks] =
            of(/(\d+) spurious, (\d+) times throttled, (\d+) ticks/);
        totals.generated += generated;
        totals.stored += stored;
        totals.lost = totals.lost.map((count, cause) => count + lost[cause]);
        totals.spurious += spurious;
        totals.throttled += throttled;
        totals.handler_ticks += ticks;
    }
    assert.deepStrictEqual(totals, known.statistics);
    assert.strictEqual(totals.stored, known.drained.length + known.waiting.length);
});

test("the rings hold the samples that the client got before and after, and no others", () => {
    const processors = parts(shown("rings", 1 << 20));
    assert.strictEqual(processors.length, known.processors.length);
    processors.forEach(([first, ...rest], index) => {
        const expected = samples(index);
        const waiting = known.waiting.filter(({ processor }) => processor === index).length;
        assert.ok(waiting > 0 && waiting < expected.length, "some wait, some are taken");
        assert.match(first, new RegExp(`, produced ${expected.length}, ` +
            `consumed ${expected.length - waiting}, waiting ${waiting} `));
        assert.deepStrictEqual(rest, expected);
    });
});

test("the ring of events holds what the client got after", () => {
    const [first, ...rest] = shown("events", 1 << 20).trimEnd().split("\n");
    const count = known.events.length;
    assert.match(first, new RegExp(
        `^capacity 2048, produced ${count}, consumed 0, waiting ${count} .*; 0 lost$`));
    assert.match(rest.at(-1), /  SessionStarted /);
    assert.deepStrictEqual(rest, known.events.toReversed().map((event) => {
        const { timestamp, kind, process, subject, amount } = event;
        const meaning = kind === "Throttled" ? `: processor ${subject}, ${amount} times` : "";
        return `  ${timestamp}  ${kind}${process === 0 ? "" : ` (process ${process})`}${meaning}`;
    }));
});

test("the trace begins with the device, and ends with the session", () => {
    const [count, newest, ...older] = shown("trace").trimEnd().split("\n");
    assert.match(count, /^3 entries made, the newest 3 of 3/);
    assert.match(newest, /Reserved: overflows: interrupt; status success$/);
    assert.match(older.at(-1), new RegExp(
        `Ready: ${known.processors.length} processors, ${known.frequency} ticks a second$`));
});
