//! SRS frames, captures and tables for tests, written from the format document alone: shares no code with the
//! decoder. Source: `docs/formats/gdgem.md` sections 2, 3 and 7.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod answers;

use fullcount_core::refusal::Refusal;
use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::products::Products;
use fullcount_core::progress::Flush;
use fullcount_detect::detector::Setup;
use fullcount_detect::gdgem::{ClusterWatch, GdGemDetector};
use fullcount_detect::hits::FineHit;
use fullcount_detect::steps::{Builder, Reader};
use serde_json::Value;

/// Folder of the vectors.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/gdgem")
}

/// A file of the vectors.
pub fn payload(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A text of the vectors; `.gz` is unpacked.
pub fn text(name: &str) -> String {
    let mut text = String::new();
    let bytes = payload(name);
    match name.ends_with(".gz") {
        true => flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("gzip"),
        false => (&bytes[..]).read_to_string(&mut text).expect("text"),
    };
    text
}

/// The answers.
pub fn expected() -> Value {
    serde_json::from_str(&text("expected.json")).expect("JSON")
}

/// A number.
pub fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// A geometry with options.
pub fn setup(file: &str, options: &str) -> Setup {
    let geometry = if file.is_empty() { String::new() } else { text(file) };
    let options = options.to_owned();
    Setup { geometry, geometry_path: file.to_owned(), options, ..Setup::default() }
}

/// Configures.
pub fn configure(setup: &Setup) -> Result<GdGemDetector, Refusal> {
    GdGemDetector::new(setup)
}

/// A detector that must be accepted.
pub fn detector(setup: &Setup) -> GdGemDetector {
    configure(setup).unwrap_or_else(|e| panic!("{e}"))
}

/// Counters by name.
#[derive(Debug, PartialEq)]
pub struct Counters(pub Entries);

impl Counters {
    /// Value of a counter that exists.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).unwrap_or_else(|| panic!("no counter {name}"))
    }
}

/// What a chain made of packets.
pub struct Ran {
    pub events: Vec<(i64, u32)>,
    /// What the reader gave to the builder.
    pub rows: Vec<FineHit>,
    pub counters: Counters,
}

/// A fresh chain that reads the packets in batches of `per_batch`.
pub fn run(
    setup: &Setup,
    packets: &[Vec<u8>],
    per_batch: usize,
    watch: impl ClusterWatch + 'static,
) -> Ran {
    let detector = detector(setup);
    let (mut reader, mut builder) = (detector.reader(), detector.watched(watch));
    let (mut products, mut rows, mut some) = (Products::default(), Vec::new(), Vec::new());
    let (mut newest, mut latest) = (f64::NEG_INFINITY, i64::MIN);
    for part in packets.chunks(per_batch.max(1)) {
        let batch = Batch::from_datagrams(part.iter().map(|p| (&p[..], Origin::NONE)));
        reader.read(&batch, &mut some, &mut products);
        rows.extend_from_slice(&some);
        let hits = some.iter().filter(|row| row.lane < FineHit::BORDER);
        newest = hits.map(FineHit::ns).fold(newest, f64::max);
        builder.build(&mut some, &mut products, None);
        latest = products.events.absolute().map(|e| e.0).fold(latest, i64::max);
        not_ahead(latest, newest);
    }
    reader.flush(Flush::End);
    builder.flush(Flush::End, &mut some, &mut products);
    latest = products.events.absolute().map(|e| e.0).fold(latest, i64::max);
    not_ahead(latest, newest);
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    ledger.register(builder.sheet());
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
    assert!(some.is_empty());
    Ran { events: products.events.absolute().collect(), rows, counters: Counters(entries) }
}

/// No event may be later than the newest accepted hit.
fn not_ahead(latest: i64, newest: f64) {
    let none = latest == i64::MIN;
    assert!(none || latest as f64 <= newest, "event at {latest} ns, newest hit at {newest} ns");
}

/// A builder alone, fed with rows.
pub fn build(setup: &Setup, mut rows: Vec<FineHit>, watch: impl ClusterWatch + 'static) -> Ran {
    let mut builder = detector(setup).watched(watch);
    let mut products = Products::default();
    builder.flush(Flush::End, &mut rows, &mut products);
    let ledger = Ledger::default();
    ledger.register(builder.sheet());
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
    let events = products.events.absolute().collect();
    Ran { events, rows: Vec::new(), counters: Counters(entries) }
}

/// Rows of a table by column name.
pub fn table(name: &str) -> impl Iterator<Item = HashMap<String, f64>> {
    let text = text(name);
    let mut lines = text.lines().map(str::to_owned).collect::<Vec<_>>().into_iter();
    let names: Vec<String> = lines.next().unwrap().split(',').map(str::to_owned).collect();
    lines.map(move |line| {
        let values =
            line.split(',').map(|v| if v.is_empty() { f64::NAN } else { v.parse().unwrap() });
        names.iter().cloned().zip(values).collect()
    })
}

