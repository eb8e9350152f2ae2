//! The first generation against the vectors' table, its borders, and its ledger.

use fullcount_core::ledger::Ledger;
use serde_json::Value;

use super::*;
use crate::detector::Setup;
use crate::multiblade::MultiBladeDetector;

/// One cassette of 32 wires along x and 32 strips, ticks of 1 ns, 16 pixels per strip.
fn detector(options: &str) -> MultiBladeDetector {
    let geometry = "cassettes = 1\nwires = 32\nstrips = 32\nTimeTickNS = 1\nwires_along = 'x'\n\
        [[mapping]]\ndigitizer = 1\ncassette = 0\nchannels = [0, 31]\nwires = [0, 31]\n\
        [[mapping]]\ndigitizer = 1\ncassette = 0\nchannels = [32, 63]\nstrips = [0, 31]\n";
    let options = format!("clustering = 'fixed-window'\nsubpixels = 16\n{options}");
    let setup = Setup { geometry: geometry.to_owned(), options, ..Setup::default() };
    MultiBladeDetector::new(&setup).unwrap_or_else(|e| panic!("{e}"))
}

fn hit(channel: u16, weight: u16, time: i64) -> PlaneHit {
    let (plane, coordinate) = if channel < 32 { (0, channel) } else { (1, channel - 32) };
    PlaneHit { time, coordinate, weight, module: 0, plane }
}

/// (wire, strip in sixteenths, time) of each event, and how many candidates were rejected.
fn events(options: &str, mut hits: Vec<PlaneHit>) -> (Vec<(u32, u32, i64)>, u64) {
    let detector = detector(options);
    let mut builder = detector.builder();
    let mut products = Products::default();
    let ledger = Ledger::default();
    ledger.register(builder.sheet());
    builder.build(&mut hits, &mut products, None);
    assert_eq!(ledger.read().balance(), 0, "with a window open");
    builder.flush(Flush::End, &mut hits, &mut products);
    let entries = ledger.read();
    assert_eq!((entries.balance(), entries.get("cluster.open")), (0, Some(0)));
    let events = products.events.absolute().map(|(t, p)| ((p - 1) % 32, (p - 1) / 32, t)).collect();
    let rejected = entries.get("events.candidates").unwrap() - entries.get("events.count").unwrap();
    (events, rejected)
}

#[test]
fn the_table_of_the_vectors_with_both_positions() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/multiblade/expected.json");
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let case = &all["fixed_window"];
    let rows = case["rows_wire_strip_adc_tick"].as_array().unwrap();
    let number = |v: &Value| v.as_u64().unwrap();
    let hits: Vec<_> = rows
        .iter()
        .flat_map(|r| {
            let one =
                |i: usize| hit(number(&r[i]) as u16, number(&r[2]) as u16, number(&r[3]) as i64);
            [one(0), one(1)]
        })
        .collect();
    for (key, shift) in [("weighted", 0.5), ("maximum", 0.5)] {
        let (seen, rejected) = events(&format!("window = 185\nposition = '{key}'"), hits.clone());
        assert_eq!(rejected, number(&case["counters"]["rejected_adjacency"]));
        let wanted: Vec<_> = case[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| {
                let [wire, strip] = [0, 1].map(|i| e[i].as_f64().unwrap());
                let along = (strip - 32.0 + shift) * 16.0;
                ((wire + 0.5).floor() as u32, along.floor() as u32, number(&e[2]) as i64)
            })
            .collect();
        assert_eq!(seen, wanted, "{key}");
    }
}

#[test]
fn the_window_is_a_length_from_the_first_readout_and_packets_do_not_matter() {
    let border = PlaneHit { plane: PlaneHit::BORDER, ..PlaneHit::default() };
    let hits = vec![hit(3, 9, 100), border, hit(40, 9, 109), hit(3, 9, 110), hit(41, 9, 111)];
    let (seen, rejected) = events("window = 10", hits);
    assert_eq!((seen, rejected), (vec![(3, 8 * 16 + 8, 100), (3, 9 * 16 + 8, 110)], 0));
}

#[test]
fn a_step_back_closes_the_window() {
    let (seen, rejected) = events("", vec![hit(3, 9, 100), hit(40, 9, 99)]);
    assert_eq!((seen, rejected), (vec![], 2), "99 is 2³² - 1 ticks behind the start");
}

#[test]
fn empty_planes_gaps_thresholds_and_weightless_planes() {
    let rejected = |options: &str, hits: Vec<PlaneHit>| {
        let (seen, rejected) = events(options, hits);
        (seen.len(), rejected)
    };
    assert_eq!(rejected("", vec![hit(3, 9, 0)]), (0, 1));
    assert_eq!(rejected("", vec![hit(3, 9, 0), hit(5, 9, 0), hit(40, 9, 0)]), (0, 1));
    assert_eq!(rejected("", vec![hit(3, 9, 0), hit(40, 9, 0), hit(42, 9, 0)]), (0, 1));
    assert_eq!(rejected("", vec![hit(3, 9, 0), hit(3, 9, 1), hit(40, 9, 0)]), (1, 0), "twice");
    assert_eq!(rejected("threshold = 5", vec![hit(3, 9, 0), hit(40, 4, 0)]), (0, 1));
    assert_eq!(rejected("threshold = 5", vec![hit(3, 5, 0), hit(40, 5, 0), hit(9, 4, 0)]), (1, 0));
    for position in ["position = 'weighted'", "position = 'maximum'"] {
        assert_eq!(rejected(position, vec![hit(3, 0, 0), hit(40, 9, 0)]), (0, 1));
    }
}
