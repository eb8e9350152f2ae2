//! Packets from sockets, connections and memory fill chunks: the library's parts put together as a user's program does it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use fullcount_core::source::{Received, Source};
use fullcount_io::endpoint::UdpUrl;
use fullcount_io::udp::{ReceiveOptions, UdpSource};
use fullcount_spead::ReceiverConfig;
use fullcount_spead::chunk::{
    Chunk, ChunkConfig, ChunkGroup, ChunkMemory, ChunkReceiver, ChunkRing, GroupEviction,
    HeapPlace, PlaceHeap, PlaceRequest,
};
use fullcount_spead::framing::PacketStream;
use fullcount_spead::receive::{Outcome, StreamEnd};

use crate::spead::{PATIENCE, any};

/// A heap for each time of each antenna, three packets long; a chunk has some times of all antennas.
const CHUNKS: usize = 6;
const TIMES: usize = 4;
const ANTENNAS: usize = 2;
const EACH: usize = 400;
const HEAP: usize = 1000;
/// Flags of a chunk, if each packet has one.
const PARTS: usize = HEAP.div_ceil(EACH);
const HEAPS: usize = TIMES * ANTENNAS;

/// Values of a heap.
fn values(time: usize, antenna: usize) -> Vec<u8> {
    (0..HEAP).map(|n| (1 + n * 7 + time * 31 + antenna * 113 + (n >> 8)) as u8).collect()
}

/// A packet of SPEAD-64-40: number, length, offset, payload, time (0x1600), antenna (0x1601).
fn packet(time: usize, antenna: usize, part: usize) -> Vec<u8> {
    let (cnt, offset) = (1 + time * ANTENNAS + antenna, part * EACH);
    let values = values(time, antenna);
    let payload = &values[offset..HEAP.min(offset + EACH)];
    let (length, own) = (HEAP, payload.len());
    let items = [(1, cnt), (2, length), (3, offset), (4, own), (0x1600, time), (0x1601, antenna)];
    let mut bytes = vec![0x53, 4, 3, 5, 0, 0, 0, items.len() as u8];
    for (id, value) in items {
        bytes.extend((1u64 << 63 | id << 40 | value as u64).to_be_bytes());
    }
    bytes.extend(payload);
    bytes
}

/// A heap of one packet that says that the stream ends.
fn stop() -> Vec<u8> {
    let mut bytes = vec![0x53, 4, 3, 5, 0, 0, 0, 5];
    for (id, value) in [(1u64, 1u64 << 30), (2, 0), (3, 0), (4, 0), (6, 2)] {
        bytes.extend((1u64 << 63 | id << 40 | value).to_be_bytes());
    }
    bytes
}

/// Lost on the way: the middle of one heap, and all of another.
fn lost(time: usize, antenna: usize, part: usize) -> bool {
    (time, antenna) == (6, 1) && part == 1 || (time, antenna) == (9, 0)
}

/// Packets of these antennas and a stop: those of a time from the last to the first, antennas by turns.
fn packets(antennas: &[usize]) -> Vec<Vec<u8>> {
    let mut all = vec![];
    for time in 0..CHUNKS * TIMES {
        for part in (0..PARTS).rev() {
            let came = antennas.iter().filter(|antenna| !lost(time, **antenna, part));
            all.extend(came.map(|antenna| packet(time, *antenna, part)));
        }
    }
    all.push(stop());
    all
}

/// Where a heap goes: antennas of one time stand beside each other.
fn place(flags: usize) -> impl Fn(PlaceRequest<'_>) -> Option<HeapPlace> {
    move |request| {
        let [_, Some(time), Some(antenna)] = request.items[..] else { return None };
        let heap = (time as usize % TIMES) * ANTENNAS + antenna as usize;
        let (index, offset) = (heap * flags, heap * HEAP);
        Some(HeapPlace { chunk: time / TIMES as u64, index, offset, extra_offset: 0 })
    }
}

fn config(presence: Option<usize>) -> ChunkConfig {
    ChunkConfig { packet_presence: presence, ..ChunkConfig::with_items(&[0x1600, 0x1601]) }
}

