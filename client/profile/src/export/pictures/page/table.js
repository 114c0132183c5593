// The functions of what is chosen, and the callers, callees and lines of one of them.

const metricRows = (() => {
  if (!data.metrics) return null;
  const byName = new Map(data.metrics.rows.map(([name, cells, values]) => [name, { cells, values }]));
  return Array.from({ length: functions.count }, (_, f) => byName.get(qualified(f)));
})();

// A column of the table: its name, what it is sorted by, and its cell.
const numeric = (name, of, text, kind = "number") => ({ name, isNumber: true, of, text, kind });
// Columns that a narrow window leaves out.
const AMOUNT = "number amount";
const COLUMNS = [
  numeric("Self %", (f) => sums.functions.own[f], (f) => percent(sums.functions.own[f], sums.events)),
  numeric("Self", (f) => sums.functions.own[f], (f) => amountCell(sums.source, sums.functions.own[f]), AMOUNT),
  ...data.has_stacks || data.has_inlined ? [
    numeric("Total %", (f) => sums.functions.total[f], (f) => percent(sums.functions.total[f], sums.events)),
    numeric("Total", (f) => sums.functions.total[f], (f) => amountCell(sums.source, sums.functions.total[f]), AMOUNT),
  ] : [],
  numeric("Samples", (f) => sums.functions.samples[f], (f) => thousands(sums.functions.samples[f]), AMOUNT),
  ...metricRows ? data.metrics.heads.map((name, index) => numeric(name,
    (f) => metricRows[f]?.values[index] ?? -Infinity, (f) => metricRows[f]?.cells[index] ?? "")) : [],
  { name: "Module", isNumber: false, of: moduleOf, text: moduleOf, kind: "module" },
  { name: "Function", isNumber: false, of: (f) => functions.names[f] ?? "", kind: "symbol" },
];

const table = byId("places");

const drawHead = () => {
  const cells = COLUMNS.map(({ name, isNumber, kind }) => {
    const head = make("th", kind);
    head.scope = "col";
    const { column: sorted, isAscending } = state.sort;
    if (sorted === name) head.setAttribute("aria-sort", isAscending ? "ascending" : "descending");
    head.append(makeButton("", name, () => {
      // Numbers begin with the most, names with A.
      const next = sorted === name ? !isAscending : !isNumber;
      choose({ sort: { column: name, isAscending: next } });
      [...table.tHead.rows[0].cells].find((cell) => cell.textContent === name).firstChild.focus();
    }));
    return head;
  });
  table.tHead.rows[0].replaceChildren(...cells);
};

const chosenFunctions = () => {
  const { samples, total } = sums.functions;
  const wanted = state.search.trim().toLowerCase();
  const list = [];
  for (let f = 0; f < functions.count; f += 1) {
    if (samples[f] !== 0 || total[f] !== 0) list.push(f);
  }
  const matching = wanted === "" ? list : list.filter((f) => qualified(f).toLowerCase().includes(wanted));
  const { of, isNumber } = COLUMNS.find(({ name }) => name === state.sort.column) ?? COLUMNS[0];
  const sign = state.sort.isAscending ? 1 : -1;
  const keys = new Map(matching.map((f) => [f, of(f)]));
  const compare = isNumber ? (a, b) => a === b ? 0 : a - b : (a, b) => a.localeCompare(b);
  matching.sort((a, b) => sign * compare(keys.get(a), keys.get(b)) || a - b);
  return [matching, list.length];
};

// A name of reasonable length. The details have all of it.
const NAME_MAX = 70;
const shownName = (f) => functions.names[f] === null ? "(no symbols)" : fitted(f, NAME_MAX);

// A function that can be selected, with the colour of its module.
const makeFunction = (f, name, selects) => {
  const button = makeButton("choice", name, () => choose({ selected: selects }));
  button.title = qualified(f);
  button.setAttribute("aria-pressed", f === state.selected);
  return make("div", "function", make("span", `swatch ${colourOf(f)}`), button);
};

// A bar that is as long as the largest one where it is the largest.
const makeBar = (part, most) => {
  const svg = makeSvg(100, 8, "bar");
  addShape(svg, "rect", { width: most > 0 ? (part / most * 100).toFixed(1) : 0, height: 8 });
  return svg;
};

