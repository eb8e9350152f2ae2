//! Any bytes, cut into frames and mended to look like SRS frames, with several geometries and a calibration of any numbers: no
//! panic, every hop balances, what waits is bounded, and no event is later than the newest accepted hit.
#![no_main]

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Ledger;
use fullcount_core::products::{FineHit, Products};
use fullcount_detect::detector::{Registry, Setup};
use libfuzzer_sys::fuzz_target;

/// Hits that may wait.
const WAITING: u64 = 1000;

/// Geometries and options that fit.
const SETUPS: [(&str, &str); 6] = [
    ("", ""),
    ("", "df = 'TRG'"),
    ("", "offsets = '0..31'\nmax_run_hits = 16\nhm = 1\nt0 = [[1, 0, 'run']]"),
    ("", "clock = 'published'\nmarker_check = true"),
    (PADS, "algo = 10"),
    (PADS, "df = 'TRG'\nmax_run_span_us = 1\nhorizon_ms = 0.01"),
];

const PADS: &str = include_str!("../../vectors/gdgem/vmm/example_geometry_pad.json");

/// A calibration of one VMM, all channels alike.
fn calibration(bytes: &[u8]) -> String {
    let keys = ["adc_offsets", "adc_slopes", "time_offsets", "time_slopes", "timewalk_a"];
    let list = |(key, number): (&str, &[u8])| {
        let number = f32::from_be_bytes([number[0], number[1], number[2], number[3]]);
        let number = if number.is_finite() { number.clamp(-1e9, 1e9) } else { 0.0 };
        format!(", \"{key}\": {:?}", [number; 64])
    };
    let lists: String = keys.into_iter().zip(bytes.chunks_exact(4)).map(list).collect();
    format!("{{\"vmm_calibration\": [{{\"fecID\": 1, \"vmmID\": 0{lists}}}]}}")
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, data)) = data.split_first() else { return };
    let (geometry, options) = SETUPS[usize::from(choice) % SETUPS.len()];
    let mut setup = Setup {
        geometry: geometry.to_owned(),
        options: format!("{options}\nmax_waiting = {WAITING}"),
        ..Setup::default()
    };
    let mut rest = data;
    if choice & 0x80 != 0 && data.len() > 20 {
        setup.calibration = calibration(&data[..20]);
        rest = &data[20..];
    }
    let Ok(detector) = Registry::builtin().configure("gdgem", &setup) else { return };
    let (mut reader, mut builder) = (detector.reader(), detector.builder());
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    builder.sheet().into_iter().for_each(|sheet| ledger.register(sheet));
    let mut products = Products::default();
    let mut newest = f64::NEG_INFINITY;
    let check = |products: &mut Products, newest: f64| {
        assert!(products.events.absolute().all(|(at, _)| at as f64 <= newest));
        products.events.clear();
    };
    for (n, part) in rest.chunks(16 + 6 * 40).enumerate() {
        let mut frame = part.to_vec();
        // Three of four look like frames.
        if n % 4 < 3 && frame.len() > 7 {
            frame[4..7].copy_from_slice(b"VM3");
            frame[7] |= 0x10;
        }
        let batch = Batch::from_datagrams([(&frame[..], Origin::NONE)]);
        reader.read(&batch, &mut products);
        let hits = products.fine_hits.iter().filter(|row| row.lane < FineHit::BORDER);
        newest = hits.map(FineHit::ns).fold(newest, f64::max);
        builder.build(&mut products, None);
        check(&mut products, newest);
        assert!(ledger.read().get("cluster.waiting").is_some_and(|n| n < WAITING));
        let _ = detector.inspector().inspect(&frame, Origin::NONE);
    }
    reader.finish(&mut products);
    builder.finish(&mut products);
    check(&mut products, newest);
    assert_eq!(ledger.read().balance(), 0);
});
