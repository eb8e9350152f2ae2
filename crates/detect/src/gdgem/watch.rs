//! Who looks at clusters on their way to events: tables, the page's pictures, tests.

use fullcount_core::products::Products;

use super::chain::OnlineEvent;
use super::pads::PadCluster;
use super::plane::PlaneCluster;
use super::tables::Numbers;

/// Sees clusters on their way to events, for tables and tests. All methods do nothing unless given.
pub trait ClusterWatch: Send + 'static {
    /// True if all values of plane clusters are looked at; else those are 0 that events do not need.
    const ALL_VALUES: bool = true;

    /// A cluster of a plane, in the order of being closed.
    fn plane(&mut self, detector: u32, plane: u8, cluster: &PlaneCluster) {
        let _ = (detector, plane, cluster);
    }
    /// A detector cluster: its time in the order of events, ns, and its planes; `best` is false for further pairs of `-hm 1`.
    fn matched(
        &mut self,
        detector: u32,
        order: f64,
        planes: [Option<&PlaneCluster>; 3],
        best: bool,
    ) {
        let _ = (detector, order, planes, best);
    }
    /// A cluster of pads: its time in the order of events, ns.
    fn pads(&mut self, detector: u32, order: f64, cluster: &PadCluster) {
        let _ = (detector, order, cluster);
    }
    /// An event of the online chain, with both planes or one.
    fn online(&mut self, event: &OnlineEvent<'_>) {
        let _ = event;
    }
    /// All has come, ns: clusters of planes that hold a hit before the first, detector clusters of all detectors that stand before
    /// the second in the order of events.
    fn complete(&mut self, planes: f64, detectors: f64) {
        let _ = (planes, detectors);
    }
    /// Gives the times of what is held back until it is complete, ns; true once `found` says so of one.
    fn any_time(&self, found: &mut dyn FnMut(f64) -> bool) -> bool {
        let _ = found;
        false
    }
    /// The call that saw all this ends: rows go with the batch.
    fn hand_over(&mut self, products: &mut Products) {
        let _ = products;
    }
    /// How many clusters there were since the state was last empty, after the call; `empty`: nothing waits now.
    fn numbers(&mut self, empty: bool) -> Numbers {
        let _ = empty;
        Numbers::default()
    }
}

/// Sees nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl ClusterWatch for Unwatched {
    const ALL_VALUES: bool = false;
}
