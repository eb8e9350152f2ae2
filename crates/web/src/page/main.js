// Starts the page: polls the status, makes the cards, shows the numbers that are always visible.

import { showAlarms, showFilling } from "./alarm.js";
import { theme } from "./axis.js";
import { closeMenus } from "./keys.js";
import { Account, lossOf } from "./ledger.js";
import { Heaps, heapsLost } from "./heaps.js";
import { Line } from "./line.js";
import { Picture } from "./picture.js";
import { Rates } from "./rates.js";
import { sourceName } from "./source.js";
import { Tracks } from "./tracks.js";
import { Waterfall } from "./waterfall.js";
import { ask, getJson, getPixels } from "./wire.js";
import { clock, h, joined, percent, scaled, short, span, whole } from "./words.js";

const byId = (id) => document.getElementById(id);

/** What all cards share. */
const page = { colours: theme(), detector: "", startedMs: 0, stale: false, waiting: false, pixels: null, pixelsWanted: false, lossUnit: "packets" };

const cards = new Map();
const account = new Account(byId("account"));
const rates = new Rates(page);
const heaps = new Heaps();
let paused = false;
let lostSince = null;
let ended = false;
let run = null;

byId("plots").append(rates.element);

const tiles = Object.fromEntries(
  [["events", "Events", "rates"], ["packets", "Packets", "rates"], ["bits", "Payload", "rates"],
    ["total", "Events", "totals"], ["lost", "Lost packets", "totals"], ["balance", "Balance", "totals"]].map(([key, name, group]) => {
    const value = h("p", {}, "–");
    const below = h("span", {}, "");
    const jump = { lost: "ledger", balance: "hops" }[key];
    // A link for keys; the whole tile for the mouse.
    const link = jump ? h("a", { href: `#${jump}` }, name) : null;
    const heading = h("h3", {}, link ?? name);
    const label = link ?? heading;
    const tile = h("article", { class: "tile", id: `tile-${key}` }, heading, value, below);
    byId(`tiles-${group}`).append(tile);
    if (jump) {
      tile.addEventListener("click", (e) => {
        e.preventDefault();
        byId(jump).scrollIntoView({ behavior: "smooth", block: "center" });
      });
    }
    return [key, {
      rename(text) {
        if (label.textContent !== text) label.textContent = text;
      },
      show(text, unit, note, kind = "") {
        value.replaceChildren(text, unit ? h("small", {}, unit) : "");
        // The style sheet makes long numbers as small as they must be: every digit counts. A unit's letters have half the size.
        value.style.setProperty("--letters", text.length + (unit ? unit.length * 0.6 + 1 : 0));
        below.replaceChildren(note ?? "");
        below.title = below.textContent;
        tile.className = `tile ${kind}${jump ? " jump" : ""}`;
      },
    }];
  }));

function showNumbers(s) {
  const { totals, rates: r } = s;
  const rate = (v, unit) => {
    if (v == null) return ["–", unit];
    const [text, prefix] = scaled(v);
    return [text, joined(prefix, unit)];
  };
  tiles.events.show(...rate(r?.events_per_s, "events/s"), "averaged over 1 s");
  tiles.packets.show(...rate(r?.packets_per_s, "packets/s"), `${whole(totals.packets)} packets`);
  const [bytes, prefix] = scaled(totals.bytes);
  tiles.bits.show(...rate(r?.bits_per_s, "bit/s"), `${bytes} ${prefix}B received`);
  const per = totals.packets > 0 ? `${(totals.events / totals.packets).toFixed(1)} per packet` : "";
  tiles.total.show(whole(totals.events), "", per);
  showHeaps(heaps.of(s, Date.now()));
  const loss = lossOf(s);
  page.lossUnit = loss.unit;
  const bound = loss.lost_at_least > 0 ? "≥ " : "";
  tiles.lost.rename(`Lost ${loss.unit}`);
  tiles.lost.show(bound + whole(loss.lost), loss.lost > 0 ? percent(loss.lost / (loss.received + loss.lost)) : "", lostNote(s, heapsLost(s), loss), s.anything_lost ? "bad" : loss.missing > 0 ? "" : "good");
  tiles.balance.show(whole(s.balance), "", s.balance === 0 ? "all accounted for" : s.run.running ? "under way between hops" : "not accounted for, see below",
    s.balance === 0 ? "good" : s.run.running ? "" : "bad");
}

/** A run with heaps has them where others have events. */
function showHeaps(found) {
  for (const tile of [tiles.events, tiles.total]) tile.rename(found ? "Heaps" : "Events");
  if (!found) return;
  tiles.events.show(found.rate, found.unit, `${whole(found.waiting)} unfinished`);
  tiles.total.show(found.complete, "complete", found.note, found.kind);
}

