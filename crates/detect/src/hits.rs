//! Hits on their way from the first step of a decoder to the second, with rows between them that are borders or pulses.
//!
//! They never leave the decoder.

/// A hit on a plane of a module, on its way from a reader to the builder behind it: 16 bytes, so that the
/// hits of a batch of 64 KiB trains stay in the second-level cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlaneHit {
    /// Time, unwrapped ticks of the detector.
    pub time: i64,
    /// Wire, grid or strip, counted as the format counts it.
    pub coordinate: u16,
    /// Amplitude after rescaling, ADC counts.
    pub weight: u16,
    /// Module or cassette.
    pub module: u16,
    /// Plane within the module, or [`PlaneHit::PULSE`], or [`PlaneHit::BORDER`].
    pub plane: u8,
}

impl PlaneHit {
    /// Plane of a row that is no hit but an external trigger: a pulse.
    pub const PULSE: u8 = 254;
    /// Plane of a row that is no hit but a border: what came before it does not meet what comes after it.
    pub const BORDER: u8 = 255;
}

/// A hit with a time finer than a nanosecond, on its way from a reader to the builder behind it: 16 bytes.
///
/// The time is a double of ns, kept as an integer that sorts like it, because formats that state their times as
/// doubles compare them unrounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FineHit {
    /// [`FineHit::key`] of the time.
    pub time: i64,
    /// Strip, or the column of a pad.
    pub coordinate: u16,
    /// Row of a pad; 0 for strips.
    pub second: u16,
    /// Amplitude after calibration, ADC counts.
    pub weight: u16,
    /// Plane of a detector, in the order of the geometry, or [`FineHit::BORDER`], or [`FineHit::RESTART`].
    pub lane: u8,
    /// Bits that the detector defines.
    pub flags: u8,
}

impl FineHit {
    /// Lane of a row that is no hit: all hits that come later are at or after its time.
    pub const BORDER: u8 = 254;
    /// Lane of a row that is no hit: what came before it does not meet what comes after it.
    pub const RESTART: u8 = 255;

    /// Integer that sorts as `ns` does; `ns` is no NaN.
    #[inline]
    pub fn key(ns: f64) -> i64 {
        // −0 becomes 0, so that equal times have equal keys.
        let bits = (ns + 0.0).to_bits() as i64;
        bits ^ (((bits >> 63) as u64) >> 1) as i64
    }

    /// Time, ns.
    #[inline]
    pub fn ns(&self) -> f64 {
        f64::from_bits((self.time ^ (((self.time >> 63) as u64) >> 1) as i64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_times_sort_as_the_times_do() {
        let times = [-1e300, -2.5, -0.0, 0.0, 1e-300, 0.5, 2_861_631_499_401.533, 1e300];
        let keys = times.map(FineHit::key);
        assert!(keys.is_sorted() && keys[2] == keys[3]);
        for ns in times {
            assert_eq!(FineHit { time: FineHit::key(ns), ..FineHit::default() }.ns(), ns);
        }
    }
}
