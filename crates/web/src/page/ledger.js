// Losses by place, balance of every hop, outputs, and the ledger with its texts.

import { segments } from "./card.js";
import { Readout } from "./readout.js";
import { Source } from "./source.js";
import { keep, kept } from "./wire.js";
import { h, percent, sideways, whole } from "./words.js";

const PLACES = {
  link: "Between hosts", nic: "Network card", backlog: "Kernel backlog", socket: "Socket buffer",
  reassembly: "IP reassembly", queue: "Our queues", down: "While down", unknown: "Place unknown",
};

/** What is lost, in the unit that senders number: packets, or what their packets carry instead. */
export function lossOf({ totals, lost, lost_shared: shared, lost_numbered: numbered }) {
  const [other] = numbered ?? [];
  if (other) return { ...other, received: other.count, shared: other.shared.map((s) => [s.places, s.lost]) };
  return { unit: "packets", lost: totals.lost, lost_at_least: totals.lost_at_least, missing: totals.missing, received: totals.packets, places: lost,
    shared: shared.map((s) => [s.places, s.packets]) };
}

/** Replaces an element's children only if their text changed: selections and focus stay. */
function renew(element, key, children) {
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  element.replaceChildren(...children());
}

export class Account {
  constructor(element) {
    this.view = kept("ledger", { show: "nonzero" });
    this.places = h("div", { class: "places" });
    this.lossHint = h("p", { class: "hint" });
    this.lossTitle = h("h2", {}, "Lost packets by place");
    this.source = new Source();
    this.readout = new Readout();
    this.hops = h("tbody");
    this.sinks = h("tbody");
    this.sinkCard = h("article", { class: "card", id: "outputs" }, h("header", {}, h("h2", {}, "Outputs")),
      sideways("Outputs, a table", h("table", {}, head(["Output", ""], ["Events", "num"], ["Dropped", "num"], ["Queue", ""]), this.sinks)));
    this.modules = h("tbody");
    this.moduleCard = h("article", { class: "card", id: "modules" }, h("header", {}, h("h2", {}, "Modules")),
      sideways("Modules, a table", h("table", {}, head(["Module", ""], ["Packets", "num"], ["Lost", "num"], ["Newest packet", ""]), this.modules)));
    this.lines = h("tbody");
    this.about = h("span", { class: "about" });
    const shown = segments([["problems", "Problems"], ["nonzero", "Not zero"], ["all", "All"]], this.view.show, (show) => {
      this.view.show = show;
      keep();
      if (this.state) this.update(this.state);
    });
    element.append(
      h("div", { class: "stack" }, this.readout.element,
        h("article", { class: "card", id: "losses" }, h("header", {}, this.lossTitle), this.places, this.lossHint),
        h("article", { class: "card", id: "hops" }, h("header", {}, h("h2", {}, "Balance of every hop")),
          sideways("Balance of every hop, a table", h("table", {},
            head(["Hop", ""], ["In", "num"], ["Accepted", "num"], ["Rejected", "num"], ["Dropped", "num"], ["Queued", "num"], ["Difference", "num"]), this.hops))),
        this.sinkCard, this.moduleCard, this.source.element),
      h("article", { class: "card", id: "ledger" }, h("header", {}, h("h2", {}, "Ledger"), this.about, shown),
        sideways("Ledger, a table", h("table", {}, head(["Counter", ""], ["Value", "num"], ["Meaning, and what to do", ""]), this.lines))));
  }

  update(state) {
    this.state = state;
    this.updateLosses(state);
    renew(this.hops, state.run.running + JSON.stringify(state.hops), () => state.hops.map((hop) => hopRow(hop, state.run.running)));
    this.source.update(state.run.source);
    this.readout.update(state, Date.now());
    this.sinkCard.hidden = state.sinks.length === 0;
    renew(this.sinks, JSON.stringify(state.sinks), () => state.sinks.map(sinkRow));
    const modules = state.modules ?? [];
    this.moduleCard.hidden = modules.length === 0;
    renew(this.modules, JSON.stringify([modules, state.modules_hidden]), () => moduleRows(modules, state.modules_hidden ?? 0));
    const problems = (l) => l.value > 0 && l.severity !== "plain";
    const keepers = { problems, nonzero: (l) => l.value > 0, all: () => true };
    const lines = state.ledger.filter(keepers[this.view.show] ?? keepers.nonzero);
    const count = state.ledger.filter(problems).length;
    this.about.textContent = count === 0 ? "nothing to do" : `${count} ${count === 1 ? "line asks" : "lines ask"} for attention`;
    // Losses first: the question of a shift is where data get lost.
    const rank = (l) => (l.value === 0 ? 2 : l.severity === "loss" ? 0 : l.severity === "notice" ? 1 : 2);
    const sorted = lines.map((l, i) => [rank(l), i, l]).sort((p, q) => p[0] - q[0] || p[1] - q[1]).map((p) => p[2]);
    const none = () => [h("tr", {}, h("td", { colspan: "3", class: "meaning" }, "No line to show."))];
    renew(this.lines, this.view.show + JSON.stringify(sorted), () => (sorted.length ? sorted.map(ledgerRow) : none()));
  }

