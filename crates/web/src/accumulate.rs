//! All plots of a detector, filled from one stream of products.
//!
//! A plot is data ([`Plot`]): what is counted, over which axes, under which gates. Each keeps counts
//! since its last clear and of the last seconds ("current"). Refuses plots that cannot be
//! counted ([`PlotError`]), before anything is filled. Source: `docs/architecture.md`.

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::products::{Products, Want};
use fullcount_core::view::{Axis, Gate, PixelMap, Plot, PlotColumn, PlotKind};

use super::fill::{Filler, PlotTally, Shape};
use super::scale::Scale;
use super::waterfall::{MOST_BINS, MOST_LINES, WaterfallLines};

/// Most cells of one plot: 4 Mi, which take 112 MiB with the window's slices, and 128 MiB as shown.
pub const MOST_CELLS: usize = 1 << 22;

/// Most single events that are shown at once.
pub const MOST_TRACKS: u32 = 16;

/// Shortest and longest window of the current view.
pub const WINDOW: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(60);

/// A plot that cannot be counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum PlotError {
    /// Id with characters that do not fit an address, or empty.
    #[error("plot \"{id}\": the id must be 1 to 64 of a-z, A-Z, 0-9, '-' and '_'")]
    Id { id: String },
    /// The same id twice.
    #[error("plot \"{id}\" is there twice; give each plot its own id")]
    Twice { id: String },
    /// No plot of this id.
    #[error("there is no plot \"{id}\"; known: {known}")]
    Unknown { id: String, known: String },
    /// A picture for a detector without pixels.
    #[error("plot \"{id}\": a picture needs pixels, and this detector has none")]
    NoPixels { id: String },
    /// A projection that is not of this detector's pixels.
    #[error(
        "plot \"{id}\": the projection has cells for {cells} pixels, but the detector has {pixels}; it needs one cell for each pixel"
    )]
    Length { id: String, cells: usize, pixels: usize },
    /// Tiles that do not fit the picture.
    #[error(
        "plot \"{id}\": a tile of {columns} x {rows} cells does not fit a picture of {width} x {height}: 1 to {width} columns and 1 to {height} rows"
    )]
    Tile { id: String, columns: u32, rows: u32, width: u32, height: u32 },
    /// A pixel map that points beyond its picture.
    #[error(
        "plot \"{id}\": pixel {pixel} lies in cell {cell}, but the picture of {columns} x {rows} has {cells} cells"
    )]
    Cell { id: String, pixel: usize, cell: u32, columns: u32, rows: u32, cells: usize },
    /// An axis that cannot be binned.
    #[error("plot \"{id}\", axis {axis}: {message}")]
    Axis { id: String, axis: char, message: String },
    /// More cells than a page can show.
    #[error("plot \"{id}\": {cells} cells are not allowed: at most {MOST_CELLS}; use fewer bins")]
    TooLarge { id: String, cells: usize },
    /// Single events beyond what is kept.
    #[error("plot \"{id}\": {events} events are not allowed: 1 to {MOST_TRACKS}")]
    Tracks { id: String, events: u32 },
    /// A waterfall beyond what is kept.
    #[error(
        "plot \"{id}\": {lines} lines of {bins} cells are not allowed: 1 to {MOST_LINES} lines of 1 to {MOST_BINS} cells"
    )]
    Waterfall { id: String, bins: u32, lines: u32 },
    /// Columns of events, of hits, of clusters, of records and of their parts in one plot.
    #[error(
        "plot \"{id}\": {a:?} and {b:?} cannot meet: both must be of events, of hits, of clusters, of records or of parts"
    )]
    Mixed { id: String, a: PlotColumn, b: PlotColumn },
}

/// Counts of all plots.
#[derive(Debug)]
pub struct Accumulator {
    plots: Vec<(Plot, Filler)>,
    pixels: Arc<PixelMap>,
    window: Duration,
}

/// What a column has a row for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    Events,
    Hits,
    Clusters,
    Records,
    Parts,
}

fn rows(column: PlotColumn) -> Rows {
    match column {
        PlotColumn::Adc | PlotColumn::HitPixel => Rows::Hits,
        PlotColumn::Pixel | PlotColumn::OffsetNs => Rows::Events,
        PlotColumn::ClusterPlane
        | PlotColumn::ClusterSize
        | PlotColumn::ClusterSpanNs
        | PlotColumn::ClusterAdc => Rows::Clusters,
        PlotColumn::RecordBytes | PlotColumn::RecordMissing => Rows::Records,
        PlotColumn::PartSource | PlotColumn::PartMissing | PlotColumn::PartDamaged => Rows::Parts,
    }
}

fn scale(id: &str, name: char, axis: &Axis) -> Result<Scale, PlotError> {
    let refused = |message| PlotError::Axis { id: id.to_owned(), axis: name, message };
    Scale::new(axis).map_err(refused)
}

