// One array of the newest heaps: a line for each, the newest on top. Values, not counts: they may be below 0, and lines may be missing.

import { Picture } from "./picture.js";
import { short } from "./words.js";

/** Cells that are looked at for the range. */
const LOOKED_AT = 20000;

export class Waterfall extends Picture {
  constructor(plot, page) {
    super(plot, page);
    this.quantity = "value";
    this.unit = "heaps";
    this.element.classList.add("broad");
  }

  /** Lowest and highest value but for 0.2 % at either end; lines that are not there do not count. */
  range() {
    const { view } = this;
    if (view.limits === "manual") return [view.low, Math.max(view.high, view.low + 1e-9)];
    const { cells } = this.data;
    const stride = Math.max(1, Math.floor(cells.length / LOOKED_AT));
    const seen = [];
    for (let i = 0; i < cells.length; i += stride) if (Number.isFinite(cells[i]) && (!view.log || cells[i] > 0)) seen.push(cells[i]);
    if (seen.length === 0) return view.log ? [1, 10] : [0, 1];
    seen.sort((a, b) => a - b);
    const cut = view.limits === "clipped" ? 0.002 : 0;
    const at = (part) => seen[Math.round((seen.length - 1) * part)];
    const [low, high] = [at(cut), at(1 - cut)];
    return high > low ? [low, high] : [low, low + Math.max(1e-9, Math.abs(low) * 0.01)];
  }

  /** Row 0 is on top: the newest heap. */
  cell(u, v) {
    const { width, height } = this.data;
    let [x, y] = this.view.swap ? [v, u] : [u, v];
    if (this.view.flipX) x = width - 1 - x;
    if (this.view.flipY) y = height - 1 - y;
    return [x, y];
  }

  scales() {
    const of = (label, n, flipped) => {
      const turn = (p) => (flipped ? n - p : p);
      return { value: (p) => turn(p) - 0.5, back: (v) => turn(v + 0.5), label, whole: true };
    };
    const { x, y, width, height } = this.data;
    const sx = of(x?.label ?? "cell", width, this.view.flipX);
    const sy = of(y?.label ?? "heap", height, this.view.flipY);
    return this.view.swap ? [sy, sx] : [sx, sy];
  }

  readAt(g, box, sx, sy, zoom, colours) {
    const at = this.mouse && this.under(...this.mouse);
    if (!at?.inside) {
      this.readout.textContent = this.view.zoom ? "Double-click or 0: whole picture" : "Drag a box to zoom; Ctrl and wheel zooms; Shift and drag moves";
      return;
    }
    const [u, v] = [Math.floor(at.u), Math.floor(at.v)];
    const [x, y] = this.cell(u, v);
    const n = this.data.cells[y * this.data.width + x];
    g.strokeStyle = colours.text;
    g.lineWidth = 1;
    if (sx > 3 && sy > 3) g.strokeRect(box.x + (u - zoom[0]) * sx, box.y + (v - zoom[1]) * sy, sx, sy);
    const bold = (text) => Object.assign(document.createElement("b"), { textContent: text });
    const value = Number.isFinite(n) ? bold(short(n)) : "none";
    this.readout.replaceChildren("cell ", bold(x), "  heap ", bold(y), "  value ", value);
  }

  *rows() {
    const { cells, width } = this.data;
    yield "cell,heap,value";
    for (let i = 0; i < cells.length; i++) if (Number.isFinite(cells[i])) yield `${i % width},${Math.floor(i / width)},${cells[i]}`;
  }
}
