//! What a `sequence` reader counts.
//!
//! Hop `decode` balances in packets: `decode.packets` is the sum of `decode.accepted` (first copies: what
//! is delivered), `decode.copies`, `decode.end_marks` and one line per reason. Of streams that have said how many
//! packets they sent, `packets.announced` is the sum of `packets.announced.delivered`, `.lost` and `.rejected`; a stream
//! that has not said so is in none of these. Source: `docs/architecture.md`.

use super::packet::SequenceRefusal;

fullcount_core::counters! {
    /// Lines of a `sequence` reader's sheet.
    pub enum SequenceCount {
        Packets "decode.packets" Packets Sum "decode" In "datagrams given to the decoder" "";
        Accepted "decode.accepted" Packets Sum "decode" Accepted
            "first copies of numbered packets: delivered" "";
        Copies "decode.copies" Packets Sum "decode" Accepted
            "packets not delivered again: duplicates and late ones" "";
        EndMarks "decode.end_marks" Packets Sum "decode" Accepted "end marks (each stream sends five)" "";
        ShortPacket "errors.bad_size.short_packet" Packets Sum "decode" Rejected
            "datagrams below 24 bytes" "something else sends to this port: look at it with `fullcount inspect`";
        Magic "errors.header.magic" Packets Sum "decode" Rejected
            "datagrams that do not begin with FCSQ" "something else sends to this port: look at it with `fullcount inspect`";
        Number "errors.header.number" Packets Sum "decode" Rejected
            "numbers or totals above 2^56" "the sender is damaged or is no `fullcount send`";
        Pattern "errors.payload.pattern" Packets Sum "decode" Rejected
            "packets whose pattern differs" "bytes were changed on the way: check cables, memory and checksum offload";
        Down "packets.lost.down" Packets Sum "decode" Missing(Down)
            "numbers sent before this receiver listened" "start the receiver before the sender";
        Announced "packets.announced" Packets Sum "decode" Note
            "packets that the senders say they sent (end marks)" "";
        AnnouncedDelivered "packets.announced.delivered" Packets Sum "decode" Note
            "of packets.announced: delivered" "";
        AnnouncedLost "packets.announced.lost" Packets Sum "decode" Note
            "of packets.announced: lost, those sent before this receiver listened included" "";
        AnnouncedRejected "packets.announced.rejected" Packets Sum "decode" Note
            "of packets.announced: refused for their pattern" "";
        Contradicted "decode.totals_contradicted" Times Sum "decode" Note
            "announced totals below a number that was received; such a stream counts as one that announced no end" "two senders use one stream id, or somebody else sends end marks: give each a --seed of its own";
        LatencyCount "latency.packets" Packets Sum "decode" Note
            "packets with a measured latency (kernel receive time - sender time)" "";
        LatencySum "latency.sum_ns" Times Sum "decode" Note "sum of latencies, ns" "";
        LatencyMax "latency.max_ns" Times Max "decode" Note "largest latency, ns" "";
        LatencyMin "latency.min_ns" Times Max "decode" Note
            "smallest latency, ns (of several workers: the largest of theirs)" "";
    }
}

impl SequenceCount {
    /// The one counter of a reason.
    pub fn of(refusal: SequenceRefusal) -> SequenceCount {
        match refusal {
            SequenceRefusal::ShortPacket => SequenceCount::ShortPacket,
            SequenceRefusal::Magic => SequenceCount::Magic,
            SequenceRefusal::Number => SequenceCount::Number,
            SequenceRefusal::Pattern => SequenceCount::Pattern,
        }
    }
}
