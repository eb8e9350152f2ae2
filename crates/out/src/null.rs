//! The sink that only counts: for measuring what comes before it.
//!
//! Refuses nothing.

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::Products;

use crate::sink::{Report, Sink, SinkError};

fullcount_core::counters! {
    /// What the null sink counts.
    pub enum NullCounter {
        In "sink.null.in" Events Sum "sink.null" In "events given to the null sink" "";
        Events "sink.null.events" Events Sum "sink.null" Accepted "events counted and forgotten" "";
        Pulses "sink.null.pulses" Messages Sum "sink.null" Note "pulse rows given to the null sink" "";
    }
}

/// Counts events and forgets them. Not required: nothing can be lost here.
#[derive(Debug)]
pub struct NullSink {
    sheet: Arc<Sheet>,
}

impl NullSink {
    /// All counts at 0.
    pub fn new() -> NullSink {
        NullSink { sheet: Sheet::new(NullCounter::catalogue()) }
    }
}

impl Default for NullSink {
    fn default() -> Self {
        NullSink::new()
    }
}

impl Sink for NullSink {
    fn name(&self) -> &'static str {
        "null"
    }

    fn required(&self) -> bool {
        false
    }

    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        let n = products.events.len() as u64;
        self.sheet.add(NullCounter::In as usize, n);
        self.sheet.add(NullCounter::Events as usize, n);
        self.sheet.add(NullCounter::Pulses as usize, products.events.pulse_ns.len() as u64);
        Ok(())
    }

    fn tick(&mut self, _: Duration) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<Report, SinkError> {
        let events = self.sheet.get(NullCounter::Events as usize);
        Ok(Report { place: "null".into(), events, ..Report::default() })
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::ledger::Ledger;
    use fullcount_core::time::PulseTime;

    #[test]
    fn it_counts_and_balances() {
        let mut sink = NullSink::new();
        let ledger = Ledger::default();
        ledger.register(sink.sheet());
        let mut p = Products::default();
        p.events.open_pulse(PulseTime(5));
        p.events.push(1, 1);
        p.events.push(2, 1);
        let p = Arc::new(p);
        sink.push(&p).unwrap();
        sink.push(&p).unwrap();
        assert_eq!(sink.finish().unwrap().events, 4);
        assert_eq!((ledger.read().balance(), ledger.read().get("sink.null.in")), (0, Some(4)));
    }
}
