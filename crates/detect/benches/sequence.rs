//! How fast numbered packets are accounted for on one core: 64-byte `sequence` packets in trains of 128
//! through the public `Reader`, all counters on.
//!
//! `cargo bench -p fullcount-detect --bench sequence [-- --json]`. Median of five repeats after a
//! warm-up. The input (256 MB) is read once per repeat; numbers go on because each repeat has a new reader.

use std::sync::Arc;
use std::time::Instant;

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::products::{Products, Want};
use fullcount_detect::detector::{Setup, Threads, builtin};

const PACKET: usize = 64;
const TRAIN: usize = 128;
/// Trains per batch: what one receive call of the service takes.
const TRAINS: usize = 8;
const PACKETS: usize = 4_000_000usize.next_multiple_of(TRAIN * TRAINS);
const REPEATS: usize = 5;

fn main() {
    let mut bytes = Vec::with_capacity(PACKETS * PACKET);
    for n in 0..PACKETS as u64 {
        bytes.extend(*b"FCSQ\x01\0\0\0");
        bytes.extend(n.to_le_bytes());
        bytes.extend(n.to_le_bytes());
        bytes.extend((24..PACKET).map(|i| (n as u8).wrapping_mul(32).wrapping_add(i as u8)));
    }
    let memory: Arc<[u8]> = bytes.into();
    let rates = ["", "verify = true"].map(|options| {
        let mut rates: Vec<f64> = (0..=REPEATS).map(|_| once(&memory, options)).skip(1).collect();
        rates.sort_by(f64::total_cmp);
        rates[REPEATS / 2]
    });
    if std::env::args().any(|a| a == "--json") {
        let [plain, verified] = rates;
        println!(
            "{{\"bench\": \"sequence\", \"packets_per_s\": {plain:.0}, \"packets_per_s_verified\": {verified:.0}}}"
        );
    } else {
        println!("headers      {:8.1} M packets/s of {PACKET} B", rates[0] / 1e6);
        println!("and patterns {:8.1} M packets/s of {PACKET} B", rates[1] / 1e6);
    }
}

/// Packets per second of one pass with a fresh decoder.
fn once(memory: &Arc<[u8]>, options: &str) -> f64 {
    let setup = Setup { options: options.to_owned(), ..Setup::default() };
    let detector = builtin().configure("sequence", &setup).expect("valid options");
    let decoder = detector.decoder(Want::default(), &Threads::of(1));
    let (mut decoder, mut products) = (decoder.expect("one thread"), Products::default());
    let mut batch = Batch::with_slots(0, 0);
    let len = TRAIN * PACKET;
    let start = Instant::now();
    for first in (0..memory.len()).step_by(len * TRAINS) {
        batch.share(memory);
        for start in (first..first + len * TRAINS).step_by(len) {
            let (origin, edge) = (Origin::NONE, Edge::Datagram);
            batch.push(TrainMeta { start, len, stride: PACKET, origin, time_ns: 0, edge });
        }
        decoder.decode(Some(&batch), None, &mut products);
    }
    let seconds = start.elapsed().as_secs_f64();
    let sheet = decoder.sheets().swap_remove(0);
    let line = sheet.lines().iter().position(|l| l.name == "decode.accepted").expect("a line");
    assert_eq!(sheet.get(line), PACKETS as u64, "every packet is a first copy");
    PACKETS as f64 / seconds
}
