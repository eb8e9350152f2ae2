//! Packets that are good, and each way of being none.

use proptest::prelude::*;

use super::*;
use crate::testing::{Raw, adr, imm};

#[test]
fn the_stop_heap_of_the_document() {
    let text = "53040305000000068000010000000002800002000000000180000300000000008000040000000001\
                8000060000000002000000000000000000";
    let bytes = crate::testing::unhex(text);
    let packet = SpeadPacket::parse(&bytes).unwrap();
    assert_eq!((packet.heap_cnt, packet.heap_length, packet.offset), (2, Some(1), 0));
    assert_eq!(packet.payload, [0]);
    let f = packet.flavour;
    let items: Vec<_> = packet.items().collect();
    assert_eq!(items, [f.immediate(id::STREAM_CTRL, control_stop()), f.addressed(0, 0)]);
    assert_eq!((packet.size(), size_of(&bytes)), (57, Ok(Some(57))));
}

fn control_stop() -> u64 {
    crate::wire::control::STOP
}

#[test]
fn each_way_of_being_no_packet_has_its_name() {
    let good = Raw { items: vec![adr(0x1000, 0)], ..Raw::new(7, 16, 0, &[1; 16]) }.bytes();
    assert!(SpeadPacket::parse(&good).is_ok());
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    let of = |bytes: &[u8]| SpeadPacket::parse(bytes).unwrap_err();
    assert_eq!(of(&good[..6]), Malformed::Short(6));
    assert_eq!(of(&with(0, 0x54)), Malformed::NotSpead(0x54, 4));
    assert_eq!(of(&with(1, 3)), Malformed::NotSpead(0x53, 3));
    assert_eq!(of(&with(2, 0)), Malformed::Widths(0, 5));
    assert_eq!(of(&with(2, 8)), Malformed::Widths(8, 5));
    assert_eq!(of(&with(3, 255)), Malformed::Widths(3, 255));
    assert_eq!(of(&with(6, 9)), Malformed::Pointers { pointers: 0x905, size: 64 });
    assert!(matches!(of(&good[..63]), Malformed::Payload { length: 16, prefix: 48, size: 63 }));
    for (field, name) in [(1, id::HEAP_CNT), (3, id::PAYLOAD_OFFSET), (4, id::PAYLOAD_LENGTH)] {
        let bytes = Raw { skip: vec![field], ..Raw::new(7, 16, 0, &[1; 16]) }.bytes();
        assert_eq!(of(&bytes), Malformed::Missing(name));
    }
    let beyond = Raw::new(7, 16, 8, &[1; 16]).bytes();
    assert_eq!(of(&beyond), Malformed::BeyondHeap { offset: 8, length: 16, heap: 16 });
    assert!(SpeadPacket::parse(&with(4, 1)).is_ok(), "reserved bytes are not looked at");
}

#[test]
fn standard_items_anywhere_and_the_last_one_counts() {
    let f = Flavour::default();
    let mut raw = Raw::new(7, 16, 0, &[1; 16]);
    raw.skip = vec![1, 2, 3, 4];
    raw.items = vec![adr(0x1000, 0), imm(4, 16), imm(1, 5), imm(3, 0), imm(1, 9), imm(2, 16)];
    let bytes = raw.bytes();
    let packet = SpeadPacket::parse(&bytes).unwrap();
    assert_eq!((packet.heap_cnt, packet.heap_length), (9, Some(16)));
    assert_eq!(packet.items().collect::<Vec<_>>(), [f.addressed(0x1000, 0)]);
    let mut raw = Raw::new(7, 16, 0, &[1; 16]);
    raw.items = vec![imm(1, 8)];
    let bytes = raw.bytes();
    assert_eq!(SpeadPacket::parse(&bytes).unwrap().heap_cnt, 8);
    assert_eq!(SpeadPacket::parse(&bytes).unwrap().items().count(), 0);
}

proptest! {
    #[test]
    fn any_bytes_are_a_packet_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(packet) = SpeadPacket::parse(&bytes) {
            prop_assert!(packet.size() <= bytes.len());
            prop_assert!(packet.items().count() <= packet.pointers().count());
        }
        let _ = size_of(&bytes);
    }

    #[test]
    fn damaged_packets_do_not_panic(at in 0usize..80, value: u8, cut in 0usize..100) {
        let raw = Raw { items: vec![adr(0x1000, 0), imm(0x1001, 3)], ..Raw::new(7, 16, 0, &[1; 16]) };
        let mut bytes = raw.bytes();
        let at = at % bytes.len();
        bytes[at] = value;
        bytes.truncate(cut);
        if let Ok(packet) = SpeadPacket::parse(&bytes) {
            // Of two payload lengths a stream believes the first, a datagram the last.
            prop_assert!(size_of(&bytes).is_ok());
            prop_assert!(packet.size() <= bytes.len());
        }
    }

    #[test]
    fn what_is_written_is_read(
        address_bits in 1u32..8,
        (cnt, offset, length) in (any::<u64>(), 0u64..200, proptest::option::of(0u64..300)),
        payload in proptest::collection::vec(any::<u8>(), 0..50),
    ) {
        let flavour = Flavour::new(8 * address_bits).unwrap();
        let cnt = cnt & flavour.largest_value();
        let heap = length.map(|more| (offset + payload.len() as u64 + more) & flavour.largest_value());
        let mut raw = Raw { bits: 8 * address_bits, ..Raw::new(cnt, 0, offset, &payload) };
        raw.heap_length = heap;
        let bytes = raw.bytes();
        match SpeadPacket::parse(&bytes) {
            Ok(p) => {
                prop_assert_eq!((p.heap_cnt, p.heap_length, p.offset), (cnt, heap, offset));
                prop_assert_eq!(p.payload, &payload[..]);
                prop_assert_eq!(p.size(), bytes.len());
            }
            Err(e) => prop_assert!(heap.is_some_and(|h| offset + payload.len() as u64 > h), "{}", e),
        }
    }
}
