//! Packets on a connection whose payloads are read into place: the same heaps and counts as packet by packet, whatever comes between.

use std::io::Write as _;
use std::net::TcpStream;

use fullcount_io::endpoint::UdpUrl;
use fullcount_io::spead::{
    IntakeCounter, SpeadFraming, SpeadInput, SpeadIntake, TcpIntake, TcpIntakeOptions,
};
use fullcount_spead::framing::PacketStream;
use fullcount_spead::receive::{Delivery, OnIncomplete, Outcome, SpeadCounter};
use fullcount_spead::{HeapReceiver, ReceiverConfig};

use crate::spead::{any, balanced, read_bytes, receive, tcp};

/// Largest packet, bytes.
const MOST: usize = 20_000;

/// Numbers without a pattern (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % below as u64) as usize
    }
}

/// A packet of SPEAD-64-40: the heap's number and length, offset and payload; in the first one an item.
fn packet(cnt: u64, length: usize, offset: usize, payload: &[u8]) -> Vec<u8> {
    let mut words =
        vec![(1, cnt), (2, length as u64), (3, offset as u64), (4, payload.len() as u64)];
    let first = offset == 0;
    let mut bytes = vec![0x53, 4, 3, 5, 0, 0, 0, 4 + u8::from(first)];
    for (id, value) in words.drain(..) {
        bytes.extend((1u64 << 63 | id << 40 | value).to_be_bytes());
    }
    if first {
        bytes.extend((0x1000u64 << 40).to_be_bytes());
    }
    bytes.extend(payload);
    bytes
}

/// Heaps whose packets are now and then doubled, left out, followed by those of another heap, by junk or by one that is too large.
fn stream(dice: &mut Dice, first: u64, heaps: u64) -> Vec<u8> {
    let mut bytes = vec![];
    for cnt in first..first + heaps {
        let each = [2048, 3000, 8932, 19_000, 500][dice.roll(5)];
        let length = 20_000 + dice.roll(180_000);
        let payload: Vec<u8> =
            (0..length).map(|n| (n as u64 * 7 + cnt * 31 + (n as u64 >> 9)) as u8).collect();
        let pieces: Vec<_> = payload.chunks(each).enumerate().collect();
        let clean = dice.roll(3) == 0;
        for (n, piece) in pieces {
            let whole = packet(cnt, length, n * each, piece);
            match if clean { 99 } else { dice.roll(60) } {
                0 => continue,
                1 => bytes.extend(whole.repeat(2)),
                2 => bytes.extend([whole, packet(cnt + 1_000_000, 64, 0, &[9; 64])].concat()),
                3 => bytes.extend([vec![0xAB; 8 * (1 + dice.roll(700))], whole].concat()),
                4 => bytes.extend([packet(cnt, 30_000, 40, &[3; 25_000]), whole].concat()),
                _ => bytes.extend(whole),
            }
        }
    }
    bytes
}

fn config() -> ReceiverConfig {
    ReceiverConfig {
        incomplete: OnIncomplete::Give,
        heap_timeout_ns: 0,
        ..ReceiverConfig::default()
    }
}

fn about(delivery: &Delivery) -> (u64, Option<&[u8]>, String) {
    match delivery {
        Delivery::Heap(heap) => (heap.cnt, Some(heap.payload()), String::new()),
        Delivery::Incomplete(heap) => (heap.cnt, None, format!("{:?}", heap.present)),
    }
}

/// What comes of the bytes packet by packet: heaps, their counts, and bytes of junk and packets that are too large.
fn packet_by_packet(bytes: &[u8]) -> (Vec<Delivery>, HeapReceiver, (u64, u64)) {
    let mut receiver = HeapReceiver::new(config()).unwrap();
    let (mut packets, mut all) = (PacketStream::new(MOST), vec![]);
    packets.push(bytes, |packet| {
        assert!(!matches!(receiver.push(0, packet), Outcome::Full));
        all.extend(std::iter::from_fn(|| receiver.pop()));
    });
    packets.finish();
    let counts = packets.counts();
    receiver.reader_ended(0);
    receiver.readers_over(0);
    all.extend(std::iter::from_fn(|| receiver.pop()));
    (all, receiver, (counts.junk_bytes, counts.too_large))
}

