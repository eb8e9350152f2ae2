//! What a `heap` reader counts.
//!
//! Hop `decode` balances in datagrams, hop `heaps` in heaps, hop `items` in arrays. The statistics that spead2 keeps stand beside
//! them under spead2's names; those of them that depend on how datagrams come together are asked for by command.
//! Sources: `docs/formats/spead.md`, section 10; `docs/contracts.md`, "Ledger".

use fullcount_spead::receive::Refused;
use fullcount_spead::wire::Malformed;

fullcount_core::counters! {
    /// Lines of a `heap` reader's sheet.
    pub enum HeapCount {
        Packets "decode.packets" Packets Sum "decode" In "datagrams given to the decoder" "";
        Accepted "decode.accepted" Packets Sum "decode" Accepted "datagrams whose payload is in a heap" "";
        Empty "errors.size.empty" Packets Sum "decode" Rejected "datagrams without a byte" "something else sends to this port";
        Short "errors.malformed.short" Packets Sum "decode" Rejected "shorter than a header" "something else sends to this port";
        NotSpead "errors.malformed.not_spead" Packets Sum "decode" Rejected "another magic or version" "something else sends to this port: look at it with `fullcount inspect`";
        Widths "errors.malformed.widths" Packets Sum "decode" Rejected "widths of id and address that do not make 64 bits" "the sender's flavour is none of SPEAD-64";
        Pointers "errors.malformed.pointers" Packets Sum "decode" Rejected "item pointers beyond the end" "a cut packet: look at MTU and capture length";
        Missing "errors.malformed.missing" Packets Sum "decode" Rejected "no heap number, payload offset or payload length" "the sender is at fault";
        Payload "errors.malformed.payload" Packets Sum "decode" Rejected "payload beyond the end" "a cut packet: look at MTU and capture length";
        BeyondHeap "errors.malformed.beyond_heap" Packets Sum "decode" Rejected "payload beyond the heap's length" "the sender is at fault";
        Trailing "errors.malformed.trailing" Packets Sum "decode" Rejected "bytes behind the packet" "the sender is at fault; with detector.compat = spead2, datagrams that hold several packets as well";
        Unsized "errors.refused.unsized" Packets Sum "decode" Rejected "no heap length where one is needed" "allow heaps without a length";
        NoBeginning "errors.refused.no_beginning" Packets Sum "decode" Rejected "in-order mode: middle of a heap whose beginning is not there" "set detector.compat = default";
        OutOfOrder "errors.refused.out_of_order" Packets Sum "decode" Rejected "in-order mode: not the next packet of its heap" "set detector.compat = default";
        Duplicate "errors.refused.duplicate" Packets Sum "decode" Rejected "payload that was there" "look for a second path to this receiver";
        Overlap "errors.refused.overlap" Packets Sum "decode" Rejected "payload that was there in part" "two senders use the same heap numbers";
        DuplicateHeap "errors.refused.duplicate_heap" Packets Sum "decode" Rejected "packets of a heap that was whole" "look for a second path to this receiver";
        Late "errors.refused.late" Packets Sum "decode" Rejected "packets of a heap that was given up" "make detector.max_heaps or detector.heap_timeout larger";
        LengthMismatch "errors.refused.length_mismatch" Packets Sum "decode" Rejected "another heap length than that of the heap's other packets" "two senders use the same heap numbers";
        LengthTooSmall "errors.refused.length_too_small" Packets Sum "decode" Rejected "a heap length below what was seen of the heap" "two senders use the same heap numbers";
        FlavourMismatch "errors.refused.flavour" Packets Sum "decode" Rejected "another flavour than that of the heap's first packet" "two senders use the same heap numbers";
        HeapTooLarge "errors.refused.heap_too_large" Packets Sum "decode" Rejected "heaps above detector.max_heap_bytes" "raise detector.max_heap_bytes if such heaps are meant";
        NoMemory "errors.refused.no_memory" Packets Sum "decode" Rejected "no memory for the heap within detector.max_live_bytes" "raise detector.max_live_bytes or lower detector.max_heaps";
        TooManyItems "errors.refused.too_many_items" Packets Sum "decode" Rejected "item pointers of one heap above 65,536" "the sender is at fault";
        TooManyRanges "errors.refused.too_many_ranges" Packets Sum "decode" Rejected "a heap in more than 16,384 pieces" "look for heavy loss";
        Stopped "errors.refused.stopped" Packets Sum "decode" Rejected "packets after the end of the stream" "leave detector.on_stop at continue if the sender goes on";
        Full "errors.refused.full" Packets Sum "decode" Rejected "no room for finished heaps" "report this: finished heaps are taken at once";
        Heaps "heaps.count" Messages Sum "heaps" In "heaps that began" "";
        Complete "heaps.complete" Messages Sum "heaps" Accepted "heaps with every byte" "";
        Contiguous "heaps.unsized" Messages Sum "heaps" Accepted "heaps without a length, handed over as far as they came" "";
        Stop "heaps.stop" Messages Sum "heaps" Accepted "stop heaps that ended the stream" "";
        Incomplete "heaps.incomplete" Messages Sum "heaps" Dropped(Unknown) "heaps with missing bytes; the outputs get them flagged" "lower the rate, enlarge socket buffers (`fullcount advise`), or ask for packets again";
        WithArrays "heaps.with_arrays" Messages Sum "heaps" Note "complete heaps that hold an array, so no stop or start heaps" "";
        Live "heaps.live" Messages Sum "heaps" Queued "heaps that are not finished" "";
        TimedOut "heaps.timed_out" Messages Sum "heaps" Note "of heaps.incomplete: no packet came for detector.heap_timeout" "";
        Stalls "heaps.stalls" Times Sum "heaps" Note "times that no packet came for detector.stall_timeout" "look at the sender and the link";
        LostHeaps "heaps.lost" Messages Sum "heaps" Missing(Unknown) "heaps of which no packet came, by their numbers; without detector.sequence that is unknown, and 0 here" "lower the rate or enlarge socket buffers";
        Thrown "heaps.thrown_away" Messages Sum "heaps" Missing(Unknown) "heaps refused for a limit (heap_too_large, no_memory, too_many_items), by their first packets" "raise detector.max_heap_bytes or detector.max_live_bytes if such heaps are meant";
        LostBytes "heaps.lost_bytes" Bytes Sum "heaps" Missing(Unknown) "payload bytes missing in incomplete heaps of known length" "lower the rate or enlarge socket buffers";
        LostPackets "heaps.lost_packets" Packets Sum "heaps" Note "packets missing in incomplete heaps; without detector.packet_payload that is unknown, and 0 here" "";
        OffSequence "heaps.off_sequence" Messages Sum "heaps" Note "heaps whose number is none of detector.sequence" "";
        Reordered "heaps.reordered" Packets Sum "heaps" Note "packets that came behind a later one of their heap" "";
        Merged "heaps.merged_datagrams" Times Sum "heaps" Note "datagrams that held several packets, as a capture on a sending host shows them" "";
        PayloadBytes "heaps.payload_bytes" Bytes Sum "heaps" Note "payload of accepted packets" "";
        Items "items.count" Rows Sum "items" In "arrays of heaps that were handed over" "";
        Values "items.values" Rows Sum "items" Accepted "arrays as their descriptors say" "";
        Undescribed "items.undescribed" Rows Sum "items" Accepted "arrays that nobody described, given as bytes" "let the sender repeat its descriptors";
        Unwanted "items.unwanted" Rows Sum "items" Accepted "arrays that detector.items leaves out" "";
        Undecodable "items.undecodable" Rows Sum "items" Rejected "arrays that their descriptor does not fit" "the sender is at fault";
        Descriptors "items.descriptors" Times Sum "items" Note "descriptors that were new or had changed" "";
        TooMany "items.descriptors_refused" Times Sum "items" Note "descriptors beyond detector.max_items, or beyond 64 MiB of text" "raise detector.max_items if so many are meant";
        TheirHeaps "spead2.heaps" Messages Sum "spead2" Note "spead2's `heaps`: handed over, complete or not" "";
        TheirEvicted "spead2.incomplete_heaps_evicted" Messages Sum "spead2" Note "spead2's `incomplete_heaps_evicted`: pushed out by newer heaps" "";
        TheirFlushed "spead2.incomplete_heaps_flushed" Messages Sum "spead2" Note "spead2's `incomplete_heaps_flushed`: live at the end" "";
        TheirPackets "spead2.packets" Packets Sum "spead2" Note "spead2's `packets`: those that passed decoding" "";
        TheirSingle "spead2.single_packet_heaps" Packets Sum "spead2" Note "spead2's `single_packet_heaps`: packets that were whole heaps" "";
        TheirSearch "spead2.search_dist" Times Sum "spead2" Note "spead2's `search_dist`: places of the window looked at" "";
    }
}

