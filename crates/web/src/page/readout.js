// The sources of a readout unit: which are missing, which the next event waits for, which throttle; streams and memory.

import { h, scaled, sideways, whole } from "./words.js";

/** A source that the next event waits for is stalled once something has waited for it for so long. */
const STALLED_MS = 1000;
/** Throttling is said for so long after the last fragment that told it. */
const TOLD_MS = 3000;
/** Rows of sources without trouble; those with trouble are all shown. */
const MOST = 64;

const LINE = /^fragments\.source\.(\d+)\.(count|lost|bad|streams|throttled|awaited)$/;

export class Readout {
  constructor() {
    this.told = new Map();
    this.about = h("span", { class: "about" });
    this.facts = h("ul", { class: "facts" });
    this.rows = h("tbody");
    const heads = [["Source", ""], ["State", ""], ["Fragments", "num"], ["Missing", "num"], ["Damaged", "num"], ["Throttled", "num"]];
    this.element = h("article", { class: "card", id: "readout", hidden: true }, h("header", {}, h("h2", {}, "Sources of the readout unit"), this.about), this.facts,
      sideways("Sources of the readout unit, a table", h("table", {},
        h("thead", {}, h("tr", {}, ...heads.map(([text, kind]) => h("th", { class: kind, scope: "col" }, text)))), this.rows)));
  }

  /** What is wrong with sources of this state, in words for the badge; empty: nothing. */
  trouble(state, nowMs) {
    const found = this.of(state, nowMs);
    const some = ["missing", "stalled", "throttling"].filter((what) => found?.numbers[what] > 0);
    return some.length > 0 ? `sources ${some.join(", ")}` : "";
  }

  /** null: this run has no such sources. */
  of(state, nowMs) {
    const sources = new Map();
    const values = new Map();
    for (const { name, value } of state.ledger) {
      const [, id, what] = LINE.exec(name) ?? [];
      if (id === undefined) values.set(name, value);
      else sources.set(id, { ...sources.get(id), id: Number(id), [what]: value });
    }
    if (sources.size === 0) return null;
    const value = (name) => values.get(name) ?? 0;
    const stalls = value("merge.oldest_ms") >= STALLED_MS;
    const numbers = { missing: 0, stalled: 0, throttling: 0 };
    const all = [...sources.values()].map((source) => {
      const before = this.told.get(source.id) ?? { throttled: source.throttled, at: -Infinity };
      const at = source.throttled === before.throttled ? before.at : nowMs;
      this.told.set(source.id, { throttled: source.throttled, at });
      const is = { missing: source.streams === 0, stalled: source.streams > 0 && source.awaited > 0 && stalls, throttling: nowMs - at < TOLD_MS };
      // A run that has ended waits for nobody.
      const wrong = state.run.running ? Object.keys(is).filter((what) => is[what]) : [];
      wrong.forEach((what) => { numbers[what] += 1; });
      return { ...source, wrong };
    });
    return { all, numbers, open: all.filter((s) => s.streams > 0).length, held: value("merge.held"), paused: value("merge.paused"), oldest: value("merge.oldest_ms") };
  }

  update(state, nowMs) {
    const found = this.of(state, nowMs);
    this.element.hidden = !found;
    if (!found) return;
    const { all, numbers, open, held, paused, oldest } = found;
    const key = JSON.stringify([found, state.run.running]);
    if (this.element.dataset.key === key) return;
    this.element.dataset.key = key;
    const wrong = Object.entries(numbers).filter(([, n]) => n > 0).map(([what, n]) => `${whole(n)} ${what}`);
    this.about.replaceChildren(wrong.length > 0 ? h("b", { class: "wrong" }, wrong.join(", ")) : state.run.running ? "all send" : "ended");
    const [memory, prefix] = scaled(held);
    const waits = paused > 0 ? `, ${whole(paused)} paused because they are ahead` : "";
    this.facts.replaceChildren(h("li", {}, `Streams open: ${whole(open)} of ${whole(all.length)}${waits}`),
      h("li", {}, `Memory of fragments that wait: ${memory} ${prefix}B, the oldest for ${whole(oldest)} ms`));
    // Trouble first, then what has lost something.
    const rank = (s) => (s.wrong.length > 0 ? 0 : s.lost + s.bad > 0 ? 1 : 2);
    const sorted = [...all].sort((p, q) => rank(p) - rank(q) || p.id - q.id);
    const most = Math.max(MOST, sorted.filter((s) => s.wrong.length > 0).length);
    const rows = sorted.slice(0, most).map(sourceRow);
    if (sorted.length > most) rows.push(h("tr", {}, h("td", { colspan: "6", class: "meaning" }, `and ${whole(sorted.length - most)} more`)));
    this.rows.replaceChildren(...rows);
  }
}

const WORDS = { missing: "missing: it has no stream", stalled: "stalled: the next event waits for it", throttling: "throttling" };

function sourceRow(source) {
  const number = (n) => h("td", { class: "num" }, whole(n));
  const kind = source.wrong.length > 0 ? "loss" : source.lost + source.bad > 0 ? "notice" : "";
  const state = source.wrong.map((what) => WORDS[what]).join("; ");
  return h("tr", { class: kind }, h("td", { class: "name" }, String(source.id)), h("td", {}, state === "" ? "in order" : h("b", { class: "wrong" }, state)),
    number(source.count), number(source.lost), number(source.bad), number(source.throttled));
}
