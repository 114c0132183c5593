// The time line: a lane for each source, process, thread and processor, and the range that is chosen.

const WIDTH = 1000;
// A lane's rates are mostly chance if the busiest has fewer samples in a bin.
const SAMPLES_IN_BIN = 10;
const BINS_MAX = 200;
// How many processes and processors are shown at first, and the share below which one is not.
const LANES_FIRST = 8;
const LEAST_SHARE = 0.005;

const lanes = byId("lanes");
// What the reader opened: groups in full, and the threads of processes.
const opened = new Set(data.open_lanes === "processor" ? ["processors"] : []);

// The rates of each thread, process and processor of a source.
const ratesOf = (() => {
  const known = [];
  return (index) => known[index] ??= computeRates(sources[index]);
})();

const computeRates = (source) => {
  const { count, times } = source;
  const countOf = new Map();
  for (let row = 0; row < count; row += 1) add(countOf, threads.processes[source.threads[row]], source.samples[row]);
  const busiest = mostFirst(countOf)[0]?.[1] ?? 1;
  const bins = Math.max(1, Math.min(BINS_MAX, Math.floor(busiest / SAMPLES_IN_BIN)));
  const groups = { all: new Map(), processes: new Map(), threads: new Map(), processors: new Map() };
  const lane = (group, key) => {
    if (!group.has(key)) group.set(key, { key, events: 0, rates: [new Float64Array(bins), new Float64Array(bins), new Float64Array(bins)] });
    return group.get(key);
  };
  const binNs = END_NS / bins;
  // Nanoseconds of processor time in a nanosecond are processors.
  const unit = source.time === null ? 1e9 / binNs : source.time / 1e9 / binNs;
  const spread = (row, begin) => {
    const thread = source.threads[row], mode = places.modes[source.places[row]];
    const own = [lane(groups.all, 0), lane(groups.processes, threads.processes[thread]),
      lane(groups.threads, thread), lane(groups.processors, source.processors[row])];
    const rate = source.events[row] * unit;
    for (const one of own) one.events += source.events[row];
    const from = begin / binNs, to = times[row] / binNs;
    // What happened before the first sample is left of the first bin.
    let bin = Math.max(0, Math.min(bins - 1, Math.floor(from)));
    do {
      const part = to > from ? (Math.min(to, bin + 1) - Math.max(from, bin)) / (to - from) : 1;
      for (const one of own) one.rates[mode][bin] += rate * part;
      bin += 1;
    } while (bin < to && bin < bins);
  };
  // The events of a sample happened since the one before on its processor; those of the first took as long
  // as those of the second. A sample of time is at most as long as it says.
  const last = new Map();
  for (let row = 0; row < count; row += 1) {
    const processor = source.processors[row], time = times[row];
    const before = last.get(processor);
    last.set(processor, { row, isFirst: before === undefined });
    if (before === undefined) continue;
    const own = source.time === null ? Infinity : source.events[row] * source.time / 1e9;
    const length = Math.min(own, time - times[before.row]);
    if (before.isFirst) spread(before.row, times[before.row] - length);
    spread(row, time - length);
  }
  for (const { row, isFirst } of last.values()) if (isFirst) spread(row, times[row]);
  const highest = (group) => {
    let most = 0;
    for (const { rates: [a, b, c] } of group.values()) {
      for (let bin = 0; bin < bins; bin += 1) most = Math.max(most, a[bin] + b[bin] + c[bin]);
    }
    return most;
  };
  const most = Object.fromEntries(Object.entries(groups).map(([name, group]) => [name, highest(group)]));
  // A processor cannot be used more than whole.
  if (source.time !== null) most.processors = most.threads = 1;
  return { bins, binNs, groups, most };
};

const rateText = (source, rate) => source.time === null ? `${si(rate)}/s` : `${short(rate)} processors`;

const LAYERS = [[MODES.user, "user"], [MODES.kernel, "kernel"], [MODES.unknown, "unknown"]];

// The drawing of a lane: its modes one on top of the other, up to the highest rate.
const drawRates = (rates, bins, most, height) => {
  const svg = makeSvg(WIDTH, height, "rates");
  const below = new Float64Array(bins);
  const x = (bin) => (bin / bins * WIDTH).toFixed(1), y = (rate) => (height - rate / most * height).toFixed(2);
  for (const [mode, name] of LAYERS) {
    let path = "";
    for (let bin = 0; bin < bins; bin += 1) {
      const rate = rates[mode][bin];
      if (rate === 0) continue;
      const over = Math.min(most, below[bin] + rate);
      path += `M${x(bin)} ${y(below[bin])}V${y(over)}H${x(bin + 1)}V${y(below[bin])}Z`;
      below[bin] = over;
    }
    if (path !== "") addShape(svg, "path", { class: name, d: path });
  }
  addShape(svg, "rect", { class: "outside before", x: 0, y: 0, width: 0, height });
  addShape(svg, "rect", { class: "outside after", x: WIDTH, y: 0, width: 0, height });
  return svg;
};

