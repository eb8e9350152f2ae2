//! When packets come: in pulses with a peak of 1 ms, or all the time alike; seeded.
//!
//! The rest of a pulse has what the peak leaves, evenly: the mean is the average rate. The number within a step is
//! drawn from Poisson's distribution.

use super::plan::PEAK_S;
use fullcount_sim::Random;

/// Above this mean a normal distribution stands for Poisson's.
const NORMAL: f64 = 64.0;

/// The arrivals of one worker.
#[derive(Debug, Clone)]
pub struct WorkerArrivals {
    average: f64,
    /// Period, rate in the peak and rate in the rest.
    pulse: Option<(f64, f64, f64)>,
    random: Random,
}

impl WorkerArrivals {
    /// `average` packets a second; with `hz` pulses a second the first millisecond of each has `factor` times as many.
    pub fn new(average: f64, hz: Option<f64>, factor: f64, seed: u64) -> WorkerArrivals {
        let pulse = hz.filter(|hz| hz * PEAK_S < 1.0).map(|hz| {
            let rest = (1.0 - factor * hz * PEAK_S) / (1.0 - hz * PEAK_S);
            (1.0 / hz, average * factor, average * rest.max(0.0))
        });
        WorkerArrivals { average, pulse, random: Random::new(seed) }
    }

    /// Packets that are expected up to a time.
    fn until(&self, t: f64) -> f64 {
        let Some((period, peak, rest)) = self.pulse else { return self.average * t };
        let whole = (t / period).floor();
        let within = t - whole * period;
        let peaked = within.min(PEAK_S);
        whole * (PEAK_S * peak + (period - PEAK_S) * rest)
            + peaked * peak
            + (within - peaked) * rest
    }

    /// Packets that come between two times, seconds.
    pub fn between(&mut self, from: f64, to: f64) -> u64 {
        let mean = (self.until(to) - self.until(from)).max(0.0);
        self.poisson(mean)
    }

    fn poisson(&mut self, mean: f64) -> u64 {
        if mean > NORMAL {
            // Box and Muller; 1 − u is never 0.
            let uniform: f64 = 1.0 - self.random.unit();
            let radius = (-2.0 * uniform.ln()).sqrt();
            let angle = std::f64::consts::TAU * self.random.unit();
            return (mean + mean.sqrt() * radius * angle.cos()).round().max(0.0) as u64;
        }
        let (limit, mut product, mut n) = ((-mean).exp(), 1.0, 0);
        loop {
            product *= self.random.unit();
            if product <= limit {
                return n;
            }
            n += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_the_average_and_the_peak_is_the_factor() {
        for (mean, factor) in [(1e6, 25.0), (3e4, 4.0), (1e5, 1.0)] {
            let mut a = WorkerArrivals::new(mean, Some(10.0), factor, 7);
            assert!((a.until(20.0) - 20.0 * mean).abs() < 1e-3 * mean);
            assert!((a.until(0.301) - a.until(0.3) - factor * mean * 1e-3).abs() < 1e-6 * mean);
            let drawn: u64 =
                (0..100_000).map(|k| a.between(k as f64 * 1e-4, (k + 1) as f64 * 1e-4)).sum();
            let sigma = (10.0 * mean).sqrt();
            assert!((drawn as f64 - 10.0 * mean).abs() < 5.0 * sigma, "{mean} {factor}: {drawn}");
        }
    }

    #[test]
    fn without_pulses_it_is_even_and_the_same_seed_is_the_same() {
        let mut a = WorkerArrivals::new(1000.0, None, 1.0, 3);
        let mut b = WorkerArrivals::new(1000.0, None, 1.0, 3);
        assert_eq!(a.until(2.5), 2500.0);
        for k in 0..1000 {
            let (from, to) = (f64::from(k) * 1e-3, f64::from(k + 1) * 1e-3);
            assert_eq!(a.between(from, to), b.between(from, to));
        }
        assert_eq!(a.between(1.0, 1.0), 0);
    }
}
