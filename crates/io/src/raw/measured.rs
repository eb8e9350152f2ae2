//! What a destination says of each of its streams at the end: the numbers of docs/stcp.md, "What is measured".

use fullcount_core::destination::{DestinationPart, PacketNumbers};
use fullcount_stcp::StcpState;

use super::RawStream;

/// Fragments that were taken and not acknowledged to their last byte.
pub(super) fn unacknowledged(stream: &RawStream) -> u64 {
    let counted = stream.sender().memory().counted();
    counted.fragments.saturating_sub(counted.acked_fragments)
}

/// What of a stream that has ended is not known to be delivered, in words. Packets were taken one after the other, and ACKs cover all before
/// them: so it is everything from one packet on. `numbers`: of the packets of this stream; without them they are counted from 0.
pub(super) fn undelivered(stream: &RawStream, numbers: Option<PacketNumbers>) -> String {
    let taken = stream.sender().memory().counted().fragments;
    let open = unacknowledged(stream);
    let named = numbers.map_or("packets", |n| n.what);
    let of = |packet: u64| numbers.map_or(packet, |n| n.of(packet));
    match taken.checked_sub(1) {
        None => "nothing was sent over it".into(),
        Some(last) if open == 0 => {
            format!(
                "all was acknowledged, up to {} of its {named}, and none after it was sent",
                of(last)
            )
        }
        Some(last) => {
            let (first, last) = (of(taken - open), of(last));
            format!("{named} {first} to {last} were not acknowledged, and none after them was sent")
        }
    }
}

/// As it is now.
pub(super) fn part(stream: &RawStream, ended: Option<&String>) -> DestinationPart {
    let sender = stream.sender();
    let (now, c, h) = (sender.snapshot(), sender.memory().counted(), sender.memory().measured());
    DestinationPart {
        name: format!("port {}", stream.ends().local_port),
        ended: ended.cloned(),
        values: vec![
            ("established", u64::from(now.state == StcpState::Established)),
            ("packets", c.fragments),
            ("packets_unacknowledged", unacknowledged(stream)),
            ("packet_bytes", c.fragment_bytes),
            ("acked_bytes", c.acked_bytes),
            ("sent_bytes", c.bytes),
            ("again_bytes", c.again_bytes),
            ("segments", c.segments),
            ("full_segments", c.full_segments),
            ("mss_bytes", u64::from(now.mss)),
            ("srtt_ns", now.rtt.srtt_ns),
            ("rttvar_ns", now.rtt.rttvar_ns),
            ("rtt_least_ns", h.rtt.least()),
            ("rtt_most_ns", h.rtt.most()),
            ("rto_ns", now.rto_ns),
            ("window_bytes", now.window),
            ("window_least_bytes", h.window.least()),
            ("window_most_bytes", h.window.most()),
            ("zero_window_ns", c.zero_window_ns),
            ("cwnd_bytes", u64::from(now.cwnd)),
            ("shift", u64::from(now.shift)),
            ("shift_most", u64::from(h.shift_most)),
            ("buffer_used_bytes", sender.used()),
            ("buffer_most_bytes", h.used_most),
            ("xoff", c.xoff),
            ("busy_ns", c.busy_ns),
            ("latency_p50_ns", h.latency_share(50)),
            ("latency_p99_ns", h.latency_share(99)),
            ("latency_most_ns", h.latency_most),
        ],
    }
}
