//! What a Multi-Grid reader and builder count: our lines, which balance hop by hop, and the published names.
//!
//! Hop `decode` balances in packets, `triggers` in sub-buffers, `geometry` in readouts, `clusters` in hits,
//! `events` in events, `pulses` in external triggers. A packet that is damaged in its third event is
//! rejected there, and its first two events are used. Lost packets are known by their events' numbers, so what
//! is lost is counted in container events ([`numbering`](fullcount_core::sequence::numbering)). Published names (`docs/formats/multigrid.md`
//! section 9) that repeat one of our lines are notes, so that nothing is counted twice.

use super::container::MultiGridRefusal;
use super::words::WordError;

fullcount_core::counters! {
    /// Lines of a Multi-Grid reader's sheet.
    pub enum MultiGridCount {
        Packets "decode.packets" Packets Sum "decode" In "datagrams given to the decoder" "";
        Accepted "decode.accepted" Packets Sum "decode" Accepted "datagrams decoded to their end" "";
        PacketType "errors.container.packet_type" Packets Sum "decode" Rejected
            "datagrams that are empty or whose first byte is not 0x60" "something else sends to this port, or the SIS3153 sends single events: set it to buffered packets";
        ShortPacket "errors.container.short_packet" Packets Sum "decode" Rejected
            "datagrams below 19 bytes" "something else sends to this port: look at it with `fullcount inspect`";
        EventHeader "errors.container.event_header" Packets Sum "decode" Rejected
            "datagrams with an event whose first word does not end in 0x58; events before it are used" "look for damage on the way, or another stack list of the SIS3153";
        BeginWord "errors.container.begin_word" Packets Sum "decode" Rejected
            "datagrams with an event whose second word does not begin with 0xBB; events before it are used" "look for damage on the way, or another stack list of the SIS3153";
        EventLength "errors.container.event_length" Packets Sum "decode" Rejected
            "datagrams with an event that is longer than the datagram, or shorter than 3 words; events before it are used" "look for a device on the way that cuts datagrams (MTU)";
        EndCookie "errors.container.end_cookie" Packets Sum "decode" Rejected
            "datagrams with an event without 0x87654321 behind its data; events before it are used" "look for damage on the way";
        EndWord "errors.container.end_word" Packets Sum "decode" Rejected
            "datagrams with an event whose last word does not begin with 0xEE; events before it are used" "look for damage on the way";
        SeqErrors "container_seq_errors" Times Sum "decode" Note
            "events whose number is not the sender's one before + 1: lost, repeated or reordered packets, or a restart" "see container_events.lost, which tells loss from disorder; a GRO train reordered on the way counts twice";
        TailBytes "ignored_tail_bytes" Bytes Sum "decode" Note
            "bytes behind the last event of a datagram" "";
        RxPackets "rx_packets" Packets Sum "decode" Note "published name: equals decode.packets" "";
        RxBytes "rx_bytes" Bytes Sum "decode" Note "payload bytes given to the decoder (published name)" "";
        Discarded "rx_discarded_bytes" Bytes Sum "decode" Note
            "bytes given up at a damaged word of a container or trigger (published name)" "see errors.container.* and errors.words.*";
        Triggers "triggers.count" Messages Sum "triggers" In "triggers (sub-buffers) found" "";
        Decoded "triggers.decoded" Messages Sum "triggers" Accepted "triggers with a time" "";
        HeaderWords "errors.words.header_words" Messages Sum "triggers" Rejected
            "triggers dropped because a block counts more words than there are" "the VMMR sends damaged data: check its firmware";
        WordType "errors.words.word_type" Messages Sum "triggers" Rejected
            "triggers dropped because of a word of type 5 to 11" "the VMMR sends damaged data, or another module is read out: check its firmware and the VME list";
        NoTimestamp "errors.words.no_timestamp" Messages Sum "triggers" Rejected
            "triggers dropped because they have no end of event" "the VMMR sends damaged data: check its firmware";
        ParserTriggers "parser_triggers" Messages Sum "triggers" Note "published name: equals triggers.count" "";
        HighFell "time.high_fell" Times Sum "triggers" Note
            "triggers whose high time is below that of the one before: a clock reset, or the wrap after 51 days" "expected once when the electronics restart";
        Readouts "readouts.count" Readouts Sum "geometry" In "readouts and external triggers of triggers with a time" "";
        Hits "hits.count" Readouts Sum "geometry" Accepted "readouts that became hits, external triggers included" "";
        Glitches "readouts.glitches" Readouts Sum "geometry" Rejected
            "readouts of triggers with more than detector.glitch_limit of them: all channels fire at once" "a few: normal; many: look for noise on the bus, or raise detector.glitch_limit";
        Unmapped "readouts.geometry_errors" Readouts Sum "geometry" Rejected
            "readouts of a bus without mapping or module, or of a channel that is neither wire nor grid" "check mappings in the geometry file (`fullcount inspect` shows bus and channel)";
        Filtered "readouts.filtered" Readouts Sum "geometry" Rejected
            "readouts outside of the thresholds of their wire or grid" "expected; many: check wire_filters and grid_filters in the geometry file";
        PulseReadouts "pulses" Readouts Sum "geometry" Note "external triggers among the hits" "";
        ReadoutsTotal "readouts_total" Readouts Sum "geometry" Note
            "published name: readouts.count without readouts.glitches" "";
        GlitchRejects "builder_glitch_rejects" Readouts Sum "geometry" Note "published name: equals readouts.glitches" "";
        FilterRejects "builder_filter_rejects" Readouts Sum "geometry" Note "published name: equals readouts.filtered" "";
        GeometryErrors "builder_geometry_errors" Readouts Sum "geometry" Note "published name: equals readouts.geometry_errors" "";
        HitsTotal "hits_total" Readouts Sum "geometry" Note "published name: equals hits.count" "";
    }
}

