"use strict";
// A click on a frame of a flame graph makes it as wide as the picture; a click on one above it goes back.
(() => {
  const left = 76, room = 1108, narrow = 0.015;
  const all = [...document.querySelectorAll("svg.f")].map((frame) => ({
    frame,
    picture: frame.parentNode,
    x: Number(frame.dataset.x),
    w: Number(frame.dataset.w),
  }));
  const zoom = (to) => {
    for (const one of all) {
      if (one.picture !== to.picture) continue;
      const begin = Math.max(0, (one.x - to.x) / to.w);
      const end = Math.min(1, (one.x + one.w - to.x) / to.w);
      const width = Math.max(0, end - begin);
      one.frame.setAttribute("x", left + begin * room);
      one.frame.setAttribute("width", width * room);
      one.frame.classList.toggle("n", width < narrow);
      one.frame.classList.toggle("gone", width < 1e-6);
      one.frame.classList.toggle("around", one.w > to.w * 1.000001 && width > 0.999999);
    }
  };
  for (const one of all) one.frame.addEventListener("click", () => zoom(one));
})();