// A row of the time line. `choice` is what a click on its name chooses.
const makeLane = (name, drawing, { choice, isChosen, opens, indent, value, peak }) => {
  const row = make("div", `lane${indent ? " inner" : ""}${isChosen ? " chosen" : ""}`);
  const label = make("span", "name");
  if (opens) {
    const isOpen = opened.has(opens);
    const opener = makeButton("opener", isOpen ? "▾" : "▸", () => {
      if (!opened.delete(opens)) opened.add(opens);
      drawLanes();
    });
    opener.setAttribute("aria-expanded", isOpen);
    opener.setAttribute("aria-label", `Threads of ${name}`);
    label.append(opener);
  }
  const button = makeButton("choice", name, () => choose(choice));
  button.title = name;
  button.setAttribute("aria-pressed", Boolean(isChosen));
  label.append(button);
  const plot = make("div", "plot", drawing);
  plot.title = peak;
  row.append(label, plot, make("span", "value", value));
  return row;
};

const makeHead = (text, button) => make("div", "head", make("h3", "", text), ...button ? [button] : []);

const drawLanes = () => {
  const focused = document.activeElement?.closest?.("#lanes .lane")?.querySelector(".choice").textContent;
  const rows = [];
  const source = sourceOf(), own = ratesOf(state.source);
  const inRange = laneSums();
  const share = (group, key) => percent(inRange[group].get(key) ?? 0, inRange.events);
  const peak = (text, most) => `The top of the lane is ${rateText(source, most)}. ${text}`;
  sources.forEach((one, index) => {
    const { bins, groups, most } = ratesOf(index);
    rows.push(makeLane(one.name, drawRates(groups.all.get(0).rates, bins, most.all, 48), {
      choice: { source: index }, isChosen: index === state.source,
      value: `max ${si(most.all)}${one.time === null ? "/s" : ""}`, peak: `${one.name}: at most ${rateText(one, most.all)}. ${one.meaning}`,
    }));
  });
  rows.push(makeAxis());
  const group = (name, key, nameLane, choiceOf, more) => {
    const list = [...own.groups[name].values()].sort(name === "processes" ? (a, b) => b.events - a.events : (a, b) => a.key - b.key);
    const all = own.groups.all.get(0).events;
    const isOpen = opened.has(name);
    // The processors are few enough, or the group is closed.
    const first = name === "processes"
      ? list.filter(({ events }, index) => index < LANES_FIRST && events >= all * LEAST_SHARE)
      : list.length <= LANES_FIRST ? list : [];
    const shown = isOpen ? list : first;
    const hidden = list.length - first.length;
    const fold = hidden === 0 ? null : makeButton("", isOpen ? "Show fewer" : `Show ${hidden} more`, () => {
      if (!opened.delete(name)) opened.add(name);
      drawLanes();
    });
    fold?.setAttribute("aria-expanded", isOpen);
    rows.push(makeHead(name === "processes" ? `Processes (${list.length}), by use` : `Processors (${list.length})`, fold));
    for (const lane of shown) {
      rows.push(makeLane(nameLane(lane.key), drawRates(lane.rates, own.bins, own.most[name], 26), {
        choice: choiceOf(lane.key), isChosen: state[key] === lane.key, value: share(name, lane.key),
        peak: peak("The lanes of a group have one scale.", own.most[name]), ...more?.(lane.key),
      }));
      if (name === "processes" && opened.has(`process ${lane.key}`)) rows.push(...threadLanes(lane.key));
    }
  };
  const threadLanes = (process) => {
    const list = [...own.groups.threads.values()].filter(({ key }) => threads.processes[key] === process);
    return list.sort((a, b) => b.events - a.events).map(({ key, rates }) =>
      makeLane(threads.names[key], drawRates(rates, own.bins, own.most.threads, 20), {
        choice: { thread: state.thread === key ? null : key, process: null }, isChosen: state.thread === key,
        indent: true, value: share("threads", key), peak: peak("The lanes of threads have one scale.", own.most.threads),
      }));
  };
  const threadCounts = new Map();
  for (const key of own.groups.threads.keys()) add(threadCounts, threads.processes[key], 1);
  group("processes", "process", (key) => data.processes[key],
    (key) => ({ process: state.process === key ? null : key, thread: null }),
    (key) => ({ opens: threadCounts.get(key) > 1 ? `process ${key}` : null }));
  group("processors", "processor", (key) => `processor ${key}`,
    (key) => ({ processor: state.processor === key ? null : key }));
  lanes.replaceChildren(...rows);
  if (focused) [...lanes.querySelectorAll(".choice")].find((button) => button.textContent === focused)?.focus();
  showRange(...hasRange() ? rangeOf() : [null, null]);
  describeTime(own);
};

