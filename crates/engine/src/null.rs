//! The sink that only counts: for measuring what comes before it.
//!
//! Source: `docs/architecture.md`, "Seams".

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::ledger::Sheet;
use fullcount_core::output::{
    DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, Plan, SectionReading,
};
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::SafeBatches;
use fullcount_core::refusal::Refusal;
use fullcount_core::sink::{Report, Sink, SinkError};

fullcount_core::counters! {
    /// What the null sink counts.
    pub enum NullCounter {
        In "sink.null.in" Events Sum "sink.null" In "events given to the null sink" "";
        Events "sink.null.events" Events Sum "sink.null" Accepted "events counted and forgotten" "";
        Pulses "sink.null.pulses" Messages Sum "sink.null" Note "pulse rows given to the null sink" "";
    }
}

/// Events are counted and dropped: `output.sink = "null"`.
#[derive(Debug)]
pub struct Null;

const DECLARED: DeclaredOutput = DeclaredOutput {
    counters: || vec![("output: null", NullCounter::catalogue())],
    alone: true,
    ..DeclaredOutput::new(
        "null",
        "output.sink",
        "events are counted and dropped",
        SectionReading { check: |_, _| Ok(()), shown: |_, _| Ok(String::new()) },
    )
};

impl OutputKind for Null {
    fn declared(&self) -> &'static DeclaredOutput {
        &DECLARED
    }

    fn plan(&self, _: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        Ok(Some(Box::new(NullPlan)))
    }
}

/// Nothing to check.
struct NullPlan;

impl Plan for NullPlan {
    fn open(&mut self, _: &Opening) -> Result<Opened, OutputOpenError> {
        let sink: Box<dyn Sink> = Box::new(NullSink::new());
        let facts = vec!["output null: events are counted and dropped".to_owned()];
        Ok(Opened { facts, ..sink.into() })
    }
}

/// Counts events and forgets them. Not required: nothing can be lost here.
#[derive(Debug)]
pub struct NullSink {
    sheet: Arc<Sheet>,
    safe: SafeBatches,
}

impl NullSink {
    /// All counts at 0.
    pub fn new() -> NullSink {
        NullSink { sheet: Sheet::new(NullCounter::catalogue()), safe: SafeBatches::default() }
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

    fn want(&self) -> Want {
        // Merged events are what their detector is for: it is measured with them.
        Want { records: true, ..Want::default() }
    }

    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        let n = (products.events.len() + products.records.len()) as u64;
        self.sheet.add(NullCounter::In as usize, n);
        self.sheet.add(NullCounter::Events as usize, n);
        self.sheet.add(NullCounter::Pulses as usize, products.events.pulse_ns.len() as u64);
        self.safe.took(products.complete, 0);
        self.safe.reached(0);
        Ok(())
    }

    fn safe(&self, pipeline: u32) -> u64 {
        self.safe.upto(pipeline)
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
    use fullcount_core::conformance::OutputCase;
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

    #[test]
    fn what_it_takes_is_safe_at_once() {
        let (mut sink, fill) = (NullSink::new(), |products: &mut Products, n: u64| {
            products.events.open_pulse(PulseTime(5));
            products.events.push(1, n as u32 + 1);
        });
        let mut kept = || u64::MAX;
        let case = OutputCase { sink: &mut sink, fill: &fill, kept: &mut kept, at_close: false };
        fullcount_core::conformance::output(case).unwrap();
    }
}
