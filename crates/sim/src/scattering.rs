//! The simulated measurement: a small-angle scattering run at a pulsed source.
//!
//! The intensity is a joint function of time of flight and pixel: a prompt flash, thermal and cold
//! Maxwellians cut by choppers, with Bragg edges of aluminium windows; a Guinier and Porod falloff
//! with two structure rings at fixed Q, whose radius on the detector therefore grows with the time of
//! flight; a slight anisotropy; a beam stop with the weak transmitted beam in its middle; a flat
//! background, a few dead and hot pixels, 3 % spread of efficiency.
//! The numbers are chosen to look right, they describe no real sample.

use std::f64::consts::PI;

use super::Random;
use super::panel::SimulatedPanel;

/// Pulses per second.
pub const PULSES_PER_S: u64 = 14;
/// Time bins over one pulse, each with its own intensity: 69.75 µs.
pub const BINS: usize = 1024;
/// Time slices over one pulse, each with its own picture: 16 bins, 1.1 ms.
pub const SLICES: usize = 64;
/// Bins in one slice.
pub const BINS_PER_SLICE: usize = BINS / SLICES;
/// End of the last bin, ns after the pulse. The period is 71,428,571 ns; the gap of 1.5 µs leaves room
/// for the small shifts of repeated packets, so that no event slips into the next pulse.
pub const LAST_NS: u32 = 71_427_000;
/// Source to detector, metres: 1 ms of flight ≈ 0.198 Å.
pub const FLIGHT_M: f64 = 20.0;
/// Q of the first ring, 1/Å.
pub const RING_Q: f64 = 0.06;
/// Q of the second ring, 1/Å.
pub const SECOND_RING_Q: f64 = 0.12;

/// Planck's constant over the neutron's mass, Å m/s.
const H_OVER_M: f64 = 3956.034;

/// Start of pulse `k` after the stream's start, ns: k/14 s, rounded down, exact for ever.
pub fn pulse_ns(k: u64) -> u64 {
    (u128::from(k) * 1_000_000_000 / u128::from(PULSES_PER_S)) as u64
}

/// Start of time bin `b` (0..=1024) after the pulse, ns.
pub fn bin_ns(b: usize) -> u32 {
    (b as u64 * u64::from(LAST_NS) / BINS as u64) as u32
}

/// Wavelength, Å, of a neutron that arrives `tof_ns` after its pulse.
pub fn wavelength(tof_ns: f64) -> f64 {
    H_OVER_M * tof_ns * 1e-9 / FLIGHT_M
}

/// Joint intensity over time and pixels, in arbitrary units.
#[derive(Debug, Clone)]
pub struct Scattering {
    /// Intensity of each time bin, all pixels together.
    pub bins: Vec<f64>,
    /// For each slice the intensity of every pixel (index = pixel − 1), in the slice's mean.
    pub pixels: Vec<Vec<f32>>,
}

/// Maxwellian wavelength spectrum of a moderator at `kelvin`.
fn maxwellian(lambda: f64, kelvin: f64) -> f64 {
    let a = 949.0 / kelvin;
    2.0 * a * a / lambda.powi(5) * (-a / (lambda * lambda)).exp()
}

/// Smooth step from 0 to 1 at `edge`.
fn rise(x: f64, edge: f64, width: f64) -> f64 {
    1.0 / (1.0 + ((edge - x) / width).exp())
}

/// Neutrons that scatter, per time, at `tof_ns`.
fn spectrum(tof_ns: f64) -> f64 {
    let ms = tof_ns * 1e-6;
    let lambda = wavelength(tof_ns).max(0.05);
    let source = 0.35 * maxwellian(lambda, 130.0) + maxwellian(lambda, 28.0);
    let choppers = rise(ms, 6.5, 0.4) * rise(-ms, -66.0, 0.5);
    // Aluminium 111 and 200: below the edge at λ = 2d coherent scattering sets in.
    let edge = |two_d: f64, depth: f64| {
        if lambda < two_d { 1.0 - depth * (lambda / two_d).powi(2) } else { 1.0 }
    };
    source * choppers * edge(4.676, 0.28) * edge(4.050, 0.14)
}

/// The prompt flash: fast neutrons and gammas within the first half millisecond.
fn prompt(tof_ns: f64) -> f64 {
    let us = tof_ns * 1e-3;
    0.60 * (1.0 - (-us / 40.0).exp()) * (-us / 180.0).exp()
}

/// Scattered intensity at momentum transfer `q` (1/Å) and azimuth `phi`.
fn sample(q: f64, phi: f64) -> f64 {
    let guinier = 60.0 * (-(q * 80.0).powi(2) / 3.0).exp();
    let porod = 30.0 / (1.0 + (q / 0.022).powi(4));
    let tilt = 1.0 + 0.35 * (2.0 * (phi - 0.6)).cos();
    let ring = |q0: f64, sigma: f64| (-((q - q0) / sigma).powi(2) / 2.0).exp();
    guinier
        + porod * (1.0 + 0.15 * (2.0 * (phi - 0.6)).cos())
        + tilt * (24.0 * ring(RING_Q, 0.005) + 6.0 * ring(SECOND_RING_Q, 0.009))
        + 0.5
}

