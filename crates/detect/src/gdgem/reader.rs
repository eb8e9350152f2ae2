//! Reads SRS frames: every frame and every word is accounted for; hits with time and strip go to the builder.
//!
//! Beside the hits go rows that say how far time is: a marker is a promise that later hits of its VMM lie behind it, less the
//! offset −1. Refuses frames by the checks of [`packet`](super::packet), and words by VMM, offset, marker, channel and
//! amplitude; each is a counter. Source: `docs/formats/gdgem.md` sections 2 to 7, 13 and 14.2.

mod offline;
mod online;

use std::sync::Arc;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;
use fullcount_core::products::Products;
use fullcount_core::progress::Flush;
use fullcount_core::sequence::numbering::Book;
use fullcount_core::sequence::turns::Arrivals;
use fullcount_core::tables::StripHits;
use fullcount_core::wall::{EACH, Readings};
use fullcount_instructions::Instructions;

use super::asked;
use super::clock::{ClockRules, Offsets, TimeTables};
use super::counters::{Counts, GdGemCount};
use super::layout::{FECS, Fec, Layout, VMMS};
use super::options::Options;
use super::packet::{self, FrameWords, GdGemRefusal, Word};
use super::progress::{Progress, RESTART};
use super::state::{Frames, MarkerCheck, MarkerStep, NUMBERING, marker_step};
use super::tables;
use super::zeros::Zeros;
use crate::detector::{CommandError, CommandInfo, SeenModule};
use crate::hits::FineHit;
use crate::steps::Reader;
use crate::thresholds::{self, Threshold};

/// What one VMM last said in triggered firmware (section 13).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trigger {
    pub relative: Option<u64>,
    /// Event counter of the next hits.
    counter: u32,
}

/// State of one FEC.
pub(super) struct State {
    frames: Frames,
    /// Latest marker by VMM.
    markers: [u64; VMMS],
    /// The same in ns; −∞ where none has come, and above VMM 15.
    pub base: [f64; 2 * VMMS],
    /// What is subtracted, ns; ∞: the first time of the run, which has not been seen yet.
    zero: [f64; 2 * VMMS],
    checks: [MarkerCheck; VMMS],
    pub triggers: [Trigger; VMMS],
}

/// What does not change while reading.
pub(super) struct Facts {
    pub layout: Arc<Layout>,
    /// ns by raw offset; −∞ where it is invalid.
    pub offsets: [f64; 32],
    convention: Offsets,
    capacity: usize,
    /// For FECs that the geometry does not list.
    nowhere: Box<Fec>,
    /// What decodes the words of a frame.
    decode: Decode,
    instructions: Instructions,
}

type Decode = fn(&Facts, FrameWords<'_>, usize, &mut State, &mut Output<'_>);

/// Where the words of a frame go.
struct Output<'a> {
    tally: &'a mut Counts,
    progress: &'a mut Progress,
    hits: &'a mut Vec<FineHit>,
    /// Filled by [`listed`] only.
    rows: &'a mut StripHits,
}

/// The reader of one worker.
pub(super) struct GemReader {
    sheet: Arc<Sheet>,
    tally: Counts,
    book: Book,
    facts: Facts,
    fecs: [Option<Box<State>>; FECS],
    zeros: Zeros,
    progress: Progress,
    /// Hits that may still be read.
    left: Option<u64>,
    arrivals: Arrivals,
    /// What the clock was when trains came, by the last marker of their first frame.
    readings: Readings,
    /// Smallest amplitude of all channels, where a command has set it.
    threshold: Option<u16>,
}