impl HeapCount {
    /// The one counter of a reason.
    pub fn of(refused: Refused) -> HeapCount {
        match refused {
            Refused::Malformed(malformed) => match malformed {
                Malformed::Short(_) => HeapCount::Short,
                Malformed::NotSpead(..) => HeapCount::NotSpead,
                Malformed::Widths(..) => HeapCount::Widths,
                Malformed::Pointers { .. } => HeapCount::Pointers,
                Malformed::Missing(_) => HeapCount::Missing,
                Malformed::Payload { .. } => HeapCount::Payload,
                Malformed::BeyondHeap { .. } => HeapCount::BeyondHeap,
            },
            Refused::Trailing(_) => HeapCount::Trailing,
            Refused::Unsized => HeapCount::Unsized,
            Refused::NoBeginning => HeapCount::NoBeginning,
            Refused::OutOfOrder { .. } => HeapCount::OutOfOrder,
            Refused::Duplicate => HeapCount::Duplicate,
            Refused::Overlap => HeapCount::Overlap,
            Refused::DuplicateHeap => HeapCount::DuplicateHeap,
            Refused::Late => HeapCount::Late,
            Refused::LengthMismatch { .. } => HeapCount::LengthMismatch,
            Refused::LengthTooSmall { .. } => HeapCount::LengthTooSmall,
            Refused::FlavourMismatch => HeapCount::FlavourMismatch,
            Refused::HeapTooLarge(_) => HeapCount::HeapTooLarge,
            Refused::NoMemory(_) => HeapCount::NoMemory,
            Refused::TooManyItems => HeapCount::TooManyItems,
            Refused::TooManyRanges => HeapCount::TooManyRanges,
            Refused::Stopped => HeapCount::Stopped,
        }
    }

