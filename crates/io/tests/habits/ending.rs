//! RSTs, closes, and a Linux that sends data of its own: habits 2, 9 and 10.
//!
//! Source: docs/formats/simplified-tcp.md section 22.

use std::io::Write;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::segment::{ACK, FIN, PSH, RST, Segment};
use super::{Call, Stage, WITH_MSS, assert_answered_seldom};

#[test]
fn h02_a_rst_with_the_exact_number_ends_it_whatever_its_ack() {
    let Some(stage) = Stage::new() else { return };
    let acks: [fn(&Call) -> u32; 3] = [|call| call.ack, |call| call.ack.wrapping_add(77), |_| 0];
    let cases = acks.iter().flat_map(|ack| [(RST, ack), (RST | ACK, ack)]);
    for (port, (flags, ack)) in (10..).zip(cases) {
        let (call, mut peer) = stage.connected(port);
        call.send(&Segment { ack: ack(&call), ..call.made(flags, &[]) });
        assert_eq!(call.drawn(), []);
        call.assert_reset(&mut peer);
    }
}

/// A RST so many bytes after the exact number.
fn rst(call: &Call, away: u32) -> Segment {
    Segment { seq: call.seq.wrapping_add(away), ..call.made(RST, &[]) }
}

#[test]
fn h02_a_rst_elsewhere_in_the_window_is_challenged_and_no_more_than_once_in_500_ms() {
    let Some(stage) = Stage::new() else { return };
    for (port, away) in [(10, 1), (11, 1000), (12, 62_719)] {
        let (mut call, mut peer) = stage.connected(port);
        call.send(&rst(&call, away));
        call.assert_ack(&call.one());
        call.assert_alive(&mut peer);
    }
    let (mut call, mut peer) = stage.connected(13);
    assert_answered_seldom(&call, &rst(&call, 1));
    call.assert_alive(&mut peer);
}

#[test]
fn h02_a_rst_outside_the_window_is_ignored() {
    let Some(stage) = Stage::new() else { return };
    let (mut call, mut peer) = stage.connected(10);
    for away in [u32::MAX, 1000_u32.wrapping_neg(), 0x1000_0000, 0x7fff_0000] {
        call.send(&rst(&call, away));
        assert_eq!(call.drawn(), [], "{away} away");
    }
    call.assert_alive(&mut peer);
}

/// Time from a first segment to its second repetition, less what the clock takes: 200 and 400 ms.
const TWICE_AGAIN: Duration = Duration::from_millis(500);

#[test]
fn h09_a_close_sends_a_fin_three_times_and_data_then_draws_a_rst() {
    let Some(stage) = Stage::new() else { return };
    let (mut call, peer) = stage.connected(10);
    let begin = Instant::now();
    drop(peer);
    let fin = call.one_repeated();
    assert_eq!((fin.flags, fin.seq, fin.ack), (FIN | ACK, call.ack, call.seq));
    (0..2).for_each(|_| assert_eq!(call.next("the FIN again"), fin));
    assert!(begin.elapsed() > TWICE_AGAIN, "{:?}", begin.elapsed());
    call.send_data(PSH, b"!");
    let drawn = call.drawn_besides(&fin);
    assert_eq!(drawn.len(), 1, "{drawn:?}");
    assert_eq!((drawn[0].flags & RST, drawn[0].seq), (RST, call.ack));
}

/// Three probes of our closed window come, and nothing else; each is answered.
fn probed(call: &Call) -> Segment {
    let expected = Call { seq: call.seq, ack: call.ack.wrapping_sub(1), ..*call };
    let probes = [(); 3].map(|()| {
        let probe = call.next("a probe");
        expected.assert_ack(&probe);
        call.send_ack();
        probe
    });
    probes[0].clone()
}

#[test]
fn h09_a_close_with_our_window_closed_sends_probes_and_no_fin() {
    let Some(stage) = Stage::new() else { return };
    let mut call = Call { window: 0, ..stage.call(10) };
    let peer = call.connect(&WITH_MSS);
    drop(peer);
    let probe = probed(&call);
    // It was the window that held it.
    call.window = 65535;
    call.send_ack();
    let fins = call.drawn_besides(&probe);
    assert!(!fins.is_empty());
    for fin in fins {
        assert_eq!((fin.flags, fin.seq, fin.ack), (FIN | ACK, call.ack, call.seq));
    }
}

#[test]
fn h09_a_shutdown_sends_a_fin_and_data_is_still_acknowledged() {
    let Some(stage) = Stage::new() else { return };
    let (mut call, mut peer) = stage.connected(10);
    peer.shutdown(Shutdown::Write).unwrap();
    let fin = call.one_repeated();
    assert_eq!((fin.flags, fin.seq, fin.ack), (FIN | ACK, call.ack, call.seq));
    call.ack = call.ack.wrapping_add(1);
    call.send_ack();
    assert_eq!(call.drawn_besides(&fin), []);
    call.assert_alive(&mut peer);
}

#[test]
fn h09_a_close_without_lingering_or_with_unread_data_sends_a_rst_with_the_exact_number() {
    let Some(stage) = Stage::new() else { return };
    for (port, unread) in [(10, false), (11, true)] {
        let (mut call, peer) = stage.connected(port);
        if unread {
            call.send_data(PSH, b"FEROL");
            call.assert_ack(&call.one());
        } else {
            SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
        }
        drop(peer);
        let rst = call.one();
        assert_eq!((rst.flags, rst.seq, rst.ack), (RST | ACK, call.ack, call.seq));
    }
}

#[test]
fn h10_what_the_peer_writes_comes_with_psh_and_is_repeated() {
    let Some(stage) = Stage::new() else { return };
    let (mut call, mut peer) = stage.connected(10);
    let written: Vec<u8> = (0..3000u32).map(|at| (at / 7) as u8).collect();
    let begin = Instant::now();
    peer.write_all(&written).unwrap();
    let first = call.next("what was written");
    assert_eq!((first.flags, first.seq, first.ack), (PSH | ACK, call.ack, call.seq));
    assert!(first.payload == written);
    assert_eq!(call.next("the same again"), first);
    // After 200 ms, less what the clock takes.
    assert!(begin.elapsed() > Duration::from_millis(180), "{:?}", begin.elapsed());
    call.ack = call.ack.wrapping_add(3000);
    call.send_ack();
    assert_eq!(call.drawn_besides(&first), []);
    call.assert_alive(&mut peer);
}

#[test]
fn h10_a_closed_window_draws_probes() {
    let Some(stage) = Stage::new() else { return };
    let mut call = Call { window: 0, ..stage.call(10) };
    let mut peer = call.connect(&WITH_MSS);
    peer.write_all(&[7; 3000]).unwrap();
    probed(&call);
    call.window = 65535;
    call.send_ack();
    // It was the window that held it.
    assert_eq!(call.next_new("what was written").payload, [7; 3000]);
}

/// A window field of 1 and our scale 7.
#[test]
fn h10_a_window_of_128_bytes_draws_128_bytes() {
    let Some(stage) = Stage::new() else { return };
    let mut call = Call { window: 1, ..stage.call(10) };
    let mut peer = call.connect(&[2, 4, 0x23, 0, 1, 3, 3, 7]);
    peer.write_all(&[7; 3000]).unwrap();
    for _ in 0..3 {
        let some = call.next_new("what was written");
        assert_eq!(some.payload.len(), 128, "{some:?}");
        assert_eq!(call.drawn_besides(&some), []);
        call.ack = call.ack.wrapping_add(128);
        call.send_ack();
    }
}
