"use strict";

// A debugger's target: memory that a scenario is written into, and the host API over it.
//
// The API is that of "JavaScript Debugger Scripting" and "Native Objects in JavaScript Extensions"
// at learn.microsoft.com, as far as halprof.js uses it; what is not here is an error.

const vm = require("node:vm");
const fs = require("node:fs");

const IMAGE = 0xfffff80200000000n;
const SECTION = 0x10000n;
const PAGE = 4096n;

// Memory in pages; what was never written cannot be read.
class Memory {
    constructor() {
        this.pages = new Map();
    }

    room(address, size) {
        for (let page = address / PAGE; page <= (address + BigInt(size) - 1n) / PAGE; page += 1n) {
            if (!this.pages.has(page)) {
                this.pages.set(page, new Uint8Array(Number(PAGE)));
            }
        }
    }

    set(address, size, value) {
        for (let byte = 0; byte < size; byte += 1) {
            const at = address + BigInt(byte);
            this.page(at)[Number(at % PAGE)] = Number((BigInt(value) >> BigInt(8 * byte)) & 0xffn);
        }
    }

    get(address, size) {
        let value = 0n;
        for (let byte = size - 1; byte >= 0; byte -= 1) {
            const at = address + BigInt(byte);
            value = (value << 8n) | BigInt(this.page(at)[Number(at % PAGE)]);
        }
        return value;
    }

    // Bytes that were recorded.
    fill(address, bytes) {
        this.room(address, bytes.length);
        for (let from = 0; from < bytes.length; ) {
            const within = Number((address + BigInt(from)) % PAGE);
            const part = bytes.subarray(from, from + Number(PAGE) - within);
            this.page(address + BigInt(from)).set(part, within);
            from += part.length;
        }
    }

    page(address) {
        const page = this.pages.get(address / PAGE);
        if (page === undefined) {
            throw new Error(`Unable to read memory at Address 0x${address.toString(16)}`);
        }
        return page;
    }
}

// A target with the driver loaded, and its memory.
class Target {
    constructor(pdb) {
        this.pdb = pdb;
        this.memory = new Memory();
        this.next = 0xffffbe0f00000000n;
    }

    symbol(name) {
        const variable = this.pdb.variables.get(name);
        return variable && IMAGE + BigInt(variable.section) * SECTION + BigInt(variable.offset);
    }

    // Room for so many values of a type, as from the pool.
    room(type, count = 1) {
        const address = this.next;
        const size = BigInt(this.type(type).size * count);
        this.memory.room(address, Number(size));
        this.next += (size / PAGE + 2n) * PAGE;
        return address;
    }

    type(type) {
        const known = typeof type === "string" ? this.pdb.type(type) : type;
        if (known === undefined) {
            throw new Error(`the PDB has no type ${type}`);
        }
        return known;
    }

    // Writes a value at the offsets of the PDB. Fields by name; enumerations by name; null and
    // { some } for an Option; a value given for a structure of one field is that field's.
    write(address, type, value) {
        const known = this.type(type);
        const write = {
            number: () => this.memory.set(address, known.size, value),
            pointer: () => this.memory.set(address, known.size, value),
            enumeration: () => this.memory.set(address, known.size, number(known, value)),
            array: () => Array.from(value).forEach((element, index) => {
                const at = address + BigInt(index * known.element.size);
                if (element !== undefined) {
                    this.write(at, known.element, element);
                }
            }),
            structure: () => this.writeStructure(address, known, value),
        }[known.kind];
        write();
    }

    writeStructure(address, known, value) {
        if (known.fields.has("variant0")) {
            this.writeOption(address, known, value);
        } else if (Object.getPrototypeOf(value ?? 0) === Object.prototype) {
            for (const [field, inner] of Object.entries(value)) {
                this.writeField(address, known, field, inner);
            }
        } else if (known.fields.size === 1) {
            this.writeField(address, known, [...known.fields.keys()][0], value);
        } else {
            throw new Error(`${known.name} is not written as ${value}`);
        }
    }

    writeField(address, known, field, value) {
        const place = known.fields.get(field);
        if (place === undefined) {
            throw new Error(`the PDB's ${known.name} has no field ${field}`);
        }
        this.write(address + BigInt(place.offset), this.pdb.numbered(place.type), value);
    }

    writeOption(address, known, value) {
        const exact = (variant) => this.pdb.constants.get(`${known.name}::${variant}::DISCR_EXACT`);
        const tag = exact(value === null ? "Variant0" : "Variant1");
        if (value !== null) {
            this.writeField(address, known, "variant1", { value: { __0: value.some } });
        }
        if (tag !== undefined) {
            this.writeField(address, known, "tag", tag);
        }
    }
}

function number(known, value) {
    if (typeof value === "string" && !known.values.has(value)) {
        throw new Error(`the PDB's ${known.name} has no ${value}`);
    }
    return typeof value === "string" ? known.values.get(value) : value;
}

// The library's 64-bit number.
class Int64 {
    #value;

    constructor(low, high = 0) {
        this.#value = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
    }

    static of(value) {
        return new Int64(Number(value & 0xffffffffn), Number(value >> 32n));
    }