/** Under what is lost: the gaps that may still close, else of how many packets they are. */
function lostNote({ anything_lost: anything }, heaps, { lost, lost_at_least: turns, missing, received, unit }) {
  if (missing > 0) return h("b", { class: "missing" }, `${missing < 1e6 ? whole(missing) : short(missing)} missing so far`);
  if (turns > 0) return "at least: a short number wrapped";
  return lost > 0 ? `of ${whole(received + lost)} ${unit}` : !anything ? "nothing lost" : heaps > 0 ? "but heaps are lost or incomplete" : "but outputs lost events";
}

/** More than this share of rejected packets is said on top of the page: something is set up wrong. */
const MANY_REJECTED = 0.01;

/** Lines under the header: what the run waits for, and why it throws packets away. */
function showNotices({ run, totals, rejected }) {
  const { running, last_data_s_ago: ago } = run;
  const waiting = byId("waiting");
  waiting.hidden = !running || ago != null;
  waiting.textContent = `Waiting for data: source ${sourceName(run)}`;
  const notice = byId("notice");
  const part = totals.packets > 0 ? rejected.packets / totals.packets : 0;
  notice.hidden = !(part > MANY_REJECTED) || rejected.most == null;
  const key = notice.hidden ? "" : `${percent(part)} ${rejected.most.name} ${percent(rejected.most.value / rejected.packets)}`;
  if (notice.dataset.key === key) return;
  notice.dataset.key = key;
  if (notice.hidden) return;
  const { name, value, meaning, todo } = rejected.most;
  const most = value === rejected.packets ? "All" : percent(value / rejected.packets);
  notice.replaceChildren(`${percent(part)} of the packets received are rejected. ${most} of them: ${meaning} `,
    h("code", {}, `(${name})`), ". ", todo ? h("span", {}, `What to do: ${todo}.`) : "");
}

/** Never green while something is lost, a source is missing or packets are refused, and in words for who sees no colours. */
function badge(s, [text, kind]) {
  if (s.totals.lost > 0) return [`${text}, packets lost`, "bad"];
  if (s.anything_lost) return [`${text}, ${heapsLost(s) > 0 ? "heaps" : "events"} lost`, "bad"];
  const trouble = account.readout.trouble(s, Date.now());
  if (trouble !== "") return [`${text}, ${trouble}`, "bad"];
  if (s.rejected.packets > 0) return [`${text}, packets refused`, "warn"];
  return [text, kind];
}

function showRun(s) {
  const { running, last_data_s_ago: ago, title, detector, outputs, started_ms: started } = s.run;
  byId("title").textContent = title;
  byId("title").title = title;
  ended = !running;
  byId("detector").textContent = detector;
  document.title = title ? `${title} · Fullcount` : "Fullcount";
  page.stale = running && ago != null && ago > 3;
  page.waiting = running && ago == null;
  const pill = byId("state");
  const [text, kind] = badge(s, !running ? ["Ended", ""] : ago == null ? ["Waiting for data", "warn"]
    : page.stale ? [`No data for ${span(ago)}`, "warn"] : ["Running", "good"]);
  if (pill.textContent !== text) pill.textContent = text;
  pill.className = `pill ${kind}`;
  const facts = [`Started ${clock(started)}`, ...outputs.map((t) => `Output: ${t}`),
    `Fullcount ${s.version}`].map((t) => h("span", {}, t));
  const foot = byId("footer");
  if (foot.dataset.key !== facts.map((f) => f.textContent).join()) {
    foot.dataset.key = facts.map((f) => f.textContent).join();
    foot.replaceChildren(...facts, h("span", {}, h("a", { href: "/metrics" }, "Prometheus metrics"), " · ", h("a", { href: "/api/state" }, "state as JSON")));
  }
  const select = byId("window");
  if (s.window_s != null && document.activeElement !== select) select.value = String(s.window_s);
  for (const id of ["window", "clear"]) byId(id).disabled = !running || s.plots.length === 0;
}

/** Makes and removes cards; plots of columns that never held anything stay hidden. */
function showPlots(plots) {
  for (const plot of plots) {
    const axes = [plot.x, plot.y].filter(Boolean).map((a) => a.column);
    const optional = plot.kind === "tracks" || axes.some((c) => c === "adc" || c === "hit_pixel" || c?.startsWith("cluster_"));
    let card = cards.get(plot.id);
    if (!card) {
      card = plot.kind === "line" ? new Line(plot, page) : plot.kind === "tracks" ? new Tracks(plot, page)
        : plot.kind === "waterfall" ? new Waterfall(plot, page) : new Picture(plot, page);
      cards.set(plot.id, card);
      byId("plots").append(card.element);
    }
    card.element.hidden = optional && plot.counted + plot.outside === 0;
  }
  arrange(plots);
}

