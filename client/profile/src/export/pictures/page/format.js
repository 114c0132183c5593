// Numbers, times and elements.

const thousands = (n) => Math.round(n).toLocaleString("en-US");

const short = (value) => {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
};

const unitOf = (ns) => ns >= 1e9 ? ["s", 1e9] : ns >= 1e6 ? ["ms", 1e6] : ns >= 1e3 ? ["µs", 1e3] : ["ns", 1];

const duration = (ns) => {
  const [unit, size] = unitOf(ns);
  return `${short(ns / size)} ${unit}`;
};

const si = (value) => {
  for (const [size, prefix] of [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) return `${short(value / size)} ${prefix}`;
  }
  return short(value);
};

// To tenths; the middle between two goes to the even one, as in all of halprof's tables.
const percent = (part, whole) => {
  const tenths = whole > 0 ? part / whole * 1000 : 0;
  const rounded = Math.round(tenths);
  const isMiddle = rounded - tenths === 0.5;
  return `${((isMiddle ? 2 * Math.round(tenths / 2) : rounded) / 10).toFixed(1)} %`;
};

// Seconds without rounding errors of the division: 1234567 ns are 0.001234567.
const seconds = (ns) => String(Number((ns / 1e9).toFixed(9)));

// A step of 1, 2 or 5 times a power of ten that divides a length into at most so many parts.
const stepOf = (length, most) => {
  const rough = length / most;
  if (!(rough > 0) || !isFinite(rough)) return 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((factor) => factor * power >= rough * 0.999999) ?? 10);
};

const byId = (id) => document.getElementById(id);

// An element with its class, its text or its children.
const make = (tag, className = "", ...content) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...content);
  return element;
};

const makeButton = (className, text, onClick) => {
  const button = make("button", className, text);
  button.type = "button";
  button.addEventListener("click", onClick);
  return button;
};

// A shape in a drawing that is as wide as its element.
const makeSvg = (width, height, className) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", className);
  svg.setAttribute("aria-hidden", "true");
  return svg;
};

const addShape = (svg, tag, attributes) => {
  const shape = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
  svg.append(shape);
  return shape;
};