/// Three chunks go round: two are filled, and one at most is finished, so that the stream must wait for its user.
fn receiver(
    presence: Option<usize>,
) -> ChunkReceiver<impl Fn(PlaceRequest<'_>) -> Option<HeapPlace>, ChunkRing> {
    let flags = presence.map_or(1, |_| PARTS);
    let mut ring = ChunkRing::with_limit(1);
    (0..3).for_each(|_| ring.add_free(Chunk::new(HEAPS * HEAP, HEAPS * flags, 0)));
    let stream = ReceiverConfig::default();
    ChunkReceiver::for_chunks(stream, config(presence), place(flags), ring).unwrap()
}

/// Takes finished chunks out, looks at them, and gives them back.
fn take(ring: &mut ChunkRing, presence: Option<usize>, taken: &mut usize) {
    while let Some(chunk) = ring.pop() {
        assert_eq!(chunk.id, *taken as u64, "in order, each once");
        check(&chunk, presence);
        *taken += 1;
        ring.add_free(chunk);
    }
}

/// Every flag says whether its packet or heap came, and what came is where it belongs.
fn check(chunk: &Chunk, presence: Option<usize>) {
    let flags = presence.map_or(1, |_| PARTS);
    for heap in 0..HEAPS {
        let (time, antenna) = (chunk.id as usize * TIMES + heap / ANTENNAS, heap % ANTENNAS);
        let came: Vec<bool> = (0..PARTS).map(|part| !lost(time, antenna, part)).collect();
        let whole = came.iter().all(|came| *came);
        let wanted: Vec<u8> = match presence {
            Some(_) => came.iter().map(|came| u8::from(*came)).collect(),
            None => vec![u8::from(whole)],
        };
        assert_eq!(
            chunk.present[heap * flags..][..flags],
            wanted,
            "time {time}, antenna {antenna}"
        );
        let (data, values) = (&chunk.data[heap * HEAP..][..HEAP], values(time, antenna));
        for (part, came) in came.iter().enumerate() {
            let at = part * EACH..HEAP.min((part + 1) * EACH);
            // A heap without a flag may lie there in part.
            if *came && (whole || presence.is_some()) {
                assert_eq!(data[at.clone()], values[at], "time {time}, antenna {antenna}");
            }
        }
    }
}

/// Reads a source into a stream to its end. `full` makes room, and is called after each read.
fn read<P: PlaceHeap, M: ChunkMemory>(
    stream: &mut ChunkReceiver<P, M>,
    source: &mut dyn Source,
    mut full: impl FnMut(&mut M),
) -> StreamEnd {
    let (mut batch, begun) = (source.batch(), Instant::now());
    loop {
        let came = source.recv(&mut batch, Duration::from_millis(20)).unwrap();
        let now = begun.elapsed().as_nanos() as u64;
        if came == Received::Data {
            for datagram in batch.trains().flat_map(|train| train.chunks()) {
                while stream.push(now, datagram) == Outcome::Full {
                    full(stream.store_mut().memory_mut());
                }
            }
            stream.end_batch();
        }
        stream.expire(now);
        full(stream.store_mut().memory_mut());
        if let Some(why) = stream.ended() {
            return why;
        }
        assert!(begun.elapsed() < PATIENCE, "it hangs: {:?}", stream.statistics());
    }
}

fn udp() -> (UdpSource, SocketAddr) {
    let source = UdpSource::open(&UdpUrl::new(any()), &ReceiveOptions::default()).unwrap();
    let at = source.local_addr();
    (source, at)
}

/// The kernel keeps them until they are read: all together they are smaller than the least receive buffer.
fn send(at: SocketAddr, packets: &[Vec<u8>]) {
    let socket = UdpSocket::bind(any()).unwrap();
    packets.iter().for_each(|packet| assert_eq!(socket.send_to(packet, at).unwrap(), packet.len()));
}

