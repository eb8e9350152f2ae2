// Detector image, projections and two-dimensional spectra: one cell per bin, nothing interpolated.

import { axisBelow, axisLeft, begin, FONT, linearTicks, logTicks, named } from "./axis.js";
import { binning, Card, check, choice, field } from "./card.js";
import { indexer, limits, MAPS, table } from "./colour.js";
import { moved, scaledPart } from "./keys.js";
import { readable, short, whole } from "./words.js";

const LEFT = 52;
const BELOW = 38;
const RIGHT = 66;
const TOP = 8;
/** Room for the numbers of tiles that stand side by side. */
const NUMBERS = 16;
/** An image this many times as wide as high gets the whole width of the page. */
const LONG = 3;
/** With square cells, an image this many times as long as wide would be a line. */
const LINE = 8;
/** Tiles closer than this many points are not lined: the lines would hide the counts. */
const CLOSE = 10;
const NUMBER_FONT = FONT.replace("12px", "11px");

export class Picture extends Card {
  constructor(plot, page) {
    super(plot, page, { map: "viridis", reversed: false, flipX: false, flipY: false, square: null, lines: true, zoom: null,
      // A high stack of tiles lies down: pages are wide. What is one plane stands as it stands.
      swap: plot.tiles != null && plot.height > LONG * plot.width });
    this.image = plot.kind === "image";
    this.projection = plot.kind === "projection";
    this.tiles = plot.tiles;
    const broad = plot.width > LONG * plot.height || (plot.tiles && plot.height > LONG * plot.width);
    if (this.image) this.element.classList.add(broad ? "broad" : "tall");
    this.back = document.createElement("canvas");
    const v = this.view;
    const turn = (change) => this.set({ ...change, zoom: null });
    this.fillMenu(
      field("Colours", choice(MAPS.map((m) => [m, m]), v.map, (map) => this.set({ map }))),
      check("Reverse the colours", v.reversed, (reversed) => this.set({ reversed })),
      ...this.limitFields([["clipped", "auto, 99.8 % of cells"], ["full", "auto, all cells"], ["manual", "manual"]]),
      check("Flip left and right", v.flipX, (flipX) => turn({ flipX })),
      check("Flip up and down", v.flipY, (flipY) => turn({ flipY })),
      check("Swap the axes", v.swap, (swap) => turn({ swap })),
      ...(this.image || this.projection ? [check("Square cells", this.square, (square) => this.set({ square }))] : []),
      ...(this.tiles ? [check(`Lines between ${this.tiles.name}s`, v.lines, (lines) => this.set({ lines }))] : []),
      ...(plot.x?.column ? binning(this, "x", plot.x) : []), ...(plot.y?.column ? binning(this, "y", plot.y) : []));
    this.handleMouse();
    this.focusable();
  }

  /** Square cells: an image that is neither long nor unfolded, others only where a viewer chose it. */
  get square() {
    const { width, height } = this.plot;
    return this.view.square ?? (this.image && !this.tiles && Math.max(width, height) <= LINE * Math.min(width, height));
  }

  /** What is known of the cells: pixel numbers or how many pixels there are, 0 where there is none; null if neither. */
  has() {
    const known = this.image ? this.page.pixels : this.projection ? this.summed : null;
    return known?.length === this.data.cells.length ? known : null;
  }

  /** Where a cell of a tiled picture is: [tile, column, row] in the detector's numbers; null outside all tiles. */
  inTile(x, y) {
    const t = this.tiles;
    const across = Math.floor(this.data.width / t.columns);
    const [i, j] = [Math.floor(x / t.columns), Math.floor(y / t.rows)];
    if (i >= across || j >= Math.floor(this.data.height / t.rows)) return null;
    const row = y % t.rows;
    return [j * across + i, x % t.columns, t.upwards ? t.rows - 1 - row : row];
  }

  resetView() {
    this.set({ zoom: null });
  }

  /** Width and height as shown. */
  size() {
    const { width, height } = this.data;
    return this.view.swap ? [height, width] : [width, height];
  }

  /** Cell of the data at column u, row v as shown (row 0 on top). */
  cell(u, v) {
    const { width, height } = this.data;
    let [x, y] = this.view.swap ? [v, u] : [u, v];
    if (this.view.flipX) x = width - 1 - x;
    // A spectrum's row 0 is its lowest value and belongs to the bottom; that of a picture is the upper one.
    if (this.view.flipY === (this.image || this.projection)) y = height - 1 - y;
    return [x, y];
  }

