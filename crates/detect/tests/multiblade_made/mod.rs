//! Multi-Blade packets and tables for tests, written from the format document alone: shares no code with the
//! decoder. Source: `docs/formats/multiblade.md` sections 2 and 8.
#![allow(dead_code, reason = "each test file uses a part")]

use fullcount_core::refusal::Refusal;
use std::collections::HashMap;
use std::path::PathBuf;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::products::{Products, Want};
use fullcount_detect::detector::{Detector, Setup, Threads, builtin};
use serde_json::Value;

/// Folder of the vectors.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/multiblade")
}

/// A file of the vectors.
pub fn payload(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn text(name: &str) -> String {
    String::from_utf8(payload(name)).expect("text")
}

/// A published configuration.
pub fn config(name: &str) -> String {
    text(&format!("config/{name}"))
}

/// The answers.
pub fn expected() -> Value {
    serde_json::from_str(&text("expected.json")).expect("JSON")
}

/// A number.
pub fn count(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// A published configuration with options.
pub fn setup(file: &str, options: &str) -> Setup {
    let options = options.to_owned();
    Setup { geometry: config(file), geometry_path: file.to_owned(), options, ..Setup::default() }
}

/// Configures.
pub fn configure(setup: &Setup) -> Result<Box<dyn Detector>, Refusal> {
    builtin().configure("multiblade", setup)
}

/// A detector that must be accepted.
pub fn detector(setup: &Setup) -> Box<dyn Detector> {
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

/// Events in order, and counters, of a fresh chain that reads the packets in one batch.
pub fn read(setup: &Setup, packets: &[Vec<u8>]) -> (Vec<(i64, u32)>, Counters) {
    let detector = detector(setup);
    let mut decoder = detector.decoder(Want::default(), &Threads::of(1)).unwrap();
    let mut products = Products::default();
    let batch = Batch::from_datagrams(packets.iter().map(|p| (&p[..], Origin::NONE)));
    decoder.decode(Some(&batch), None, &mut products);
    decoder.finish(&mut products);
    let ledger = Ledger::default();
    decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
    (products.events.absolute().collect(), Counters(entries))
}

/// A recorded readout.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Milliseconds.
    pub global_time: u64,
    /// Serial number.
    pub digitizer: u32,
    /// Ticks.
    pub local_time: u32,
    /// Channel.
    pub channel: u16,
    /// Amplitude.
    pub adc: u16,
}

/// Readouts of a recorded set.
pub fn rows(set: &str) -> Vec<Row> {
    table(&format!("readouts_{set}.csv"))
        .map(|row| Row {
            global_time: row["global_time"].parse().unwrap(),
            digitizer: row["digitizer"].parse().unwrap(),
            local_time: row["local_time"].parse().unwrap(),
            channel: row["channel"].parse().unwrap(),
            adc: row["adc"].parse().unwrap(),
        })
        .collect()
}

/// Rows of a table by column name.
pub fn table(name: &str) -> impl Iterator<Item = HashMap<String, String>> {
    let text = text(name.trim_end_matches(".gz"));
    let mut lines = text.lines().map(str::to_owned).collect::<Vec<_>>().into_iter();
    let names: Vec<String> = lines.next().unwrap().split(',').map(str::to_owned).collect();
    lines.map(move |line| names.iter().cloned().zip(line.split(',').map(str::to_owned)).collect())
}

/// A packet of version 1.3 with readouts [local time, channel, amplitude].
pub fn packet(sequence: u32, digitizer: u32, global_time: u64, readouts: &[[u32; 3]]) -> Vec<u8> {
    let mut p = Vec::new();
    p.extend(0u64.to_le_bytes());
    p.extend(global_time.to_le_bytes());
    p.extend(digitizer.to_le_bytes());
    p.extend([1, 0]);
    p.extend((readouts.len() as u16).to_le_bytes());
    p.extend([1, 3]);
    p.extend(sequence.to_le_bytes());
    p.extend([0, 0]);
    for [time, channel, adc] in readouts {
        p.extend(time.to_le_bytes());
        p.extend((*channel as u16).to_le_bytes());
        p.extend((*adc as u16).to_le_bytes());
    }
    p
}

/// Section 8: a new packet begins whenever global time or digitiser changes.
pub fn packets(rows: &[Row]) -> Vec<Vec<u8>> {
    let same = |a: &Row, b: &Row| (a.global_time, a.digitizer) == (b.global_time, b.digitizer);
    let make = |(n, rows): (usize, &[Row])| {
        let readouts: Vec<_> =
            rows.iter().map(|r| [r.local_time, r.channel.into(), r.adc.into()]).collect();
        packet(n as u32, rows[0].digitizer, rows[0].global_time, &readouts)
    };
    rows.chunk_by(same).enumerate().map(make).collect()
}

/// Payloads of a classic little-endian capture of Ethernet, IPv4 and UDP.
pub fn capture(name: &str) -> Vec<Vec<u8>> {
    let bytes = payload(name);
    assert_eq!(bytes[..4], 0xa1b2_c3d4u32.to_le_bytes(), "classic, microseconds");
    let mut rest = &bytes[24..];
    let mut out = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let frame = &rest[16..16 + length];
        let head = 14 + usize::from(frame[14] & 15) * 4;
        let udp = usize::from(u16::from_be_bytes([frame[head + 4], frame[head + 5]]));
        out.push(frame[head + 8..head + udp].to_vec());
        rest = &rest[16 + length..];
    }
    out
}
