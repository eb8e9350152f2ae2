// What every plot has: title, current or cumulative, scale, menu, export, refresh.

import { KEYS_TEXT, takeKeys } from "./keys.js";
import { ask, getPixels, getPlot, keep, kept } from "./wire.js";
import { clock, h, save, stamp, whole } from "./words.js";

/** A segmented choice; `pick(value)` is called on change. */
export function segments(choices, value, pick) {
  const buttons = choices.map(([key, text, title]) =>
    h("button", {
      type: "button", title, "aria-pressed": String(key === value),
      onclick: () => {
        buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(choices[i][0] === key)));
        pick(key);
      },
    }, text));
  return h("div", { class: "seg", role: "group" }, ...buttons);
}

/** A labelled control of the menu. */
export const field = (label, control) => h("label", { class: "field" }, h("span", {}, label), control);

/** A select of the menu. */
export function choice(options, value, pick) {
  const select = h("select", { onchange: () => pick(select.value) },
    ...options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  return select;
}

/** A check box of the menu. */
export function check(text, value, pick) {
  const box = h("input", { type: "checkbox", checked: value, onchange: () => pick(box.checked) });
  return h("label", { class: "check" }, box, text);
}

/** Two number fields; `pick(low, high)` gets NaN for an empty one. */
export function pair(low, high, pick) {
  const make = (value, name) => h("input", { type: "number", step: "any", value, "aria-label": name });
  const [a, b] = [make(low, "lowest"), make(high, "highest")];
  for (const e of [a, b]) e.addEventListener("change", () => pick(a.valueAsNumber, b.valueAsNumber));
  const element = h("div", { class: "pair" }, a, b);
  element.show = (l, m) => { [a.value, b.value] = [+l.toPrecision(4), +m.toPrecision(4)]; };
  return element;
}

export class Card {
  /** `plot` as in /api/state; `page` gives what all cards share. */
  constructor(plot, page, defaults) {
    this.plot = plot;
    this.page = page;
    // Each detector's plots by themselves: a zoom into one is not one into another of the same name.
    this.view = kept(`plot.${page.detector}.${plot.id}`, { mode: "total", log: plot.log, limits: "clipped", low: 0, high: 100, ...defaults });
    this.data = null;
    this.seen = false;
    this.busy = false;
    this.next = 0;
    this.heading = h("h2", {}, plot.title);
    this.about = h("span", { class: "about" });
    this.canvas = h("canvas", { role: "img", "aria-label": plot.title });
    this.over = h("div", { class: "over" }, "");
    this.readout = h("div", { class: "readout" }, "");
    this.menu = h("details", { class: "menu" }, h("summary", { title: "Scale, limits, export", "aria-label": `View of ${plot.title}` }, "View"));
    this.refusal = h("p", { class: "error", hidden: true });
    this.modes = segments(
      [["current", "Current", "The last seconds"], ["total", "Cumulative", "Since the last clear"]],
      this.view.mode, (mode) => { this.set({ mode }); this.refetch(); });
    this.logButton = h("button", {
      type: "button", title: "Logarithmic counts", "aria-pressed": String(this.view.log),
      onclick: () => this.set({ log: !this.view.log }),
    }, "Log");
    this.element = h("article", { class: "card", id: `plot-${plot.id}` },
      h("header", {}, this.heading, this.modes, this.logButton, this.menu), this.about,
      h("div", { class: "stage" }, this.canvas, this.over), this.readout);
    this.canvas.addEventListener("pointerleave", () => { this.mouse = null; this.draw(); });
    new IntersectionObserver(([e]) => { this.seen = e.isIntersecting; if (this.seen) this.draw(); })
      .observe(this.element);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  /** Lets the plot take keys; called by subclasses that can move and zoom. */
  focusable() {
    const keys = h("span", { id: `keys-${this.plot.id}`, hidden: true }, KEYS_TEXT);
    this.element.append(keys);
    // An application: a screen reader hands its arrows on.
    for (const [name, value] of Object.entries({ tabindex: "0", role: "application", "aria-roledescription": "plot", "aria-describedby": keys.id })) {
      this.canvas.setAttribute(name, value);
    }
    this.readout.setAttribute("aria-live", "off");
    this.canvas.addEventListener("focus", () => this.readout.setAttribute("aria-live", "polite"));
    this.canvas.addEventListener("blur", () => this.readout.setAttribute("aria-live", "off"));
    takeKeys(this.canvas, this);
  }

  /** Where the data stand: a zoom is of one binning, and of another it would show something else. */
  ground(data) {
    const axis = (a) => (a ? `${a.first}:${a.last}:${a.bins}` : "");
    return `${data.width}x${data.height} ${axis(data.x)} ${axis(data.y)}`;
  }

  /** Forgets a zoom of other data; called with new ones. */
  checkZoom(data) {
    const ground = this.ground(data);
    if (this.view.zoom && this.view.of !== ground) this.view.zoom = null;
    this.view.of = ground;
  }

  /** Fills the menu; called once by the subclass. */
  fillMenu(...items) {
    this.menu.append(h("div", {}, ...items, this.refusal, h("hr"),
      h("div", { class: "row" },
        h("button", { type: "button", onclick: () => this.resetView() }, "Reset zoom"),
        h("button", { type: "button", onclick: () => this.clear() }, "Clear counts")),
      h("div", { class: "row" },
        h("button", { type: "button", onclick: () => this.savePng() }, "Save PNG"),
        h("button", { type: "button", onclick: () => this.saveCsv() }, "Save CSV"))));
  }

  /** Changes settings, keeps them, draws. */
  set(change) {
    Object.assign(this.view, change);
    this.logButton.setAttribute("aria-pressed", String(this.view.log));
    keep();
    this.draw();
  }

  /** Controls of the limits: [select, two numbers]. Manual limits start as the shown ones. */
  limitFields(kinds) {
    const v = this.view;
    const numbers = pair(v.low, v.high, (low, high) => {
      if (!(low < high)) return;
      kind.value = "manual";
      this.set({ low, high, limits: "manual" });
    });
    const kind = choice(kinds, v.limits, (limits) => {
      if (limits === "manual" && this.shown) {
        numbers.show(...this.shown);
        [v.low, v.high] = this.shown;
      }
      this.set({ limits });
    });
    return [field("Limits", kind), field("From, to", numbers)];
  }

  refetch() {
    this.version = null;
    this.next = 0;
  }

  async clear() {
    this.refuse(await ask(`/api/clear?plot=${encodeURIComponent(this.plot.id)}`));
    this.refetch();
  }

  refuse(text) {
    this.refusal.textContent = text ?? "";
    this.refusal.hidden = !text;
  }

  /** Fetches and draws if it is time; `now` in ms. Big plots come less often than small ones. */
  async refresh(now) {
    if (this.busy || !this.seen || now < this.next) return;
    this.busy = true;
    const mode = this.view.mode;
    try {
      const data = await getPlot(this.plot.id, mode, this.data?.mode === mode ? this.version : null);
      if (data && mode === this.view.mode) {
        this.version = data.version;
        this.data = data;
        this.accept(data);
        this.draw();
      }
      const took = performance.now() - now;
      this.next = now + Math.max(200, 3 * took);
    } catch {
      this.next = now + 1000;
    } finally {
      this.busy = false;
    }
  }

  /** Fetches once how many pixels each cell sums; `summed` is null until then. */
  async count() {
    if (this.summed || this.counting) return;
    this.counting = true;
    this.summed = await getPixels(this.plot.id).catch(() => null);
    this.counting = false;
    this.draw();
  }

  /** "of 20 pixels" for the read-out of a cell that sums several. */
  of(cell) {
    const n = this.summed?.[cell];
    return n == null ? "" : n === 0 ? "  no pixels" : n === 1 ? "  of 1 pixel" : `  of ${whole(n)} pixels`;
  }

  /** Lets the subclass prepare new data. */
  accept() {}

  /** When counting began, ms since 1970. */
  sinceText(data) {
    const start = this.page.startedMs;
    if (data.mode === "current") return `last ${Math.max(0, data.at_s - data.window_from_s).toFixed(1)} s`;
    return `since ${clock(start + data.since_s * 1000)}`;
  }

  /** Line beside the title. */
  describe() {
    const d = this.data;
    if (!d) return;
    // Pictures and sums over cells have no axis that an event could miss.
    const missed = [d.x, d.y].some((axis) => axis?.column) ? "outside the axes" : "without a pixel";
    const outside = d.outside > 0 ? ` · ${whole(d.outside)} ${missed}` : "";
    const gated = d.gated > 0 ? ` · ${whole(d.gated)} gated out` : "";
    this.about.textContent = `${this.sinceText(d)} · ${whole(d.sum)} ${this.unit ?? "counts"}${outside}${gated}`;
    this.about.title = this.about.textContent;
    this.element.classList.toggle("stale", this.page.stale);
    const silent = this.page.waiting ? "Waiting for data" : "No counts in this view";
    this.over.textContent = d.sum === 0 ? silent : "";
  }

  name(ending) {
    return `fullcount-${this.plot.id}-${this.data?.mode ?? ""}-${stamp()}.${ending}`;
  }

  savePng() {
    const { width, height } = this.canvas;
    const out = document.createElement("canvas");
    const ratio = window.devicePixelRatio || 1;
    const head = Math.round(30 * ratio);
    [out.width, out.height] = [width, height + head];
    const g = out.getContext("2d");
    const colours = this.page.colours;
    g.fillStyle = colours.card;
    g.fillRect(0, 0, out.width, out.height);
    g.fillStyle = colours.text;
    g.font = `${14 * ratio}px system-ui, sans-serif`;
    g.textBaseline = "middle";
    const when = new Date().toISOString().slice(0, 19).replace("T", " ");
    g.fillText(`${this.plot.title}: ${this.about.textContent}, at ${when} UTC`, 10 * ratio, head / 2, out.width - 20 * ratio);
    g.drawImage(this.canvas, 0, head);
    out.toBlob((blob) => blob && save(blob, this.name("png")));
  }

  saveCsv() {
    if (!this.data) return;
    const head = [`# ${this.plot.title}`, `# ${this.about.textContent}`, `# saved ${new Date().toISOString()}`];
    save(new Blob([[...head, ...this.rows(), ""].join("\n")], { type: "text/csv" }), this.name("csv"));
  }
}

/** Menu part that changes the binning of an axis for all viewers. */
export function binning(card, name, axis) {
  const number = (value, label) => h("input", { type: "number", step: "any", value, "aria-label": label });
  const first = number(axis.first / axis.scale, "first");
  const last = number(axis.last / axis.scale, "last");
  const bins = number(axis.bins, "bins");
  const apply = async () => {
    const unit = (e) => Math.round(e.valueAsNumber * axis.scale);
    const query = `plot=${encodeURIComponent(card.plot.id)}&axis=${name}&first=${unit(first)}&last=${unit(last)}&bins=${bins.valueAsNumber}`;
    card.refuse(await ask(`/api/axis?${query}`));
    card.resetView();
    card.refetch();
  };
  const range = `${axis.label}${axis.unit ? `, ${axis.unit}` : ""}`;
  return [h("hr"), field(range, h("div", { class: "pair" }, first, last)), field("Bins", bins),
    h("button", { type: "button", title: "Counts this plot anew, for all viewers", onclick: apply }, "Count anew with these bins")];
}
