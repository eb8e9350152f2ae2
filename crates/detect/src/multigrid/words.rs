//! Mesytec VMMR data words: one sub-buffer becomes readouts with one time.
//!
//! Refuses a sub-buffer whole at an unknown word, at a block that claims more words than there are, and
//! without a time; an extended time before that word stays, as the format says. Source:
//! `docs/formats/multigrid.md` section 3.

use super::container::ContainerWord;

/// Why a sub-buffer was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordError {
    /// A block's header counts more words than are left.
    HeaderWords,
    /// Word type 5 to 11.
    WordType,
    /// No end of event, so no time.
    NoTimestamp,
}

impl WordError {
    /// Word for counters and `inspect`.
    pub fn reason(self) -> &'static str {
        match self {
            WordError::HeaderWords => "header_words",
            WordError::WordType => "word_type",
            WordError::NoTimestamp => "no_timestamp",
        }
    }
}

/// A sub-buffer that was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bad {
    /// Rule that it broke.
    pub error: WordError,
    /// Bytes given up.
    pub discarded: usize,
}

/// A sub-buffer with a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Good {
    /// Ticks of 62.5 ns, 46 bits (62 if the high part is made up).
    pub time: i64,
    /// True if the high part is smaller than that of the good sub-buffer before.
    pub fell: bool,
}

/// What takes the entries of a sub-buffer, in the order of its words.
pub trait Take {
    /// A readout: its word (bus in bits 27..24, channel in 23..12, ADC in 11..0) and time difference.
    fn readout(&mut self, word: u32, time_diff: u16);
    /// An external trigger, told by its block's header word.
    fn pulse(&mut self, word: u32);
}

/// External trigger bit of a block's header.
const EXTERNAL: u32 = 1 << 24;
/// Bits of the low part of a time.
pub const LOW_BITS: u32 = 30;
const LOW_MASK: u32 = (1 << LOW_BITS) - 1;

/// A sub-buffer of the usual shape: all types are known but those of the body.
#[derive(Debug, Clone, Copy)]
pub struct Usual<'a> {
    extended: u32,
    /// Readouts and fill words, or it is not of the usual shape after all.
    pub body: &'a [ContainerWord],
    end: u32,
}

/// The high part of the time, carried from sub-buffer to sub-buffer.
#[derive(Debug, Clone, Copy, Default)]
pub struct HighTime {
    high: u32,
    previous_low: u32,
    /// High part of the last good sub-buffer.
    last: u32,
    spoof: bool,
    /// Ticks in which nothing came before the next sub-buffer; 0: the low part alone tells.
    silence: i64,
}

/// Ticks of a turn of the low part: 67.1 s.
const TURN: i64 = 1 << LOW_BITS;
/// A tick is 62.5 ns: two are 125 ns.
const TWO_TICKS_NS: i64 = 125;

impl HighTime {
    /// `spoof`: made up from the low part instead of read.
    pub fn new(spoof: bool) -> HighTime {
        HighTime { spoof, ..HighTime::default() }
    }

    /// Nothing came for this long, by the times at which packets were received: of more than half a turn, whole ones are added
    /// where the high part is made up.
    pub fn silent(&mut self, ns: i64) {
        let ticks = ns.saturating_mul(2) / TWO_TICKS_NS;
        if self.spoof && ticks > TURN / 2 {
            self.silence = ticks;
        }
    }

    /// Turns between the sub-buffer before a silence and this one: the number that brings both clocks nearest to each other.
    #[cold]
    fn turns(&mut self, low: u32) -> u32 {
        let gone = i64::from(low) - i64::from(self.previous_low);
        let turns = (std::mem::take(&mut self.silence) - gone + TURN / 2).div_euclid(TURN);
        u32::try_from(turns.max(i64::from(gone < 0))).unwrap_or(0)
    }

    /// Decodes one sub-buffer. What `take` got counts only if the result is good.
    ///
    /// # Errors
    /// The rule that the sub-buffer breaks.
    #[inline]
    pub fn decode(&mut self, data: &[ContainerWord], take: &mut impl Take) -> Result<Good, Bad> {
        let n = data.len();
        let bad = |error, words: usize| Err(Bad { error, discarded: 4 * words });
        let mut low = None;
        let mut time_diff = 0;
        for (k, word) in data.iter().enumerate() {
            let word = u32::from_le_bytes(*word);
            match word >> 28 {
                0x1 => take.readout(word, time_diff),
                0x4 => {
                    if word & EXTERNAL != 0 {
                        take.pulse(word);
                    }
                    if (word & 0x3ff) as usize > n - k {
                        return bad(WordError::HeaderWords, n - k);
                    }
                }
                0x2 => {
                    if !self.spoof {
                        self.high = word & 0xffff;
                    }
                }
                0xc..=0xf => low = Some(word & LOW_MASK),
                0x0 => {}
                0x3 => time_diff = word as u16,
                _ => return bad(WordError::WordType, n - k),
            }
        }
        let Some(low) = low else { return bad(WordError::NoTimestamp, n) };
        Ok(self.time(low))
    }

