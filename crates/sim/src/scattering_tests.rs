//! Tests of the scattering model: peaks, edges and rings are at the physically right places.

use super::*;

/// Mean intensity of all bins between two times, ms.
fn level(s: &Scattering, from: f64, to: f64) -> f64 {
    let in_range = |&b: &usize| (from..to).contains(&(f64::from(bin_ns(b)) * 1e-6));
    let bins: Vec<f64> = (0..BINS).filter(in_range).map(|b| s.bins[b]).collect();
    bins.iter().sum::<f64>() / bins.len() as f64
}

/// Time of flight, ms, of a wavelength.
fn ms(lambda: f64) -> f64 {
    lambda * FLIGHT_M / H_OVER_M * 1e3
}

#[test]
fn pulses_are_exact_and_bins_end_before_the_next_one() {
    assert_eq!([0, 1, 2, 14].map(pulse_ns), [0, 71_428_571, 142_857_142, 1_000_000_000]);
    assert_eq!(pulse_ns(14 * 86_400 * 365), 86_400 * 365 * 1_000_000_000);
    assert_eq!((bin_ns(0), bin_ns(BINS)), (0, LAST_NS));
    assert!((0..BINS).all(|b| bin_ns(b) < bin_ns(b + 1)));
}

#[test]
fn the_spectrum_has_flash_hump_edge_and_background() {
    let s = Scattering::new(&SimulatedPanel::demo(), 1);
    let flash = level(&s, 0.0, 0.3);
    let gap = level(&s, 2.0, 4.5);
    let hump = level(&s, 18.0, 22.0);
    let tail = level(&s, 69.0, 71.4);
    assert!(flash > 3.0 * gap && hump > 10.0 * gap, "{flash} {gap} {hump}");
    assert!(tail > 0.0 && tail < hump / 20.0, "{tail} {hump}");
    let edge = ms(4.676);
    let (before, after) = (level(&s, edge - 0.4, edge), level(&s, edge, edge + 0.4));
    assert!(after > 1.15 * before, "the aluminium edge: {before} {after}");
}

#[test]
fn ring_radius_grows_with_the_time_of_flight() {
    let panel = SimulatedPanel::full();
    let s = Scattering::new(&panel, 1);
    let half = panel.half_m();
    for lambda in [4.0, 6.0, 8.0] {
        let slice = (ms(lambda) * 1e6 / f64::from(LAST_NS) * SLICES as f64) as usize;
        let b = slice * BINS_PER_SLICE + BINS_PER_SLICE / 2;
        let lambda = wavelength((f64::from(bin_ns(b)) + f64::from(bin_ns(b + 1))) / 2.0);
        // Mean over rings of one pixel width around the beam's centre.
        let mut profile = vec![(0.0, 0.0); 100];
        for i in 0..panel.pixels() {
            let (x, y) = panel.pixel_m(i);
            let r = (x + 0.04 * half).hypot(y - 0.03 * half);
            if let Some(p) = profile.get_mut((r / crate::panel::PIXEL_M) as usize) {
                *p = (p.0 + f64::from(s.pixels[slice][i]), p.1 + 1.0);
            }
        }
        let theta = 2.0 * (RING_Q * lambda / (4.0 * PI)).asin();
        let expected = panel.distance_m() * theta.tan() / crate::panel::PIXEL_M;
        let mean = |k: usize| profile[k].0 / profile[k].1;
        // Search outside the falloff around the beam.
        let range = (0.75 * expected) as usize..(1.3 * expected) as usize;
        let peak = range.max_by(|&a, &b| mean(a).total_cmp(&mean(b))).unwrap();
        assert!(
            (peak as f64 + 0.5 - expected).abs() < 0.06 * expected + 1.0,
            "{lambda}: {peak} {expected}"
        );
    }
}

#[test]
fn the_beam_stop_is_dark_around_a_bright_spot() {
    let panel = SimulatedPanel::full();
    let s = Scattering::new(&panel, 1);
    let half = panel.half_m();
    let ring = |from: f64, to: f64| {
        let picked: Vec<f64> = (0..panel.pixels())
            .filter(|&i| {
                let (x, y) = panel.pixel_m(i);
                (from..to).contains(&((x + 0.04 * half).hypot(y - 0.03 * half) / half))
            })
            .map(|i| s.of_pixel(i))
            .collect();
        picked.iter().sum::<f64>() / picked.len() as f64
    };
    let (spot, stop, halo) = (ring(0.0, 0.02), ring(0.08, 0.098), ring(0.105, 0.13));
    assert!(spot > 2.0 * stop && halo > 5.0 * stop, "{spot} {stop} {halo}");
}

#[test]
fn some_pixels_are_dead_and_some_hot() {
    let s = Scattering::new(&SimulatedPanel::demo(), 3);
    let counts: Vec<f64> = (0..2048).map(|i| s.of_pixel(i)).collect();
    let dead = counts.iter().filter(|&&c| c == 0.0).count();
    assert!((1..=5).contains(&dead), "{dead}");
    assert_ne!(s.pixels, Scattering::new(&SimulatedPanel::demo(), 4).pixels, "the seed moves them");
    assert_eq!(s.pixels, Scattering::new(&SimulatedPanel::demo(), 3).pixels);
}
