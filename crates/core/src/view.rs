//! What a detector declares to the outputs: the positions of its pixels, and its plots.
//!
//! Outputs do not depend on `detect`; both use these plain descriptions. One configuration makes the pixel
//! numbers, the NeXus positions and the picture on the page, so the three cannot disagree
//! (docs: `nexus.md` section 8).

/// Pixels of one detector: numbers 1..=n, each with a position and a cell of the picture.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PixelMap {
    /// Name of the panel in files and on the page, for example `panel`.
    pub name: String,
    /// Columns and rows of the picture.
    pub columns: u32,
    /// Rows of the picture.
    pub rows: u32,
    /// Picture cell (`row * columns + column`, row 0 on top) of pixel `i + 1`.
    pub cell: Vec<u32>,
    /// Centre of pixel `i + 1` in the panel's frame, metres: x to the left seen along the beam.
    pub x_m: Vec<f64>,
    /// Centre of pixel `i + 1`, metres: y up.
    pub y_m: Vec<f64>,
    /// Depth of the centre of pixel `i + 1` from the panel's origin, metres along the beam; empty for a
    /// flat panel.
    pub z_m: Vec<f64>,
    /// Distance of the panel's origin from the sample along the beam, metres.
    pub distance_m: f64,
    /// Geometry file and other text that belongs into the output file, as it was read.
    pub source_text: String,
}

impl PixelMap {
    /// Number of pixels; the largest pixel number.
    pub fn pixels(&self) -> u32 {
        self.cell.len() as u32
    }

    /// True for a detector without pixels (`sequence`).
    pub fn is_empty(&self) -> bool {
        self.cell.is_empty()
    }
}

/// A column that a plot can count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlotColumn {
    /// Pixel number of each event; plotted as the picture or as a spectrum over pixels.
    Pixel,
    /// Time after the pulse of each event, ns.
    OffsetNs,
    /// Amplitude of each hit, ADC counts (filled only by modes that have one).
    Adc,
    /// Pixel number, or channel, of each hit that has an amplitude.
    HitPixel,
    /// Plane of each cluster.
    ClusterPlane,
    /// Hits of each cluster.
    ClusterSize,
    /// Time from the first to the last hit of each cluster, ns.
    ClusterSpanNs,
    /// Sum of the amplitudes of each cluster, ADC counts.
    ClusterAdc,
    /// Size of each merged event as a record, bytes.
    RecordBytes,
    /// Parts of each merged event that did not come.
    RecordMissing,
    /// Source of each part of merged events, missing ones as well.
    PartSource,
    /// 1 for a part that did not come, else 0.
    PartMissing,
    /// 1 for a part with a wrong checksum or contradictions, else 0.
    PartDamaged,
}

/// How one axis is binned: `bins` equal bins over `first..last`, outside is counted, not shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Counted column.
    pub column: PlotColumn,
    /// Label without unit.
    pub label: String,
    /// Unit for people: `µs`, `ADC counts`, or empty.
    pub unit: String,
    /// Column units per displayed unit: 1000 turns ns into µs.
    pub scale: f64,
    /// Lower bound, column units, inclusive.
    pub first: u64,
    /// Upper bound, column units, exclusive.
    pub last: u64,
    /// Number of bins, 1 to 1 Mi.
    pub bins: u32,
}

/// Only rows with `min <= column <= max` are counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// Tested column; must be of the same kind (event, hit, cluster, record or part) as the axes.
    pub column: PlotColumn,
    /// Smallest value that passes.
    pub min: u64,
    /// Largest value that passes.
    pub max: u64,
}

/// One plot as data: what is counted over which axes. A detector adds presets, not code.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Stable id, for example `image`.
    pub id: String,
    /// Title on the page.
    pub title: String,
    /// What it shows.
    pub kind: PlotKind,
    /// Conditions, all of which must hold.
    pub gates: Vec<Gate>,
    /// Logarithmic counts at first.
    pub log: bool,
}

/// Shape of a plot.
#[derive(Debug, Clone, PartialEq)]
pub enum PlotKind {
    /// Counts per pixel through the [`PixelMap`].
    Image,
    /// As [`PlotKind::Image`], of a picture that is made of equal tiles.
    Tiles(Tiles),
    /// Counts per cell, several pixels in one: the sum along an axis of a detector with depth.
    Projection(Projection),
    /// Spectrum.
    Histogram(Axis),
    /// Two-dimensional spectrum: x, y.
    Histogram2(Axis, Axis),
    /// Single events hit by hit, the last ones: strip against time, a part of the picture for each plane.
    Tracks(Tracks),
    /// One array of the newest heaps, a line for each.
    Waterfall(Waterfall),
}

/// One array of the newest heaps: values along it, a line for each heap, the newest on top.
#[derive(Debug, Clone, PartialEq)]
pub struct Waterfall {
    /// Name of the array; `None`: the first one with numbers.
    pub item: Option<String>,
    /// Cells of a line, 16 to 4096; of a longer array neighbours are averaged.
    pub bins: u32,
    /// Lines, 16 to 1024.
    pub lines: u32,
}

/// How single events are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Tracks {
    /// Labels of the planes in their order: `x strip`.
    pub planes: Vec<String>,
    /// So many events are kept, 1 to 16.
    pub events: u32,
}

/// A picture made of equal tiles: cassettes side by side, or the layers of a deep detector. Tiles are
/// numbered from 0 at the top left, to the right, then down; the remainder at the right or below belongs to
/// none.
#[derive(Debug, Clone, PartialEq)]
pub struct Tiles {
    /// What one is, for people: `cassette`, `layer`.
    pub name: String,
    /// What the columns of a tile are: `wire`.
    pub x: String,
    /// What the rows of a tile are: `strip`.
    pub y: String,
    /// Cells of a tile side by side, 1 to [`PixelMap::columns`].
    pub columns: u32,
    /// Cells of a tile one above the other, 1 to [`PixelMap::rows`].
    pub rows: u32,
    /// True if the rows of a tile are numbered from its lower edge upwards, false if from the upper one.
    pub upwards: bool,
}

/// Which cell of a picture each pixel is counted in. With one row the page draws a spectrum: counts per wire, grid
/// or module.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// Label of the axis to the right, without unit.
    pub x: String,
    /// Label of the axis upwards, without unit. The page numbers it from 0 in the last row.
    pub y: String,
    /// Cells side by side.
    pub columns: u32,
    /// Cells one above the other.
    pub rows: u32,
    /// Cell (`row * columns + column`, row 0 on top) of pixel `i + 1`; as long as [`PixelMap::cell`].
    pub cell: Vec<u32>,
}
