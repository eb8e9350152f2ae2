//! How Linux answers a SYN: habits 1, 3, 11, 12, 13 and 15.
//!
//! Source: docs/formats/simplified-tcp.md section 22.

use std::fs;
use std::io::Read;
use std::time::{Duration, Instant};

use super::segment::{ACK, PSH, RST, SYN, Segment};
use super::{BUFFERS, Call, Stage, WITH_MSS, WITH_SCALE};

/// The scale by which Linux can tell its greatest receive buffer: 10 for 32 MiB, more if the host allows programs more.
fn scale() -> u8 {
    let number = |text: &str| text.trim().parse::<u64>().unwrap();
    let allowed = number(&fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap());
    let greatest = allowed.max(number(BUFFERS.rsplit(' ').next().unwrap()));
    (greatest.ilog2() as u8 - 15).min(14)
}

/// The SYN+ACK that a SYN with these options draws.
fn answer_to(call: &Call, options: &[u8]) -> Segment {
    call.send_syn(options);
    let answer = call.one_repeated();
    let number = call.seq.wrapping_add(1);
    assert_eq!((answer.flags, answer.ack, answer.payload.len()), (SYN | ACK, number, 0));
    call.send(&Segment { seq: number, ..call.made(RST, &[]) });
    answer
}

#[test]
fn h01_the_answer_to_a_syn_has_its_own_mss_and_scale_and_a_scale_only_for_a_scale() {
    let Some(stage) = Stage::new() else { return };
    let with_scale = [2, 4, 0x23, 0, 1, 3, 3, scale()];
    for own in 0..=15 {
        let offered = [2, 4, 0x23, 0, 1, 3, 3, own];
        let answer = answer_to(&stage.call(100 + u16::from(own)), &offered);
        assert_eq!((answer.options, answer.window), (with_scale.to_vec(), 62_720), "scale {own}");
    }
    for (port, offered) in [(200, &WITH_MSS[..]), (201, &[])] {
        let answer = answer_to(&stage.call(port), offered);
        assert_eq!(answer.options, WITH_MSS, "offered {offered:x?}");
    }
}

#[test]
fn h03_a_syn_in_a_connection_is_challenged_and_after_a_rst_it_opens_another() {
    let Some(stage) = Stage::new() else { return };
    let (old, mut peer) = stage.connected(10);
    let mut new = Call { seq: old.seq.wrapping_add(0x4000_0000), ..old };
    new.send_syn(&WITH_SCALE);
    old.assert_ack(&new.one());
    old.send(&old.made(RST, &[]));
    assert_eq!(old.drawn(), []);
    old.assert_reset(&mut peer);
    let mut peer = new.connect(&WITH_SCALE);
    new.assert_alive(&mut peer);
}

#[test]
fn h11_a_port_without_listener_answers_with_a_rst() {
    let Some(stage) = Stage::new() else { return };
    // What marks the end of answers is such a SYN: its answer is compared there.
    assert_eq!(stage.wire.drawn(), []);
}

#[test]
fn h12_a_syn_that_is_repeated_draws_the_same_answer() {
    let Some(stage) = Stage::new() else { return };
    let mut call = stage.call(10);
    call.send_syn(&WITH_SCALE);
    let first = call.one_repeated();
    call.send_syn(&WITH_SCALE);
    assert_eq!(call.one_repeated(), first);
    call.take(&first);
    call.send_ack();
    call.assert_alive(&mut call.accepted());
}

/// The ACK of the handshake is lost: here it is never sent.
#[test]
fn h12_without_an_ack_the_answer_is_repeated_and_data_alone_completes_the_handshake() {
    let Some(stage) = Stage::new() else { return };
    let mut call = stage.call(10);
    let begin = Instant::now();
    call.send_syn(&WITH_SCALE);
    let first = call.one_repeated();
    let again = call.next("the SYN+ACK again");
    let after = begin.elapsed();
    assert_eq!(again, first);
    // After 1.02 s, of which clocks with 100 ticks a second may take some.
    assert!(after > Duration::from_millis(950), "{after:?}");
    call.take(&first);
    call.send_data(PSH, b"FEROL");
    let drawn = call.drawn_besides(&first);
    assert!(drawn.len() == 1 && call.is_ack(&drawn[0]), "{drawn:?}");
    let mut read = [0; 5];
    call.accepted().read_exact(&mut read).unwrap();
    assert_eq!(&read, b"FEROL");
}

/// Segments that the receiver's kernel dropped for their checksums.
fn wrong_checksums(stage: &Stage) -> u64 {
    let text = stage.veth.run(false, &["cat", "/proc/net/snmp"]);
    let rows: Vec<&str> = text.lines().filter(|l| l.starts_with("Tcp:")).collect();
    let at = rows[0].split(' ').position(|w| w == "InCsumErrors").unwrap();
    rows[1].split(' ').nth(at).unwrap().parse().unwrap()
}

#[test]
fn h13_a_wrong_checksum_is_dropped_without_any_answer() {
    let Some(stage) = Stage::new() else { return };
    let mut call = stage.call(10);
    let syn = Segment { options: WITH_SCALE.to_vec(), ..call.made(SYN, &[]) };
    stage.wire.send_spoilt(&syn);
    assert_eq!(call.drawn(), []);
    let mut peer = call.connect(&WITH_SCALE);
    stage.wire.send_spoilt(&call.made(PSH | ACK, b"?"));
    stage.wire.send_spoilt(&call.made(RST | ACK, &[]));
    assert_eq!(call.drawn(), []);
    assert_eq!(wrong_checksums(&stage), 3);
    call.assert_alive(&mut peer);
}

#[test]
fn h13_numbers_wrap_in_a_connection() {
    let Some(stage) = Stage::new() else { return };
    let mut call = Call { seq: 0xffff_ff00, ..stage.call(10) };
    let mut peer = call.connect(&WITH_SCALE);
    let sent: Vec<u8> = (0..4000u32).map(|at| (at * 7 / 3) as u8).collect();
    // The third segment has the numbers from 0xffff_ffc9 to 0x2c.
    sent.chunks(100).for_each(|part| call.send_data(PSH, part));
    let mut read = vec![0; sent.len()];
    peer.read_exact(&mut read).unwrap();
    assert_eq!(read, sent);
    assert_eq!(call.seq, 0xffff_ff01_u32.wrapping_add(4000));
    let last = call.drawn().pop().expect("the last part has PSH and was read");
    call.assert_ack(&last);
}

#[test]
fn h15_after_a_rst_the_same_ports_open_at_once_with_a_lower_number() {
    let Some(stage) = Stage::new() else { return };
    let (mut first, mut peer) = stage.connected(10);
    first.assert_alive(&mut peer);
    first.abort();
    assert_eq!(first.drawn(), []);
    first.assert_reset(&mut peer);
    let mut lower = Call { seq: first.seq.wrapping_sub(1_000_000), ..first };
    let mut peer = lower.connect(&WITH_SCALE);
    lower.assert_alive(&mut peer);
}
