//! Statements 1 to 10.

use fullcount_stcp::sender::initial_number;
use fullcount_stcp::wire::{Addresses, Inbound, TcpFlags};
use fullcount_stcp::{Ended, Notice, StcpSettings, StcpState};

use crate::rig::*;

#[test]
fn s01_open_sends_one_syn_with_mss_and_scale() {
    let mut rig = Rig::closed(StcpSettings::default());
    rig.s.open(0, ISS, true).unwrap();
    let out = rig.all();
    assert_eq!(out.len(), 1);
    assert_eq!((out[0].seq, out[0].ack, out[0].flags), (ISS, 0, TcpFlags::SYN));
    assert_eq!((out[0].options, out[0].length, out[0].window), (Some((8960, 0)), 0, 65535));
    assert_eq!(rig.s.state(), StcpState::SynSent);
    assert!(rig.s.open(0, ISS, true).is_err());
}

#[test]
fn s01_no_syn_before_the_neighbour_is_known() {
    let mut rig = Rig::closed(StcpSettings::default());
    rig.s.open(0, ISS, false).unwrap();
    assert!(rig.all().is_empty());
    rig.t = 5 * S;
    rig.s.neighbour(rig.t, true);
    assert_eq!(rig.all().len(), 1);
    let mut rig = Rig::closed(StcpSettings::default());
    rig.s.open(0, ISS, false).unwrap();
    rig.s.neighbour(30 * S, false);
    assert_eq!(rig.notices(), [Notice::Aborted(Ended::HostUnreachable)]);
}

#[test]
fn s02_syns_double_their_interval_and_give_up() {
    for (settings, times, end) in [
        (StcpSettings::default(), vec![0, 1, 3, 7, 15, 31, 63, 127], 180),
        (StcpSettings::daq(), vec![0, 2, 6], 7),
    ] {
        let mut rig = Rig::closed(settings);
        rig.s.open(0, ISS, true).unwrap();
        let mut seen = vec![];
        while rig.s.state() == StcpState::SynSent {
            for o in rig.all() {
                assert_eq!((o.seq, o.flags), (ISS, TcpFlags::SYN));
                seen.push(rig.t / S);
            }
            if rig.s.state() == StcpState::SynSent {
                rig.wait();
            }
        }
        assert_eq!((seen, rig.t), (times, end * S));
        assert_eq!(rig.notices(), [Notice::Aborted(Ended::ConnectTimeout)]);
    }
}

#[test]
fn s03_syn_ack_connects_once() {
    let mut rig = Rig::opening(StcpSettings::default());
    rig.t = 100 * US;
    rig.give(syn_ack(ISS, 62720, Some(8960), Some(10)));
    let out = rig.all();
    assert_eq!(out.len(), 1);
    assert_eq!((out[0].seq, out[0].ack, out[0].flags), (ISS + 1, IRS + 1, TcpFlags::ACK));
    assert_eq!(rig.notices(), [Notice::Connected]);
    rig.give(syn_ack(ISS, 62720, Some(8960), Some(10)));
    // The repeated one draws an ACK and nothing else.
    assert_eq!(rig.all().iter().map(|o| o.flags).collect::<Vec<_>>(), [TcpFlags::ACK]);
    assert!(rig.notices().is_empty());
}

#[test]
fn s04_a_wrong_ack_is_reset_and_the_syn_repeated_soon() {
    let mut rig = Rig::opening(StcpSettings::default());
    for _ in 0..5 {
        rig.give(Inbound { ack: 77, ..syn_ack(ISS, 1000, None, None) });
    }
    let out = rig.all();
    assert!(out.iter().all(|o| (o.seq, o.ack, o.flags) == (77, 0, TcpFlags::RST)));
    assert_eq!((out.len(), rig.s.state()), (4, StcpState::SynSent));
    let (t, out) = rig.until_sent();
    assert_eq!((t, out[0].flags, out[0].seq), (10 * MS, TcpFlags::SYN, ISS));
    // Once in a period of the SYN timer.
    rig.give(Inbound { ack: 77, ..syn_ack(ISS, 1000, None, None) });
    assert_eq!(rig.all()[0].flags, TcpFlags::RST);
    let (t, out) = rig.until_sent();
    assert_eq!((t, out[0].flags), (S, TcpFlags::SYN));
}

#[test]
fn s05_a_reset_that_fits_refuses() {
    let reset = |ack: u32, flags| Inbound { ack, flags, ..Inbound::default() };
    let both = TcpFlags::RST.and(TcpFlags::ACK);
    let mut rig = Rig::opening(StcpSettings::default());
    rig.give(reset(ISS + 2, both));
    rig.give(reset(ISS + 1, TcpFlags::RST));
    assert_eq!((rig.s.state(), rig.all().len()), (StcpState::SynSent, 0));
    assert_eq!(rig.counters().resets_ignored, 2);
    rig.give(reset(ISS + 1, both));
    assert_eq!(rig.notices(), [Notice::Aborted(Ended::Refused)]);
    assert!(rig.all().is_empty());
}

#[test]
fn s06_the_window_of_the_syn_ack_is_not_scaled() {
    let mut rig = Rig::opening(StcpSettings::default());
    rig.give(syn_ack(ISS, 62720, Some(8960), Some(10)));
    assert_eq!(rig.s.snapshot().window, 62720);
    rig.give(rig.ack(0, 62));
    assert_eq!(rig.s.snapshot().window, 63488);
}

