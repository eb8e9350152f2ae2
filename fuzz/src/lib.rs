//! Any bytes as the packets of any decoder: what the target `decoders` does with an input.
//!
//! An input begins with the number of a kind and the number of a set-up; datagrams follow, each behind 16 bits
//! (little-endian): 13 of length, 3 of the sender's port. Set-ups are those of `fuzz/setups/KIND.toml`, geometries and options
//! of one kind; a kind without such a file has the geometry of its simulator, or none. What must hold for every kind: no
//! panic, every hop balances after each packet and at the end, events lie in the detector's pixels, the reader refuses what
//! the inspector refuses, and variants of a set-up that must not matter give the same events and counters.

use std::path::Path;
use std::sync::OnceLock;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Entries, Ledger, Role, Unit};
use fullcount_core::products::{Products, Want};
use fullcount_core::simulator::{TrafficOptions, TrafficOrder};
use fullcount_detect::detector::{Detector, Kind, Setup, Threads, TimeBase, registered};
use serde::Deserialize;

/// Names one kind, whatever the first byte says: then a corpus is of one kind.
pub const ONE_KIND: &str = "FULLCOUNT_FUZZ_KIND";

/// Kinds that the caller knows, with commas: this program must know the same.
pub const KNOWN_KINDS: &str = "FULLCOUNT_FUZZ_KINDS";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    setup: Vec<Entry>,
}

/// A row of a file of set-ups.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Entry {
    /// Path below the repository; empty: that of the simulator.
    geometry: String,
    /// The decoder's own geometry instead.
    default_geometry: bool,
    /// Texts to be replaced in it, and by what.
    replace: Vec<(String, String)>,
    /// Keys of `[detector]` as TOML: one set-up each.
    options: Vec<String>,
    /// Keys that must not matter: the same result with each.
    variants: Vec<String>,
    /// Calibrations; `@64` stands for 64 equal numbers that the input chooses. Without any: none.
    calibrations: Vec<String>,
    /// `time.pulse = "data"`.
    pulses_in_data: bool,
    /// The reader refuses just what the inspector refuses, and counts each event.
    exact: bool,
    /// Counters whose sum is the number of events that are given out, where that is not `events.count` alone.
    events: Vec<String>,
    /// A packet that the inspector refuses may be a duplicate or of no stream to the reader.
    stateful: bool,
}

/// What must hold of a set-up's counters.
#[derive(Debug, Clone)]
struct Rules {
    refusals: Refusals,
    /// Counters whose sum is the number of events.
    events: Vec<String>,
}

/// What must hold of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusals {
    /// Reader and inspector refuse the same.
    Equal,
    /// The reader refuses what the inspector refuses.
    AtLeast,
    /// What came before decides.
    Stateful,
}

impl Entry {
    fn rules(&self) -> Rules {
        let refusals = match (self.exact, self.stateful) {
            (true, _) => Refusals::Equal,
            (false, true) => Refusals::Stateful,
            (false, false) => Refusals::AtLeast,
        };
        let events =
            if self.events.is_empty() { &["events.count".to_owned()][..] } else { &self.events };
        Rules { refusals, events: events.to_vec() }
    }
}

/// A set-up of a kind: detectors that must give the same.
struct Made {
    detectors: Vec<Box<dyn Detector>>,
    rules: Rules,
}

/// A set-up that is made when it is first asked for: reading a geometry costs many times what an input does.
struct Choice {
    setups: Vec<Setup>,
    rules: Rules,
    made: OnceLock<Option<Made>>,
}

fn choices(kind: &'static dyn Kind) -> Vec<Choice> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = root.join("fuzz/setups").join(format!("{}.toml", kind.name()));
    let file: File = match std::fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display())),
        Err(_) => File { setup: vec![Entry::default()] },
    };
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect(path);
    let none = || vec![String::new()];
    let or_none = |texts: &[String]| if texts.is_empty() { none() } else { texts.to_vec() };
    let mut all = vec![];
    for entry in &file.setup {
        let mut geometry = match entry.geometry.as_str() {
            "" if entry.default_geometry => String::new(),
            "" => simulated(kind.name()),
            path => read(path),
        };
        for (from, to) in &entry.replace {
            assert!(geometry.contains(from), "{}: no {from} in {}", path.display(), entry.geometry);
            geometry = geometry.replace(from, to);
        }
        for options in or_none(&entry.options) {
            for calibration in or_none(&entry.calibrations) {
                let time = TimeBase { pulses_in_data: entry.pulses_in_data, ..TimeBase::default() };
                let setup = |variant: &String| Setup {
                    geometry: geometry.clone(),
                    options: format!("{variant}\n{options}"),
                    calibration: calibration.clone(),
                    time,
                    ..Setup::default()
                };
                let setups = or_none(&entry.variants).iter().map(setup).collect();
                all.push(Choice { setups, rules: entry.rules(), made: OnceLock::new() });
            }
        }
    }
    all
}

