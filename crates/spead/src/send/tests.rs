//! The cut of the format document, and heaps of every kind through both ends.

mod kinds;
mod live;
mod one_way;
mod peer;

use std::sync::Arc;

use fullcount_core::link::Wire;
use proptest::prelude::*;

use super::*;
use crate::describe::{BugCompat, Elements, ItemArray, ItemGroup, NumpyHeader};
use crate::receive::{Delivery, HeapReceiver, OnIncomplete, ReceiverConfig};
use crate::{Descriptor, Flavour, SpeadPacket};

fn item(bytes: usize) -> OutHeap {
    let mut heap = OutHeap::default();
    heap.add_item(0x1000, vec![7; bytes], true);
    heap
}

fn rules(max_packet_size: usize) -> CutRules {
    CutRules { max_packet_size, payload: PayloadSize::Fill }
}

/// Number of pointers and payload bytes of each packet.
fn cut(heap: &OutHeap, rules: CutRules) -> Vec<(usize, u64)> {
    let mut packetiser = Packetiser::new(heap, 1, rules).unwrap();
    let (mut prefix, mut all) = (vec![], vec![]);
    while let Some(cut) = packetiser.next_cut(&mut prefix) {
        all.push((cut.prefix / 8 - 1, cut.payload.end - cut.payload.start));
    }
    all
}

/// All packets of a queue.
fn run(sender: &mut HeapSender) -> Vec<Vec<u8>> {
    let mut packets = vec![];
    let mut now = 0;
    loop {
        let mut out = vec![];
        match sender.next_packet(now, &mut out) {
            NextPacket::Packet { bytes, .. } => {
                assert_eq!(bytes, out.len());
                packets.push(out);
            }
            NextPacket::Wait(until) => now = until,
            NextPacket::Idle => return packets,
        }
    }
}

fn received(packets: &[Vec<u8>]) -> Vec<Delivery> {
    let config = ReceiverConfig {
        ring_heaps: 1 << 16,
        incomplete: OnIncomplete::Give,
        ..ReceiverConfig::default()
    };
    let mut stream = HeapReceiver::new(config).unwrap();
    packets.iter().for_each(|packet| {
        stream.push(0, packet);
    });
    stream.stop(0);
    std::iter::from_fn(|| stream.pop()).collect()
}

#[test]
fn numbers_of_packets_are_those_of_the_document() {
    assert_eq!(cut(&OutHeap::default(), rules(1472)), [(5, 1)]);
    let described = || {
        let mut heap = OutHeap::default();
        heap.add_item(5, vec![1; 192], false);
        heap.add_item(0x1000, vec![7; 4 << 20], true);
        heap
    };
    let first = cut(&described(), rules(1472));
    assert_eq!((first.len(), first[0], first[1]), (2930, (6, 1416), (4, 1432)));
    let second = cut(&item(4 << 20), rules(1472));
    assert_eq!((second.len(), second[0], second[1]), (2929, (5, 1424), (4, 1432)));
    let large = cut(&item(4 << 20), rules(8972));
    assert_eq!(
        (large.len(), large[0], large[1], large[469]),
        (470, (5, 8920), (4, 8928), (4, 7080))
    );
    assert_eq!(
        (cut(&described(), rules(8972)).len(), cut(&described(), rules(8972))[0]),
        (470, (6, 8912))
    );
}

#[test]
fn no_16_padding_does_not_reach_a_small_item() {
    let mut heap = OutHeap::default();
    (0..30).for_each(|n| heap.add_inline(0x1100 + n, n));
    heap.add_item(0x1000, b"ABC".to_vec(), false);
    let mut sender =
        HeapSender::new(SenderConfig { cut: rules(160), ..Default::default() }).unwrap();
    sender.send(heap, SendHow::default()).unwrap();
    let packets = run(&mut sender);
    assert_eq!(packets.len(), 3);
    let whole = received(&packets).remove(0).heap().unwrap();
    assert_eq!(whole.item(0x1000).unwrap().bytes(), Some(&b"ABC"[..]));
    assert_eq!(whole.payload()[..8], *b"ABC\0\0\0\0\0");
    assert_eq!(whole.items().count(), 31);
}