  /** Values of the lowest and the highest colour. */
  range() {
    return limits(this.data.cells, this.has(), this.view);
  }

  draw() {
    this.page.pixelsWanted ||= this.image;
    const colours = this.page.colours;
    const stage = begin(this.canvas, colours);
    if (!stage) return;
    this.describe();
    if (!this.data) return;
    const { g, w, h: high, ratio } = stage;
    const [U, V] = this.size();
    const zoom = this.view.zoom ?? [0, 0, U, V];
    const top = TOP + (this.numbersAbove() ? NUMBERS : 0);
    let box = { x: LEFT, y: top, w: w - LEFT - RIGHT, h: high - top - BELOW };
    if (this.square) {
      // Square pixels: the larger direction fills the box.
      const scale = Math.min(box.w / (zoom[2] - zoom[0]), box.h / (zoom[3] - zoom[1]));
      const [bw, bh] = [scale * (zoom[2] - zoom[0]), scale * (zoom[3] - zoom[1])];
      box = { x: LEFT + (box.w - bw) / 2, y: top + (box.h - bh) / 2, w: bw, h: bh };
    }
    this.place = { box, zoom };
    const range = this.range();
    this.shown = range;
    this.paint(range, colours);
    g.save();
    g.beginPath();
    g.rect(box.x, box.y, box.w, box.h);
    g.clip();
    const [sx, sy] = [box.w / (zoom[2] - zoom[0]), box.h / (zoom[3] - zoom[1])];
    // With more cells than screen points, leaving some out would hide lines: then they are averaged.
    g.imageSmoothingEnabled = Math.min(sx, sy) * ratio < 1;
    g.drawImage(this.back, box.x - zoom[0] * sx, box.y - zoom[1] * sy, U * sx, V * sy);
    if (this.tiles && this.view.lines) this.tileLines(g, box, zoom, sx, sy, colours);
    g.restore();
    if (this.numbersAbove()) this.tileNumbers(g, box, zoom, sx, colours);
    g.strokeStyle = colours.line;
    g.strokeRect(box.x - 0.5, box.y - 0.5, box.w + 1, box.h + 1);
    this.axes(g, box, zoom, colours);
    const bar = { x: box.x + box.w + 14, y: box.y, w: 13, h: box.h };
    this.bar(g, bar, range, colours);
    if (this.view.log) this.noCounts(g, { right: bar.x + RIGHT - 16, y: box.y + box.h + 21 }, colours);
    if (this.drag?.box) {
      const [a, b, c, d] = this.drag.box;
      g.strokeStyle = colours.accent;
      g.lineWidth = 1.5;
      g.strokeRect(a, b, c - a, d - b);
    }
    this.readAt(g, box, sx, sy, zoom, colours);
  }

  /** Colours all cells into the back buffer. */
  paint(range, colours) {
    const [U, V] = this.size();
    const { cells, width } = this.data;
    if (this.back.width !== U || this.back.height !== V) [this.back.width, this.back.height] = [U, V];
    const g = this.back.getContext("2d");
    if (!this.buffer || this.buffer.width !== U || this.buffer.height !== V) this.buffer = g.createImageData(U, V);
    const out = new Uint32Array(this.buffer.data.buffer);
    const triples = table(this.view.map, this.view.reversed);
    const lookup = new Uint32Array(256);
    for (let i = 0; i < 256; i++) {
      lookup[i] = 0xff000000 | (triples[i * 3 + 2] << 16) | (triples[i * 3 + 1] << 8) | triples[i * 3];
    }
    const index = indexer(range, this.view.log);
    const neutral = parseInt(colours.empty.slice(1), 16);
    const empty = (0xff000000 | ((neutral & 255) << 16) | (neutral & 0xff00) | (neutral >> 16)) >>> 0;
    const has = this.has();
    const zero = this.view.log ? empty : lookup[index(0)];
    for (let v = 0, k = 0; v < V; v++) {
      for (let u = 0; u < U; u++, k++) {
        const [x, y] = this.cell(u, v);
        const i = y * width + x;
        const n = cells[i];
        out[k] = has && has[i] === 0 ? 0 : n === 0 ? zero : lookup[index(n)];
      }
    }
    g.putImageData(this.buffer, 0, 0);
  }

