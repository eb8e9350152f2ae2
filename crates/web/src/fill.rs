//! One plot's counts: the cumulative ones, and a ring of slices for the last seconds.
//!
//! Events are counted into one *live* slice of 32-bit bins (an image by pixel number, mapped to picture cells only when
//! it is shown, which saves a look-up per event). Each slice is folded into the 64-bit total when its time is over, or
//! early, before a bin could overflow. Memory is fixed when the plot is made. [`Shape`] was checked before. Source:
//! `docs/page.md`, "Plots of a new detector".

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::products::{Products, TrackBatch};
use fullcount_core::records::{EventRecords, flags};
use fullcount_core::view::{Gate, PixelMap, PlotColumn};

use super::scale::Scale;
use super::waterfall::WaterfallLines;

/// Above this many bins a plot keeps 4 slices instead of 10: 256 Ki bins × 4 B × 10 = 10 MiB.
const LARGE: usize = 1 << 18;

/// Lanes of a spectrum: neighbouring events of sorted data fall into the same bin, and adding to it
/// twice in a row waits for the store (4 to 5 cycles); alternating lanes halves that wait.
const LANES: usize = 4;

/// Largest spectrum that gets lanes: 4 × 8192 × 4 B still fits the L2 cache with the image.
const LARGEST_WITH_LANES: usize = 1 << 13;

/// What is counted where, after all checks.
#[derive(Debug, Clone)]
pub enum Shape {
    /// By pixel number.
    Image(Arc<PixelMap>),
    /// Over one column.
    Line(PlotColumn, Scale),
    /// Over two columns: x, y.
    Plane(PlotColumn, Scale, PlotColumn, Scale),
    /// Nothing is counted: this many last events are kept.
    Tracks(usize),
    /// Nothing is counted: the newest heaps are kept.
    Waterfall(Box<WaterfallLines>),
}

/// Numbers by which a kept event's hit is shown: event (0 is the newest), plane, strip, ns, ADC counts.
pub const TRACK_NUMBERS: usize = 5;

/// Hits of a kept event at most: beyond physics, so that no event fills the page.
const MOST_HITS: usize = 400;

impl Shape {
    /// Bins that are shown.
    pub fn cells(&self) -> usize {
        match self {
            Shape::Image(map) => map.columns as usize * map.rows as usize,
            Shape::Line(_, x) => x.bins as usize,
            Shape::Plane(_, x, _, y) => x.bins as usize * y.bins as usize,
            Shape::Tracks(_) => 0,
            Shape::Waterfall(lines) => lines.cells(),
        }
    }

    /// Bins that are filled.
    fn filled(&self) -> usize {
        match self {
            // Pixel numbers start at 1; bin 0 exists so that no subtraction is needed.
            Shape::Image(map) => map.cell.len() + 1,
            Shape::Line(_, x) => x.bins as usize * self.lanes(),
            Shape::Plane(..) | Shape::Tracks(_) => self.cells(),
            Shape::Waterfall(_) => 0,
        }
    }

    fn lanes(&self) -> usize {
        match self {
            Shape::Line(_, x) if x.bins as usize <= LARGEST_WITH_LANES => LANES,
            _ => 1,
        }
    }
}

/// What became of the rows that a plot saw since it was cleared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlotTally {
    /// Rows in a bin.
    pub counted: u64,
    /// Rows outside the axes or without a pixel.
    pub outside: u64,
    /// Rows that a gate held back.
    pub gated: u64,
}

/// Counts of one plot.
#[derive(Debug)]
pub struct Filler {
    shape: Shape,
    gates: Vec<Gate>,
    /// Folded counts, without the live slice.
    total: Vec<u64>,
    live: Vec<u32>,
    /// Complete slices, the oldest first; `None` before they existed.
    ring: Vec<Slice>,
    /// Rows in the live slice, so that no 32-bit bin can overflow.
    live_rows: u64,
    tally: PlotTally,
    /// Kept events, the oldest first: plane, strip, ns and ADC counts of their hits.
    kept: Vec<Vec<[u64; TRACK_NUMBERS - 1]>>,
    since: Duration,
    live_since: Duration,
    pub(super) changed: bool,
}

#[derive(Debug)]
struct Slice {
    bins: Vec<u32>,
    from: Option<Duration>,
    rows: u64,
}

/// Slices of the window for a plot with `bins` bins.
fn slices(bins: usize) -> usize {
    if bins > LARGE { 4 } else { 10 }
}