#[test]
fn no_25_a_fixed_payload_is_one_in_every_packet() {
    let mut heap = OutHeap::default();
    (0..9).for_each(|n| heap.add_inline(0x1100 + n, n));
    heap.add_item(0x1000, vec![3; 5000], false);
    let fixed =
        |size, bytes| CutRules { max_packet_size: size, payload: PayloadSize::Fixed(bytes) };
    let packets = cut(&heap, fixed(1100, 1024));
    assert_eq!(packets, [(8, 1024), (8, 1024), (6, 1024), (4, 1024), (4, 904)]);
    let of = |rules| Packetiser::new(&heap, 1, rules).unwrap_err().to_string();
    assert_eq!(of(fixed(1064, 1024)), "packet size of 1064 B is too small: at least 1072 B");
    assert_eq!(of(fixed(1100, 1001)), "fixed payload of 1001 B: a multiple of 8 B, at least 8 B");
}

#[test]
fn what_cannot_be_sent_is_said() {
    let of = |heap: &OutHeap, cnt, size| Packetiser::new(heap, cnt, rules(size)).unwrap_err();
    assert_eq!(of(&item(9), 1, 55), PacketError::TooSmall { size: 55, least: 56 });
    assert_eq!(of(&item(9), 1 << 40, 99), PacketError::Value(1 << 40, Flavour::default()));
    let mut many = item(9);
    many.repeat_pointers = true;
    (0..9).for_each(|n| many.add_inline(n + 0x1100, 1));
    assert_eq!(of(&many, 1, 100), PacketError::Repeat(10));
    let mut large = OutHeap::default();
    large.add_inline(1 << 23, 1);
    assert_eq!(of(&large, 1, 99), PacketError::Id(1 << 23, Flavour::default()));
    let small = Flavour::new(16).unwrap();
    let mut long = OutHeap::new(small);
    long.add_item(0x1000, vec![0; 65_536], false);
    assert_eq!(of(&long, 1, 99), PacketError::Length(65_536, small));
}

#[test]
fn a_full_queue_gives_the_heap_back_and_waiting_places_take_it() {
    let config = SenderConfig { max_heaps: 2, ..Default::default() };
    let mut sender = HeapSender::new(config.clone()).unwrap();
    let how = SendHow::default();
    let first = sender.send(item(10), how).unwrap();
    sender.send(item(20), how).unwrap();
    let refused = sender.send(item(30), how).unwrap_err();
    assert_eq!((refused.why, refused.heaps[0].bytes()), (SendRefusal::Full(2, 1), 30));
    assert_eq!((run(&mut sender).len(), sender.counts().refused_heaps), (2, 1));
    assert_eq!(sender.pop_completion(), Some(Completion { ticket: first, bytes: 58, whole: true }));
    // A group goes in whole or not at all, and a refused one takes no numbers.
    sender.send(item(10), how).unwrap();
    assert!(sender.send_group(vec![(item(1), how), (item(1), how)], GroupMode::Serial).is_err());
    let sent = run(&mut sender);
    assert_eq!(SpeadPacket::parse(&sent[0]).unwrap().heap_cnt, 3);
    let waiting = SenderConfig { waiting_heaps: 3, waiting_bytes: 50, ..config };
    let mut sender = HeapSender::new(waiting).unwrap();
    let taken: Vec<bool> = (0..7).map(|_| sender.send(item(10), how).is_ok()).collect();
    assert_eq!(taken, [true, true, true, true, true, false, false]);
    assert!(matches!(
        sender.send(item(5), SendHow { substream: 1, ..how }).unwrap_err().why,
        SendRefusal::Full(..)
    ));
    run(&mut sender);
    let wrong = sender.send(item(5), SendHow { substream: 1, ..how }).unwrap_err();
    assert_eq!(wrong.to_string(), "substream 1: 0 to 0");
}

#[test]
fn no_24_what_is_queued_can_be_cancelled() {
    let mut sender = HeapSender::new(SenderConfig::default()).unwrap();
    let tickets = [5000, 10, 20].map(|n| sender.send(item(n), SendHow::default()).unwrap());
    let mut out = vec![];
    sender.next_packet(0, &mut out);
    assert!(sender.cancel(tickets[1]) && sender.cancel(tickets[0]) && !sender.cancel(tickets[0]));
    assert_eq!(run(&mut sender).len(), 1);
    let ends: Vec<_> = std::iter::from_fn(|| sender.pop_completion())
        .map(|c| (c.ticket, c.bytes, c.whole))
        .collect();
    assert_eq!(ends, [(tickets[1], 0, false), (tickets[0], 1472, false), (tickets[2], 68, true)]);
    assert_eq!((sender.counts().heaps, sender.counts().unfinished_heaps), (1, 2));
    sender.send(item(10), SendHow::default()).unwrap();
    sender.cancel_all();
    assert_eq!(sender.space(), 4);
    let ticket = sender.send(item(10), SendHow::default()).unwrap();
    run(&mut sender);
    sender.packet_failed(ticket);
    let all: Vec<_> = std::iter::from_fn(|| sender.pop_completion()).map(|c| c.whole).collect();
    assert_eq!(all, [false, false]);
}

