//! Statements 38 to 46.

use fullcount_stcp::settings::PeerPolicy;
use fullcount_stcp::wire::icmp::IcmpKind;
use fullcount_stcp::wire::{
    Addresses, ChecksumTrust, Inbound, Packet, TcpFlags, WireError, ip, parse,
};
use fullcount_stcp::{Ended, Notice, Outbound, Pressure, StcpSettings, StcpState};

use crate::rig::*;

const RST_ACK: TcpFlags = TcpFlags(TcpFlags::RST.0 | TcpFlags::ACK.0);
const W: u32 = 60_000;

fn sending() -> Rig {
    let mut rig = Rig::connected(StcpSettings::default(), W);
    rig.submit(200_000);
    rig.all();
    rig
}

fn heads(out: &[Outbound]) -> Vec<(u32, TcpFlags)> {
    out.iter().map(|o| (o.seq, o.flags)).collect()
}

#[test]
fn s38_abort_is_one_reset_or_two() {
    let mut rig = Rig::connected(StcpSettings::default(), W);
    rig.s.abort(rig.t);
    let out = rig.all();
    assert_eq!(heads(&out), [(rig.seq(0), RST_ACK)]);
    assert_eq!((out[0].ack, out[0].window, rig.s.deadline()), (IRS + 1, 0, None));
    let mut rig = sending();
    rig.s.abort(rig.t);
    assert_eq!(heads(&rig.all()), [(rig.seq(53_760), RST_ACK), (rig.seq(0), RST_ACK)]);
    assert_eq!((rig.s.pressure(), rig.s.used()), (Pressure::Error, 0));
    assert_eq!(rig.notices(), [Notice::Aborted(Ended::LocalAbort)]);
    // At a second time nothing.
    rig.s.abort(rig.t);
    assert!(rig.all().is_empty() && rig.notices().is_empty());
}

#[test]
fn s39_a_reset_counts_at_the_exact_number_only() {
    let reset = |seq| Inbound { seq, flags: TcpFlags::RST, ..Inbound::default() };
    let mut rig = sending();
    rig.give(reset(IRS + 2));
    assert_eq!(
        rig.all().iter().map(|o| (o.flags, o.ack)).collect::<Vec<_>>(),
        [(TcpFlags::ACK, IRS + 1)]
    );
    rig.give(reset(IRS));
    rig.give(reset(IRS + 1 + 65535));
    assert_eq!((rig.all().len(), rig.s.state()), (0, StcpState::Established));
    assert_eq!(rig.counters().resets_ignored, 3);
    rig.give(reset(IRS + 1));
    assert_eq!(rig.notices(), [Notice::Aborted(Ended::ResetByPeer)]);
    assert!(rig.all().is_empty());
}

#[test]
fn s40_acks_out_of_range_free_nothing() {
    let mut rig = sending();
    for ack in [rig.seq(53_761), rig.seq(0).wrapping_sub(W + 1), rig.seq(1 << 30)] {
        rig.give(Inbound { ack, ..rig.ack(0, W) });
        assert_eq!(rig.all().len(), 1, "{ack}");
        assert_eq!(rig.s.used(), 200_000);
    }
    assert_eq!((rig.counters().acks_out_of_range, rig.counters().challenges), (3, 3));
}

#[test]
fn s41_syns_are_challenged_at_a_limited_rate() {
    let mut rig = sending();
    let syn = Inbound { flags: TcpFlags::SYN, ..rig.ack(0, W) };
    let mut answers = 0;
    for _ in 0..1000 {
        rig.give(syn);
        answers += rig.all().len();
    }
    assert_eq!((answers, rig.counters().challenges_spared), (10, 990));
    rig.t += S;
    rig.give(syn);
    assert_eq!(rig.all().iter().filter(|o| o.length == 0).count(), 1);
    // Without reading in between, what waits is bounded.
    rig.t += S;
    for _ in 0..1000 {
        rig.give(Inbound { seq: IRS, ..syn_ack(ISS, 1, None, None) });
    }
    assert!(rig.counters().dropped_controls > 0);
}

