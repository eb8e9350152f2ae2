// Numbers and times as people read them. Source: visualisation notes, "colour, scales, numbers".

const GROUPED = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

/** A whole number in groups of three: 1,234,567. */
export const whole = (n) => GROUPED.format(n);

const STEPS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** Three significant digits with an SI prefix: [text, prefix]. */
export function scaled(n) {
  const size = Math.abs(n);
  // From 999.5 on, three digits would read "1000".
  for (const [step, prefix] of STEPS) {
    if (size >= step * 0.9995) return [digits(n / step), prefix];
  }
  return [size < 1000 && Number.isInteger(n) ? String(n) : digits(n), ""];
}

function digits(v) {
  const a = Math.abs(v);
  return v.toFixed(a >= 99.95 ? 0 : a >= 9.995 ? 1 : a === 0 ? 0 : 2);
}

/** A share as per cent, two digits: 0.012 is "1.2 %"; far below a per mille as ppm. */
export function percent(part) {
  if (part > 0 && part < 1e-4) return `${(part * 1e6).toPrecision(2)} ppm`;
  // From 99.5 on, two digits would read "1.0e+2".
  return `${part >= 0.995 ? Math.floor(part * 100) : part === 0 ? 0 : (part * 100).toPrecision(2)} %`;
}

/** A prefix before a unit: "Mbit/s", but "M events/s". */
export const joined = (prefix, unit) => (prefix && unit !== "bit/s" ? `${prefix} ${unit}` : prefix + unit);

/** Number for horizontal axes: whole and grouped below a million, else short. */
export const grouped = (n) => (Number.isInteger(n) && Math.abs(n) < 1e6 ? whole(n) : short(n));

/** Short number for axes: 1.5M, 200k, 0.5. */
export function short(n) {
  if (n === 0) return "0";
  if (Math.abs(n) < 1000) return String(+n.toPrecision(4));
  const size = Math.abs(n);
  for (const [step, prefix] of STEPS) {
    if (size >= step) return +(n / step).toPrecision(4) + prefix;
  }
  return String(n);
}

const TIMES = ["ns", "µs", "ms", "s"];

/** The axis with a larger unit of time where its own would need five digits up to `largest`: 71.4 ms, not 71,429 µs.
 * Only for showing: binning and files keep the axis' own unit. */
export function readable(axis, largest) {
  let { unit, scale } = axis;
  let size = Math.abs(largest);
  for (let i = TIMES.indexOf(unit); i >= 0 && i + 1 < TIMES.length && size >= 10000; i++) {
    [unit, scale, size] = [TIMES[i + 1], scale * 1000, size / 1000];
  }
  return { ...axis, unit, scale };
}

/** Seconds as "12 s", "3 min 5 s", "2 h 10 min". */
export function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** Time of day of milliseconds since 1970. */
export function clock(ms) {
  const d = new Date(ms);
  const two = (n) => String(n).padStart(2, "0");
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** Time for file names. */
export const stamp = () => new Date().toISOString().slice(0, 19).replace(/[:T]/g, "-");

/** One element: h("td", {class: "num"}, "5"). Text is never read as HTML. */
export function h(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (value === true) e.setAttribute(key, "");
    else if (value !== false && value != null) e.setAttribute(key, value);
  }
  e.append(...children.filter((c) => c != null));
  return e;
}

/** A table that scrolls sideways where it must, by keys too. */
export const sideways = (name, table) => h("div", { class: "wide", tabindex: "0", role: "group", "aria-label": name }, table);

/** Hands a file to the browser's downloads. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
