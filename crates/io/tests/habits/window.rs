//! The window of a Linux receiver whose program does not read: habits 7 and 8.
//!
//! Source: docs/formats/simplified-tcp.md sections 11 and 22.

use std::io::Read;
use std::net::TcpStream;

use super::segment::{ACK, Segment};
use super::{Call, MSS, Stage};

/// What Linux grants to a program that does not read, after each full segment, where its window scale is 10.
const WINDOWS: [u32; 11] =
    [80_896, 72_704, 64_512, 56_320, 48_128, 39_936, 31_744, 23_552, 15_360, 7_168, 0];
/// Bytes that it takes then, all in all.
const TAKEN: usize = 96_768;

fn window(call: &Call, ack: &Segment) -> u32 {
    u32::from(ack.window) << call.scale
}

/// A connection whose window is closed, the peer's end, and the bytes it took: full segments, each after the last one's ACK.
fn filled(stage: &Stage) -> (Call<'_>, TcpStream, usize) {
    let (mut call, peer) = stage.connected(10);
    let (begin, mut windows) = (call.seq, vec![]);
    let (mut open, mut edge) = (MSS as u32, call.seq);
    while open > 0 {
        call.send_data(0, &vec![0; MSS.min(open as usize)]);
        let ack = call.next("an ACK");
        call.assert_ack(&ack);
        open = window(&call, &ack);
        windows.push(open);
        let now = call.seq.wrapping_add(open);
        assert!(now.wrapping_sub(edge) as i32 >= 0, "the edge moved left: {windows:?}");
        edge = now;
    }
    let taken = call.seq.wrapping_sub(begin) as usize;
    // A host that allows programs more than 32 MiB has a coarser scale.
    if call.scale == 10 {
        assert_eq!((taken, &windows[..]), (TAKEN, &WINDOWS[..]));
    }
    (call, peer, taken)
}

#[test]
fn h07_the_right_edge_never_moves_left_and_probes_of_a_closed_window_are_answered() {
    let Some(stage) = Stage::new() else { return };
    let (call, _peer, _) = filled(&stage);
    let probe = call.made(ACK, &[0]);
    (0..20).for_each(|_| call.send(&probe));
    let answers = call.drawn();
    assert_eq!(answers.len(), 20);
    for answer in answers {
        call.assert_ack(&answer);
        assert_eq!(answer.window, 0);
    }
}

#[test]
fn h08_the_window_opens_only_when_much_was_read() {
    let Some(stage) = Stage::new() else { return };
    let (call, mut peer, taken) = filled(&stage);
    let mut read = 0;
    let update = loop {
        let mut some = vec![0; 1000.min(taken - read)];
        assert!(!some.is_empty(), "all was read, and the window is still closed");
        peer.read_exact(&mut some).unwrap();
        read += some.len();
        match &call.drawn()[..] {
            [] => {}
            [update] => break update.clone(),
            more => panic!("{more:?}"),
        }
    };
    assert!(read > 38_000, "{read} of {taken}");
    call.assert_ack(&update);
    assert!(window(&call, &update) > 0);
}
