//! Simulated detectors keep real time: packets at a time hold events just before it, for the whole run. Times are read
//! from the packets by independent code in this file, written from the format documents.

use super::gdgem::{GdGemSetup, SimulatedGdGem};
use super::multiblade::{self, MultiBladeSetup, SimulatedMultiBlade};
use super::multigrid::{self, MultiGrid, MultiGridSetup};
use super::panel::SimulatedPanel;
use super::sonde::{SimulatedSonde, SondeSetup};
use super::*;

/// Time between two looks of the sender, ns.
const LOOK_NS: u64 = 100_000;

/// Time of the last thing in a packet, ns since the detector began, near `at_ns`.
type Newest = fn(&[u8], u64) -> u64;

/// The time nearest to `near` whose lower bits, below `period`, are `low`.
fn unwrapped(low: u64, period: u64, near: u64) -> u64 {
    let within = near % period;
    let turn = near - within;
    match low.abs_diff(within) * 2 > period {
        true if low > within => (turn + low).saturating_sub(period),
        true => turn + low + period,
        false => turn + low,
    }
}

fn sonde(p: &[u8], at_ns: u64) -> u64 {
    let last = p.len() - 5;
    let time = u32::from_be_bytes(p[last..last + 4].try_into().unwrap());
    unwrapped(time.into(), 1 << 32, at_ns)
}

fn multigrid(p: &[u8], _: u64) -> u64 {
    let end_of_event = p.len() - 12;
    let word = u32::from_le_bytes(p[end_of_event..end_of_event + 4].try_into().unwrap());
    assert_eq!(word >> 30, 3);
    // From 1 s on, for less than a minute: the lower 30 bits of 62.5 ns do.
    (u64::from(word & 0x3fff_ffff) - 16_000_000) * 125 / 2
}

fn multiblade(p: &[u8], _: u64) -> u64 {
    let ms = u64::from_le_bytes(p[8..16].try_into().unwrap());
    let local = |r: &[u8]| u32::from_le_bytes(r[..4].try_into().unwrap());
    let newest = p[32..].chunks_exact(8).map(local).max().unwrap();
    assert!(newest < 1_250_000, "the clock restarts every 20 ms");
    // The computer's time is that of the restart's end.
    (ms - 20) * 1_000_000 + u64::from(newest) * 16
}

fn gdgem(p: &[u8], at_ns: u64) -> u64 {
    let clocks = u32::from_be_bytes(p[8..12].try_into().unwrap());
    let since = clocks.wrapping_sub(610 * 65_536);
    unwrapped(u64::from(since) * 25, 25 << 32, at_ns)
}

/// Runs the detector for `seconds` in steps of 100 µs; returns its events, and how far the newest packet of each step
/// was behind the clock (ns): the mean over the first and the last second, and the most.
fn lag(t: &mut dyn Traffic, seconds: u64, newest: Newest) -> (u64, [f64; 2], u64) {
    let (mut sums, mut looks, mut most) = ([0.0; 2], [0.0; 2], 0);
    for look in 1..=seconds * 1_000_000_000 / LOOK_NS {
        let at_ns = look * LOOK_NS;
        let mut last: Option<u64> = None;
        loop {
            let ready = t.ready(at_ns, 2048).expect("keeps its own clock");
            if ready.packets == 0 {
                assert!(ready.next_ns > at_ns, "{} at {at_ns}", ready.next_ns);
                break;
            }
            let mut given = 0;
            while given < ready.packets {
                let train = t.next_train(ready.packets - given, 0).unwrap();
                given += train.packets;
                last = last.max(train.each().map(|p| newest(p, at_ns)).max());
            }
        }
        let Some(last) = last else { continue };
        let behind = at_ns.checked_sub(last).unwrap_or_else(|| panic!("{last} at {at_ns}"));
        most = most.max(behind);
        let second = at_ns / 1_000_000_000;
        for (i, part) in [0, seconds - 1].into_iter().enumerate() {
            if second == part {
                sums[i] += behind as f64;
                looks[i] += 1.0;
            }
        }
    }
    (t.totals().events, [sums[0] / looks[0], sums[1] / looks[1]], most)
}

