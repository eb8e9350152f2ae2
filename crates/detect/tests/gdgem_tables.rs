//! Gd-GEM as tables: hits and clusters of the captures are those of `vectors/gdgem`, whatever the batches.

use crate::gdgem_made;
use std::collections::BTreeMap;

use crate::gdgem_made::{capture, conversion, count, detector, expected, setup, table, text};
use fullcount_core::batch::{Batch, Origin};
use fullcount_core::products::{Products, Want};
use fullcount_core::tables::{StripHits, Table};
use fullcount_detect::detector::{Detector, Setup, Threads};
use serde_json::Value;

const EVERYTHING: Want = Want::ALL;

/// What a chain makes of packets, in batches of `per_batch`.
fn run(setup: &Setup, packets: &[Vec<u8>], per_batch: usize, want: Want) -> Products {
    run_on(1, setup, packets, per_batch, want)
}

/// The same with so many builder threads.
fn run_on(
    threads: usize,
    setup: &Setup,
    packets: &[Vec<u8>],
    per_batch: usize,
    want: Want,
) -> Products {
    let detector = detector(setup);
    let mut decoder = detector.decoder(want, &Threads::of(threads)).unwrap();
    let mut products = Products { want, ..Products::default() };
    for part in packets.chunks(per_batch.min(packets.len()).max(1)) {
        let batch = Batch::from_datagrams(part.iter().map(|p| (&p[..], Origin::NONE)));
        decoder.decode(Some(&batch), None, &mut products);
    }
    decoder.finish(&mut products);
    products
}

/// Rows by FEC and VMM.
fn by_vmm(hits: &StripHits) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (fec, vmm) in hits.fec.iter().zip(&hits.vmm) {
        *all.entry(format!("{fec}:{vmm}")).or_default() += 1;
    }
    all
}

fn close(seen: f64, wanted: f64, tolerance: f64, what: &str) {
    assert!((seen - wanted).abs() <= tolerance, "{what}: {seen} is not {wanted}");
}

fn sum(values: &[f64]) -> f64 {
    values.iter().sum()
}

fn relative(seen: f64, wanted: &Value, what: &str) {
    let wanted = wanted.as_f64().unwrap();
    close(seen, wanted, 1e-12 * wanted.abs(), what);
}

#[test]
fn every_conversion_gives_its_rows() {
    let expected = expected();
    for (name, entry) in expected["conversions"].as_object().unwrap() {
        let wanted = &entry["canonical"];
        let file = entry["capture"].as_str().unwrap();
        let products = run(&conversion(entry), &capture(file), 7, EVERYTHING);

        let hits = &products.strip_hits;
        let below = wanted["hit_counters"]["below_threshold"].as_u64().unwrap_or(0);
        let accepted = count(&wanted["hits_accepted"]) - below;
        assert_eq!(hits.time_ps.len() as u64, accepted, "{name}");
        // Of each VMM at most those with a marker, and in all those less the refused ones.
        let of_capture = &expected["captures"][file];
        let seen = by_vmm(hits);
        let mut with_marker = 0;
        for (vmm, all) in of_capture["hits_per_vmm"].as_object().unwrap() {
            let without = of_capture["hits_without_marker"][vmm].as_u64().unwrap_or(0);
            let most = count(all) - without;
            with_marker += most;
            let n = seen.get(vmm).copied().unwrap_or(0);
            assert!(n <= most && (below > 0 || n + 8 >= most), "{name} {vmm}: {n} of {most}");
        }
        let refused: u64 = ["invalid", "latency_violation", "bad_offset", "unmapped"]
            .map(|reason| wanted["hit_counters"][reason].as_u64().unwrap_or(0))
            .iter()
            .sum();
        assert_eq!(accepted, with_marker - refused - below, "{name}");

        let planes = &products.plane_clusters;
        for (key, n) in wanted["plane_clusters"].as_object().unwrap() {
            let (detector, plane) = key.split_once(':').unwrap();
            let (detector, plane): (u32, u8) = (detector.parse().unwrap(), plane.parse().unwrap());
            let ids: Vec<u64> = (0..planes.id.len())
                .filter(|&i| (planes.detector[i], planes.plane[i]) == (detector, plane))
                .map(|i| planes.id[i])
                .collect();
            assert!(ids.iter().copied().eq(1..=count(n)), "{name} {key}: numbered from 1");
        }
        let sums = &wanted["plane_cluster_sums"];
        let size: u64 = planes.size.iter().map(|&n| u64::from(n)).sum();
        assert_eq!((size, planes.adc.iter().sum()), (count(&sums["size"]), count(&sums["adc"])));
        relative(sum(&planes.pos), &sums["pos"], name);
        relative(sum(&planes.pos_utpc), &sums["pos_utpc"], name);
        relative(planes.time_ps.iter().map(|&t| t as f64 / 1e3).sum(), &sums["time"], name);
        let spans = planes.first_ps.iter().zip(&planes.last_ps).zip(&planes.time_utpc_ps);
        assert!(spans.into_iter().all(|((first, last), utpc)| first <= last && last == utpc));

        let detectors = &products.detector_clusters;
        for (key, n) in wanted["detector_clusters"].as_object().unwrap() {
            let detector: u32 = key.parse().unwrap();
            let seen = detectors.detector.iter().filter(|&&d| d == detector).count();
            assert_eq!(seen as u64, count(n), "{name} {key}");
        }
        let sums = &wanted["detector_cluster_sums"];
        relative(sum(&detectors.pos0), &sums["pos0"], name);
        relative(sum(&detectors.pos1), &sums["pos1"], name);
        relative(detectors.time0_ps.iter().map(|&t| t as f64 / 1e3).sum(), &sums["time0"], name);
    }
}

