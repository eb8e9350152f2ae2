//! Frames against bytes written by hand, and the text format of traces.

use fullcount_stcp::Outbound;
use fullcount_stcp::sender::Purpose;
use fullcount_stcp::trace::{TRACE_HEADER, TraceError, TraceLine};
use fullcount_stcp::wire::{Addresses, ChecksumTrust, Inbound, Packet, TcpFlags, arp, ip, parse};
use proptest::prelude::*;

const ENDS: Addresses =
    Addresses { local: [10, 77, 0, 1], remote: [10, 77, 0, 2], local_port: 10, remote_port: 5000 };

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|h| u8::from_str_radix(h, 16).unwrap()).collect()
}

fn segment(seq: u32, flags: TcpFlags, options: Option<(u16, u8)>) -> Outbound {
    let (ack, window) = match flags {
        TcpFlags::SYN => (0, 65535),
        f if f.has(TcpFlags::RST) => (0xa0b0_c0d1, 0),
        _ => (0xa0b0_c0d1, 65535),
    };
    let (purpose, offset, length, mss) = (Purpose::Control, 0, 0, 8960);
    Outbound { purpose, seq, ack, flags, window, options, offset, length, mss }
}

fn written(id: u16, s: &Outbound, payload: (&[u8], &[u8])) -> Vec<u8> {
    let mut header = [0; ip::HEADERS];
    let length = ip::write(&mut header, &ENDS, id, s, payload, false);
    [&header[..length], payload.0, payload.1].concat()
}

#[test]
fn frames_are_those_written_by_hand() {
    let syn = segment(0x0102_0304, TcpFlags::SYN, Some((8960, 1)));
    assert_eq!(
        written(1, &syn, (&[], &[])),
        bytes(
            "45 00 00 30 00 01 40 00 40 06 26 2b 0a 4d 00 01 0a 4d 00 02 \
         00 0a 13 88 01 02 03 04 00 00 00 00 70 02 ff ff 3a 9e 00 00 02 04 23 00 01 03 03 01"
        )
    );
    let data = segment(0x0102_0305, TcpFlags::PSH.and(TcpFlags::ACK), None);
    let expected = bytes(
        "45 00 00 2d 00 02 40 00 40 06 26 2d 0a 4d 00 01 0a 4d 00 02 \
         00 0a 13 88 01 02 03 05 a0 b0 c0 d1 50 18 ff ff 3d 7b 00 00 46 45 52 4f 4c",
    );
    for cut in 0..=5 {
        assert_eq!(written(2, &data, b"FEROL".split_at(cut)), expected);
    }
    let reset = segment(0x0102_030a, TcpFlags::RST.and(TcpFlags::ACK), None);
    assert_eq!(
        written(3, &reset, (&[], &[])),
        bytes(
            "45 00 00 28 00 03 40 00 40 06 26 31 0a 4d 00 01 0a 4d 00 02 \
         00 0a 13 88 01 02 03 0a a0 b0 c0 d1 50 14 00 00 22 14 00 00"
        )
    );
    let parsed = parse(&expected, ENDS.remote, ChecksumTrust::Check);
    let Ok(Packet::Tcp { from, ports, segment }) = parsed else { panic!("{parsed:?}") };
    assert_eq!((from, ports, segment.length, segment.window), (ENDS.local, (10, 5000), 5, 65535));
}

#[test]
fn an_arp_request_is_the_one_written_by_hand() {
    let request = arp::Arp {
        request: true,
        sender: ([2, 0, 0x0a, 0x4d, 0, 1], [10, 77, 0, 1]),
        target: ([0; 6], [10, 77, 0, 2]),
    };
    let expected = bytes(
        "00 01 08 00 06 04 00 01 02 00 0a 4d 00 01 0a 4d 00 01 00 00 00 00 00 00 0a 4d 00 02",
    );
    assert_eq!(arp::write(&request).to_vec(), expected);
    assert_eq!(arp::read(&expected), Ok(request));
    assert!(arp::read(&expected[..27]).is_err());
}

/// A partial checksum is finished by adding header and payload.
#[test]
fn a_partial_checksum_holds_the_pseudo_header() {
    let data = segment(0x0102_0305, TcpFlags::PSH.and(TcpFlags::ACK), None);
    let mut header = [0; ip::HEADERS];
    let length = ip::write(&mut header, &ENDS, 2, &data, (b"FEROL", b""), true);
    let whole = [&header[20..length], b"FEROL"].concat();
    let sum = fullcount_stcp::wire::checksum::Sum::default().with(&whole).finish();
    assert_eq!(sum, 0x3d7b);
}

fn line() -> impl Strategy<Value = TraceLine> {
    (
        any::<u64>(),
        0u32..7,
        any::<(u8, u32, u32, u16, u32)>(),
        any::<Option<u16>>(),
        any::<Option<u8>>(),
    )
        .prop_map(|(at_ns, kind, (flags, seq, ack, window, length), mss, scale)| {
            let text = format!("{at_ns:016x} {kind:x} 00 00000000 00000000 0000 00000000 0000 ff");
            let read = TraceLine::read(&text).unwrap();
            let segment = Inbound {
                seq,
                ack,
                flags: TcpFlags(flags),
                window,
                length,
                mss: mss.filter(|&m| m != 0),
                scale: scale.filter(|&s| s != 0xff),
            };
            TraceLine { segment, ..read }
        })
}

proptest! {
    #[test]
    fn traces_read_what_they_write(line in line()) {
        prop_assert_eq!(TraceLine::read(&line.to_string()), Ok(line));
    }

    #[test]
    fn any_text_is_a_line_or_an_error(text in "[ -~]{0,80}") {
        let _ = TraceLine::read(&text);
    }

    #[test]
    fn any_bytes_are_a_packet_or_an_error(packet in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = parse(&packet, [0; 4], ChecksumTrust::Partial);
        let _ = arp::read(&packet);
        let _ = fullcount_stcp::wire::tcp::read(&packet);
        let _ = fullcount_stcp::wire::icmp::read(&packet);
    }
}

#[test]
fn other_lines_are_refused() {
    assert!(TRACE_HEADER.starts_with('#'));
    let good = "0000000000000001 0 10 00000000 00000000 0000 00000000 0000 ff";
    assert!(TraceLine::read(good).is_ok());
    assert_eq!(TraceLine::read(&good.replacen(" 0 ", " 7 ", 1)), Err(TraceError::Kind));
    for bad in ["", "# text", &good[1..], &format!("{good} 0"), &good.replacen("00", "+0", 1)] {
        assert_eq!(TraceLine::read(bad), Err(TraceError::Form), "{bad}");
    }
}
