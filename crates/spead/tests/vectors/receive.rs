//! Heaps and statistics of every case, in spead2's way and in ours.

use fullcount_spead::describe::Elements;
use fullcount_spead::receive::{
    Delivery, Heap, HeapReceiver, ItemValue, OnIncomplete, Outcome, ReceiverConfig, SpeadCounter,
};
use fullcount_spead::{BugCompat, Descriptor, ItemArray, ItemGroup};
use serde_json::{Value, json};

use crate::facts::{assert_data, cases, datagrams, file};
use crate::sha256::sha256;

const STATISTICS: [&str; 5] = [
    "heaps",
    "incomplete_heaps_evicted",
    "incomplete_heaps_flushed",
    "packets",
    "single_packet_heaps",
];

fn config(case: &Value) -> ReceiverConfig {
    let number = |key: &str| case[key].as_u64().unwrap() as usize;
    let flag = |key: &str| case[key].as_bool().unwrap();
    ReceiverConfig {
        max_heaps: number("max_heaps"),
        substreams: number("substreams"),
        allow_out_of_order: flag("allow_out_of_order"),
        allow_unsized_heaps: flag("allow_unsized_heaps"),
        stop_on_stop_item: flag("stop_on_stop_item"),
        incomplete: OnIncomplete::Give,
        ring_heaps: 4096,
        ..ReceiverConfig::spead2()
    }
}

/// All that comes of a case's file.
fn received(
    case: &Value,
    expected: &Value,
    config: ReceiverConfig,
) -> (Vec<Delivery>, HeapReceiver) {
    let mut stream = HeapReceiver::new(config).unwrap();
    let name = case["file"].as_str().unwrap();
    match case["container"].as_str().unwrap() {
        "stream" => {
            let bytes = file(name);
            assert_eq!(stream.push_buffer(0, &bytes), bytes.len());
        }
        "pcap" | "pcapng" => {
            for datagram in datagrams(name, expected["filter"].as_str().unwrap_or("")) {
                assert_ne!(stream.push(0, &datagram), Outcome::Full);
            }
        }
        "tcp" => crate::receive::tcp(&mut stream, &file(name), expected),
        other => panic!("{other}"),
    }
    stream.reader_ended(0);
    assert!(stream.ended().is_some() && stream.live_heaps() == 0 && stream.live_bytes() == 0);
    let heaps = std::iter::from_fn(|| stream.pop()).collect();
    balanced(&mut stream);
    (heaps, stream)
}

/// Packets and heaps are each in one place.
pub fn balanced(stream: &mut HeapReceiver) {
    let sheet = fullcount_core::ledger::Sheet::new(SpeadCounter::catalogue());
    stream.tally().flush(&sheet);
    let ledger = fullcount_core::ledger::Ledger::default();
    ledger.register(sheet);
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
}

fn tcp(stream: &mut HeapReceiver, bytes: &[u8], expected: &Value) {
    let max = expected["tcp_max_packet_size"].as_u64().unwrap_or(65_536) as usize;
    let packets = |piece: usize| {
        let mut framing = fullcount_spead::framing::PacketStream::new(max);
        let mut packets = vec![];
        for part in bytes.chunks(piece) {
            framing.push(part, |packet| packets.push(packet.to_vec()));
        }
        packets
    };
    let whole = packets(bytes.len());
    // In whatever pieces they come, they are the same.
    for piece in [1, 7, 100] {
        assert!(packets(piece) == whole, "pieces of {piece} B");
    }
    for packet in whole {
        assert_ne!(stream.push(0, &packet), Outcome::Full);
    }
}

fn assert_heap(heap: &Heap, expected: &Value, at: &str) {
    assert_eq!(expected["kind"], "heap", "{at}");
    let items: Vec<_> = heap.items().collect();
    let wanted = expected["items"].as_array().unwrap();
    assert_eq!(items.len(), wanted.len(), "{at}");
    for (item, wanted) in items.iter().zip(wanted) {
        let at = format!("{at} item 0x{:x}", item.id);
        assert_eq!(item.id, wanted["id"], "{at}");
        match item.value {
            ItemValue::Immediate(value) => {
                assert_eq!(
                    (Value::from(value), json!(true)),
                    (wanted["value"].clone(), wanted["immediate"].clone()),
                    "{at}"
                );
            }
            ItemValue::Bytes(bytes) => assert_data(bytes, wanted, &at),
        }
    }
}