const drawTable = () => {
  drawHead();
  const [list, all] = chosenFunctions();
  const most = Math.max(...[0], ...["own", "total"].map((kind) => sums.functions[kind].reduce((a, b) => Math.max(a, b), 0)));
  const rows = list.slice(0, state.rows).map((f) => {
    const row = make("tr", f === state.selected ? "selected" : "");
    row.dataset.function = f;
    row.append(...COLUMNS.map(({ name, of, text, kind }) => {
      const cell = make("td", kind);
      if (name === "Self %" || name === "Total %") cell.append(makeBar(of(f), most), make("span", "share", text(f)));
      else cell.append(name === "Function" ? makeFunction(f, shownName(f), state.selected === f ? null : f) : text(f));
      return cell;
    }));
    return row;
  });
  table.tBodies[0].replaceChildren(...rows);
  const more = byId("more");
  more.hidden = list.length <= state.rows;
  more.textContent = `Show ${thousands(Math.min(500, list.length - state.rows))} more`;
  const found = list.length === all ? thousands(all) : `${thousands(list.length)} of ${thousands(all)}`;
  const totals = data.has_stacks || data.has_inlined
    ? " Self: in the function's own code. Total: with what it called, each sample once. Bars are scaled to the largest." : " Bars are scaled to the largest.";
  const metrics = metricRows ? ` Metrics are of the whole recording, whatever is chosen. ${data.metrics.about}` : "";
  byId("where-about").textContent = `${found} functions. A click on a function shows its callers and callees.${totals}${metrics}`;
};

byId("more").addEventListener("click", () => choose({ rows: state.rows + 500 }));

// A list of functions or lines with their parts of a whole.
const makeList = (title, list, whole, nameOfKey, isFunction) => {
  const LIST_MAX = 12;
  const part = make("section", "", make("h4", "", title));
  const body = make("tbody");
  for (const [key, events] of list.slice(0, LIST_MAX)) {
    const name = nameOfKey(key);
    const link = isFunction && key !== null ? makeFunction(key, name, key) : name;
    body.append(make("tr", "", make("td", "number", makeBar(events, list[0][1]), make("span", "share", percent(events, whole))),
      make("td", "number", amountCell(sums.source, events)), make("td", "symbol", link)));
  }
  if (list.length === 0) part.append(make("p", "", "none"));
  else part.append(make("table", "", body));
  if (list.length > LIST_MAX) part.append(make("p", "", `and ${thousands(list.length - LIST_MAX)} more`));
  return part;
};

const drawDetails = () => {
  const details = byId("details"), f = state.selected;
  details.hidden = f === null;
  byId("where").classList.toggle("detailed", f !== null);
  if (f === null) return details.replaceChildren();
  const { own, total, within: withinNode } = sums.functions;
  const close = makeButton("close", "×", () => choose({ selected: null, isInverted: state.isInverted && !state.isOfSelected, isOfSelected: false }));
  close.setAttribute("aria-label", "Close");
  const parts = [close, make("h3", "", qualified(f)), make("p", "",
    `self ${amount(sums.source, own[f])}, ${percent(own[f], sums.events)}; total ${amount(sums.source, total[f])}, ${percent(total[f], sums.events)}`)];
  if (data.has_stacks || data.has_inlined) {
    const { callers, callees } = neighbours(f, withinNode);
    const name = (key) => key === null ? "(no caller known)" : qualify(moduleOf(key), functions.names[key] === null ? null : fitted(key, NAME_MAX));
    parts.push(makeList("Callers, with their parts of total", callers, total[f], name, true));
    parts.push(makeList("Callees, with their parts of total", callees, total[f], name, true));
  }
  const lines = linesOf(f, sums.byPlace);
  if (lines.length !== 0) parts.push(makeList("Lines, with their parts of self", lines, own[f], (line) => line, false));
  details.replaceChildren(...parts);
};

listeners.push((changed) => {
  const isSummed = SUMMED.some((key) => changed.has(key));
  if (isSummed || ["search", "sort", "rows"].some((key) => changed.has(key))) drawTable();
  else if (changed.has("selected")) {
    for (const row of table.tBodies[0].rows) {
      const isSelected = Number(row.dataset.function) === state.selected;
      row.classList.toggle("selected", isSelected);
      row.querySelector(".choice").setAttribute("aria-pressed", isSelected);
    }
  }
  if (isSummed || changed.has("selected")) drawDetails();
});
