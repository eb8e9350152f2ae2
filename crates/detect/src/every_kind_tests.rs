//! Every registered kind, by what it declares and never by its name.

use fullcount_core::refusal::Refusal;
use std::io;
use std::sync::Arc;

use fullcount_core::batch::{Batch, Edge, TrainMeta};
use fullcount_core::ledger::{Sheet, Unit};
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::{BatchNumber, Flush};
use fullcount_core::sequence::numbering::{Limit, Numbering, Per};
use fullcount_core::tables::Table;
use fullcount_core::time::{Nanos, TickLength};
use fullcount_core::view::{PixelMap, Plot};

use crate::conformance::{check, numbered};
use crate::detector::{
    Clock, Decoder, Detector, Inspector, Kind, Setup, Sharding, Threads, builtin,
};
use crate::sample::DetectorSample;

/// What is stated instead of the truth.
type Lie = fn(Numbering) -> Option<Numbering>;

/// A kind that states something else about its numbers, or whose decoder says something else.
struct Says<'a> {
    kind: &'a dyn Kind,
    lie: Lie,
    decoder: Wrap,
}

/// A decoder that is put around the real one.
type Wrap = fn(Box<dyn Decoder>) -> Box<dyn Decoder>;

impl Kind for Says<'_> {
    fn name(&self) -> &'static str {
        self.kind.name()
    }
    fn about(&self) -> &'static str {
        self.kind.about()
    }
    fn clock(&self) -> Clock {
        self.kind.clock()
    }
    fn sample(&self) -> DetectorSample {
        self.kind.sample()
    }
    fn configure(&self, setup: &Setup) -> Result<Box<dyn Detector>, Refusal> {
        Ok(Box::new(Said(self.kind.configure(setup)?, self.lie, self.decoder)))
    }
}

struct Said(Box<dyn Detector>, Lie, Wrap);

impl Detector for Said {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn decoder(&self, want: Want, threads: &Threads) -> io::Result<Box<dyn Decoder>> {
        self.0.decoder(want, threads).map(self.2)
    }
    fn tables(&self) -> Vec<Table> {
        self.0.tables()
    }
    fn sharding(&self) -> Sharding {
        self.0.sharding()
    }
    fn numbering(&self) -> Option<Numbering> {
        self.0.numbering().and_then(self.1)
    }
    fn tick(&self) -> (TickLength, bool) {
        self.0.tick()
    }
    fn pixels(&self) -> PixelMap {
        self.0.pixels()
    }
    fn plots(&self) -> Vec<Plot> {
        self.0.plots()
    }
    fn inspector(&self) -> Box<dyn Inspector> {
        self.0.inspector()
    }
}

#[test]
fn a_statement_that_is_not_so_is_found_for_every_kind() {
    let lies: [(&str, Lie); 7] = [
        ("no numbers", |_| None),
        ("a bit more", |n| Some(Numbering { bits: (n.bits + 1).min(48), ..n })),
        ("a bit less", |n| Some(Numbering { bits: (n.bits - 1).min(47), ..n })),
        ("other streams", |n| {
            let apart = n.per.tells_senders();
            Some(Numbering { per: if apart { Per::Run } else { Per::Sender }, ..n })
        }),
        ("another unit", |n| {
            let packets = n.unit == Unit::Packets;
            let unit = if packets { Unit::ContainerEvents } else { Unit::Packets };
            Some(Numbering { unit, ..n })
        }),
        ("a longer window", |n| Some(Numbering { window: Limit::Fixed(4 * n.window.get()), ..n })),
        ("a shorter window", |n| Some(Numbering { window: Limit::Fixed(n.window.get() / 4), ..n })),
    ];
    for kind in builtin().kinds().filter(|kind| states(*kind).is_some()) {
        assert!(
            numbered(&Says { kind, lie: Some, decoder: |same| same }, 3).is_ok(),
            "{}: the truth",
            kind.name()
        );
        let none = kind.configure(&kind.sample().setup()).unwrap().numbering().is_none();
        for (what, lie) in lies {
            if none {
                continue;
            }
            let found = numbered(&Says { kind, lie, decoder: |same| same }, 3);
            assert!(found.is_err(), "{}: {what} is not found", kind.name());
        }
    }
}

/// What a kind states of its numbers; `None`: its packets have none, or it follows them by rules of its own.
fn states(kind: &dyn Kind) -> Option<Numbering> {
    let detector = kind.configure(&kind.sample().setup()).unwrap();
    assert!(!(detector.numbering().is_some() && detector.follows_numbers()), "{}", kind.name());
    detector.numbering()
}