#[test]
fn completions_that_nobody_asks_for_are_forgotten() {
    let mut sender = HeapSender::new(SenderConfig::default()).unwrap();
    let mut tickets = vec![];
    for _ in 0..(1 << 20) + 2 {
        tickets.push(sender.send(OutHeap::default(), SendHow::default()).unwrap());
        sender.cancel_all();
    }
    assert_eq!(sender.pop_completion().map(|c| c.ticket), Some(tickets[2]));
    assert_eq!(std::iter::from_fn(|| sender.pop_completion()).count(), (1 << 20) - 1);
}

#[test]
fn lost_packets_are_sent_again_where_they_are_asked_for() {
    let config = SenderConfig { cut: rules(200), keep_bytes: 10_000, ..Default::default() };
    let mut sender = HeapSender::new(config).unwrap();
    let data: Vec<u8> = (0..2000u32).map(|n| n as u8).collect();
    let mut heap = OutHeap::default();
    heap.add_item(0x1000, Arc::<[u8]>::from(data.clone()), false);
    heap.add_inline(0x1001, 5);
    sender.send(heap, SendHow::default()).unwrap();
    let mut packets = run(&mut sender);
    for lost in [11, 5, 4, 0] {
        packets.remove(lost);
    }
    let mut stream = HeapReceiver::new(ReceiverConfig::default()).unwrap();
    packets.iter().for_each(|packet| {
        stream.push(0, packet);
    });
    let asked: Vec<_> = stream
        .missing(0)
        .map(|(cnt, length, map)| (cnt, map.gaps(length).collect::<Vec<_>>()))
        .collect();
    assert_eq!((asked.len(), asked[0].0, asked[0].1.len()), (1, 1, 3));
    assert_eq!(sender.resend(1, &asked[0].1), Ok(4));
    assert_eq!(sender.resend(1, &asked[0].1), Ok(0), "asked for already");
    assert_eq!(sender.resend(9, &[]), Err(ResendError::Unknown(9)));
    run(&mut sender).iter().for_each(|packet| {
        stream.push(0, packet);
    });
    let heap = stream.pop().unwrap().heap().unwrap();
    assert_eq!((heap.payload(), heap.item(0x1001).unwrap().immediate()), (&data[..], Some(5)));
    assert_eq!(sender.counts().resent_packets, 4);
    // What is kept is bounded.
    (0..20).for_each(|_| {
        sender.send(item(3000), SendHow::default()).unwrap();
        run(&mut sender);
    });
    assert_eq!(sender.resend(1, std::slice::from_ref(&(0..9))), Err(ResendError::Unknown(1)));
    assert!(sender.resend(21, std::slice::from_ref(&(0..9))).is_ok());
}

#[test]
fn bytes_are_counted_as_they_are_on_the_link() {
    let wire = Some(Wire { ipv6: false, mtu: 1500 });
    let mut sender = HeapSender::new(SenderConfig { wire, ..Default::default() }).unwrap();
    sender.send(item(3000), SendHow::default()).unwrap();
    let packets = run(&mut sender);
    let counts = sender.counts();
    let spead: u64 = packets.iter().map(|p| p.len() as u64).sum();
    assert_eq!((counts.packets, counts.payload_bytes, counts.packet_bytes), (3, 3000, spead));
    assert_eq!(spead, 3000 + 3 * 40 + 8);
    // IPv4, UDP, Ethernet header and check sequence; then preamble and gap.
    let frames = spead + 3 * (20 + 8 + 18);
    assert_eq!((counts.frame_bytes, counts.link_bytes), (Some(frames), Some(frames + 3 * 20)));
    let mut sender = HeapSender::new(SenderConfig::default()).unwrap();
    sender.send(item(3000), SendHow::default()).unwrap();
    run(&mut sender);
    let counts = sender.counts();
    assert_eq!((counts.packets, counts.frame_bytes, counts.link_bytes), (3, None, None));
}

