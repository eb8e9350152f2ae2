// Talks to the server: JSON, plots (format of live/encode.rs), settings kept in this browser.

/** Status as JSON; throws if the server is gone. */
export async function getJson(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

/** A plot's head and cells, or null if nothing changed after `version`. */
export async function getPlot(id, mode, version) {
  const after = version == null ? "" : `&after=${version}`;
  const path = `/api/plot/${encodeURIComponent(id)}?mode=${mode}${after}`;
  const answer = await fetch(path, { signal: AbortSignal.timeout(20000) });
  if (answer.status === 204) return null;
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  const bytes = await answer.arrayBuffer();
  const view = new DataView(bytes);
  if (view.getUint32(0, false) !== 0x46435031) throw new Error(`${path}: not a plot`);
  const length = view.getUint32(4, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length)));
  const Cells = head.cell === "u32" ? Uint32Array : Float64Array;
  head.cells = new Cells(bytes, 8 + length);
  return head;
}

/** Pixel number of each picture cell; with a plot's id, how many pixels each of its cells sums. */
export async function getPixels(plot) {
  const path = plot == null ? "/api/pixels" : `/api/pixels?plot=${encodeURIComponent(plot)}`;
  const answer = await fetch(path, { signal: AbortSignal.timeout(20000) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return new Uint32Array(await answer.arrayBuffer());
}

/** Asks for a change; gives the refusal's text, or null. */
export async function ask(path) {
  try {
    const answer = await fetch(path, { method: "POST", signal: AbortSignal.timeout(5000) });
    return answer.ok ? null : (await answer.text()).trim();
  } catch {
    return "the server does not answer";
  }
}

const KEY = "fullcount/1";
let settings = {};
try {
  settings = JSON.parse(localStorage.getItem(KEY)) ?? {};
} catch {
  // Private windows and broken values: start with the defaults.
}

/** Settings of one part, as an object that `keep` stores. */
export function kept(part, defaults) {
  const known = typeof settings[part] === "object" && settings[part] !== null ? settings[part] : {};
  settings[part] = { ...defaults, ...known };
  return settings[part];
}

/** Stores all settings. */
export function keep() {
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // A full or forbidden store only means that settings last as long as the page.
  }
}
