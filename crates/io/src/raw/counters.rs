//! What a destination `stcp` counts: of the packets that it is given, of its link, and of its streams.

use fullcount_core::ledger::{Info, Merge, Role, Sheet, Unit};
use fullcount_stcp::StcpCounters;
use fullcount_stcp::wire::WireError;

use super::RawLink;

fullcount_core::counters! {
    /// Of the packets, and of the link.
    pub enum StcpSending {
        Offered "stcp.offered" Packets Sum "stcp" In
            "packets given to the sender" "";
        Packets "stcp.packets" Packets Sum "stcp" Accepted
            "packets that were taken into a stream" "";
        Failed "stcp.failed" Packets Sum "stcp" Rejected
            "packets that were not taken: the connection had ended, or the sender was stopped while it waited"
            "see the error message of the sender; is the receiver there, and does it read?";
        Lost "stcp.packets_lost" Packets Sum "stcp" Rejected
            "packets that waited for a stream when its connection had ended"
            "see the error message of the sender; the receiver refused or left one connection, the others went on";
        UnacknowledgedPackets "stcp.packets_unacknowledged" Packets Sum "stcp" Note
            "packets that were taken and not acknowledged to their last byte when their connection ended"
            "the receiver may not have them: it stopped reading, refused the connection or went away";
        Unacknowledged "stcp.unacknowledged" Bytes Sum "stcp" Note
            "bytes that were taken and not acknowledged when the sender ended or its connection did"
            "the receiver may not have them: it stopped reading or went away";
        Waited "stcp.waited" Times Sum "stcp" Note
            "packets that had to wait because they did not fit into what the stream's buffer had left"
            "nothing is lost; the receiver or the link is slower than the source";
        Held "stcp.held" Times Sum "stcp" Note
            "times that the source was told to hold: all its streams were busy, their buffers above the high mark"
            "nothing is lost; the receiver or the link is slower than the source";
        HeldTime "stcp.held_ns" Times Sum "stcp" Note
            "time until a stream was ready again, its buffer at the low mark, after the source was told to hold, ns"
            "nothing is lost; the receiver or the link is slower than the source";
        Connections "stcp.connections" Times Sum "stcp" Note
            "connections that were made" "";
        Ended "stcp.ended" Times Sum "stcp" Note
            "connections that ended by the peer or by a time limit"
            "see the error message of the sender";
        Frames "stcp.frames_sent" Messages Sum "stcp" Note
            "frames that the interface took; with offload of several segments each" "";
        Calls "stcp.calls" Times Sum "stcp" Note
            "send calls" "";
        Blocked "stcp.no_buffer" Times Sum "stcp" Note
            "send calls repeated because the interface's queue was full"
            "nothing is lost; the link or its queueing discipline is slower than the source";
        Refused "stcp.frames_refused" Messages Sum "stcp" Note
            "frames that the interface will never take"
            "mtu= must not be above the MTU of the interface (ip link)";
        Received "stcp.frames_received" Messages Sum "stcp" Note
            "frames that came in at the interface" "";
        Others "stcp.frames_others" Messages Sum "stcp" Note
            "frames for other addresses or of other protocols, and ICMP about no stream" "";
        Delivered "stcp.frames_delivered" Messages Sum "stcp" Note
            "segments and ICMP messages that went to their stream" "";
        Strays "stcp.frames_strays" Messages Sum "stcp" Note
            "segments for the own address that belong to no stream" "";
        StrayResets "stcp.strays_reset" Messages Sum "stcp" Note
            "RSTs in answer to segments that belong to no stream"
            "the receiver held a connection of a sender that ended without a word, or another sender has this address";
        StrayResetsSpared "stcp.strays_reset_spared" Messages Sum "stcp" Note
            "RSTs in answer to such segments that the limit of 100 a second kept back" "";
        ArpRequests "stcp.arp_requests" Messages Sum "stcp" Note
            "questions of ARP: for the own address, and for the next hop" "";
        ArpReceived "stcp.arp_received" Messages Sum "stcp" Note
            "questions and answers of ARP that came in" "";
        ArpReplies "stcp.arp_replies" Messages Sum "stcp" Note
            "answers of ARP to questions for the own address" "";
        Echoes "stcp.echoes" Messages Sum "stcp" Note
            "echo requests (ping) that were answered" "";
        EchoesSpared "stcp.echoes_spared" Messages Sum "stcp" Note
            "echo requests that were not answered: more than 100 a second, longer than 1500 B, from no single host, or no room for the answer" "";
        Malformed "stcp.frames_malformed" Messages Sum "stcp" Note
            "frames that were not well formed, a wrong checksum included"
            "look at the link's error counters (ip -s link)";
        Recorded "stcp.frames_recorded" Messages Sum "stcp" Note
            "frames that were written to the file of frames" "";
        NotRecorded "stcp.frames_not_recorded" Messages Sum "stcp" Note
            "frames that were not written to the file of frames because it was full"
            "raise frames_limit";
    }
}

