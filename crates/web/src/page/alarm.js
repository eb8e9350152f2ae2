// What makes a run worthless although it goes on: outputs that have failed, packets of which most are refused. And what will
// soon: a spool that fills.

import { h } from "./words.js";

/** Sentences of the state's alarms, the worst first; none while all is well. */
export function alarms(state) {
  const failed = (state.outputs_failed ?? []).map(({ name, reason }) => `Output ${name} has failed, and what it does not take is lost: ${reason}`);
  return state.mostly_refused ? [...failed, state.mostly_refused] : failed;
}

/** Shows them below the header, and makes the badge red. */
export function showAlarms(state, banner, pill) {
  const all = alarms(state);
  banner.hidden = all.length === 0;
  if (all.length > 0) {
    pill.textContent = (state.outputs_failed ?? []).length > 0 ? "Output failed" : "Packets refused";
    pill.className = "pill bad";
  }
  const key = all.join("\n");
  if (banner.dataset.key === key) return;
  banner.dataset.key = key;
  banner.replaceChildren(...all.map((text) => h("span", { class: "alarm" }, text)));
}

/** Sentences about spools that are nearly full; none while there is room. */
export function filling(state) {
  const sentence = ({ output, percent }) =>
    `The spool of output ${output} is ${percent} % full: the broker is away or too slow. Once it is full, a source that can wait waits, and any other loses events.`;
  return (state.spools ?? []).filter((spool) => spool.nearly_full).map(sentence);
}

/** Shows them below the alarms. */
export function showFilling(state, banner) {
  const text = filling(state).join(" ");
  banner.hidden = text === "";
  if (banner.textContent !== text) banner.textContent = text;
}
