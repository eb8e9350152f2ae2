//! How many simulated neutrons a decoder finds, and how many events it makes of nothing.
//!
//! Simulates a detector at several rates and noise settings in memory, decodes with the real reader and
//! builder, and compares every event with the truth. How, the detector's kind declares (`Simulator::truth`). Refuses
//! detectors without such rules, rates and noise out of range.
//! Source: `docs/simulators.md`.

mod compare;
mod places;
mod simulate;
mod tracks;

use fullcount_core::simulator::facts::{TruthMeeting, TruthRules};
use fullcount_detect::detector::Detector;
use fullcount_engine::config::refuse;
use fullcount_engine::summary::grouped;
use fullcount_io::quantity;
use serde_json::{Value, json};

use crate::Tell;
use crate::error::LabError;
use crate::record::Record;
use crate::record::results::Results;
use compare::NeutronClass;
use fullcount_sim::noise::{Noise, Pileup};
use places::ByPlaces;
use simulate::{ByPixels, PointOutcome, SimulatedDetector, TruthPoint};

/// What is asked for, as the options have it.
#[derive(Debug, Clone, Default)]
pub struct TruthOptions {
    /// Detector.
    pub detector: String,
    /// Neutrons per second and module, cassette or detector; empty: the usual ones.
    pub rates: Vec<String>,
    /// Noise settings; empty: the usual ones.
    pub noise: Vec<String>,
    /// Modules or cassettes; `None`: the usual number.
    pub modules: Option<usize>,
    /// Neutrons per rate and noise setting, about.
    pub neutrons: String,
    /// Decides everything random.
    pub seed: u64,
    /// Keys of the decoder.
    pub set: Vec<String>,
    /// Least share of clean neutrons in the right pixel.
    pub require: Option<String>,
}

/// What a campaign found.
#[derive(Debug)]
pub struct TruthFindings {
    /// The results file.
    pub record: Record,
    /// Tables, and when they were made.
    pub table: String,
    /// True unless less was found than is required.
    pub enough: bool,
}

/// Everything that was asked for, checked.
struct Checked {
    what: SimulatedDetector,
    rates: Vec<f64>,
    noises: Vec<Noise>,
    neutrons: usize,
    decoder: Box<dyn Detector>,
    require: Option<f64>,
}

impl TruthOptions {
    /// The detector and its rules.
    fn what(&self) -> Result<SimulatedDetector, LabError> {
        let all = fullcount_sim::registered();
        let found = all.find(&self.detector).and_then(|kind| Some((kind, kind.declared().truth?)));
        let known =
            || refuse("detector", &self.detector, all.names(|k| k.declared().truth.is_some()));
        let (kind, rules) = found.ok_or_else(known)?;
        let modules = match rules.modules_range {
            "" => self.modules,
            _ => Some(self.modules.unwrap_or(rules.modules)),
        };
        let what = SimulatedDetector { kind, rules, modules };
        // The simulator knows what is possible.
        let possible = what.geometry();
        match modules.filter(|_| possible.is_err() && !rules.modules_range.is_empty()) {
            Some(n) => Err(refuse("modules", n, rules.modules_range).into()),
            None => possible.map(|_| what),
        }
    }

    fn check(&self, what: SimulatedDetector) -> Result<Checked, LabError> {
        let (rates, noises) = (self.rates(&what.rules)?, self.noises(&what.rules)?);
        let neutrons = self.number()?;
        let require = self.require.as_deref().map(percent).transpose()?;
        let decoder = what.decoder(&self.set)?;
        Ok(Checked { what, rates, noises, neutrons, decoder, require })
    }

    fn rates(&self, rules: &TruthRules) -> Result<Vec<f64>, LabError> {
        let given: Vec<&str> = self.rates.iter().map(String::as_str).collect();
        let texts = if given.is_empty() { rules.rates } else { &given };
        texts.iter().map(|text| rate(text, rules)).collect()
    }