#[test]
fn s42_a_fin_ends_or_is_acknowledged() {
    let mut rig = sending();
    let fin = Inbound { flags: TcpFlags::FIN.and(TcpFlags::ACK), ..rig.ack(0, W) };
    rig.give(fin);
    assert_eq!(rig.all()[0].flags, RST_ACK);
    assert_eq!(rig.notices(), [Notice::Aborted(Ended::PeerClosed)]);
    let mut rig =
        Rig::connected(StcpSettings { on_fin: PeerPolicy::Tolerate, ..StcpSettings::default() }, W);
    rig.give(fin);
    let out = rig.all();
    assert_eq!((out.len(), out[0].flags, out[0].ack), (1, TcpFlags::ACK, IRS + 2));
    rig.submit(100);
    let out = rig.all();
    assert_eq!((out[0].length, out[0].ack), (100, IRS + 2));
    rig.give(Inbound { seq: IRS + 2, ..rig.ack(100, W) });
    assert_eq!(rig.s.snapshot().una, 100);
}

#[test]
fn s43_data_ends_or_is_counted() {
    let mut rig = sending();
    let data = Inbound { length: 10, ..rig.ack(0, W) };
    rig.give(data);
    assert_eq!(rig.notices(), [Notice::Aborted(Ended::PeerSentData)]);
    let mut rig = Rig::connected(
        StcpSettings { on_data: PeerPolicy::Tolerate, ..StcpSettings::default() },
        W,
    );
    rig.give(data);
    rig.give(data);
    assert!(rig.all().is_empty());
    assert_eq!(rig.counters().peer_data_bytes, 20);
    rig.submit(100);
    assert_eq!(rig.all()[0].ack, IRS + 1);
}

#[test]
fn s44_malformed_packets_are_dropped_and_named() {
    let ends = Addresses {
        local: [10, 77, 0, 2],
        remote: [10, 77, 0, 1],
        local_port: 5000,
        remote_port: 10,
    };
    let mut rig = Rig::opening(StcpSettings::default());
    let mut syn = Rig::closed(StcpSettings::default());
    syn.s.open(0, 7, true).unwrap();
    let syn = syn.all()[0];
    let mut header = [0; ip::HEADERS];
    let length = ip::write(&mut header, &ends, 1, &syn, (&[], &[]), false);
    let good = header[..length].to_vec();
    let own = ends.remote;
    assert!(
        matches!(parse(&good, own, ChecksumTrust::Check), Ok(Packet::Tcp { segment, .. }) if segment.mss == Some(8960))
    );
    let fix = |p: &mut Vec<u8>| {
        p[10..12].fill(0);
        let sum = fullcount_stcp::wire::checksum::Sum::default().with(&p[..20]).finish();
        p[10..12].copy_from_slice(&sum.to_be_bytes());
    };
    let with = |at: usize, to: u8, fixed: bool| {
        let mut p = good.clone();
        p[at] = to;
        if fixed {
            fix(&mut p);
        }
        p
    };
    let cases = [
        (with(45, 1, false), WireError::TcpChecksum),
        (with(8, 63, false), WireError::HeaderChecksum),
        (with(0, 0x65, true), WireError::NotIpv4),
        (with(0, 0x44, true), WireError::HeaderLength),
        (with(3, 255, true), WireError::TotalLength),
        (with(6, 0x20, true), WireError::IpFragment),
        (with(7, 1, true), WireError::IpFragment),
        (with(19, 9, true), WireError::OtherAddress),
        (with(9, 17, true), WireError::OtherProtocol),
        (with(32, 4 << 4, false), WireError::DataOffset),
        (with(32, 15 << 4, false), WireError::DataOffset),
        (good[..19].to_vec(), WireError::Short),
        // An IP packet that ends within the TCP header, or in front of it.
        (with(3, 39, true), WireError::Short),
        (with(3, 20, true), WireError::Short),
    ];
    for (packet, error) in cases {
        assert_eq!(parse(&packet, own, ChecksumTrust::Check), Err(error));
        rig.s.refused(error);
    }
    assert!(rig.all().is_empty());
    assert_eq!(rig.counters().refused.iter().sum::<u64>(), 14);
    // Option length 0: the walk stops, the segment counts.
    let mut odd = good.clone();
    odd[41] = 0;
    assert!(
        matches!(parse(&odd, own, ChecksumTrust::Partial), Ok(Packet::Tcp { segment, .. }) if segment.mss.is_none())
    );
    // Padding of a short frame.
    let padded = [&good[..], &[0; 12]].concat();
    assert!(parse(&padded, own, ChecksumTrust::Check).is_ok());
}

