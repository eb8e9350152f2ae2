//! Every packet and every heap in the ledger: one rejection, one variant, one counter.
//!
//! Source: `docs/contracts.md`, "Ledger"; `docs/formats/spead.md`, sections 8 and 18.

use crate::wire::Malformed;

fullcount_core::counters! {
    /// What a receive stream counts.
    pub enum SpeadCounter {
        Packets "spead.packets" Packets Sum "spead" In "SPEAD packets, those inside of merged datagrams one by one" "";
        Accepted "spead.accepted" Packets Sum "spead" Accepted "packets whose payload went into a heap" "";
        Short "spead.malformed.short" Packets Sum "spead" Rejected "datagrams shorter than a header" "look at who sends to this port";
        NotSpead "spead.malformed.magic" Packets Sum "spead" Rejected "wrong magic or version" "look at who sends to this port";
        Widths "spead.malformed.widths" Packets Sum "spead" Rejected "widths of id and address that do not make 64 bits" "the sender's flavour is none of SPEAD-64";
        Pointers "spead.malformed.pointers" Packets Sum "spead" Rejected "item pointers beyond the end" "a cut packet: look at MTU and capture length";
        Missing "spead.malformed.missing" Packets Sum "spead" Rejected "no heap number, payload offset or payload length" "the sender is at fault";
        Payload "spead.malformed.payload" Packets Sum "spead" Rejected "payload beyond the end" "a cut packet: look at MTU and capture length";
        BeyondHeap "spead.malformed.beyond_heap" Packets Sum "spead" Rejected "payload beyond the heap's length" "the sender is at fault";
        Trailing "spead.malformed.trailing" Packets Sum "spead" Rejected "datagrams with bytes behind their packet" "allow merged datagrams (split_merged), or look at the sender";
        Unsized "spead.refused.unsized" Packets Sum "spead" Dropped(Unknown) "no heap length where one is needed" "allow heaps without a length";
        NoBeginning "spead.refused.no_beginning" Packets Sum "spead" Rejected "in-order mode: middle of a heap whose beginning is not there" "allow packets out of order";
        OutOfOrder "spead.refused.out_of_order" Packets Sum "spead" Rejected "in-order mode: not the next packet of its heap" "allow packets out of order";
        Duplicate "spead.refused.duplicate" Packets Sum "spead" Rejected "payload that was there" "a few: copies of redundant links; many: two senders use the same heap numbers";
        Overlap "spead.refused.overlap" Packets Sum "spead" Rejected "payload that was there in part" "two senders use the same heap numbers";
        DuplicateHeap "spead.refused.duplicate_heap" Packets Sum "spead" Rejected "packets of a heap that was whole" "a few: copies of redundant links; many: two senders use the same heap numbers";
        Late "spead.refused.late" Packets Sum "spead" Rejected "packets of a heap that was given up" "make max_heaps or the heap timeout larger";
        LengthMismatch "spead.refused.length_mismatch" Packets Sum "spead" Rejected "another heap length than that of the heap's other packets" "two senders use the same heap numbers";
        LengthTooSmall "spead.refused.length_too_small" Packets Sum "spead" Rejected "a heap length below what was seen of the heap" "two senders use the same heap numbers";
        FlavourMismatch "spead.refused.flavour" Packets Sum "spead" Rejected "another flavour than that of the heap's first packet" "two senders use the same heap numbers";
        HeapTooLarge "spead.refused.heap_too_large" Packets Sum "spead" Dropped(Unknown) "heaps above max_heap_bytes" "raise max_heap_bytes if such heaps are meant";
        NoMemory "spead.refused.no_memory" Packets Sum "spead" Dropped(Unknown) "no memory for the heap within max_live_bytes" "raise max_live_bytes (in a URL max_live) or lower max_heaps";
        TooManyItems "spead.refused.too_many_items" Packets Sum "spead" Dropped(Unknown) "item pointers of one heap above max_items" "raise max_items if such heaps are meant";
        TooManyRanges "spead.refused.too_many_ranges" Packets Sum "spead" Rejected "a heap in more pieces than max_ranges" "raise max_ranges, or look for heavy loss";
        Stopped "spead.refused.stopped" Packets Sum "spead" Rejected "packets after the end of the stream" "the sender goes on behind its stop heap: start the receiver again for the next stream";
        Empty "spead.empty_datagrams" Times Sum "spead" Note "datagrams without a byte" "";
        Merged "spead.merged_datagrams" Times Sum "spead" Note "datagrams that held several packets, as a capture on a sending host shows them" "";
        Reordered "spead.reordered" Packets Sum "spead" Reordered "packets that came behind a later one of their heap" "";
        RingFull "spead.ring_full" Times Sum "spead" Note "times that packets had to wait because as many finished heaps as the ring holds waited for their consumer" "raise ring_heaps, or look at the consumer: it is slower than the sender";
        Discarded "spead.discarded" Packets Sum "spead" Note "accepted packets whose heap a chunk receiver threw away" "";
        PayloadBytes "spead.payload_bytes" Bytes Sum "spead" Note "payload of accepted packets" "";
        PacketBytes "spead.packet_bytes" Bytes Sum "spead" Note "SPEAD bytes of packets that passed decoding" "";
        Heaps "spead.heaps" Messages Sum "spead.heaps" In "heaps that began" "";
        Complete "spead.heaps.complete" Messages Sum "spead.heaps" Accepted "heaps with every byte" "";
        Contiguous "spead.heaps.unsized" Messages Sum "spead.heaps" Accepted "heaps without a length, handed over as far as they came" "";
        Control "spead.heaps.stop" Messages Sum "spead.heaps" Accepted "stop heaps, which nobody gets" "";
        Incomplete "spead.heaps.incomplete" Messages Sum "spead.heaps" Dropped(Unknown) "heaps with missing bytes" "lower the rate, enlarge socket buffers, or ask for packets again";
        Live "spead.heaps.live" Messages Sum "spead.heaps" Queued "heaps that are not finished" "";
        TimedOut "spead.heaps.timed_out" Messages Sum "spead.heaps" Note "heaps given up because no packet came for them" "";
        Stalls "spead.stalls" Times Sum "spead.heaps" Note "times that no packet came for the stall timeout" "look at the sender and the link";
        LostHeaps "spead.lost.heaps" Messages Sum "spead.heaps" Missing(Unknown) "heaps of which no packet came, by their numbers or the sender's count; without both that is unknown, and 0 here" "lower the rate or enlarge socket buffers";
        LostBytes "spead.lost.bytes" Bytes Sum "spead.heaps" Missing(Unknown) "payload bytes missing in incomplete heaps of known length" "lower the rate or enlarge socket buffers";
        LostPackets "spead.lost.packets" Packets Sum "spead.heaps" Missing(Unknown) "packets missing in incomplete heaps, by packet_payload: exact if the item pointers of a heap fit into its first packet or the sender has a fixed payload, else the least number; without it unknown, and 0 here" "lower the rate or enlarge socket buffers";
        RestBytes "spead.lost.rest_bytes" Bytes Sum "spead.heaps" Missing(Unknown) "payload bytes of heaps of which no packet came or whose length is not known, by the sender's totals; without these that is unknown, and 0 here" "lower the rate or enlarge socket buffers";
        RestPackets "spead.lost.rest_packets" Packets Sum "spead.heaps" Missing(Unknown) "lost packets that are not among spead.lost.packets, by the sender's totals; without these that is unknown, and 0 here" "lower the rate or enlarge socket buffers";
    }
}

