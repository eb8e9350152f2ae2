//! What a receiver is asked to do. [`ReceiverConfig::default`] is ours, [`ReceiverConfig::spead2`] answers as spead2 does.
//!
//! Refuses values outside their ranges. Source: `docs/formats/spead.md`, sections 8.9 and 18.

use fullcount_core::refusal::{Refusal, refuse};

/// What becomes of a heap that is given up before it is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnIncomplete {
    /// Counted and dropped.
    #[default]
    Drop,
    /// Handed over with its presence map.
    Give,
}

/// The numbers that a sender gives its heaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberSequence {
    /// Of the first heap.
    pub first: u64,
    /// From heap to heap, at least 1.
    pub step: u64,
}

/// Settings of a stream's receiver. Times are ns, sizes bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiverConfig {
    /// Live heaps per substream, 1 to 4096.
    pub max_heaps: usize,
    /// Heap numbers modulo this have windows of their own, 1 to 4096.
    pub substreams: usize,
    /// Packets of a heap may come in any order.
    pub allow_out_of_order: bool,
    /// Heaps may have no length.
    pub allow_unsized_heaps: bool,
    /// A stop item ends the stream.
    pub stop_on_stop_item: bool,
    /// So many stop items end the stream: one for each sender.
    pub stops: u32,
    /// So many readers must have ended before the stream does.
    pub readers: u32,
    /// Several packets in one datagram are taken apart; else such a datagram is refused.
    pub split_merged: bool,
    /// A finished heap's number is remembered so long, so that late copies start no heap; a start item, or a stop that does not end the
    /// stream, forgets them. 0: never.
    pub remember_ns: u64,
    /// How many finished heaps are remembered, 4 to 2^24; never more than half of the numbers that the flavour has.
    pub remember_heaps: usize,
    /// A heap without a new packet for so long is given up. 0: never.
    pub heap_timeout_ns: u64,
    /// Without any packet for so long, all live heaps are given up and the stream counts as stalled. 0: never.
    pub stall_timeout_ns: u64,
    /// A stalled stream has ended.
    pub stall_ends: bool,
    /// What becomes of incomplete heaps.
    pub incomplete: OnIncomplete,
    /// Finished heaps that may wait for their consumer; then no more packets are taken.
    pub ring_heaps: usize,
    /// Longest heap.
    pub max_heap_bytes: u64,
    /// All live heaps together, with what their item pointers and pieces take beyond the first 24 of each heap. Finished heaps that wait for
    /// their consumer may take as much again.
    pub max_live_bytes: u64,
    /// Item pointers of one heap.
    pub max_items: usize,
    /// Pieces that a heap may lie in.
    pub max_ranges: usize,
    /// Numbers of heaps, where the sender's are known: then missing heaps are counted.
    pub sequence: Option<NumberSequence>,
    /// Payload bytes of a full packet, where they are known: then missing packets are counted. Exact if all packets of a heap between its
    /// first and last are full (its item pointers fit into the first, or the sender has a fixed payload), else the least number.
    pub packet_payload: Option<u64>,
}

const SECOND: u64 = 1_000_000_000;

impl Default for ReceiverConfig {
    fn default() -> ReceiverConfig {
        ReceiverConfig {
            max_heaps: 4,
            substreams: 1,
            allow_out_of_order: true,
            allow_unsized_heaps: true,
            stop_on_stop_item: true,
            stops: 1,
            readers: 1,
            split_merged: true,
            remember_ns: SECOND,
            remember_heaps: 1024,
            heap_timeout_ns: 5 * SECOND,
            stall_timeout_ns: 0,
            stall_ends: false,
            incomplete: OnIncomplete::Drop,
            ring_heaps: 64,
            max_heap_bytes: 1 << 30,
            max_live_bytes: 4 << 30,
            max_items: 65_536,
            max_ranges: 16_384,
            sequence: None,
            packet_payload: None,
        }
    }
}

impl ReceiverConfig {
    /// `compat = "spead2"`: every heap and statistic as spead2 gives it, with its defaults.
    ///
    /// What differs from [`ReceiverConfig::default`]: packets in order only, late and repeated packets start heaps, merged
    /// datagrams are refused, no timeouts, a ring of 4 heaps. Limits of memory stay.
    pub fn spead2() -> ReceiverConfig {
        ReceiverConfig {
            allow_out_of_order: false,
            split_merged: false,
            remember_ns: 0,
            heap_timeout_ns: 0,
            ring_heaps: 4,
            ..ReceiverConfig::default()
        }
    }

    /// Looks at every value.
    ///
    /// # Errors
    /// Key, value and range of the first that cannot be.
    pub fn check(&self) -> Result<(), Refusal> {
        let within = |key, value: usize, least: usize, most: usize| match value {
            v if (least..=most).contains(&v) => Ok(()),
            v => Err(refuse(key, v, format!("{least} to {most}"))),
        };
        within("max_heaps", self.max_heaps, 1, 4096)?;
        within("substreams", self.substreams, 1, 4096)?;
        within("max_heaps x substreams", self.max_heaps * self.substreams, 1, 65_536)?;
        within("stops", self.stops as usize, 1, 1 << 20)?;
        within("readers", self.readers as usize, 1, 1 << 20)?;
        within("remember_heaps", self.remember_heaps, 4, 1 << 24)?;
        within("ring_heaps", self.ring_heaps, 1, 1 << 20)?;
        within("max_items", self.max_items, 1, 1 << 24)?;
        within("max_ranges", self.max_ranges, 1, 1 << 24)?;
        if self.max_heap_bytes == 0 || self.max_heap_bytes > 1 << 46 {
            return Err(refuse("max_heap_bytes", self.max_heap_bytes, "1 to 2^46 B"));
        }
        if self.max_live_bytes < self.max_heap_bytes {
            let least = format!("at least max_heap_bytes, {} B", self.max_heap_bytes);
            return Err(refuse("max_live_bytes", self.max_live_bytes, least));
        }
        if self.sequence.is_some_and(|s| s.step == 0) {
            return Err(refuse("sequence.step", 0, "at least 1"));
        }
        if self.packet_payload == Some(0) {
            return Err(refuse("packet_payload", 0, "at least 1 B"));
        }
        Ok(())
    }
}
