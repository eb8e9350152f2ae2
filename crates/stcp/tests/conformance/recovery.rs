//! Statements 25 to 31.

use fullcount_stcp::receiver::{ModelReceiver, ReceiverSetup};
use fullcount_stcp::settings::Resend;
use fullcount_stcp::{Ended, Notice, Outbound, StcpSettings};

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
