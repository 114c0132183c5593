"use strict";
// The parts see one another and nothing outside. If one fails at the beginning, in a browser that is too
// old for it, the page shows what it shows without scripts.
(() => {
  try {
    /* PARTS */
  } catch (error) {
    const plain = document.getElementById("plain");
    plain.outerHTML = plain.textContent;
    document.getElementById("app").remove();
    throw error;
  }
})();
