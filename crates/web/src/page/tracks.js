// Single events hit by hit: strip against time, one box for each plane; the newest in full, older ones pale.

import { axisBelow, begin, linearTicks } from "./axis.js";
import { Card, choice, field } from "./card.js";
import { indexer, MAPS, table } from "./colour.js";
import { readable, whole } from "./words.js";

const LEFT = 58;
const RIGHT = 12;
const TOP = 20;
const BELOW = 38;
/** Between two boxes there is room for the second one's axis. */
const BETWEEN = 58;
/** Numbers of a hit: event (0 is the newest), plane, strip, ns, ADC counts. */
const NUMBERS = 5;
/** Strips and times of a short track still fill a box of this size. */
const LEAST_STRIPS = 6;
const LEAST_NS = 50;

export class Tracks extends Card {
  constructor(plot, page) {
    super(plot, page, { map: "viridis", shown: "1" });
    // Nothing is added up: there is no current and no cumulative view, and no scale of counts.
    this.modes.hidden = true;
    this.logButton.hidden = true;
    this.view.mode = "total";
    const most = plot.planes?.length ? ["1", "4", "16"] : ["1"];
    this.fillMenu(
      field("Events", choice(most.map((n) => [n, n === "1" ? "the newest" : `the newest ${n}`]), this.view.shown, (shown) => this.set({ shown }))),
      field("Colours", choice(MAPS.map((m) => [m, m]), this.view.map, (map) => this.set({ map }))));
    this.canvas.addEventListener("pointermove", (e) => {
      const r = this.canvas.getBoundingClientRect();
      this.mouse = [e.clientX - r.left, e.clientY - r.top];
      this.draw();
    });
  }

  resetView() {}

  describe() {
    const d = this.data;
    if (!d) return;
    this.about.textContent = `${whole(d.counted)} events sampled · colour and size by amplitude`;
    this.about.title = this.about.textContent;
    this.element.classList.toggle("stale", this.page.stale);
    this.over.textContent = d.cells.length === 0 ? (this.page.waiting ? "Waiting for data" : "No event yet") : "";
  }

  /** Hits of the events that are shown. */
  hits() {
    const { cells } = this.data;
    const all = [];
    for (let i = 0; i + NUMBERS <= cells.length; i += NUMBERS) {
      if (cells[i] < Number(this.view.shown)) {
        all.push({ event: cells[i], plane: cells[i + 1], strip: cells[i + 2], ns: cells[i + 3], adc: cells[i + 4] });
      }
    }
    return all;
  }

  draw() {
    const colours = this.page.colours;
    const stage = begin(this.canvas, colours);
    if (!stage) return;
    this.describe();
    if (!this.data) return;
    const hits = this.hits();
    const planes = this.plot.planes ?? [];
    const width = (stage.w - LEFT - RIGHT - BETWEEN * (planes.length - 1)) / Math.max(1, planes.length);
    const longest = Math.max(LEAST_NS, ...hits.map((h) => h.ns)) * 1.06;
    const loudest = Math.max(1, ...hits.map((h) => h.adc));
    let near = null;
    planes.forEach((label, plane) => {
      const box = { x: LEFT + plane * (width + BETWEEN), y: TOP, w: width, h: stage.h - TOP - BELOW };
      const own = hits.filter((h) => h.plane === plane);
      near = this.box(stage.g, box, label, own, longest, loudest, colours) ?? near;
    });
    this.readout.textContent = near
      ? `${planes[near.plane]} ${near.strip}  at ${whole(near.ns)} ns  ADC ${whole(near.adc)}`
      : "Times count from the event's earliest hit";
  }

  /** Draws a plane; gives the hit under the mouse. */
  box(g, box, label, hits, longest, loudest, colours) {
    const strips = hits.map((h) => h.strip);
    let [low, high] = strips.length > 0 ? [Math.min(...strips) - 1, Math.max(...strips) + 1] : [0, LEAST_STRIPS];
    const more = Math.max(0, LEAST_STRIPS - (high - low)) / 2;
    [low, high] = [low - Math.floor(more), high + Math.ceil(more)];
    const atX = (ns) => box.x + ((ns + 0.03 * longest) / (1.06 * longest)) * box.w;
    const atY = (strip) => box.y + box.h * (1 - (strip - low) / (high - low));
    const { unit, scale } = readable({ unit: "ns", scale: 1 }, longest);
    axisBelow(g, box, linearTicks(0, longest / scale, box.w / 80), (t) => atX(t * scale), `Time / ${unit}`, colours, true);
    const ticks = linearTicks(low, high, box.h / 34).filter(Number.isInteger);
    this.strips(g, box, ticks, atY, label, colours);
    const colour = indexer([0, loudest], false);
    const map = table(this.view.map, false);
    const step = box.h / (high - low);
    let near = null;
    let least = 14;
    // The newest event last, on top.
    for (const hit of [...hits].sort((a, b) => b.event - a.event)) {
      const [x, y] = [atX(hit.ns), atY(hit.strip)];
      const radius = Math.min(0.48 * step, 9) * Math.sqrt(hit.adc / loudest) + 2;
      g.globalAlpha = hit.event === 0 ? 1 : 0.35;
      const c = 3 * colour(hit.adc);
      g.fillStyle = `rgb(${map[c]}, ${map[c + 1]}, ${map[c + 2]})`;
      g.beginPath();
      g.arc(x, y, radius, 0, 2 * Math.PI);
      g.fill();
      g.strokeStyle = colours.quiet;
      g.lineWidth = 0.7;
      g.stroke();
      g.globalAlpha = 1;
      const far = this.mouse ? Math.hypot(this.mouse[0] - x, this.mouse[1] - y) : Infinity;
      if (far < least) [near, least] = [hit, far];
    }
    g.strokeStyle = colours.quiet;
    g.lineWidth = 1;
    g.strokeRect(box.x + 0.5, box.y + 0.5, box.w, box.h);
    if (near) {
      g.strokeStyle = colours.text;
      g.beginPath();
      g.arc(atX(near.ns), atY(near.strip), 11, 0, 2 * Math.PI);
      g.stroke();
    }
    return near;
  }

  /** The vertical axis: whole strip numbers, which a scale of counts would shorten to "1k"; the label above. */
  strips(g, box, ticks, atY, label, colours) {
    g.fillStyle = colours.quiet;
    g.strokeStyle = colours.line;
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const t of ticks) {
      const y = Math.round(atY(t)) + 0.5;
      if (y < box.y - 1 || y > box.y + box.h + 1) continue;
      g.beginPath();
      g.moveTo(box.x - 4, y);
      g.lineTo(box.x + box.w, y);
      g.stroke();
      g.fillText(String(t), box.x - 7, y);
    }
    g.textAlign = "left";
    g.textBaseline = "alphabetic";
    g.fillText(label, box.x, box.y - 7);
  }

  *rows() {
    yield "event,plane,strip,time_ns,adc";
    for (const h of this.hits()) yield [h.event, this.plot.planes[h.plane], h.strip, h.ns, h.adc].join(",");
  }
}
