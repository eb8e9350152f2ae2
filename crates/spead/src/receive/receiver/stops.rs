//! Control items: a sender that begins, or stops, and what that means for numbers of heaps that are remembered.
//!
//! A stop that does not end the stream (`stop_on_stop_item` off, or more `stops` to come) may be followed at once by a sender that begins
//! again with its numbers; spead2's sends no start item. So finished heaps are forgotten at a stop, those of other senders of the stream
//! too: nobody knows which were whose. The price is small, and paid only by what is on its way at that moment: a late copy starts a
//! heap that `heap_timeout_ns` ends, or comes twice if it was a heap of one packet. Without it the heaps of a whole second are refused.
//! Stop heaps stay remembered, for a copy of one would count as another sender's and end the stream too early.
//! Source: `docs/formats/spead.md`, sections 6 and 8.6.

use super::super::counters::{Refused, SpeadCounter as C};
use super::super::live::Arrival;
use super::super::recent::PastHeap;
use super::super::store::Store;
use super::{StreamEnd, StreamReceiver};
use crate::wire::{SpeadPacket, control, id};

/// One of its items is this control item.
fn says(packet: &SpeadPacket<'_>, value: u64) -> bool {
    let wanted = packet.flavour.immediate(id::STREAM_CTRL, value);
    packet.items().any(|pointer| pointer == wanted)
}

impl<S: Store> StreamReceiver<S> {
    /// Refuses a packet that would begin a heap which has ended not long ago.
    pub(super) fn look_back(
        &mut self,
        now_ns: u64,
        packet: &SpeadPacket<'_>,
    ) -> Result<(), Refused> {
        match self.recent.ended(packet.heap_cnt, packet.flavour, now_ns) {
            None => Ok(()),
            Some(PastHeap::Whole) => Err(Refused::DuplicateHeap),
            Some(PastHeap::GivenUp) => Err(Refused::Late),
            // A sender that has begun again may have more heaps than the first time.
            Some(PastHeap::Stop) if !says(packet, control::STOP) => Ok(()),
            Some(PastHeap::Stop) => {
                // A copy, or the stop of a sender that has begun again: then it may do so once more.
                self.recent.forget_heaps();
                Err(Refused::DuplicateHeap)
            }
        }
    }

    /// The heap's packet has a control item.
    #[cold]
    pub(super) fn controlled(
        &mut self,
        at: usize,
        now_ns: u64,
        packet: &SpeadPacket<'_>,
        complete: bool,
    ) {
        if says(packet, control::START) {
            // A sender begins, perhaps with numbers that another one has used.
            self.recent.clear();
        }
        let stop = says(packet, control::STOP);
        if stop {
            self.recent.forget_heaps();
        }
        if !(stop && self.config.stop_on_stop_item) {
            if complete {
                self.finish(at, Arrival::Complete, now_ns);
            }
            return;
        }
        self.stops += 1;
        // A stop heap of several packets ends the stream with its first: it is nobody's loss. spead2, which remembers no ended
        // heaps, gives it as an incomplete one.
        let last = self.stops >= self.config.stops && self.config.remember_ns > 0;
        if (complete || last)
            && let Some(heap) = self.remove(at)
        {
            let (place, mut end) = heap.end(Arrival::Complete);
            self.recent.add(&end, now_ns, true);
            self.tally.add(C::Control, 1);
            // It is nobody's: the store gets its place back without a heap.
            end.contiguous = false;
            end.pointers.clear();
            self.store.discard(place, end);
        }
        if self.stops >= self.config.stops {
            self.end(StreamEnd::StopItem, now_ns);
        }
    }
}
