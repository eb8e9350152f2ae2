//! The public captures on several threads: events and counters of one thread, whatever the batches.

use crate::gdgem_made;
use crate::gdgem_made::{capture, detector, setup, table, text};
use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::products::{EventBatch, Products, Want};
use fullcount_core::progress::Flush;
use fullcount_core::time::Nanos;
use fullcount_detect::detector::{Detector, Setup, Sharding, Threads};
use fullcount_detect::hits::FineHit;
use fullcount_detect::steps::Builder;
use serde_json::{Value, json};

/// The published online configuration with changes, for the FECs of a capture.
fn online(mappings: &[[u8; 4]], matcher: &str) -> Setup {
    let mut config: Value = serde_json::from_str(&text("config/refdata.json")).expect("JSON");
    let map = |[fec, vmm, plane, strip]: &[u8; 4]| json!({"fecID": fec, "vmmID": vmm, "planeID": plane, "strip_offset": strip});
    if !mappings.is_empty() {
        config["srs_mappings"] = mappings.iter().map(map).collect();
        config["time_config"]["bc_clock"] = 40.into();
    }
    Setup {
        geometry: config.to_string(),
        options: format!("matcher = '{matcher}'"),
        ..Setup::default()
    }
}

/// All captures with the chains that read them.
fn cases() -> Vec<(&'static str, Setup, Vec<Vec<u8>>)> {
    let example = "bc = 44.444\nccs = 3\ndt = 100\nspc = 200\ncrl = 0.2\ncru = 10";
    let mappings = [[2, 0, 0, 0], [2, 1, 0, 64], [1, 0, 1, 0], [1, 1, 1, 64]];
    let (center, gap) = (online(&mappings, "center"), online(&mappings, "gap"));
    vec![
        ("example", setup("vmm/example_geometry.json", example), capture("example.pcapng")),
        ("xyu", setup("vmm/example_geometry_xyu.json", ""), capture("example_xyu.pcapng")),
        ("online, center", center, capture("example.pcapng")),
        ("online, gap", gap, capture("example.pcapng")),
    ]
}

/// A capture played `passes` times as one long run.
fn repeated(d: &dyn Detector, packets: &[Vec<u8>], passes: u64) -> Vec<Vec<u8>> {
    let mut shifter = d.shifter().expect("the format has a rule");
    packets.iter().for_each(|packet| shifter.learn(packet, Origin::NONE));
    let mut out = Vec::new();
    for pass in 0..passes {
        for packet in packets {
            out.push(packet.clone());
            if pass > 0 {
                shifter.shift(out.last_mut().expect("pushed"), Origin::NONE, pass);
            }
        }
    }
    out
}

/// Events as columns, and all counters. Live: with a clock that goes on by 1 ms a batch.
fn run(
    d: &dyn Detector,
    packets: &[Vec<u8>],
    per_batch: usize,
    threads: usize,
    live: bool,
) -> (EventBatch, Entries) {
    let mut decoder = d.decoder(Want::default(), &Threads::of(threads)).expect("threads");
    let ledger = Ledger::default();
    decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
    let mut products = Products::default();
    for (n, part) in packets.chunks(per_batch).enumerate() {
        let batch = Batch::from_datagrams(part.iter().map(|p| (&p[..], Origin::NONE)));
        decoder.decode(Some(&batch), live.then_some(Nanos(n as i64 * 1_000_000)), &mut products);
        assert_eq!(ledger.read().balance(), 0, "{:?}", ledger.read().hops());
    }
    decoder.finish(&mut products);
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
    (products.events, entries)
}

#[test]
fn the_page_is_shown_clusters_and_single_events_on_several_threads() {
    let (_, setup, packets) = cases().swap_remove(0);
    let d = detector(&setup);
    let want = Want { hits: true, cluster_sizes: true, tracks: true, ..Want::default() };
    let plain = run(&d, &packets, 16, 1, false).0;
    for threads in 1..=3 {
        let mut decoder = d.decoder(want, &Threads::of(threads)).expect("threads");
        let mut products = Products { want, ..Products::default() };
        for part in packets.chunks(16) {
            let batch = Batch::from_datagrams(part.iter().map(|p| (&p[..], Origin::NONE)));
            decoder.decode(Some(&batch), None, &mut products);
        }
        decoder.finish(&mut products);
        assert!(products.events == plain, "{threads} threads: other events");
        let sizes = &products.cluster_sizes;
        assert!(sizes.plane.len() > 1000 && !products.hits.pixel.is_empty(), "{threads}");
        assert!(sizes.plane.contains(&0) && sizes.plane.contains(&1), "{threads}");
        assert!(products.tracks.events().count() > 0, "{threads} threads: no single event");
        assert!(products.tracks.events().all(|hits| hits.len() >= 4), "{threads}");
    }
}