  /** Tiles side by side in one row have their numbers above; others have them inside. */
  numbersAbove() {
    const { tiles: t, plot, view } = this;
    return t && view.lines && Math.floor(view.swap ? plot.width / t.columns : plot.height / t.rows) === 1;
  }

  /** Lines between tiles, and their numbers in the corner where there is room. */
  tileLines(g, box, zoom, sx, sy, colours) {
    const { columns, rows } = this.tiles;
    const { width, height } = this.data;
    const [tu, tv] = this.view.swap ? [rows, columns] : [columns, rows];
    const [U, V] = this.size();
    const [fromRight, fromBelow] = this.view.swap ? [this.view.flipY, this.view.flipX] : [this.view.flipX, this.view.flipY];
    const at = (k, step, n, back) => (back ? n - k * step : k * step);
    g.fillStyle = colours.divider;
    if (tu * sx >= CLOSE) {
      for (let k = 1; k * tu <= U; k++) g.fillRect(Math.round(box.x + (at(k, tu, U, fromRight) - zoom[0]) * sx), box.y, 1, box.h);
    }
    if (tv * sy >= CLOSE) {
      for (let k = 1; k * tv <= V; k++) g.fillRect(box.x, Math.round(box.y + (at(k, tv, V, fromBelow) - zoom[1]) * sy), box.w, 1);
    }
    if (this.numbersAbove() || tu * sx < 34 || tv * sy < 26) return;
    const across = Math.floor(width / columns);
    g.font = NUMBER_FONT;
    g.textAlign = "center";
    g.textBaseline = "middle";
    for (let k = 0; k < across * Math.floor(height / rows); k++) {
      const [i, j] = [k % across, Math.floor(k / across)];
      const [pu, pv] = this.view.swap ? [j, i] : [i, j];
      const left = box.x + (at(pu + (fromRight ? 1 : 0), tu, U, fromRight) - zoom[0]) * sx;
      const above = box.y + (at(pv + (fromBelow ? 1 : 0), tv, V, fromBelow) - zoom[1]) * sy;
      const wide = g.measureText(String(k)).width + 6;
      g.globalAlpha = 0.8;
      g.fillStyle = colours.card;
      g.fillRect(left + 2, above + 2, wide, 13);
      g.globalAlpha = 1;
      g.fillStyle = colours.text;
      g.fillText(String(k), left + 2 + wide / 2, above + 9);
    }
    g.font = FONT;
  }

  /** Numbers of the tiles above the box, as many as there is room for. */
  tileNumbers(g, box, zoom, sx, colours) {
    const { tiles, data, view } = this;
    const { name } = tiles;
    const [columns, width, back] = view.swap ? [tiles.rows, data.height, view.flipY] : [tiles.columns, data.width, view.flipX];
    g.fillStyle = colours.quiet;
    g.textBaseline = "bottom";
    g.textAlign = "left";
    // Beside the first number of the vertical axis, which stands half above the box.
    g.fillText(name, box.x - LEFT, box.y - 4, LEFT - 17);
    g.textAlign = "center";
    const many = Math.floor(width / columns);
    const every = [1, 2, 5, 10, 20, 50, 100, 1000].find((n) => n * columns * sx >= 24) ?? many;
    for (let k = 0; k < many; k += every) {
      const middle = (k + 0.5) * columns;
      const x = box.x + ((back ? width - middle : middle) - zoom[0]) * sx;
      if (x >= box.x && x <= box.x + box.w) g.fillText(String(k), x, box.y - 3);
    }
  }

  /** Function from a shown position to the axis' value, per shown direction. */
  scales() {
    const { x, y, width, height } = this.data;
    const of = (own, n, flipped) => {
      const axis = own && this.shownAxis(own);
      const turn = (p) => (flipped ? n - p : p);
      if (!axis) return { value: turn, back: turn, label: "" };
      // Cells have numbers, which stand at their middle.
      if (!axis.column) return { value: (p) => turn(p) - 0.5, back: (v) => turn(v + 0.5), label: axis.label, whole: true };
      const step = (axis.last - axis.first) / axis.bins / axis.scale;
      const zero = axis.first / axis.scale;
      return { value: (p) => zero + turn(p) * step, back: (v) => turn((v - zero) / step), label: named(axis) };
    };
    const sx = of(x, width, this.view.flipX);
    const t = this.tiles;
    // One row of tiles: then the axis counts as the tiles do.
    const own = t && t.rows === height;
    const sy = of(y, height, (this.view.flipY === this.image) !== Boolean(own && t.upwards));
    sx.label ||= t?.columns === width ? t.x : "Column";
    sy.label ||= own ? t.y : "Row";
    return this.view.swap ? [sy, sx] : [sx, sy];
  }

