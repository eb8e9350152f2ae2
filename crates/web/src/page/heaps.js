// Heaps in the place of events, where a run has heaps: their rate, how many are whole, how many are not.

import { scaled, short, whole } from "./words.js";

/** Rates are means over so many seconds at least. */
const SPAN_S = 2;

const valueOf = (state, name) => state.ledger.find((line) => line.name === name)?.value ?? 0;

/** Heaps that never came: a source that puts heaps together counts them too, so the larger count holds. */
const neverCame = (state) => Math.max(valueOf(state, "heaps.lost"), valueOf(state, "spead.lost.heaps"));

/** Of heaps that came and were thrown away: heaps, or packets or bytes of them. */
const THROWN = ["heaps.thrown_away", "spead.refused.heap_too_large", "spead.refused.no_memory", "spead.refused.too_many_items", "spead.refused.unsized",
  "spead.reader.too_large", "spead.reader.no_memory", "spead.reader.not_whole", "spead.reader.junk_bytes", "spead.reader.cut", "carrier.unfit"];
const thrownAway = (state) => THROWN.reduce((sum, name) => sum + valueOf(state, name), 0);

/** Heaps of a state that are incomplete, never came, or were thrown away. */
export const heapsLost = (state) => valueOf(state, "heaps.incomplete") + neverCame(state) + thrownAway(state);

export class Heaps {
  constructor() {
    this.seen = [];
  }

  /** What the tiles show; null: this run has no heaps. */
  of(state, nowMs) {
    const value = (name) => valueOf(state, name);
    if (!state.ledger.some((line) => line.name === "heaps.count")) return null;
    const complete = value("heaps.complete") + value("heaps.unsized");
    const incomplete = value("heaps.incomplete");
    const heaps = complete + incomplete;
    if (this.seen.length > 0 && heaps < this.seen[0].heaps) this.seen = [];
    this.seen.push({ at: nowMs / 1000, heaps });
    while (this.seen.length > 2 && this.seen[1].at < nowMs / 1000 - SPAN_S) this.seen.shift();
    const [first, last] = [this.seen[0], this.seen.at(-1)];
    const rate = last.at > first.at ? (last.heaps - first.heaps) / (last.at - first.at) : null;
    const [text, prefix] = rate == null ? ["–", ""] : scaled(rate);
    const lost = neverCame(state);
    const thrown = thrownAway(state) > 0;
    const notes = [incomplete > 0 ? `${whole(incomplete)} incomplete` : thrown ? "none incomplete" : "all complete"];
    if (lost > 0) notes.push(`${short(lost)} never came`);
    if (thrown) notes.push("some thrown away");
    return {
      rate: text, unit: `${prefix ? `${prefix} ` : ""}heaps/s`, complete: whole(complete),
      note: notes.join(", "),
      kind: incomplete + lost > 0 || thrown ? "bad" : "good", waiting: value("heaps.live"),
    };
  }
}