fn intake(senders: u32, window: usize) -> (SpeadIntake, std::net::SocketAddr) {
    let mut told = SpeadInput { config: config(), ..SpeadInput::default() };
    told.config.max_heaps = window;
    // Memory that was written before: payloads are read into such only.
    (told.pool, told.pool_initial, told.pool_range) = (128, 128, (1, 300_000));
    (told.config.stops, told.config.readers) = (senders, senders);
    let mut intake = SpeadIntake::new(&told).unwrap();
    let options = TcpIntakeOptions { senders, max_packet: MOST, ..TcpIntakeOptions::default() };
    let listening = TcpIntake::listen(&UdpUrl::new(any()), options).unwrap();
    let at = listening.local_addr().unwrap();
    intake.add_tcp(listening);
    (intake, at)
}

fn write(at: std::net::SocketAddr, bytes: Vec<u8>, mut dice: Dice) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut left = &bytes[..];
        while !left.is_empty() {
            let most = [7, 50, 3000, 40_000, 2_000_000][dice.roll(5)];
            let (now, later) = left.split_at((1 + dice.roll(most)).min(left.len()));
            stream.write_all(now).unwrap();
            left = later;
            std::thread::yield_now();
        }
    })
}

#[test]
fn read_into_place_a_connection_gives_what_its_packets_give() {
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let bytes = stream(&mut dice, 1, 60);
        let (wanted, receiver, waste) = packet_by_packet(&bytes);
        let (mut intake, at) = intake(1, config().max_heaps);
        let writer = write(at, bytes, dice);
        let (_, found) = receive(&mut intake);
        writer.join().unwrap();
        let [wanted, found] =
            [&wanted, &found].map(|all| all.iter().map(about).collect::<Vec<_>>());
        for (n, (wanted, found)) in wanted.iter().zip(&found).enumerate() {
            assert_eq!((wanted.0, &wanted.2), (found.0, &found.2), "seed {seed}, heap {n}");
            assert!(wanted.1 == found.1, "seed {seed}, heap {n}: other bytes");
        }
        assert_eq!(wanted.len(), found.len(), "seed {seed}");
        assert!(found.iter().any(|f| f.1.is_none()) && found.iter().any(|f| f.1.is_some()));
        let (ours, theirs) = (intake.stream().statistics(), receiver.statistics());
        assert_eq!((ours.packets, ours.heaps), (theirs.packets, theirs.heaps), "seed {seed}");
        let line = |line: IntakeCounter| intake.sheet().get(SpeadCounter::LINES + line as usize);
        assert_eq!((line(IntakeCounter::Junk), line(IntakeCounter::TooLarge)), waste);
        balanced(&intake);
    }
}

/// A heap that is far smaller than the low mark of a fast connection is not held back while the sender is silent.
#[test]
fn a_small_heap_behind_large_ones_comes_while_the_connection_stays_open() {
    let (mut intake, at) = intake(1, 4);
    let one = |cnt: u64, length: usize| -> Vec<u8> {
        let pieces = (0..length).step_by(19_000);
        let each =
            |from: usize| packet(cnt, length, from, &vec![cnt as u8; 19_000.min(length - from)]);
        pieces.flat_map(each).collect()
    };
    let large: Vec<u8> = (1..=40).flat_map(|cnt| one(cnt, 285_000)).collect();
    let (go, silent) = std::sync::mpsc::channel::<()>();
    let sender = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(&large).unwrap();
        stream.write_all(&one(41, 500)).unwrap();
        let _ = silent.recv();
    });
    let (begun, mut all) = (std::time::Instant::now(), vec![]);
    while all.len() < 41 {
        let wait = std::time::Duration::from_secs(1);
        intake.step(wait, &mut |heap, _| all.push(heap.heap().map(|heap| heap.cnt))).unwrap();
        assert!(begun.elapsed() < crate::spead::PATIENCE, "{} heaps came", all.len());
    }
    assert_eq!(all, (1..=41).map(Some).collect::<Vec<_>>());
    drop(go);
    sender.join().unwrap();
}