#[test]
fn detector_clusters_are_the_published_rows() {
    for (file, conversion_name) in
        [("detectors_example_geometry.csv.gz", "example_geometry"), ("detectors_xyu.csv.gz", "xyu")]
    {
        let entry = &expected()["conversions"][conversion_name];
        let packets = capture(entry["capture"].as_str().unwrap());
        let products = run(&conversion(entry), &packets, usize::MAX, EVERYTHING);
        let (seen, planes) = (&products.detector_clusters, &products.plane_clusters);
        let rows: Vec<_> = table(file).collect();
        assert_eq!(seen.id.len(), rows.len(), "{file}");
        // The published numbers count through the planes.
        let of_plane = |plane| planes.plane.iter().filter(|&&p| p == plane).count() as f64;
        let before = [0.0, of_plane(0), of_plane(0) + of_plane(1)];
        for (i, row) in rows.iter().enumerate() {
            let what = |column: &str| format!("{file} {} {column}", row["id"]);
            let exact = |seen: f64, column: &str| close(seen, row[column], 0.0, &what(column));
            let place = |seen: f64, column: &str| close(seen, row[column], 1e-9, &what(column));
            let time = |seen: i64, column: &str| {
                close(seen as f64 / 1e3, row[column], 1e-3, &what(column));
            };
            exact(seen.id[i] as f64, "id");
            exact(seen.detector[i].into(), "det");
            assert_eq!(seen.planes[i], if conversion_name == "xyu" { 0b111 } else { 0b11 });
            exact(seen.id0[i] as f64, "id0");
            exact(seen.id1[i] as f64 + before[1], "id1");
            if seen.planes[i] == 0b111 {
                exact(seen.id2[i] as f64 + before[2], "id2");
            }
            for (n, size, adc, pos, at) in [
                (0, &seen.size0, &seen.adc0, &seen.pos0, &seen.time0_ps),
                (1, &seen.size1, &seen.adc1, &seen.pos1, &seen.time1_ps),
                (2, &seen.size2, &seen.adc2, &seen.pos2, &seen.time2_ps),
            ] {
                exact(size[i].into(), &format!("size{n}"));
                exact(adc[i] as f64, &format!("adc{n}"));
                place(pos[i], &format!("pos{n}"));
                time(at[i], &format!("time{n}"));
            }
            place(seen.pos0_utpc[i], "pos0_utpc");
            place(seen.pos1_utpc[i], "pos1_utpc");
            time(seen.time0_utpc_ps[i], "time0_utpc");
            time(seen.time1_utpc_ps[i], "time1_utpc");
            place(seen.pos0_charge2[i], "pos0_charge2");
            place(seen.pos1_charge2[i], "pos1_charge2");
            time(seen.time0_charge2_ps[i], "time0_charge2");
            time(seen.time1_charge2_ps[i], "time1_charge2");
            place(seen.pos0_algo[i], "pos0_algo");
            place(seen.pos1_algo[i], "pos1_algo");
            close(seen.time0_algo_ns[i], row["time0_algo"], 1e-3, &what("time0_algo"));
            close(seen.time1_algo_ns[i], row["time1_algo"], 1e-3, &what("time1_algo"));
        }
    }
}

