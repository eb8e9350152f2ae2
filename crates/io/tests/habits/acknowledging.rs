//! When Linux acknowledges: habits 4, 5 and 6.
//!
//! Source: docs/formats/simplified-tcp.md sections 9.1 and 22.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::segment::{ACK, PSH};
use super::{Call, MSS, PATIENCE, Stage, TRIES, assert_answered_seldom};

#[test]
fn h04_an_empty_keep_alive_is_answered_once_in_500_ms_and_one_with_a_byte_always() {
    let Some(stage) = Stage::new() else { return };
    let (call, _peer) = stage.connected(10);
    let old = Call { seq: call.seq.wrapping_sub(1), ..call };
    assert_answered_seldom(&call, &old.made(ACK, &[]));
    let with_byte = old.made(ACK, &[0]);
    (0..20).for_each(|_| call.send(&with_byte));
    let answers = call.drawn();
    assert_eq!(answers.len(), 20);
    answers.iter().for_each(|answer| call.assert_ack(answer));
}

#[test]
fn h05_six_segments_out_of_order_draw_six_acks_and_the_missing_one_draws_one() {
    let Some(stage) = Stage::new() else { return };
    let (mut call, mut peer) = stage.connected(10);
    let missing = call.clone();
    let sent: Vec<u8> = (0..7 * MSS).map(|at| (at / 251) as u8).collect();
    call.seq = call.seq.wrapping_add(MSS as u32);
    sent[MSS..].chunks(MSS).for_each(|part| call.send_data(0, part));
    let answers = call.drawn();
    assert_eq!(answers.len(), 6, "{answers:?}");
    for answer in &answers {
        missing.assert_ack(answer);
        assert_eq!(answer.window, answers[0].window);
    }
    missing.send(&missing.made(ACK, &sent[..MSS]));
    call.assert_ack(&call.one());
    let mut read = vec![0; sent.len()];
    peer.read_exact(&mut read).unwrap();
    assert!(read == sent);
}

/// An ACK that took so long was delayed. Linux delays for 40 ms, of which a clock with 100 ticks a second may take 10.
const DELAYED: Duration = Duration::from_millis(25);

/// How a segment was acknowledged: at once, or later; and the time until the ACK was seen.
struct Acknowledged {
    at_once: bool,
    after: Duration,
}

/// Sends one segment. `reading`: the peer's program takes it as soon as it is there.
fn acknowledged(
    call: &mut Call,
    peer: &mut TcpStream,
    (flags, bytes): (u8, usize),
    reading: bool,
) -> Acknowledged {
    let begin = Instant::now();
    let mut room = vec![0; bytes];
    call.send_data(flags, &room);
    if reading {
        peer.read_exact(&mut room).unwrap();
    }
    let drawn = call.drawn();
    let at_once = !drawn.is_empty();
    let ack = drawn.into_iter().next().unwrap_or_else(|| call.next("a delayed ACK"));
    let after = begin.elapsed();
    call.assert_ack(&ack);
    Acknowledged { at_once, after }
}

/// How many segments without PSH Linux acknowledges at once before it delays; `None` if the host was too slow to tell.
fn allowance(call: &mut Call, peer: &mut TcpStream, bytes: usize) -> Option<usize> {
    let begin = Instant::now();
    for n in 0.. {
        let ack = acknowledged(call, peer, (0, bytes), true);
        if !ack.at_once {
            // Whatever the host does, an ACK that does not come at once does not come earlier.
            assert!(ack.after > DELAYED, "{:?}", ack.after);
            return Some(n);
        }
        if ack.after > DELAYED || begin.elapsed() > 4 * DELAYED {
            return None;
        }
    }
    None
}

#[test]
fn h06_a_new_connection_has_16_short_or_3_full_segments_acknowledged_at_once() {
    let Some(stage) = Stage::new() else { return };
    let mut ports = 10..;
    for (bytes, expected) in [(100, 16), (MSS, 3)] {
        let told = (0..TRIES).find_map(|_| {
            let (mut call, mut peer) = stage.connected(ports.next().unwrap());
            let told = allowance(&mut call, &mut peer, bytes);
            call.abort();
            told
        });
        assert_eq!(told, Some(expected), "segments of {bytes} bytes");
    }
}

/// A connection whose allowance is used up.
fn patient(stage: &Stage, port: u16) -> (Call<'_>, TcpStream) {
    let (mut call, mut peer) = stage.connected(port);
    let end = Instant::now() + PATIENCE;
    while acknowledged(&mut call, &mut peer, (0, 100), true).at_once {
        assert!(Instant::now() < end, "no ACK is ever delayed");
    }
    (call, peer)
}

/// Linux begins to acknowledge at once again after a silence of its least retransmission time, 200 ms.
const SILENCE: Duration = Duration::from_millis(150);

/// Whether three segments after each other are acknowledged as told; `None` if the host was too slow to tell.
fn holds(stage: &Stage, port: u16, (flags, reading, at_once): (u8, bool, bool)) -> Option<bool> {
    let mut before = Instant::now();
    let (mut call, mut peer) = patient(stage, port);
    for _ in 0..3 {
        let begin = Instant::now();
        let ack = acknowledged(&mut call, &mut peer, (flags, 100), reading);
        if before.elapsed() > SILENCE || (ack.at_once && ack.after > DELAYED) {
            return None;
        }
        assert!(ack.at_once || ack.after > DELAYED, "{:?}", ack.after);
        if ack.at_once != at_once {
            return Some(false);
        }
        before = begin;
    }
    call.abort();
    Some(true)
}

#[test]
fn h06_with_psh_and_a_reader_acks_come_at_once_and_else_later() {
    let Some(stage) = Stage::new() else { return };
    let mut ports = 10..;
    for case in [(PSH, true, true), (0, true, false), (PSH, false, false), (0, false, false)] {
        let told = (0..TRIES).find_map(|_| holds(&stage, ports.next().unwrap(), case));
        assert_eq!(told, Some(true), "flags, reading, at once: {case:?}");
    }
}

/// As in the sender with segmentation offload: units of two full segments.
#[test]
fn h06_each_unit_of_several_segments_draws_one_ack_in_order_or_not() {
    let Some(stage) = Stage::new() else { return };
    for (port, missing) in [(10, 0), (11, MSS)] {
        let (mut call, _peer) = stage.connected(port);
        let hole = call.clone();
        call.seq = call.seq.wrapping_add(missing as u32);
        for _ in 0..3 {
            stage.wire.send_unit(&call.made(ACK, &[0; 2 * MSS]), MSS as u16);
            call.seq = call.seq.wrapping_add(2 * MSS as u32);
            let expected = if missing == 0 { &call } else { &hole };
            expected.assert_ack(&call.one());
        }
    }
}