/// Descriptors and values as the item group gives them.
fn assert_values(heap: &Heap, group: &mut ItemGroup, expected: &Value, at: &str) {
    let descriptors: Vec<Value> = heap
        .descriptor_bytes()
        .flat_map(|bytes| Descriptor::parse(bytes, group.compat(), 99))
        .map(|d| {
            let format: Vec<Value> =
                d.format.iter().map(|f| json!([f.code.to_string(), f.bits])).collect();
            json!({"id": d.id, "name": d.name, "description": d.description, "shape": d.shape,
                "format": format, "numpy_header": d.numpy_header})
        })
        .collect();
    assert_eq!(json!(descriptors), expected["descriptors"], "{at}");
    let update = group.update(heap);
    assert_eq!(update.errors, [], "{at}");
    let mut values = serde_json::Map::new();
    for id in update.values {
        let item = group.get(id).unwrap();
        values.insert(item.descriptor.name.clone(), shown(item.value.as_ref().unwrap()));
    }
    let expected = expected["values"].as_object().unwrap();
    assert_eq!(values.len(), expected.len(), "{at}");
    for (name, value) in expected {
        assert_eq!(values[name], *value, "{at} {name}");
    }
}

/// As the vectors show values.
fn shown(array: &ItemArray) -> Value {
    if let (Elements::Bytes { width: 1, .. }, 1) = (&array.elements, array.shape.len()) {
        return json!(array.to_text().unwrap());
    }
    if let Elements::U32(values) = &array.elements
        && values.len() > 512
    {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
        return json!({"elements": values.len(), "sha256_big_endian": sha256(&bytes)});
    }
    nested(array, &array.shape, 0, array.len())
}

