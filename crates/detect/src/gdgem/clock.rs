//! From marker, offset, BCID and TDC to nanoseconds, as the online chain and as vmm-sdat do it.
//!
//! Tables are made at start; the formulas are those of `docs/formats/gdgem.md` section 4, evaluated in doubles in
//! the order in which they are written there.

/// Which of the two published chains is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockRules {
    /// Event formation of the Gd-GEM detector: sections 5 to 12.
    Online,
    /// vmm-sdat: section 14.
    Offline,
}

impl ClockRules {
    /// Meaning of the offset where the configuration does not say it.
    pub fn usual_offsets(self) -> Offsets {
        match self {
            ClockRules::Offline => Offsets::Signed,
            ClockRules::Online => Offsets::Unsigned,
        }
    }
}

/// What the 5 bits of the offset say (section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offsets {
    /// Old firmware: 0 to 31.
    Unsigned,
    /// New firmware: −1 to 15; the rest is invalid.
    Signed,
}

impl Offsets {
    /// Periods after the marker; `None` where the raw value is invalid.
    pub fn periods(self, raw: usize) -> Option<i32> {
        match (self, raw) {
            (Offsets::Unsigned, raw) => Some(raw as i32),
            (Offsets::Signed, 31) => Some(-1),
            (Offsets::Signed, 0..=15) => Some(raw as i32),
            (Offsets::Signed, _) => None,
        }
    }
}

/// Calibration of one channel; the default changes nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// ADC counts.
    pub adc_offset: f32,
    /// Factor on the amplitude.
    pub adc_slope: f32,
    /// ns.
    pub time_offset: f32,
    /// Factor on the time within a clock.
    pub time_slope: f32,
    /// Time walk a, b, c, d: ns, exponent, ADC counts, ns.
    pub walk: [f32; 4],
}

impl Calibration {
    /// Changes nothing.
    pub const NONE: Calibration = Calibration {
        adc_offset: 0.0,
        adc_slope: 1.0,
        time_offset: 0.0,
        time_slope: 1.0,
        walk: [0.0, 1.0, 1.0, 0.0],
    };

    /// Corrected amplitude, vmm-sdat.
    pub fn adc_offline(&self, adc: u16) -> u16 {
        let corrected = (f64::from(adc) - f64::from(self.adc_offset)) * f64::from(self.adc_slope);
        // A conversion from a float truncates and stays within the type.
        (corrected as u16).min(1023)
    }

    /// Corrected amplitude, online chain.
    #[inline(always)]
    pub fn adc_online(&self, adc: u16) -> u16 {
        ((f32::from(adc) - self.adc_offset) * self.adc_slope) as u16
    }

    /// Time walk at a corrected amplitude, ns.
    pub fn walk(&self, adc: u16) -> f64 {
        let [a, b, c, d] = self.walk;
        if a == d {
            return f64::from(d);
        }
        let ratio = f64::from(f32::from(adc) / c);
        f64::from(d) + f64::from(a - d) / (1.0 + ratio.powf(f64::from(b)))
    }
}

/// Tables of a clock and a TAC slope.
#[derive(Debug, Clone)]
pub struct TimeTables {
    /// ns per bunch crossing.
    pub period: f64,
    /// ns per count of a marker.
    pub marker: f64,
    /// ns per offset period of 4096 bunch crossings.
    pub offset_period: f64,
    /// ns from the start of the bunch crossing, before calibration, by TDC.
    pub tdc: [f64; 256],
}

impl TimeTables {
    /// vmm-sdat: `-bc` in MHz, `-tac` in ns (section 4.1).
    pub fn offline(bc: f64, tac: f64) -> TimeTables {
        let (period, offset_period) = if (44.4..=44.5).contains(&bc) {
            (22.5, 4096.0 * 22.5)
        } else if (44.0..=44.1).contains(&bc) {
            (22.713_721_9, 4096.0 * 22.713_721_9)
        } else {
            (1000.0 / bc, 4096.0 * 25.0)
        };
        let tdc = std::array::from_fn(|tdc| 1.5 * period - tdc as f64 * tac / 255.0);
        TimeTables { period, marker: period, offset_period, tdc }
    }

    /// Online chain: `bc_clock` in MHz, `tac_slope` in ns; `published` divides in integers and takes
    /// 25 ns per marker count whatever the clock is.
    pub fn online(bc: f64, tac: f64, published: bool) -> TimeTables {
        let period = if published { (1000.0 / bc).trunc() } else { 1000.0 / bc };
        let marker = if published { 25.0 } else { period };
        let tdc = std::array::from_fn(|tdc| period - tdc as f64 * tac / 255.0);
        TimeTables { period, marker, offset_period: 4096.0 * period, tdc }
    }

    /// Offline: ns after marker and offset.
    #[inline(always)]
    pub fn chip(&self, bcid: u16, tdc: u8, time_offset: f32, time_slope: f32) -> f64 {
        f64::from(bcid) * self.period
            + (self.tdc[usize::from(tdc)] - f64::from(time_offset)) * f64::from(time_slope)
    }

    /// Online: chip time as it is stored, ns.
    #[inline(always)]
    pub fn chip_online(&self, bcid: u16, tdc: u8, time_offset: f32, time_slope: f32) -> f32 {
        self.chip(bcid, tdc, time_offset, time_slope) as f32
    }

    /// How far before marker and offset a hit of a channel can lie, ns.
    pub fn earliest(&self, calibration: &Calibration) -> f64 {
        let at = |bcid, tdc| self.chip(bcid, tdc, calibration.time_offset, calibration.time_slope);
        let walk = f64::from(calibration.walk[0].abs()) + f64::from(calibration.walk[3].abs());
        let ends = [at(0, 0), at(0, 255), at(4095, 0), at(4095, 255)];
        (walk - ends.into_iter().fold(0.0, f64::min)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_near_44_mhz_are_those_of_the_electronics() {
        let period = |bc: f64| TimeTables::offline(bc, 60.0).period;
        assert_eq!([44.444, 44.02, 40.0, 20.0].map(period), [22.5, 22.713_721_9, 25.0, 50.0]);
        assert_eq!(TimeTables::offline(20.0, 60.0).offset_period, 102_400.0);
        assert_eq!(TimeTables::offline(44.444, 60.0).offset_period, 92_160.0);
        assert_eq!(TimeTables::online(44.0, 60.0, true).period, 22.0);
    }

    #[test]
    fn offsets_of_both_firmwares() {
        let signed = |raw| Offsets::Signed.periods(raw);
        assert_eq!(
            [0, 15, 16, 17, 30, 31].map(signed),
            [Some(0), Some(15), None, None, None, Some(-1)]
        );
        assert_eq!(
            [0, 16, 31].map(|raw| Offsets::Unsigned.periods(raw)),
            [Some(0), Some(16), Some(31)]
        );
    }

    #[test]
    fn amplitudes_stay_within_their_range() {
        let c = Calibration { adc_offset: 100.0, adc_slope: 2.5, ..Calibration::NONE };
        assert_eq!([50, 101, 1000].map(|adc| c.adc_online(adc)), [0, 2, 2250]);
    }

    #[test]
    fn the_default_calibration_has_no_walk() {
        assert_eq!(Calibration::NONE.walk(500), 0.0);
        let c = Calibration { walk: [40.0, 2.0, 100.0, 10.0], ..Calibration::NONE };
        assert_eq!([c.walk(0), c.walk(100)], [40.0, 25.0]);
    }
}