#[test]
fn packets_from_a_socket_fill_chunks_with_a_flag_for_each_heap_or_packet() {
    for presence in [None, Some(EACH)] {
        let ((mut source, at), mut stream) = (udp(), receiver(presence));
        let (packets, mut taken) = (packets(&[0, 1]), 0);
        send(at, &packets);
        let why = read(&mut stream, &mut source, |ring| take(ring, presence, &mut taken));
        assert_eq!((why, taken), (StreamEnd::StopItem, CHUNKS));
        let statistics = stream.statistics();
        assert_eq!(statistics.packets, packets.len() as u64);
        assert!(statistics.worker_blocked > 0, "it waited while a chunk was finished");
        assert_eq!(statistics.incomplete_heaps_evicted + statistics.incomplete_heaps_flushed, 1);
        // The stop heap has no place.
        assert_eq!((statistics.rejected_heaps, statistics.too_old_heaps), (1, 0));
        assert_eq!(stream.store_mut().memory_mut().starved(), 0);
    }
}

#[test]
fn packets_from_memory_and_from_a_connection_fill_the_same_chunks() {
    for presence in [None, Some(EACH)] {
        let bytes = packets(&[0, 1]).concat();
        let (mut stream, mut taken, mut used) = (receiver(presence), 0, 0);
        while used < bytes.len() {
            used += stream.push_buffer(0, &bytes[used..]);
            take(stream.store_mut().memory_mut(), presence, &mut taken);
        }
        assert_eq!((stream.ended(), taken), (Some(StreamEnd::StopItem), CHUNKS));

        let listening = TcpListener::bind(any()).unwrap();
        let at = listening.local_addr().unwrap();
        let sender = std::thread::spawn(move || {
            let mut connection = TcpStream::connect(at).unwrap();
            bytes.chunks(777).for_each(|piece| connection.write_all(piece).unwrap());
        });
        let (mut connection, _) = listening.accept().unwrap();
        let (mut stream, mut taken, mut piece) = (receiver(presence), 0, [0; 4096]);
        let mut framing = PacketStream::new(9000);
        loop {
            let many = connection.read(&mut piece).unwrap();
            if many == 0 {
                break;
            }
            framing.push(&piece[..many], |packet| {
                while stream.push(0, packet) == Outcome::Full {
                    take(stream.store_mut().memory_mut(), presence, &mut taken);
                }
            });
        }
        take(stream.store_mut().memory_mut(), presence, &mut taken);
        sender.join().unwrap();
        assert_eq!((stream.ended(), taken), (Some(StreamEnd::StopItem), CHUNKS));
    }
}

/// A socket and a thread for each antenna: their parts of a chunk become one.
#[test]
fn sockets_on_threads_of_their_own_fill_chunks_together() {
    for presence in [None, Some(EACH)] {
        let flags = presence.map_or(1, |_| PARTS);
        let group = ChunkGroup::new(2, GroupEviction::Lossless);
        let members = [0, 1].map(|antenna| {
            let memory = group.member(Chunk::new(HEAPS * HEAP, HEAPS * flags, 0), 4);
            let stream = ReceiverConfig::default();
            let stream = ChunkReceiver::for_chunks(stream, config(presence), place(flags), memory);
            (antenna, stream.unwrap(), udp())
        });
        let mut taken = 0;
        std::thread::scope(|scope| {
            for (antenna, mut stream, (mut source, at)) in members {
                scope.spawn(move || {
                    send(at, &packets(&[antenna]));
                    let begun = Instant::now();
                    // Whoever is ahead waits for the other one.
                    let wait = |_: &mut _| {
                        assert!(begun.elapsed() < PATIENCE, "the other one is too far behind");
                        std::thread::yield_now();
                    };
                    let why = read(&mut stream, &mut source, wait);
                    assert_eq!(why, StreamEnd::StopItem);
                });
            }
            let begun = Instant::now();
            while !group.is_stopped() {
                for chunk in group.take_ready() {
                    assert_eq!(chunk.id, taken as u64, "in order, each once");
                    check(&chunk, presence);
                    taken += 1;
                }
                assert!(begun.elapsed() < PATIENCE, "it hangs after {taken} chunks");
                std::thread::yield_now();
            }
        });
        assert_eq!((taken, group.too_old()), (CHUNKS, 0));
    }
}
