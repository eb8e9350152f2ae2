//! How soon the sources of a destination `stcp` saw that they had to hold: counts by length, of fixed size, and the longest.
//!
//! Nothing is allocated and a value costs a few instructions, since the thread that measures is the one that sends. A share of the
//! values is given as the upper end of its bucket: at most 1/32 too long, and never too short.

/// Buckets of each power of two, which bounds the error of a share.
const PARTS: usize = 32;
/// Bits of [`PARTS`].
const BITS: u32 = PARTS.trailing_zeros();
/// Values of 2⁴⁰ ns and above, 18 minutes, are in the last bucket.
const LONGEST: u32 = 40;
/// Values below [`PARTS`] have a bucket each, then come the powers of two.
const BUCKETS: usize = PARTS * (LONGEST - BITS + 1) as usize;

/// Delays, ns.
#[derive(Debug)]
pub(super) struct SignalDelays {
    counts: [u64; BUCKETS],
    seen: u64,
    most_ns: u64,
}

impl Default for SignalDelays {
    fn default() -> SignalDelays {
        SignalDelays { counts: [0; BUCKETS], seen: 0, most_ns: 0 }
    }
}

fn bucket(ns: u64) -> usize {
    let power = ns.max(1).ilog2();
    if power < BITS {
        return ns as usize;
    }
    // The leading bit says which power of two, the bits behind it which part of that.
    let part = (ns >> (power - BITS)) as usize - PARTS;
    (PARTS * (power - BITS + 1) as usize + part).min(BUCKETS - 1)
}

/// The greatest value of a bucket, but of the last one.
fn end(bucket: usize) -> u64 {
    match bucket.checked_sub(PARTS) {
        None => bucket as u64,
        Some(above) => {
            let (power, part) = (above / PARTS, above % PARTS);
            (((PARTS + part + 1) as u64) << power) - 1
        }
    }
}

impl SignalDelays {
    /// One more.
    pub fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.seen += 1;
        self.most_ns = self.most_ns.max(ns);
    }

    /// How many there are.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The longest, ns; 0 without any.
    pub fn most_ns(&self) -> u64 {
        self.most_ns
    }

    /// What `percent` of them did not exceed, ns; 0 without any.
    pub fn share_ns(&self, percent: u64) -> u64 {
        let wanted = (self.seen * percent).div_ceil(100).max(1);
        let mut below = 0;
        let found = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        match found {
            Some(last) if last == BUCKETS - 1 => self.most_ns,
            Some(bucket) => end(bucket).min(self.most_ns),
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_bucket_that_ends_at_most_a_thirty_second_above_it() {
        let mut last = 0;
        for ns in (0..1 << 12).chain((12..LONGEST).flat_map(|p| {
            let power = 1u64 << p;
            [power - 1, power, power + power / 3, 2 * power - 1]
        })) {
            let at = bucket(ns);
            assert!(at >= last && at < BUCKETS, "{ns}");
            assert!((ns..=ns + ns / 32).contains(&end(at)), "{ns}: {}", end(at));
            last = at;
        }
        assert_eq!((last, bucket(u64::MAX)), (BUCKETS - 1, BUCKETS - 1));
    }

    #[test]
    fn shares_are_those_of_the_values() {
        let mut delays = SignalDelays::default();
        assert_eq!((delays.share_ns(50), delays.most_ns(), delays.seen()), (0, 0, 0));
        delays.add(0);
        assert_eq!((delays.share_ns(99), delays.seen()), (0, 1));
        let mut delays = SignalDelays::default();
        (1..=1000u64).rev().for_each(|us| delays.add(us * 1000));
        assert_eq!((delays.seen(), delays.most_ns()), (1000, 1_000_000));
        assert!((500_000..=516_000).contains(&delays.share_ns(50)), "{}", delays.share_ns(50));
        assert!((990_000..=1_000_000).contains(&delays.share_ns(99)), "{}", delays.share_ns(99));
        assert_eq!(delays.share_ns(100), 1_000_000);
        // Longer than all buckets: the longest is told as it was.
        delays.add(1 << 50);
        assert_eq!(delays.share_ns(100), 1 << 50);
    }
}