    getLowPart() {
        return Number(this.#value & 0xffffffffn);
    }

    getHighPart() {
        return Number(this.#value >> 32n);
    }

    get [Symbol.toStringTag]() {
        return "Int64";
    }
}

// Where an object stands; opaque, as the debugger's.
class Location {
    #address;

    constructor(address) {
        this.#address = address;
    }

    static address(of) {
        if (of instanceof Location) {
            return of.#address;
        }
        if (of instanceof Int64) {
            return (BigInt(of.getHighPart()) << 32n) | BigInt(of.getLowPart());
        }
        throw new Error("an address is a location or an Int64");
    }
}

// The debugger's host object. `options.loaded`: the driver is; `options.symbols`: its PDB is;
// `options.statics`: constants of a class are shown; `options.wide`: every number of 64 bits is an
// Int64, and not only those that a number cannot hold.
class Host {
    constructor(target, options = {}) {
        this.target = target;
        this.options = { loaded: true, symbols: true, statics: true, wide: false, ...options };
        this.output = "";
    }

    view(address, type) {
        const view = {
            number: () => this.number(address, type),
            pointer: () => this.pointer(address, type),
            enumeration: () => this.object(address, type, () => undefined),
            array: () => this.object(address, type, (key) => this.element(address, type, key)),
            structure: () => this.object(address, type, (key) => this.fieldOf(address, type, key)),
            opaque: () => this.object(address, type, () => undefined),
        }[type.kind];
        return view();
    }

    number(address, type) {
        const value = this.target.memory.get(address, type.size);
        if (type.name === "bool") {
            return value !== 0n;
        }
        const isWide = type.size === 8 && (this.options.wide || value >= 1n << 53n);
        return isWide ? Int64.of(value) : Number(value);
    }

    // Fields of what a pointer points to are the pointer's too.
    pointer(address, type) {
        const to = this.target.memory.get(address, 8);
        const own = {
            address: Int64.of(to),
            isNull: to === 0n,
            dereference: () => this.view(to, type.target),
            add: (count) => this.pointerTo(to + BigInt(count * type.target.size), type),
        };
        return this.object(address, type, (key) => (key in own
            ? own[key]
            : type.target.kind === "structure" ? this.fieldOf(to, type.target, key) : undefined));
    }

    pointerTo(to, type) {
        return {
            address: Int64.of(to),
            isNull: to === 0n,
            dereference: () => this.view(to, type.target),
        };
    }

    object(address, type, get) {
        const own = {
            targetLocation: new Location(address),
            targetSize: type.size,
            targetType: { get name() { return type.name; } },
        };
        return new Proxy({}, { get: (_, key) => (key in own ? own[key] : get(key)) });
    }

    element(address, type, key) {
        const index = Number(key);
        return index * type.element.size < type.size
            ? this.view(address + BigInt(index * type.element.size), type.element)
            : undefined;
    }

    fieldOf(address, type, key) {
        const field = type.fields.get(key);
        if (field !== undefined) {
            return this.view(address + BigInt(field.offset), this.target.pdb.numbered(field.type));
        }
        const constant = this.target.pdb.constants.get(`${type.name}::${String(key)}`);
        return constant === undefined || !this.options.statics ? undefined : Number(constant);
    }

    api() {
        const { target, options } = this;
        const api = {
            Int64,
            apiVersionSupport: class { constructor(...version) { this.version = version; } },
            functionAlias: class { constructor(run, name) { Object.assign(this, { run, name }); } },
            diagnostics: { debugLog: (text) => { this.output += text; } },
            currentProcess: { Modules: options.modules ?? modules(options.loaded) },
            getModuleSymbolAddress: (module, name) => {
                if (module !== "halprof" || !options.loaded || !options.symbols) {
                    throw new Error("Unable to find module or symbol");
                }
                const address = target.symbol(name);
                return address === undefined ? undefined : Int64.of(address);
            },
            createTypedObject: (location, module, name) => {
                const type = module === "halprof" ? target.pdb.type(name) : undefined;
                if (type === undefined) {
                    throw new Error(`Unable to find type ${name}`);
                }
                return this.view(Location.address(location), type);
            },
            memory: {
                readMemoryValues: (location, count, size = 1) => {
                    const at = Location.address(location);
                    const Kind = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array }[size];
                    return Kind.from({ length: count }, (_, index) =>
                        Number(target.memory.get(at + BigInt(index * size), size)));
                },
            },
        };
        return strict(api, "host");
    }

    // The commands of the script, each answering what it prints.
    load(path) {
        const context = vm.createContext({ host: this.api() });
        vm.runInContext(fs.readFileSync(path, "utf8"), context, { filename: path });
        const records = vm.runInContext("initializeScript()", context);
        this.inside = (expression) => vm.runInContext(expression, context);
        this.version = records[0].version;
        return Object.fromEntries(records.slice(1).map(({ run, name }) => [name, (argument) => {
            this.output = "";
            run(argument);
            return this.output;
        }]));
    }
}

function modules(loaded) {
    const names = ["\\SystemRoot\\system32\\ntoskrnl.exe"];
    return (loaded ? [...names, "\\SystemRoot\\System32\\drivers\\halprof.sys"] : names)
        .map((Name) => ({ Name }));
}

// An object that has nothing but what it has.
function strict(object, name) {
    return new Proxy(object, {
        get: (from, key) => {
            if (!(key in from)) {
                throw new Error(`${name}.${String(key)} is not an API of the debugger`);
            }
            return from[key];
        },
    });
}

module.exports = { Target, Host };