/// Checks a plot and prepares its loop.
fn shape(plot: &Plot, pixels: &Arc<PixelMap>) -> Result<Shape, PlotError> {
    let id = || plot.id.clone();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if plot.id.is_empty() || plot.id.len() > 64 || !plot.id.chars().all(plain) {
        return Err(PlotError::Id { id: id() });
    }
    let (shape, columns) = match &plot.kind {
        PlotKind::Image | PlotKind::Tiles(_) | PlotKind::Projection(_) if pixels.is_empty() => {
            return Err(PlotError::NoPixels { id: id() });
        }
        PlotKind::Image => (Shape::Image(pixels.clone()), vec![PlotColumn::Pixel]),
        PlotKind::Tiles(t) => {
            let (columns, rows, width, height) = (t.columns, t.rows, pixels.columns, pixels.rows);
            if !(1..=width).contains(&columns) || !(1..=height).contains(&rows) {
                return Err(PlotError::Tile { id: id(), columns, rows, width, height });
            }
            (Shape::Image(pixels.clone()), vec![PlotColumn::Pixel])
        }
        PlotKind::Projection(p) => {
            let (cells, pixels) = (p.cell.len(), pixels.cell.len());
            if cells != pixels {
                return Err(PlotError::Length { id: id(), cells, pixels });
            }
            let (columns, rows, cell) = (p.columns, p.rows, p.cell.clone());
            let map = PixelMap { columns, rows, cell, ..PixelMap::default() };
            (Shape::Image(Arc::new(map)), vec![PlotColumn::Pixel])
        }
        PlotKind::Histogram(x) => (Shape::Line(x.column, scale(&plot.id, 'x', x)?), vec![x.column]),
        PlotKind::Histogram2(x, y) => {
            let (sx, sy) = (scale(&plot.id, 'x', x)?, scale(&plot.id, 'y', y)?);
            (Shape::Plane(x.column, sx, y.column, sy), vec![x.column, y.column])
        }
        PlotKind::Tracks(t) => {
            let events = t.events;
            if !(1..=MOST_TRACKS).contains(&events) {
                return Err(PlotError::Tracks { id: id(), events });
            }
            (Shape::Tracks(events as usize), vec![])
        }
        PlotKind::Waterfall(of) => {
            let (bins, lines) = (of.bins, of.lines);
            if !(1..=MOST_BINS).contains(&bins) || !(1..=MOST_LINES).contains(&lines) {
                return Err(PlotError::Waterfall { id: id(), bins, lines });
            }
            (Shape::Waterfall(Box::new(WaterfallLines::new(of))), vec![])
        }
    };
    let gates = plot.gates.iter().map(|Gate { column, .. }| *column);
    let mut all = columns.iter().copied().chain(gates);
    if let Some(a) = columns.first().copied()
        && let Some(b) = all.find(|&c| rows(c) != rows(a))
    {
        return Err(PlotError::Mixed { id: id(), a, b });
    }
    let cells = shape.cells();
    if cells > MOST_CELLS {
        return Err(PlotError::TooLarge { id: id(), cells });
    }
    if let Shape::Image(map) = &shape
        && let Some((i, &cell)) = map.cell.iter().enumerate().find(|(_, c)| **c as usize >= cells)
    {
        let (columns, rows) = (map.columns, map.rows);
        return Err(PlotError::Cell { id: id(), pixel: i + 1, cell, columns, rows, cells });
    }
    Ok(shape)
}

impl Accumulator {
    /// Empty counts of `plots`; the current view shows the last `window` (brought into [`WINDOW`]).
    ///
    /// # Errors
    /// The first plot that cannot be counted.
    pub fn new(
        plots: Vec<Plot>,
        pixels: Arc<PixelMap>,
        window: Duration,
    ) -> Result<Accumulator, PlotError> {
        let mut made: Vec<(Plot, Filler)> = Vec::with_capacity(plots.len());
        for plot in plots {
            let shape = shape(&plot, &pixels)?;
            if made.iter().any(|(p, _)| p.id == plot.id) {
                return Err(PlotError::Twice { id: plot.id });
            }
            let filler = Filler::new(shape, plot.gates.clone(), Duration::ZERO);
            made.push((plot, filler));
        }
        let window = window.clamp(*WINDOW.start(), *WINDOW.end());
        Ok(Accumulator { plots: made, pixels, window })
    }

    /// Columns that the plots need in addition to the events.
    pub fn want(&self) -> Want {
        let one = |p: &Plot| match &p.kind {
            PlotKind::Image | PlotKind::Tiles(_) | PlotKind::Projection(_) => Want::default(),
            PlotKind::Histogram(x) | PlotKind::Histogram2(x, _) => Want {
                hits: rows(x.column) == Rows::Hits,
                cluster_sizes: rows(x.column) == Rows::Clusters,
                records: matches!(rows(x.column), Rows::Records | Rows::Parts),
                ..Want::default()
            },
            PlotKind::Tracks(_) => Want { tracks: true, ..Want::default() },
            PlotKind::Waterfall(_) => Want { heaps: true, ..Want::default() },
        };
        self.plots.iter().fold(Want::default(), |want, (p, _)| want.or(one(p)))
    }

