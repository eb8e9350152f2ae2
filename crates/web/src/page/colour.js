// Colour maps: perceptually uniform ones from 33 support points each, and grey. Counts to colours.

const POINTS = {
  viridis:
    "440154470d6048186a482374472d7b4537814240863e49893b528b375b8d33638d2f6b8e2c728e297a8e26828e23898e" +
    "21918c1f988b1fa08822a78528ae8032b67a3fbc734ec36b5ec96270cf5784d44b98d83eaddc30c2df23d8e219ece51b" +
    "fde725",
  inferno:
    "0000040403120b0724150b37210c4a2f0a5b3d09654a0c6b57106e64156e71196e7d1e6d8a226a972766a32c61b0315b" +
    "bc3754c73e4cd24644db503be45a31eb6628f1731df68013f98e09fb9d07fcac11fbbc21f9cb35f5db4cf2ea69f3f68a" +
    "fcffa4",
  cividis:
    "00224e00285b002e6a0533711a386f273e6e32436d3b496c434e6c4b546c535a6d5a5f6e61656f686a716f7073767676" +
    "7d7c788482798c8878938e789b9476a39a74aba072b4a76fbcae6cc4b468cdbb63d5c25edec958e7d150f0d846f9e03a" +
    "fee838",
  grey: "000000ffffff",
};

/** Names for the menu. */
export const MAPS = Object.keys(POINTS);

const tables = new Map();

/** 256 colours of a map as [r, g, b] triples, dark to bright unless reversed. */
export function table(name, reversed) {
  const key = `${name} ${reversed}`;
  if (!tables.has(key)) tables.set(key, make(POINTS[name] ?? POINTS.viridis, reversed));
  return tables.get(key);
}

function make(hex, reversed) {
  const points = hex.length / 6;
  const part = (i, c) => parseInt(hex.slice(i * 6 + c * 2, i * 6 + c * 2 + 2), 16);
  const out = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i++) {
    const at = ((reversed ? 255 - i : i) / 255) * (points - 1);
    const low = Math.min(Math.floor(at), points - 2);
    for (let c = 0; c < 3; c++) {
      out[i * 3 + c] = part(low, c) + (at - low) * (part(low + 1, c) - part(low, c));
    }
  }
  return out;
}

/** Limits of the counts: [low, high]. On a logarithmic scale low is above 0. */
export function limits(cells, has, view) {
  if (view.limits === "manual") {
    const low = view.log ? Math.max(view.low, 0.5) : view.low;
    return [low, Math.max(view.high, low + 1e-9 + (view.log ? low * 0.01 : 0))];
  }
  let smallest = Infinity;
  let largest = 0;
  for (let i = 0; i < cells.length; i++) {
    const n = cells[i];
    if (n > largest) largest = n;
    if (n > 0 && n < smallest) smallest = n;
  }
  if (largest === 0) return view.log ? [1, 10] : [0, 1];
  let high = largest;
  let low = view.log ? smallest : 0;
  if (view.limits === "clipped") {
    // 0.2 % of the cells may be off scale: some hot pixels must not hide the picture. At most
    // 20,000 cells are looked at, which settles the percentile well enough for a colour.
    const stride = Math.max(1, Math.floor(cells.length / 20000));
    const seen = [];
    for (let i = 0; i < cells.length; i += stride) if (cells[i] > 0 && (!has || has[i])) seen.push(cells[i]);
    if (seen.length > 50) {
      seen.sort((a, b) => a - b);
      high = seen[Math.floor((seen.length - 1) * 0.998)];
      if (view.log) low = seen[Math.floor((seen.length - 1) * 0.002)];
    }
  }
  if (view.log) return [low, Math.max(high, low * 1.5)];
  return [low, Math.max(high, low + 1)];
}

/** Function from counts to a table index 0..255. */
export function indexer([low, high], log) {
  if (log) {
    const base = Math.log(low);
    const per = 255 / (Math.log(high) - base);
    return (n) => Math.max(0, Math.min(255, Math.round((Math.log(n) - base) * per)));
  }
  const per = 255 / (high - low);
  return (n) => Math.max(0, Math.min(255, Math.round((n - low) * per)));
}
