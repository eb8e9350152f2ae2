//! Words of a frame as the online chain takes them: the loop that each hit goes through.
//!
//! Times are cut to whole nanoseconds, which is one instruction from x86-64-v3 on and a call of the mathematical library without
//! it: 237 against 144 M hits/s read. So the loop is compiled for the instructions at hand, chosen once per frame. Refuses hits by
//! VMM, offset, marker, channel and amplitude, each with its counter. Source: `docs/formats/gdgem.md` sections 2 to 7.

use crate::hits::FineHit;
use fullcount_instructions::{Set, Work};

use super::super::clock::{Calibration, TimeTables};
use super::super::counters::GdGemCount;
use super::super::layout::Place;
use super::super::packet::FrameWords;
use super::super::progress::RESTART;
use super::{Facts, Output, State, srs};

/// Words of a frame as the online chain takes them.
pub(super) fn online<const CHECK: bool>(
    facts: &Facts,
    words: FrameWords<'_>,
    number: usize,
    state: &mut State,
    output: &mut Output<'_>,
) {
    if CHECK {
        facts.check(words, state, output.tally);
    }
    facts.instructions.run(Hits { facts, words, number, state, output });
}

/// The words of a frame of FEC `number`.
struct Hits<'a, 'b> {
    facts: &'a Facts,
    words: FrameWords<'a>,
    number: usize,
    state: &'a mut State,
    output: &'a mut Output<'b>,
}

impl Work for Hits<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Set>(self, _: S) {
        let Hits { facts, words, number, state, output } = self;
        let fec = facts.fec(number);
        let clock: &TimeTables = &facts.layout.clock;
        let calibrations = fec.calibrations.as_deref();
        let Output { tally, progress, hits, .. } = output;
        hits.reserve(words.len() + 1);
        for word in words {
            if !word.is_hit() {
                if facts.marker(word, number, state, tally, progress) {
                    hits.push(RESTART);
                }
                continue;
            }
            let over = word.over_threshold();
            tally.add(GdGemCount::Data, 1);
            tally.add(GdGemCount::OverThreshold, u64::from(over));
            let srs = srs(state, &facts.offsets, word.vmm(), word);
            if srs == f64::NEG_INFINITY {
                tally.add(facts.untimed(word), 1);
                continue;
            }
            let channel = word.vmm_and_channel();
            let place = fec.places[channel];
            let c = calibrations.map_or(&Calibration::NONE, |all| &all[channel]);
            let adc = if calibrations.is_some() { c.adc_online(word.adc()) } else { word.adc() };
            let chip = clock.chip_online(word.bcid(), word.tdc(), c.time_offset, c.time_slope);
            let count = match place.lane {
                Place::UNMAPPED => GdGemCount::BadPlane,
                Place::NO_STRIP => GdGemCount::BadGeometry,
                _ if adc == 0 || (!over && adc < place.threshold) => GdGemCount::BadAdc,
                Place::OUTSIDE => GdGemCount::OutsideRegion,
                lane => {
                    hits.push(FineHit {
                        time: FineHit::key(srs.trunc() + f64::from(chip).trunc()),
                        coordinate: place.coordinate,
                        second: 0,
                        weight: adc,
                        lane,
                        flags: u8::from(over),
                    });
                    GdGemCount::Good
                }
            };
            tally.add(count, 1);
        }
    }
}
