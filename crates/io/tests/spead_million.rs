//! A million packets with seeded loss, copies and disorder into an intake whose sender says on the back-channel what it sent: every heap is
//! whole, incomplete with the right map, or lost and known to be.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::{Batch, Edge, Origin};
use fullcount_core::ledger::Sheet;
use fullcount_core::sim::{Amount, Fault, Spec};
use fullcount_core::source::{Received, Source, SourceError};
use fullcount_io::fault::FaultSource;
use fullcount_io::spead::{BackChannel, IntakeStep, SpeadInput, SpeadIntake};
use fullcount_spead::receive::{Delivery, OnIncomplete, SpeadCounter, StreamEnd};

use crate::spead::{PATIENCE, any, balanced};

const MILLION: u64 = 1_000_000;
/// Packets of a heap, and payload of each.
const PACKETS: u64 = 4;
const EACH: u64 = 24;
const LENGTH: u64 = PACKETS * EACH;
const HEAPS: u64 = MILLION / PACKETS;

/// A tenth is lost, so that of some heaps nothing comes.
fn spec() -> Spec {
    let share = Amount::Share;
    Spec {
        drop: share(0.1),
        duplicate: share(0.01),
        swap: share(0.01),
        delay: share(0.005),
        by: 100,
        seed: 11,
        of: Some(MILLION),
    }
}

fn value(cnt: u64, at: u64) -> u8 {
    (cnt * 29 + at * 5 + (cnt >> 7)) as u8
}

/// Packet `number` of SPEAD-64-40, in `bytes`.
fn packet(number: u64, bytes: &mut Vec<u8>) {
    let (cnt, offset) = (1 + number / PACKETS, number % PACKETS * EACH);
    bytes.clear();
    bytes.extend([0x53, 4, 3, 5, 0, 0, 0, 4]);
    for (id, value) in [(1, cnt), (2, LENGTH), (3, offset), (4, EACH)] {
        bytes.extend((1u64 << 63 | id << 40 | value).to_be_bytes());
    }
    bytes.extend((offset..offset + EACH).map(|at| value(cnt, at)));
}

/// All packets in order; at their end the sender's last message goes to whoever has reported.
struct Sender {
    next: u64,
    back: UdpSocket,
}

impl Source for Sender {
    fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
        batch.clear();
        if self.next == MILLION {
            let Ok((_, to)) = self.back.recv_from(&mut [0; 2048]) else {
                return Ok(Received::Idle);
            };
            let mut totals = b"FCSB\x01\x03\0\0".to_vec();
            totals.extend([HEAPS, MILLION, MILLION * EACH].map(u64::to_be_bytes).concat());
            self.back.send_to(&totals, to).unwrap();
            return Ok(Received::End);
        }
        let mut bytes = vec![];
        let end = MILLION.min(self.next + 512);
        for number in self.next..end {
            packet(number, &mut bytes);
            batch.append(&bytes, Origin::NONE, 0, Edge::Datagram);
        }
        self.next = end;
        Ok(Received::Data)
    }

    fn batch(&self) -> Batch {
        Batch::with_slots(1, 1 << 16)
    }

    fn lossless(&self) -> bool {
        true
    }

    fn sheet(&self) -> Arc<Sheet> {
        Sheet::new(vec![])
    }

    fn describe(&self) -> Vec<String> {
        vec![]
    }
}

/// The heap's bytes are those that were sent, and those that came.
fn check(delivery: &Delivery, came: &[bool; PACKETS as usize]) {
    let good = |from: u64, bytes: &[u8]| {
        (from..).zip(bytes).all(|(at, byte)| *byte == value(delivery.cnt(), at))
    };
    match delivery {
        Delivery::Heap(heap) => {
            assert!(came.iter().all(|came| *came) && heap.payload().len() as u64 == LENGTH);
            assert!(good(0, heap.payload()));
        }
        Delivery::Incomplete(heap) => {
            let mut map = [false; PACKETS as usize];
            for (from, bytes) in heap.pieces() {
                assert!(good(from, bytes));
                let first = (from / EACH) as usize;
                map[first..first + bytes.len() / EACH as usize].fill(true);
            }
            assert_eq!((&map, heap.heap_length), (came, Some(LENGTH)), "heap {}", heap.cnt);
            assert!(came.contains(&false));
        }
    }
}

#[test]
fn of_a_million_packets_the_senders_last_message_tells_how_many_heaps_are_lost() {
    let mut came: BTreeMap<u64, [bool; PACKETS as usize]> = BTreeMap::new();
    for number in Fault::new(spec()).unwrap().apply(0..MILLION) {
        let heap = came.entry(1 + number / PACKETS).or_default();
        heap[(number % PACKETS) as usize] = true;
    }
    let back = UdpSocket::bind(any()).unwrap();
    back.set_nonblocking(true).unwrap();
    let to = back.local_addr().unwrap();
    let mut told = SpeadInput::default();
    told.config.incomplete = OnIncomplete::Give;
    // Nothing comes later than this window holds, and no wait of this host makes anything late.
    (told.config.max_heaps, told.config.heap_timeout_ns) = (128, 0);
    told.config.packet_payload = Some(EACH);
    let mut intake = SpeadIntake::new(&told).unwrap();
    let sender = Box::new(Sender { next: 0, back });
    intake.add_source(Box::new(FaultSource::new(sender, Fault::new(spec()).unwrap())));
    intake.report_to(BackChannel::to(to, false).unwrap());
    let (mut left, begun) = (came.clone(), Instant::now());
    let why = loop {
        let mut deliver = |delivery: Delivery, _| {
            let Some(came) = left.remove(&delivery.cnt()) else { panic!("twice: {delivery:?}") };
            check(&delivery, &came);
        };
        if let IntakeStep::Ended(why) = intake.step(Duration::ZERO, &mut deliver).unwrap() {
            break why;
        }
        assert_eq!(intake.stream().losses().heaps, None, "nobody has said how many there are");
        assert!(begun.elapsed() < PATIENCE, "it hangs");
    };
    assert_eq!((why, left.len()), (StreamEnd::Readers, 0));
    let lost = HEAPS - came.len() as u64;
    let missing = came.values().flatten().filter(|came| !**came).count() as u64;
    assert!(lost > 10 && missing > 90_000, "{lost} {missing}");
    let losses = intake.stream().losses();
    assert_eq!(losses.heaps, Some(lost));
    assert_eq!((losses.packets, losses.bytes), (Some(missing), missing * EACH));
    // With those of heaps of which nothing came.
    let all = missing + lost * PACKETS;
    assert_eq!((losses.all_packets(), losses.all_bytes()), (Some(all), Some(all * EACH)));
    let sheet = intake.sheet();
    assert_eq!(sheet.get(SpeadCounter::RestBytes as usize), lost * LENGTH);
    assert_eq!(sheet.get(SpeadCounter::RestPackets as usize), lost * PACKETS);
    assert_eq!(sheet.get(SpeadCounter::LostHeaps as usize), lost);
    assert_eq!(sheet.get(SpeadCounter::LostPackets as usize), missing);
    balanced(&intake);
}