  /** An axis in the unit that it is read in. */
  shownAxis(axis) {
    return axis.column ? readable(axis, Math.max(Math.abs(axis.first), Math.abs(axis.last)) / axis.scale) : axis;
  }

  axes(g, box, zoom, colours) {
    const [su, sv] = this.scales();
    const ends = (s, a, b) => [s.value(a), s.value(b)].sort((p, q) => p - q);
    const [ua, ub] = ends(su, zoom[0], zoom[2]);
    const [va, vb] = ends(sv, zoom[1], zoom[3]);
    const atU = (t) => box.x + ((su.back(t) - zoom[0]) / (zoom[2] - zoom[0])) * box.w;
    const atV = (t) => box.y + ((sv.back(t) - zoom[1]) / (zoom[3] - zoom[1])) * box.h;
    const ticks = (s, a, b, room) => linearTicks(a, b, room).filter((t) => !s.whole || Number.isInteger(t));
    axisBelow(g, box, ticks(su, ua, ub, box.w / 75), atU, su.label, colours);
    const left = { ...box };
    g.save();
    // The label stands beside the box, wherever the box is.
    g.translate(box.x - LEFT, 0);
    left.x = LEFT;
    axisLeft(g, left, ticks(sv, va, vb, box.h / (sv.whole ? 40 : 55)), atV, sv.label, colours);
    g.restore();
  }

  bar(g, box, [low, high], colours) {
    const triples = table(this.view.map, this.view.reversed);
    const n = Math.max(1, Math.round(box.h));
    for (let i = 0; i < n; i++) {
      const c = Math.min(255, Math.floor(((n - 1 - i) / n) * 256)) * 3;
      g.fillStyle = `rgb(${triples[c]} ${triples[c + 1]} ${triples[c + 2]})`;
      g.fillRect(box.x, box.y + i, box.w, 1.5);
    }
    g.strokeStyle = colours.line;
    g.strokeRect(box.x - 0.5, box.y - 0.5, box.w + 1, box.h + 1);
    const log = this.view.log;
    const part = (t) => (log ? Math.log(t / low) / Math.log(high / low) : (t - low) / (high - low));
    g.fillStyle = colours.quiet;
    g.textAlign = "left";
    g.textBaseline = "middle";
    for (const t of log ? logTicks(low, high) : linearTicks(low, high, Math.max(2, box.h / 60))) {
      const y = box.y + box.h * (1 - part(t));
      g.fillRect(box.x + box.w, y - 0.5, 4, 1);
      g.fillText(short(t), box.x + box.w + 7, y);
    }
    g.textBaseline = "top";
    // Clear of the horizontal axis' last number, which may be centred at the picture's edge and have five digits.
    g.textAlign = "right";
    g.fillText(this.quantity ?? "counts", box.x + RIGHT - 16, box.y + box.h + 6);
  }

  /** Legend of the cells that a logarithmic scale has no colour for; a linear one has 0 at its end. */
  noCounts(g, { right, y }, colours) {
    const text = "no counts";
    g.textAlign = "right";
    g.textBaseline = "top";
    g.fillStyle = colours.quiet;
    g.fillText(text, right, y);
    const x = Math.round(right - g.measureText(text).width - 17);
    g.fillStyle = colours.empty;
    g.fillRect(x, y, 11, 11);
    g.strokeStyle = colours.quiet;
    g.lineWidth = 1;
    g.strokeRect(x + 0.5, y + 0.5, 11, 11);
  }

  /** Shown column and row under a point, or null. */
  under(px, py) {
    if (!this.place || !this.data) return null;
    const { box, zoom } = this.place;
    const u = zoom[0] + ((px - box.x) / box.w) * (zoom[2] - zoom[0]);
    const v = zoom[1] + ((py - box.y) / box.h) * (zoom[3] - zoom[1]);
    const inside = px >= box.x && py >= box.y && px < box.x + box.w && py < box.y + box.h;
    return { u, v, inside };
  }