/// The table of the document is what the decoders state.
#[test]
fn the_document_says_what_every_kind_states() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/losses.md");
    let document = std::fs::read_to_string(path).expect("committed");
    for kind in builtin().kinds() {
        let Some(n) = states(kind) else {
            let row = format!("| `{}` |", kind.name());
            assert!(document.contains(&row), "docs/losses.md has not: {row}");
            continue;
        };
        let stream = match n.per {
            Per::Sender => "sender".to_owned(),
            Per::SenderAnd(field) => format!("sender and {field}"),
            Per::Field(field) => field.to_owned(),
            Per::Run => "run".to_owned(),
        };
        let most = n.streams.map_or("all".to_owned(), |most| most.get().to_string());
        let (name, unit, bits, key) = (kind.name(), n.unit.name(), n.bits, n.unit.key());
        let window = n.window.get();
        let row =
            format!("| `{name}` | {unit} | {bits} | {stream} | {window} | {most} | `{key}.lost` |");
        assert!(document.contains(&row), "docs/losses.md has not: {row}");
    }
}

#[test]
fn what_was_done_to_numbered_packets_of_every_kind_stands_in_the_ledger() {
    let mut deeds = 0;
    for kind in builtin().kinds() {
        for seed in 1..=6 {
            let done = numbered(kind, seed).unwrap_or_else(|e| panic!("{}: {e}", kind.name()));
            let all = done.map(|d| [d.lost, d.duplicate, d.reordered, d.late]);
            assert!(all.is_none_or(|all| all.iter().all(|&n| n > 0)), "{}: {done:?}", kind.name());
            deeds += all.map_or(0, |all| all.iter().sum());
        }
    }
    assert!(deeds > 1000, "{deeds} numbers");
}

#[test]
fn samples_of_every_kind_conform_and_look_like_their_own_kind_alone() {
    let registry = builtin();
    for kind in registry.kinds() {
        let (sample, name) = (kind.sample(), kind.name());
        let (setup, packets) = (sample.setup(), sample.packets(200));
        let report =
            check(kind, &setup, &packets, 500, 7).unwrap_or_else(|e| panic!("{name}: {e}"));
        let pixels = kind.configure(&setup).unwrap().pixels().pixels();
        assert_eq!(report.events > 0, pixels > 0, "{name}: {} events", report.events);
        for (bytes, _) in &packets {
            let like = registry.kinds().filter(|kind| kind.looks_right(bytes));
            assert_eq!(like.map(|kind| kind.name()).collect::<Vec<_>>(), [name]);
        }
    }
}

/// Says that nothing waits in it.
struct Early(Box<dyn Decoder>);

impl Decoder for Early {
    fn decode(&mut self, batch: Option<&Batch>, now: Option<Nanos>, products: &mut Products) {
        self.0.decode(batch, now, products);
    }
    fn flush(&mut self, reason: Flush, products: &mut Products) {
        self.0.flush(reason, products);
    }
    fn sheets(&self) -> Vec<Arc<Sheet>> {
        self.0.sheets()
    }
}

#[test]
fn a_decoder_that_says_too_early_that_nothing_waits_is_found() {
    let mut found = Vec::new();
    for kind in builtin().kinds() {
        let (setup, packets) = (kind.sample().setup(), kind.sample().packets(200));
        let hasty = Says { kind, lie: Some, decoder: |decoder| Box::new(Early(decoder)) };
        if let Err(why) = check(&hasty, &setup, &packets, 0, 7) {
            assert!(why.to_string().contains("an event of them waits"), "{why}");
            found.push(kind.name());
        }
    }
    assert!(!found.is_empty(), "no kind's sample leaves anything waiting");
}

/// Always wants to look at the clock at once, and then has nothing to give; where there is no clock only if it `always` does.
struct Restless {
    inner: Box<dyn Decoder>,
    always: bool,
    live: bool,
}

impl Restless {
    fn around(inner: Box<dyn Decoder>, always: bool) -> Box<dyn Decoder> {
        Box::new(Restless { inner, always, live: false })
    }
}

impl Decoder for Restless {
    fn decode(&mut self, batch: Option<&Batch>, now: Option<Nanos>, products: &mut Products) {
        self.live = now.is_some();
        self.inner.decode(batch, now, products);
    }
    fn flush(&mut self, reason: Flush, products: &mut Products) {
        self.inner.flush(reason, products);
    }
    fn oldest(&mut self) -> Option<BatchNumber> {
        self.inner.oldest()
    }
    fn due(&self) -> Option<Nanos> {
        (self.always || self.live).then_some(Nanos(0))
    }
    fn sheets(&self) -> Vec<Arc<Sheet>> {
        self.inner.sheets()
    }
}

#[test]
fn a_decoder_that_does_not_keep_its_own_time_is_found() {
    for kind in builtin().kinds() {
        let (setup, packets) = (kind.sample().setup(), kind.sample().packets(200));
        let cases: [(Wrap, &str); 2] = [
            (|decoder| Restless::around(decoder, true), "has a time in a replay"),
            (|decoder| Restless::around(decoder, false), "due() stays at 0 ns"),
        ];
        for (decoder, words) in cases {
            let restless = Says { kind, lie: Some, decoder };
            let why = check(&restless, &setup, &packets, 0, 7).unwrap_err().to_string();
            assert!(why.contains(words), "{}: {why}", kind.name());
        }
    }
}

