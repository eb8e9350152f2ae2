//! Calibration of the offline chain as tables, so that a hit needs neither a power nor a conversion of its amplitude.
//!
//! A time walk is a power for each hit: with it a reader made 38 to 41 M hits/s where it makes 310 M without a calibration. A raw
//! amplitude has 1,024 values, so each different correction becomes a table of corrected amplitude and time walk at start: 10 KiB. The
//! results are those of [`Calibration`] bit for bit. Source: `docs/formats/gdgem.md` sections 5 and 14.2.

use std::collections::HashMap;

use super::clock::{Calibration, TimeTables};
use super::layout::{CHANNELS, VMMS};
use super::packet::Word;

/// Amplitudes, raw and corrected: 0 to 1023.
const AMPLITUDES: usize = 1024;

/// Corrected amplitude, 2 bytes, and time walk in ns, 8 bytes, little-endian. Without gaps, so that most are one line of the
/// cache and those of four VMMs are 2.5 MB, not 4.
type Entry = [u8; 10];

/// What a channel's hits are corrected with.
#[derive(Debug, Clone, Copy)]
struct Factors {
    time_offset: f64,
    time_slope: f64,
    /// Where its table begins in [`Corrections::entries`].
    table: usize,
}

/// Corrections of all channels of one FEC.
#[derive(Debug, Clone)]
pub(super) struct Corrections {
    /// By [`Word::vmm_flag_and_channel`], so that a hit needs one index; VMMs above 15 have no time and are not used.
    factors: [Factors; 4 * VMMS * CHANNELS],
    /// Tables by raw amplitude, one behind the other; each different one once, so at most as many as channels.
    entries: Vec<Entry>,
}

impl Corrections {
    /// Computes the tables.
    pub fn of(calibrations: &[Calibration; VMMS * CHANNELS]) -> Box<Corrections> {
        let (mut entries, mut known) = (Vec::new(), HashMap::new());
        let factors = calibrations.map(|c| {
            let [a, b, c2, d] = c.walk;
            // By their bits: −0 and 0 may differ in a result.
            let key = [c.adc_offset, c.adc_slope, a, b, c2, d].map(f32::to_bits);
            let table = *known.entry(key).or_insert_with(|| {
                entries.extend((0..AMPLITUDES as u16).map(|adc| entry(&c, adc)));
                entries.len() - AMPLITUDES
            });
            let [time_offset, time_slope] = [c.time_offset, c.time_slope].map(f64::from);
            Factors { time_offset, time_slope, table }
        });
        let of = |n: usize| factors[n / (2 * CHANNELS) % VMMS * CHANNELS + n % CHANNELS];
        Box::new(Corrections { factors: std::array::from_fn(of), entries })
    }

    /// Corrected amplitude, 0 to 1023, and time after `srs` (marker and offset), ns, of a hit; `channel` is its
    /// [`Word::vmm_flag_and_channel`].
    #[inline]
    pub fn hit(&self, channel: usize, word: Word, clock: &TimeTables, srs: f64) -> (u16, f64) {
        let f = &self.factors[channel];
        let entry = &self.entries[f.table + usize::from(word.adc())];
        let [a, b, walk @ ..] = *entry;
        let tdc = clock.tdc[usize::from(word.tdc())];
        let chip = f64::from(word.bcid()) * clock.period + (tdc - f.time_offset) * f.time_slope;
        (u16::from_le_bytes([a, b]), srs + chip - f64::from_le_bytes(walk))
    }
}

/// What a raw amplitude becomes.
fn entry(c: &Calibration, raw: u16) -> Entry {
    let adc = c.adc_offline(raw);
    let mut entry = Entry::default();
    entry[..2].copy_from_slice(&adc.to_le_bytes());
    entry[2..].copy_from_slice(&c.walk(adc).to_le_bytes());
    entry
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A hit word of a VMM, a channel, an amplitude and a TDC.
    fn word(channel: usize, adc: u16, tdc: u8) -> Word {
        let (vmm, channel) = ((channel / CHANNELS) as u64, (channel % CHANNELS) as u64);
        let bits = vmm << 38 | u64::from(adc) << 28 | 0x5a5 << 16 | 1 << 15 | channel << 8;
        let [_, _, raw @ ..] = (bits | u64::from(tdc)).to_be_bytes();
        Word::read(&raw)
    }

    /// As the formulas stand in the format document.
    fn formula(c: &Calibration, word: Word, clock: &TimeTables, srs: f64) -> (u16, f64) {
        let adc = (f64::from(word.adc()) - f64::from(c.adc_offset)) * f64::from(c.adc_slope);
        let adc = (adc as u16).min(1023);
        let chip = clock.chip(word.bcid(), word.tdc(), c.time_offset, c.time_slope);
        (adc, srs + chip - c.walk(adc))
    }

    fn same(calibrations: &[Calibration; VMMS * CHANNELS], channel: usize, tdc: u8, srs: f64) {
        let (corrections, clock) =
            (Corrections::of(calibrations), TimeTables::offline(44.444, 60.0));
        for adc in 0..1024 {
            let word = word(channel, adc, tdc);
            assert_eq!(word.vmm_and_channel(), channel);
            let (wanted, time) = formula(&calibrations[channel], word, &clock, srs);
            let (adc, ours) = corrections.hit(word.vmm_flag_and_channel(), word, &clock, srs);
            let equal = time.to_bits() == ours.to_bits() || time.is_nan() && ours.is_nan();
            assert!(adc == wanted && equal, "{word:?}: {adc} {ours}, not {wanted} {time}");
        }
    }

    #[test]
    fn amplitudes_stay_within_their_range() {
        let c = Calibration { adc_offset: 100.0, adc_slope: 2.5, ..Calibration::NONE };
        let (all, clock) = ([c; VMMS * CHANNELS], TimeTables::offline(44.444, 60.0));
        let corrections = Corrections::of(&all);
        let corrected = |adc| corrections.hit(0, word(0, adc, 0), &clock, 0.0).0;
        assert_eq!([50, 101, 1000].map(corrected), [0, 2, 1023]);
    }

    #[test]
    fn each_different_correction_has_one_table() {
        let mut all = [Calibration::NONE; VMMS * CHANNELS];
        all[5].walk = [40.0, 2.0, 100.0, 10.0];
        all[900].walk = all[5].walk;
        all[6].walk = [-0.0, 1.0, 1.0, 0.0];
        let corrections = Corrections::of(&all);
        assert_eq!(corrections.entries.len(), 3 * AMPLITUDES);
        assert_eq!(corrections.entries[AMPLITUDES + 100], entry(&all[5], 100));
        assert_eq!(all[5].walk(100), 25.0);
        same(&all, 900, 17, 1e9);
    }

    fn number() -> impl Strategy<Value = f32> {
        prop_oneof![-3f32..3.0, -1500f32..1500.0, -1e9f32..1e9, Just(0.0), Just(-0.0), Just(1.0)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// All amplitudes of a channel with any numbers that a file may hold.
        #[test]
        fn any_calibration_gives_the_formulas_bit_for_bit(
            adc in (number(), number()), time in (number(), number()), walk in proptest::array::uniform4(number()),
            channel in 0..VMMS * CHANNELS, tdc in any::<u8>(), srs in prop_oneof![0f64..1e15, Just(f64::NEG_INFINITY)],
        ) {
            let mut all = [Calibration::NONE; VMMS * CHANNELS];
            let ((adc_offset, adc_slope), (time_offset, time_slope)) = (adc, time);
            all[channel] = Calibration { adc_offset, adc_slope, time_offset, time_slope, walk };
            same(&all, channel, tdc, srs);
        }
    }
}
