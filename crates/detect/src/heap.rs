//! SPEAD heaps: named arrays of a radio telescope, from packets that may come in any order, from several senders.
//!
//! Refuses datagrams that are no SPEAD packets and those that fit no heap, each under one counter. Entry: [`SpeadHeap`], the
//! [`Kind`]. Sources: `docs/heap.md`, `docs/formats/spead.md`.

mod counters;
mod framing;
mod inspect;
mod items;
mod native;
mod options;
mod reader;
mod sample;
mod senders;
mod shift;

use fullcount_core::refusal::{Refusal, setting};
use std::io;

use fullcount_core::key::KeyRow;
use fullcount_core::products::Want;
use fullcount_core::sequence::numbering::Numbering;
use fullcount_core::source::FrameRule;
use fullcount_core::time::TickLength;
use fullcount_core::view::{PixelMap, Plot, PlotKind, Waterfall};
use fullcount_spead::SpeadPacket;

use crate::detector::{
    Clock, Decoder, Detector, Inspector, Kind, ModuleNames, Setup, Sharding, Shifter, Threads,
};
use crate::sample::DetectorSample;

pub use counters::HeapCount;
use options::HeapOptions;

/// The kind `heap`.
#[derive(Debug, Default)]
pub struct SpeadHeap;

impl Kind for SpeadHeap {
    fn name(&self) -> &'static str {
        "heap"
    }

    fn title(&self) -> &'static str {
        "SPEAD"
    }

    fn about(&self) -> &'static str {
        "SPEAD heaps: named arrays, whole or with what is missing of them"
    }

    fn looks_right(&self, chunk: &[u8]) -> bool {
        SpeadPacket::parse(chunk).is_ok_and(|packet| packet.size() == chunk.len())
    }

    fn keys(&self) -> &'static [KeyRow] {
        options::KEYS
    }

    fn sample(&self) -> DetectorSample {
        sample::SAMPLE
    }

    fn clock(&self) -> Clock {
        Clock::Absolute
    }

    fn configure(&self, setup: &Setup) -> Result<Box<dyn Detector>, Refusal> {
        if !setup.geometry.trim().is_empty() {
            return Err(setting(
                "detector.geometry",
                setup.geometry_path.clone(),
                "`heap` has no geometry: leave it out",
            ));
        }
        setup.time.without_pulses("heap")?;
        Ok(Box::new(HeapDetector { options: HeapOptions::read(&setup.options)? }))
    }
}

struct HeapDetector {
    options: HeapOptions,
}

impl Detector for HeapDetector {
    fn name(&self) -> &str {
        "heap"
    }

    fn decoder(&self, _: Want, _: &Threads) -> io::Result<Box<dyn Decoder>> {
        Ok(Box::new(reader::HeapReader::new(&self.options)))
    }

    // Packets of one heap may come from several addresses.
    fn sharding(&self) -> Sharding {
        Sharding::Serial
    }

    fn module_names(&self) -> ModuleNames {
        ModuleNames { called: None, by_port: true }
    }

    fn framing(&self) -> Option<FrameRule> {
        Some(framing::FRAMING)
    }

    // A heap's number is its sender's choice: what is missing is counted where `detector.sequence` says how they follow each other.
    fn numbering(&self) -> Option<Numbering> {
        None
    }

    fn tick(&self) -> (TickLength, bool) {
        (TickLength::NANOSECOND, false)
    }

    fn pixels(&self) -> PixelMap {
        PixelMap::default()
    }

    fn plots(&self) -> Vec<Plot> {
        let HeapOptions { bins, lines, waterfall, .. } = &self.options;
        let item = waterfall.clone();
        let title = item.clone().unwrap_or_else(|| "Newest heaps".to_owned());
        let kind = PlotKind::Waterfall(Waterfall { item, bins: *bins, lines: *lines });
        vec![Plot { id: "waterfall".to_owned(), title, kind, gates: Vec::new(), log: false }]
    }

    fn shifter(&self) -> Option<Box<dyn Shifter>> {
        Some(Box::new(shift::Moving::default()))
    }

    fn inspector(&self) -> Box<dyn Inspector> {
        Box::new(inspect::HeapInspector::new(&self.options))
    }
}

#[cfg(test)]
#[path = "heap/heap_tests.rs"]
mod tests;