/// Packets in one batch.
fn batch(packets: &[crate::sample::SamplePacket]) -> Batch {
    let all: Vec<u8> = packets.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
    let mut batch = Batch::with_slots(0, 0);
    batch.share(&Arc::from(all));
    let mut start = 0;
    for (bytes, origin) in packets {
        let (len, origin, edge) = (bytes.len(), *origin, Edge::Datagram);
        batch.push(TrainMeta { start, len, stride: 0, origin, time_ns: 1, edge });
        start += len;
    }
    batch
}

#[test]
fn every_kind_tells_what_each_module_sent_and_what_is_missing_of_it() {
    for kind in builtin().kinds() {
        let sample = kind.sample();
        let detector =
            kind.configure(&sample.setup()).unwrap_or_else(|e| panic!("{}: {e}", kind.name()));
        let mut decoder = detector.decoder(Want::default(), &Threads::of(1)).unwrap();
        let streams = sample.streams.max(1);
        let (rounds, mut products) = (40, Products::default());
        let mut packets = sample.packets((streams * rounds) as usize);
        if detector.numbering().is_some() {
            // Of each stream the tenth is missing.
            packets.drain((streams * 10) as usize..(streams * 11) as usize);
        }
        decoder.decode(Some(&batch(&packets)), None, &mut products);
        decoder.flush(Flush::End, &mut products);
        let (mut told, mut names) = (Vec::new(), std::collections::BTreeSet::new());
        decoder.modules(&mut |seen| {
            names.insert(detector.module_names().name(&seen));
            told.push(seen);
        });
        let name = kind.name();
        assert_eq!(names.len(), told.len(), "{name}: {names:?}");
        if told.is_empty() {
            // One stream whose packets have no numbers: there is nothing to tell apart.
            assert!(detector.numbering().is_none() && !detector.follows_numbers(), "{name}");
            continue;
        }
        assert_eq!(
            told.iter().map(|m| m.packets).sum::<u64>(),
            packets.len() as u64,
            "{name}: {told:?}"
        );
        if detector.numbering().is_some() {
            let missing = u64::from(streams) * u64::from(sample.numbers);
            assert_eq!(told.iter().map(|m| m.lost).sum::<u64>(), missing, "{name}: {told:?}");
        }
    }
}

#[test]
fn thresholds_that_a_command_sets_hold_for_what_comes() {
    let mut with = 0;
    for kind in builtin().kinds() {
        let sample = kind.sample();
        let detector =
            kind.configure(&sample.setup()).unwrap_or_else(|e| panic!("{}: {e}", kind.name()));
        let mut decoder = detector.decoder(Want::default(), &Threads::of(1)).unwrap();
        let commands = decoder.commands();
        let Some(set) = commands.iter().find(|c| c.name == "THRESHOLD_SET") else { continue };
        with += 1;
        let name = kind.name();
        assert!(set.changes && set.count == (2..=2), "{name}");
        let names = set.arguments.strip_suffix(" VALUE").expect(name);
        let events = |decoder: &mut dyn Decoder| {
            let mut products = Products::default();
            decoder.decode(Some(&batch(&sample.packets(200))), None, &mut products);
            decoder.flush(Flush::Taken, &mut products);
            products.events.len()
        };
        let all = events(&mut *decoder);
        assert!(all > 0, "{name}");
        for threshold in names.split('|') {
            assert_eq!(decoder.command("THRESHOLD_SET", &[threshold, "65535"]), Ok(String::new()));
            let told = decoder.command("THRESHOLD_GET", &[]).unwrap();
            assert!(told.contains(&format!("{threshold} 65535")), "{name}: {told}");
            // Hits that say themselves that they were above a threshold are not asked for another.
            let flagged = sample.flagged;
            assert_eq!(events(&mut *decoder), if flagged { all } else { 0 }, "{name}: {threshold}");
            assert_eq!(decoder.command("THRESHOLD_SET", &[threshold, "0"]), Ok(String::new()));
            assert_eq!(events(&mut *decoder), all, "{name}: {threshold}");
        }
        for bad in [["none", "1"], [names.split('|').next().unwrap(), "65536"]] {
            let refused = decoder.command("THRESHOLD_SET", &bad);
            assert!(matches!(refused, Err(crate::detector::CommandError::Arguments(_))), "{name}");
        }
        let unknown = decoder.command("NO_SUCH", &[]);
        assert!(matches!(unknown, Err(crate::detector::CommandError::Unknown(_))), "{name}");
    }
    assert!(with >= 3, "{with}");
}
