//! Statements 32, 33 and 37; 34 to 36 are in the lab.

use fullcount_stcp::{StcpSettings, Strategy};

use crate::rig::*;

const W: u32 = 512;
const WINDOW: u32 = 512 * 1024;

fn simplified() -> Rig {
    let mut rig = Rig::connected(StcpSettings::daq(), WINDOW);
    rig.submit(900_000);
    rig.all();
    rig
}

/// Something in flight is lost, found by duplicates, and repaired.
fn lose(rig: &mut Rig) {
    let before = rig.s.snapshot();
    for _ in 0..4 {
        rig.give(rig.ack(before.una, W));
        rig.all();
    }
    rig.give(rig.ack(before.max, W));
    while rig.s.room() > 8960 {
        rig.submit(8960);
    }
    rig.all();
}

#[test]
fn s32_each_window_with_a_loss_halves() {
    let mut rig = simplified();
    for k in 1..12 {
        lose(&mut rig);
        let s = rig.s.snapshot();
        assert_eq!(s.cwnd, (WINDOW >> k.min(9)).max(4 * 8960), "after {k}");
    }
    // Three partial ACKs within one window: one loss.
    let mut rig = simplified();
    for _ in 0..3 {
        rig.give(rig.ack(0, W));
    }
    rig.all();
    for hole in [5, 9, 13] {
        rig.t += 100 * US;
        rig.give(rig.ack(hole * 8960, W));
        assert_eq!(rig.all()[0].offset, hole * 8960);
    }
    assert_eq!(rig.s.snapshot().shift, 1);
}

#[test]
fn s33_clean_rounds_open_the_window_again() {
    let mut rig = simplified();
    for _ in 0..3 {
        lose(&mut rig);
    }
    assert_eq!(rig.s.snapshot().shift, 3);
    // Clean rounds after which the shift fell. The specification: 16 rounds for each step, so the window is neither closed for longer
    // nor open before. The first one ended with the ACK of all that was sent before the last loss.
    let (mut rounds, mut fell) = (1, Vec::new());
    while rig.s.snapshot().shift > 0 {
        let before = rig.s.snapshot();
        rig.t += 100 * US;
        rig.give(rig.ack(before.max, W));
        while rig.s.room() > 8960 {
            rig.submit(8960);
        }
        rig.all();
        rounds += 1;
        let now = rig.s.snapshot();
        if now.shift < before.shift {
            assert_eq!((now.shift + 1, now.cwnd), (before.shift, 2 * before.cwnd), "{rounds}");
            fell.push(rounds);
        } else {
            assert_eq!((now.shift, now.cwnd), (before.shift, before.cwnd), "{rounds}");
        }
        assert!(rounds <= 3 * 16, "{rounds}");
    }
    assert_eq!(fell, [16, 32, 48]);
    assert_eq!(rig.s.snapshot().cwnd, WINDOW);
}

#[test]
fn s37_a_lone_tail_is_no_congestion_the_first_time() {
    let mut rig = Rig::connected(StcpSettings::daq(), WINDOW);
    rig.submit(100);
    assert_eq!(rig.sizes(), [100]);
    for shift in [0, 1, 2] {
        let (_, out) = rig.until_sent();
        assert_eq!((out[0].length, rig.s.snapshot().shift), (100, shift));
    }
}

#[test]
fn static_and_reno_keep_their_windows() {
    let settings =
        StcpSettings { strategy: Strategy::Static { cwnd: 80_000 }, ..StcpSettings::daq() };
    let mut rig = Rig::connected(settings, WINDOW);
    rig.submit(500_000);
    assert_eq!(rig.sizes().len(), 8);
    let (_, out) = rig.until_sent();
    assert_eq!((out.len(), rig.s.snapshot().cwnd), (8, 80_000));
    // Less than a segment would stop it for ever.
    let settings =
        StcpSettings { strategy: Strategy::Static { cwnd: 1250 }, ..StcpSettings::daq() };
    let mut rig = Rig::connected(settings, WINDOW);
    rig.submit(500_000);
    assert_eq!(rig.sizes(), [8960]);

    let mut rig =
        Rig::connected(StcpSettings { strategy: Strategy::Reno, ..StcpSettings::daq() }, WINDOW);
    rig.submit(900_000);
    assert_eq!(rig.sizes().len(), 10);
    rig.t += 100 * US;
    rig.give(rig.ack(8960 * 2, W));
    assert_eq!(rig.sizes().len(), 4);
    for _ in 0..3 {
        rig.give(rig.ack(8960 * 2, W));
    }
    assert_eq!(rig.s.snapshot().cwnd, 6 * 8960 + 3 * 8960);
    rig.wait();
    rig.all();
    assert_eq!(rig.s.snapshot().cwnd, 8960);
}