impl Scattering {
    /// Computes the intensities for a panel; dead and hot pixels and efficiencies follow the seed.
    pub fn new(panel: &SimulatedPanel, seed: u64) -> Scattering {
        let pixels = panel.pixels();
        let mut random = Random::new(seed ^ 0x5ca7);
        let mut efficiency: Vec<f64> =
            (0..pixels).map(|_| 1.0 + 0.06 * (random.unit() - 0.5)).collect();
        let mut dark = vec![0.0; pixels];
        for _ in 0..(pixels / 400).max(1) {
            efficiency[random.below(pixels as u32) as usize] = 0.0;
        }
        for _ in 0..(pixels / 800).max(1) {
            let hot = random.below(pixels as u32) as usize;
            (efficiency[hot], dark[hot]) = (1.0, 1.0);
        }

        // Beam centre a little off the panel's, as on real instruments.
        let half = panel.half_m();
        let (bx, by) = (-0.04 * half, 0.03 * half);
        let stop = 0.1 * half;
        let polar: Vec<(f64, f64)> = (0..pixels)
            .map(|i| {
                let (x, y) = panel.pixel_m(i);
                ((x - bx).hypot(y - by), (y - by).atan2(x - bx))
            })
            .collect();

        let middle = |b: usize| (f64::from(bin_ns(b)) + f64::from(bin_ns(b + 1))) / 2.0;
        let (spectra, prompts): (Vec<f64>, Vec<f64>) =
            (0..BINS).map(|b| (spectrum(middle(b)), prompt(middle(b)))).unzip();
        let mut bins = vec![0.0; BINS];
        let (mut pictures, mut scattered_in) = (Vec::with_capacity(SLICES), Vec::new());
        for slice in 0..SLICES {
            let range = slice * BINS_PER_SLICE..(slice + 1) * BINS_PER_SLICE;
            let lambda = wavelength(middle(range.start + BINS_PER_SLICE / 2)).max(0.05);
            let scattered: Vec<f64> = polar
                .iter()
                .map(|&(r, phi)| {
                    let theta = (r / panel.distance_m()).atan();
                    let q = 4.0 * PI / lambda * (theta / 2.0).sin();
                    // Inside the beam stop 2 % pass, plus the transmitted beam's narrow spot.
                    let spot = 70.0 * (-(r / (0.3 * stop)).powi(2) / 2.0).exp();
                    if r < stop { 0.02 * sample(q, phi) + spot } else { sample(q, phi) }
                })
                .collect();
            // The flash lights the whole panel, a little more around the beam.
            let flash = |r: f64| 4.0 * (1.0 + (-(r / half).powi(2)).exp());
            let n = BINS_PER_SLICE as f64;
            let mean = |v: &[f64]| v[range.clone()].iter().sum::<f64>() / n;
            let (s, p) = (mean(&spectra), mean(&prompts));
            const FLAT: f64 = 0.012;
            let picture: Vec<f32> = (0..pixels)
                .map(|i| {
                    let seen = s * scattered[i] + p * flash(polar[i].0) + FLAT;
                    (seen * efficiency[i] + dark[i]) as f32
                })
                .collect();
            let sum = |f: &dyn Fn(usize) -> f64| (0..pixels).map(f).sum::<f64>();
            scattered_in.push(sum(&|i| scattered[i] * efficiency[i]));
            let all_flash = sum(&|i| flash(polar[i].0) * efficiency[i]);
            let all_flat = sum(&|i| FLAT * efficiency[i] + dark[i]);
            for b in range {
                bins[b] = prompts[b] * all_flash + all_flat;
            }
            pictures.push(picture);
        }
        // Between the middles of two slices the scattered part goes over evenly: no steps.
        for (b, bin) in bins.iter_mut().enumerate() {
            let at =
                ((b as f64 + 0.5) / BINS_PER_SLICE as f64 - 0.5).clamp(0.0, SLICES as f64 - 1.0);
            let (s, part) = (at as usize, at.fract());
            let next = scattered_in[(s + 1).min(SLICES - 1)];
            *bin += spectra[b] * (scattered_in[s] * (1.0 - part) + next * part);
        }
        Scattering { bins, pixels: pictures }
    }

    /// Intensity of every module over a whole pulse.
    pub fn of_modules(&self) -> Vec<f64> {
        let pixels = self.pixels.first().map_or(0, Vec::len);
        let module = |m: usize| (m * 64..(m + 1) * 64).map(|i| self.of_pixel(i)).sum();
        (0..pixels / 64).map(module).collect()
    }

    /// Intensity of one pixel over a whole pulse.
    pub fn of_pixel(&self, index: usize) -> f64 {
        self.pixels.iter().map(|p| f64::from(p[index]) * BINS_PER_SLICE as f64).sum()
    }
}

#[cfg(test)]
#[path = "scattering_tests.rs"]
mod tests;