impl Filler {
    /// Empty counts from `now` on.
    pub fn new(shape: Shape, gates: Vec<Gate>, now: Duration) -> Filler {
        let bins = shape.filled();
        let slice = |_| Slice { bins: vec![0; bins], from: None, rows: 0 };
        Filler {
            gates,
            total: vec![0; bins],
            live: vec![0; bins],
            ring: (0..slices(bins)).map(slice).collect(),
            live_rows: 0,
            tally: PlotTally::default(),
            kept: Vec::new(),
            since: now,
            live_since: now,
            changed: true,
            shape,
        }
    }

    /// Bytes that this plot holds.
    pub fn bytes(&self) -> usize {
        let kept = if let Shape::Waterfall(lines) = &self.shape { 4 * lines.cells() } else { 0 };
        self.live.len() * (8 + 4 + 4 * self.ring.len()) + kept
    }

    /// Counts a batch.
    pub fn fill(&mut self, products: &Products) {
        if let Shape::Tracks(most) = self.shape {
            return self.keep(&products.tracks, most);
        }
        if let Shape::Waterfall(lines) = &mut self.shape {
            let (shown, outside) = lines.take(&products.heaps);
            self.tally.counted += shown;
            self.tally.outside += outside;
            self.changed |= shown > 0;
            return;
        }
        let (events, hits, clusters) = (&products.events, &products.hits, &products.cluster_sizes);
        // All parts of a product are far below 2³² rows: positions in them are u32.
        let records = products.records.len().max(products.records.source.len());
        let rows = events.pixel.len().max(hits.pixel.len()).max(clusters.plane.len());
        let rows = rows.max(records) as u64;
        if self.live_rows + rows > u64::from(u32::MAX) {
            self.fold();
        }
        let before = self.tally;
        let lanes = self.shape.lanes();
        let (bins, tally) = (&mut self.live[..], &mut self.tally);
        if !self.gates.is_empty() {
            gated(&self.shape, &self.gates, products, bins, tally);
        } else {
            match &self.shape {
                Shape::Image(_) => image(&events.pixel, bins, tally),
                Shape::Line(PlotColumn::Pixel, x) => line(&events.pixel, x, lanes, bins, tally),
                Shape::Line(PlotColumn::OffsetNs, x) => {
                    line(&events.offset_ns, x, lanes, bins, tally)
                }
                Shape::Line(PlotColumn::Adc, x) => line(&hits.adc, x, lanes, bins, tally),
                Shape::Line(PlotColumn::HitPixel, x) => line(&hits.pixel, x, lanes, bins, tally),
                Shape::Line(PlotColumn::ClusterPlane, x) => {
                    line(&clusters.plane, x, lanes, bins, tally)
                }
                Shape::Line(PlotColumn::ClusterSize, x) => {
                    line(&clusters.size, x, lanes, bins, tally)
                }
                Shape::Line(PlotColumn::ClusterSpanNs, x) => {
                    line(&clusters.span_ns, x, lanes, bins, tally);
                }
                Shape::Line(PlotColumn::ClusterAdc, x) => {
                    line(&clusters.adc, x, lanes, bins, tally)
                }
                Shape::Line(PlotColumn::PartSource, x) => {
                    line(&products.records.source, x, lanes, bins, tally);
                }
                Shape::Line(..) | Shape::Plane(..) | Shape::Tracks(_) | Shape::Waterfall(_) => {
                    gated(&self.shape, &[], products, bins, tally);
                }
            }
        }
        self.live_rows += self.tally.counted - before.counted;
        self.changed |= self.tally != before;
    }

    /// Keeps the last `most` events.
    fn keep(&mut self, tracks: &TrackBatch, most: usize) {
        let all = tracks.first.len();
        for hits in tracks.events().skip(all.saturating_sub(most)) {
            if self.kept.len() >= most {
                self.kept.remove(0);
            }
            let hit = |at: usize| {
                let (plane, strip) = (tracks.plane[at], tracks.strip[at]);
                [plane.into(), strip.into(), tracks.later_ns[at].into(), tracks.adc[at].into()]
            };
            self.kept.push(hits.take(MOST_HITS).map(hit).collect());
        }
        self.tally.counted += all as u64;
        self.changed |= all > 0;
    }

    /// Forgets everything.
    pub fn clear(&mut self, now: Duration) {
        self.total.fill(0);
        self.live.fill(0);
        for s in &mut self.ring {
            s.bins.fill(0);
            (s.from, s.rows) = (None, 0);
        }
        self.live_rows = 0;
        self.tally = PlotTally::default();
        self.kept.clear();
        if let Shape::Waterfall(lines) = &mut self.shape {
            lines.clear();
        }
        (self.since, self.live_since) = (now, now);
        self.changed = true;
    }