impl GemReader {
    /// `options` have been checked.
    pub fn new(layout: Arc<Layout>, options: &Options) -> GemReader {
        let usual = layout.rules.usual_offsets();
        let convention = options.convention().ok().flatten().unwrap_or(usual);
        let period = layout.clock.offset_period;
        let offset =
            |raw| convention.periods(raw).map_or(f64::NEG_INFINITY, |n| f64::from(n) * period);
        let triggers = options.triggered() == Ok(true);
        let decode: Decode = match (layout.rules, options.marker_check()) {
            _ if triggers => triggered,
            (ClockRules::Offline, false) => offline::offline::<false>,
            (ClockRules::Offline, true) => offline::offline::<true>,
            (ClockRules::Online, false) => online::online::<false>,
            (ClockRules::Online, true) => online::online::<true>,
        };
        let signed = if convention == Offsets::Signed { period } else { 0.0 };
        let relative = if triggers { 4096.0 * layout.clock.period } else { 0.0 };
        let margin = signed + layout.earliest + relative;
        let inputs = layout.inputs();
        let progress = Progress::new(&inputs, options.horizon(), margin, options.late_frames());
        let mut lines = GdGemCount::catalogue();
        let book = Book::new(&NUMBERING, &mut lines);
        GemReader {
            sheet: Sheet::new(lines),
            tally: Counts::default(),
            book,
            facts: Facts {
                capacity: options.capacity(layout.rules),
                layout,
                offsets: std::array::from_fn(offset),
                convention,
                nowhere: Fec::new(),
                decode,
                instructions: Instructions::default(),
            },
            fecs: Default::default(),
            zeros: Zeros::new(options.zeros().unwrap_or_default(), triggers),
            progress,
            left: options.most_hits(),
            arrivals: Arrivals::default(),
            readings: Readings::default(),
            threshold: None,
        }
    }

    /// Uses these instructions.
    pub fn with(mut self, instructions: Instructions) -> GemReader {
        self.facts.instructions = instructions;
        self
    }

    /// Reads a frame with `decode`.
    fn frame(
        &mut self,
        bytes: &[u8],
        decode: Decode,
        hits: &mut Vec<FineHit>,
        rows: &mut StripHits,
    ) -> Result<(), GdGemRefusal> {
        let (header, words) = packet::frame(bytes)?;
        let fec = usize::from(header.fec);
        let words = self.limited(words);
        if self.zeros.wait_for_first() {
            self.first_of_run(fec, FrameWords::of(bytes, words), hits);
        }
        let state = match &mut self.fecs[fec] {
            Some(state) => state,
            empty => empty.insert(new_state(self.zeros.of(fec))),
        };
        let steps = state.frames.step(header.counter);
        if steps.missing > 0 || steps.backwards {
            self.progress.missed(fec);
        }
        self.tally.add(GdGemCount::MissingErrors, u64::from(steps.missing));
        self.tally.add(GdGemCount::SeqErrors, u64::from(steps.backwards));
        self.tally.add(GdGemCount::CounterOverflows, u64::from(steps.overflow));
        state.frames.series.observe_at(header.counter.into(), &self.arrivals, &mut self.book);

        let (tally, progress) = (&mut self.tally, &mut self.progress);
        let mut output = Output { tally, progress, hits: &mut *hits, rows };
        let data = output.tally.get(GdGemCount::Data);
        decode(&self.facts, FrameWords::of(bytes, words), fec, state, &mut output);
        let data = output.tally.get(GdGemCount::Data).wrapping_sub(data);
        output.tally.add(GdGemCount::AllMarkers, (words as u64).wrapping_sub(data));
        self.progress.end_frame(fec, hits);
        Ok(())
    }

    fn publish(&mut self) {
        self.tally.flush(&self.sheet);
        self.book.flush(&self.sheet);
    }

    /// How many words of a frame are read.
    fn limited(&mut self, words: &[[u8; packet::WORD_BYTES]]) -> usize {
        let (mut words, skipped) = packet::within(words, self.facts.capacity);
        self.tally.add(GdGemCount::ErrorBytes, (skipped.len() * packet::WORD_BYTES) as u64);
        self.tally.add(GdGemCount::Readouts, words.len() as u64);
        if let Some(left) = &mut self.left {
            let (read, beyond) =
                packet::within(words, usize::try_from(*left).unwrap_or(usize::MAX));
            self.tally.add(GdGemCount::Skipped, beyond.len() as u64);
            *left -= read.iter().filter(|raw| raw[4] >> 7 == 1).count() as u64;
            words = read;
        }
        words.len()
    }

