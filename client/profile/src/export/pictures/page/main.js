// The controls, and the beginning.

const controls = { source: byId("source"), search: byId("search"), from: byId("from"), to: byId("to") };

sources.forEach(({ name }, index) => controls.source.add(new Option(name, index)));
controls.source.addEventListener("change", () => choose({ source: Number(controls.source.value) }));
controls.search.addEventListener("input", () => choose({ search: controls.search.value }));

// Seconds, as they are typed, in nanoseconds.
const typed = (input, missing) => input.value === "" ? missing : Math.round(Number(input.value) * 1e9);
const chooseTyped = () => {
  const from = Math.max(0, typed(controls.from, 0)), to = Math.min(END_NS, typed(controls.to, END_NS));
  if (from === 0 && to === END_NS) choose({ from: null, to: null });
  else if (to > from) choose({ from, to });
};
for (const input of [controls.from, controls.to]) input.addEventListener("change", chooseTyped);

const WHOLE_TIME = { from: null, to: null };
byId("whole").addEventListener("click", () => choose(WHOLE_TIME));

// What limits the samples, each with a button that takes it back.
const drawChosen = () => {
  const { process, thread, processor } = state;
  const chips = [
    ["process", process === null ? null : data.processes[process]],
    ["thread", thread === null ? null : `${threads.names[thread]} of ${data.processes[threads.processes[thread]]}`],
    ["processor", processor === null ? null : `processor ${processor}`],
  ].filter(([, name]) => name !== null).map(([key, name]) => {
    const chip = makeButton("chip", `${name} ×`, () => choose({ [key]: null }));
    chip.setAttribute("aria-label", `Show all again, not only ${name}`);
    return chip;
  });
  byId("chosen").replaceChildren(...chips);
};

const drawControls = () => {
  controls.source.value = state.source;
  const [from, to] = rangeOf();
  if (document.activeElement !== controls.from) controls.from.value = seconds(from);
  if (document.activeElement !== controls.to) controls.to.value = seconds(Math.min(to, data.end_ns));
  byId("whole").hidden = !hasRange();
  drawChosen();
  const { source } = sums;
  const exact = data.bin_ns === null ? "" : ` Times are exact to ${duration(data.bin_ns)}: there are too many samples to keep each.`;
  const period = source.period ? ` of period ${source.period}` : "";
  const unit = source.time === null ? "" : " of processor time";
  byId("shown").textContent = `Shown: ${amount(source, sums.events)}${unit}, estimated from ${thousands(sums.samples)} samples${period}`
    + `${hasRange() ? `, ${seconds(from)} to ${seconds(to)} s` : ""}.${exact}`;
  byId("flaws").replaceChildren(...data.flaws.map((flaw) => make("span", "flaw", flaw)));
  drawCommand();
};

// What prints the same in a terminal.
const drawCommand = () => {
  const quoted = (text) => /^[\w.,:+-]+$/.test(text) ? text : `"${text}"`;
  const parts = ["halprof report", quoted(data.title)];
  if (sources.length > 1) parts.push("--source", quoted(sourceOf().name));
  if (hasRange()) parts.push("--time", `${seconds(state.from)}-${seconds(state.to)}`);
  const process = state.process ?? (state.thread === null ? null : threads.processes[state.thread]);
  const idIn = (name) => /(\d+)\)?$/.exec(name)?.[1];
  if (process !== null) parts.push("--pid", idIn(data.processes[process]) ?? "?");
  if (state.thread !== null) parts.push("--tid", idIn(threads.names[state.thread]) ?? "?");
  if (state.processor !== null) parts.push("--cpu", String(state.processor));
  parts.push(data.has_inlined ? "--by inline" : "--by symbol");
  byId("command").textContent = parts.join(" ");
};

listeners.push((changed) => {
  if (SUMMED.some((key) => changed.has(key))) drawControls();
});

// Escape takes the last choice back: a range that is being dragged, the zoom, the callers of a function,
// the range.
document.addEventListener("keydown", (event) => {
  // In the search, it empties that.
  const empties = event.target === controls.search && controls.search.value !== "";
  if (event.key !== "Escape" || empties || leaveDrag()) return;
  if (state.zoom.length !== 0) choose({ zoom: [] });
  else if (state.isInverted) choose({ isInverted: false, isOfSelected: false });
  else if (hasRange()) choose(WHOLE_TIME);
});

byId("app").hidden = false;
for (const listener of listeners) listener(new Set(Object.keys(state)));
let lanesWidth = lanes.clientWidth;
addEventListener("resize", () => {
  if (lanes.clientWidth !== lanesWidth) drawLanes();
  lanesWidth = lanes.clientWidth;
});
