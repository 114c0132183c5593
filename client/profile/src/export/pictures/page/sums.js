// Sums of the samples that are chosen.

// The first row at or after a time.
const rowAt = (times, time) => {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
};

// The rows of the source that are chosen.
const chosenRows = () => {
  const source = sourceOf();
  const [from, to] = rangeOf();
  const begin = rowAt(source.times, from), end = rowAt(source.times, to);
  const { process, thread, processor } = state;
  const rows = new Uint32Array(end - begin);
  let count = 0;
  for (let row = begin; row < end; row += 1) {
    const own = source.threads[row];
    if (thread !== null && own !== thread) continue;
    if (process !== null && threads.processes[own] !== process) continue;
    if (processor !== null && source.processors[row] !== processor) continue;
    rows[count++] = row;
  }
  return rows.subarray(0, count);
};

// The sums by place, and those by thread and place: the rows of each thread one after the other.
const sumUp = () => {
  const source = sourceOf();
  const rows = chosenRows();
  const byPlace = { events: new Float64Array(places.count), samples: new Float64Array(places.count) };
  const byThread = new Map();
  let events = 0, samples = 0;
  for (const row of rows) {
    const place = source.places[row], own = source.threads[row];
    byPlace.events[place] += source.events[row];
    byPlace.samples[place] += source.samples[row];
    events += source.events[row];
    samples += source.samples[row];
    let list = byThread.get(own);
    if (!list) byThread.set(own, list = []);
    list.push(row);
  }
  return { source, events, samples, byPlace, byThread, functions: functionSums(byPlace) };
};

// The events in each function's own code, and with what it called. A sample counts once for a function,
// however often that is in its stack.
const functionSums = (byPlace) => {
  const { count, parents } = nodes;
  const own = new Float64Array(functions.count), total = new Float64Array(functions.count);
  const samples = new Float64Array(functions.count);
  const within = new Float64Array(count + 1);
  for (let p = 0; p < places.count; p += 1) {
    const events = byPlace.events[p];
    if (byPlace.samples[p] === 0) continue;
    const node = places.nodes[p], f = places.functions[p];
    within[node] += events;
    own[f] += events;
    samples[f] += byPlace.samples[p];
    // The stack of a rare one was cut before its function.
    if (nodes.functions[node] !== f && !isOnPath(node, f)) total[f] += events;
  }
  // A caller is before what it calls.
  for (let n = count; n > 0; n -= 1) within[parents[n]] += within[n];
  const onPath = new Int32Array(functions.count);
  const path = [0];
  for (let n = 1; n <= count; n += 1) {
    while (path[path.length - 1] !== parents[n]) onPath[nodes.functions[path.pop()]] -= 1;
    const f = nodes.functions[n];
    if (onPath[f] === 0) total[f] += within[n];
    onPath[f] += 1;
    path.push(n);
  }
  return { own, total, samples, within };
};

const isOnPath = (node, f) => {
  for (let n = node; n !== 0; n = nodes.parents[n]) if (nodes.functions[n] === f) return true;
  return false;
};

// The events of a function by what called it, and by what it called, most first. The caller of an
// outermost function is null. A sample counts once for a pair of functions.
const neighbours = (f, within) => {
  const callers = new Map(), callees = new Map();
  const { count, parents, functions: of } = nodes;
  const isRepeated = (node) => {
    const caller = of[parents[node]], callee = of[node];
    for (let n = parents[node]; n !== 0; n = parents[n]) {
      if (of[n] === callee && of[parents[n]] === caller) return true;
    }
    return false;
  };
  for (let n = 1; n <= count; n += 1) {
    if (within[n] === 0) continue;
    const isCallee = of[parents[n]] === f;
    if (of[n] !== f && !isCallee || isRepeated(n)) continue;
    if (of[n] === f) add(callers, parents[n] === 0 ? null : of[parents[n]], within[n]);
    if (isCallee) add(callees, of[n], within[n]);
  }
  return { callers: mostFirst(callers), callees: mostFirst(callees) };
};

const add = (sums, key, events) => sums.set(key, (sums.get(key) ?? 0) + events);
const mostFirst = (sums) => [...sums].filter(([, events]) => events > 0).sort((a, b) => b[1] - a[1]);

// The events of a function's own code by line.
const linesOf = (f, byPlace) => {
  const sums = new Map();
  for (let p = 0; p < places.count; p += 1) {
    if (places.functions[p] === f && places.lines[p] !== 0) add(sums, data.lines[places.lines[p] - 1], byPlace.events[p]);
  }
  return mostFirst(sums);
};
