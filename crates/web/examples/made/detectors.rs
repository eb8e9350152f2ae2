//! Fictitious detectors for the page: a flat panel, a deep one, a row of blades, and strips with tracks.
//!
//! Each gives its pixels, its plots and neutrons as (offset ns, pixel). Sizes and pixel numbers are
//! those of a flat panel, of three modules of a volume and of 50 inclined cassettes
//! (`docs/formats/*.md`, the sections on pixels).

use fullcount_core::products::Products;
use fullcount_core::view::{
    Axis, Gate, PixelMap, Plot, PlotColumn, PlotKind, Projection, Tiles, Tracks,
};

/// Cells of one side of the flat panel.
const SIDE: u32 = 160;

/// Voxels of the deep detector: columns, grids, layers.
const DEEP: [u32; 3] = [12, 40, 20];

/// Layers of the deep detector side by side in its picture.
const ACROSS: u32 = 10;

/// Cassettes, wires of each, strips of each.
const BLADES: [u32; 3] = [50, 32, 64];

/// A detector that is made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// 160 × 160 pixels.
    Flat,
    /// 12 × 40 × 20 voxels.
    Deep,
    /// 50 cassettes of 32 wires and 64 strips, side by side.
    Blades,
    /// The same, one above the other.
    Stack,
    /// 128 × 128 strips, with clusters and single events.
    Strips,
}

/// Strips of one side.
const STRIPS: u32 = 128;

impl Made {
    /// The detector called `word`.
    pub fn named(word: &str) -> Option<Made> {
        [
            ("flat", Made::Flat),
            ("deep", Made::Deep),
            ("blades", Made::Blades),
            ("stack", Made::Stack),
            ("strips", Made::Strips),
        ]
        .iter()
        .find_map(|(name, made)| (*name == word).then_some(*made))
    }

