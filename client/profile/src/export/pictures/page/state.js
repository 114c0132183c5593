// What the reader has chosen. Everything on the page follows it.

const state = {
  // The range of time, in nanoseconds; null for all of it. Its end is not part of it.
  from: null,
  to: null,
  source: 0,
  // The indexes of a process, a thread or a processor's number; null for all.
  process: null,
  thread: null,
  processor: null,
  search: "",
  isInverted: false,
  // The function whose callers and callees are shown.
  selected: null,
  // Whether the inverted flame graph is of that function alone.
  isOfSelected: false,
  // The frames from the outermost to the one that is as wide as the flame graph.
  zoom: [],
  // A column of the table, by name.
  sort: { column: "Self", isAscending: false },
  rows: 200,
};

const listeners = [];

// Changes what is chosen, and shows it.
const choose = (changes) => {
  const before = { ...state };
  Object.assign(state, changes);
  const changed = new Set(Object.keys(state).filter((key) => state[key] !== before[key]));
  if (changed.size !== 0) for (const listener of listeners) listener(changed);
};

const hasRange = () => state.from !== null;
const sourceOf = () => sources[state.source];

// `--time A-B` of the command line counts from A up to but not including B. A range that ends with the
// last sample has it.
const END_NS = data.end_ns + 1;
const rangeOf = () => hasRange() ? [state.from, state.to] : [0, END_NS];
