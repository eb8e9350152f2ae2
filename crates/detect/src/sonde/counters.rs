//! What a SoNDe reader counts: the published names, one line per reason, and the two hops it balances.
//!
//! Names follow `docs/formats/sonde.md` section 8. Hop `decode` balances in packets
//! (`decode.packets` = `decode.accepted` + one line per reason word), hop `geometry` in readouts
//! (`readouts.count` = `events.count` + `events.geometry_errors`). The published class totals repeat the
//! reasons and are notes, so that nothing is counted twice. Lines of numbered packets are those of every format
//! ([`numbering`](fullcount_core::sequence::numbering)).

use super::packet::{SondeErrorClass, SondeMode, SondeRefusal};

fullcount_core::counters! {
    /// Lines of a SoNDe reader's sheet.
    pub enum SondeCount {
        Packets "decode.packets" Packets Sum "decode" In "datagrams given to the decoder" "";
        Accepted "decode.accepted" Packets Sum "decode" Accepted "datagrams decoded" "";
        ShortPacket "errors.bad_size.short_packet" Packets Sum "decode" Rejected
            "datagrams below 11 bytes" "something else sends to this port: look at it with `fullcount inspect`";
        Version "errors.header.version" Packets Sum "decode" Rejected
            "headers whose version is not 0" "something else sends to this port, or the readout's firmware is newer than this decoder";
        LengthMismatch "errors.header.length_mismatch" Packets Sum "decode" Rejected
            "headers whose length disagrees with the datagram" "look for a device on the way that cuts or pads datagrams (MTU)";
        PacketType "errors.unsupported.packet_type" Packets Sum "decode" Rejected
            "packets that are no data" "point the control connection's answers to another port";
        EntryCount "errors.header.entry_count_mismatch" Packets Sum "decode" Rejected
            "0xD6 packets whose length is not 1 + 5 N" "the readout sends damaged packets: check its firmware";
        ShortSubheader "errors.header.short_subheader" Packets Sum "decode" Rejected
            "0xD5 packets without the 7-byte sub-header" "the readout sends damaged packets: check its firmware";
        SampleCount "errors.header.sample_count_mismatch" Packets Sum "decode" Rejected
            "0xD5 packets whose length is not 7 + 2 n" "the readout sends damaged packets: check its firmware";
        ShortPayload "errors.bad_size.short_payload" Packets Sum "decode" Rejected
            "0xD4 packets below 12 bytes of payload" "the readout sends damaged packets: check its firmware";
        EventCount "errors.header.event_count_mismatch" Packets Sum "decode" Rejected
            "0xD4 packets shorter than their events" "the readout sends damaged packets: check its firmware";
        BadSize "errors.bad_size" Packets Sum "decode" Note
            "packets refused for their size: sum of errors.bad_size.*" "see the reasons";
        HeaderErrors "errors.header" Packets Sum "decode" Note
            "packets refused for their header: sum of errors.header.*" "see the reasons";
        Unsupported "ideas.packets.unsupported" Packets Sum "decode" Note
            "packets refused for their type: equals errors.unsupported.packet_type" "see the reason";
        TriggerTime "ideas.packets.triggertime" Packets Sum "decode" Note
            "packets of type 0xD6 whose length field is right" "";
        SingleEvent "ideas.packets.singleevent" Packets Sum "decode" Note
            "packets of type 0xD5 whose length field is right" "";
        MultiEvent "ideas.packets.multievent" Packets Sum "decode" Note
            "packets of type 0xD4 whose length field is right" "";
        SeqErrors "readouts.seq_errors" Times Sum "decode" Note
            "packet counts that differ from the expected one (published rule)" "see packets.lost, which tells loss from disorder";
        LostPackets "lost_packets" Packets Sum "decode" Note
            "upper guess of lost packets: gaps up to 8192 (published rule)" "see packets.lost, which tells loss from disorder";
        OutOfOrder "readouts.out_of_order" Times Sum "decode" Note
            "sequence errors with a gap above 8192: repeated or reordered packets (published rule)" "see packets.reordered and packets.duplicate";
        Readouts "readouts.count" Readouts Sum "geometry" In "entries and samples decoded" "";
        Events "events.count" Readouts Sum "geometry" Accepted "readouts that became events" "";
        GeometryErrors "events.geometry_errors" Readouts Sum "geometry" Rejected
            "readouts without a pixel" "a few: noise in the readout; many: channel or ASIC numbers or the geometry file are wrong";
        UnknownModule "geometry.unknown_module" Packets Sum "geometry" Note
            "packets of a source and system number that the geometry does not list; their readouts are geometry errors" "add the module to the geometry file (`fullcount inspect` shows origin and system)";
        SharedModule "geometry.shared_module" Times Sum "geometry" Note
            "senders (address and system number, from whatever port) beyond the first whose readouts go to the same module's pixels" "several modules are drawn on top of each other: give a geometry file that tells them apart ([detector] geometry)";
        Samples "samples" Readouts Sum "geometry" Note "charge samples (0xD5, 0xD4)" "";
        TrailingBytes "trailing_bytes" Bytes Sum "decode" Note "bytes behind the last event of 0xD4 packets" "";
    }
}

impl SondeCount {
    /// The one counter of a reason.
    pub fn of(refusal: SondeRefusal) -> SondeCount {
        match refusal {
            SondeRefusal::ShortPacket => SondeCount::ShortPacket,
            SondeRefusal::Version => SondeCount::Version,
            SondeRefusal::LengthMismatch => SondeCount::LengthMismatch,
            SondeRefusal::PacketType => SondeCount::PacketType,
            SondeRefusal::EntryCountMismatch => SondeCount::EntryCount,
            SondeRefusal::ShortSubheader => SondeCount::ShortSubheader,
            SondeRefusal::SampleCountMismatch => SondeCount::SampleCount,
            SondeRefusal::ShortPayload => SondeCount::ShortPayload,
            SondeRefusal::EventCountMismatch => SondeCount::EventCount,
        }
    }

    /// The published total of an error class.
    pub fn of_class(class: SondeErrorClass) -> SondeCount {
        match class {
            SondeErrorClass::BadSize => SondeCount::BadSize,
            SondeErrorClass::Header => SondeCount::HeaderErrors,
            SondeErrorClass::Unsupported => SondeCount::Unsupported,
        }
    }

    /// The counter of a packet type.
    pub fn of_mode(mode: SondeMode) -> SondeCount {
        match mode {
            SondeMode::TriggerTime => SondeCount::TriggerTime,
            SondeMode::SingleEvent => SondeCount::SingleEvent,
            SondeMode::MultiEvent => SondeCount::MultiEvent,
        }
    }
}