  updateLosses(state) {
    const { unit, lost: total, lost_at_least: turns, missing, received, places, shared: some } = lossOf(state);
    const title = `Lost ${unit} by place`;
    if (this.lossTitle.textContent !== title) this.lossTitle.textContent = title;
    // What is known to be lost at one of a few places has a line of its own.
    const shared = some.map(([at, n]) => [at.map((p) => PLACES[p] ?? p).join(" or "), n]);
    const known = shared.reduce((sum, [, n]) => sum + n, 0);
    const one = Object.entries(places).map(([place, n]) => [place, place === "unknown" ? n - known : n]);
    const lost = [...one, ...shared];
    renew(this.places, JSON.stringify(lost), () => lost.map(([place, n]) =>
      h("div", { class: n > 0 ? "place bad" : "place" }, h("span", {}, PLACES[place] ?? place), h("b", {}, whole(n)))));
    this.lossHint.classList.toggle("missing", missing > 0);
    const open = `${whole(missing)} missing so far: overtaken packets that may still come, or losses whose place is not known yet.`;
    const nothing = unit === "packets" ? "Every packet that the sender numbered is delivered or accounted for."
      : `None of the ${unit} that the sender numbered is missing.`;
    this.lossHint.textContent = missing > 0 ? open : total === 0 && !turns ? nothing
      : `${turns > 0 ? "At least " : ""}${whole(total)} of ${whole(received + total)} ${unit}, ${percent(total / (received + total))}. The ledger says what to change.`;
  }
}

const head = (...names) => h("thead", {}, h("tr", {}, ...names.map(([text, kind]) => h("th", { class: kind, scope: "col" }, text))));

/** While data flow, a hop's numbers are read one after the other: a difference is on its way. */
function hopRow(hop, running) {
  const number = (n) => h("td", { class: "num" }, whole(n));
  const right = hop.difference === 0;
  return h("tr", {}, h("td", {}, hop.hop, " ", h("span", { class: "meaning" }, hop.unit)), number(hop.in), number(hop.accepted),
    number(hop.rejected), number(hop.dropped), number(hop.queued),
    h("td", { class: `num ${right ? "ok" : running ? "meaning" : "wrong"}` },
      right ? "0 ✓" : whole(hop.difference) + (running ? " under way" : "")));
}

function sinkRow(sink) {
  const part = sink.capacity > 0 ? sink.queued / sink.capacity : 0;
  const bar = h("i", { class: part > 0.8 ? "full" : "" });
  bar.style.width = `${Math.min(100, part * 100)}%`;
  const dropped = sink.dropped_events;
  const share = dropped > 0 ? ` (${percent(dropped / (dropped + sink.events))})` : "";
  const bad = dropped > 0 && sink.required;
  return h("tr", { class: bad ? "loss" : dropped > 0 ? "notice" : "" },
    h("td", {}, sink.name, " ", h("span", { class: "meaning" }, sink.required ? "required" : "best effort")),
    h("td", { class: "num" }, whole(sink.events)), h("td", { class: "num" }, whole(dropped) + share),
    h("td", { title: `${whole(sink.queued)} of ${whole(sink.capacity)} batches` }, h("div", { class: "meter" }, bar)));
}

/** Modules or streams of the detector, those that have stopped first. */
function moduleRows(modules, hidden) {
  const age = ({ age_ms: ms, silent }) => (ms < 1500 ? "now" : `${silent ? "silent for " : ""}${whole(Math.round(ms / 1000))} s${silent ? "" : " ago"}`);
  const row = (m) => h("tr", { class: m.silent ? "notice" : "" }, h("td", { class: "name" }, m.name),
    h("td", { class: "num" }, whole(m.packets)), h("td", { class: "num" }, whole(m.lost)), h("td", {}, age(m)));
  const rows = [...modules].sort((p, q) => q.silent - p.silent).map(row);
  if (hidden > 0) rows.push(h("tr", {}, h("td", { colspan: "4", class: "meaning" }, `and ${whole(hidden)} more`)));
  return rows;
}

function ledgerRow(line) {
  const problem = line.value > 0 && line.severity !== "plain";
  return h("tr", { class: problem ? line.severity : "" }, h("td", { class: "name" }, ...breakable(line.name)),
    h("td", { class: "num" }, whole(line.value), " ", h("span", { class: "meaning" }, line.unit)),
    h("td", {}, h("span", { class: "meaning" }, sentence(line.meaning)),
      problem && line.todo ? h("span", { class: "todo" }, `What to do: ${line.todo}`) : null));
}

/** A dotted name that may break after its dots and underscores. */
const breakable = (name) => name.split(/(?<=[._])/).flatMap((part) => [part, h("wbr")]);

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