    /// Its name for people.
    pub fn words(self) -> &'static str {
        match self {
            Made::Flat => "panel, 400 modules, 25,600 pixels",
            Made::Deep => "made-up grids, 3 modules, 9,600 pixels",
            Made::Blades | Made::Stack => "made-up blades, 50 cassettes, 102,400 pixels",
            Made::Strips => "made-up strips, 16,384 pixels",
        }
    }

    /// Picture and pixel numbers.
    pub fn pixels(self) -> PixelMap {
        let (name, columns, rows, cell) = match self {
            Made::Flat => ("panel", SIDE, SIDE, (0..SIDE * SIDE).collect()),
            Made::Deep => {
                let [nx, ny, nz] = DEEP;
                let columns = nx * ACROSS;
                // Layers side by side, y upwards in each.
                let cell = voxels().map(|[x, y, z]| {
                    (z / ACROSS * ny + ny - 1 - y) * columns + z % ACROSS * nx + x
                });
                ("grids", columns, ny * nz.div_ceil(ACROSS), cell.collect())
            }
            Made::Blades => {
                let [cassettes, wires, strips] = BLADES;
                let columns = cassettes * wires;
                ("blades", columns, strips, (0..columns * strips).collect())
            }
            Made::Stack => {
                let [cassettes, wires, strips] = BLADES;
                let rows = cassettes * wires;
                ("blades", strips, rows, (0..strips * rows).collect())
            }
            Made::Strips => ("strips", STRIPS, STRIPS, (0..STRIPS * STRIPS).collect()),
        };
        PixelMap { name: name.to_owned(), columns, rows, cell, ..PixelMap::default() }
    }

    /// What its page shows.
    pub fn plots(self) -> Vec<Plot> {
        let tof =
            |bins| axis(PlotColumn::OffsetNs, "Time of flight", "µs", 1000.0, 71_428_571, bins);
        let spectrum = plot("tof", "Time of flight", PlotKind::Histogram(tof(1000)), false);
        let rest = match self {
            Made::Flat => {
                let rows = axis(PlotColumn::Pixel, "Pixel", "", 1.0, 25_601, 160);
                let adc = axis(PlotColumn::Adc, "Amplitude", "ADC counts", 1.0, 4096, 512);
                let plane = PlotKind::Histogram2(tof(120), rows);
                return vec![
                    plot("image", "Detector image", PlotKind::Image, false),
                    spectrum,
                    plot("tof-pixel", "Time of flight by row", plane, true),
                    plot("adc", "Amplitudes", PlotKind::Histogram(adc), true),
                ];
            }
            Made::Deep => {
                let [nx, ny, nz] = DEEP;
                let side = |x: &str, y: &str, columns, rows, cell: fn([u32; 3]) -> (u32, u32)| {
                    projection(x, y, columns, rows, voxels().map(cell))
                };
                vec![
                    plot("image", "Layers", tiles("layer", "x", "y", nx, ny, true), false),
                    plot("xy", "Front", side("x", "y", nx, ny, |[x, y, _]| (x, y)), false),
                    plot("xz", "Top", side("x", "z (depth)", nx, nz, |[x, _, z]| (x, z)), false),
                    plot("zy", "Side", side("z (depth)", "y", nz, ny, |[_, y, z]| (z, y)), false),
                    plot("z", "Depth", side("z (depth)", "", nz, 1, |[_, _, z]| (z, 0)), true),
                ]
            }
            Made::Blades => {
                let [cassettes, wires, strips] = BLADES;
                let each = cells(cassettes * wires, strips);
                let cassette =
                    projection("Cassette", "", cassettes, 1, each.map(|[x, _]| (x / BLADES[1], 0)));
                let each = cells(cassettes * wires, strips);
                let wire = projection(
                    "Wire",
                    "Cassette",
                    wires,
                    cassettes,
                    each.map(|[x, _]| (x % BLADES[1], x / BLADES[1])),
                );
                vec![
                    plot(
                        "image",
                        "Unfolded cassettes",
                        tiles("cassette", "wire", "strip", wires, strips, false),
                        false,
                    ),
                    plot("cassettes", "Cassettes", cassette, false),
                    plot("wires", "Wires of each cassette", wire, false),
                ]
            }
            Made::Stack => {
                let [_, wires, strips] = BLADES;
                let kind = tiles("cassette", "strip", "wire", strips, wires, false);
                vec![plot("image", "Unfolded cassettes", kind, false)]
            }
            Made::Strips => {
                let planes = ["x strip", "y strip"].map(str::to_owned).to_vec();
                let size = |plane: u64, id: &str| {
                    let gates =
                        vec![Gate { column: PlotColumn::ClusterPlane, min: plane, max: plane }];
                    let kind = axis(PlotColumn::ClusterSize, "hits", "", 1.0, 16, 16);
                    Plot { gates, ..plot(id, id, PlotKind::Histogram(kind), false) }
                };
                vec![
                    plot("image", "Detector image", PlotKind::Image, false),
                    plot(
                        "tracks",
                        "Single events",
                        PlotKind::Tracks(Tracks { planes, events: 16 }),
                        false,
                    ),
                    size(0, "size-x"),
                    size(1, "size-y"),
                ]
            }
        };
        rest.into_iter().chain([spectrum]).collect()
    }

    /// Clusters and a single event of batch `number`: eight strips of x one after the other, three of y almost at once.
    pub fn clusters(self, number: i64, products: &mut Products) {
        if self != Made::Strips {
            return;
        }
        products.cluster_sizes.push(0, 8, 350, 1080);
        products.cluster_sizes.push(1, 3, 20, 1200);
        products.tracks.begin(number);
        (0..8)
            .for_each(|n| products.tracks.push(0, 100 + n, 350 - 50 * u32::from(n), 100 + 10 * n));
        (0..3).for_each(|n| products.tracks.push(1, 20 + n, 300 + 10 * u32::from(n), 400));
    }

    /// One neutron: (offset ns, pixel).
    pub fn neutron(self, dice: &mut Dice) -> (u32, u32) {
        match self {
            Made::Flat => rings(dice),
            Made::Strips => {
                let (x, y) = (128.0 * dice.unit(), 128.0 * dice.unit());
                ((dice.unit() * 7e7) as u32, 1 + x as u32 + STRIPS * y as u32)
            }
            Made::Deep => {
                let [nx, ny, nz] = DEEP;
                loop {
                    let spot = dice.unit() < 0.4;
                    let (x, y) = if spot {
                        (5.0 + 1.5 * dice.normal(), 26.0 + 4.0 * dice.normal())
                    } else {
                        (dice.unit() * f64::from(nx), dice.unit() * f64::from(ny))
                    };
                    // Absorbed on the way: fewer and fewer in depth.
                    let z = -6.0 * dice.unit().max(1e-9).ln();
                    let inside = |v: f64, n: u32| v >= 0.0 && v < f64::from(n);
                    // A bar of cadmium in front.
                    if inside(x, nx) && inside(y, ny) && inside(z, nz) && !(8.0..11.0).contains(&y)
                    {
                        let t = 12.0 + 0.25 * z + 4.0 * dice.normal().abs();
                        let pixel = 1 + x as u32 + nx * (y as u32 + ny * z as u32);
                        return ((t * 1e6) as u32, pixel);
                    }
                }
            }
            Made::Blades | Made::Stack => {
                let [cassettes, wires, strips] = BLADES;
                loop {
                    let cassette = if dice.unit() < 0.5 {
                        25.0 + 2.5 * dice.normal()
                    } else {
                        dice.unit() * f64::from(cassettes)
                    };
                    let wire = f64::from(wires) * dice.unit().powf(1.6);
                    let strip = 32.0 + 13.0 * dice.normal();
                    let inside = |v: f64, n: u32| v >= 0.0 && v < f64::from(n);
                    // One cassette is switched off.
                    if inside(cassette, cassettes) && inside(strip, strips) && cassette as u32 != 12
                    {
                        let t = 6.0 + 11.0 * (dice.normal().powi(2) + dice.normal().powi(2)).sqrt();
                        let x = cassette as u32 * wires + wire as u32;
                        let strip = strip as u32;
                        let at = match self {
                            Made::Stack => strip + strips * x,
                            _ => x + cassettes * wires * strip,
                        };
                        return ((t * 1e6) as u32, 1 + at);
                    }
                }
            }
        }
    }
}

