//! Any bytes as SPEAD: as one datagram, as packets on a stream, as whole heaps, as descriptors, as a NumPy header, as messages of the
//! back-channel. No panic, every packet in one place, memory within its bounds, and what is decoded is encoded to the same.
//!
//! The first byte chooses the receiver. The seeds are the streams of `vectors/spead`.

#![no_main]

use fullcount_core::ledger::{Ledger, Sheet};
use fullcount_spead::chunk::{
    Chunk, ChunkConfig, ChunkReceiver, ChunkRing, HeapPlace, PlaceRequest,
};
use fullcount_spead::describe::{BugCompat, Descriptor, ItemGroup, NumpyHeader};
use fullcount_spead::feedback::{
    FeedbackMessage, GapConfig, GapWatch, RateTuner, SentSoFar, TunerConfig,
};
use fullcount_spead::framing::{HeapStream, LiveMemory, PacketStream};
use fullcount_spead::receive::{
    Arrival, Delivery, HeapReceiver, OnIncomplete, ReceiverConfig, SpeadCounter,
};
use fullcount_spead::send::{CutRules, HeapSender, NextPacket, OutHeap, SendHow, SenderConfig};
use fullcount_spead::wire::Flavour;
use libfuzzer_sys::fuzz_target;

const LIVE: u64 = 1 << 20;

fn config(choice: u8) -> ReceiverConfig {
    let base = if choice & 1 == 0 { ReceiverConfig::default() } else { ReceiverConfig::spead2() };
    ReceiverConfig {
        allow_out_of_order: choice & 2 == 0,
        stop_on_stop_item: choice & 4 == 0,
        max_heaps: 1 + usize::from(choice >> 3 & 3),
        substreams: 1 + usize::from(choice >> 5 & 1),
        incomplete: OnIncomplete::Give,
        max_heap_bytes: 1 << 18,
        max_live_bytes: LIVE,
        max_items: 64,
        max_ranges: 16,
        ring_heaps: 1 << 20,
        ..base
    }
}

fn drain(stream: &mut HeapReceiver, group: &mut ItemGroup) {
    while let Some(delivery) = stream.pop() {
        match delivery {
            Delivery::Heap(heap) => {
                let update = group.update(&heap);
                for id in update.values {
                    let item = group.get(id).expect("it has a new value");
                    let (value, layout) = (
                        item.value.as_ref().expect("a new one"),
                        item.layout().expect("it was read"),
                    );
                    assert!(value.check().is_ok());
                    layout.encode(value, group.compat()).expect("it was read by this layout");
                }
            }
            Delivery::Incomplete(heap) => {
                let pieces: usize = heap.pieces().map(|(_, piece)| piece.len()).sum();
                assert_eq!(pieces as u64, heap.received_length);
            }
        }
    }
}

/// Chunk, index, offset and extra offset as the heap says: anywhere.
fn place(request: PlaceRequest<'_>) -> Option<HeapPlace> {
    let value = |n: usize| request.items[n].map(|v| v as usize);
    let chunk = request.items[1]?;
    Some(HeapPlace { chunk, index: value(2)?, offset: value(3)?, extra_offset: value(4)? })
}

/// The same packets into chunks: every place is inside of its chunk, chunks come in order and no more are open than allowed.
fn chunks(choice: u8, bytes: &[u8]) {
    let mut ring = ChunkRing::default();
    (0..64).for_each(|_| ring.add_free(Chunk::new(64, 8, 4)));
    let items = ChunkConfig::with_items(&[0x1600, 0x1601, 0x1602, 0x1603, 0x1604]);
    let most = 1 + usize::from(choice & 3);
    let presence = (choice & 4 != 0).then_some(8);
    let config_of = ChunkConfig { max_chunks: most, packet_presence: presence, ..items };
    let stream = ChunkReceiver::for_chunks(config(choice), config_of, place, ring);
    let mut stream = stream.expect("all of it is allowed");
    let mut packets = PacketStream::new(2000);
    packets.push(bytes, |packet| {
        stream.push(0, packet);
    });
    stream.push(0, bytes);
    let window = stream.store().window();
    assert!(window.end - window.start <= most as u64);
    stream.stop(0);
    let mut last = None;
    while let Some(chunk) = stream.store_mut().memory_mut().pop() {
        assert!(last < Some(chunk.id));
        last = Some(chunk.id);
    }
}

/// The same bytes as whole heaps on a connection, into a stream.
fn whole_heaps(choice: u8, bytes: &[u8]) {
    let mut stream = HeapReceiver::new(config(choice)).expect("all of it is allowed");
    let mut group = ItemGroup::new(BugCompat::default()).with_limit(100);
    let live = LiveMemory::new(if choice & 8 == 0 { 1 << 16 } else { 300 });
    let mut heaps = HeapStream::plain(1 << 16).within(&live);
    for piece in bytes.chunks(1 + usize::from(choice)) {
        heaps.push(piece, 0, |heap| {
            stream.push_heap(0, heap, 1);
        });
        assert!(live.held() <= 1 << 16);
        drain(&mut stream, &mut group);
    }
    if heaps.is_stopped() {
        stream.push_stop(0, 1);
    }
    if let Some(part) = heaps.finish(Arrival::Flushed) {
        stream.push_heap(0, Delivery::Incomplete(part), 1);
        drain(&mut stream, &mut group);
        stream.reader_ended(0);
    }
    assert_eq!(live.held(), 0);
    let sheet = Sheet::new(SpeadCounter::catalogue());
    stream.tally().flush(&sheet);
    let ledger = Ledger::default();
    ledger.register(sheet);
    assert_eq!(ledger.read().balance(), 0);
}

