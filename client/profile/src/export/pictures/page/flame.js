// The flame graph: what is chosen, by what called it; inverted, each function by its callers.

const ROW = 20, LETTER = 6.6;
// In pixels: the least width of a frame, and of one frame in each row.
const NARROWEST = 0.6, VISIBLE = 2;
const flame = byId("flame");
let sums = null;
let tree = null;
// The frames that are drawn, in order of rows and from left to right.
let drawn = [];

const colourOfFrame = (frame) => {
  switch (tree.kinds[frame]) {
    case WHOLE: case PROCESS: return "p";
    case THREAD: return "t";
    case MODULE: return colours[tree.keys[frame]];
    case FUNCTION: return colourOf(tree.keys[frame]);
  }
  return colourOfFrame(tree.around[frame]);
};

const describe = (frame) => {
  const { source } = sums;
  const samples = tree.samples[frame] === 0 ? "" : `, ${thousands(tree.samples[frame])} samples`;
  return `${nameOf(tree, frame)}: ${amount(source, tree.events[frame])}, ${percent(tree.events[frame], tree.events[0])}${samples}`;
};

const drawFlame = () => {
  const zoomed = frameAt(tree, state.zoom);
  const focused = flame.contains(document.activeElement) ? document.activeElement.dataset.path : null;
  const found = matches(tree, state.search);
  const width = Math.max(1, flame.clientWidth);
  drawn = [];
  let deepest = 0, hidden = 0;
  const fragment = document.createDocumentFragment();
  const frame = (own, x, part, depth, isAround) => {
    const element = make("div", `frame ${colourOfFrame(own)}`);
    const pixels = part * width;
    element.style.left = `${x * 100}%`;
    element.style.width = `${part * 100}%`;
    element.style.top = `${depth * ROW}px`;
    const letters = Math.floor((pixels - 8) / LETTER);
    if (letters >= 3) element.textContent = labelOf(tree, own, letters);
    element.setAttribute("role", "treeitem");
    element.setAttribute("aria-level", depth + 1);
    element.setAttribute("aria-label", describe(own));
    element.tabIndex = -1;
    if (isAround) element.classList.add("around");
    if (found) element.classList.add(found.hits[own] ? "hit" : "dim");
    drawn.push({ own, element, x, part, depth });
    element.dataset.frame = drawn.length - 1;
    fragment.append(element);
    deepest = Math.max(deepest, depth + 1);
  };
  const path = [];
  for (let at = zoomed; at > 0; at = tree.around[at]) path.unshift(at);
  path.forEach((own, depth) => frame(own, 0, 1, depth, own !== zoomed));
  const whole = tree.events[zoomed];
  let row = [[zoomed, 0]];
  // Rows without a frame of two pixels end the graph: they are seen when a frame is wide.
  let isSeen = true;
  for (let depth = path.length; isSeen; depth += 1) {
    const next = [];
    isSeen = false;
    for (const [around, left] of row) {
      let x = left;
      for (const own of within(tree, around)) {
        const part = tree.events[own] / whole;
        if (part * width < NARROWEST) {
          hidden += 1;
          continue;
        }
        isSeen ||= part * width >= VISIBLE;
        frame(own, x, part, depth, false);
        next.push([own, x]);
        x += part;
      }
    }
    row = next;
  }
  hover(null);
  flame.replaceChildren(fragment);
  flame.style.height = `${Math.max(1, deepest) * ROW}px`;
  if (drawn.length !== 0) {
    for (const one of drawn) one.element.dataset.path = pathOf(tree, one.own).join("/");
    const again = focused === null ? null : drawn.find(({ element }) => element.dataset.path === focused);
    const first = again ?? drawn[Math.max(0, path.length - 1)];
    first.element.tabIndex = 0;
    if (focused !== null) first.element.focus();
  }
  byId("narrow").textContent = [
    sums.samples === 0 ? "No samples are chosen." : "",
    hidden === 0 ? "" : `${thousands(hidden)} frames are too narrow to be drawn; a click on one around them makes room.`,
    data.cut === 0 ? "" : `${thousands(data.cut)} samples have stacks so rare that their outer functions alone are kept: see (rare stacks).`,
  ].filter(Boolean).join(" ");
  byId("reset").hidden = zoomed === 0 && !(state.isInverted && state.isOfSelected);
  byId("matched").textContent = found
    ? `Matched: ${percent(found.events, tree.events[0])} of what is shown, in ${thousands(found.frames)} ${found.frames === 1 ? "frame" : "frames"}`
    : "";
};

const NOTHING = "Point at a frame, or move to it by the arrow keys: its name and its numbers are shown here.";
const hover = (one) => {
  const line = byId("hover");
  line.textContent = one === null ? NOTHING : describe(one.own);
  line.title = one === null ? "" : line.textContent;
};
const drawnOf = (event) => drawn[event.target.closest?.(".frame")?.dataset.frame] ?? null;