    /// Looks for the first hit of the run that has a time, of whatever VMM. Once it is there, the times of all VMMs that wait for it
    /// begin, and with them their promises.
    #[cold]
    fn first_of_run(&mut self, fec: usize, words: FrameWords<'_>, rows: &mut Vec<FineHit>) {
        let before = self.fecs[fec].as_deref();
        let Some(first) = self.zeros.look(&self.facts, words, before) else { return };
        for (fec, vmm) in self.zeros.begin(first) {
            let Some(state) = &mut self.fecs[fec] else { continue };
            state.zero[vmm] = first;
            if self.progress.heard(fec, vmm, state.base[vmm] - first) {
                self.tally.add(GdGemCount::ClockRestarts, 1);
                rows.push(RESTART);
            }
        }
    }
}

#[cold]
fn new_state(zero: [f64; 2 * VMMS]) -> Box<State> {
    Box::new(State {
        frames: Frames::new(),
        markers: [0; VMMS],
        base: [f64::NEG_INFINITY; 2 * VMMS],
        zero,
        checks: [MarkerCheck::default(); VMMS],
        triggers: [Trigger::default(); VMMS],
    })
}

impl Trigger {
    /// ns; ∞ where none has come.
    pub fn relative_ns(&self, period: f64) -> f64 {
        self.relative.map_or(f64::INFINITY, |count| count as f64 * period)
    }
}

/// Marker and offset less what is subtracted, ns; −∞ where one of them is missing.
#[inline]
fn srs(state: &State, offsets: &[f64; 32], vmm: usize, word: Word) -> f64 {
    state.base[vmm] + offsets[word.offset()] - state.zero[vmm]
}

impl Facts {
    fn fec(&self, fec: usize) -> &Fec {
        self.layout.fecs[fec].as_deref().unwrap_or(&self.nowhere)
    }

    /// A marker outside triggered firmware. True if time began anew.
    fn marker(
        &self,
        word: Word,
        fec: usize,
        state: &mut State,
        tally: &mut Counts,
        progress: &mut Progress,
    ) -> bool {
        let (vmm, time) = (word.marker_vmm(), word.marker_time());
        let Some(stored) = state.markers.get_mut(vmm) else {
            tally.add(GdGemCount::BadMarker, 1);
            return false;
        };
        tally.add(GdGemCount::Markers, 1);
        match marker_step(*stored, time) {
            MarkerStep::Forward => {}
            MarkerStep::Backwards => tally.add(GdGemCount::SeqTime, 1),
            MarkerStep::Anew => tally.add(GdGemCount::TimeOverflows, 1),
        }
        *stored = time;
        // The online chain takes a marker of 0 for none.
        let none = time == 0 && self.layout.rules == ClockRules::Online;
        state.base[vmm] =
            if none { f64::NEG_INFINITY } else { time as f64 * self.layout.clock.marker };
        let restart = progress.heard(fec, vmm, state.base[vmm] - state.zero[vmm]);
        tally.add(GdGemCount::ClockRestarts, u64::from(restart));
        restart
    }

    /// Why a hit has no time.
    #[cold]
    fn untimed(&self, word: Word) -> GdGemCount {
        GdGemCount::untimed(word, self.convention)
    }

    /// The lost-marker check of the old firmware, over the words of a frame before they are read.
    fn check(&self, words: FrameWords<'_>, state: &mut State, tally: &mut Counts) {
        let step = (32.0 * self.layout.clock.offset_period / 25.0) as u64;
        let mut markers = state.markers;
        for word in words {
            let hit = word.is_hit();
            let vmm = if hit { word.vmm() } else { word.marker_vmm() };
            let (Some(marker), Some(check)) = (markers.get_mut(vmm), state.checks.get_mut(vmm))
            else {
                continue;
            };
            if hit {
                let lost = check.hit(word.offset(), *marker, step);
                tally.add(GdGemCount::LostMarkers, u64::from(lost));
            } else {
                *marker = word.marker_time();
                check.marker(*marker);
            }
        }
    }
}