    /// Ends the live slice if the window of `window` has moved on by one slice.
    pub fn advance(&mut self, now: Duration, window: Duration) {
        let length = window / self.ring.len() as u32;
        if now.saturating_sub(self.live_since) < length {
            return;
        }
        self.fold_total();
        let mut oldest = self.ring.remove(0);
        self.changed |= oldest.rows > 0;
        std::mem::swap(&mut oldest.bins, &mut self.live);
        (oldest.from, oldest.rows) = (Some(self.live_since), self.live_rows);
        self.ring.push(oldest);
        self.live.fill(0);
        self.live_rows = 0;
        self.live_since = now;
        // A pause longer than a slice makes one long slice; slices older than the window are dropped.
        for s in &mut self.ring {
            let end_is_old = s.from.is_some_and(|from| now.saturating_sub(from) > window + length);
            if end_is_old && s.rows > 0 {
                s.bins.fill(0);
                s.rows = 0;
                self.changed = true;
            }
            if end_is_old {
                s.from = None;
            }
        }
    }

    /// Adds the live slice to the total.
    fn fold_total(&mut self) {
        if self.live_rows > 0 {
            for (t, &l) in self.total.iter_mut().zip(&self.live) {
                *t += u64::from(l);
            }
        }
    }

    /// Makes room in the live bins before their time is over: the window loses this part.
    fn fold(&mut self) {
        self.fold_total();
        self.live.fill(0);
        self.live_rows = 0;
    }

    /// What happened to the rows.
    pub fn tally(&self) -> PlotTally {
        self.tally
    }

    /// When counting began.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Start of the window.
    pub fn window_from(&self) -> Duration {
        self.ring.iter().filter_map(|s| s.from).min().unwrap_or(self.live_since)
    }

    /// Writes the shown cells: since the last clear, and of the window.
    pub fn show(&self, total: &mut Vec<u64>, current: &mut Vec<u64>) {
        if let Shape::Tracks(_) = self.shape {
            for out in [total, current] {
                out.clear();
                for (n, hits) in self.kept.iter().rev().enumerate() {
                    hits.iter().for_each(|hit| {
                        out.push(n as u64);
                        out.extend_from_slice(hit);
                    });
                }
            }
            return;
        }
        if let Shape::Waterfall(lines) = &self.shape {
            lines.show(total);
            lines.show(current);
            return;
        }
        for out in [&mut *total, &mut *current] {
            out.clear();
            out.resize(self.shape.cells(), 0);
        }
        let mut add = |bin: usize, cell: usize| {
            let live = u64::from(self.live[bin]);
            total[cell] += self.total[bin] + live;
            current[cell] += live;
        };
        match &self.shape {
            Shape::Image(map) => {
                map.cell.iter().enumerate().for_each(|(i, &cell)| add(i + 1, cell as usize));
            }
            Shape::Line(..) => {
                let cells = self.shape.cells();
                (0..self.live.len()).for_each(|bin| add(bin, bin % cells));
            }
            Shape::Plane(..) | Shape::Tracks(_) | Shape::Waterfall(_) => {
                (0..self.live.len()).for_each(|bin| add(bin, bin));
            }
        }
        for slice in self.ring.iter().filter(|s| s.rows > 0) {
            match &self.shape {
                Shape::Image(map) => {
                    for (&n, &cell) in slice.bins[1..].iter().zip(&map.cell) {
                        current[cell as usize] += u64::from(n);
                    }
                }
                Shape::Line(..) | Shape::Plane(..) | Shape::Tracks(_) | Shape::Waterfall(_) => {
                    for lane in slice.bins.chunks_exact(self.shape.cells()) {
                        current.iter_mut().zip(lane).for_each(|(c, &n)| *c += u64::from(n));
                    }
                }
            }
        }
    }
}

/// Counts pixel numbers. Two loops' worth of events in flight: pixels are nearly random, so no lanes.
fn image(pixels: &[u32], bins: &mut [u32], tally: &mut PlotTally) {
    let mut outside = 0u64;
    for &p in pixels {
        match bins.get_mut(p as usize) {
            Some(bin) if p != 0 => *bin += 1,
            _ => outside += 1,
        }
    }
    tally.outside += outside;
    tally.counted += pixels.len() as u64 - outside;
}

/// Counts one column over one axis.
fn line<T: Copy + Into<u32>>(
    values: &[T],
    x: &Scale,
    lanes: usize,
    bins: &mut [u32],
    tally: &mut PlotTally,
) {
    let mut outside = 0u64;
    let mut one = |bins: &mut [u32], v: u32| match x.bin(v).and_then(|b| bins.get_mut(b)) {
        Some(bin) => *bin += 1,
        None => outside += 1,
    };
    if lanes == LANES {
        let n = x.bins as usize;
        let (a, rest) = bins.split_at_mut(n);
        let (b, rest) = rest.split_at_mut(n);
        let (c, d) = rest.split_at_mut(n);
        let quads = values.chunks_exact(LANES);
        for &v in quads.remainder() {
            one(a, v.into());
        }
        for v in quads {
            one(a, v[0].into());
            one(b, v[1].into());
            one(c, v[2].into());
            one(d, v[3].into());
        }
    } else {
        for &v in values {
            one(bins, v.into());
        }
    }
    tally.outside += outside;
    tally.counted += values.len() as u64 - outside;
}