#[test]
fn the_captures_give_the_events_of_one_thread() {
    for (name, setup, packets) in cases() {
        let d = detector(&setup);
        assert!(matches!(d.sharding(), Sharding::Exact(2..)));
        let packets = repeated(&d, &packets, 3);
        let wanted = run(&d, &packets, usize::MAX, 1, false);
        assert!(wanted.0.len() > 1000, "{name}: {} events", wanted.0.len());
        for threads in 2..=4 {
            for per_batch in [1, 16, usize::MAX] {
                let seen = run(&d, &packets, per_batch, threads, false);
                assert!(
                    seen.1 == wanted.1,
                    "{name}, {threads} threads, {per_batch}: other counters"
                );
                assert!(seen.0 == wanted.0, "{name}, {threads} threads, {per_batch}: other events");
            }
        }
        let live = run(&d, &packets, 4, 2, true);
        assert!(live == wanted, "{name}: a clock changes something");
    }
}

/// A recorded set as rows, with a border wherever 300 rows have come.
fn recorded(set: &str) -> Vec<FineHit> {
    let config: Value = serde_json::from_str(&text("config/refdata.json")).expect("JSON");
    let mut hits = Vec::new();
    for r in table(&format!("readouts_{set}.csv.gz")) {
        let here = |m: &&Value| {
            m["fecID"] == json!(r["fec"] as u64) && m["vmmID"] == json!(r["vmm"] as u64)
        };
        let Some(m) = config["srs_mappings"].as_array().expect("a list").iter().find(here) else {
            continue;
        };
        let strip = m["strip_offset"].as_u64().expect("a number") as u16 + r["channel"] as u16;
        hits.push(FineHit {
            time: FineHit::key(r["srs_timestamp"] + f64::from(r["chiptime"] as f32).trunc()),
            coordinate: strip,
            weight: r["adc"].max(1.0) as u16,
            lane: m["planeID"].as_u64().expect("a number") as u8,
            ..FineHit::default()
        });
    }
    let mut least: Vec<i64> = hits.iter().map(|hit| hit.time).collect();
    (1..least.len()).rev().for_each(|i| least[i - 1] = least[i - 1].min(least[i]));
    let mut rows = Vec::new();
    for (n, hit) in hits.iter().enumerate() {
        if n % 300 == 299 {
            rows.push(FineHit { time: least[n], lane: FineHit::BORDER, ..FineHit::default() });
        }
        rows.push(*hit);
    }
    rows
}

#[test]
fn the_recorded_sets_give_the_events_of_one_thread() {
    for set in ["a00010", "a00100"] {
        let rows = recorded(set);
        for matcher in ["gap", "overlap", "end", "center"] {
            let d = detector(&online(&[], matcher));
            let outcome = |threads: usize| {
                let mut builder =
                    d.builder(Want::default(), &Threads::of(threads)).expect("threads");
                let (mut products, mut hits) = (Products::default(), Vec::new());
                for part in rows.chunks(1000) {
                    hits.extend_from_slice(part);
                    builder.build(&mut hits, &mut products, None);
                }
                builder.flush(Flush::End, &mut hits, &mut products);
                let ledger = Ledger::default();
                ledger.register(builder.sheet());
                (products.events, ledger.read())
            };
            let wanted = outcome(1);
            assert!(wanted.0.len() > 20, "{set} {matcher}: {} events", wanted.0.len());
            for threads in 2..=4 {
                assert!(outcome(threads) == wanted, "{set} {matcher}, {threads} threads");
            }
        }
    }
}

#[test]
fn what_hits_wait_for_is_bounded() {
    for key in ["dt", "dp"] {
        let refused = gdgem_made::configure(&setup("", &format!("{key} = 2e9"))).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("detector.{key}: 2000000000 is not allowed: 0 to 1e9 ns")
        );
    }
}

#[test]
fn a_builder_that_is_dropped_ends_its_threads() {
    let d = detector(&Setup::default());
    let mut builder = d.builder(Want::default(), &Threads::of(4)).expect("threads");
    builder.build(&mut Vec::new(), &mut Products::default(), None);
    drop(builder);
}