/** True for sums over a part of the detector: pictures of cells, and spectra over cells. */
const projected = (plot) => plot.kind === "projection" || (plot.kind === "line" && !plot.x.column);

/** Order and width of the cards: pictures, first spectrum and rates, projections, the rest; no holes. */
function arrange(plots) {
  const spectrum = plots.find((p) => p.kind === "line" && !projected(p));
  const group = (p) => (p.kind === "image" || p.kind === "waterfall" ? 0 : p === spectrum ? 1 : projected(p) ? 3 : 4);
  const entries = [...plots.map((p) => [group(p), cards.get(p.id).element]), [2, rates.element]].sort(([a], [b]) => a - b);
  const box = byId("plots");
  entries.forEach(([, e], i) => { if (box.children[i] !== e) box.insertBefore(e, box.children[i] ?? null); });
  const shown = entries.filter(([, e]) => !e.hidden);
  const pictures = shown.filter(([g]) => g === 0);
  // Two cards stand beside a tall picture.
  const beside = pictures.some(([, e]) => e.classList.contains("tall")) ? 2 : 0;
  const small = shown.slice(pictures.length + beside);
  const sums = small.filter(([g]) => g === 3);
  // Three in a row, but no row with one: 4 are 2 and 2, 5 are 3 and 2.
  let thirds = sums.length - [0, 4, 2][sums.length % 3];
  if (thirds < 0) thirds = 0;
  const halves = small.length - thirds;
  const kinds = new Map(small.filter(([g]) => g !== 3 || thirds-- <= 0).map(([, e], i) => [e, halves % 2 === 1 && i === halves - 1 ? "full" : "half"]));
  for (const [, e] of entries) {
    e.classList.toggle("full", kinds.get(e) === "full");
    e.classList.toggle("third", small.some(([, s]) => s === e) && !kinds.has(e));
  }
}

/** Another run, or other plots: the cards are made anew. */
const identity = (state) => `${state.run.started_ms} ${state.run.detector} ${state.plots.map((p) => `${p.id} ${p.kind}`).join()}`;

function restart(state) {
  cards.forEach((card) => card.element.remove());
  cards.clear();
  page.pixels = null;
  run = identity(state);
}

async function poll() {
  try {
    const state = await getJson("/api/state").catch(() => null);
    if (state) await show(state);
    else showLost();
  } finally {
    setTimeout(poll, lostSince ? 1000 : 500);
  }
}

async function show(state) {
  if (lostSince) {
    lostSince = null;
    byId("banner").hidden = true;
  }
  page.startedMs = state.run.started_ms;
  page.detector = state.run.detector;
  if (run !== identity(state)) restart(state);
  showRun(state);
  showNotices(state);
  showAlarms(state, byId("alarm"), byId("state"));
  showFilling(state, byId("filling"));
  if (!paused) {
    showPlots(state.plots);
    showNumbers(state);
    account.update(state);
  }
  if (page.pixelsWanted && !page.pixels) page.pixels = await getPixels().catch(() => null);
}

function showLost() {
  lostSince ??= Date.now();
  const banner = byId("banner");
  banner.hidden = false;
  banner.classList.toggle("plain", ended);
  if (ended) {
    // The server goes with the run: this is the end that was announced, not a fault.
    banner.textContent = "The run has ended, and its page with it: these are the last numbers. A new run on this address appears by itself.";
    return;
  }
  banner.textContent = `Connection lost since ${clock(lostSince)}. The page shows the last numbers and tries again every second.`;
  byId("state").textContent = "Connection lost";
  byId("state").className = "pill bad";
}

async function pollRates() {
  try {
    if (!paused && !document.hidden) await rates.refresh();
  } catch {
    // `poll` reports a lost connection.
  }
  setTimeout(pollRates, 1000);
}

function pollPlots() {
  if (!paused && !document.hidden && !lostSince) {
    const now = performance.now();
    cards.forEach((card) => card.refresh(now));
  }
  setTimeout(pollPlots, 100);
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  const b = byId("pause");
  b.textContent = paused ? "Resume" : "Pause";
  b.setAttribute("aria-pressed", String(paused));
});

async function change(path) {
  const refusal = await ask(path);
  const banner = byId("banner");
  if (!refusal) return;
  banner.classList.remove("plain");
  banner.textContent = `Refused: ${refusal}`;
  banner.hidden = false;
  setTimeout(() => { if (!lostSince) banner.hidden = true; }, 5000);
}

byId("clear").addEventListener("click", () => change("/api/clear"));
byId("window").addEventListener("change", (e) => change(`/api/window?seconds=${e.target.value}`));

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  page.colours = theme();
  cards.forEach((card) => card.draw());
  rates.draw();
});

closeMenus();
poll();
pollRates();
pollPlots();