// The events of each lane in the range, of whatever process, thread or processor is chosen.
const laneSums = () => {
  const source = sourceOf();
  const [from, to] = rangeOf();
  const sums = { events: 0, processes: new Map(), threads: new Map(), processors: new Map() };
  const end = rowAt(source.times, to);
  for (let row = rowAt(source.times, from); row < end; row += 1) {
    const events = source.events[row], thread = source.threads[row];
    sums.events += events;
    add(sums.threads, thread, events);
    add(sums.processors, source.processors[row], events);
  }
  for (const [thread, events] of sums.threads) add(sums.processes, threads.processes[thread], events);
  return sums;
};

const makeAxis = () => {
  const plot = make("div", "plot axis");
  const [unit, size] = unitOf(END_NS);
  const ticks = Math.max(2, Math.min(10, Math.floor(lanes.clientWidth / 110)));
  const step = stepOf(END_NS, ticks);
  for (let time = 0; time < END_NS * 0.96; time += step) {
    const tick = make("span", "", short(time / size));
    tick.style.left = `${time / END_NS * 100}%`;
    plot.append(tick);
  }
  return make("div", "lane", make("span", "name", `time since the first sample, ${unit}`), plot,
    make("span", "value end", `end: ${duration(data.end_ns)}`));
};

const describeTime = ({ binNs }) => {
  const source = sourceOf();
  const what = source.time === null ? "Events a second" : "Processors in use";
  const more = data.caveats.map((caveat) => ` ${caveat[0].toUpperCase()}${caveat.slice(1)}.`).join("");
  const meaning = source.meaning ? `${source.name}: ${source.meaning.replace(/[.]?$/, ".")} ` : "";
  byId("time-about").textContent = `${meaning}${what}, estimated from samples, in bins of ${duration(binNs)}; blue: user code, `
    + `orange: the kernel. Drag over a lane to choose a range of time; Escape leaves it. The last sample is at ${duration(data.end_ns)}.${more}`;
};

// Greys what is outside of a range.
const showRange = (from, to) => {
  const x = (time) => Math.max(0, Math.min(WIDTH, time / END_NS * WIDTH));
  for (const svg of lanes.querySelectorAll("svg.rates")) {
    svg.querySelector(".before").setAttribute("width", from === null ? 0 : x(from));
    const after = svg.querySelector(".after");
    after.setAttribute("x", from === null ? WIDTH : x(to));
    after.setAttribute("width", from === null ? 0 : WIDTH - x(to));
  }
};

// A time that has no more digits than the lane can show.
const rounded = (time, plotWidth) => {
  const step = 10 ** Math.floor(Math.log10(Math.max(1, END_NS / plotWidth)));
  return Math.round(time / step) * step;
};

let drag = null;
lanes.addEventListener("pointerdown", (event) => {
  const plot = event.target.closest(".plot");
  if (!plot || event.button !== 0) return;
  const box = plot.getBoundingClientRect();
  const timeAt = (x) => rounded(Math.max(0, Math.min(1, (x - box.left) / box.width)) * END_NS, box.width);
  drag = { begin: event.clientX, timeAt, isMoved: false };
  lanes.setPointerCapture(event.pointerId);
  event.preventDefault();
});
const dragged = (event) => {
  const [from, to] = [drag.timeAt(drag.begin), drag.timeAt(event.clientX)].sort((a, b) => a - b);
  return [from, Math.min(to, END_NS)];
};
lanes.addEventListener("pointermove", (event) => {
  if (!drag) return;
  drag.isMoved ||= Math.abs(event.clientX - drag.begin) > 3;
  if (drag.isMoved) showRange(...dragged(event));
});
lanes.addEventListener("pointerup", (event) => {
  if (!drag) return;
  const [from, to] = dragged(event);
  const { isMoved } = drag;
  drag = null;
  if (isMoved && to > from) choose({ from, to });
});
const leaveDrag = () => {
  if (!drag) return false;
  drag = null;
  showRange(...hasRange() ? rangeOf() : [null, null]);
  return true;
};
lanes.addEventListener("pointercancel", leaveDrag);

listeners.push((changed) => {
  if (["source", "process", "thread", "processor", "from", "to"].some((key) => changed.has(key))) drawLanes();
});
