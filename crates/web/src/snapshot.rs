//! The state that the filling side publishes to the web side: one pointer, swapped.
//!
//! The filler writes a picture that has no reader and swaps it in; a reader clones the pointer. Both hold the lock only
//! for the copy of a pointer. Requests of viewers (clear, window, axis) wait in a short list until the filler's next
//! tick. Refuses requests beyond 64 waiting ones. Source: `docs/page.md`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fullcount_core::view::{PixelMap, Plot};

use super::accumulate::{PlotError, Rebin, rebinned};
use super::fill::PlotTally;

/// Requests that may wait for the filler: more come only from a broken viewer.
const MOST_REQUESTS: usize = 64;

/// Counts of one plot at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotPicture {
    /// What is counted.
    pub plot: Plot,
    /// Grows with every change of the counts.
    pub version: u64,
    /// Cells since the last clear; a picture row by row from the top, a plane from the bottom.
    pub total: Vec<u64>,
    /// Cells of the window.
    pub current: Vec<u64>,
    /// What became of the rows since the last clear.
    pub tally: PlotTally,
    /// When counting began, time since the start.
    pub since: Duration,
    /// Where the window begins, time since the start.
    pub window_from: Duration,
    /// When this was taken, time since the start.
    pub at: Duration,
}

/// All plots at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlotSnapshot {
    /// Time since the start.
    pub at: Duration,
    /// When the last products came, `None` before the first.
    pub last_data: Option<Duration>,
    /// Length of the current view.
    pub window: Duration,
    /// Plots in the order of the detector.
    pub plots: Vec<Arc<PlotPicture>>,
    /// True once the sink has finished: nothing changes any more.
    pub ended: bool,
}

/// What a viewer asks the filler to do.
#[derive(Debug, Clone, PartialEq)]
pub enum ViewerRequest {
    /// Forget the counts of one plot, or of all.
    Clear(Option<String>),
    /// Set the length of the current view.
    Window(Duration),
    /// Restart a plot with another range.
    Rebin(String, Rebin),
}

/// Why a request was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It does not fit a plot.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The filler is gone.
    #[error("the run has ended; its pictures stay as they are")]
    Ended,
    /// Too many wait.
    #[error("{MOST_REQUESTS} requests are waiting; try again in a second")]
    Busy,
}

/// The web side's handle on the pictures. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LiveView {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pixels: Arc<PixelMap>,
    snapshot: Mutex<Arc<PlotSnapshot>>,
    requests: Mutex<Vec<ViewerRequest>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside is whole after every statement, so a panic elsewhere does not matter.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LiveView {
    pub(super) fn new(pixels: Arc<PixelMap>) -> LiveView {
        let shared = Shared { pixels, snapshot: Mutex::default(), requests: Mutex::default() };
        LiveView { shared: Arc::new(shared) }
    }

    /// The newest pictures.
    pub fn snapshot(&self) -> Arc<PlotSnapshot> {
        lock(&self.shared.snapshot).clone()
    }

    /// The pixels of the picture.
    pub fn pixels(&self) -> &Arc<PixelMap> {
        &self.shared.pixels
    }

    /// Asks the filler, which acts at its next tick.
    ///
    /// # Errors
    /// A request that no plot can execute, or that will not be read.
    pub fn request(&self, request: ViewerRequest) -> Result<(), RequestError> {
        let now = self.snapshot();
        if now.ended {
            return Err(RequestError::Ended);
        }
        let find = |id: &str| {
            let known =
                || now.plots.iter().map(|p| p.plot.id.as_str()).collect::<Vec<_>>().join(", ");
            let unknown = || PlotError::Unknown { id: id.to_owned(), known: known() };
            now.plots.iter().find(|p| p.plot.id == id).ok_or_else(unknown)
        };
        match &request {
            ViewerRequest::Clear(Some(id)) => drop(find(id)?),
            ViewerRequest::Rebin(id, new) => drop(rebinned(&find(id)?.plot, new)?),
            ViewerRequest::Clear(None) | ViewerRequest::Window(_) => {}
        }
        let mut waiting = lock(&self.shared.requests);
        if waiting.len() >= MOST_REQUESTS {
            return Err(RequestError::Busy);
        }
        waiting.push(request);
        Ok(())
    }

    pub(super) fn take_requests(&self) -> Vec<ViewerRequest> {
        std::mem::take(&mut *lock(&self.shared.requests))
    }

    pub(super) fn swap(&self, new: Arc<PlotSnapshot>) -> Arc<PlotSnapshot> {
        std::mem::replace(&mut *lock(&self.shared.snapshot), new)
    }
}