    /// Class and reason of a refusal, as its counter's name has them.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            HeapCount::Empty => ("size", "empty"),
            HeapCount::Short => ("malformed", "short"),
            HeapCount::NotSpead => ("malformed", "not_spead"),
            HeapCount::Widths => ("malformed", "widths"),
            HeapCount::Pointers => ("malformed", "pointers"),
            HeapCount::Missing => ("malformed", "missing"),
            HeapCount::Payload => ("malformed", "payload"),
            HeapCount::BeyondHeap => ("malformed", "beyond_heap"),
            HeapCount::Trailing => ("malformed", "trailing"),
            HeapCount::Unsized => ("refused", "unsized"),
            HeapCount::NoBeginning => ("refused", "no_beginning"),
            HeapCount::OutOfOrder => ("refused", "out_of_order"),
            HeapCount::Duplicate => ("refused", "duplicate"),
            HeapCount::Overlap => ("refused", "overlap"),
            HeapCount::DuplicateHeap => ("refused", "duplicate_heap"),
            HeapCount::Late => ("refused", "late"),
            HeapCount::LengthMismatch => ("refused", "length_mismatch"),
            HeapCount::LengthTooSmall => ("refused", "length_too_small"),
            HeapCount::FlavourMismatch => ("refused", "flavour"),
            HeapCount::HeapTooLarge => ("refused", "heap_too_large"),
            HeapCount::NoMemory => ("refused", "no_memory"),
            HeapCount::TooManyItems => ("refused", "too_many_items"),
            HeapCount::TooManyRanges => ("refused", "too_many_ranges"),
            HeapCount::Stopped => ("refused", "stopped"),
            _ => ("refused", "full"),
        }
    }
}
