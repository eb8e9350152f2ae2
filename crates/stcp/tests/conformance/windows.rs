//! Statements 17 to 23.

use fullcount_stcp::settings::PeerPolicy;
use fullcount_stcp::{Ended, Notice, StcpSettings, StcpState};

use crate::rig::*;

#[test]
fn s17_the_remainder_of_a_window_is_withheld() {
    let mut rig = Rig::connected(StcpSettings::default(), 20_000);
    rig.submit(100_000);
    assert_eq!(rig.sizes(), [8960, 8960]);
    // The window opens.
    rig.give(rig.ack(0, 30_000));
    assert_eq!(rig.sizes(), [8960]);
    // Or the timer of 200 ms fires; the retransmission time is 200 ms as well, so this one is longer.
    let settings = StcpSettings { sws_override_us: 100_000, ..StcpSettings::default() };
    let mut rig = Rig::connected(settings, 20_000);
    rig.submit(100_000);
    assert_eq!(rig.sizes(), [8960, 8960]);
    let begin = rig.t;
    let (t, out) = rig.until_sent();
    assert_eq!((t - begin, out[0].length), (100 * MS, 2080));
}

/// A closed window with data that waits.
fn closed_window(settings: StcpSettings) -> Rig {
    let mut rig = Rig::connected(settings, 20_000);
    rig.submit(100_000);
    rig.all();
    rig.give(rig.ack(17_920, 0));
    assert!(rig.all().is_empty());
    rig
}

#[test]
fn s18_probes_of_one_byte_double_their_interval() {
    let mut rig = closed_window(StcpSettings::daq());
    let begin = rig.t;
    let mut times = vec![];
    for _ in 0..1000 {
        let (t, out) = rig.until_sent();
        times.push(t);
        assert_eq!((out.len(), out[0].length, out[0].offset), (1, 1, 17_920));
        rig.give(rig.ack(17_920, 0));
        assert!(rig.all().is_empty());
    }
    let steps: Vec<u64> = times.windows(2).map(|w| (w[1] - w[0]) / MS).collect();
    assert_eq!(times[0] - begin, 5 * MS);
    assert_eq!(steps[..6], [10, 20, 40, 80, 100, 100]);
    assert_eq!(rig.s.state(), StcpState::Established);
    let c = rig.counters();
    assert_eq!((c.probes, c.probe_answers, c.duplicate_acks, c.again_fast), (1000, 1000, 0, 0));
    assert_eq!(rig.s.snapshot().rtt.samples, 2);
}

#[test]
fn s19_silence_to_probes_ends_the_connection() {
    let mut rig = closed_window(StcpSettings::daq());
    let begin = rig.t;
    while rig.s.state() == StcpState::Established {
        rig.until_sent();
    }
    assert!(rig.notices().contains(&Notice::Aborted(Ended::PeerDead)));
    assert!((7 * S..8 * S).contains(&(rig.t - begin)), "{}", rig.t - begin);
}

#[test]
fn s20_the_answer_to_a_probe_repairs_a_lost_update() {
    for taken in [0, 1] {
        let mut rig = closed_window(StcpSettings::daq());
        rig.until_sent();
        rig.give(rig.ack(17_920 + taken, 60_000));
        let out = rig.all();
        assert_eq!((out[0].offset, out[0].length, out.len()), (17_920 + taken, 8960, 6));
    }
}

#[test]
fn s21_no_silly_windows() {
    let mut rig = Rig::connected(StcpSettings::default(), 64_000);
    rig.submit(500_000);
    assert_eq!(rig.sizes(), [8960; 7]);
    rig.give(rig.ack(62_720, 0));
    let begin = rig.t;
    for step in 1..80 {
        rig.give(rig.ack(62_720, step * 100));
        rig.t += MS;
        assert!(rig.all().is_empty(), "window of {}", step * 100);
    }
    let (t, out) = rig.until_sent();
    assert_eq!((t - begin, out[0].length), (200 * MS, 7900));
    // A receiver that never had much: half of it leaves.
    let mut rig = Rig::connected(StcpSettings::default(), 1000);
    rig.submit(5000);
    assert_eq!(rig.sizes(), [1000]);
    rig.give(rig.ack(1000, 499));
    assert!(rig.all().is_empty());
    rig.give(rig.ack(1000, 500));
    assert_eq!(rig.sizes(), [500]);
}

