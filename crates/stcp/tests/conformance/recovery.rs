//! Statements 25 to 31.

use fullcount_stcp::receiver::{ModelReceiver, ReceiverSetup};
use fullcount_stcp::settings::Resend;
use fullcount_stcp::{Ended, Notice, Outbound, StcpSettings, StcpState};

use crate::rig::*;

const W: u32 = 1024;

/// `n` full segments are in flight.
fn flight(settings: StcpSettings, n: u64) -> Rig {
    let mut rig = Rig::connected(settings, 1 << 20);
    rig.submit(8960 * n);
    assert_eq!(rig.sizes(), vec![8960; n as usize]);
    rig
}

fn places(out: &[Outbound]) -> Vec<u64> {
    out.iter().map(|o| o.offset / 8960).collect()
}

#[test]
fn s25_no_sample_of_what_was_sent_twice() {
    let mut rig = flight(StcpSettings::daq(), 1);
    let rto = rig.s.snapshot().rto_ns;
    let (_, out) = rig.until_sent();
    assert_eq!(out.len(), 1);
    rig.t += 50 * US;
    rig.give(rig.ack(8960, W));
    let s = rig.s.snapshot();
    assert_eq!((s.rtt.samples, s.rto_ns), (1, 2 * rto));
    // A valid sample ends the doubling.
    rig.submit(8960);
    rig.all();
    rig.t += 100 * US;
    rig.give(rig.ack(8960 * 2, W));
    let s = rig.s.snapshot();
    assert_eq!((s.rtt.samples, s.rto_ns), (2, rto));
}

#[test]
fn s26_silence_doubles_the_time_and_ends() {
    let mut rig = flight(StcpSettings::daq(), 1);
    let begin = rig.t;
    let rto = rig.s.snapshot().rto_ns;
    let mut times = vec![];
    let mut last = vec![];
    while last.is_empty() {
        let (t, out) = rig.until_sent();
        match out[0].flags.has(fullcount_stcp::wire::TcpFlags::RST) {
            true => last = out,
            false => times.push(t - begin),
        }
    }
    let expected: Vec<u64> = (1..=8).map(|k| rto * ((1 << k) - 1)).collect();
    assert_eq!(times[..8], expected);
    assert!(times.windows(2).all(|w| w[1] - w[0] <= S));
    assert_eq!(rig.t - begin, 7 * S);
    assert_eq!(last.len(), 2);
    assert_eq!(rig.notices(), [Notice::Slow, Notice::Aborted(Ended::SendTimeout)]);
}

/// A window below a segment, more data behind it, and a peer that died: the override of silly windows sends again and again, and is no
/// progress.
#[test]
fn s26_a_small_window_of_a_dead_peer_ends_too() {
    for resend in [Resend::GoBackN, Resend::First] {
        let settings = StcpSettings { resend, ..StcpSettings::daq() };
        let mut rig = Rig::connected(settings, 20_000);
        rig.submit(100_000);
        assert_eq!(rig.sizes(), [8960, 8960]);
        rig.give(rig.ack(17_920, 5000));
        let begin = rig.t;
        while rig.s.state() == StcpState::Established && rig.t < begin + 60 * S {
            rig.until_sent();
        }
        assert!(rig.notices().contains(&Notice::Aborted(Ended::SendTimeout)), "{resend:?}");
        assert!((7 * S..8 * S).contains(&(rig.t - begin)), "{resend:?}: {}", rig.t - begin);
    }
}

