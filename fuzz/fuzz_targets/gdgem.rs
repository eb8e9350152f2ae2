//! Any bytes, cut into frames and mended to look like SRS frames, with several geometries and a calibration of any numbers: no
//! panic, every hop balances, what waits is bounded, and no event is later than the newest accepted hit.
#![no_main]

use std::cell::OnceCell;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Ledger;
use fullcount_core::products::{FineHit, Products};
use fullcount_detect::detector::{Detector, Registry, Setup};
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

/// Calibrations that are made once: what changes nothing much, and the ends of what is allowed.
const NUMBERS: [[f32; 5]; 8] = [
    [0.0, 1.0, 0.0, 1.0, 0.0],
    [-3.5, 2.5, 12.5, 0.9, 40.0],
    [1e9, 1.0, 0.0, 1.0, 0.0],
    [-1e9, 1e9, 0.0, 1.0, 0.0],
    [0.0, -1.0, 1e9, 1e9, 0.0],
    [0.0, 1.0, -1e9, -1e9, 1e9],
    [0.0, 1e-30, 1e-30, -1e-30, -1e9],
    [1023.0, 0.0, 0.0, 0.0, 1e-30],
];

/// A calibration of one VMM, all channels alike.
fn calibration(numbers: [f32; 5]) -> String {
    let keys = ["adc_offsets", "adc_slopes", "time_offsets", "time_slopes", "timewalk_a"];
    let list = |(key, number): (&str, f32)| format!(", \"{key}\": {:?}", [number; 64]);
    let lists: String = keys.into_iter().zip(numbers).map(list).collect();
    format!("{{\"vmm_calibration\": [{{\"fecID\": 1, \"vmmID\": 0{lists}}}]}}")
}

/// Any numbers that are allowed.
fn any_numbers(bytes: &[u8; 20]) -> [f32; 5] {
    std::array::from_fn(|n| {
        let number = f32::from_be_bytes(std::array::from_fn(|byte| bytes[4 * n + byte]));
        if number.is_finite() { number.clamp(-1e9, 1e9) } else { 0.0 }
    })
}

/// A detector of one of the set-ups.
fn configure(number: usize, calibration: String) -> Option<Box<dyn Detector>> {
    let (geometry, options) = SETUPS[number];
    let setup = Setup {
        geometry: geometry.to_owned(),
        options: format!("{options}\nmax_waiting = {WAITING}"),
        calibration,
        ..Setup::default()
    };
    Registry::builtin().configure("gdgem", &setup).ok()
}

/// A detector, made when it is first asked for; `None` inside: its calibration is refused.
type Made = OnceCell<Option<Box<dyn Detector>>>;

thread_local! {
    /// One of each set-up, without calibration and with each of the fixed ones, for the whole process: reading a geometry costs many
    /// times what an input does. Readers and builders, which have a state, are made for each input.
    static DETECTORS: [[Made; NUMBERS.len() + 1]; SETUPS.len()] = Default::default();
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, data)) = data.split_first() else { return };
    let number = usize::from(choice) % SETUPS.len();
    // One input of 16 has a calibration of its own; those are slow.
    if choice >> 4 == 0xf
        && let Some((numbers, rest)) = data.split_first_chunk()
    {
        let detector = configure(number, calibration(any_numbers(numbers)));
        detector.iter().for_each(|detector| decode(&**detector, rest));
        return;
    }
    let fixed = if choice & 0x80 != 0 { 1 + usize::from(choice >> 4 & 7) } else { 0 };
    DETECTORS.with(|all| {
        let detector = all[number][fixed].get_or_init(|| {
            let numbers = fixed.checked_sub(1).map(|n| calibration(NUMBERS[n]));
            configure(number, numbers.unwrap_or_default())
        });
        detector.iter().for_each(|detector| decode(&**detector, data));
    });
});

/// Reads and builds from an empty state.
fn decode(detector: &dyn Detector, data: &[u8]) {
    let (mut reader, mut builder) = (detector.reader(), detector.builder());
    let mut inspector = detector.inspector();
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    builder.sheet().into_iter().for_each(|sheet| ledger.register(sheet));
    let mut products = Products::default();
    let mut newest = f64::NEG_INFINITY;
    let check = |products: &mut Products, newest: f64| {
        assert!(products.events.absolute().all(|(at, _)| at as f64 <= newest));
        products.events.clear();
    };
    for (n, part) in data.chunks(16 + 6 * 40).enumerate() {
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
        let _ = inspector.inspect(&frame, Origin::NONE);
    }
    reader.finish(&mut products);
    builder.finish(&mut products);
    check(&mut products, newest);
    assert_eq!(ledger.read().balance(), 0);
}