/// The window closes at the moment of the override: what it allowed is not kept for the next window.
#[test]
fn s21_an_override_ends_with_its_window() {
    let settings = StcpSettings { sws_override_us: 100_000, ..StcpSettings::default() };
    let mut rig = Rig::connected(settings, 20_000);
    rig.submit(100_000);
    assert_eq!(rig.sizes(), [8960, 8960]);
    rig.t += 100 * MS;
    rig.give(rig.ack(17_920, 0));
    assert!(rig.all().is_empty());
    rig.give(rig.ack(17_920, 100));
    assert!(rig.all().is_empty(), "100 bytes are a silly window");
    let begin = rig.t;
    let (t, out) = rig.until_sent();
    assert_eq!((t - begin, out[0].length), (100 * MS, 100));
}

#[test]
fn s26_a_silly_window_holds_no_repetition_back() {
    let mut rig = Rig::connected(StcpSettings::daq(), 20_000);
    rig.give(rig.ack(0, 100));
    rig.submit(1000);
    assert!(rig.all().is_empty());
    let (mut last, out) = rig.until_sent();
    assert_eq!((out.len(), out[0].length), (1, 100));
    for rto in [5 * MS, 10 * MS, 20 * MS] {
        let (t, out) = rig.until_sent();
        assert_eq!((t - last, out.len(), out[0].offset, out[0].length), (rto, 1, 0, 100));
        last = t;
    }
}

#[test]
fn s22_a_window_that_shrinks_is_obeyed() {
    let mut rig = Rig::connected(StcpSettings::default(), 60_000);
    rig.submit(200_000);
    assert_eq!(rig.sizes(), [8960; 6]);
    rig.give(rig.ack(0, 10_000));
    assert!(rig.all().is_empty());
    // Repeated is only what the window still takes.
    let (_, out) = rig.until_sent();
    assert!(out.iter().all(|o| o.offset + u64::from(o.length) <= 10_000), "{out:?}");
    rig.give(rig.ack(8960, 0));
    for _ in 0..5 {
        let (_, out) = rig.until_sent();
        assert!(out.iter().all(|o| (o.offset, o.length) == (8960, 1)), "{out:?}");
        rig.give(rig.ack(8960, 0));
    }
    rig.give(rig.ack(53_760, 60_000));
    assert_eq!(rig.all()[0].offset, 53_760);
}

#[test]
fn s23_an_old_ack_does_not_move_the_window() {
    let mut rig = Rig::connected(StcpSettings::default(), 60_000);
    rig.submit(200_000);
    rig.all();
    rig.give(rig.ack(17_920, 20_000));
    rig.give(rig.ack(8960, 65_535));
    assert_eq!((rig.s.snapshot().window, rig.counters().old_acks), (20_000, 1));
}

/// A segment of a stranger with a number inside the window must not freeze the peer's window.
#[test]
fn a_high_number_does_not_hold_back_the_peer() {
    let mut rig =
        closed_window(StcpSettings { on_data: PeerPolicy::Tolerate, ..StcpSettings::daq() });
    let mut blind = rig.ack(17_920, 0);
    blind.seq += 30_000;
    rig.give(blind);
    rig.give(rig.ack(17_920, 60_000));
    assert_eq!(rig.s.snapshot().window, 0);
    // The next probe is taken, and its ACK is newer than anything.
    let (_, out) = rig.until_sent();
    assert_eq!(out[0].length, 1);
    rig.give(rig.ack(17_921, 60_000));
    assert_eq!(rig.all().len(), 6);
}
