// Spectra over one axis, as steps.

import { axisBelow, axisLeft, begin, linearTicks, logTicks, named } from "./axis.js";
import { binning, Card } from "./card.js";
import { moved, scaledPart } from "./keys.js";
import { readable, short, whole } from "./words.js";

const BOX = { left: 62, right: 14, top: 10, below: 38 };

export class Line extends Card {
  constructor(plot, page) {
    super(plot, page, { zoom: null });
    this.fillMenu(
      ...this.limitFields([["clipped", "auto"], ["manual", "manual"]]),
      // Cells of a projection have no column that could be binned otherwise.
      ...(plot.x.column ? binning(this, "x", plot.x) : []));
    this.handleMouse();
    this.focusable();
  }

  /** A bin is a cell with a number, not a range. */
  get numbered() {
    return !this.plot.x.column;
  }

  accept(data) {
    this.checkZoom(data);
    if (this.numbered) this.count();
  }

  resetView() {
    this.set({ zoom: null });
  }

  /** Shown bins [first, last). */
  range() {
    const n = this.data.width;
    const z = this.view.zoom;
    return Array.isArray(z) && z[0] >= 0 && z[1] <= n && z[1] - z[0] >= 2 ? z : [0, n];
  }

  /** The axis in the unit that the shown part is read in. */
  axis() {
    const { x } = this.data;
    return this.numbered ? x : readable(x, Math.max(...this.range().map((i) => Math.abs(this.edge(i, x)))));
  }

  /** Value at a bin's lower edge, in the axis' unit. */
  edge(i, x = this.data.x) {
    return (x.first + ((x.last - x.first) * i) / x.bins) / x.scale;
  }

  draw() {
    const colours = this.page.colours;
    const stage = begin(this.canvas, colours);
    if (!stage) return;
    this.describe();
    if (!this.data) return;
    const { g, w, h } = stage;
    const box = { x: BOX.left, y: BOX.top, w: w - BOX.left - BOX.right, h: h - BOX.top - BOX.below };
    const { cells } = this.data;
    const [a, b] = this.range();
    let largest = 0;
    for (let i = Math.floor(a); i < Math.min(Math.ceil(b), cells.length); i++) largest = Math.max(largest, cells[i]);
    const log = this.view.log;
    let [low, high] = log ? [0.7, Math.max(10, largest * 1.6)] : [0, Math.max(1, largest * 1.06)];
    if (this.view.limits === "manual") {
      low = log ? Math.max(0.1, this.view.low) : this.view.low;
      high = Math.max(this.view.high, log ? low * 2 : low + 1e-6);
    }
    this.shown = [low, high];
    const part = log ? (n) => (n < low ? -0.02 : Math.log(n / low) / Math.log(high / low)) : (n) => (n - low) / (high - low);
    const atY = (n) => box.y + box.h * (1 - part(n));
    const atBin = (i) => box.x + ((i - a) / (b - a)) * box.w;
    const axis = this.axis();
    const [va, vb] = [this.edge(a, axis), this.edge(b, axis)];
    const atX = (t) => box.x + ((t - va) / (vb - va)) * box.w;
    if (this.numbered) {
      const ticks = linearTicks(va, vb - 1, box.w / 85).filter(Number.isInteger);
      axisBelow(g, box, ticks, (t) => atX(t + 0.5), named(this.data.x), colours, false);
    } else {
      axisBelow(g, box, linearTicks(va, vb, box.w / 85), atX, named(axis), colours, false);
    }
    axisLeft(g, box, log ? logTicks(low, high) : linearTicks(low, high, box.h / 42), atY, "Counts", colours, true);
    this.place = { box, a, b };
    g.save();
    g.beginPath();
    g.rect(box.x, box.y - 2, box.w, box.h + 3);
    g.clip();
    this.steps(g, box, cells, a, b, atBin, atY, colours);
    this.pointer(g, box, cells, a, b, atBin, atY, colours);
    g.restore();
    g.strokeStyle = colours.quiet;
    g.beginPath();
    g.moveTo(box.x, box.y + box.h + 0.5);
    g.lineTo(box.x + box.w, box.y + box.h + 0.5);
    g.stroke();
  }

  steps(g, box, cells, a, b, atBin, atY, colours) {
    const floor = box.y + box.h;
    const path = new Path2D();
    // More bins than screen columns: the largest of each column, so that no peak is left out.
    const per = Math.max(1, Math.floor((b - a) / (box.w * 1.5)));
    const first = Math.floor(a / per) * per;
    for (let i = first; i < b && i < cells.length; i += per) {
      let n = 0;
      for (let j = i; j < i + per && j < cells.length; j++) n = Math.max(n, cells[j]);
      const y = Math.min(floor + 3, atY(n));
      if (i === first) path.moveTo(atBin(i), y);
      else path.lineTo(atBin(i), y);
      path.lineTo(atBin(i + per), y);
    }
    const area = new Path2D(path);
    area.lineTo(atBin(Math.min(Math.ceil(b), cells.length)), floor + 4);
    area.lineTo(atBin(first), floor + 4);
    g.globalAlpha = 0.13;
    g.fillStyle = colours.accent;
    g.fill(area);
    g.globalAlpha = 1;
    g.strokeStyle = colours.accent;
    g.lineWidth = 1.4;
    g.lineJoin = "round";
    g.stroke(path);
  }