impl MultiGridCount {
    /// The one counter of a container error.
    pub fn of(refusal: MultiGridRefusal) -> MultiGridCount {
        match refusal {
            MultiGridRefusal::PacketType => MultiGridCount::PacketType,
            MultiGridRefusal::ShortPacket => MultiGridCount::ShortPacket,
            MultiGridRefusal::EventHeader => MultiGridCount::EventHeader,
            MultiGridRefusal::BeginWord => MultiGridCount::BeginWord,
            MultiGridRefusal::EventLength => MultiGridCount::EventLength,
            MultiGridRefusal::EndCookie => MultiGridCount::EndCookie,
            MultiGridRefusal::EndWord => MultiGridCount::EndWord,
        }
    }

    /// The one counter of a damaged trigger.
    pub fn of_words(error: WordError) -> MultiGridCount {
        match error {
            WordError::HeaderWords => MultiGridCount::HeaderWords,
            WordError::WordType => MultiGridCount::WordType,
            WordError::NoTimestamp => MultiGridCount::NoTimestamp,
        }
    }
}

fullcount_core::counters! {
    /// Lines of a Multi-Grid builder's sheet.
    pub enum MultiGridBuilt {
        Hits "clusters.hits" Hits Sum "clusters" In "hits and external triggers given to the event builder" "";
        Grouped "clusters.grouped" Hits Sum "clusters" Accepted "hits in closed groups: one module, one time" "";
        PulseHits "clusters.pulses" Hits Sum "clusters" Accepted "external triggers" "";
        BadPlane "hits_bad_plane" Hits Sum "clusters" Rejected
            "hits that are neither wire nor grid (published name)" "report this: it cannot occur";
        Open "clusters.waiting" Hits Sum "clusters" Queued "hits in groups that are still open" "";
        TimeSeqErr "hits_time_seq_err" Hits Sum "clusters" Note
            "hits with a time before the one before in their module (published name)" "a restart of the electronics, or packets that overtook each other: see container_seq_errors and time.steps_back";
        Used "hits_used" Hits Sum "clusters" Note "hits that decided a position (published name)" "";
        WireClusters "wire_clusters" Hits Sum "clusters" Note "runs of neighbouring wires (published name)" "";
        GridClusters "grid_clusters" Hits Sum "clusters" Note "runs of neighbouring grids (published name)" "";
        StepsBack "time.steps_back" Times Sum "clusters" Note
            "times that lie further back than the latency window: everything before was finished and order began anew" "expected when the electronics restart; else look for several paths in the network";
        Groups "events.groups" Events Sum "events" In "closed groups: each is an event or is not" "";
        Events "events.count" Events Sum "events" Accepted "events given out" "";
        Multiplicity "events.multiplicity" Events Sum "events" Rejected
            "groups with more wire or grid hits than allowed" "a few: normal; many: check thresholds, and max_wire_multiplicity and max_grid_multiplicity in the geometry file";
        Bad "events.no_coincidence" Events Sum "events" Rejected
            "groups without a wire or without a grid, or with weight 0 where the analysis is weighted" "a few: dark counts; many: a plane is dead, or its threshold too high";
        Outside "events.geometry_errors" Events Sum "events" Rejected
            "groups whose position lies outside of the detector" "mapping and digital_geometry in the geometry file contradict each other";
        Ready "events.waiting" Events Sum "events" Queued "events that wait for earlier ones of other modules" "";
        ByTime "events.released_by_time" Times Sum "events" Note
            "entries given out because they had waited detector.release_ms" "";
        ByNumber "events.released_by_number" Times Sum "events" Note
            "entries given out because detector.max_waiting were waiting" "raise detector.max_waiting if events come out of order";
        EventsTotal "events_total" Events Sum "events" Note "published name: equals events.groups" "";
        TxEvents "tx_events" Events Sum "events" Note "published name: equals events.count" "";
        MultiplicityRejects "events_multiplicity_rejects" Events Sum "events" Note "published name: equals events.multiplicity" "";
        EventsBad "events_bad" Events Sum "events" Note "published name: equals events.no_coincidence" "";
        EventsGeometryErr "events_geometry_err" Events Sum "events" Note "published name: equals events.geometry_errors" "";
        PulsesIn "pulses.count" Messages Sum "pulses" In "external triggers put in order" "";
        PulsesOut "pulses.given" Messages Sum "pulses" Accepted "external triggers given out (rows of the output with `pulse = \"data\"`)" "";
        PulsesReady "pulses.waiting" Messages Sum "pulses" Queued "external triggers that wait for earlier events" "";
    }
}