    /// Takes the parts of a sub-buffer of the usual shape: header without external trigger, extended time,
    /// readouts and fill words, end; `None`, and nothing done, for any other.
    #[inline]
    pub fn usual<'a>(&self, data: &'a [ContainerWord]) -> Option<Usual<'a>> {
        let [head, extended, body @ .., end] = data else { return None };
        let [head, extended, end] = [head, extended, end].map(|w| u32::from_le_bytes(*w));
        let header = head >> 24 & 0xf1 == 0x40 && (head & 0x3ff) as usize <= data.len();
        (header && extended >> 28 == 2 && end >> 30 == 3).then_some(Usual { extended, body, end })
    }

    /// The time of a sub-buffer of the usual shape, whose body proved to be good.
    #[inline]
    pub fn usual_time(&mut self, usual: &Usual) -> Good {
        if !self.spoof {
            self.high = usual.extended & 0xffff;
        }
        self.time(usual.end & LOW_MASK)
    }

    /// Forms the time of a good sub-buffer.
    #[inline]
    fn time(&mut self, low: u32) -> Good {
        if self.spoof {
            if self.silence != 0 {
                self.high = self.high.wrapping_add(self.turns(low));
            } else if low < self.previous_low {
                // Wraps after 9,000 years of 67 s turns.
                self.high = self.high.wrapping_add(1);
            }
            self.previous_low = low;
        }
        let fell = self.high < self.last;
        self.last = self.high;
        Good { time: i64::from(self.high) << LOW_BITS | i64::from(low), fell }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Seen {
        readouts: Vec<(u32, u16)>,
        pulses: usize,
    }

    impl Take for Seen {
        fn readout(&mut self, word: u32, time_diff: u16) {
            self.readouts.push((word & 0xfff_ffff, time_diff));
        }
        fn pulse(&mut self, _: u32) {
            self.pulses += 1;
        }
    }

    fn decode(high: &mut HighTime, words: &[u32]) -> (Result<Good, Bad>, Seen) {
        let data: Vec<ContainerWord> = words.iter().map(|w| w.to_le_bytes()).collect();
        let mut seen = Seen::default();
        (high.decode(&data, &mut seen), seen)
    }

    fn time(high: &mut HighTime, words: &[u32]) -> i64 {
        decode(high, words).0.unwrap().time
    }

    #[test]
    fn the_last_time_holds_and_time_differences_stay() {
        let words = [
            0x4500_0007,
            0x2000_0002,
            0x3200_0009,
            0x1100_1005,
            0xc000_0001,
            0x1110_2006,
            0xffff_ffff,
        ];
        let (good, seen) = decode(&mut HighTime::new(false), &words);
        assert_eq!(good.unwrap().time, (2 << 30) + 0x3fff_ffff);
        assert_eq!(seen, Seen { readouts: vec![(0x0100_1005, 9), (0x0110_2006, 9)], pulses: 1 });
    }

    #[test]
    fn each_rule_drops_the_rest_and_the_high_time_stays() {
        let mut high = HighTime::new(false);
        let end = 0xc000_0000;
        for (words, error, discarded) in [
            (&[0x2000_0003, 0x4000_0003, end][..], WordError::HeaderWords, 8),
            (&[0x2000_0004, 0x5000_0000, end], WordError::WordType, 8),
            (&[0x2000_0005, 0xb000_0000], WordError::WordType, 4),
            (&[0x2000_0006, 0], WordError::NoTimestamp, 8),
            (&[], WordError::NoTimestamp, 0),
        ] {
            assert_eq!(decode(&mut high, words).0, Err(Bad { error, discarded }));
        }
        // One word short passes.
        assert_eq!(time(&mut high, &[0x4000_0002, end]), 6 << 30);
    }

    #[test]
    fn a_spoofed_high_time_counts_turns_of_good_sub_buffers_only() {
        let mut high = HighTime::new(true);
        assert_eq!(time(&mut high, &[0x2000_0009, 0xc000_0064]), 100, "the sent one is ignored");
        assert!(decode(&mut high, &[0xc000_0001, 0x5000_0000]).0.is_err());
        assert_eq!(time(&mut high, &[0xc000_0064]), 100, "equal is no turn");
        assert_eq!(time(&mut high, &[0xc000_0063]), (1 << 30) + 99);
    }

    #[test]
    fn turns_in_a_silence_follow_from_the_times_of_receiving() {
        // 10 s of the low part, 62.5 ns each.
        let at = |seconds: i64| (seconds * 16_000_000) as u32 & LOW_MASK;
        for (first, silence) in [
            (10, 34),
            (10, 60),
            (10, 67),
            (10, 68),
            (60, 10),
            (60, 40),
            (60, 134),
            (1, 1000),
            (66, 100_000),
        ] {
            let mut high = HighTime::new(true);
            let before = time(&mut high, &[0xc000_0000 | at(first)]);
            // Both clocks differ by 100 ppm, and packets come a little late.
            let ns = silence * 1_000_100_000 + 3_000_000;
            high.silent(ns);
            let after = time(&mut high, &[0xc000_0000 | at(first + silence)]);
            let want = silence * 16_000_000;
            assert_eq!(after - before, want, "{first} {silence}");
        }
        let mut high = HighTime::new(false);
        assert_eq!(time(&mut high, &[0x2000_0001, 0xc000_0000]), 1 << 30);
        high.silent(1_000_000_000_000);
        assert_eq!(
            time(&mut high, &[0x2000_0001, 0xc000_0007]),
            (1 << 30) + 7,
            "sent, not made up"
        );
    }

    #[test]
    fn a_high_time_that_falls_is_told_once() {
        let mut high = HighTime::new(false);
        let mut fell =
            |value: u32| decode(&mut high, &[0x2000_0000 | value, 0xc000_0000]).0.unwrap().fell;
        assert_eq!([5, 6, 2, 2, 3].map(&mut fell), [false, false, true, false, false]);
    }
}
