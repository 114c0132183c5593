"use strict";
// A click on a frame of a flame graph makes it as wide as the picture, another click on it shows all.
// The arrow keys lead from frame to frame, Enter is a click, and Escape shows all.
(() => {
  const left = 76, room = 1108, row = 24, visible = 0.002, bit = 1e-6;
  const all = [...document.querySelectorAll("svg.f")].map((frame) => ({
    frame,
    picture: frame.parentNode,
    x: Number(frame.dataset.x),
    w: Number(frame.dataset.w),
    y: Number(frame.getAttribute("y")),
    letters: Math.min(8, frame.querySelector("text").textContent.length),
  }));
  const whole = { x: 0, w: 1 };
  const zoomed = new Map();
  const resetOf = (picture) => picture.closest("section")?.querySelector(".reset");
  const zoom = (picture, to) => {
    zoomed.set(picture, to);
    let deepest = 0;
    for (const one of all) {
      if (one.picture !== picture) continue;
      const begin = Math.max(0, (one.x - to.x) / to.w);
      const end = Math.min(1, (one.x + one.w - to.x) / to.w);
      const width = Math.max(0, end - begin);
      one.frame.setAttribute("x", left + begin * room);
      one.frame.setAttribute("width", width * room);
      one.frame.classList.toggle("n", width * room < 8 + 6.5 * one.letters);
      one.frame.classList.toggle("gone", width < bit);
      if (width > visible) deepest = Math.max(deepest, one.y + row);
      one.frame.classList.toggle("around", one.w > to.w * (1 + bit) && width > 1 - bit);
    }
    if (picture.classList.contains("picture")) picture.setAttribute("viewBox", `0 0 1200 ${deepest}`);
    const reset = resetOf(picture);
    if (reset) reset.hidden = to === whole;
  };
  const toggle = (one) => zoom(one.picture, zoomed.get(one.picture) === one ? whole : one);
  // Frames of a row are in order.
  const next = (one, key) => {
    const near = (rows) => all.filter((other) => other.picture === one.picture &&
      other.y === one.y + rows * row && !other.frame.classList.contains("gone"));
    const holds = (outer, inner) => outer.x < inner.x + bit && outer.x + outer.w > inner.x + inner.w - bit;
    switch (key) {
      case "ArrowUp": return near(-1).find((other) => holds(other, one));
      case "ArrowDown": return near(1).find((other) => holds(one, other));
      case "ArrowLeft": return near(0).filter((other) => other.x < one.x).pop();
      case "ArrowRight": return near(0).find((other) => other.x > one.x);
    }
  };
  for (const one of all) {
    const first = !zoomed.has(one.picture);
    zoomed.set(one.picture, whole);
    one.frame.setAttribute("role", "button");
    one.frame.setAttribute("tabindex", first ? 0 : -1);
    one.frame.addEventListener("click", () => toggle(one));
    one.frame.addEventListener("keydown", (event) => {
      const to = next(one, event.key);
      if (to) {
        one.frame.setAttribute("tabindex", -1);
        to.frame.setAttribute("tabindex", 0);
        to.frame.focus();
      } else if (event.key === "Enter" || event.key === " ") toggle(one);
      else if (!event.key.startsWith("Arrow")) return;
      event.preventDefault();
    });
  }
  for (const picture of zoomed.keys()) {
    resetOf(picture)?.addEventListener("click", () => zoom(picture, whole));
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") for (const picture of zoomed.keys()) zoom(picture, whole);
  });
})();
