//! A row of events at once: its extent, and its offsets on the lines of an era.
//!
//! Compiled for several sets of instructions: without AVX2 a minimum of u32 takes six instructions for four values. At 230 million
//! events a second (10 Gb/s) the portable extents took 20 % of a receiving thread. A row of a detector
//! without pulses is a second long, so that its pulse is often on an earlier line than all its events: their times one by one, in
//! 128 bits, took more than a thread has. Source: `docs/time.md`.

use fullcount_instructions::{Instructions, Portable, Set, Work};

use super::line::{ClockLine, Era};

/// Largest offset of an event after its pulse, ns: a column of 31 bits.
pub(super) const MOST_OFFSET: i64 = i32::MAX as i64;

/// Least and most of offsets; 0 and 0 of none.
pub(super) struct Extent<'a>(pub &'a [u32]);

impl Work for Extent<'_> {
    type Output = (u32, u32);

    #[inline(always)]
    fn run<S: Set>(self, _: S) -> (u32, u32) {
        let Some(&first) = self.0.first() else { return (0, 0) };
        let (mut least, mut most) = (first, first);
        for offset in self.0 {
            least = least.min(*offset);
            most = most.max(*offset);
        }
        (least, most)
    }
}

/// Offsets after `pulse` become those of the host's time on one line.
pub(super) struct Stretch<'a> {
    pub line: &'a ClockLine,
    pub pulse: i64,
    /// The host's time of the pulse on this line, less that from which the offsets are to be.
    pub shift: i64,
    pub offsets: &'a mut [u32],
}

impl Work for Stretch<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Set>(self, _: S) {
        let Stretch { line, pulse, shift, offsets } = self;
        let (cut, rate) = (line.cut(pulse), i64::from(line.rate));
        for offset in offsets {
            let ns = i64::from(*offset);
            *offset = (shift + ns + ((cut + ns * rate) >> 32)).clamp(0, MOST_OFFSET) as u32;
        }
    }
}

/// The host's time of `pulse` on a line, less `start`; `None` where 64 bits do not hold what comes of it.
fn shift(line: &ClockLine, pulse: i64, start: i64) -> Option<i64> {
    let near = |ns: i64| ns.unsigned_abs() < 1 << 61;
    let all = [line.from, line.wall, pulse, start].into_iter().all(near);
    all.then(|| line.at(pulse) - start)
}

/// Offsets after `pulse`, with this extent, of events that need not be on its line; the pulse is put at `begun`. The host's time of
/// that.
#[inline(never)]
pub(super) fn over_a_border(
    instructions: Instructions,
    era: &Era,
    (pulse, begun): (i64, i64),
    (least, most): (u32, u32),
    offsets: &mut [u32],
) -> i64 {
    let start = era.at(begun);
    let number = |offset: u32| era.line(pulse.saturating_add(offset.into()));
    let (first, last) = (number(least), number(most));
    if first == last
        && let Some(shift) = shift(&era.lines[first], pulse, start)
    {
        let line = &era.lines[first];
        instructions.run(Stretch { line, pulse, shift, offsets });
        return start;
    }
    let mut line: Option<(usize, i64)> = None;
    for offset in offsets {
        let time = pulse.saturating_add((*offset).into());
        let known = line.filter(|(at, _)| era.is_on(*at, time));
        line = known.or_else(|| {
            let at = era.line(time);
            Some((at, shift(&era.lines[at], pulse, start)?))
        });
        match line {
            Some((at, shift)) => {
                let one = std::slice::from_mut(offset);
                Stretch { line: &era.lines[at], pulse, shift, offsets: one }.run(Portable);
            }
            None => {
                *offset = era.at(time).saturating_sub(start).clamp(0, MOST_OFFSET) as u32;
            }
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_instructions::available;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_set_gives_the_same(
            offsets in prop::collection::vec(0u32..=i32::MAX as u32, 0..100),
            (from, pulse) in (-1i64 << 50..1 << 50, -1i64 << 50..1 << 50),
            rate in -858_993i32..=858_993,
        ) {
            let line = ClockLine { from, wall: 0, rate };
            let least = offsets.iter().copied().min().unwrap_or(0);
            let most = offsets.iter().copied().max().unwrap_or(0);
            let want: Vec<u32> = offsets
                .iter()
                .map(|offset| {
                    let time = line.at(pulse + i64::from(*offset)) - line.at(pulse);
                    time.clamp(0, MOST_OFFSET) as u32
                })
                .collect();
            for set in available() {
                prop_assert_eq!(set.run(Extent(&offsets)), (least, most), "{}", set.name());
                let mut stretched = offsets.clone();
                set.run(Stretch { line: &line, pulse, shift: 0, offsets: &mut stretched });
                prop_assert_eq!(&stretched, &want, "{}", set.name());
            }
        }

        #[test]
        fn offsets_over_borders_are_the_times_of_their_events(
            offsets in prop::collection::vec(prop_oneof![0u32..2000, 0u32..=i32::MAX as u32], 1..60),
            lines in prop::collection::vec((0i64..3000, -5000i64..5000, -858_993i32..=858_993), 1..5),
            (wild, pulse, before) in (prop_oneof![Just(0), any::<i64>()], -1000i64..1000, 0i64..3000),
        ) {
            let mut from = wild;
            let mut all = Vec::new();
            for (length, jump, rate) in lines {
                all.push(ClockLine { from, wall: from.saturating_add(jump), rate });
                from = from.saturating_add(length);
            }
            let mut era = Era::new(0, all[0]);
            era.lines = all;
            let pulse = wild.saturating_add(pulse);
            let begun = pulse.saturating_add(before);
            let start = era.at(begun);
            let at = |offset: &u32| {
                let time = era.at(pulse.saturating_add(i64::from(*offset)));
                time.saturating_sub(start).clamp(0, MOST_OFFSET) as u32
            };
            let want: Vec<u32> = offsets.iter().map(at).collect();
            let ends = (*offsets.iter().min().unwrap(), *offsets.iter().max().unwrap());
            for set in available() {
                let mut made = offsets.clone();
                prop_assert_eq!(over_a_border(set, &era, (pulse, begun), ends, &mut made), start);
                prop_assert_eq!(&made, &want, "{}", set.name());
            }
        }
    }
}