#[test]
fn hits_say_where_they_come_from() {
    // A hit without marker, then each field once with a value of its own.
    let words = [
        gdgem_made::hit(1, 40, 2, 300, 17, 99),
        gdgem_made::marker(0, 65_536),
        gdgem_made::hit(1, 41, 3, 301, 18, 100),
        gdgem_made::hit(0, 10, 3, 7, 50, 200),
        gdgem_made::marker(1, 65_536),
        gdgem_made::hit(1, 11, 15, 4095, 255, 1023),
        gdgem_made::hit(0, 12, 31, 0, 1, 90),
    ];
    let setup = Setup::default();
    let products = run(&setup, &[gdgem_made::frame(1, 0, &words)], 1, EVERYTHING);
    let h = &products.strip_hits;
    assert_eq!(h.fec, [1, 1, 1]);
    assert_eq!(h.vmm, [0, 1, 0]);
    assert_eq!(h.channel, [10, 11, 12]);
    assert_eq!(h.offset, [3, 15, 31]);
    assert_eq!(h.bcid, [7, 4095, 0]);
    assert_eq!(h.tdc, [50, 255, 1]);
    assert_eq!(h.adc, [200, 1023, 90]);
    assert_eq!(h.trigger, [0, 0, 0]);
    assert_eq!(h.row, [0, 0, 0]);
    // 40 MHz: marker and offset, then the formula of section 4.3 by hand.
    let ns = |offset: f64, bcid: f64, tdc: f64| {
        65_536.0 * 25.0 + offset * 102_400.0 + bcid * 25.0 + 37.5 - tdc * 60.0 / 255.0
    };
    let wanted = [ns(3.0, 7.0, 50.0), ns(15.0, 4095.0, 255.0), ns(-1.0, 0.0, 1.0)];
    let wanted = wanted.map(|ns| (ns * 1e3_f64).round() as i64);
    assert_eq!(h.time_ps, wanted);
}

#[test]
fn batches_do_not_change_rows_and_nobody_pays_who_did_not_ask() {
    for (name, geometry, options) in [
        ("example.pcapng", "vmm/example_geometry.json", "bc = 44.444\nccs = 3\ndt = 100"),
        ("example_xyu.pcapng", "vmm/example_geometry_xyu.json", "hm = 1"),
        ("example.pcapng", "config/vmm3.json", "offsets = '0..31'"),
    ] {
        let (packets, setup) = (capture(name), setup(geometry, options));
        let whole = run(&setup, &packets, usize::MAX, EVERYTHING);
        assert!(whole.strip_hits.time_ps.len() > 1000 && whole.detector_clusters.id.len() > 100);
        for per_batch in [1, 13] {
            let parts = run(&setup, &packets, per_batch, EVERYTHING);
            assert!(parts == whole, "{name} {per_batch}");
        }
        let plain = run(&setup, &packets, 13, Want::default());
        assert!(plain.events == whole.events, "tables do not change events");
        assert_eq!(plain.rows(), 0);
    }
}