    /// Noise settings.
    fn noises(&self, rules: &TruthRules) -> Result<Vec<Noise>, LabError> {
        let given: Vec<&str> = self.noise.iter().map(String::as_str).collect();
        let texts = if given.is_empty() { rules.noise } else { &given };
        texts.iter().map(|text| noise(text)).collect()
    }

    /// Neutrons of a point.
    fn number(&self) -> Result<usize, LabError> {
        let number = quantity::count(&self.neutrons);
        let number = number.ok().filter(|n| (1000..=100_000_000).contains(n));
        let number = number
            .ok_or_else(|| refuse("neutrons", &self.neutrons, "1k to 100M, for example 500k"))?;
        Ok(number as usize)
    }
}

fn rate(text: &str, rules: &TruthRules) -> Result<f64, LabError> {
    let inside = quantity::hertz(text).ok().filter(|hz| (1.0..=rules.most_hz).contains(hz));
    inside.ok_or_else(|| refuse("rates", text, rules.range).into())
}

fn noise(text: &str) -> Result<Noise, LabError> {
    let mut noise: Noise = text.parse().map_err(|e| refuse("noise", text, format!("{e}")))?;
    if !text.contains("pileup") {
        noise.pileup = Pileup::Random;
    }
    Ok(noise)
}

fn percent(text: &str) -> Result<f64, LabError> {
    let percent = quantity::share(text).ok().map(|share| 100.0 * share);
    percent.ok_or_else(|| refuse("require", text, "0% to 100%, for example 99.9%").into())
}

/// Runs the campaign.
///
/// # Errors
/// Options that are refused, and results files that are there.
pub fn truth(
    asked: &TruthOptions,
    results: &Results,
    tell: Tell,
) -> Result<TruthFindings, LabError> {
    let what = asked.what()?;
    let by = match what.rules.meeting {
        TruthMeeting::Places { pitch_mm, second, ways } => {
            let by = ByPlaces { pitch_mm, second, ways };
            return places::truth(asked, what, &by, results, tell);
        }
        TruthMeeting::Pixels { group, reach_ns, module } => ByPixels { group, reach_ns, module },
    };
    let checked = asked.check(what)?;
    let (kind, modules) = (checked.what.kind.name(), checked.what.modules);
    let usual = format!("truth-{kind}");
    let mut record = results.begin(&usual)?;
    record
        .parameter("detector", kind)
        .parameter("modules", modules)
        .parameter("neutrons", checked.neutrons)
        .parameter("seed", asked.seed)
        .parameter("set", asked.set.clone());
    let mut table = head(results.name(&usual), &checked, &asked.set);
    let mut least = 100.0f64;
    for noise in &checked.noises {
        for &rate_hz in &checked.rates {
            let (neutrons, seed) = (checked.neutrons, asked.seed);
            let point = TruthPoint { rate_hz, noise: *noise, neutrons, seed };
            let outcome = checked.what.run(&*checked.decoder, &point, &by)?;
            least = least.min(outcome.verdict.clean.percent());
            record.row(row(&point, &outcome));
            table += &line(&point, &outcome);
            tell(&format!(
                "{} per module, noise {noise}: {} neutrons, {:.4} % of the clean ones right",
                hz(rate_hz),
                grouped(outcome.verdict.made()),
                outcome.verdict.clean.percent()
            ));
        }
    }
    Ok(found(record, &table, checked.require, least, tell))
}

/// Ends a campaign: is it enough that of the clean neutrons `least` percent were found at the worst point?
fn found(
    record: Record,
    table: &str,
    require: Option<f64>,
    least: f64,
    tell: Tell,
) -> TruthFindings {
    let about = record.json();
    let text = |key: &str| about[key].as_str().unwrap_or("unknown").to_owned();
    let table = format!(
        "{table}\n{}, revision {}. What the decoder refused, by counter, is in `{}.json`.\n",
        text("date"),
        text("revision"),
        record.name()
    );
    let short = short_of(require, least);
    if let Some(wanted) = short {
        tell(&format!(
            "fullcount: {least:.4} % of the clean neutrons are found as they should: {wanted} % were required"
        ));
    }
    TruthFindings { record, table, enough: short.is_none() }
}