#[test]
fn payload_is_gathered_where_it_is_or_copied_to_the_same_packet() {
    let mut heap = OutHeap::default();
    heap.add_item(0x1000, vec![1; 3000], false);
    heap.add_item(0x1001, Arc::<[u8]>::from(vec![2; 700]), false);
    (0..300).for_each(|n| heap.add_inline(0x1100 + n, n));
    for payload in [PayloadSize::Fill, PayloadSize::Fixed(1024), PayloadSize::Heap] {
        let cut = CutRules { max_packet_size: 1472, payload };
        let config = SenderConfig { cut, ..Default::default() };
        let mut senders = [0, 1].map(|_| HeapSender::new(config.clone()).unwrap());
        for sender in &mut senders {
            sender.send(heap.clone(), SendHow::default()).unwrap();
            sender.send(OutHeap::stop(Flavour::default()), SendHow::default()).unwrap();
        }
        let (mut prefix, mut parts, mut gathered) = (vec![], PayloadParts::default(), vec![]);
        while let NextPacket::Packet { bytes, .. } =
            senders[0].next_parts(0, &mut prefix, &mut parts)
        {
            parts.parts(0..parts.len()).for_each(|part| prefix.extend(part));
            parts.forget(parts.len());
            assert_eq!(prefix.len(), bytes);
            gathered.push(std::mem::take(&mut prefix));
        }
        assert_eq!(gathered, run(&mut senders[1]));
        assert_eq!(gathered.len() == 2, payload == PayloadSize::Heap);
        let totals = senders[0].totals();
        assert_eq!((totals.heaps, senders[0].counts().heaps), (1, 2));
        assert_eq!(totals, senders[1].totals());
        // The stop is one packet, of which nobody misses anything.
        assert_eq!(totals.packets + 1, gathered.len() as u64);
        let payload = |packet: &Vec<u8>| SpeadPacket::parse(packet).unwrap().payload.len() as u64;
        let all: u64 = gathered[..gathered.len() - 1].iter().map(payload).sum();
        assert_eq!(totals.payload_bytes, all);
        assert!(senders[0].counts().payload_bytes > all);
    }
}

