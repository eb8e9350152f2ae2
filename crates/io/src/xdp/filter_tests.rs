//! The filter's verdicts, in an interpreter written here and, with root, in the kernel itself
//! (BPF_PROG_TEST_RUN): both must agree on every frame.

use proptest::prelude::*;

use super::super::assemble::assemble;
use super::*;
use crate::dissect::made::{MadeDatagram, v4, v6};

const PORT: u16 = 9000;
const SOCKETS: i32 = 77;
const TALLIES_FD: i32 = 78;
const PACKET: u64 = 0x1000_0000;
const CONTEXT: u64 = 0x2000_0000;
const VALUE: u64 = 0x3000_0000;

/// Verdict and counters of one run; queue 0 has a socket, others have none. Panics where the
/// verifier would refuse: a load outside the frame, an unknown instruction, no exit.
fn interpret(words: &[u64], frame: &[u8], queue: u32) -> (u64, [u64; TALLIES]) {
    let mut r = [0u64; 11];
    r[1] = CONTEXT;
    let mut tallies = [0u64; TALLIES];
    let (mut at, mut steps) = (0usize, 0);
    loop {
        steps += 1;
        assert!(steps < 1000, "does not end");
        let w = words[at].to_ne_bytes();
        at += 1;
        let (d, s) = (usize::from(w[1] & 15), usize::from(w[1] >> 4));
        let offset = i64::from(i16::from_ne_bytes([w[2], w[3]]));
        let number = i32::from_ne_bytes([w[4], w[5], w[6], w[7]]);
        let jump = |at: usize, go: bool| if go { (at as i64 + offset) as usize } else { at };
        let load = |address: u64, bytes: usize| -> u64 {
            if address >= CONTEXT {
                return match address - CONTEXT {
                    0 => PACKET,
                    4 => PACKET + frame.len() as u64,
                    16 => u64::from(queue),
                    other => panic!("context at {other}"),
                };
            }
            let from = (address - PACKET) as usize;
            let mut value = [0; 8];
            value[..bytes].copy_from_slice(&frame[from..from + bytes]);
            u64::from_le_bytes(value)
        };
        match w[0] {
            0xbf => r[d] = r[s],
            0xb7 => r[d] = number as i64 as u64,
            0x07 => r[d] = r[d].wrapping_add(number as i64 as u64),
            0x57 => r[d] &= number as i64 as u64,
            0x77 => r[d] >>= number,
            0x61 => r[d] = load(r[s].wrapping_add_signed(offset), 4),
            0x69 => r[d] = load(r[s].wrapping_add_signed(offset), 2),
            0x71 => r[d] = load(r[s].wrapping_add_signed(offset), 1),
            0xdb => tallies[((r[d] - VALUE) / 8) as usize] += r[s],
            0x18 => {
                let second = (words[at] >> 32) as u32;
                at += 1;
                r[d] = match (s, number) {
                    (1, SOCKETS) => SOCKETS as u64,
                    (2, TALLIES_FD) => VALUE + u64::from(second),
                    other => panic!("map {other:?}"),
                };
            }
            0x05 => at = jump(at, true),
            0x16 => at = jump(at, r[d] as u32 == number as u32),
            0x56 => at = jump(at, r[d] as u32 != number as u32),
            0x26 => at = jump(at, r[d] as u32 > number as u32),
            0x2d => at = jump(at, r[d] > r[s]),
            0x85 => {
                assert_eq!((number, r[1]), (51, SOCKETS as u64));
                r[0] = if r[2] == 0 { REDIRECT as u64 } else { r[3] };
                r[1..6].fill(0xdead_0000_0000);
            }
            0x95 => return (r[0], tallies),
            code => panic!("instruction {code:#x}"),
        }
    }
}

fn words(filter: &Filter) -> Vec<u64> {
    assemble(&program(filter, SOCKETS, TALLIES_FD)).unwrap()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ours,
    Passed,
    Fragment,
}

fn all() -> Filter {
    Filter { port: PORT, address: None }
}

