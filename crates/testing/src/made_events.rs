//! Events whose values are functions of their number, so that a reader can check each one.
//!
//! Event `i` has pixel `i * 7919 mod pixels + 1`, belongs to pulse `i / 700` and lies `(i mod 700) * 13` ns after it;
//! pulse `k` is at `10⁹ + k * 71,428,571` ns. `tests/python` has the same formulas in Python.

use std::sync::Arc;

use fullcount_core::products::Products;
use fullcount_core::time::PulseTime;
use fullcount_core::view::PixelMap;

pub const COLUMNS: u32 = 16;
pub const ROWS: u32 = 8;
pub const PIXELS: u64 = (COLUMNS * ROWS) as u64;

pub fn pixel(i: u64) -> u32 {
    (i * 7919 % PIXELS) as u32 + 1
}

pub fn offset(i: u64) -> u32 {
    (i % 700 * 13) as u32
}

pub fn pulse(i: u64) -> i64 {
    1_000_000_000 + (i / 700) as i64 * 71_428_571
}

/// Events `from..to`.
pub fn events(from: u64, to: u64) -> Arc<Products> {
    let mut p = Products::default();
    for i in from..to {
        p.events.open_pulse(PulseTime(pulse(i)));
        p.events.push(offset(i), pixel(i));
    }
    Arc::new(p)
}

/// Events `from..to` as from many modules: packets of 50 events in random order.
pub fn mixed(from: u64, to: u64, dice: &mut Dice) -> Arc<Products> {
    let mut packets: Vec<u64> = (from..to).step_by(50).collect();
    for last in (1..packets.len()).rev() {
        packets.swap(last, dice.below(last as u64 + 1) as usize);
    }
    let mut p = Products::default();
    for i in packets.iter().flat_map(|&first| first..(first + 50).min(to)) {
        p.events.open_pulse(PulseTime(pulse(i)));
        p.events.push(offset(i), pixel(i));
    }
    Arc::new(p)
}

/// The number of the event `after` ns after the pulse at `zero`, if there is one.
pub fn number_of(zero: i64, after: u32) -> Option<u64> {
    let k = u64::try_from(zero - pulse(0)).ok()? / 71_428_571;
    let i = k * 700 + u64::from(after / 13);
    ((pulse(i), offset(i)) == (zero, after)).then_some(i)
}

/// 16 × 8 pixels of 5 mm, pixel 1 in the last cell, 10 m from the sample.
pub fn map() -> PixelMap {
    let n = COLUMNS * ROWS;
    let middle = |i: u32, of: u32| 0.005 * (f64::from(i) - f64::from(of - 1) / 2.0);
    PixelMap {
        name: "bank".into(),
        columns: COLUMNS,
        rows: ROWS,
        cell: (0..n).rev().collect(),
        x_m: (0..n).map(|i| middle(i % COLUMNS, COLUMNS)).collect(),
        y_m: (0..n).map(|i| middle(i / COLUMNS, ROWS)).collect(),
        z_m: vec![],
        distance_m: 10.0,
        source_text: "columns = 16\nrows = 8\n".into(),
    }
}

/// Depth of pixel `i + 1`, metres: columns of blades that are inclined to the beam, five deep.
pub fn depth(i: u64) -> f64 {
    0.02 * (i % 5) as f64 + 0.001 * (i / u64::from(COLUMNS)) as f64
}

/// splitmix64: seeded choices.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }
}