#[test]
fn a_million_events_a_second_come_in_real_time() {
    const SECONDS: u64 = 20;
    let million = 1e6;
    let panel = SimulatedPanel::new(1, 1).unwrap();
    let one = SondeSetup { panel, events_per_s: million, ..SondeSetup::default() };
    let grid = MultiGridSetup { neutrons_per_s: million, ..MultiGridSetup::default() };
    let blade = MultiBladeSetup { neutrons_per_s: million, ..MultiBladeSetup::default() };
    let fifty = MultiBladeSetup { cassettes: 50, ..blade.clone() };
    let gem = GdGemSetup { neutrons_per_s: million, ..GdGemSetup::default() };
    let all: [(&str, Box<dyn Traffic>, Newest); 6] = [
        ("sonde", Box::new(SimulatedSonde::new(&one).unwrap()), sonde),
        (
            "sonde of 32",
            Box::new(
                SimulatedSonde::new(&SondeSetup { panel: SimulatedPanel::demo(), ..one }).unwrap(),
            ),
            sonde,
        ),
        ("multigrid", Box::new(MultiGrid::new(&grid).unwrap()), multigrid),
        ("multiblade", Box::new(SimulatedMultiBlade::new(&blade).unwrap()), multiblade),
        ("multiblade of 50", Box::new(SimulatedMultiBlade::new(&fifty).unwrap()), multiblade),
        ("gdgem", Box::new(SimulatedGdGem::new(&gem).unwrap()), gdgem),
    ];
    for (name, mut t, newest) in all {
        let (events, [first, last], most) = lag(&mut *t, SECONDS, newest);
        let rate = events as f64 / SECONDS as f64;
        println!("{name}: {rate:.0} events/s, {first:.0} and {last:.0} ns behind, at most {most}");
        assert!((rate / million - 1.0).abs() < 0.005, "{name}: {rate} events/s");
        // 1 ppm of the time between the first second and the last.
        let drift = (last - first).abs() / ((SECONDS - 1) as f64 * 1e9);
        assert!(drift < 1e-6, "{name}: {drift}");
        assert!(most < 1_000_000, "{name}: {most} ns behind");
    }
}

#[test]
fn what_a_detector_cannot_give_in_real_time_is_played_by_its_rate() {
    let grid = |rate| MultiGridSetup { neutrons_per_s: 3.0 * rate, ..MultiGridSetup::default() };
    let blade = |rate| MultiBladeSetup { neutrons_per_s: 6.0 * rate, ..MultiBladeSetup::default() };
    let (top, over) = (multigrid::REAL_TIME_HZ, 1.01 * multigrid::REAL_TIME_HZ);
    let clock = |t: &mut dyn Traffic| t.ready(0, 1).is_some();
    assert!(clock(&mut MultiGrid::new(&grid(top)).unwrap()));
    assert!(!clock(&mut MultiGrid::new(&grid(over)).unwrap()));
    let (top, over) = (multiblade::REAL_TIME_HZ, 1.01 * multiblade::REAL_TIME_HZ);
    assert!(clock(&mut SimulatedMultiBlade::new(&blade(top)).unwrap()));
    assert!(!clock(&mut SimulatedMultiBlade::new(&blade(over)).unwrap()));
    let fast = SondeSetup { events_per_s: 25e6, ..SondeSetup::default() };
    let mut fast = SimulatedSonde::new(&fast).unwrap();
    assert!(!clock(&mut fast));
    // Its packets per second are those of whole pulses: at this rate its clock is exact.
    let pps = fast.packets_per_s();
    assert!((pps / 100e3 - 1.0).abs() < 1e-4 && (pps / 14.0).fract().abs() < 1e-9, "{pps}");
}

#[test]
fn a_count_ends_a_detector_with_a_clock_of_its_own() {
    let count = Some(33);
    let mut all: [Box<dyn Traffic>; 2] = [
        Box::new(
            SimulatedMultiBlade::new(&MultiBladeSetup { count, ..MultiBladeSetup::default() })
                .unwrap(),
        ),
        Box::new(SimulatedSonde::new(&SondeSetup { count, ..SondeSetup::default() }).unwrap()),
    ];
    for t in &mut all {
        let mut at_ns = 0;
        loop {
            let ready = t.ready(at_ns, 10).unwrap();
            at_ns += LOOK_NS;
            let mut left = ready.packets;
            while let Some(train) = t.next_train(left, 0) {
                left -= train.packets;
            }
            if left > 0 {
                break;
            }
        }
        assert_eq!(t.totals().packets, 33);
    }
}

proptest::proptest! {
    #[test]
    fn a_wrapped_time_is_the_one_nearest_to_where_it_should_be(near in 1u64 << 33..1 << 40, off in -1i64 << 30..1 << 30) {
        let time = near.saturating_add_signed(off);
        proptest::prop_assert_eq!(unwrapped(time % (1 << 32), 1 << 32, near), time);
    }
}
