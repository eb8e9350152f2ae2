//! What a replay counts: packets that it passes on, and what became of the frames of its file.

use fullcount_core::ledger::Sheet;

/// Lines of a replay's own, then those of the file: field of [`CaptureTally`], line, counter, unit, meaning, advice.
macro_rules! replayed {
    (
        own: { $($own:tt)* }
        $($field:ident $line:ident $name:literal $unit:ident $meaning:literal $todo:literal;)*
    ) => {
        fullcount_core::counters! {
            /// What a replay counts.
            pub enum Replayed {
                $($own)*
                $($line $name $unit Sum "pcap" Note $meaning $todo;)*
            }
        }

        /// Where the frames of a capture went:
        /// `frames = datagrams + skipped() + fragments − reassembled`, see [`CaptureTally::balance`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct CaptureTally {
            /// UDP datagrams delivered.
            pub datagrams: u64,
            /// Bytes in them.
            pub bytes: u64,
            $(#[doc = $meaning] pub $field: u64,)*
        }

        impl CaptureTally {
            /// Adds another pass over a file.
            pub fn add(&mut self, more: &CaptureTally) {
                self.datagrams += more.datagrams;
                self.bytes += more.bytes;
                $(self.$field += more.$field;)*
            }

            /// Writes the content of the file so far; the replay counts the packets that it passes on.
            pub(super) fn write(&self, sheet: &Sheet) {
                $(sheet.set(Replayed::$line as usize, self.$field);)*
            }
        }
    };
}

replayed! {
    own: {
        Packets "receive.packets" Packets Sum "receive" In "datagrams received" "";
        Accepted "receive.accepted" Packets Sum "receive" Accepted "datagrams handed to the decoder" "";
        Bytes "receive.bytes" Bytes Sum "receive" Note "payload bytes received" "";
        WireBytes "receive.wire_bytes" Bytes Sum "receive" Note
            "link time of these datagrams in bytes: Ethernet frames with preamble and gap, MTU 1500, or 9000 for those that need more" "";
        Trains "receive.trains" Times Sum "receive" Note "trains of equal datagrams received" "";
        Passes "pcap.passes" Times Sum "pcap" Note "times the capture was played to its end" "";
    }
    frames Frames "pcap.frames" Packets "frames read from the capture" "";
    snapped Snapped "pcap.snapped" Packets "frames cut by the snap length of the capture"
        "capture again with the whole frame (tcpdump -s 0)";
    truncated Truncated "pcap.truncated" Times "captures that end inside a record"
        "the recording was killed or the file not copied whole: its last frame is missing";
    damaged Damaged "pcap.damaged" Times "captures whose lengths make no sense from some point on"
        "nothing behind that point was read: take a good copy of the file";
    link_type LinkType "pcap.link_type" Packets "frames of interfaces with an unknown link type"
        "capture on the Ethernet interface or on 'any'";
    frame_short FrameShort "pcap.frame_short" Packets "frames that end before their packet does" "";
    not_ip NotIp "pcap.not_ip" Packets "frames that are neither IPv4 nor IPv6" "";
    ip_version IpVersion "pcap.ip_version" Packets "packets whose IP version contradicts the link header" "";
    ip_length IpLength "pcap.ip_length" Packets "packets with impossible IP lengths"
        "if the capture was taken on the sender, turn its offloads off (ethtool -K IF tso off gso off)";
    ip_extension IpExtension "pcap.ip_extension" Packets "packets with impossible IPv6 extension headers" "";
    not_udp NotUdp "pcap.not_udp" Packets "packets of other protocols than UDP" "";
    udp_length UdpLength "pcap.udp_length" Packets "datagrams with an impossible UDP length" "";
    other_port OtherPort "pcap.other_port" Packets "datagrams to another port than the one asked for" "";
    other_ip OtherIp "pcap.other_ip" Packets "packets over IPv6, or frames that are not plain IPv4, where the format knows only such"
        "if they are readouts: replay with ?ip=any";
    fragments Fragments "pcap.fragments" Packets "IP fragments" "";
    fragments_used FragmentsUsed "pcap.fragments_used" Packets "IP fragments that became part of a datagram" "";
    reassembled Reassembled "pcap.reassembled" Packets "datagrams put together from fragments" "";
    fragments_refused FragmentsRefused "pcap.fragments_refused" Packets
        "IP fragments that repeat, contradict or break the rules, and all where the detector's format knows none"
        "if they are readouts: replay with ?ip=any";
    reassembly_incomplete Incomplete "pcap.reassembly_incomplete" Packets "datagrams with fragments missing"
        "the capture lost frames: see what tcpdump printed about packets dropped by the kernel";
    blocks_skipped BlocksSkipped "pcap.blocks_skipped" Times "pcapng blocks that hold no frame" "";
}
