//! Captures as a sending host or a strange link leaves them, read as the default does: all that holds a UDP datagram counts, merged
//! datagrams are taken apart. Heaps are those of spead2 for the same packets, with every item and value.

use fullcount_io::endpoint::Ip;
use fullcount_spead::receive::{Delivery, OnIncomplete, Outcome, SpeadCounter as C};
use fullcount_spead::{HeapReceiver, ReceiverConfig};
use serde_json::Value;

use crate::facts::{case, datagrams_of, file};
use crate::receive::{assert_deliveries, balanced};

/// All that the default gives of a capture.
fn default_of(bytes: &[u8], filter: &str) -> (Vec<Delivery>, Vec<(C, u64)>) {
    let config = ReceiverConfig { incomplete: OnIncomplete::Give, ..ReceiverConfig::default() };
    let mut stream = HeapReceiver::new(config).unwrap();
    for datagram in datagrams_of(bytes, filter, Ip::Any) {
        assert_ne!(stream.push(0, &datagram), Outcome::Full);
    }
    stream.reader_ended(0);
    let heaps = std::iter::from_fn(|| stream.pop()).collect();
    let odd = odd(&mut stream);
    balanced(&mut stream);
    (heaps, odd)
}

/// Heaps of a case as spead2 gives them.
fn heaps_of(name: &str) -> Value {
    case(name)["receive"][0].clone()
}

/// Counts that differ from 0, of those that say what is odd.
fn odd(stream: &mut HeapReceiver) -> Vec<(C, u64)> {
    let all = [
        C::Merged,
        C::Duplicate,
        C::DuplicateHeap,
        C::LengthMismatch,
        C::Trailing,
        C::Late,
        C::Reordered,
    ];
    let tally = stream.tally();
    all.into_iter().map(|c| (c, tally.get(c))).filter(|(_, n)| *n > 0).collect()
}

#[test]
fn captures_of_every_link_and_form_give_the_heaps_of_spead2() {
    for name in ["udp_capture", "pcap_sll", "pcap_ng", "pcap_filter"] {
        let case = case(name);
        let expected = &case["receive"][0];
        let (heaps, odd) =
            default_of(&file(case["file"].as_str().unwrap()), expected["filter"].as_str().unwrap());
        assert_deliveries(&heaps, expected, name);
        assert_eq!(odd, [], "{name}");
    }
    // Both copies of each datagram, as without a filter: each heap is still given once.
    let (heaps, odd) = default_of(&file("pcap_filter.pcap"), "");
    assert_deliveries(&heaps, &heaps_of("pcap_filter"), "both ports");
    assert_eq!(
        odd.iter().map(|(_, n)| n).sum::<u64>(),
        13,
        "all but the last, which comes behind the end: {odd:?}"
    );
}

#[test]
fn datagrams_that_a_sending_host_merged_are_its_heaps() {
    let (heaps, odd) = default_of(&file("pcap_merged.pcap"), "");
    // The same packets as in udp_capture; in pcap_merged spead2 refuses all of them.
    assert_eq!(heaps_of("pcap_merged")["heaps"], serde_json::json!([]));
    assert_eq!(case("pcap_merged")["packets"], case("udp_capture")["packets"]);
    assert_deliveries(&heaps, &heaps_of("udp_capture"), "merged");
    assert_eq!(odd, [(C::Merged, 2)]);
}

/// The capture of odd frames; where the heap number of its third frame, a fragment, stands.
fn odd_frames() -> (Vec<u8>, usize) {
    let bytes = file("pcap_odd_frames.pcap");
    let mut at = 24;
    for _ in 0..2 {
        at += 16 + u32::from_le_bytes(bytes[at + 8..][..4].try_into().unwrap()) as usize;
    }
    // Record, Ethernet, IPv4, UDP, SPEAD header, the first pointer.
    let number = at + 16 + 14 + 20 + 8 + 8 + 7;
    assert_eq!(bytes[number - 7..=number], [0x80, 0, 1, 0, 0, 0, 0, 2]);
    (bytes, number)
}

#[test]
fn vlan_ipv6_and_fragments_are_packets_like_any_other() {
    let (mut bytes, number) = odd_frames();
    // The fragments are a packet of a heap of 700 B, to which the capture gives a number of another one.
    bytes[number] = 9;
    let (mut heaps, odd) = default_of(&bytes, "");
    let nine = heaps.iter().position(|heap| heap.cnt() == 9).expect("the fragments' heap");
    let Delivery::Incomplete(nine) = heaps.remove(nine) else {
        panic!("its other packets are not there")
    };
    assert_eq!((nine.heap_length, nine.received_length), (Some(700), 256 - 8 - 8 * 5));
    assert_deliveries(&heaps, &heaps_of("pcap_odd_frames"), "odd");
    // The first packet of heap 1 came with a tag, over IPv6, and plain.
    assert_eq!(odd, [(C::Duplicate, 2)]);
}

#[test]
fn a_fragmented_packet_with_the_number_of_another_heap_is_seen_as_two_senders() {
    let (bytes, _) = odd_frames();
    let (heaps, odd) = default_of(&bytes, "");
    let seen: Vec<(u64, bool)> =
        heaps.iter().map(|heap| (heap.cnt(), matches!(heap, Delivery::Heap(_)))).collect();
    assert_eq!(seen, [(1, true), (3, true), (2, false)]);
    assert_eq!(odd, [(C::Duplicate, 2), (C::LengthMismatch, 4)]);
}
