//! Packets to hits: the quick way and the long way against a direct model of sections 2 to 4, any bytes, and
//! trains.

use super::*;
use crate::conformance;
use crate::detector::Setup;
use crate::multigrid::MultigridDetector;
use fullcount_core::batch::Origin;
use fullcount_core::ledger::{Entries, Ledger};
use proptest::prelude::*;

/// One module in order on bus 0, one with thresholds on bus 1, a mapping without module on bus 2.
fn geometry(spoof: bool) -> String {
    format!(
        "builder = {{ type = 'mesytec', spoof_high_time = {spoof} }}
        [[mappings]]
        type = 'MGSeq'
        max_channel = 120
        max_wire = 80
        [[mappings]]
        type = 'MGSeq'
        max_channel = 120
        max_wire = 80
        wire_filters = {{ blanket = {{ count = 80, min = 100, max = 900, rescale = 0.5 }} }}
        [[mappings]]
        type = 'MGSeq'
        max_channel = 120
        max_wire = 80
        [pipeline_config]
        maximum_latency = 300000
        max_wire_multiplicity = 3
        max_grid_multiplicity = 5
        [[pipeline_config.modules]]
        analysis_weighted = true
        digital_geometry = {{ x_offset = 0 }}
        [[pipeline_config.modules]]
        analysis_weighted = true
        digital_geometry = {{ x_offset = 4 }}"
    )
}

fn read(spoof: bool, packets: &[Vec<u8>]) -> (Vec<PlaneHit>, Entries) {
    let setup = Setup { geometry: geometry(spoof), ..Setup::default() };
    let detector = MultigridDetector::new(&setup).unwrap();
    let mut reader = detector.reader();
    let mut hits = Vec::new();
    let batch = Batch::from_datagrams(packets.iter().map(|p| (&p[..], Origin::NONE)));
    reader.read(&batch, &mut hits, &mut Products::default());
    reader.flush(Flush::End);
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
    (hits, entries)
}

/// A packet of these sub-buffers, numbered from `first`.
fn packet(first: u32, triggers: &[Vec<u32>]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0];
    for (i, data) in triggers.iter().enumerate() {
        bytes.push(0x58);
        bytes.extend((data.len() as u16 + 3).to_be_bytes());
        bytes.push(0);
        bytes.extend((0xbb00_0000 | (first + i as u32) & 0xff_ffff).to_le_bytes());
        bytes.extend(data.iter().flat_map(|w| w.to_le_bytes()));
        bytes.extend(0x8765_4321u32.to_le_bytes());
        bytes.extend(0xee01_0000u32.to_le_bytes());
    }
    bytes
}

/// Sections 3 and 4 as written, word by word.
struct Model {
    spoof: bool,
    high: u64,
    previous_low: u64,
    hits: Vec<PlaneHit>,
    dropped: u64,
    glitches: u64,
    unmapped: u64,
    filtered: u64,
}

impl Model {
    fn trigger(&mut self, data: &[u32]) {
        let (mut low, mut entries) = (None, Vec::new());
        for (k, &word) in data.iter().enumerate() {
            match word >> 28 {
                4 => {
                    if word & 1 << 24 != 0 {
                        entries.push(None);
                    }
                    if (word & 0x3ff) as usize > data.len() - k {
                        self.dropped += 1;
                        return;
                    }
                }
                2 if !self.spoof => self.high = u64::from(word & 0xffff),
                1 => entries.push(Some((word >> 24 & 15, word >> 12 & 0xfff, word & 0xfff))),
                0 | 2 | 3 => {}
                12.. => low = Some(u64::from(word & 0x3fff_ffff)),
                _ => {
                    self.dropped += 1;
                    return;
                }
            }
        }
        let Some(low) = low else {
            self.dropped += 1;
            return;
        };
        if self.spoof {
            self.high += u64::from(low < self.previous_low);
            self.previous_low = low;
        }
        let time = ((self.high << 30) + low) as i64;
        if entries.len() > 40 {
            self.glitches += entries.len() as u64;
            return;
        }
        for entry in entries {
            let Some((bus, channel, adc)) = entry else {
                let module = u16::MAX;
                self.hits.push(PlaneHit { time, coordinate: 65535, weight: 0, module, plane: 254 });
                continue;
            };
            if bus > 1 || channel >= 120 {
                self.unmapped += 1;
                continue;
            }
            let (plane, coordinate) = if channel < 80 { (0, channel) } else { (1, channel - 80) };
            let mut weight = adc;
            if bus == 1 && plane == 0 {
                weight = adc.div_ceil(2);
                if !(100..=900).contains(&weight) {
                    self.filtered += 1;
                    continue;
                }
            }
            let (coordinate, weight, module) = (coordinate as u16, weight as u16, bus as u16);
            self.hits.push(PlaneHit { time, coordinate, weight, module, plane });
        }
    }
}

