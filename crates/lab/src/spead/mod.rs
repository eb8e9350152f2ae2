//! SPEAD: the experiments of the memo on UDP and TCP for SKA1's link, as commands; and what spead2's own tools do beside ours.
//!
//! Every trial starts programs with `spead2_send`'s and `spead2_recv`'s options and reads their own lines: ours (`fullcount spead2`),
//! or spead2's ([`tools`], built by [`build`]). [`campaign`] has the memo's tables and figures, [`limits`] what
//! they ran against, [`lossless`] the highest rate without
//! a lost heap, [`tuning`] the rate tuner on a link of unknown rate, [`memory`] heaps from memory, beside spead2's ([`reassembly`]),
//! [`switches`] what each optimisation gains, [`recovery`] what re-requests make good on a link that loses frames.
//! Refuses: parts, peers and numbers that cannot be, before anything runs. Sources: `docs/lab-spead.md`, `docs/formats/spead.md`
//! section 20.

pub mod build;
pub mod campaign;
pub mod cost;
pub mod drops;
mod figures;
mod goals;
pub mod ground;
mod heaps_run;
mod kept;
pub mod limits;
pub mod lossless;
pub mod memo;
pub mod memory;
mod mro;
pub mod reassembly;
pub mod recovery;
pub mod rights;
pub mod switches;
mod tables;
pub mod tools;
pub mod trial;
pub mod tuning;
mod whole;

#[cfg(test)]
mod records_tests;
#[cfg(test)]
mod spead_tests;

/// Mean and standard deviation of a sample, as the memo gives them.
pub(crate) fn mean_sd(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let sd = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
    Some((mean, sd))
}

/// `2.28 ± 0.02`; `–` without a value.
pub(crate) fn pm(values: &[f64]) -> String {
    match mean_sd(values) {
        Some((mean, sd)) => format!("{mean:.2} ± {sd:.2}"),
        None => "–".to_owned(),
    }
}