/// The bytes as descriptors; those that a flavour has room for come back as they were.
fn descriptors(compat: BugCompat, bytes: &[u8]) {
    for descriptor in Descriptor::parse(bytes, compat, 10) {
        let _ = descriptor.layout();
        let Ok(again) = descriptor.emit(Flavour::default(), compat) else { continue };
        assert_eq!(Descriptor::parse(&again, compat, 2), [descriptor]);
    }
}

/// A sender that keeps what it sent, heaps 1 to 3 of 1000 B, and its receiver, which got every other packet.
fn two_ends() -> (HeapSender, HeapReceiver) {
    let cut = CutRules { max_packet_size: 104, ..CutRules::default() };
    let config = SenderConfig { cut, keep_bytes: 1 << 16, ..SenderConfig::default() };
    let mut sender = HeapSender::new(config).expect("all of it is allowed");
    let mut receiver = HeapReceiver::new(ReceiverConfig::default()).expect("all of it is allowed");
    for _ in 0..3 {
        let mut heap = OutHeap::new(Flavour::default());
        heap.add_item(0x1000, vec![7; 1000], false);
        sender.send(heap, SendHow::default()).expect("the queue has room");
    }
    let (mut packet, mut number) = (Vec::new(), 0);
    while let NextPacket::Packet { .. } = sender.next_packet(0, &mut packet) {
        number += 1;
        if number % 2 == 0 {
            receiver.push(0, &packet);
        }
        packet.clear();
    }
    (sender, receiver)
}

/// The bytes as messages to both ends of a back-channel, each behind its length (one byte, in fours): a rate stays within its limits, what is
/// sent again is bounded, and what a receiver asks for is what it lacks.
fn back_channel(mut bytes: &[u8]) {
    let (mut sender, mut receiver) = two_ends();
    let config = TunerConfig::default();
    let mut tuner = RateTuner::new(config, 0).expect("all of it is allowed");
    let mut gaps = GapWatch::new(GapConfig::default());
    let (mut time, mut packet) = (0, Vec::new());
    while let [length, rest @ ..] = bytes {
        let (message, rest) = rest.split_at(rest.len().min(4 * usize::from(*length)));
        bytes = rest;
        time += 30_000_000;
        match FeedbackMessage::parse(message) {
            Ok(FeedbackMessage::Report(report)) => {
                let sent = SentSoFar { bytes: time / 50, behind_ns: sender.behind_ns(time) };
                tuner.report(time, report, sent);
            }
            Ok(FeedbackMessage::Resend(request)) => {
                let _ = sender.resend(request.cnt, &request.ranges);
            }
            Ok(FeedbackMessage::Totals(totals)) => receiver.sender_said(totals),
            Err(_) => {}
        }
        tuner.tick(time);
        assert!((config.min_rate..=config.max_rate).contains(&tuner.rate()));
        sender.set_pace(tuner.rate(), tuner.burst_size());
        for request in gaps.requests(&receiver, time) {
            assert!(request.ranges.iter().all(|range| range.end <= 1000));
            sender.resend(request.cnt, &request.ranges).expect("it is kept");
        }
        let mut most = 100;
        while let NextPacket::Packet { .. } = sender.next_packet(time, &mut packet) {
            receiver.push(time, &packet);
            packet.clear();
            most -= 1;
            assert!(most > 0, "three heaps have 51 packets");
        }
        receiver.report(time);
    }
}

fuzz_target!(|data: &[u8]| {
    let [choice, bytes @ ..] = data else { return };
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(header) = NumpyHeader::parse(text)
    {
        assert_eq!(NumpyHeader::parse(&header.to_string()), Ok(header));
    }
    if let Ok(message) = FeedbackMessage::parse(bytes) {
        assert_eq!(FeedbackMessage::parse(&message.emit()), Ok(message));
    }
    let mut stream = HeapReceiver::new(config(*choice)).expect("all of it is allowed");
    let compat = BugCompat::from_bits(u32::from(choice >> 6)).expect("below 8");
    let mut group = ItemGroup::new(compat).with_limit(100);
    descriptors(compat, bytes);
    back_channel(bytes);
    stream.push(0, bytes);
    let mut packets = PacketStream::new(2000);
    let mut time = 0;
    for piece in bytes.chunks(1 + usize::from(*choice)) {
        packets.push(piece, |packet| {
            time += 100_000_000;
            stream.expire(time);
            stream.push(time, packet);
        });
        assert!(stream.live_bytes() <= LIVE);
        drain(&mut stream, &mut group);
    }
    packets.finish();
    stream.stop(time);
    drain(&mut stream, &mut group);
    assert_eq!((stream.live_heaps(), stream.live_bytes()), (0, 0));
    let sheet = Sheet::new(SpeadCounter::catalogue());
    stream.tally().flush(&sheet);
    let ledger = Ledger::default();
    ledger.register(sheet);
    assert_eq!(ledger.read().balance(), 0);
    whole_heaps(*choice, bytes);
    chunks(*choice, bytes);
});
