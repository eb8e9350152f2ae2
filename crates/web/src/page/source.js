// Where data come from: what was opened, and what each worker or link received.

import { h, sideways, whole } from "./words.js";

/** A line of the engine about one worker or link: "worker 1 udp://0.0.0.0:9000 on CPU 2: 12,345 packets". */
const PART = /^(worker|link) (\d+) (.+): ([\d,]+) packets(.*)$/;

/** Where the run reads: the endpoints at the end of the engine's title, else the first thing that its source says. */
export function sourceName({ title, source }) {
  const endpoints = /(?:^| · )([a-z][a-z+]*:\S.*)$/.exec(title)?.[1];
  return endpoints ?? source[0] ?? "not named";
}

export class Source {
  constructor() {
    this.facts = h("ul", { class: "facts" });
    this.rows = h("tbody");
    this.kind = h("th", { scope: "col" }, "Worker");
    this.parts = sideways("Sources, a table", h("table", {}, h("thead", {}, h("tr", {}, this.kind,
      h("th", { scope: "col" }, "Reads"), h("th", { class: "num", scope: "col" }, "Packets"), h("th", { scope: "col" }, "Share"))), this.rows));
    this.element = h("article", { class: "card", id: "source" }, h("header", {}, h("h2", {}, "Source")), this.facts, this.parts);
  }

  /** `lines` as in the state's run.source. */
  update(lines) {
    const key = JSON.stringify(lines);
    if (this.element.dataset.key === key) return;
    this.element.dataset.key = key;
    const parts = lines.map((line) => PART.exec(line)).filter(Boolean).map(([, kind, number, reads, packets, more]) =>
      // The number stands in a column of its own.
      ({ kind, number, reads: reads.replace(/ worker \d+ of \d+/, ""), packets: Number(packets.replaceAll(",", "")), more }));
    // Workers open the same thing several times: equal lines stand once, with their number.
    const counts = new Map();
    for (const line of lines.filter((l) => !PART.test(l))) counts.set(line, (counts.get(line) ?? 0) + 1);
    this.facts.replaceChildren(...[...counts].map(([line, n]) =>
      h("li", {}, sentence(line), n > 1 ? h("small", {}, ` × ${n}`) : null)));
    this.element.hidden = lines.length === 0;
    this.parts.hidden = parts.length === 0;
    this.kind.textContent = parts[0]?.kind === "link" ? "Link" : "Worker";
    const most = Math.max(1, ...parts.map((p) => p.packets));
    const all = parts.reduce((sum, p) => sum + p.packets, 0);
    this.rows.replaceChildren(...parts.map((p) => partRow(p, most, all)));
  }
}

function partRow({ kind, number, reads, packets, more }, most, all) {
  const bar = h("i", {});
  bar.style.width = `${(100 * packets) / most}%`;
  // Links of a redundant pair each carry everything: a share of the sum would read as half of it.
  const part = kind === "worker" && all > 0 ? `${((100 * packets) / all).toFixed(1)} %` : "";
  return h("tr", {}, h("td", {}, number), h("td", { class: "reads" }, reads, more ? h("span", { class: "meaning" }, more) : null),
    h("td", { class: "num" }, whole(packets)),
    h("td", {}, h("div", { class: "part" }, h("div", { class: "meter" }, bar), h("span", { class: "num" }, part))));
}

/** "Listening on …", but an address stays as it is. */
const sentence = (text) => (/^[a-z][a-z+]*:/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1));