fn only(address: &str) -> Filter {
    Filter { port: PORT, address: Some(address.parse().unwrap()) }
}

/// Every kind of frame that the filter tells apart, with the right verdict.
fn cases() -> Vec<(&'static str, Filter, Vec<u8>, Verdict)> {
    use Verdict::*;
    let tagged = |m: MadeDatagram, kinds: &[u16]| MadeDatagram {
        tags: kinds.iter().map(|k| (*k, 42)).collect(),
        ..m
    };
    let mut cut = v4(b"x").frame();
    cut.truncate(14 + 20 + 7);
    let mut short6 = v6(b"").frame();
    short6.truncate(14 + 40 + 7);
    let mut version = v4(b"x").frame();
    version[14] = 0x55;
    let mut header = v4(b"x").frame();
    header[14] = 0x44;
    let mut version6 = v6(b"x").frame();
    version6[14] = 0x40;
    let mut arp = v4(b"x").frame();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    // IPv6 fragment header: next header UDP (or TCP), offset 0, more to come.
    let fragment6 = |next: u8| {
        let mut f = v6(b"0123456789").frame();
        f[20] = 44;
        f[54] = next;
        f
    };
    let place = |place: u16| MadeDatagram { place, ..v4(b"x") }.frame();
    let tcp = MadeDatagram { protocol: 6, ..v4(b"x") }.frame();
    let tcp6 = MadeDatagram { protocol: 6, ..v6(b"x") }.frame();
    let options = |n: usize| MadeDatagram { options: vec![1; n], ..v4(b"x") }.frame();
    let port = |m: MadeDatagram, port: u16| MadeDatagram { port, ..m }.frame();
    vec![
        ("IPv4", all(), v4(b"x").frame(), Ours),
        ("IPv4 without data", all(), v4(b"").frame(), Ours),
        ("IPv4, padded", all(), MadeDatagram { padding: 17, ..v4(b"x") }.frame(), Ours),
        ("IPv4 with options", all(), options(4), Ours),
        ("IPv4 with all options", all(), options(40), Ours),
        ("IPv6", all(), v6(b"x").frame(), Ours),
        ("802.1Q", all(), tagged(v4(b"x"), &[0x8100]).frame(), Ours),
        ("802.1ad with 802.1Q", all(), tagged(v6(b"x"), &[0x88a8, 0x8100]).frame(), Ours),
        ("old double tag", all(), tagged(v4(b"x"), &[0x9100, 0x8100]).frame(), Ours),
        ("three tags", all(), tagged(v4(b"x"), &[0x8100; 3]).frame(), Passed),
        ("other port", all(), port(v4(b"x"), 9001), Passed),
        ("port with bytes swapped", all(), port(v4(b"x"), PORT.swap_bytes()), Passed),
        (
            "our port as source",
            all(),
            MadeDatagram { source_port: PORT, port: 1, ..v4(b"x") }.frame(),
            Passed,
        ),
        ("other port, IPv6", all(), port(v6(b"x"), 9001), Passed),
        ("TCP", all(), tcp, Passed),
        ("TCP over IPv6", all(), tcp6, Passed),
        ("ARP", all(), arp, Passed),
        ("first fragment", all(), place(0x2000), Fragment),
        ("middle fragment", all(), place(0x2001), Fragment),
        ("last fragment", all(), place(0x00b9), Fragment),
        ("last fragment, offset in the high byte", all(), place(0x1f00), Fragment),
        ("may be fragmented, is not", all(), place(0), Ours),
        ("IPv6 fragment", all(), fragment6(17), Fragment),
        ("IPv6 fragment of TCP", all(), fragment6(6), Passed),
        ("cut in the UDP header", all(), cut, Passed),
        ("cut in the UDP header, IPv6", all(), short6, Passed),
        ("version 5", all(), version, Passed),
        ("header of 16 bytes", all(), header, Passed),
        ("version 4 in an IPv6 frame", all(), version6, Passed),
        ("our address", only("192.0.2.2"), v4(b"x").frame(), Ours),
        ("another address", only("192.0.2.1"), v4(b"x").frame(), Passed),
        ("fragment to another address", only("192.0.2.1"), place(0x2000), Passed),
        ("IPv6 where an IPv4 address is wanted", only("192.0.2.2"), v6(b"x").frame(), Passed),
        ("our IPv6 address", only("2001:db8::2"), v6(b"x").frame(), Ours),
        ("another in the last word", only("2001:db8::3"), v6(b"x").frame(), Passed),
        ("another in the first word", only("2001:db9::2"), v6(b"x").frame(), Passed),
        ("IPv4 where an IPv6 address is wanted", only("2001:db8::2"), v4(b"x").frame(), Passed),
        ("high address bit", only("224.0.0.1"), v4(b"x").frame(), Passed),
        (
            "group",
            only("239.1.2.3"),
            MadeDatagram { destination: "239.1.2.3".parse().unwrap(), ..v4(b"x") }.frame(),
            Ours,
        ),
    ]
}