/// A column by row.
enum Values<'a> {
    Wide(&'a [u32]),
    Narrow(&'a [u16]),
    /// Of each merged event.
    Events(&'a EventRecords, fn(&EventRecords, usize) -> usize),
    /// Whether a part has one of these flags.
    Flags(&'a [u16], u16),
}

/// Parts of a merged event that did not come.
fn missing(records: &EventRecords, event: usize) -> usize {
    records.parts(event).filter(|&part| records.part_flags[part] & flags::MISSING != 0).count()
}

impl<'a> Values<'a> {
    fn of(products: &'a Products, column: PlotColumn) -> Values<'a> {
        match column {
            PlotColumn::Pixel => Values::Wide(&products.events.pixel),
            PlotColumn::OffsetNs => Values::Wide(&products.events.offset_ns),
            PlotColumn::Adc => Values::Narrow(&products.hits.adc),
            PlotColumn::HitPixel => Values::Wide(&products.hits.pixel),
            PlotColumn::ClusterPlane => Values::Narrow(&products.cluster_sizes.plane),
            PlotColumn::ClusterSize => Values::Narrow(&products.cluster_sizes.size),
            PlotColumn::ClusterSpanNs => Values::Wide(&products.cluster_sizes.span_ns),
            PlotColumn::ClusterAdc => Values::Wide(&products.cluster_sizes.adc),
            PlotColumn::RecordBytes => Values::Events(&products.records, EventRecords::size),
            PlotColumn::RecordMissing => Values::Events(&products.records, missing),
            PlotColumn::PartSource => Values::Wide(&products.records.source),
            PlotColumn::PartMissing => Values::Flags(&products.records.part_flags, flags::MISSING),
            PlotColumn::PartDamaged => {
                Values::Flags(&products.records.part_flags, flags::CHECKSUM | flags::BROKEN)
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Values::Wide(v) => v.len(),
            Values::Narrow(v) | Values::Flags(v, _) => v.len(),
            Values::Events(records, _) => records.len(),
        }
    }

    #[inline(always)]
    fn at(&self, row: usize) -> u32 {
        match self {
            Values::Wide(v) => v[row],
            Values::Narrow(v) => u32::from(v[row]),
            Values::Events(records, of) => u32::try_from(of(records, row)).unwrap_or(u32::MAX),
            Values::Flags(v, any) => u32::from(v[row] & any != 0),
        }
    }
}

/// A gate over its column.
type Pass<'a> = (Values<'a>, u64, u64);

/// The general loop: any shape, any gates.
fn gated(shape: &Shape, gates: &[Gate], p: &Products, bins: &mut [u32], tally: &mut PlotTally) {
    let gates: Vec<Pass<'_>> =
        gates.iter().map(|g| (Values::of(p, g.column), g.min, g.max)).collect();
    match shape {
        Shape::Image(_) => {
            let pixels = &p.events.pixel;
            let bin = |row: usize| Some(pixels[row] as usize).filter(|&b| b != 0);
            count(pixels.len(), &gates, bin, bins, tally);
        }
        Shape::Line(column, x) => {
            let v = Values::of(p, *column);
            count(v.len(), &gates, |row| x.bin(v.at(row)), bins, tally);
        }
        Shape::Plane(cx, x, cy, y) => {
            let (vx, vy) = (Values::of(p, *cx), Values::of(p, *cy));
            let width = x.bins as usize;
            let bin = |row| Some(y.bin(vy.at(row))? * width + x.bin(vx.at(row))?);
            count(vx.len(), &gates, bin, bins, tally);
        }
        Shape::Tracks(_) | Shape::Waterfall(_) => {}
    }
}

fn count(
    rows: usize,
    gates: &[Pass<'_>],
    bin_of: impl Fn(usize) -> Option<usize>,
    bins: &mut [u32],
    tally: &mut PlotTally,
) {
    for row in 0..rows {
        if !gates.iter().all(|(v, min, max)| (*min..=*max).contains(&v.at(row).into())) {
            tally.gated += 1;
            continue;
        }
        match bin_of(row).and_then(|b| bins.get_mut(b)) {
            Some(bin) => {
                *bin += 1;
                tally.counted += 1;
            }
            None => tally.outside += 1,
        }
    }
}