fn unit(name: &str) -> Unit {
    match name {
        "fragments" => Unit::Packets,
        "bytes" => Unit::Bytes,
        "segments" | "frames" | "messages" => Unit::Messages,
        _ => Unit::Times,
    }
}

/// What a value above 0 asks the user to do.
fn advice(name: &str) -> &'static str {
    match name {
        "rto_expired" | "again_rto" | "again_fast" | "again_partial" | "again_bytes" => {
            "segments are lost or late: look for a full queue on the way; strategy=static with a window that fits it"
        }
        "zero_windows" | "zero_window_ns" | "probes" => "the receiver does not read fast enough",
        "xoff" | "busy_ns" | "would_block" => "the receiver or the link is slower than the source",
        "resets_in" => "the receiver closed: it ended, or refused what came",
        "peer_data_bytes" | "peer_fins" => "the receiver must neither send nor close",
        "half_open" => "a sender with this address and port ended without a word before",
        "no_neighbour" | "slow" => "is the receiver's host up, and on this network?",
        "small_mss" | "mss_lowered" => "raise the MTU on the way, or set mtu",
        "simultaneous" | "syns_challenged" | "outside" | "acks_out_of_range" => {
            "somebody sends segments that are not the receiver's"
        }
        _ => "",
    }
}

/// `HeaderLength` becomes `header_length`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Why a frame is dropped is counted by the link, since its ports cannot be trusted. What streams would count of it, the last of their counters, is left out.
fn of_frame(name: &str) -> bool {
    WireError::ALL.iter().any(|error| error.name() == name)
}

/// Lines of the catalogue: the link's, those of dropped frames, then those of the streams.
pub(super) fn catalogue() -> Vec<Info> {
    let mut all = StcpSending::catalogue();
    all.extend(WireError::ALL.map(|error| {
        Info {
            name: format!("stcp.frame.{}", snake(error.name())).into(),
            unit: Unit::Messages,
            merge: Merge::Sum,
            hop: "stcp".into(),
            role: Role::Note,
            meaning: format!("frames that were dropped: {}", error.text()).into(),
            todo: match error {
                WireError::OtherAddress | WireError::OtherProtocol => "",
                _ => "look at the link's error counters (ip -s link)",
            }
            .into(),
        }
    }));
    StcpCounters::default().each(|name, own, text, _| {
        if of_frame(name) {
            return;
        }
        let times = if own == "ns" { ", ns" } else { "" };
        all.push(Info {
            name: format!("stcp.stream.{}", snake(name)).into(),
            unit: unit(own),
            merge: Merge::Sum,
            hop: "stcp".into(),
            role: Role::Note,
            meaning: format!("{own} of the streams: {text}{times}").into(),
            todo: advice(name).into(),
        });
    });
    all
}

/// Brings the link's and the streams' counts to the sheet.
pub(super) fn publish(sheet: &Sheet, link: &RawLink) {
    let c = link.counters();
    for (line, value) in [
        (StcpSending::Frames, c.sent),
        (StcpSending::Calls, c.calls),
        (StcpSending::Blocked, c.blocked),
        (StcpSending::Refused, c.refused),
        (StcpSending::Received, c.received),
        (StcpSending::Others, c.others),
        (StcpSending::Strays, c.strays),
        (StcpSending::StrayResets, c.stray_resets),
        (StcpSending::StrayResetsSpared, c.stray_resets_spared),
        (StcpSending::Delivered, c.delivered),
        (StcpSending::ArpReceived, c.arp_received),
        (StcpSending::Echoes, c.echoes),
        (StcpSending::EchoesSpared, c.echoes_spared),
        (StcpSending::ArpRequests, c.arp_requests),
        (StcpSending::ArpReplies, c.arp_replies),
        (StcpSending::Malformed, c.malformed),
        (StcpSending::Recorded, c.recorded),
        (StcpSending::NotRecorded, c.not_recorded),
    ] {
        sheet.set(line as usize, value);
    }
    let mut sums = [0u64; 128];
    for stream in link.streams() {
        let mut at = 0;
        stream.sender().memory().counted().each(|_, _, _, value| {
            sums[at] += value;
            at += 1;
        });
    }
    // The streams' own last counters, of frames, have no line.
    let rest = c.dropped.iter().chain(&sums);
    let lines = sheet.lines().len() - StcpSending::LINES;
    for (i, value) in rest.take(lines).enumerate() {
        sheet.set(StcpSending::LINES + i, *value);
    }
}
