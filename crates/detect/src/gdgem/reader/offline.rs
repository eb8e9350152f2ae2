//! Words of a frame as vmm-sdat takes them: the loop that each hit goes through, with a calibration or without.
//!
//! Refuses hits by VMM, offset, marker, channel and amplitude, each with its counter. Source: `docs/formats/gdgem.md` section 14.2.

use crate::hits::FineHit;

use super::super::clock::TimeTables;
use super::super::counters::{Counts, GdGemCount};
use super::super::layout::{OVER_LEAST, Place};
use super::super::packet::{FrameWords, Word};
use super::super::progress::{Progress, RESTART};
use super::{Facts, Output, State, srs};

/// Words of a frame as vmm-sdat takes them.
pub(super) fn offline<const CHECK: bool>(
    facts: &Facts,
    words: FrameWords<'_>,
    number: usize,
    state: &mut State,
    output: &mut Output<'_>,
) {
    if CHECK {
        facts.check(words, state, output.tally);
    }
    let (from, clock) = ((facts, number), &facts.layout.clock);
    match facts.fec(number).corrections.as_deref() {
        None => read(from, words, |_, word, srs| as_measured(word, clock, srs), state, output),
        Some(c) => read(from, words, |n, word, srs| c.hit(n, word, clock, srs), state, output),
    }
}

/// Amplitude and time after `srs` (marker and offset), ns, of a hit without calibration.
#[inline]
pub(super) fn as_measured(word: Word, clock: &TimeTables, srs: f64) -> (u16, f64) {
    let chip = f64::from(word.bcid()) * clock.period + clock.tdc[usize::from(word.tdc())];
    (word.adc(), srs + chip)
}

/// `correct` makes an amplitude and a time of a hit: of [`Word::vmm_flag_and_channel`], the word, and its time of marker and offset.
#[inline(always)]
fn read(
    (facts, number): (&Facts, usize),
    words: FrameWords<'_>,
    correct: impl Fn(usize, Word, f64) -> (u16, f64),
    state: &mut State,
    output: &mut Output<'_>,
) {
    let fec = facts.fec(number);
    let Output { tally, progress, hits, .. } = output;
    // Each word becomes one row at most: rows are written into their places, and what is left over is cut off.
    let start = hits.len();
    hits.resize(start + words.len(), FineHit::default());
    let mut rows = hits[start..].iter_mut();
    let (mut markers, mut restarts, mut over_threshold) = (0, 0, 0);
    let all = rows.len();
    for word in words {
        if !word.is_hit() {
            markers += 1;
            if marker(facts, word, number, state, (tally, progress))
                && let Some(row) = rows.next()
            {
                (*row, restarts) = (RESTART, restarts + 1);
            }
            continue;
        }
        let channel = word.vmm_flag_and_channel();
        let end = fec.ends[channel];
        over_threshold += end >> 56;
        let srs = srs(state, &facts.offsets, channel >> 7, word);
        let (adc, time) = correct(channel, word, srs);
        // What the key of a time is that is neither negative nor infinite, as it is without a marker.
        let mut key = time.to_bits() as i64;
        // The amplitude that is asked for depends on the flag, which is 0 or 1 as chance has it: a branch on it would cost more than all
        // the rest of a hit.
        if adc < (end >> 32) as u16 || key as u64 >= INFINITE {
            let place = fec.places[word.vmm_and_channel()];
            match closer_look(facts, place, word, adc, (srs, time)) {
                Ok(used) => key = used,
                Err(reason) => {
                    tally.add(reason, 1);
                    continue;
                }
            }
        }
        let Some(row) = rows.next() else { break };
        *row = FineHit {
            time: key,
            coordinate: end as u16,
            second: (end >> 16) as u16,
            weight: adc,
            lane: (end >> 48) as u8,
            flags: (end >> 56) as u8,
        };
    }
    let filled = all - rows.len();
    hits.truncate(start + filled);
    tally.add(GdGemCount::Data, all as u64 - markers);
    tally.add(GdGemCount::OverThreshold, over_threshold);
    tally.add(GdGemCount::Good, filled as u64 - restarts);
}

/// Bits of ∞: those of numbers that are positive and finite are below.
const INFINITE: u64 = f64::INFINITY.to_bits();

/// A marker among plain hits. Not inlined: what a hit needs then stays in registers.
#[inline(never)]
fn marker(
    facts: &Facts,
    word: Word,
    number: usize,
    state: &mut State,
    (tally, progress): (&mut Counts, &mut Progress),
) -> bool {
    facts.marker(word, number, state, tally, progress)
}

/// A hit that is no plain one: its time as a key if it is used all the same, or why it is not.
#[cold]
#[inline(never)]
fn closer_look(
    facts: &Facts,
    place: Place,
    word: Word,
    adc: u16,
    (srs, time): (f64, f64),
) -> Result<i64, GdGemCount> {
    if srs == f64::NEG_INFINITY {
        return Err(facts.untimed(word));
    }
    verdict(place, word, adc, time)
}

/// Time of a hit as a key if vmm-sdat uses it, or why it does not.
#[inline]
pub(super) fn verdict(place: Place, word: Word, adc: u16, time: f64) -> Result<i64, GdGemCount> {
    let over = word.over_threshold();
    if place.lane == Place::OUTSIDE {
        Err(GdGemCount::OutsideRegion)
    } else if !place.is_used() {
        Err(GdGemCount::BadPlane)
    } else if (word.tdc() == 0 && adc == 0) || (over && adc < OVER_LEAST) || !time.is_finite() {
        // A wrong calibration can make a time that is no number.
        Err(GdGemCount::Invalid)
    } else if !over && adc < place.threshold {
        Err(GdGemCount::BadAdc)
    } else {
        Ok(FineHit::key(time))
    }
}