/// Why a packet went into no heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refused {
    /// No packet at all.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Bytes behind the packet.
    #[error("{0} B behind the packet")]
    Trailing(usize),
    /// No heap length.
    #[error("no heap length")]
    Unsized,
    /// In-order mode: the heap's beginning is not there.
    #[error("the heap's beginning is not there")]
    NoBeginning,
    /// In-order mode: not the next one.
    #[error("payload at {found} instead of {wanted}")]
    OutOfOrder {
        /// Bytes that are there.
        wanted: u64,
        /// Offset of the packet.
        found: u64,
    },
    /// The payload is there.
    #[error("the payload is there")]
    Duplicate,
    /// Some of the payload is there.
    #[error("some of the payload is there")]
    Overlap,
    /// The heap was finished, whole.
    #[error("the heap was finished")]
    DuplicateHeap,
    /// The heap was given up.
    #[error("the heap was given up")]
    Late,
    /// Two lengths for one heap.
    #[error("heap length {found} B instead of {wanted} B")]
    LengthMismatch {
        /// That of the heap.
        wanted: u64,
        /// That of the packet.
        found: u64,
    },
    /// The length is below what was seen.
    #[error("heap length {found} B is below {seen} B, which were seen")]
    LengthTooSmall {
        /// Largest address or end of payload.
        seen: u64,
        /// That of the packet.
        found: u64,
    },
    /// Two flavours for one heap.
    #[error("another flavour than the heap's")]
    FlavourMismatch,
    /// Above `max_heap_bytes`.
    #[error("heap of {0} B is above max_heap_bytes")]
    HeapTooLarge(u64),
    /// Above `max_live_bytes`, or the system has none.
    #[error("no memory for a heap of {0} B")]
    NoMemory(u64),
    /// Above `max_items`.
    #[error("more item pointers than max_items")]
    TooManyItems,
    /// Above `max_ranges`.
    #[error("the heap lies in more pieces than max_ranges")]
    TooManyRanges,
    /// The stream has ended.
    #[error("the stream has ended")]
    Stopped,
}

