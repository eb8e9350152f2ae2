//! The sink behind the live page.
//!
//! Best effort: if it falls behind, the engine drops batches for it and the page shows the fraction. It has no clock:
//! time comes with [`Sink::tick`]. Refuses plots that do not fit the detector when it is created. Source:
//! `docs/contracts.md`, "Sinks and overload".

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::SafeBatches;
use fullcount_core::view::{PixelMap, Plot};

use super::accumulate::{Accumulator, PlotError};
use super::snapshot::{LiveView, PlotPicture, PlotSnapshot, ViewerRequest};
use fullcount_core::sink::{Report, Sink, SinkError};

/// Shortest time between two pictures: at most ten a second.
const PICTURE_EVERY: Duration = Duration::from_millis(100);

/// Cells that may be copied every [`PICTURE_EVERY`]; more cells make pictures rarer in proportion.
/// 1 Mi cells take 5 to 11 ms, then every 500 ms: showing stays at 1 to 2 % of the sink's thread.
const CELLS_PER_PICTURE: usize = 1 << 18;

fullcount_core::counters! {
    /// What the live page's filler counts.
    pub enum LiveCounter {
        In "sink.live.events" Events Sum "sink.live" In "events handed to the live page" "";
        Counted "sink.live.counted" Events Sum "sink.live" Accepted
            "events offered to the live page's plots" "";
        Outside "sink.live.outside" Events Max "sink.live.plots" Note
            "most events of one plot that lay outside its axes or had no pixel"
            "widen the plot's axis on the page, or check that the geometry fits the detector";
    }
}

/// How the page's pictures are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveOptions {
    /// Length of the "current" view, 1 s to 60 s; viewers can change it.
    pub window: Duration,
}

impl Default for LiveOptions {
    fn default() -> Self {
        LiveOptions { window: Duration::from_secs(5) }
    }
}

/// Makes the sink for the engine and the view for the web server.
///
/// # Errors
/// A plot that cannot be counted.
pub fn live(
    plots: Vec<Plot>,
    pixels: PixelMap,
    options: LiveOptions,
) -> Result<(LiveSink, LiveView), PlotError> {
    let pixels = Arc::new(pixels);
    let accumulator = Accumulator::new(plots, pixels.clone(), options.window)?;
    let view = LiveView::new(pixels);
    let mut sink = LiveSink {
        accumulator,
        view: view.clone(),
        sheet: Sheet::new(LiveCounter::catalogue()),
        next_picture: Duration::ZERO,
        now: Duration::ZERO,
        version: 0,
        fresh: false,
        last_data: None,
        spare: None,
        safe: SafeBatches::default(),
    };
    sink.publish(false);
    Ok((sink, view))
}

/// Counts products into plots and publishes them.
#[derive(Debug)]
pub struct LiveSink {
    accumulator: Accumulator,
    view: LiveView,
    sheet: Arc<Sheet>,
    next_picture: Duration,
    now: Duration,
    version: u64,
    /// Products came since the last tick.
    fresh: bool,
    last_data: Option<Duration>,
    /// The picture before the last: reused if no reader holds it.
    spare: Option<Arc<PlotSnapshot>>,
    safe: SafeBatches,
}

impl LiveSink {
    fn publish(&mut self, ended: bool) {
        let old = self.view.snapshot();
        // The snapshot before the last one usually has no reader left; its memory is used again.
        let mut spare: Vec<Option<PlotPicture>> = match self.spare.take().map(Arc::try_unwrap) {
            Some(Ok(s)) => s.plots.into_iter().map(|p| Arc::try_unwrap(p).ok()).collect(),
            Some(Err(_)) | None => Vec::new(),
        };
        let mut plots = Vec::with_capacity(old.plots.len());
        for (i, (plot, filler)) in self.accumulator.plots_mut().enumerate() {
            if let Some(same) = old.plots.get(i).filter(|_| !filler.changed) {
                plots.push(same.clone());
                continue;
            }
            filler.changed = false;
            self.version += 1;
            let (mut total, mut current) = match spare.get_mut(i).and_then(Option::take) {
                Some(p) => (p.total, p.current),
                None => Default::default(),
            };
            filler.show(&mut total, &mut current);
            plots.push(Arc::new(PlotPicture {
                plot: plot.clone(),
                version: self.version,
                total,
                current,
                tally: filler.tally(),
                since: filler.since(),
                window_from: filler.window_from(),
                at: self.now,
            }));
        }
        let new = PlotSnapshot {
            at: self.now,
            last_data: self.last_data,
            window: self.accumulator.window(),
            plots,
            ended,
        };
        drop(old);
        self.spare = Some(self.view.swap(Arc::new(new)));
    }

    fn obey(&mut self) -> bool {
        let requests = self.view.take_requests();
        let any = !requests.is_empty();
        for request in requests {
            // Checked when it was made; if it no longer fits, the plot stays as it is.
            let _refused = match request {
                ViewerRequest::Clear(id) => self.accumulator.clear(id.as_deref(), self.now),
                ViewerRequest::Rebin(id, new) => self.accumulator.rebin(&id, &new, self.now),
                ViewerRequest::Window(window) => {
                    self.accumulator.set_window(window);
                    Ok(())
                }
            };
        }
        any
    }

    fn count_outside(&self) {
        let most = self.accumulator.plots().map(|(_, f)| f.tally().outside).max().unwrap_or(0);
        self.sheet.set(LiveCounter::Outside as usize, most);
    }
}

impl Sink for LiveSink {
    fn name(&self) -> &'static str {
        "live"
    }

    fn required(&self) -> bool {
        false
    }

    fn want(&self) -> Want {
        self.accumulator.want()
    }

    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        let events = products.events.len() as u64;
        self.sheet.add(LiveCounter::In as usize, events);
        self.accumulator.fill(products);
        self.sheet.add(LiveCounter::Counted as usize, events);
        self.fresh |= !products.is_empty();
        self.safe.took(products.complete, 0);
        self.safe.reached(0);
        Ok(())
    }

    fn safe(&self, pipeline: u32) -> u64 {
        self.safe.upto(pipeline)
    }

    fn tick(&mut self, since_start: Duration) -> Result<(), SinkError> {
        self.now = self.now.max(since_start);
        if std::mem::take(&mut self.fresh) {
            self.last_data = Some(self.now);
        }
        let asked = self.obey();
        if self.now < self.next_picture && !asked {
            return Ok(());
        }
        self.accumulator.advance(self.now);
        self.count_outside();
        self.publish(false);
        let cells: usize = self.view.snapshot().plots.iter().map(|p| p.total.len()).sum();
        self.next_picture = self.now + PICTURE_EVERY * (1 + cells / CELLS_PER_PICTURE) as u32;
        Ok(())
    }

    fn finish(&mut self) -> Result<Report, SinkError> {
        self.obey();
        self.count_outside();
        self.publish(true);
        let events = self.sheet.get(LiveCounter::Counted as usize);
        Ok(Report { place: "live page".to_owned(), events, ..Report::default() })
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

impl Drop for LiveSink {
    /// A viewer must see that the run has ended.
    fn drop(&mut self) {
        if !self.view.snapshot().ended {
            self.publish(true);
        }
    }
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;