/// What was required, if `least` percent are less.
fn short_of(require: Option<f64>, least: f64) -> Option<f64> {
    require.filter(|&wanted| least < wanted)
}

fn hz(rate: f64) -> String {
    match rate {
        r if r >= 1e6 => format!("{} MHz", r / 1e6),
        r if r >= 1e3 => format!("{} kHz", r / 1e3),
        r => format!("{r} Hz"),
    }
}

/// The decoder's keys, as a sentence.
fn with(set: &[String]) -> String {
    match set {
        [] => String::new(),
        keys => format!(" Decoder with `{}`.", keys.join("`, `")),
    }
}

fn head(name: &str, asked: &Checked, set: &[String]) -> String {
    let SimulatedDetector { kind, rules, modules } = &asked.what;
    let number = modules.map_or(String::new(), |n| format!("{n} "));
    let modules = format!("{}, {number}{}", kind.declared().title, rules.modules_name);
    let set = with(set);
    format!(
        "# {name}\n\n{modules}, simulated and decoded in memory.{set} Clean: nothing else of the module within \
         the resolution.\n\n\
         | noise | rate per module | neutrons | clean | right, % | wrong pixel | missed | \
         with noise: right, % | with a neutron: right, % | all: right, % | wrong events per neutron |\n\
         |:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
    )
}

fn line(point: &TruthPoint, outcome: &PointOutcome) -> String {
    let v = &outcome.verdict;
    format!(
        "| {} | {} | {} | {} | {:.4} | {} | {} | {} | {} | {:.2} | {:.2e} |\n",
        point.noise,
        hz(point.rate_hz),
        grouped(v.made()),
        grouped(v.clean.made),
        v.clean.percent(),
        grouped(v.clean.wrong),
        grouped(v.clean.missed),
        v.noise.cell(),
        v.neutron.cell(),
        v.all().percent(),
        v.wrong_events() as f64 / v.made().max(1) as f64,
    )
}

fn row(point: &TruthPoint, outcome: &PointOutcome) -> Value {
    let v = &outcome.verdict;
    let class = |c: &NeutronClass| {
        json!({"neutrons": c.made, "right": c.right, "right_percent": c.percent(),
               "wrong_pixel": c.wrong, "missed": c.missed})
    };
    let per_neutron = |n: u64| n as f64 / v.made().max(1) as f64;
    json!({
        "rate_hz_per_module": point.rate_hz,
        "noise": point.noise.to_string(),
        "simulated_s": outcome.seconds,
        "neutrons": v.made(),
        "events": v.events,
        "clean": class(&v.clean),
        "overlapped_by_noise": class(&v.noise),
        "overlapped_by_neutron": class(&v.neutron),
        "no_other_neutron": class(&v.apart()),
        "all": class(&v.all()),
        "events_of_no_neutron": {"random_coincidence": v.coincidences, "other": v.extra},
        "extra_events_per_neutron": per_neutron(v.coincidences + v.extra),
        "wrong_events_per_neutron": per_neutron(v.wrong_events()),
        "refused_by_decoder": outcome.refused(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_required_is_short() {
        assert_eq!(short_of(Some(99.9), 99.8999), Some(99.9));
        assert_eq!(short_of(Some(99.9), 99.9), None);
        assert_eq!(short_of(None, 0.0), None);
        assert_eq!(percent("99.9%").unwrap(), 99.9);
        assert!(percent("99.9").is_err() && percent("-1%").is_err());
        let all = fullcount_sim::registered();
        for rules in all.kinds().filter_map(|kind| kind.declared().truth) {
            assert_eq!(hz(rate("100kHz", &rules).unwrap()), "100 kHz");
            assert!(rate("21MHz", &rules).is_err() && rate("5", &rules).is_err());
        }
        assert_eq!(noise("dark=1%").unwrap().pileup, Pileup::Random);
        assert_eq!(noise("pileup=never").unwrap().pileup, Pileup::Never);
    }
}