flame.addEventListener("mouseover", (event) => hover(drawnOf(event)));
flame.addEventListener("mouseleave", () => hover(null));
flame.addEventListener("focusin", (event) => hover(drawnOf(event)));

// A frame becomes as wide as the graph; what is so already gives way to what is around it. Its function is
// that of the details.
const zoomTo = ({ own }) => {
  const path = pathOf(tree, own);
  const isZoomed = path.join("/") === state.zoom.join("/");
  const selected = tree.kinds[own] === FUNCTION ? tree.keys[own] : state.selected;
  choose({ zoom: isZoomed ? [] : path, selected });
};
flame.addEventListener("click", (event) => {
  const one = drawnOf(event);
  if (one) zoomTo(one);
});

// The frame that a key leads to.
const neighbour = (one, key) => {
  const row = (depth) => drawn.filter((other) => other.depth === depth);
  const bit = 1e-9;
  const holds = (outer, inner) => outer.x < inner.x + bit && outer.x + outer.part > inner.x + inner.part - bit;
  const [less, more] = [row(one.depth - 1), row(one.depth + 1)];
  switch (key) {
    case "ArrowUp": return less.find((other) => holds(other, one));
    case "ArrowDown": return more.find((other) => holds(one, other));
    case "ArrowLeft": return row(one.depth).filter((other) => other.x < one.x).pop();
    case "ArrowRight": return row(one.depth).find((other) => other.x > one.x);
  }
};
flame.addEventListener("keydown", (event) => {
  const one = drawnOf(event);
  if (!one) return;
  const to = neighbour(one, event.key);
  if (to) {
    one.element.tabIndex = -1;
    to.element.tabIndex = 0;
    to.element.focus();
  } else if (event.key === "Enter" || event.key === " ") zoomTo(one);
  else if (!event.key.startsWith("Arrow")) return;
  event.preventDefault();
});

const drawLegend = () => {
  const used = new Map();
  for (let f = 0; f < functions.count; f += 1) {
    const events = sums.functions.own[f];
    if (events > 0) add(used, functions.modes[f] === KERNEL ? -1 : functions.modules[f], events);
  }
  const entries = mostFirst(used).slice(0, COLOURS).map(([m]) => {
    const swatch = make("span", `swatch ${m === -1 ? "k" : colours[m]}`);
    return make("span", "entry", swatch, m === -1 ? "the kernel" : data.modules[m]);
  });
  byId("legend").replaceChildren(...entries);
};

const describeFlame = () => {
  const invert = byId("invert"), callers = byId("callers");
  invert.setAttribute("aria-pressed", state.isInverted && !state.isOfSelected);
  invert.hidden = !data.has_stacks && !data.has_inlined;
  callers.hidden = invert.hidden || state.selected === null;
  callers.setAttribute("aria-pressed", state.isInverted && state.isOfSelected);
  if (state.selected !== null) callers.textContent = `Callers of ${fitted(state.selected, 40)}`;
  const levels = data.has_stacks ? "processes, threads, and functions with what they called below them"
    : data.has_inlined ? "processes, threads, modules, functions, what was inlined into them, and lines"
      : "processes, threads, modules, functions and lines";
  const below = "below each function what called it";
  byId("graph-about").textContent = !state.isInverted ? `From the top: ${levels}. A click or Enter zooms, Escape goes back.`
    : state.isOfSelected ? `The calls of ${qualified(state.selected)}: ${below}. Escape goes back.`
      : `The functions in which samples were taken; ${below}. Escape goes back.`;
};

const makeTree = () => {
  tree = state.isInverted ? callerTree(sums, state.isOfSelected ? state.selected : null) : callTree(sums);
};

byId("invert").addEventListener("click", () => {
  choose({ isInverted: !state.isInverted || state.isOfSelected, isOfSelected: false, zoom: [] });
});
byId("callers").addEventListener("click", () => {
  const isOn = state.isInverted && state.isOfSelected;
  choose({ isInverted: !isOn, isOfSelected: !isOn, zoom: [] });
});
byId("reset").addEventListener("click", () => {
  choose(state.zoom.length !== 0 ? { zoom: [] } : { isInverted: false, isOfSelected: false, zoom: [] });
});

const SUMMED = ["source", "process", "thread", "processor", "from", "to"];
listeners.push((changed) => {
  const isSummed = SUMMED.some((key) => changed.has(key));
  if (isSummed) sums = sumUp();
  const isOther = changed.has("isInverted") || changed.has("isOfSelected") || state.isOfSelected && changed.has("selected");
  if (isSummed || isOther) makeTree();
  if (isSummed || isOther || changed.has("zoom") || changed.has("search")) drawFlame();
  if (isSummed) drawLegend();
  if (isSummed || isOther || changed.has("selected")) describeFlame();
});
new ResizeObserver(() => tree && drawFlame()).observe(flame);
