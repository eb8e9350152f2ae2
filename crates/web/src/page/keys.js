// Keys of a plot that has the focus, and Escape for open menus.

/** What a screen reader says of them. */
export const KEYS_TEXT = "Arrows move, plus and minus zoom, 0 shows all, Shift with arrows reads single cells.";

/** A third of the view a step, as zooming takes a third off. */
const STEP = 1 / 3;
const ZOOM = 2 / 3;

/** The part [a, b) of 0 to n moved by a share of itself, kept inside. */
export function moved([a, b], share, n) {
  const length = b - a;
  const low = Math.max(0, Math.min(n - length, a + share * length));
  return [low, low + length];
}

/** The part [a, b) of 0 to n made `by` times as long about its middle, kept inside and at least `least` long. */
export function scaledPart([a, b], by, n, least) {
  const length = Math.min(n, Math.max(least, (b - a) * by));
  const low = Math.max(0, Math.min(n - length, (a + b - length) / 2));
  return [low, low + length];
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Binds keys to a card with `panBy(x, y)`, `zoomBy(factor)`, `readNext(x, y)` and `resetView()`. */
export function takeKeys(canvas, card) {
  canvas.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || !card.data) return;
    const arrow = ARROWS[e.key];
    if (arrow && e.shiftKey) card.readNext(...arrow);
    else if (arrow) card.panBy(arrow[0] * STEP, arrow[1] * STEP);
    else if (e.key === "+" || e.key === "=") card.zoomBy(ZOOM);
    else if (e.key === "-" || e.key === "_" || e.key === "−") card.zoomBy(1 / ZOOM);
    else if (e.key === "0" || e.key === "Home") card.resetView();
    else return;
    e.preventDefault();
  });
  canvas.addEventListener("blur", () => { card.mouse = null; card.draw(); });
}

/** An open menu closes when one clicks elsewhere, leaves it with Tab, or with Escape; then its button has the focus. */
export function closeMenus() {
  const open = () => document.querySelectorAll("details.menu[open]");
  const elsewhere = (e) => open().forEach((d) => { if (!d.contains(e.target)) d.open = false; });
  document.addEventListener("pointerdown", elsewhere);
  document.addEventListener("focusin", elsewhere);
  document.addEventListener("keydown", (e) => {
    if (e.key !== "Escape") return;
    open().forEach((d) => {
      const inside = d.contains(document.activeElement);
      d.open = false;
      if (inside) d.querySelector("summary").focus();
    });
  });
}
