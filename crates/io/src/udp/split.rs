//! Divides trains into messages that the kernel accepts: pure arithmetic, no socket.
//!
//! A train of any length becomes messages of whole datagrams, at most [`SplitLimits::segments`] and
//! [`SplitLimits::bytes`] each; a train whose stride is above [`SplitLimits::stride`] goes one datagram a
//! message. The kernel refuses a datagram that is too long for UDP.

/// What one message may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitLimits {
    /// Datagrams in a message: 128 on Linux 6.9 and later, 64 before, 1 without offload.
    pub segments: usize,
    /// Payload bytes in a message of several datagrams.
    pub bytes: usize,
    /// Largest datagram that the offload takes: what fits the MTU; 0: none.
    pub stride: usize,
}

impl SplitLimits {
    /// One datagram a message.
    pub const PLAIN: SplitLimits = SplitLimits { segments: 1, bytes: 0, stride: 0 };

    /// Datagrams of `stride` bytes in a message, at least 1.
    #[inline]
    pub fn per_message(&self, stride: usize) -> usize {
        if stride == 0 || stride > self.stride {
            return 1;
        }
        (self.bytes / stride).min(self.segments).max(1)
    }
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub bytes: &'a [u8],
    /// Bytes per datagram, if there are several.
    pub segment: Option<u16>,
    pub packets: usize,
}

/// Iterator over the messages of some trains; cheap to clone, so that unsent messages are tried again from the same
/// place.
#[derive(Debug, Clone)]
pub(super) struct Pieces<'a, I> {
    trains: I,
    rest: Option<(&'a [u8], usize)>,
    pub limits: SplitLimits,
}

impl<'a, I: Iterator<Item = (&'a [u8], usize)>> Pieces<'a, I> {
    pub fn new(trains: I, limits: SplitLimits) -> Self {
        Pieces { trains, rest: None, limits }
    }
}

impl<'a, I: Iterator<Item = (&'a [u8], usize)>> Iterator for Pieces<'a, I> {
    type Item = Piece<'a>;

    #[inline]
    fn next(&mut self) -> Option<Piece<'a>> {
        let (bytes, stride) = match self.rest.take() {
            Some(rest) => rest,
            None => self.trains.next()?,
        };
        if stride == 0 || bytes.len() <= stride {
            return Some(Piece { bytes, segment: None, packets: 1 });
        }
        let per = self.limits.per_message(stride);
        let (head, tail) = bytes.split_at((per * stride).min(bytes.len()));
        if !tail.is_empty() {
            self.rest = Some((tail, stride));
        }
        let packets = head.len().div_ceil(stride);
        let segment = (packets > 1).then_some(stride as u16);
        Some(Piece { bytes: head, segment, packets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GSO: SplitLimits = SplitLimits { segments: 128, bytes: 65_507, stride: 65_507 };

    fn shape(bytes: &[u8], stride: usize, limits: SplitLimits) -> Vec<(usize, Option<u16>, usize)> {
        let pieces = Pieces::new(std::iter::once((bytes, stride)), limits);
        pieces.map(|p| (p.bytes.len(), p.segment, p.packets)).collect()
    }

    #[test]
    fn small_datagrams_end_at_the_segments_and_large_ones_at_the_bytes() {
        let data = vec![0; 9000 * 20];
        assert_eq!(shape(&data[..64 * 130], 64, GSO), [(8192, Some(64), 128), (128, Some(64), 2)]);
        let seven = (7 * 8972, Some(8972), 7);
        assert_eq!(shape(&data[..15 * 8972], 8972, GSO), [seven, seven, (8972, None, 1)]);
    }

    #[test]
    fn single_empty_and_oversized_datagrams_go_alone() {
        assert_eq!(shape(&[], 64, GSO), [(0, None, 1)]);
        assert_eq!(shape(&[0; 65], 0, GSO), [(65, None, 1)]);
        let above_mtu = SplitLimits { stride: 1472, ..GSO };
        assert_eq!(shape(&[0; 3000], 1500, above_mtu), [(1500, None, 1), (1500, None, 1)]);
        assert_eq!(
            shape(&[0; 5], 2, SplitLimits::PLAIN),
            [(2, None, 1), (2, None, 1), (1, None, 1)]
        );
    }

    proptest! {
        #[test]
        fn every_byte_and_datagram_goes_once_in_order(
            len in 0usize..200_000, stride in 0usize..70_000,
            segments in 1usize..200, bytes in 0usize..70_000, most in 0usize..70_000,
        ) {
            let data: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let limits = SplitLimits { segments, bytes, stride: most };
            let trains = std::iter::once((&data[..], stride));
            let (mut all, mut packets) = (Vec::new(), 0);
            for p in Pieces::new(trains, limits) {
                prop_assert!(p.packets == 1 || (p.packets <= segments && p.bytes.len() <= bytes));
                prop_assert!(p.packets == 1 || stride <= most);
                prop_assert_eq!(p.segment.is_some(), p.packets > 1);
                all.extend_from_slice(p.bytes);
                packets += p.packets;
            }
            let expected = if stride == 0 { 1 } else { len.div_ceil(stride).max(1) };
            prop_assert_eq!(packets, expected);
            prop_assert_eq!(all, data);
        }
    }
}