#[test]
fn s45_a_closed_port_answers_all_but_resets() {
    let mut rig = sending();
    rig.s.abort(rig.t);
    rig.all();
    rig.give(rig.ack(17_920, W));
    let out = rig.all();
    assert_eq!((heads(&out), out[0].ack), (vec![(rig.seq(17_920), TcpFlags::RST)], 0));
    rig.give(Inbound { flags: RST_ACK, ..rig.ack(0, W) });
    assert!(rig.all().is_empty());
    // Without ACK: of everything that it takes.
    rig.give(Inbound { flags: TcpFlags::SYN, seq: 5, length: 3, ..Inbound::default() });
    let out = rig.all();
    assert_eq!((out[0].seq, out[0].ack, out[0].flags), (0, 9, RST_ACK));
    for _ in 0..1000 {
        rig.give(rig.ack(0, W));
        rig.all();
    }
    assert_eq!(rig.counters().resets_spared, 1000 - 98);
}

#[test]
fn icmp_ends_only_what_it_quotes() {
    let mut rig = sending();
    rig.s.icmp(rig.t, IcmpKind::Soft, rig.seq(0));
    rig.s.icmp(rig.t, IcmpKind::Hard, rig.seq(60_000));
    rig.s.icmp(rig.t, IcmpKind::TooBig(300), rig.seq(0));
    assert_eq!((rig.s.state(), rig.s.snapshot().mss), (StcpState::Established, 8960));
    rig.s.icmp(rig.t, IcmpKind::TooBig(1500), rig.seq(100));
    assert_eq!(rig.all()[0].length, 1460);
    rig.s.icmp(rig.t, IcmpKind::Hard, rig.seq(100));
    assert_eq!(rig.notices(), [Notice::Aborted(Ended::IcmpError)]);
    let mut rig = Rig::opening(StcpSettings::default());
    rig.s.icmp(0, IcmpKind::Hard, ISS + 1);
    assert_eq!(rig.s.state(), StcpState::SynSent);
    rig.s.icmp(0, IcmpKind::Hard, ISS);
    assert_eq!(rig.notices(), [Notice::Aborted(Ended::IcmpError)]);
}

#[test]
fn keep_alive_finds_a_dead_peer_and_keeps_a_live_one() {
    let mut rig = Rig::connected(StcpSettings::daq(), W);
    rig.all();
    for _ in 0..20 {
        let (_, out) = rig.until_sent();
        assert_eq!((out.len(), out[0].seq, out[0].length), (1, rig.seq(0).wrapping_sub(1), 1));
        rig.give(rig.ack(0, W));
        assert!(rig.all().is_empty());
    }
    let begin = rig.t;
    let mut probes = 0;
    while rig.s.state() == StcpState::Established {
        rig.until_sent();
        probes += 1;
    }
    assert_eq!((probes - 1, (rig.t - begin) / S), (9, 19));
    assert_eq!(rig.notices(), [Notice::Aborted(Ended::PeerDead)]);
}