/// What is held back by a closed window whose probes are answered is no lack of progress, even if it began with an expiry.
#[test]
fn s26_answers_to_probes_keep_the_connection() {
    let mut rig = Rig::connected(StcpSettings::daq(), 20_000);
    rig.submit(100_000);
    assert_eq!(rig.sizes(), [8960, 8960]);
    let (_, out) = rig.until_sent();
    assert_eq!((out[0].offset, rig.counters().rto_expired), (0, 1));
    // The receiver drops it all, and closes its window.
    rig.give(rig.ack(0, 0));
    while rig.counters().probes == 0 {
        rig.until_sent();
    }
    let begin = rig.t;
    while rig.t < begin + 20 * S {
        rig.give(rig.ack(0, 0));
        rig.until_sent();
    }
    // It opens again, and its first ACK is late.
    rig.give(rig.ack(0, 20_000));
    assert_eq!(rig.sizes(), [8960, 8960]);
    rig.until_sent();
    assert_eq!(rig.s.state(), StcpState::Established);
    rig.give(rig.ack(17_920, 20_000));
    assert_eq!(rig.sizes(), [8960, 8960]);
}

/// Counted as sent again after the retransmission timer is only what it sent again.
#[test]
fn again_rto_counts_what_the_timer_repeated() {
    use fullcount_stcp::wire::icmp::IcmpKind;
    // The byte of a probe, which the receiver did not take.
    let mut rig = Rig::connected(StcpSettings::daq(), 20_000);
    rig.submit(100_000);
    rig.all();
    rig.give(rig.ack(17_920, 0));
    assert!(rig.all().is_empty());
    rig.until_sent();
    assert_eq!(rig.counters().probes, 1);
    rig.give(rig.ack(17_920, 60_000));
    assert_eq!(rig.sizes(), [8960; 6]);
    assert_eq!((rig.counters().again_rto, rig.counters().again_bytes), (0, 1));
    // A smaller MSS.
    let mut rig = flight(StcpSettings::daq(), 3);
    rig.s.icmp(rig.t, IcmpKind::TooBig(1500), rig.seq(0));
    assert_eq!(rig.all()[0].length, 1460);
    let c = rig.counters();
    // The tail of it waits, by Nagle.
    assert_eq!((c.again_rto, c.again_bytes), (0, 18 * 1460));
    // The timer; a unit of several segments goes beyond what was sent before.
    let mut rig = flight(StcpSettings::daq(), 2);
    rig.wait();
    rig.submit(8960 * 2);
    let unit = rig.s.poll(rig.t, 65_535).unwrap();
    assert_eq!((unit.offset, unit.length), (0, 8960 * 4));
    let c = rig.counters();
    assert_eq!((c.again_rto, c.again_bytes, c.segments), (2, 2 * 8960, 6));
}

#[test]
fn s27_the_third_duplicate_repeats_one_segment() {
    let mut rig = flight(StcpSettings::daq(), 10);
    for n in 1..=20 {
        rig.give(rig.ack(0, W));
        let out = rig.all();
        assert_eq!(places(&out), if n == 3 { vec![0] } else { vec![] }, "{n}");
    }
    assert_eq!((rig.counters().again_fast, rig.counters().rto_expired), (1, 0));
}

#[test]
fn s28_two_duplicates_or_other_windows_repeat_nothing() {
    let mut rig = flight(StcpSettings::daq(), 10);
    for una in [0, 0, 8960, 8960, 8960, 17920] {
        rig.give(rig.ack(una, W));
        assert!(rig.all().is_empty());
    }
    let before = rig.counters().window_updates;
    for window in [W - 1, W - 2, W - 3, W - 4, W - 5] {
        rig.give(rig.ack(17920, window));
        assert!(rig.all().is_empty());
    }
    assert_eq!(rig.counters().window_updates - before, 5);
}

#[test]
fn s29_a_partial_ack_repeats_the_next_hole() {
    let mut rig = flight(StcpSettings::daq(), 10);
    for _ in 0..3 {
        rig.give(rig.ack(0, W));
    }
    assert_eq!(places(&rig.all()), [0]);
    rig.t += 100 * US;
    rig.give(rig.ack(8960 * 4, W));
    assert_eq!(places(&rig.all()), [4]);
    rig.give(rig.ack(8960 * 10, W));
    assert!(rig.all().is_empty());
    assert_eq!(rig.counters().again_partial, 1);
}