impl From<Refused> for SpeadCounter {
    fn from(refused: Refused) -> SpeadCounter {
        match refused {
            Refused::Malformed(malformed) => match malformed {
                Malformed::Short(_) => SpeadCounter::Short,
                Malformed::NotSpead(..) => SpeadCounter::NotSpead,
                Malformed::Widths(..) => SpeadCounter::Widths,
                Malformed::Pointers { .. } => SpeadCounter::Pointers,
                Malformed::Missing(_) => SpeadCounter::Missing,
                Malformed::Payload { .. } => SpeadCounter::Payload,
                Malformed::BeyondHeap { .. } => SpeadCounter::BeyondHeap,
            },
            Refused::Trailing(_) => SpeadCounter::Trailing,
            Refused::Unsized => SpeadCounter::Unsized,
            Refused::NoBeginning => SpeadCounter::NoBeginning,
            Refused::OutOfOrder { .. } => SpeadCounter::OutOfOrder,
            Refused::Duplicate => SpeadCounter::Duplicate,
            Refused::Overlap => SpeadCounter::Overlap,
            Refused::DuplicateHeap => SpeadCounter::DuplicateHeap,
            Refused::Late => SpeadCounter::Late,
            Refused::LengthMismatch { .. } => SpeadCounter::LengthMismatch,
            Refused::LengthTooSmall { .. } => SpeadCounter::LengthTooSmall,
            Refused::FlavourMismatch => SpeadCounter::FlavourMismatch,
            Refused::HeapTooLarge(_) => SpeadCounter::HeapTooLarge,
            Refused::NoMemory(_) => SpeadCounter::NoMemory,
            Refused::TooManyItems => SpeadCounter::TooManyItems,
            Refused::TooManyRanges => SpeadCounter::TooManyRanges,
            Refused::Stopped => SpeadCounter::Stopped,
        }
    }
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its payload is in a heap.
    Accepted,
    /// Counted, and nothing else.
    Refused(Refused),
    /// The ring is full: take heaps out and give the packet again.
    Full,
}