  readAt(g, box, sx, sy, zoom, colours) {
    const at = this.mouse && this.under(...this.mouse);
    if (!at?.inside) {
      const more = this.view.zoom ? "Double-click or 0: whole picture" : "Drag a box to zoom; Ctrl and wheel zooms; Shift and drag moves";
      this.readout.textContent = more;
      return;
    }
    const [u, v] = [Math.floor(at.u), Math.floor(at.v)];
    const [x, y] = this.cell(u, v);
    const n = this.data.cells[y * this.data.width + x] ?? 0;
    g.strokeStyle = colours.text;
    g.lineWidth = 1;
    if (sx > 3 && sy > 3) g.strokeRect(box.x + (u - zoom[0]) * sx, box.y + (v - zoom[1]) * sy, sx, sy);
    const bold = (text) => Object.assign(document.createElement("b"), { textContent: text });
    const pixel = this.image ? this.page.pixels?.[y * this.data.width + x] : 0;
    const part = (own, i) => {
      const axis = this.shownAxis(own);
      const step = (axis.last - axis.first) / axis.bins / axis.scale;
      return `${short(axis.first / axis.scale + i * step)} to ${short(axis.first / axis.scale + (i + 1) * step)} ${axis.unit}`;
    };
    const tile = this.tiles && this.inTile(x, y);
    const cell = tile
      ? [`${this.tiles.name} `, bold(tile[0]), `  ${this.tiles.x} `, bold(tile[1]), `  ${this.tiles.y} `, bold(tile[2])]
      : ["x ", bold(x), "  y ", bold(y)];
    const place = this.image
      ? [...cell, "  pixel ", bold(pixel ? whole(pixel) : this.page.pixels ? "none" : "…")]
      : this.projection
        ? [`${this.data.x.label} `, bold(x), `  ${this.data.y.label} `, bold(this.data.height - 1 - y)]
        : [`${this.data.x.label} `, bold(part(this.data.x, x)), `  ${this.data.y.label} `, bold(part(this.data.y, y))];
    this.readout.replaceChildren(...place, "  counts ", bold(whole(n)), n > 0 ? ` ± ${whole(Math.sqrt(n))}` : "",
      this.projection ? this.of(y * this.data.width + x) : "");
  }

  handleMouse() {
    const point = (e) => [e.offsetX, e.offsetY];
    const c = this.canvas;
    c.addEventListener("pointerdown", (e) => {
      if (e.button !== 0 || e.pointerType === "touch" || !this.under(...point(e))?.inside) return;
      c.setPointerCapture(e.pointerId);
      this.drag = { from: point(e), zoom: this.place.zoom, pan: e.shiftKey, box: null };
    });
    c.addEventListener("pointermove", (e) => {
      this.mouse = point(e);
      if (this.drag) this.moved(...this.mouse);
      this.draw();
    });
    c.addEventListener("pointerup", () => {
      const box = this.drag?.box;
      this.drag = null;
      if (box && Math.abs(box[2] - box[0]) > 6 && Math.abs(box[3] - box[1]) > 6) {
        const [a, b] = [this.under(box[0], box[1]), this.under(box[2], box[3])];
        this.zoomTo([Math.min(a.u, b.u), Math.min(a.v, b.v), Math.max(a.u, b.u), Math.max(a.v, b.v)]);
      } else {
        this.draw();
      }
    });
    c.addEventListener("dblclick", () => this.resetView());
    c.addEventListener("wheel", (e) => {
      const at = this.under(...point(e));
      if (!e.ctrlKey && !e.metaKey || !at?.inside) return;
      e.preventDefault();
      const by = Math.exp(Math.max(-1, Math.min(1, e.deltaY * 0.004)));
      const z = this.place.zoom;
      this.zoomTo([at.u - (at.u - z[0]) * by, at.v - (at.v - z[1]) * by, at.u + (z[2] - at.u) * by, at.v + (z[3] - at.v) * by]);
    }, { passive: false });
  }

  moved(px, py) {
    const { from, zoom, pan } = this.drag;
    if (pan) {
      const { box } = this.place;
      const du = ((from[0] - px) / box.w) * (zoom[2] - zoom[0]);
      const dv = ((from[1] - py) / box.h) * (zoom[3] - zoom[1]);
      this.zoomTo([zoom[0] + du, zoom[1] + dv, zoom[2] + du, zoom[3] + dv]);
    } else {
      this.drag.box = [...from, px, py];
    }
  }