#[test]
fn the_online_chain_gives_its_plane_clusters_and_events() {
    let mut config: Value = serde_json::from_str(&text("config/refdata.json")).unwrap();
    let map = |[fec, vmm, plane, strip]: [u8; 4]| serde_json::json!({"fecID": fec, "vmmID": vmm, "planeID": plane, "strip_offset": strip});
    let mappings = [[2, 0, 0, 0], [2, 1, 0, 64], [1, 0, 1, 0], [1, 1, 1, 64]];
    config["srs_mappings"] = mappings.map(map).to_vec().into();
    config["time_config"]["bc_clock"] = 40.into();
    let online = Setup { geometry: config.to_string(), ..Setup::default() };
    let tables = detector(&online).tables();
    assert_eq!(tables, [Table::StripHits, Table::PlaneClusters, Table::DetectorClusters]);
    let products = run(&online, &capture("example.pcapng"), 9, EVERYTHING);
    let (rows, planes) = (&products.detector_clusters, &products.plane_clusters);
    assert!(rows.id.len() > 100 && planes.id.len() > 100);
    for i in 0..rows.id.len() {
        let bits = u8::from(rows.size0[i] > 0) | u8::from(rows.size1[i] > 0) << 1;
        assert_eq!(rows.planes[i], bits, "also those with one plane");
        assert_eq!((rows.id0[i], rows.id1[i]), (0, 0), "an event may have several of a plane");
    }
    // Each cluster of a plane is part of one event, and each hit of one cluster.
    let sizes = |column: &[u32]| column.iter().map(|&n| u64::from(n)).sum::<u64>();
    let adc = |column: &[u64]| column.iter().sum::<u64>();
    assert_eq!(sizes(&rows.size0) + sizes(&rows.size1), sizes(&planes.size));
    assert_eq!(adc(&rows.adc0) + adc(&rows.adc1), adc(&planes.adc));
    assert!(sizes(&planes.size) <= products.strip_hits.strip.len() as u64);
    for plane in 0..2 {
        let of = (0..planes.id.len()).filter(|&i| planes.plane[i] == plane);
        let of: Vec<usize> = of.collect();
        assert!(!of.is_empty());
        assert!(of.iter().map(|&i| planes.id[i]).eq(1..=of.len() as u64), "numbered as closed");
        assert!(of.iter().all(|&i| planes.first_ps[i] <= planes.time_ps[i] + 1
            && planes.time_ps[i] <= planes.last_ps[i] + 1
            && planes.time_utpc_ps[i] == planes.last_ps[i]));
    }
    let again = run(&online, &capture("example.pcapng"), 1, EVERYTHING);
    assert!(again == products, "whatever the batches");
}

#[test]
fn a_plane_alone_stands_in_the_columns_of_its_number() {
    for plane in [1, 2] {
        let mut setup = setup("vmm/example_geometry.json", "bc = 44.444\nccs = 3");
        let mut geometry: Value = serde_json::from_str(&setup.geometry).unwrap();
        let entries = geometry["vmm_geometry"].as_array_mut().unwrap();
        entries.retain(|entry| entry["plane"] == 1);
        entries.iter_mut().for_each(|entry| entry["plane"] = plane.into());
        setup.geometry = geometry.to_string();
        for threads in [1, 2] {
            let products = run_on(threads, &setup, &capture("example.pcapng"), 7, EVERYTHING);
            let (rows, planes) = (&products.detector_clusters, &products.plane_clusters);
            assert!(rows.id.len() > 1000, "{}", rows.id.len());
            assert!(rows.planes.iter().all(|&bits| bits == 1 << plane));
            let (id, size, adc, pos, time) = match plane {
                1 => (&rows.id1, &rows.size1, &rows.adc1, &rows.pos1, &rows.time1_ps),
                _ => (&rows.id2, &rows.size2, &rows.adc2, &rows.pos2, &rows.time2_ps),
            };
            let by_id: BTreeMap<u64, usize> = planes.id.iter().copied().zip(0..).collect();
            for i in 0..rows.id.len() {
                let of = by_id[&id[i]];
                assert_eq!(planes.plane[of], plane as u8);
                let seen = (size[i], adc[i], pos[i], time[i]);
                assert_eq!(
                    seen,
                    (planes.size[of], planes.adc[of], planes.pos[of], planes.time_ps[of])
                );
            }
            let others = match plane {
                1 => [&rows.size0, &rows.size2],
                _ => [&rows.size0, &rows.size1],
            };
            assert!(rows.id0.iter().all(|&id| id == 0) && rows.pos0.iter().all(|&p| p == 0.0));
            assert!(others.into_iter().flatten().all(|&size| size == 0));
        }
    }
}

#[test]
fn pads_give_detector_clusters_only() {
    let pads = setup("vmm/example_geometry_pad.json", "algo = 10");
    assert_eq!(detector(&pads).tables(), [Table::StripHits, Table::DetectorClusters]);
    let products = run(&pads, &[gdgem_made::payload("pad_frame_0.bin")], 1, EVERYTHING);
    let rows = &products.detector_clusters;
    let hits: u64 = rows.size2.iter().map(|&n| u64::from(n)).sum();
    assert!(hits <= products.strip_hits.row.len() as u64);
    assert!(products.plane_clusters.id.is_empty());

    let triggered = setup("vmm/example_geometry_trigger.json", "df = 'TRG'");
    let products = run(&triggered, &[gdgem_made::payload("triggered_frame_0.bin")], 1, EVERYTHING);
    assert!(products.strip_hits.trigger.is_sorted(), "events are numbered in their order");
}