fn expected(verdict: Verdict) -> (u64, [u64; TALLIES]) {
    match verdict {
        Verdict::Ours => (REDIRECT as u64, [0, 0, 0]),
        Verdict::Passed => (PASS as u64, [1, 0, 0]),
        Verdict::Fragment => (PASS as u64, [0, 1, 0]),
    }
}

#[test]
fn each_kind_of_frame_gets_its_verdict_and_its_count() {
    for (what, filter, frame, verdict) in cases() {
        assert_eq!(interpret(&words(&filter), &frame, 0), expected(verdict), "{what}");
    }
}

#[test]
fn frames_cut_anywhere_are_passed_without_looking_behind_their_end() {
    for (what, filter, frame, verdict) in cases() {
        for end in 0..frame.len() {
            let (got, _) = interpret(&words(&filter), &frame[..end], 0);
            assert!(got == PASS as u64 || verdict == Verdict::Ours, "{what} at {end}");
        }
    }
}

#[test]
fn a_queue_without_a_socket_is_passed_and_counted() {
    let got = interpret(&words(&all()), &v4(b"x").frame(), 3);
    assert_eq!(got, (PASS as u64, [0, 0, 1]));
}

proptest! {
    #[test]
    fn random_bytes_get_a_verdict(
        frame in prop::collection::vec(any::<u8>(), 0..120), tag in 0usize..4,
    ) {
        let mut frame = frame;
        let kinds = [[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00], [0x88, 0xa8]];
        if let Some(place) = frame.get_mut(12..14) {
            place.copy_from_slice(&kinds[tag]);
        }
        for filter in [all(), only("192.0.2.2"), only("2001:db8::2")] {
            let (verdict, tallies) = interpret(&words(&filter), &frame, 0);
            let counted: u64 = tallies.iter().sum();
            prop_assert_eq!(counted, u64::from(verdict == PASS as u64));
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_kernel_loads_the_program_and_agrees_on_every_frame() {
    use std::os::fd::AsRawFd;

    use crate::sys::bpf;
    use crate::xdp::rings;

    let Some(()) = crate::xdp::tests_need_root() else { return };
    for (what, filter, frame, verdict) in cases() {
        if frame.len() < 14 {
            continue; // the kernel's own test call refuses these
        }
        let sockets = bpf::create_socket_map(4).unwrap();
        let tallies = bpf::create_tallies(TALLIES).unwrap();
        let unbound = rings::socket().unwrap();
        bpf::set_socket(&sockets, 0, &unbound).unwrap();
        let program = program(&filter, sockets.as_raw_fd(), tallies.as_raw_fd());
        for frags in [false, true] {
            let loaded = bpf::load_xdp(&assemble(&program).unwrap(), frags).unwrap();
            let before: [u64; TALLIES] = bpf::read_tallies(&tallies).unwrap();
            let got = bpf::run_xdp(&loaded, &frame).unwrap();
            let after: [u64; TALLIES] = bpf::read_tallies(&tallies).unwrap();
            let counted = std::array::from_fn(|i| after[i] - before[i]);
            assert_eq!((u64::from(got), counted), expected(verdict), "{what}");
        }
    }
}