    /// Counts a batch into every plot.
    pub fn fill(&mut self, products: &Products) {
        for (_, filler) in &mut self.plots {
            filler.fill(products);
        }
    }

    /// Moves the window on; `now` is the time since the start and never goes back.
    pub fn advance(&mut self, now: Duration) {
        for (_, filler) in &mut self.plots {
            filler.advance(now, self.window);
        }
    }

    /// Forgets the counts of plot `id`, or of all.
    ///
    /// # Errors
    /// [`PlotError::Unknown`].
    pub fn clear(&mut self, id: Option<&str>, now: Duration) -> Result<(), PlotError> {
        match id {
            None => self.plots.iter_mut().for_each(|(_, f)| f.clear(now)),
            Some(id) => {
                let at = self.find(id)?;
                self.plots[at].1.clear(now);
            }
        }
        Ok(())
    }

    /// Restarts plot `id` over `first..last` in `bins` bins on its axis `x` or `y`.
    ///
    /// # Errors
    /// Unknown plot, a picture (which has no axes), or an axis that cannot be binned; the plot stays
    /// as it is then.
    pub fn rebin(&mut self, id: &str, new: &Rebin, now: Duration) -> Result<(), PlotError> {
        let at = self.find(id)?;
        let plot = rebinned(&self.plots[at].0, new)?;
        let shape = shape(&plot, &self.pixels)?;
        let filler = Filler::new(shape, plot.gates.clone(), now);
        self.plots[at] = (plot, filler);
        Ok(())
    }

    /// Sets the length of the current view, brought into [`WINDOW`].
    pub fn set_window(&mut self, window: Duration) {
        self.window = window.clamp(*WINDOW.start(), *WINDOW.end());
    }

    /// Length of the current view.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// Bytes that the counts hold: fixed once the plots are made.
    pub fn bytes(&self) -> usize {
        self.plots.iter().map(|(_, f)| f.bytes()).sum()
    }

    /// Counts of plot `id` since its last clear, and of the window.
    pub fn counts(&self, id: &str) -> Option<(Vec<u64>, Vec<u64>)> {
        let at = self.find(id).ok()?;
        let (mut total, mut current) = (Vec::new(), Vec::new());
        self.plots[at].1.show(&mut total, &mut current);
        Some((total, current))
    }

    /// What became of the rows that plot `id` saw.
    pub fn tally(&self, id: &str) -> Option<PlotTally> {
        self.find(id).ok().map(|at| self.plots[at].1.tally())
    }

    /// The pixels of the picture.
    pub fn pixels(&self) -> &Arc<PixelMap> {
        &self.pixels
    }

    pub(super) fn plots(&self) -> impl Iterator<Item = &(Plot, Filler)> {
        self.plots.iter()
    }

    pub(super) fn plots_mut(&mut self) -> impl Iterator<Item = &mut (Plot, Filler)> {
        self.plots.iter_mut()
    }

    fn find(&self, id: &str) -> Result<usize, PlotError> {
        let known = || self.plots.iter().map(|(p, _)| p.id.as_str()).collect::<Vec<_>>().join(", ");
        let unknown = || PlotError::Unknown { id: id.to_owned(), known: known() };
        self.plots.iter().position(|(p, _)| p.id == id).ok_or_else(unknown)
    }
}

/// A new range of one axis, in column units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebin {
    /// `x` or `y`.
    pub axis: char,
    /// Lower bound, inclusive.
    pub first: u64,
    /// Upper bound, exclusive.
    pub last: u64,
    /// Number of bins.
    pub bins: u32,
}

/// `plot` over the new range, checked.
pub(super) fn rebinned(plot: &Plot, new: &Rebin) -> Result<Plot, PlotError> {
    let mut plot = plot.clone();
    let id = plot.id.clone();
    let none = |axis, message: &str| PlotError::Axis { id, axis, message: message.to_owned() };
    let axis = match (&mut plot.kind, new.axis) {
        (PlotKind::Histogram(x) | PlotKind::Histogram2(x, _), 'x') => x,
        (PlotKind::Histogram2(_, y), 'y') => y,
        (PlotKind::Image | PlotKind::Tiles(_) | PlotKind::Projection(_), a) => {
            return Err(none(a, "a picture has no axes to change"));
        }
        (PlotKind::Tracks(_), a) => {
            return Err(none(a, "single events are shown as they are"));
        }
        (PlotKind::Waterfall(_), a) => {
            return Err(none(a, "heaps are shown as they are"));
        }
        (_, a) => return Err(none(a, "there is no such axis")),
    };
    (axis.first, axis.last, axis.bins) = (new.first, new.last, new.bins);
    scale(&plot.id.clone(), new.axis, axis)?;
    Ok(plot)
}

#[cfg(test)]
#[path = "accumulate_tests.rs"]
mod tests;
