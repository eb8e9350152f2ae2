//! Payload that a byte stream reads to where it belongs, before the headers between are known.
//!
//! On a byte stream packets of a heap come back to back, so where the next payloads lie in the heap is known beforehand. The
//! driver reads headers aside and payloads into the heap's memory in one call, then shows each header. Memory that was filled for
//! a packet that turns out to be another one is not the heap's: nothing of it is ever shown. Source: `docs/formats/spead.md`,
//! sections 8.1 to 8.4 and 9.2.

use super::HeapReceiver;
use crate::wire::PREFIX_BYTES;

/// Packets that should come next.
#[derive(Debug)]
pub struct AheadRoom<'a> {
    /// Payload of each, bytes. Before it stand [`PREFIX_BYTES`] bytes of header and pointers.
    pub step: usize,
    /// Where the payloads belong, one behind the other: one or more.
    pub payload: &'a mut [u8],
}

impl HeapReceiver {
    /// Room for the packets that should come next with at most `most` bytes of payload in all. `None`: that is not known, or the heap's
    /// memory was never written, or finished heaps must be taken out first.
    pub fn ahead(&mut self, most: usize) -> Option<AheadRoom<'_>> {
        let (offset, step, packets) = self.follower.expected()?;
        if self.is_blocked() {
            return None;
        }
        let (offset, step) = (usize::try_from(offset).ok()?, usize::try_from(step).ok()?);
        let packets = usize::try_from(packets).ok()?.min(most / step);
        let heap = self.heaps[self.last].as_mut()?;
        let room = heap.place.beyond(offset, packets.checked_mul(step)?)?;
        let whole = room.len() / step * step;
        (whole > 0).then_some(AheadRoom { step, payload: &mut room[..whole] })
    }

    /// A packet came whose payload is at the beginning of [`HeapReceiver::ahead`]. False: its first bytes are those of another packet,
    /// and nothing has changed.
    #[inline]
    pub fn take_ahead(&mut self, now_ns: u64, head: &[u8; PREFIX_BYTES]) -> bool {
        let Some((offset, step, _)) = self.follower.expected() else { return false };
        let at = self.last;
        let Some(heap) = self.heaps[at].as_mut().filter(|_| self.follower.is_head(head)) else {
            return false;
        };
        heap.place.filled_to((offset + step) as usize);
        self.has_followed(at, step, now_ns);
        true
    }
}

#[cfg(test)]
#[path = "ahead_tests.rs"]
mod tests;