fn word() -> impl Strategy<Value = u32> {
    let readout = (0u32..3, 0u32..125, 0u32..4096)
        .prop_map(|(bus, channel, adc)| 0x1000_0000 | bus << 24 | channel << 12 | adc);
    prop_oneof![
        20 => readout,
        2 => Just(0u32),
        1 => (0u32..0x10000).prop_map(|d| 0x3000_0000 | d),
        1 => (0u32..8).prop_map(|h| 0x2000_0000 | h),
        1 => (0u32..12, any::<bool>()).prop_map(|(n, e)| 0x4000_0000 | u32::from(e) << 24 | n),
        1 => (0u32..1 << 30).prop_map(|l| 0xc000_0000 | l),
        1 => any::<u32>(),
    ]
}

/// Mostly of the usual shape, sometimes long, sometimes anything.
fn trigger() -> impl Strategy<Value = Vec<u32>> {
    let body = prop_oneof![
        8 => proptest::collection::vec(word(), 0..5),
        1 => proptest::collection::vec(word(), 0..60),
    ];
    let usual = (0u32..5, body, 0u32..1 << 30, 0u32..3).prop_map(|(high, body, low, over)| {
        let n = body.len() as u32 + over;
        let mut data = vec![0x4000_0000 | n, 0x2000_0000 | high];
        data.extend(body);
        data.push(0xc000_0000 | low);
        data
    });
    prop_oneof![6 => usual, 1 => proptest::collection::vec(word(), 0..8)]
}

proptest! {
    #[test]
    fn hits_are_those_of_the_rules(
        packets in proptest::collection::vec(proptest::collection::vec(trigger(), 1..8), 1..6), spoof: bool,
    ) {
        let mut model = Model {
            spoof, high: 0, previous_low: 0, hits: vec![], dropped: 0, glitches: 0, unmapped: 0, filtered: 0,
        };
        let mut bytes = Vec::new();
        for triggers in &packets {
            // An empty one at the end would be no event any more.
            let mut triggers = triggers.clone();
            triggers.push(vec![0xc000_0000]);
            triggers.iter().for_each(|data| model.trigger(data));
            bytes.push(packet(0, &triggers));
        }
        let (hits, entries) = read(spoof, &bytes);
        prop_assert_eq!(hits, model.hits);
        let triggers = entries.get("triggers.count").unwrap();
        prop_assert_eq!(triggers - entries.get("triggers.decoded").unwrap(), model.dropped);
        for (line, wanted) in [
            ("readouts.glitches", model.glitches),
            ("readouts.geometry_errors", model.unmapped),
            ("readouts.filtered", model.filtered),
        ] {
            prop_assert_eq!(entries.get(line), Some(wanted), "{}", line);
        }
    }

    /// Whatever comes, nothing panics and every hop balances.
    #[test]
    fn any_bytes_are_survived(
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..8), tame: bool,
    ) {
        let packets: Vec<Vec<u8>> = packets.into_iter().map(|mut p| {
            if let Some(first) = p.first_mut().filter(|_| tame) {
                *first = 0x60;
            }
            p
        }).collect();
        let (_, entries) = read(false, &packets);
        prop_assert_eq!(entries.get("decode.packets"), Some(packets.len() as u64));
    }
}

#[test]
fn event_numbers_are_followed_over_packets_and_their_wrap() {
    let end = vec![0xc000_0000u32];
    let packets: Vec<_> =
        [0xff_fffe, 0, 3, 2, 3].map(|first| packet(first, &[end.clone(), end.clone()])).into();
    let (_, entries) = read(false, &packets);
    // 0xfffffe, 0xffffff, 0, 1 | 3, 4 | 2, 3 | 3, 4.
    assert_eq!(entries.get("container_seq_errors"), Some(3));
}

#[test]
fn a_trigger_that_proves_bad_leaves_no_hit_and_no_count_but_its_own() {
    let good = [0x4000_0004, 0x2000_0001, 0x1000_1100, 0x1005_1100, 0xc000_0005];
    let mut bad = good;
    bad[3] = 0x7000_0000;
    let (hits, entries) = read(false, &[packet(1, &[bad.to_vec(), good.to_vec()])]);
    assert_eq!(hits.len(), 2);
    assert_eq!(entries.get("errors.words.word_type"), Some(1));
    assert_eq!(
        (entries.get("readouts.count"), entries.get("rx_discarded_bytes")),
        (Some(2), Some(8))
    );
}

#[test]
fn damaged_packets_conform() {
    let trigger = |t: u32| {
        vec![0x4000_0005, 0x2000_0001, 0x1000_1300, 0x1005_1300, 0x1106_0300, 0xc000_0000 | t]
    };
    let packets: Vec<_> = (0..20)
        .map(|n| (packet(3 * n, &[trigger(n), trigger(n), trigger(n + 1)]), Origin::NONE))
        .collect();
    for spoof in [false, true] {
        let setup = Setup { geometry: geometry(spoof), ..Setup::default() };
        let kind = &crate::multigrid::Multigrid;
        assert!(conformance::check(kind, &setup, &packets, 5000, 11).unwrap().events > 0);
    }
}
