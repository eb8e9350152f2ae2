//! A sender given a case's `send` makes exactly the bytes of its file.

use fullcount_spead::describe::BugCompat;
use fullcount_spead::send::{
    CutRules, GroupMode, HeapNumbers, HeapSender, NextPacket, OutHeap, PayloadSize, SendHow,
    SenderConfig,
};
use fullcount_spead::{Descriptor, Flavour};
use serde_json::Value;

use crate::facts::{cases, datagrams, file, unhex};
use crate::sha256::sha256;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Data given by a generator or as digits.
fn data(entry: &Value) -> Vec<u8> {
    let generator = &entry["generator"];
    if let Some([n, skip]) =
        generator["minstd_u32_big_endian"].as_array().map(|a| [number(&a[0]), number(&a[1])])
    {
        let step = |x: &mut u64| {
            *x = *x * 48_271 % 2_147_483_647;
            Some(*x)
        };
        let mut x = 1;
        let all = std::iter::from_fn(move || step(&mut x)).skip(skip as usize).take(n as usize);
        return all.flat_map(|x| (x as u32).to_be_bytes()).collect();
    }
    if let Some([n, seed]) = generator["pat"].as_array().map(|a| [number(&a[0]), number(&a[1])]) {
        return (0..n).map(|i| (seed + 131 * i + 17 * (i >> 8)) as u8).collect();
    }
    unhex(entry["hex"].as_str().unwrap_or_else(|| panic!("{entry}")))
}

fn heap(case: &Value, flavour: Flavour, compat: BugCompat, repeat_pointers: bool) -> OutHeap {
    let mut heap = OutHeap::new(flavour);
    heap.repeat_pointers = repeat_pointers;
    for entry in case["entries"].as_array().unwrap() {
        let text = |key: &str| entry[key].as_str().unwrap().to_owned();
        match entry["kind"].as_str().unwrap() {
            "item" => heap.add_item(
                number(&entry["id"]),
                data(&entry["data"]),
                entry["allow_immediate"] == true,
            ),
            "inline" => heap.add_inline(number(&entry["id"]), number(&entry["value"])),
            "descriptor" => {
                let shape = entry["shape"].as_array().unwrap().iter().map(Value::as_u64);
                let format = entry["format"].as_array().unwrap().iter();
                let format =
                    format.map(|f| (f[0].as_str().unwrap().chars().next().unwrap(), number(&f[1])));
                let shape: Vec<_> = shape.collect();
                let format: Vec<_> = format.collect();
                let made = Descriptor::spead(
                    number(&entry["id"]),
                    &text("name"),
                    &text("description"),
                    &shape,
                    &format,
                );
                let made = Descriptor { numpy_header: text("numpy_header"), ..made };
                heap.add_descriptor(&made, compat).unwrap();
            }
            other => panic!("{other}"),
        }
    }
    heap
}

#[test]
fn bytes_are_those_of_spead2() {
    let mut compared = 0;
    for case in cases() {
        let send = &case["send"];
        if send.is_null() {
            continue;
        }
        let flavour = Flavour::new(number(&send["flavour"][2]) as u32).unwrap();
        let compat = BugCompat::from_bits(send["bug_compat"].as_u64().unwrap_or(0) as u32).unwrap();
        let cut = CutRules {
            max_packet_size: number(&send["max_packet_size"]) as usize,
            payload: PayloadSize::Fill,
        };
        let mut sender =
            HeapSender::new(SenderConfig { cut, max_heaps: 1000, ..Default::default() }).unwrap();
        let sequence = &send["cnt_sequence"];
        let step = sequence[1].as_i64().unwrap() as u64;
        sender.set_numbers(HeapNumbers { next: number(&sequence[0]), step }).unwrap();
        let repeat = send["repeat_pointers"] == true;
        let heaps = send["heaps"].as_array().unwrap();
        let one = |h: &Value| {
            (
                heap(h, flavour, compat, repeat),
                SendHow { cnt: h["cnt"].as_u64(), ..Default::default() },
            )
        };
        let mut at = 0;
        while at < heaps.len() {
            let (many, mode) = match send["group"].as_str() {
                None => (1, GroupMode::Serial),
                Some("SERIAL") => (heaps.len(), GroupMode::Serial),
                Some(_) => (heaps.len(), GroupMode::RoundRobin),
            };
            sender.send_group(heaps[at..at + many].iter().map(one).collect(), mode).unwrap();
            at += many;
        }
        let (mut stream, mut packets) = (vec![], vec![]);
        while let NextPacket::Packet { bytes, .. } = sender.next_packet(0, &mut stream) {
            packets.push(bytes);
        }
        let name = case["name"].as_str().unwrap();
        assert_eq!(packets.len() as u64, number(&case["packet_count"]), "{name}");
        assert_eq!(sender.counts().packet_bytes, stream.len() as u64, "{name}");
        match (case["stream_sha256"].as_str(), case["container"].as_str().unwrap()) {
            (Some(hash), _) => {
                assert_eq!(sha256(&stream), hash, "{name}");
                crate::receive::assert_stream(&stream, &case["receive_of_whole_stream"], name);
            }
            (None, "pcap") => {
                assert_eq!(stream, datagrams(case["file"].as_str().unwrap(), "").concat(), "{name}")
            }
            _ => assert_eq!(stream, file(case["file"].as_str().unwrap()), "{name}"),
        }
        compared += 1;
    }
    assert_eq!(compared, 25);
}