  /** Shows a part of the picture, kept inside it and at least 2 cells wide. */
  zoomTo([u0, v0, u1, v1]) {
    const fit = (a, b, n) => {
      const length = Math.min(n, Math.max(2, b - a));
      const low = Math.max(0, Math.min(n - length, a));
      return [low, low + length];
    };
    const [U, V] = this.size();
    const [a, c] = fit(u0, u1, U);
    const [b, d] = fit(v0, v1, V);
    this.set({ zoom: c - a >= U && d - b >= V ? null : [a, b, c, d] });
  }

  panBy(x, y) {
    const [U, V] = this.size();
    const z = this.view.zoom ?? [0, 0, U, V];
    const [[a, c], [b, d]] = [moved([z[0], z[2]], x, U), moved([z[1], z[3]], y, V)];
    this.zoomTo([a, b, c, d]);
  }

  zoomBy(by) {
    const [U, V] = this.size();
    const z = this.view.zoom ?? [0, 0, U, V];
    const [[a, c], [b, d]] = [scaledPart([z[0], z[2]], by, U, 2), scaledPart([z[1], z[3]], by, V, 2)];
    this.zoomTo([a, b, c, d]);
  }

  /** Moves the read-out from cell to cell, or by what one point of the screen holds. */
  readNext(x, y) {
    if (!this.place) return;
    const { box, zoom } = this.place;
    const at = this.mouse && this.under(...this.mouse);
    const next = (old, low, high, step, room) => {
      const cells = step * Math.max(1, Math.round((high - low) / room));
      return Math.max(Math.floor(low), Math.min(Math.ceil(high) - 1, Math.floor(old) + cells)) + 0.5;
    };
    const u = next(at ? at.u : (zoom[0] + zoom[2]) / 2, zoom[0], zoom[2], x, box.w);
    const v = next(at ? at.v : (zoom[1] + zoom[3]) / 2, zoom[1], zoom[3], y, box.h);
    const place = (p, low, high, from, room) => from + Math.max(0.01, Math.min(0.99, (p - low) / (high - low))) * room;
    this.mouse = [place(u, zoom[0], zoom[2], box.x, box.w), place(v, zoom[1], zoom[3], box.y, box.h)];
    this.draw();
  }

  accept(data) {
    this.checkZoom(data);
    if (this.projection) this.count();
    const z = this.view.zoom;
    const [U, V] = this.size();
    // A stored zoom of another geometry would show nothing.
    if (z && (!Array.isArray(z) || z[2] > U || z[3] > V)) this.view.zoom = null;
    this.plot = { ...this.plot, ...data, cells: undefined };
  }

  *rows() {
    const { cells, width, height, x, y } = this.data;
    const edge = (axis, i) => (axis.first + ((axis.last - axis.first) * i) / axis.bins) / axis.scale;
    if (this.image) {
      const t = this.tiles;
      yield `x,y,${t ? `${csv(t.name)},${csv(`${t.name} ${t.x}`)},${csv(`${t.name} ${t.y}`)},` : ""}pixel,counts`;
      for (let i = 0; i < cells.length; i++) {
        const pixel = this.page.pixels?.[i] ?? 0;
        const [x, y] = [i % width, Math.floor(i / width)];
        const tile = t ? `${(this.inTile(x, y) ?? ["", "", ""]).join()},` : "";
        if (pixel) yield `${x},${y},${tile}${pixel},${cells[i]}`;
      }
    } else if (this.projection) {
      yield `${csv(x.label)},${csv(y.label)},pixels,counts`;
      for (let i = 0; i < cells.length; i++) {
        const pixels = this.summed?.[i] ?? "";
        if (pixels !== 0) yield `${i % width},${height - 1 - Math.floor(i / width)},${pixels},${cells[i]}`;
      }
    } else {
      yield `${csv(named(x))} from,${csv(named(y))} from,counts`;
      for (let i = 0; i < cells.length; i++) yield `${edge(x, i % width)},${edge(y, Math.floor(i / width))},${cells[i]}`;
    }
  }
}

/** A name that cannot break a line of comma-separated values. */
const csv = (text) => text.replace(/[",\n]/g, " ");
