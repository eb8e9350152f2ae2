// Rates over the last five minutes, as the server measured them.

import { axisBelow, axisLeft, begin, linearTicks } from "./axis.js";
import { getJson, keep, kept } from "./wire.js";
import { h, joined, save, scaled, span, stamp } from "./words.js";

const QUANTITIES = {
  heaps_per_s: ["Heaps", "heaps/s"],
  events_per_s: ["Events", "events/s"],
  packets_per_s: ["Packets", "packets/s"],
  bits_per_s: ["Payload", "bit/s"],
  lost_per_s: ["Lost", "packets/s"],
};

const BOX = { left: 62, right: 14, top: 10, below: 38 };
const LONGEST = 300;

export class Rates {
  constructor(page) {
    this.page = page;
    this.view = kept("rates", { quantity: "events_per_s" });
    if (!(this.view.quantity in QUANTITIES)) this.view.quantity = "events_per_s";
    this.canvas = h("canvas", { role: "img", "aria-label": "Rates over the last five minutes" });
    this.readout = h("div", { class: "readout" });
    this.about = h("span", { class: "about" }, "last 5 minutes, each point 1 s");
    const select = this.select = h("select", {
      "aria-label": "Quantity",
      onchange: () => { this.view.quantity = select.value; keep(); this.draw(); },
    });
    this.offer(false);
    this.element = h("article", { class: "card", id: "rates" },
      h("header", {}, h("h2", {}, "Rates over time"), select,
        h("button", { type: "button", onclick: () => this.saveCsv() }, "Save CSV")), this.about,
      h("div", { class: "stage" }, this.canvas), this.readout);
    this.canvas.addEventListener("pointermove", (e) => { this.mouse = e.offsetX; this.draw(); });
    this.canvas.addEventListener("pointerleave", () => { this.mouse = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  /** A run of heaps has their rate in the place of that of events. */
  offer(heaps) {
    if (this.heaps === heaps) return;
    this.heaps = heaps;
    const [shown, other] = heaps ? ["heaps_per_s", "events_per_s"] : ["events_per_s", "heaps_per_s"];
    if (this.view.quantity === other) this.view.quantity = shown;
    this.keys = Object.keys(QUANTITIES).filter((key) => key !== other);
    this.select.replaceChildren(...this.keys.map((key) => h("option", { value: key, selected: key === this.view.quantity }, QUANTITIES[key][0])));
  }

  async refresh() {
    this.data = await getJson("/api/rates");
    if (this.data.ago_s.length > 0) this.offer("heaps_per_s" in this.data);
    this.draw();
  }

  draw() {
    const colours = this.page.colours;
    const stage = begin(this.canvas, colours);
    if (!stage || !this.data) return;
    const { g, w, h: high } = stage;
    const box = { x: BOX.left, y: BOX.top, w: w - BOX.left - BOX.right, h: high - BOX.top - BOX.below };
    const lost = this.view.quantity === "lost_per_s";
    const unit = lost ? `${this.page.lossUnit}/s` : QUANTITIES[this.view.quantity][1];
    const values = this.data[this.view.quantity] ?? [];
    const ago = this.data.ago_s;
    // A young run fills the width sooner: the axis grows from one minute to five.
    const length = Math.min(LONGEST, Math.max(60, Math.ceil((ago[0] ?? 0) / 30) * 30));
    const top = Math.max(1, ...values) * 1.08;
    const atX = (t) => box.x + box.w * (1 + t / length);
    const atY = (v) => box.y + box.h * (1 - v / top);
    const ticks = linearTicks(-length, 0, box.w / 80);
    axisBelow(g, box, ticks, atX, "Seconds before now", colours, false);
    axisLeft(g, box, linearTicks(0, top, box.h / 42), atY, unit, colours, true);
    const line = new Path2D();
    let begun = false;
    for (let i = 0; i < values.length; i++) {
      if (ago[i] > length) continue;
      if (begun) line.lineTo(atX(-ago[i]), atY(values[i]));
      else line.moveTo(atX(-ago[i]), atY(values[i]));
      begun = true;
    }
    g.strokeStyle = this.view.quantity === "lost_per_s" ? colours.bad : colours.accent;
    g.lineWidth = 1.6;
    g.lineJoin = "round";
    g.stroke(line);
    this.read(g, box, values, ago, length, atX, atY, unit, colours);
  }

  read(g, box, values, ago, length, atX, atY, unit, colours) {
    const last = values.length - 1;
    let i = last;
    if (this.mouse != null) {
      const wanted = -((this.mouse - box.x) / box.w - 1) * length;
      i = ago.reduce((best, a, k) => (Math.abs(a - wanted) < Math.abs(ago[best] - wanted) ? k : best), 0);
    }
    if (i < 0) {
      this.readout.textContent = "Two seconds of data make the first point";
      return;
    }
    g.fillStyle = colours.accent;
    g.beginPath();
    g.arc(atX(-ago[i]), atY(values[i]), 3.2, 0, 7);
    g.fill();
    const [text, prefix] = scaled(values[i]);
    this.readout.replaceChildren(i === last ? "Now " : `${span(ago[i])} ago `, h("b", {}, `${text} ${joined(prefix, unit)}`));
  }

  saveCsv() {
    if (!this.data) return;
    const keys = ["ago_s", ...this.keys];
    const rows = this.data.ago_s.map((_, i) => keys.map((k) => this.data[k][i]).join(","));
    save(new Blob([[keys.join(","), ...rows, ""].join("\n")], { type: "text/csv" }), `fullcount-rates-${stamp()}.csv`);
  }
}
