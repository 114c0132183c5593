"use strict";

// A debugger's target whose memory a run of the driver has left: `memory-image` of tests/nt-model.

const fs = require("node:fs");
const path = require("node:path");
const { Target } = require("./target.js");

// Of the image's headers: "PE Format" at learn.microsoft.com.
const NEW_HEADER = 0x3cn;
const SECTIONS = 6n;
const OPTIONAL_HEADER_SIZE = 0x14n;
const OPTIONAL_HEADER = 0x18n;
const SECTION_SIZE = 0x28n;
const SECTION_ADDRESS = 0xcn;

class Recorded extends Target {
    constructor(pdb, folder) {
        super(pdb);
        const told = JSON.parse(fs.readFileSync(path.join(folder, "memory.json"), "utf8"));
        const bytes = fs.readFileSync(path.join(folder, "memory.bin"));
        this.image = BigInt(told.image);
        let from = 0;
        for (const { address, size } of told.ranges) {
            this.memory.fill(BigInt(address), bytes.subarray(from, from + size));
            from += size;
        }
    }

    // A symbol stands in a section, which the headers place.
    symbol(name) {
        const variable = this.pdb.variables.get(name);
        return variable && this.section(variable.section) + BigInt(variable.offset);
    }

    section(number) {
        const header = this.image + this.memory.get(this.image + NEW_HEADER, 4);
        const first = header + OPTIONAL_HEADER
            + this.memory.get(header + OPTIONAL_HEADER_SIZE, 2);
        if (BigInt(number) > this.memory.get(header + SECTIONS, 2)) {
            throw new Error(`the image has no section ${number}`);
        }
        const row = first + BigInt(number - 1) * SECTION_SIZE;
        return this.image + this.memory.get(row + SECTION_ADDRESS, 4);
    }
}

module.exports = { Recorded };
