// The frames of the flame graph, as a tree. Frame 0 is the whole; a frame comes after the one around it.

const WHOLE = 0, PROCESS = 1, THREAD = 2, MODULE = 3, FUNCTION = 4, LINE = 5;

const newTree = () => ({ around: [-1], kinds: [WHOLE], keys: [0], inlined: [false], events: [0], samples: [0] });

const addFrame = (tree, around, kind, key, isInlined = false) => {
  tree.around.push(around);
  tree.kinds.push(kind);
  tree.keys.push(key);
  tree.inlined.push(isInlined);
  tree.events.push(0);
  tree.samples.push(0);
  return tree.kinds.length - 1;
};

const addTo = (tree, frame, events, samples) => {
  tree.events[frame] += events;
  tree.samples[frame] += samples;
};

// Links each frame to the frames within it, and says whether search finds it.
const linked = (tree) => {
  const count = tree.kinds.length;
  tree.first = new Int32Array(count).fill(-1);
  tree.next = new Int32Array(count).fill(-1);
  for (let frame = count - 1; frame > 0; frame -= 1) {
    tree.next[frame] = tree.first[tree.around[frame]];
    tree.first[tree.around[frame]] = frame;
  }
  return tree;
};

// The frames within one, those with the most events first.
const within = (tree, frame) => {
  const list = [];
  for (let inner = tree.first[frame]; inner !== -1; inner = tree.next[inner]) list.push(inner);
  return list.sort((a, b) => tree.events[b] - tree.events[a]);
};

// Processes, threads and functions as they were called; without call stacks modules, functions, what was
// inlined into them, and lines.
const callTree = (sums) => {
  const tree = newTree();
  const { source } = sums;
  addTo(tree, 0, sums.events, sums.samples);
  const processFrames = new Map();
  // By node, for one thread at a time.
  const events = new Float64Array(nodes.count + 1), samples = new Float64Array(nodes.count + 1);
  const frames = new Int32Array(nodes.count + 1), seen = new Int32Array(nodes.count + 1);
  let turn = 0;
  for (const [thread, rows] of sums.byThread) {
    turn += 1;
    const process = threads.processes[thread];
    if (!processFrames.has(process)) processFrames.set(process, addFrame(tree, 0, PROCESS, process));
    const processFrame = processFrames.get(process);
    const threadFrame = addFrame(tree, processFrame, THREAD, thread);
    const touched = [];
    for (const row of rows) {
      const node = places.nodes[source.places[row]];
      for (let n = node; n !== 0 && seen[n] !== turn; n = nodes.parents[n]) {
        seen[n] = turn;
        events[n] = samples[n] = 0;
        touched.push(n);
      }
      events[node] += source.events[row];
      samples[node] += source.samples[row];
      addTo(tree, threadFrame, source.events[row], source.samples[row]);
      addTo(tree, processFrame, source.events[row], source.samples[row]);
    }
    // A caller has a smaller number than what it calls.
    const order = Int32Array.from(touched).sort();
    if (data.has_stacks) {
      for (let at = order.length - 1; at >= 0; at -= 1) {
        const n = order[at], caller = nodes.parents[n];
        if (caller === 0) continue;
        events[caller] += events[n];
        samples[caller] += samples[n];
      }
      frames[0] = threadFrame;
      for (const n of order) {
        frames[n] = addFrame(tree, frames[nodes.parents[n]], FUNCTION, nodes.functions[n], nodes.isInlined[n] === 1);
        addTo(tree, frames[n], events[n], samples[n]);
      }
    } else {
      addPlaces(tree, threadFrame, source, rows);
    }
  }
  return linked(tree);
};

// What is in a thread without call stacks.
const addPlaces = (tree, threadFrame, source, rows) => {
  const inner = new Map();
  const frame = (around, kind, key, isInlined) => {
    const name = `${around} ${kind} ${key} ${isInlined}`;
    if (!inner.has(name)) inner.set(name, addFrame(tree, around, kind, key, isInlined));
    return inner.get(name);
  };
  const paths = new Map();
  const pathTo = (place) => {
    let at = frame(threadFrame, MODULE, functions.modules[places.functions[place]], false);
    const path = [at];
    const stack = [];
    for (let n = places.nodes[place]; n !== 0; n = nodes.parents[n]) stack.push(n);
    for (const n of stack.reverse()) {
      const f = nodes.functions[n];
      if (functions.names[f] !== null) path.push(at = frame(at, FUNCTION, f, nodes.isInlined[n] === 1));
    }
    if (places.lines[place] !== 0) path.push(frame(at, LINE, places.lines[place] - 1, false));
    return path;
  };
  for (const row of rows) {
    const place = source.places[row];
    if (!paths.has(place)) paths.set(place, pathTo(place));
    for (const one of paths.get(place)) addTo(tree, one, source.events[row], source.samples[row]);
  }
};