#[test]
fn each_heap_has_its_rate_and_its_destination() {
    let pace = PaceSettings { rate: 1e6, burst_size: 1, burst_rate_ratio: 1.0 };
    let config = SenderConfig { pace, substreams: 2, ..Default::default() };
    let mut sender = HeapSender::new(config).unwrap();
    let rates = [HeapRate::Stream, HeapRate::Rate(1e5), HeapRate::Unlimited, HeapRate::Stream];
    for (n, rate) in rates.into_iter().enumerate() {
        sender.send(item(952), SendHow { substream: n % 2, rate, cnt: None }).unwrap();
    }
    let (mut now, mut left, mut out) = (0, vec![], vec![]);
    loop {
        match sender.next_packet(now, &mut out) {
            NextPacket::Packet { substream, bytes: 1000, .. } => left.push((now / 1000, substream)),
            NextPacket::Wait(until) => now = until,
            NextPacket::Idle => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(left, [(0, 0), (1000, 1), (11_000, 0), (11_000, 1)]);
    let bad = SendHow { rate: HeapRate::Rate(-1.0), ..SendHow::default() };
    assert_eq!(sender.send(item(1), bad).unwrap_err().why, SendRefusal::Rate);
}

#[test]
fn each_control_value_is_what_the_heap_says_and_stop_alone_ends_the_stream() {
    let all: [fn(&mut OutHeap); 4] =
        [OutHeap::add_start, OutHeap::add_reissue, OutHeap::add_update, OutHeap::add_end];
    let mut sender = HeapSender::new(SenderConfig::default()).unwrap();
    for (n, add) in all.iter().enumerate() {
        let mut heap = item(100);
        add(&mut heap);
        assert_eq!(heap.is_stop(), n == 3);
        sender.send(heap, SendHow::default()).unwrap();
    }
    let said: Vec<_> = received(&run(&mut sender))
        .iter()
        .map(|delivery| match delivery {
            Delivery::Heap(heap) => (
                heap.is_start_of_stream(),
                heap.is_reissue(),
                heap.is_update(),
                heap.is_end_of_stream(),
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    // The receiver keeps the heap that ends the stream to itself.
    let [start, reissue, update] =
        [(true, false, false, false), (false, true, false, false), (false, false, true, false)];
    assert_eq!(said, [start, reissue, update]);
}

#[test]
fn no_26_descriptors_come_again() {
    let mut group = ItemGroup::new(BugCompat::default());
    let header =
        NumpyHeader::parse("{'descr': '<u2', 'fortran_order': False, 'shape': (3,)}").unwrap();
    let id = group.add(Descriptor::numpy(0, "v", "values", &header)).unwrap();
    assert_eq!(id, 0x1000);
    let mut generator = HeapGenerator::new(group, Flavour::default(), Some(3));
    let mut entries = vec![];
    for n in 0..7u16 {
        if n != 2 {
            generator.group.set(id, ItemArray::vector(Elements::U16(vec![n; 3]))).unwrap();
        }
        entries.push(generator.heap(What::Stale, What::Stale).unwrap().entries().len());
    }
    assert_eq!(entries, [2, 1, 0, 2, 1, 1, 2], "descriptors every 3 heaps, values that changed");
    assert_eq!(generator.heap(What::All, What::None).unwrap().entries().len(), 1);
}

#[test]
fn a_changed_descriptor_goes_out_before_its_first_value() {
    let header = |descr: &str| {
        let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (3,)}}");
        NumpyHeader::parse(&text).unwrap()
    };
    let of = |descr: &str| Descriptor::numpy(0x1000, "v", "values", &header(descr));
    let mut group = ItemGroup::new(BugCompat::default());
    group.add(of("<u2")).unwrap();
    group.set(0x1000, ItemArray::vector(Elements::U16(vec![1; 3]))).unwrap();
    let mut generator = HeapGenerator::new(group, Flavour::default(), None);
    let mut sender = HeapSender::new(SenderConfig::default()).unwrap();
    let mut known = ItemGroup::new(BugCompat::default());
    let mut next = |generator: &mut HeapGenerator| {
        let heap = generator.heap(What::Stale, What::Stale).unwrap();
        let entries = heap.entries().len();
        sender.send(heap, SendHow::default()).unwrap();
        let heap = received(&run(&mut sender)).remove(0).heap().unwrap();
        assert_eq!(known.update(&heap).errors, []);
        (entries, known.get(0x1000).unwrap().value.clone().unwrap().elements)
    };
    assert_eq!(next(&mut generator), (2, Elements::U16(vec![1; 3])));
    // The new item has its value before the next heap is made.
    generator.group.add(of("<f4")).unwrap();
    generator.group.set(0x1000, ItemArray::vector(Elements::F32(vec![0.5; 3]))).unwrap();
    assert_eq!(next(&mut generator), (2, Elements::F32(vec![0.5; 3])));
    generator.group.set(0x1000, ItemArray::vector(Elements::F32(vec![1.5; 3]))).unwrap();
    assert_eq!(next(&mut generator), (1, Elements::F32(vec![1.5; 3])));
    // The first one again is a change like any other.
    generator.group.add(of("<u2")).unwrap();
    generator.group.set(0x1000, ItemArray::vector(Elements::U16(vec![7; 3]))).unwrap();
    assert_eq!(next(&mut generator), (2, Elements::U16(vec![7; 3])));
}

/// Some layouts with a value of each; `seed` chooses bytes.
fn items(seed: u64) -> Vec<(Descriptor, ItemArray)> {
    let headers = [
        "{'descr': '<u2', 'fortran_order': False, 'shape': (4, 3)}",
        "{'descr': '>f8', 'fortran_order': True, 'shape': (2, 3, 4)}",
        "{'descr': '|b1', 'fortran_order': False, 'shape': ()}",
        "{'descr': [('t', '<u8'), ('iq', [('re', '<f4'), ('im', '>f4')]), ('v', '>i2', (2, 2))], 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<c16', 'fortran_order': False, 'shape': (5,)}",
        "{'descr': '|S7', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '>i8', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': ()}",
    ];
    type Spead<'a> = (&'a [Option<u64>], &'a [(char, u64)]);
    let formats: [Spead<'_>; 4] = [
        (&[None, Some(2)], &[('u', 12)]),
        (&[Some(3)], &[('i', 7), ('f', 32), ('b', 1)]),
        (&[None], &[('c', 8)]),
        (&[], &[('i', 40)]),
    ];
    let name = |n: usize| format!("item {n}");
    let numpy = headers.iter().enumerate().map(|(n, text)| {
        Descriptor::numpy(0x1000 + n as u64, &name(n), "", &NumpyHeader::parse(text).unwrap())
    });
    let spead = formats.iter().enumerate().map(|(n, (shape, format))| {
        Descriptor::spead(0x2000 + n as u64, &name(100 + n), "a format", shape, format)
    });
    let mut random = seed;
    let made = numpy.chain(spead).filter_map(|descriptor| {
        let mut byte = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // No NaN, which is not equal to itself; booleans are 0 or 1.
            (random >> 60) as u8 & 1
        };
        // A text of spead2 loses characters of 0.
        let letters = if descriptor.format.iter().any(|f| f.code == 'c') { 0x40 } else { 0 };
        let bytes: Vec<u8> = (0..200).map(|_| byte() | letters).collect();
        let layout = descriptor.layout().unwrap();
        let value = layout.decode_bytes(&bytes, false, BugCompat::default()).unwrap();
        (byte() == 1 || seed.is_multiple_of(3)).then_some((descriptor, value))
    });
    made.collect()
}

#[test]
fn a_thousand_random_item_groups_come_back() {
    for seed in 0..1000u64 {
        let compat = BugCompat::from_bits((seed % 8) as u32).unwrap();
        let flavour = Flavour::new([40, 48, 32][(seed / 8 % 3) as usize]).unwrap();
        let mut group = ItemGroup::new(compat);
        for (descriptor, value) in items(seed) {
            let id = group.add(descriptor).unwrap();
            group.set(id, value).unwrap();
        }
        let mut generator = HeapGenerator::new(group, flavour, None);
        let size = 56 + (seed * 37 % 2000) as usize;
        let mut sender =
            HeapSender::new(SenderConfig { cut: rules(size), ..Default::default() }).unwrap();
        sender.send(generator.heap(What::Stale, What::Stale).unwrap(), SendHow::default()).unwrap();
        let heap = received(&run(&mut sender)).remove(0).heap().unwrap();
        let mut known = ItemGroup::new(compat);
        let update = known.update(&heap);
        assert_eq!(update.errors, [], "{seed}");
        for item in generator.group.items() {
            let back = known.get(item.descriptor.id).unwrap();
            assert_eq!(back.value, item.value, "{seed}: {:?}", item.descriptor);
            assert_eq!(back.descriptor.name, item.descriptor.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn what_is_sent_is_received(
        entries in proptest::collection::vec(
            (1u64..120, any::<bool>(), proptest::collection::vec(any::<u8>(), 0..200)), 0..40,
        ),
        (width, size, repeat, fixed) in (2u32..8, 56usize..500, any::<bool>(), proptest::option::of(1usize..10)),
    ) {
        let flavour = Flavour::new(8 * width).unwrap();
        let mut heap = OutHeap::new(flavour);
        heap.repeat_pointers = repeat;
        for (n, (id, immediate, bytes)) in entries.iter().enumerate() {
            // Ids are different, so that what comes back is known by them.
            heap.add_item((7 + n as u64 + id / 120) & 127, bytes.clone(), *immediate);
        }
        let payload = fixed.map_or(PayloadSize::Fill, |n| PayloadSize::Fixed(8 * n));
        let cut = CutRules { max_packet_size: size, payload };
        let Ok(mut sender) = HeapSender::new(SenderConfig { cut, ..Default::default() }) else { return Ok(()) };
        if let Err(e) = sender.send(heap.clone(), SendHow::default()) {
            prop_assert!(matches!(e.why, SendRefusal::Packet(PacketError::Repeat(_))), "{}", e);
            return Ok(());
        }
        let packets = run(&mut sender);
        for packet in &packets {
            prop_assert!(packet.len() <= size);
            prop_assert_eq!(SpeadPacket::parse(packet).unwrap().size(), packet.len());
        }
        let all = received(&packets);
        prop_assert_eq!(all.len(), 1);
        let whole = all.into_iter().next().and_then(Delivery::heap);
        prop_assert!(whole.is_some());
        let whole = whole.unwrap();
        for entry in heap.entries() {
            let OutEntry::Item { id, allow_immediate, bytes } = entry else { continue };
            let bytes = bytes.as_slice();
            let item = whole.all_items().find(|i| i.id == *id);
            if *allow_immediate && bytes.len() <= flavour.address_bytes() {
                let value = bytes.iter().fold(0, |v, b| v << 8 | u64::from(*b));
                prop_assert_eq!(item.unwrap().immediate(), Some(value));
            } else if bytes.is_empty() {
                prop_assert!(item.is_none());
            } else {
                prop_assert_eq!(item.unwrap().bytes(), Some(bytes));
            }
        }
    }
}