/// The geometry of the simulator of the same name; empty: none.
fn simulated(name: &str) -> String {
    let options = TrafficOptions::default();
    let kind = fullcount_sim::registered().find(name);
    let geometry = kind.and_then(|kind| kind.geometry(&TrafficOrder::of(&options, 1)).ok()?);
    geometry.unwrap_or_default()
}

/// Each kind with its set-ups, in the order of the registry.
fn kinds() -> &'static [(&'static dyn Kind, Vec<Choice>)] {
    static KINDS: OnceLock<Vec<(&'static dyn Kind, Vec<Choice>)>> = OnceLock::new();
    KINDS.get_or_init(|| registered().kinds().map(|kind| (kind, choices(kind))).collect())
}

/// The only kind, if the environment names one.
fn only() -> Option<usize> {
    static ONLY: OnceLock<Option<usize>> = OnceLock::new();
    *ONLY.get_or_init(|| {
        let own: Vec<&str> = registered().kinds().map(|kind| kind.name()).collect();
        if let Ok(known) = std::env::var(KNOWN_KINDS) {
            assert_eq!(own.join(","), known, "the program that was asked is not of this source");
        }
        let name = std::env::var(ONE_KIND).ok()?;
        let at = own.iter().position(|kind| *kind == name);
        Some(at.unwrap_or_else(|| panic!("{ONE_KIND}={name}: known are {}", own.join(", "))))
    })
}

/// One input.
pub fn decoders(data: &[u8]) {
    let [kind, setup, ..] = data else { return };
    let kinds = kinds();
    let at = only().unwrap_or(usize::from(*kind) % kinds.len());
    let (kind, choices) = &kinds[at];
    let choice = &choices[usize::from(*setup) % choices.len()];
    let template = choice.setups[0].calibration.contains("@64");
    // A calibration of any numbers is made for one input in four: it costs a geometry.
    let (made, rest);
    let fresh;
    if template && setup & 0xc0 == 0xc0 {
        let (numbers, tail) = data[2..].split_at((data.len() - 2).min(20));
        let setups: Vec<Setup> =
            choice.setups.iter().map(|setup| calibrated(setup, numbers)).collect();
        fresh = make(*kind, &setups, &choice.rules);
        (made, rest) = (&fresh, tail);
    } else {
        let first = || {
            let setups: Vec<Setup> =
                choice.setups.iter().map(|setup| calibrated(setup, &[])).collect();
            make(*kind, &setups, &choice.rules)
        };
        (made, rest) = (choice.made.get_or_init(first), &data[2..]);
    }
    if let Some(made) = made {
        check(made, rest);
    }
}

/// The set-up with numbers for each `@64` of its calibration: those of the input, else 0 for offsets and 1 for slopes.
fn calibrated(setup: &Setup, numbers: &[u8]) -> Setup {
    let mut calibration = setup.calibration.clone();
    let mut numbers = numbers.chunks_exact(4);
    for usual in [0.0f32, 1.0].into_iter().cycle() {
        let Some(at) = calibration.find("@64") else { break };
        let number = numbers.next().and_then(|bytes| bytes.try_into().ok().map(f32::from_be_bytes));
        let number = number.filter(|n| n.is_finite()).map_or(usual, |n| n.clamp(-1e9, 1e9));
        calibration.replace_range(at..at + 3, &format!("{:?}", [number; 64]));
    }
    Setup { calibration, ..setup.clone() }
}

/// `None`: refused, as some calibrations are.
fn make(kind: &dyn Kind, setups: &[Setup], rules: &Rules) -> Option<Made> {
    let detectors = setups.iter().map(|setup| kind.configure(setup).ok()).collect::<Option<_>>()?;
    Some(Made { detectors, rules: rules.clone() })
}

fn check(made: &Made, data: &[u8]) {
    let mut packets = Vec::new();
    let mut rest = data;
    while let Some((head, tail)) = rest.split_first_chunk::<2>() {
        let head = u16::from_le_bytes(*head);
        let (packet, tail) = tail.split_at(tail.len().min(usize::from(head & 0x1fff)));
        packets.push((packet, Origin { port: head >> 13, ..Origin::NONE }));
        rest = tail;
    }
    let mut results =
        made.detectors.iter().map(|detector| read(&**detector, &made.rules, &packets));
    let first = results.next();
    assert!(results.all(|other| Some(&other) == first.as_ref()), "a variant gives another result");
}

/// Sorted events and counters.
fn read(
    detector: &dyn Detector,
    rules: &Rules,
    packets: &[(&[u8], Origin)],
) -> (Vec<(i64, u32)>, Entries) {
    let mut decoder = detector.decoder(Want::ALL, &Threads::of(1)).expect("one thread");
    let mut inspector = detector.inspector();
    let ledger = Ledger::default();
    decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
    let mut products = Products { want: Want::ALL, ..Products::default() };
    let mut refused = 0;
    for (packet, origin) in packets {
        refused += u64::from(inspector.inspect(packet, *origin).error.is_some());
        decoder.decode(Some(&Batch::from_datagrams([(*packet, *origin)])), None, &mut products);
        assert_eq!(ledger.read().balance(), 0);
    }
    decoder.finish(&mut products);
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0);
    let rejected = entries.sum(Unit::Packets, Role::Rejected);
    let name = detector.name();
    let kept = rejected >= refused || rules.refusals == Refusals::Stateful;
    assert!(kept, "{name}: the decoder takes what the inspector refuses");
    let last = detector.pixels().pixels();
    assert!(products.events.pixel.iter().all(|pixel| (1..=last).contains(pixel)));
    assert!(products.events.offset_ns.iter().all(|&offset| offset < 1 << 31));
    if rules.refusals == Refusals::Equal {
        assert_eq!(rejected, refused);
        let counted: Option<u64> = rules.events.iter().map(|name| entries.get(name)).sum();
        assert!(
            counted.is_none_or(|n| n == products.events.len() as u64),
            "{name}: {counted:?} events counted, {} given out",
            products.events.len()
        );
    }
    let mut events: Vec<_> = products.events.absolute().collect();
    events.sort_unstable();
    (events, entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_up_of_every_kind_can_be_made_and_reads_packets_and_noise() {
        for (kind, (_, choices)) in kinds().iter().enumerate() {
            let packets = sample(kinds()[kind].0.name());
            for setup in 0..choices.len() {
                let mut input = vec![kind as u8, setup as u8];
                for packet in &packets {
                    input.extend((packet.len() as u16).to_le_bytes());
                    input.extend(packet);
                    input.extend([3, 0x20, 1, 2, 3]);
                }
                decoders(&input);
                let made = choices[setup].made.get().and_then(Option::as_ref);
                assert!(made.is_some(), "{} {setup}: refused", kinds()[kind].0.name());
            }
        }
    }

    #[test]
    fn damaged_packets_break_no_rule() {
        for (kind, (own, choices)) in kinds().iter().enumerate() {
            let packets: Vec<_> =
                sample(own.name()).into_iter().map(|packet| (packet, Origin::NONE)).collect();
            let hostile = fullcount_detect::conformance::hostile(&packets, 3000, 1);
            for (n, some) in hostile.chunks(50).enumerate() {
                let mut input = vec![kind as u8, (n % choices.len()) as u8];
                for (packet, _) in some.iter().filter(|(packet, _)| packet.len() < 1 << 13) {
                    input.extend((packet.len() as u16 | (n as u16 & 7) << 13).to_le_bytes());
                    input.extend(packet);
                }
                decoders(&input);
            }
        }
    }

    fn sample(name: &str) -> Vec<Vec<u8>> {
        let options = TrafficOptions::default();
        let order = TrafficOrder { prepared_bytes: Some(1), ..TrafficOrder::of(&options, 1) };
        let made = fullcount_sim::registered().find(name).and_then(|kind| kind.make(&order).ok());
        let Some(mut made) = made else { return vec![] };
        (0..4)
            .filter_map(|_| made.traffic.next_train(1, 0).map(|train| train.bytes.to_vec()))
            .filter(|packet| packet.len() < 1 << 13)
            .collect()
    }
}