/// Words of a frame, one by one, so that each accepted hit can be listed with the word that it was.
fn listed(
    facts: &Facts,
    mut words: FrameWords<'_>,
    number: usize,
    state: &mut State,
    output: &mut Output<'_>,
) {
    while let Some((word, alone)) = words.split_next() {
        let before = output.hits.len();
        (facts.decode)(facts, alone, number, state, output);
        // A marker can leave a row as well, which is no hit.
        let Some(hit) = output.hits.get(before).filter(|_| word.is_hit()) else { continue };
        let lane = facts.layout.lanes[usize::from(hit.lane)];
        let detector = facts.layout.detectors[lane.detector].id;
        let trigger = state.triggers.get(word.vmm()).map_or(0, |t| t.counter);
        // 4 bits.
        let from = (word, number as u8);
        output.rows.push(tables::strip_hit(hit, from, lane, detector, trigger));
    }
}

/// Words of a frame of triggered firmware.
fn triggered(
    facts: &Facts,
    words: FrameWords<'_>,
    number: usize,
    state: &mut State,
    output: &mut Output<'_>,
) {
    let fec = facts.fec(number);
    let clock: &TimeTables = &facts.layout.clock;
    let Output { tally, progress, hits, .. } = output;
    for word in words {
        if !word.is_hit() {
            let (count, restart) = trigger_marker(facts, word, number, state, tally, progress);
            tally.add(count, 1);
            if restart {
                hits.push(RESTART);
            }
            continue;
        }
        let (vmm, over) = (word.vmm(), word.over_threshold());
        tally.add(GdGemCount::Data, 1);
        tally.add(GdGemCount::OverThreshold, u64::from(over));
        let trigger = state.triggers.get(vmm).copied().unwrap_or_default();
        let relative = trigger.relative_ns(clock.period);
        let srs = state.base[vmm] + facts.offsets[word.offset()] - relative;
        if srs == f64::NEG_INFINITY || vmm >= VMMS {
            tally.add(facts.untimed(word), 1);
            continue;
        }
        let channel = word.vmm_and_channel();
        let place = fec.places[channel];
        let srs = srs - state.zero[vmm];
        let (adc, time) = match fec.corrections.as_deref() {
            None => offline::as_measured(word, clock, srs),
            Some(c) => c.hit(word.vmm_flag_and_channel(), word, clock, srs),
        };
        let key = match offline::verdict(place, word, adc, time) {
            Ok(key) => key,
            Err(reason) => {
                tally.add(reason, 1);
                continue;
            }
        };
        tally.add(GdGemCount::Good, 1);
        hits.push(FineHit {
            time: key,
            coordinate: place.coordinate,
            second: place.second,
            weight: adc,
            lane: place.lane,
            // Pads join hits of one trigger: its counter modulo 128 tells neighbours in time apart.
            flags: u8::from(over) | (trigger.counter as u8) << 1,
        });
    }
}