#[test]
fn s30_what_the_receiver_holds_is_not_repeated() {
    let mut rig = flight(StcpSettings::daq(), 10);
    rig.wait();
    let first = rig.s.poll(rig.t, ONE).unwrap();
    assert_eq!(first.offset, 0);
    rig.give(rig.ack(8960 * 7, W));
    assert_eq!(places(&rig.all()), [7, 8, 9]);
}

#[test]
fn first_only_repeats_one_for_each_ack() {
    let mut rig = flight(StcpSettings { resend: Resend::First, ..StcpSettings::daq() }, 10);
    let (_, out) = rig.until_sent();
    assert_eq!(places(&out), [0]);
    rig.give(rig.ack(8960, W));
    assert_eq!(places(&rig.all()), [1]);
    rig.give(rig.ack(8960 * 10, W));
    assert!(rig.all().is_empty());
}

#[test]
fn s31_reordering_by_two_repeats_nothing_and_by_three_one() {
    for (by, repeats) in [(2, 0), (3, 1)] {
        let mut rig = Rig::connected(StcpSettings::daq(), 1 << 20);
        let mut peer = ModelReceiver::<16>::new(ReceiverSetup {
            iss: IRS,
            buffer: 1 << 20,
            ..ReceiverSetup::default()
        });
        let mut twin = Rig::closed(StcpSettings::daq());
        twin.s.open(0, ISS, true).unwrap();
        peer.receive(0, &twin.all()[0]);
        rig.submit(8960 * 10);
        let mut out = rig.all();
        let late = out.remove(0);
        out.insert(by, late);
        let mut extra = vec![];
        for o in out {
            if let Some(ack) = deliver(&rig, &mut peer, &o) {
                rig.give(ack);
                extra.extend(rig.all());
            }
        }
        assert_eq!((extra.len(), peer.in_order()), (repeats, 89_600));
    }
}

/// What a sender measures beside its counters: least and greatest, and the fragments that arrived.
#[test]
fn what_was_measured_has_its_least_and_its_greatest() {
    let mut rig = Rig::connected(StcpSettings::daq(), 1 << 20);
    rig.submit(8960);
    rig.submit(8960);
    rig.all();
    rig.t += 300 * US;
    rig.give(rig.ack(8960, 500));
    rig.t += 700 * US;
    rig.give(rig.ack(8960 * 2, W));
    let h = rig.s.memory().histograms;
    // The SYN took 100 µs.
    assert_eq!((h.rtt.least(), h.rtt.most()), (100 * US, 300 * US));
    assert_eq!((h.window.least(), h.window.most()), (500 << 10, 1 << 20));
    assert_eq!((h.used_most, h.shift_most), (8960 * 2, 0));
    assert_eq!((h.latency_most, h.latency_share(50), h.latency_share(99)), (MS, 1 << 19, MS));
    let c = rig.counters();
    assert_eq!((c.fragments, c.acked_fragments), (2, 2));
    let none = fullcount_stcp::StcpHistograms::default();
    assert_eq!((none.rtt.least(), none.window.most(), none.latency_share(99)), (0, 0, 0));
    // Half of the next one arrives, then the connection ends; the shift is that of the expiries.
    rig.submit(8960 * 2);
    rig.all();
    rig.until_sent();
    rig.give(rig.ack(8960 * 3, W));
    assert_eq!((rig.counters().fragments, rig.counters().acked_fragments), (3, 2));
    assert_eq!(rig.s.memory().histograms.shift_most, 1);
}

/// Fragments that share a mark are acknowledged with the last of them.
#[test]
fn fragments_are_counted_with_few_marks_too() {
    let mut rig = Rig::connected(StcpSettings::daq(), 1 << 20);
    for _ in 0..1000 {
        rig.submit(100);
    }
    rig.s.flush();
    rig.all();
    rig.give(rig.ack(50_000, W));
    let some = rig.counters().acked_fragments;
    assert!((200..=500).contains(&some), "{some}");
    rig.give(rig.ack(100_000, W));
    assert_eq!((rig.counters().acked_fragments, rig.counters().marks_merged), (1000, 744));
}
