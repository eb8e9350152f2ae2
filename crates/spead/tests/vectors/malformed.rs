//! `malformed.pcap`: each datagram has one reason, and each reason one counter.

use fullcount_spead::receive::{HeapReceiver, Outcome, ReceiverConfig, SpeadCounter as C};

use crate::facts::{case, datagrams};

/// Where a datagram with this reason is counted.
fn counter(reason: &str) -> C {
    match reason {
        "wrong magic" | "wrong version" => C::NotSpead,
        "item width 0" | "widths do not add to 8" => C::Widths,
        "number of items overflows the packet" => C::Pointers,
        "no heap number"
        | "no payload offset"
        | "no payload length"
        | "heap number as an address: refused" => C::Missing,
        "payload longer than the datagram" => C::Payload,
        "bytes after the payload" => C::Trailing,
        "payload beyond the heap length" => C::BeyondHeap,
        "shorter than a header" => C::Short,
        "empty" => C::Empty,
        "heap 14 with another heap length: refused" => C::LengthMismatch,
        "heap 14 with another flavour: refused" => C::FlavourMismatch,
        "good"
        | "reserved bits set: accepted"
        | "item address beyond the heap length: never complete"
        | "standard items last and in another order"
        | "payload length 0, heap length 0"
        | "stop" => C::Accepted,
        other if other.starts_with("heap 1") => C::Accepted,
        other => panic!("a reason that nobody knows: {other}"),
    }
}

/// What a datagram may raise: refusals, those that are accepted, and those without a byte.
fn raised(stream: &mut HeapReceiver) -> Vec<(usize, u64)> {
    let refusals = C::Short as usize..=C::Stopped as usize;
    let lines = refusals.chain([C::Accepted as usize, C::Empty as usize]);
    let sheet = fullcount_core::ledger::Sheet::new(C::catalogue());
    stream.tally().flush(&sheet);
    lines.map(|line| (line, sheet.get(line))).filter(|(_, n)| *n > 0).collect()
}

#[test]
fn each_reason_is_counted_once_and_nowhere_else() {
    let case = case("malformed");
    let reasons: Vec<&str> =
        case["datagrams"].as_array().unwrap().iter().map(|r| r.as_str().unwrap()).collect();
    let all = datagrams("malformed.pcap", "");
    assert_eq!((all.len(), reasons.len()), (29, 29));
    for config in [ReceiverConfig::spead2(), ReceiverConfig::default()] {
        let config = ReceiverConfig { ring_heaps: 64, ..config };
        let mut stream = HeapReceiver::new(config).unwrap();
        for (datagram, reason) in all.iter().zip(&reasons) {
            let outcome = stream.push(0, datagram);
            let wanted = counter(reason);
            assert_eq!(raised(&mut stream), [(wanted as usize, 1)], "{reason}: {outcome:?}");
            let good = matches!(wanted, C::Accepted | C::Empty);
            assert_eq!(outcome == Outcome::Accepted, good, "{reason}");
        }
        assert!(stream.ended().is_some());
    }
}
