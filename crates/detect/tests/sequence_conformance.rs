//! The `sequence` detector passes the suite of every detector, in order and with faults.

use fullcount_core::batch::Origin;
use fullcount_detect::conformance::{self, SamplePacket};
use fullcount_detect::detector::Setup;
use fullcount_detect::sequence::Sequence;

fn packet(stream: u32, number: u64, time: u64, len: u64) -> SamplePacket {
    let mut p = vec![0x46, 0x43, 0x53, 0x51];
    p.extend(stream.to_le_bytes());
    p.extend(number.to_le_bytes());
    p.extend(time.to_le_bytes());
    p.extend((24..len).map(|i| (number as u8).wrapping_mul(32).wrapping_add(i as u8)));
    (p, Origin::NONE)
}

#[test]
fn conformance_of_faulty_streams() {
    let mut packets: Vec<SamplePacket> = Vec::new();
    for n in (0..300u64).filter(|n| n % 41 != 7) {
        packets.push(packet(3, n ^ u64::from(n % 17 == 4), n, 24 + n % 5));
        packets.push(packet(4, n, n, 40));
        if n % 29 == 0 {
            packets.push(packet(4, n, n, 40));
        }
    }
    for _ in 0..5 {
        packets.push(packet(3, u64::MAX, 300, 24));
        packets.push(packet(4, u64::MAX, 301, 24));
    }
    for options in ["", "verify = true\nlatency = true\nwindow = 64"] {
        let setup = Setup { options: options.to_owned(), ..Setup::default() };
        let report = conformance::check(&Sequence, &setup, &packets, 100_000, 3).unwrap();
        assert_eq!(report.damaged, 100_000);
    }
}