/// A marker of triggered firmware: how it is counted, and whether time began anew.
fn trigger_marker(
    facts: &Facts,
    word: Word,
    fec: usize,
    state: &mut State,
    tally: &mut Counts,
    progress: &mut Progress,
) -> (GdGemCount, bool) {
    let vmm = word.marker_vmm();
    if vmm < VMMS {
        let relative = word.marker_time();
        if relative > packet::MOST_RELATIVE {
            return (GdGemCount::BadMarker, false);
        }
        state.triggers[vmm].relative = Some(relative);
        return (GdGemCount::Markers, false);
    }
    let vmm = vmm - VMMS;
    if let Some(counter) = word.event_counter() {
        state.triggers[vmm].counter = counter + 1;
        return (GdGemCount::EndMarkers, false);
    }
    let time = word.marker_time();
    match marker_step(std::mem::replace(&mut state.markers[vmm], time), time) {
        MarkerStep::Forward => {}
        MarkerStep::Backwards => tally.add(GdGemCount::SeqTime, 1),
        MarkerStep::Anew => tally.add(GdGemCount::TimeOverflows, 1),
    }
    state.base[vmm] = time as f64 * facts.layout.clock.marker;
    let restart = progress.heard(fec, vmm, state.base[vmm] - state.zero[vmm]);
    tally.add(GdGemCount::ClockRestarts, u64::from(restart));
    (GdGemCount::TriggerMarkers, restart)
}

impl GemReader {
    /// The run has ended: what is missing is lost.
    fn end_all(&mut self) {
        for state in self.fecs.iter_mut().flatten() {
            state.frames.series.finish(None, &mut self.book);
        }
        self.publish();
    }

    /// Somebody else may have had packets: what is missing is lost, and each stream begins with whatever comes next.
    fn begin_anew(&mut self) {
        for state in self.fecs.iter_mut().flatten() {
            state.frames.begin_anew(&mut self.book);
        }
        self.publish();
    }
}

impl Reader for GemReader {
    type Hit = FineHit;

    fn read(&mut self, batch: &Batch, hits: &mut Vec<FineHit>, products: &mut Products) {
        let decode = if products.want.strip_hits { listed } else { self.facts.decode };
        self.arrivals.begin();
        self.readings.begin();
        for (at, train) in batch.trains().enumerate() {
            self.arrivals.train(batch, at, &train);
            let mut shows = at % EACH == 0;
            for bytes in train.chunks() {
                self.tally.add(GdGemCount::Packets, 1);
                match self.frame(bytes, decode, hits, &mut products.strip_hits) {
                    Ok(()) => self.tally.add(GdGemCount::Accepted, 1),
                    Err(refusal) => {
                        self.tally.add(GdGemCount::of(refusal), 1);
                        self.tally.add(GdGemCount::BadFrames, 1);
                        self.tally.add(GdGemCount::ErrorBytes, bytes.len() as u64);
                    }
                }
                if std::mem::take(&mut shows)
                    && let Some((ns, anew)) = self.progress.latest()
                {
                    self.readings.note(ns, train.time_ns);
                    if anew {
                        self.readings.began_anew();
                    }
                }
            }
        }
        self.publish();
    }

    fn readings(&mut self) -> Option<&mut Readings> {
        Some(&mut self.readings)
    }

    fn flush(&mut self, reason: Flush) {
        match reason {
            Flush::Taken => self.begin_anew(),
            Flush::End => self.end_all(),
            Flush::Stalled => {}
        }
    }

    fn modules(&self, tell: &mut dyn FnMut(SeenModule)) {
        for (id, state) in (0..).zip(&self.fecs) {
            let Some(state) = state else { continue };
            let totals = state.frames.series.tracker().totals();
            let (packets, lost) = (totals.received, totals.lost);
            tell(SeenModule { origin: Origin::NONE, id, packets, lost });
        }
    }

    fn commands(&self) -> Vec<CommandInfo> {
        asked::commands()
    }

    fn command(&mut self, name: &str, arguments: &[&str]) -> Result<String, CommandError> {
        if name == asked::CALIBRATION {
            return asked::calibration(&self.facts.layout, arguments);
        }
        match thresholds::read(name, arguments)? {
            Threshold::Get => Ok(thresholds::told("hits", self.threshold)),
            Threshold::Set("hits", value) => {
                self.threshold = Some(value);
                Arc::make_mut(&mut self.facts.layout).set_threshold(value);
                Ok(String::new())
            }
            Threshold::Set(other, _) => Err(thresholds::unknown(other, "hits")),
        }
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}
