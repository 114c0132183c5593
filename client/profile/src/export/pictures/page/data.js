// The samples and their names, as the element `data` has them: see page/data.rs.

// A column of numbers: one number stands for all rows; else seven bits a byte, the lowest first, in
// base64.
const column = (written, count, Kind = Int32Array) => {
  const numbers = new Kind(count);
  if (typeof written === "number") return numbers.fill(written);
  const bytes = atob(written);
  let at = 0;
  for (let row = 0; row < count; row += 1) {
    let byte = bytes.charCodeAt(at++), number = byte & 127, size = 128;
    while (byte > 127) {
      byte = bytes.charCodeAt(at++);
      // Numbers may be longer than the 32 bits that a shift has.
      number += (byte & 127) * size;
      size *= 128;
    }
    numbers[row] = number;
  }
  return numbers;
};

const data = JSON.parse(byId("data").textContent);

// The modes of the processor, as samples have them.
const MODES = { unknown: 0, user: 1, kernel: 2 };

const functions = (() => {
  const { modules, modes, names, shorter } = data.functions;
  const count = names.length;
  return { count, names, shorter, modules: column(modules, count), modes: column(modes, count) };
})();

// The nodes of call stacks from 1 on, each directly before what it calls; 0 is the root.
const nodes = (() => {
  const { count, up, functions: functionOf, inlined } = data.nodes;
  const ups = column(up, count), own = column(functionOf, count), inlines = column(inlined, count);
  const parents = new Int32Array(count + 1), names = new Int32Array(count + 1).fill(-1);
  const isInlined = new Uint8Array(count + 1);
  const path = [0];
  for (let n = 1; n <= count; n += 1) {
    path.length -= ups[n - 1];
    parents[n] = path[path.length - 1];
    path.push(n);
    names[n] = own[n - 1];
    isInlined[n] = inlines[n - 1];
  }
  return { count, parents, functions: names, isInlined };
})();

const places = (() => {
  const { count, nodes: of, functions: own, lines, modes } = data.places;
  return {
    count, nodes: column(of, count), functions: column(own, count),
    lines: column(lines, count), modes: column(modes, count),
  };
})();

const threads = (() => {
  const { processes, names } = data.threads;
  return { count: names.length, names, processes: column(processes, names.length) };
})();

// The samples of each source, in order of time.
const sources = data.sources.map((source) => {
  const { count } = source;
  const times = column(source.times, count, Float64Array);
  for (let row = 1; row < count; row += 1) times[row] += times[row - 1];
  const processors = column(source.processors, count, Uint32Array);
  return {
    ...source, times, processors,
    threads: column(source.threads, count),
    places: column(source.places, count),
    samples: column(source.samples, count, Float64Array),
    events: column(source.events, count, Float64Array),
    processorNumbers: [...new Set(processors)].sort((a, b) => a - b),
  };
});

const moduleOf = (f) => data.modules[functions.modules[f]];

// The function as every table of halprof prints it.
const qualify = (module, name) => {
  if (name === null) return module;
  return name.startsWith(`${module}+0x`) ? name : `${module}!${name}`;
};
const qualifiedNames = new Array(functions.count);
const qualified = (f) => qualifiedNames[f] ??= qualify(moduleOf(f), functions.names[f]);

// The longest form of a function's name in so many letters; its own name if none is so short. The
// colour stands for the module.
const fitted = (f, letters) => {
  const name = functions.names[f];
  if (name === null) return moduleOf(f);
  if (name.length <= letters) return name;
  const forms = functions.shorter[f];
  return forms.find((form) => form.length <= letters) ?? forms[forms.length - 1] ?? name;
};

// The colour of each module: those with the most samples have one of their own. The kernel has another.
const COLOURS = 16, USER = MODES.user, KERNEL = MODES.kernel;
const colours = (() => {
  const modes = data.modules.map(() => new Set());
  for (let f = 0; f < functions.count; f += 1) modes[functions.modules[f]].add(functions.modes[f]);
  let next = 0;
  return modes.map((has) => has.has(USER) ? `m${next++ % COLOURS}` : has.has(KERNEL) ? "k" : "x");
})();
const colourOf = (f) => {
  if (functions.modes[f] === KERNEL) return "k";
  return functions.modes[f] === USER ? colours[functions.modules[f]] : "x";
};

// An amount of a source in words: events, or the processor time that they are.
const amountCell = (source, events) => {
  if (source.time === null) return thousands(events);
  const microseconds = Math.floor(events * source.time / 1e12);
  const digits = { minimumFractionDigits: 6, maximumFractionDigits: 6 };
  return `${(microseconds / 1e6).toLocaleString("en-US", digits)} s`;
};
const amount = (source, events) => amountCell(source, events) + (source.time === null ? " events" : "");
