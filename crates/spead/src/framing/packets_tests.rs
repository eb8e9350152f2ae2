//! Packets on a stream: whole whatever pieces they come in, found again behind junk.

use proptest::prelude::*;

use super::*;
use crate::testing::{Raw, heap, pattern};

fn read(bytes: &[u8], max: usize, piece: usize) -> (Vec<Vec<u8>>, PacketStream) {
    let mut stream = PacketStream::new(max);
    let mut packets = vec![];
    for part in bytes.chunks(piece) {
        stream.push(part, |packet| packets.push(packet.to_vec()));
    }
    (packets, stream)
}

#[test]
fn every_way_of_cutting_gives_the_same_packets() {
    let packets = heap(1, &pattern(2000, 1), 300);
    let large = Raw::new(2, 5000, 0, &[1; 5000]).bytes();
    let junk = [[0x53, 4, 3, 5, 0, 0, 0, 0], [9; 8]].concat();
    let bytes = [packets[..3].concat(), large, junk, packets[3..].concat()].concat();
    for piece in (1..64).chain([100, 1000, bytes.len()]) {
        let (found, mut stream) = read(&bytes, 2000, piece);
        assert_eq!(found, packets, "{piece}");
        let counts = stream.counts();
        assert_eq!((counts.junk_bytes, counts.too_large, counts.too_large_bytes), (16, 1, 5040));
        assert_eq!(stream.finish(), 0);
    }
    let (found, mut stream) = read(&bytes[..300], 2000, 7);
    assert_eq!((found.len(), stream.finish()), (0, 300));
}

#[test]
fn a_header_without_end_does_not_stop_the_stream() {
    // Pointers that would fill more than the buffer: it is discarded, and the packets behind it come.
    let mut endless = vec![0x53, 4, 3, 5, 0, 0, 0xff, 0xff];
    endless.extend([0; 600 * 8]);
    let packets = heap(1, &pattern(2000, 1), 20);
    let bytes = [endless, packets.concat()].concat();
    for piece in [64, 1000, bytes.len()] {
        let (found, stream) = read(&bytes, 64, piece);
        assert!(found.len() > packets.len() / 2, "{piece}: {}", found.len());
        assert!(stream.counts().discarded > 0 || stream.counts().junk_bytes > 0);
    }
}

/// Bytes that are a header everywhere, each with `pointers` pointers and no payload length among them.
fn headers(pointers: u16, bytes: usize) -> Vec<u8> {
    let [high, low] = pointers.to_be_bytes();
    [0x53, 4, 3, 5, 0, 0, high, low].repeat(bytes / 8)
}

#[test]
fn headers_everywhere_cost_no_more_than_a_multiple_of_their_bytes() {
    // 8 MB would be looked at for 550 GB.
    for pointers in [60_000, 65_535] {
        let junk = headers(pointers, 8 << 20);
        let packets = heap(1, &pattern(2000, 1), 300);
        // What such a header announces swallows packets behind it: they come when that is over.
        let behind = vec![0; 8 * 65_536];
        let bytes = [&junk[..], &behind, &packets.concat()].concat();
        let began = std::time::Instant::now();
        for piece in [100, 4096, bytes.len()] {
            let (found, stream) = read(&bytes, 64 << 20, piece);
            assert_eq!(found, packets, "{piece}");
            assert_eq!(stream.counts().junk_bytes, (junk.len() + behind.len()) as u64);
        }
        println!("{pointers} pointers: {:?}", began.elapsed());
    }
}

proptest! {
    #[test]
    fn any_bytes_do_no_harm(
        parts in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..60)), 0..9),
        (max, piece) in (48usize..200, 1usize..100),
    ) {
        let mut bytes = vec![];
        for (good, junk) in &parts {
            if *good { bytes.extend(Raw::new(1, junk.len() as u64, 0, junk).bytes()) } else { bytes.extend(junk) }
        }
        let (found, mut stream) = read(&bytes, max, piece);
        stream.finish();
        let counts = stream.counts();
        prop_assert_eq!(counts.packets, found.len() as u64);
        prop_assert!(found.iter().all(|p| p.len() <= max));
        if parts.iter().all(|p| p.0) {
            let good = parts.iter().filter(|p| 40 + p.1.len() <= max).count();
            prop_assert_eq!(found.len(), good);
        }
    }
}