fn nested(array: &ItemArray, shape: &[usize], first: usize, many: usize) -> Value {
    if let [outer, inner @ ..] = shape {
        let each = if *outer == 0 { 0 } else { many / outer };
        return (0..*outer).map(|n| nested(array, inner, first + n * each, each)).collect();
    }
    let n = first;
    let text = |bytes: &[u8]| {
        let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    match &array.elements {
        Elements::Bool(v) => json!(v[n]),
        Elements::I8(v) => json!(v[n]),
        Elements::I16(v) => json!(v[n]),
        Elements::I32(v) => json!(v[n]),
        Elements::I64(v) => json!(v[n]),
        Elements::U8(v) => json!(v[n]),
        Elements::U16(v) => json!(v[n]),
        Elements::U32(v) => json!(v[n]),
        Elements::U64(v) => json!(v[n]),
        Elements::F32(v) => json!(f64::from(v[n])),
        Elements::F64(v) => json!(v[n]),
        Elements::Complex32(v) => json!(v[n].map(f64::from)),
        Elements::Complex64(v) => json!(v[n]),
        Elements::Bytes { width, data } => json!(text(&data[n * width..][..*width])),
        Elements::Record(fields) => {
            let one = |(name, field): &(String, ItemArray)| {
                let inner = &field.shape[array.shape.len()..];
                let each = inner.iter().product();
                (name.clone(), nested(field, inner, n * each, each))
            };
            Value::Object(fields.iter().map(one).collect())
        }
        other => panic!("{other:?}"),
    }
}

pub fn assert_deliveries(heaps: &[Delivery], expected: &Value, at: &str) {
    let wanted = expected["heaps"].as_array().unwrap();
    let cnts: Vec<u64> = heaps.iter().map(Delivery::cnt).collect();
    let wanted_cnts: Vec<u64> = wanted.iter().map(|h| h["cnt"].as_u64().unwrap()).collect();
    assert_eq!(cnts, wanted_cnts, "{at}");
    let bits = expected["config"]["bug_compat"].as_u64().unwrap() as u32;
    let mut group = ItemGroup::new(BugCompat::from_bits(bits).unwrap());
    for (n, (heap, wanted)) in heaps.iter().zip(wanted).enumerate() {
        let at = format!("{at} heap {n}");
        let (flavour, start, end) = match heap {
            Delivery::Heap(heap) => {
                assert_heap(heap, wanted, &at);
                assert_values(heap, &mut group, wanted, &at);
                (heap.flavour, heap.is_start_of_stream(), heap.is_end_of_stream())
            }
            Delivery::Incomplete(heap) => {
                assert_eq!(wanted["kind"], "incomplete", "{at}");
                let length = heap.heap_length.map_or(-1, |length| length as i64);
                assert_eq!(Value::from(length), wanted["heap_length"], "{at}");
                assert_eq!(Value::from(heap.received_length), wanted["received_length"], "{at}");
                let ranges: Vec<[u64; 2]> =
                    heap.present.ranges().iter().map(|r| [r.start, r.end]).collect();
                assert_eq!(json!(ranges), wanted["payload_ranges"], "{at}");
                let items: Vec<Value> = heap
                    .immediates()
                    .map(|i| json!({"id": i.id, "immediate": true, "value": i.immediate()}))
                    .collect();
                assert_eq!(json!(items), wanted["items"], "{at}");
                (heap.flavour, heap.is_start_of_stream(), heap.is_end_of_stream())
            }
        };
        assert_eq!(Value::from(flavour.address_bits()), wanted["addr_bits"], "{at}");
        assert_eq!(
            (json!(start), json!(end)),
            (wanted["start_of_stream"].clone(), wanted["end_of_stream"].clone()),
            "{at}"
        );
    }
}

/// What a stream gives that no file holds whole.
pub fn assert_stream(bytes: &[u8], expected: &Value, at: &str) {
    let mut stream = HeapReceiver::new(config(&expected["config"])).unwrap();
    assert_eq!(stream.push_buffer(0, bytes), bytes.len());
    let heaps: Vec<Delivery> = std::iter::from_fn(|| stream.pop()).collect();
    assert_deliveries(&heaps, expected, at);
    for name in STATISTICS {
        let value = stream.statistics().get(name).unwrap();
        assert_eq!(Value::from(value), expected["stats"][name], "{at} {name}");
    }
}

#[test]
fn heaps_and_statistics_are_those_of_spead2() {
    let mut receptions = 0;
    for case in cases() {
        for (n, expected) in case["receive"].as_array().into_iter().flatten().enumerate() {
            let at = format!("{} reception {n}", case["name"]);
            let (heaps, stream) = received(&case, expected, config(&expected["config"]));
            assert_deliveries(&heaps, expected, &at);
            for name in STATISTICS {
                let value = stream.statistics().get(name).unwrap();
                assert_eq!(Value::from(value), expected["stats"][name], "{at} {name}");
            }
            receptions += 1;
        }
    }
    assert_eq!(receptions, 64);
}

#[test]
fn ours_delivers_each_heap_of_spead2_once_and_counts_why() {
    let mut more = vec![];
    for case in cases() {
        let Some(expected) = case["receive"].as_array().map(|all| &all[0]) else { continue };
        let ours = ReceiverConfig {
            incomplete: OnIncomplete::Give,
            ring_heaps: 4096,
            ..Default::default()
        };
        let (heaps, _) = received(&case, expected, ours);
        let mut whole: Vec<u64> =
            heaps.iter().filter(|h| matches!(h, Delivery::Heap(_))).map(Delivery::cnt).collect();
        let mut theirs: Vec<u64> = expected["heaps"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|h| h["kind"] == "heap")
            .map(|h| h["cnt"].as_u64().unwrap())
            .collect();
        whole.sort();
        theirs.sort();
        if case["name"] != "cnt_sequence" {
            theirs.dedup();
        }
        let name = case["name"].as_str().unwrap().to_owned();
        assert!(theirs.iter().all(|cnt| whole.contains(cnt)), "{name}: {whole:?} {theirs:?}");
        if whole != theirs {
            more.push(name);
        }
    }
    assert_eq!(more, ["order_swapped", "order_first_last", "duplicates_single", "pcap_merged"]);
}