/// A frame of words.
pub fn frame(fec: u8, counter: u32, words: &[[u8; 6]]) -> Vec<u8> {
    let mut frame = counter.to_be_bytes().to_vec();
    frame.extend(b"VM3");
    frame.push(fec << 4);
    frame.extend([0; 8]);
    frame.extend(words.concat());
    frame
}

/// A marker.
pub fn marker(vmm: u8, time: u64) -> [u8; 6] {
    let high = ((time >> 10) as u32).to_be_bytes();
    let low = (u16::from(vmm) << 10 | (time & 0x3ff) as u16).to_be_bytes();
    [high[0], high[1], high[2], high[3], low[0], low[1]]
}

/// A hit above threshold.
pub fn hit(vmm: u8, channel: u8, offset: u8, bcid: u16, tdc: u8, adc: u16) -> [u8; 6] {
    let gray = u32::from(bcid ^ (bcid >> 1));
    let high = u32::from(offset) << 27 | u32::from(vmm) << 22 | u32::from(adc) << 12 | gray;
    let [a, b, c, d] = high.to_be_bytes();
    [a, b, c, d, 0xc0 | channel, tdc]
}

/// Ethernet frames of a little-endian pcapng capture.
fn ethernet(name: &str) -> Vec<Vec<u8>> {
    let bytes = payload(name);
    let (mut rest, mut out) = (&bytes[..], Vec::new());
    let number = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    };
    while rest.len() >= 12 {
        let (kind, length) = (number(rest, 0), number(rest, 4));
        if kind == 6 {
            out.push(rest[28..28 + number(rest, 20)].to_vec());
        }
        rest = &rest[length..];
    }
    out
}

/// Number of Ethernet frames in a capture.
pub fn packets(name: &str) -> usize {
    ethernet(name).len()
}

/// UDP payloads over IPv4 of a capture.
pub fn capture(name: &str) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for frame in ethernet(name) {
        let head = 14 + usize::from(frame[14] & 15) * 4;
        if frame[12..14] == [8, 0] && frame[23] == 17 {
            let udp = usize::from(u16::from_be_bytes([frame[head + 4], frame[head + 5]]));
            out.push(frame[head + 8..head + udp].to_vec());
        }
    }
    out
}

/// SHA-256 in hexadecimal, as FIPS 180-4 writes it.
pub fn sha256(bytes: &[u8]) -> String {
    let primes: Vec<u32> = (2..312).filter(|n| (2..*n).all(|d| n % d != 0)).collect();
    // The first 32 bits of the fraction of a root, by bisection in whole numbers.
    let fraction = |n: u32, power: u32| {
        let wanted = u128::from(n) << (32 * power);
        let (mut low, mut high) = (0u128, 1 << 40);
        while high - low > 1 {
            let middle = (low + high) / 2;
            *if middle.pow(power) <= wanted { &mut low } else { &mut high } = middle;
        }
        low as u32
    };
    let k: Vec<u32> = primes[..64].iter().map(|&p| fraction(p, 3)).collect();
    let mut state: Vec<u32> = primes[..8].iter().map(|&p| fraction(p, 2)).collect();
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((8 * bytes.len() as u64).to_be_bytes());
    for block in padded.as_chunks::<64>().0 {
        let mut w: Vec<u32> =
            block.as_chunks::<4>().0.iter().map(|b| u32::from_be_bytes(*b)).collect();
        for i in 16..64 {
            let (a, b) = (w[i - 15], w[i - 2]);
            let s0 = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
            let s1 = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
            w.push(w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1));
        }
        let mut v = state.clone();
        for i in 0..64 {
            let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let choice = v[4] & v[5] ^ !v[4] & v[6];
            let one = [s1, choice, k[i], w[i]].into_iter().fold(v[7], u32::wrapping_add);
            let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let most = v[0] & v[1] ^ v[0] & v[2] ^ v[1] & v[2];
            v.rotate_right(1);
            v[0] = one.wrapping_add(s0).wrapping_add(most);
            v[4] = v[4].wrapping_add(one);
        }
        state.iter_mut().zip(v).for_each(|(s, v)| *s = s.wrapping_add(v));
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

/// The set-up of a conversion: its settings are options of the same names.
pub fn conversion(entry: &Value) -> Setup {
    let mut options = String::new();
    for (key, value) in entry["settings"].as_object().unwrap() {
        if key != "cal" {
            options += &format!("{key} = {value}\n");
        }
    }
    let mut setup = setup(&format!("vmm/{}", entry["geometry"].as_str().unwrap()), &options);
    if let Some(file) = entry["settings"]["cal"].as_str() {
        setup.calibration = text(&format!("calibration/{file}"));
    }
    setup
}