/// Rings around a beam stop, and a Maxwell-like spectrum.
fn rings(dice: &mut Dice) -> (u32, u32) {
    let t = 6.0 + 11.0 * (dice.normal().powi(2) + dice.normal().powi(2)).sqrt() + dice.unit();
    loop {
        let radius = match dice.unit() {
            u if u < 0.5 => 9.0 - 17.0 * dice.unit().max(1e-9).ln(),
            u if u < 0.85 => 38.0 + 3.5 * dice.normal(),
            _ => 75.0 * dice.unit().sqrt() * 1.4,
        };
        let angle = std::f64::consts::TAU * dice.unit();
        let (x, y) = (80.0 + radius * angle.cos(), 78.0 + radius * angle.sin() * 0.96);
        let inside = (0.0..160.0).contains(&x) && (0.0..160.0).contains(&y);
        if inside && radius > 8.0 {
            return ((t * 1e6) as u32, y as u32 * SIDE + x as u32 + 1);
        }
    }
}

/// (x, y) of each pixel of a plane, in the order of pixel numbers.
fn cells(columns: u32, rows: u32) -> impl Iterator<Item = [u32; 2]> {
    (0..columns * rows).map(move |at| [at % columns, at / columns])
}

/// (x, y, z) of each voxel of the deep detector, in the order of pixel numbers.
fn voxels() -> impl Iterator<Item = [u32; 3]> {
    let [nx, ny, nz] = DEEP;
    (0..nx * ny * nz).map(move |at| [at % nx, at / nx % ny, at / nx / ny])
}

/// Sums over all pixels with the same (x, y), y upwards.
fn projection(
    x: &str,
    y: &str,
    columns: u32,
    rows: u32,
    at: impl Iterator<Item = (u32, u32)>,
) -> PlotKind {
    let cell = at.map(|(x, y)| (rows - 1 - y) * columns + x).collect();
    PlotKind::Projection(Projection { x: x.to_owned(), y: y.to_owned(), columns, rows, cell })
}

fn tiles(name: &str, x: &str, y: &str, columns: u32, rows: u32, upwards: bool) -> PlotKind {
    let (name, x, y) = (name.to_owned(), x.to_owned(), y.to_owned());
    PlotKind::Tiles(Tiles { name, x, y, columns, rows, upwards })
}

fn axis(column: PlotColumn, label: &str, unit: &str, scale: f64, last: u64, bins: u32) -> Axis {
    Axis { column, label: label.to_owned(), unit: unit.to_owned(), scale, first: 0, last, bins }
}

fn plot(id: &str, title: &str, kind: PlotKind, log: bool) -> Plot {
    Plot { id: id.to_owned(), title: title.to_owned(), kind, gates: vec![], log }
}

/// A generator that needs no crate: xorshift.
pub struct Dice(pub u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().max(1e-12).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}
