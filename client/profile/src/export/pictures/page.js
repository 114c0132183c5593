"use strict";
// The table is sorted by a click on a column's name, and filtered together with the flame graphs.
(() => {
  const table = document.getElementById("places");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => ({ row, text: row.textContent.toLowerCase() }));
  const heads = [...table.tHead.rows[0].cells];

  const key = (row, column) => {
    const cell = row.cells[column];
    return "key" in cell.dataset ? Number(cell.dataset.key) : cell.textContent;
  };
  const sort = (column) => {
    const head = heads[column];
    const isNumber = head.classList.contains("number");
    const was = head.getAttribute("aria-sort");
    // Numbers begin with the most, names with A.
    const now = was ? (was === "ascending" ? "descending" : "ascending") : (isNumber ? "descending" : "ascending");
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", now);
    const sign = now === "ascending" ? 1 : -1;
    const compare = isNumber ? (a, b) => a - b : (a, b) => a.localeCompare(b);
    const keyed = rows.map(({ row }) => ({ row, key: key(row, column) }));
    keyed.sort((a, b) => sign * compare(a.key, b.key));
    body.append(...keyed.map(({ row }) => row));
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(column));
    head.replaceChildren(button);
  });

  const input = document.getElementById("filter");
  const count = document.getElementById("count");
  const names = [...document.querySelectorAll("svg.f")].map((frame) => ({
    frame,
    // The label of a narrow frame is a part of its name. A name may have a colon: `[thunk]: f`.
    text: frame.querySelector("title").textContent.split(": ").slice(0, -1).join(": ").toLowerCase(),
  }));
  const filter = () => {
    const wanted = input.value.trim().toLowerCase();
    let shown = 0, marked = 0;
    for (const { row, text } of rows) {
      row.hidden = !text.includes(wanted);
      if (!row.hidden) shown += 1;
    }
    for (const { frame, text } of names) {
      const isHit = wanted !== "" && text.includes(wanted);
      frame.classList.toggle("hit", isHit);
      if (isHit) marked += 1;
    }
    count.textContent = wanted ? `${marked} frames, ${shown} of ${rows.length} rows` : "";
  };
  input.addEventListener("input", filter);
  input.closest("p").hidden = false;
  filter();
})();
