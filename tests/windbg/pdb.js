"use strict";

// The types, the constants and the variables of a PDB, as llvm-pdbutil prints them.

const { execFileSync } = require("node:child_process");

// Numbers and how large they are, by CodeView's number of a simple type ("Simple types" of LLVM's
// "The PDB TPI and IPI Streams").
const SIMPLE = {
    0x03: ["void", 0], 0x10: ["i8", 1], 0x11: ["i16", 2], 0x12: ["i32", 4], 0x13: ["i64", 8],
    0x14: ["i128", 16], 0x20: ["u8", 1], 0x21: ["u16", 2], 0x22: ["u32", 4], 0x23: ["u64", 8],
    0x24: ["u128", 16], 0x30: ["bool", 1], 0x40: ["f32", 4], 0x41: ["f64", 8], 0x68: ["i8", 1],
    0x69: ["u8", 1], 0x70: ["i8", 1], 0x74: ["i32", 4], 0x75: ["u32", 4], 0x76: ["i64", 8],
    0x77: ["u64", 8],
};
const POINTER_64 = 0x600;

class Pdb {
    constructor(path) {
        const text = execFileSync("llvm-pdbutil-19", ["dump", "-types", "-globals", path],
            { encoding: "utf8", maxBuffer: 1 << 28 });
        this.records = new Map();
        this.named = new Map();
        for (const record of text.split(/\n(?= +0x[0-9A-F]+ \| LF_)/)) {
            this.enter(record);
        }
        this.constants = new Map(found(text,
            /S_CONSTANT \[size = \d+\] `(.*)`\n +type = .*, value = (-?\d+)/g)
            .map(([, name, value]) => [name, BigInt(value)]));
        this.variables = new Map(found(text,
            /S_[LG]DATA32 \[size = \d+\] `(.*)`\n +type = 0x[0-9A-F]+ .*addr = (\d+):(\d+)/g)
            .map(([, name, section, offset]) => [name, { section: +section, offset: +offset }]));
    }

    enter(record) {
        const head = /^ +(0x[0-9A-F]+) \| (LF_\w+) \[size = \d+\](?: `(.*)`)?\n/.exec(record);
        if (head !== null) {
            const [, number, leaf, name] = head;
            this.records.set(Number(number), { leaf, name, record });
            const isDefinition = name !== undefined && !/options: forward ref/.test(record);
            if (isDefinition && !this.named.has(name)) {
                this.named.set(name, Number(number));
            }
        }
    }

    // The type of a name; undefined where there is none.
    type(name) {
        const number = this.named.get(name);
        return number === undefined ? undefined : this.numbered(number);
    }

    numbered(number) {
        if (number < 0x1000) {
            return simple(number);
        }
        const entry = this.records.get(number);
        entry.type ??= this.read(entry);
        return entry.type;
    }

    read({ leaf, name, record }) {
        const read = {
            LF_STRUCTURE: () => this.structure(name, record),
            LF_UNION: () => this.structure(name, record),
            LF_ENUM: () => this.enumeration(name, record),
            LF_POINTER: () => this.pointer(reference(record, /referent = (0x[0-9A-F]+)/)),
            LF_MODIFIER: () => this.numbered(reference(record, /referent = (0x[0-9A-F]+)/)),
            LF_ARRAY: () => this.array(record),
        }[leaf];
        return read === undefined ? { kind: leaf, name: leaf, size: 0 } : read();
    }

    structure(name, record) {
        if (/options: forward ref/.test(record)) {
            const [, definition] = /forward ref \(-> (0x[0-9A-F]+)\)/.exec(record) ?? [];
            return definition === undefined
                ? { kind: "opaque", name, size: 0 }
                : this.numbered(Number(definition));
        }
        const list = this.fieldList(record);
        const members = /LF_MEMBER \[name = `(.*)`, Type = (0x[0-9A-F]+).*, offset = (\d+),/g;
        const fields = new Map(found(list, members)
            .map(([, field, type, offset]) => [field, { type: Number(type), offset: +offset }]));
        const size = Number(/sizeof (\d+)/.exec(record)[1]);
        return { kind: "structure", name, size, fields };
    }

    enumeration(name, record) {
        const underlying = this.numbered(reference(record, /underlying type: (0x[0-9A-F]+)/));
        const values = new Map(found(this.fieldList(record), /LF_ENUMERATE \[(\S+) = (-?\d+)\]/g)
            .map(([, value, number]) => [value, Number(number)]));
        return { kind: "enumeration", name, size: underlying.size, values };
    }

    fieldList(record) {
        const [, number] = /field list: (0x[0-9A-F]+)/.exec(record) ?? [];
        return this.records.get(Number(number))?.record ?? "";
    }

    pointer(number) {
        const pdb = this;
        return {
            kind: "pointer",
            size: 8,
            get name() { return `${this.target.name}*`; },
            get target() { return pdb.numbered(number); },
        };
    }

    array(record) {
        const element = this.numbered(reference(record, /element type: (0x[0-9A-F]+)/));
        const size = Number(/ size: (\d+)/.exec(record)[1]);
        return { kind: "array", name: `${element.name}[]`, size, element };
    }
}

function simple(number) {
    const kind = SIMPLE[number & 0xff];
    if (kind === undefined) {
        throw new Error(`simple type 0x${number.toString(16)} is not known`);
    }
    const [name, size] = kind;
    if ((number & 0xf00) === POINTER_64) {
        const target = simple(number & 0xff);
        return { kind: "pointer", name: `${name}*`, size: 8, target };
    }
    return { kind: "number", name, size };
}

function reference(record, pattern) {
    return Number(pattern.exec(record)[1]);
}

function found(text, pattern) {
    return [...text.matchAll(pattern)];
}

module.exports = { Pdb };