  /** Bin (with fraction) under a point. */
  under(px) {
    const { box, a, b } = this.place;
    return a + ((px - box.x) / box.w) * (b - a);
  }

  pointer(g, box, cells, a, b, atBin, atY, colours) {
    if (this.drag) {
      const [from, to] = this.drag;
      g.globalAlpha = 0.18;
      g.fillStyle = colours.accent;
      g.fillRect(Math.min(from, to), box.y, Math.abs(to - from), box.h);
      g.globalAlpha = 1;
    }
    const i = this.mouse ? Math.floor(this.under(this.mouse[0])) : -1;
    if (i < Math.floor(a) || i >= b || i >= cells.length || this.mouse[0] < box.x) {
      this.readout.textContent = this.view.zoom ? "Double-click or 0: whole range" : "Drag along the axis to zoom, or + and − when it has the focus";
      return;
    }
    g.strokeStyle = colours.quiet;
    g.setLineDash([3, 3]);
    g.beginPath();
    g.moveTo(atBin(i + 0.5), box.y);
    g.lineTo(atBin(i + 0.5), box.y + box.h);
    g.stroke();
    g.setLineDash([]);
    const bold = (text) => Object.assign(document.createElement("b"), { textContent: text });
    const n = cells[i];
    const axis = this.axis();
    const { label, unit } = axis;
    const tidy = (v) => whole(v) === String(v) || Math.abs(v) >= 1000 ? whole(v) : short(v);
    const place = this.numbered ? whole(i) : `${tidy(this.edge(i, axis))} to ${tidy(this.edge(i + 1, axis))} ${unit}`;
    this.readout.replaceChildren(`${label} `, bold(place),
      "  counts ", bold(whole(n)), n > 0 ? ` ± ${whole(Math.sqrt(n))}` : "", this.numbered ? this.of(i) : "");
  }

  /** Shows bins [a, b), at least 2 of them; up and down do nothing to a spectrum. */
  show([a, b]) {
    const n = this.data.width;
    const low = Math.max(0, Math.min(n - 2, Math.round(a)));
    const high = Math.min(n, Math.max(low + 2, Math.round(b)));
    this.set({ zoom: low === 0 && high === n ? null : [low, high] });
  }

  panBy(x) {
    // At least a bin, though a third of three bins would round to where it was.
    const [a, b] = this.range();
    const share = Math.sign(x) * Math.max(Math.abs(x), 1 / (b - a));
    if (x !== 0) this.show(moved([a, b], share, this.data.width));
  }

  zoomBy(by) {
    const part = scaledPart(this.range(), by, this.data.width, 2);
    // Outwards by a bin at least.
    this.show(by > 1 ? [Math.floor(part[0]), Math.ceil(part[1])] : part);
  }

  /** Moves the read-out by bins, or by what one point of the screen holds. */
  readNext(x) {
    if (!this.place || x === 0) return;
    const { box, a, b } = this.place;
    const old = this.mouse ? this.under(this.mouse[0]) : (a + b) / 2;
    const bin = Math.max(a, Math.min(b - 1, Math.floor(old) + x * Math.max(1, Math.round((b - a) / box.w))));
    this.mouse = [box.x + ((bin + 0.5 - a) / (b - a)) * box.w, box.y];
    this.draw();
  }

  handleMouse() {
    const c = this.canvas;
    c.addEventListener("pointerdown", (e) => {
      if (e.button !== 0 || e.pointerType === "touch" || !this.place) return;
      c.setPointerCapture(e.pointerId);
      this.drag = [e.offsetX, e.offsetX];
    });
    c.addEventListener("pointermove", (e) => {
      this.mouse = [e.offsetX, e.offsetY];
      if (this.drag) this.drag[1] = e.offsetX;
      if (this.data) this.draw();
    });
    c.addEventListener("pointerup", () => {
      const drag = this.drag;
      this.drag = null;
      if (drag && Math.abs(drag[1] - drag[0]) > 6 && this.data) {
        const ends = drag.map((p) => this.under(p)).sort((p, q) => p - q);
        const low = Math.max(0, Math.min(this.data.width - 2, Math.floor(ends[0])));
        this.set({ zoom: [low, Math.min(this.data.width, Math.max(low + 2, Math.ceil(ends[1])))] });
      } else {
        this.draw();
      }
    });
    c.addEventListener("dblclick", () => this.resetView());
  }

  *rows() {
    const { cells, x } = this.data;
    if (this.numbered) {
      yield `${x.label.replace(/[",\n]/g, " ")},pixels,counts`;
      for (let i = 0; i < cells.length; i++) yield `${i},${this.summed?.[i] ?? ""},${cells[i]}`;
      return;
    }
    yield `${named(x).replace(/[",\n]/g, " ")} from,to,counts`;
    for (let i = 0; i < cells.length; i++) yield `${this.edge(i)},${this.edge(i + 1)},${cells[i]}`;
  }
}
