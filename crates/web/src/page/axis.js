// Ticks, scales and the canvas that all plots draw on.

import { grouped, short } from "./words.js";

/** Round positions of at most about `count` ticks between a and b. */
export function linearTicks(a, b, count) {
  const raw = (b - a) / Math.max(1, count);
  if (!(raw > 0) || !Number.isFinite(raw)) return [];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((s) => s * power >= raw * 0.999) * power;
  const ticks = [];
  for (let i = Math.ceil(a / step - 1e-9); i * step <= b + step * 1e-9; i++) ticks.push(+(i * step).toPrecision(12));
  return ticks;
}

/** Powers of ten between a and b, with 2 and 5 where there is room. */
export function logTicks(a, b) {
  const ticks = [];
  const decades = Math.log10(b / a);
  const parts = decades < 1.2 ? [1, 2, 3, 5] : decades < 2.5 ? [1, 3] : [1];
  const every = Math.max(1, Math.round(decades / 7));
  for (let e = Math.floor(Math.log10(a)); e <= Math.ceil(Math.log10(b)); e++) {
    if (e % every !== 0) continue;
    for (const p of parts) {
      const v = p * 10 ** e;
      if (v >= a * 0.999 && v <= b * 1.001) ticks.push(v);
    }
  }
  return ticks;
}

/** Colours of the present theme. */
export function theme() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    card: get("card"), text: get("text"), quiet: get("quiet"), line: get("line"), soft: get("soft"),
    accent: get("accent"), bad: get("bad"), empty: get("empty"), divider: get("divider"),
  };
}

export const FONT = '12px system-ui, "Liberation Sans", "DejaVu Sans", sans-serif';

/** Fits a canvas to its box; gives the context in CSS pixels on a clean ground, or null if hidden. */
export function begin(canvas, colours) {
  const { clientWidth: w, clientHeight: h } = canvas;
  if (w < 40 || h < 40) return null;
  const ratio = window.devicePixelRatio || 1;
  const [pw, ph] = [Math.round(w * ratio), Math.round(h * ratio)];
  // Setting the size clears the canvas, which flickers: only when it changed.
  if (canvas.width !== pw || canvas.height !== ph) [canvas.width, canvas.height] = [pw, ph];
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.fillStyle = colours.card;
  g.fillRect(0, 0, w, h);
  g.font = FONT;
  return { g, w, h, ratio };
}

/** Horizontal axis under a box: ticks at values, placed by `at`. */
export function axisBelow(g, box, ticks, at, label, colours, grid) {
  g.fillStyle = colours.quiet;
  g.strokeStyle = colours.line;
  g.lineWidth = 1;
  g.textAlign = "center";
  g.textBaseline = "top";
  for (const t of ticks) {
    const x = Math.round(at(t)) + 0.5;
    if (x < box.x - 1 || x > box.x + box.w + 1) continue;
    g.beginPath();
    g.moveTo(x, grid ? box.y : box.y + box.h);
    g.lineTo(x, box.y + box.h + 4);
    g.stroke();
    g.fillText(grouped(t), x, box.y + box.h + 6);
  }
  g.fillText(label, box.x + box.w / 2, box.y + box.h + 21);
}

/** Vertical axis left of a box. */
export function axisLeft(g, box, ticks, at, label, colours, grid) {
  g.fillStyle = colours.quiet;
  g.strokeStyle = colours.line;
  g.lineWidth = 1;
  g.textAlign = "right";
  g.textBaseline = "middle";
  for (const t of ticks) {
    const y = Math.round(at(t)) + 0.5;
    if (y < box.y - 1 || y > box.y + box.h + 1) continue;
    g.beginPath();
    g.moveTo(box.x - 4, y);
    g.lineTo(grid ? box.x + box.w : box.x, y);
    g.stroke();
    g.fillText(short(t), box.x - 7, y);
  }
  g.save();
  g.translate(11, box.y + box.h / 2);
  g.rotate(-Math.PI / 2);
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.fillText(label, 0, 0);
  g.restore();
}

/** "Time of flight / µs". */
export const named = (axis) => (axis.unit ? `${axis.label} / ${axis.unit}` : axis.label);