#[test]
fn connections_that_take_turns_do_not_mix_their_payloads() {
    let bytes = |n: u64| {
        let all = (0..40).map(|heap| {
            let (cnt, length) = (2 * heap + n, 300_000);
            let payload: Vec<u8> = (0..length).map(|at| (at as u64 * 3 + cnt) as u8).collect();
            let pieces = payload.chunks(4000).enumerate();
            pieces
                .map(|(at, piece)| packet(cnt, length, 4000 * at, piece))
                .collect::<Vec<_>>()
                .concat()
        });
        all.collect::<Vec<_>>().concat()
    };
    // A turn of one connection is several of its heaps.
    let (mut intake, at) = intake(2, 64);
    let writers = [1, 2].map(|n| write(at, bytes(n), Dice(n)));
    let (_, found) = receive(&mut intake);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(found.len(), 80);
    for delivery in &found {
        let (cnt, payload, _) = about(delivery);
        let good = |payload: &[u8]| {
            payload.iter().enumerate().all(|(at, b)| *b == (at as u64 * 3 + cnt) as u8)
        };
        assert!(
            payload.is_some_and(|payload| payload.len() == 300_000 && good(payload)),
            "heap {cnt}"
        );
    }
    balanced(&intake);
}

#[test]
fn whole_heaps_of_all_connections_keep_to_their_memory() {
    let options = TcpIntakeOptions {
        senders: 2,
        framing: SpeadFraming::Heap,
        max_heap: 1 << 20,
        max_live: 1 << 20,
        ..TcpIntakeOptions::default()
    };
    let (mut intake, at) = tcp(options, &SpeadInput::default());
    let [mut first, second] = [0; 2].map(|_| TcpStream::connect(at).unwrap());
    let whole = |cnt: u64| packet(cnt, 600_000, 0, &vec![7; 600_000]);
    let begun = whole(1);
    first.write_all(&begun[..1000]).unwrap();
    read_bytes(&mut intake, 1000);
    // 0.6 MB of the first are not there yet, and have their memory.
    let refused = whole(2);
    let mut read = 1000 + refused.len();
    let write = |bytes: Vec<u8>, stream: &TcpStream| {
        let mut stream = stream.try_clone().unwrap();
        std::thread::spawn(move || stream.write_all(&bytes).unwrap())
    };
    let writer = write(refused, &second);
    read_bytes(&mut intake, read);
    writer.join().unwrap();
    let count = |intake: &SpeadIntake, line: IntakeCounter| {
        intake.sheet().get(SpeadCounter::LINES + line as usize)
    };
    intake.step(std::time::Duration::ZERO, &mut |_, _| panic!("no heap is whole")).unwrap();
    assert_eq!(count(&intake, IntakeCounter::NoMemory), 1);
    // It is whole, and the other one's next heap has its memory.
    let writer = write(begun[1000..].to_vec(), &first);
    read += begun.len() - 1000;
    let (mut all, waits) = (vec![], std::time::Instant::now());
    while intake.stream_bytes() < read as u64 {
        intake.step(std::time::Duration::from_millis(20), &mut |heap, _| all.push(heap)).unwrap();
        assert!(waits.elapsed() < crate::spead::PATIENCE, "{} B came", intake.stream_bytes());
    }
    writer.join().unwrap();
    let writer = write(whole(3), &second);
    drop((first, second));
    all.extend(receive(&mut intake).1);
    writer.join().unwrap();
    assert_eq!(all.iter().map(Delivery::cnt).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(count(&intake, IntakeCounter::NoMemory), 1);
    assert_eq!(count(&intake, IntakeCounter::TooLarge), 0);
}