#[test]
fn s07_without_scale_and_with_too_much_of_it() {
    let mut rig = Rig::opening(StcpSettings::default());
    rig.give(syn_ack(ISS, 62720, Some(8960), None));
    rig.give(rig.ack(0, 1000));
    assert_eq!(rig.s.snapshot().window, 1000);
    let mut rig = Rig::opening(StcpSettings::default());
    rig.give(syn_ack(ISS, 62720, Some(8960), Some(15)));
    rig.give(rig.ack(0, 2));
    assert_eq!((rig.s.snapshot().window, rig.counters().scale_above_14), (2 << 14, 1));
}

/// RFC 7323, section 2.2: without the option in the SYN+ACK neither side scales.
#[test]
fn s07_the_own_window_is_scaled_only_if_the_peer_scales() {
    let settings = StcpSettings::daq();
    assert_eq!((settings.rcv_wnd, settings.ws_local), (65_535, 1));
    let near = Inbound { seq: IRS + 1 + 70_000, flags: TcpFlags::RST, ..Inbound::default() };
    for (scale, challenges, ignored) in [(None, 0, 1), (Some(0), 1, 1)] {
        let mut rig = Rig::opening(settings);
        rig.give(syn_ack(ISS, 62720, Some(8960), scale));
        rig.all();
        rig.give(near);
        assert_eq!((rig.all().len(), rig.s.state()), (challenges, StcpState::Established));
        assert_eq!(rig.counters().resets_ignored, ignored, "{scale:?}");
    }
}

#[test]
fn s08_mss_is_the_smaller_one_or_536() {
    for (peer, mss, small) in
        [(None, 536, 0), (Some(1460), 1460, 0), (Some(9960), 8960, 0), (Some(3), 64, 1)]
    {
        let mut rig = Rig::opening(StcpSettings::default());
        rig.give(syn_ack(ISS, 62720, peer, Some(0)));
        rig.all();
        rig.submit(50_000);
        assert_eq!(rig.sizes().iter().max(), Some(&mss));
        assert_eq!(rig.counters().small_mss, small);
    }
    let mut rig = Rig::opening(StcpSettings::default());
    rig.give(syn_ack(ISS, 62720, Some(0), Some(0)));
    assert_eq!(rig.notices(), [Notice::Aborted(Ended::PeerNonsense)]);
}

#[test]
fn s09_simultaneous_open_is_dropped() {
    let mut rig = Rig::opening(StcpSettings::default());
    rig.give(Inbound { ack: 0, flags: TcpFlags::SYN, ..syn_ack(ISS, 1, None, None) });
    assert_eq!((rig.all().len(), rig.s.state()), (0, StcpState::SynSent));
    assert_eq!(rig.counters().simultaneous, 1);
}

#[test]
fn s10_fragments_of_the_opening_are_sent_in_order() {
    let mut rig = Rig::opening(StcpSettings::default());
    for _ in 0..10 {
        rig.submit(1000);
    }
    assert!(rig.all().is_empty());
    rig.give(syn_ack(ISS, 62720, Some(8960), Some(0)));
    let out = rig.all();
    assert_eq!(out.iter().map(|o| o.length).collect::<Vec<_>>(), [0, 8960]);
    assert_eq!(rig.payload(&out[1]), (0..8960).map(byte).collect::<Vec<_>>());
    rig.give(rig.ack(8960, 62720));
    assert_eq!(rig.sizes(), [1040]);
}

#[test]
fn a_syn_ack_before_any_syn_is_of_somebody_else() {
    let mut rig = Rig::closed(StcpSettings::default());
    rig.s.open(0, ISS, false).unwrap();
    rig.give(syn_ack(ISS, 1000, None, None));
    assert_eq!((rig.s.state(), rig.all()[0].flags), (StcpState::SynSent, TcpFlags::RST));
}

/// RFC 6528: nobody who does not know the key can tell the next connection's number, and it moves on every 4 µs.
#[test]
#[allow(deprecated, reason = "the standard library's SipHash-2-4 has no other name")]
fn the_initial_number_is_a_keyed_hash_of_both_ends_and_a_clock() {
    use std::hash::Hasher;
    let ends = |local_port, remote_port| Addresses {
        local: [10, 0, 0, 9],
        local_port,
        remote: [10, 0, 0, 2],
        remote_port,
    };
    let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
    let number = |now_ns, ends, key| initial_number(now_ns, &ends, key);
    let mut hash = std::hash::SipHasher::new_with_keys(key[0], key[1]);
    for (address, port) in [([10, 0, 0, 9], 10u16), ([10, 0, 0, 2], 5000)] {
        let word = u64::from(u32::from_be_bytes(address)) << 16 | u64::from(port);
        hash.write(&word.to_le_bytes());
    }
    let first = number(0, ends(10, 5000), key);
    assert_eq!(first, hash.finish() as u32);
    assert_eq!(number(3_999, ends(10, 5000), key), first);
    assert_eq!(number(4_000, ends(10, 5000), key), first.wrapping_add(1));
    let others = [
        number(0, ends(11, 5000), key),
        number(0, ends(10, 5001), key),
        number(0, ends(10, 5000), [key[0] ^ 1, key[1]]),
        number(0, ends(10, 5000), [key[0], key[1] ^ 1]),
    ];
    assert!(others.iter().all(|other| *other != first), "{first}: {others:?}");
}