// Functions with what called them: of all functions, each where its own code was sampled; of one
// function with all that it called.
const callerTree = (sums, only) => {
  const tree = newTree();
  const { parents, functions: of } = nodes;
  let all = [];
  if (only === null) {
    const { byPlace } = sums;
    for (let p = 0; p < places.count; p += 1) {
      if (byPlace.samples[p] !== 0) all.push([places.nodes[p], places.functions[p], byPlace.events[p], byPlace.samples[p]]);
    }
  } else {
    for (let n = 1; n <= nodes.count; n += 1) {
      const events = sums.functions.within[n];
      if (events !== 0 && of[n] === only && !isOnPath(parents[n], only)) all.push([n, only, events, 0]);
    }
  }
  for (const [,, events, samples] of all) addTo(tree, 0, events, samples);
  // Narrower frames are not drawn, so they need no callers.
  const least = tree.events[0] / 20000;
  const open = [];
  const group = (around, list, functionOf) => {
    const frames = new Map();
    for (const one of list) {
      const f = functionOf(one);
      let known = frames.get(f);
      if (!known) frames.set(f, known = { frame: addFrame(tree, around, FUNCTION, f), list: [] });
      addTo(tree, known.frame, one[2], one[3]);
      known.list.push(one);
    }
    for (const known of frames.values()) if (tree.events[known.frame] > least) open.push(known);
  };
  group(0, all, (one) => one[1]);
  while (open.length !== 0) {
    const { frame, list } = open.pop();
    // A place of a stack that was cut is not its node's function, which called it.
    const called = list.map(([node, f, events, samples]) =>
      [of[node] === f ? parents[node] : node, 0, events, samples]);
    const more = called.filter(([node]) => node !== 0);
    for (const one of more) one[1] = of[one[0]];
    group(frame, more, (one) => one[1]);
  }
  return linked(tree);
};

// The names of a frame: whole, and as it fits into so many letters.
const nameOf = (tree, frame) => {
  const key = tree.keys[frame];
  switch (tree.kinds[frame]) {
    case PROCESS: return data.processes[key];
    case THREAD: return threads.names[key];
    case MODULE: return data.modules[key];
    case FUNCTION: return qualified(key) + (tree.inlined[frame] ? " (inlined)" : "");
    case LINE: return data.lines[key];
  }
  return "all";
};

const labelOf = (tree, frame, letters) => {
  if (tree.kinds[frame] !== FUNCTION) return nameOf(tree, frame);
  const label = fitted(tree.keys[frame], letters);
  return tree.inlined[frame] && label.length + 10 <= letters ? `${label} (inlined)` : label;
};

// A frame by the frames around it, so that it is found again when the sums change.
const pathOf = (tree, frame) => {
  const path = [];
  for (let at = frame; at > 0; at = tree.around[at]) path.push(`${tree.kinds[at]} ${tree.keys[at]} ${tree.inlined[at]}`);
  return path.reverse();
};

const frameAt = (tree, path) => {
  let at = 0;
  for (const step of path) {
    let inner = tree.first[at];
    while (inner !== -1 && `${tree.kinds[inner]} ${tree.keys[inner]} ${tree.inlined[inner]}` !== step) inner = tree.next[inner];
    if (inner === -1) return 0;
    at = inner;
  }
  return at;
};

// Which frames match the search, and the events of samples that are in any of them.
const matches = (tree, search) => {
  const count = tree.kinds.length;
  const hits = new Uint8Array(count), inHit = new Uint8Array(count);
  const wanted = search.trim().toLowerCase();
  let events = 0, frames = 0;
  if (wanted === "") return null;
  const known = new Map();
  const isHit = (frame) => {
    const key = `${tree.kinds[frame]} ${tree.keys[frame]}`;
    if (!known.has(key)) known.set(key, nameOf(tree, frame).toLowerCase().includes(wanted));
    return known.get(key);
  };
  for (let frame = 1; frame < count; frame += 1) {
    const around = tree.around[frame];
    if (isHit(frame)) {
      hits[frame] = 1;
      frames += 1;
      if (!inHit[around]) events += tree.events[frame];
    }
    inHit[frame] = hits[frame] || inHit[around];
  }
  return { hits, events, frames };
};
