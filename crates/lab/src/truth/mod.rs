//! How many simulated neutrons a decoder finds, and how many events it makes of nothing.
//!
//! Simulates a detector at several rates and noise settings in memory, decodes with the real reader and
//! builder, and compares every event with the truth. Refuses other detectors, rates and noise out of range.
//! Source: `docs/simulators.md`.

mod compare;
mod gdgem;
mod simulate;
mod tracks;

use fullcount_detect::detector::Detector;
use fullcount_engine::config::{Overlay, refuse};
use fullcount_engine::summary::grouped;
use fullcount_io::quantity;
use serde_json::{Value, json};

use crate::Tell;
use crate::error::LabError;
use crate::record::Record;
use crate::record::results::Results;
use crate::traffic::multiblade::PLAYED_HZ;
use crate::traffic::noise::{Noise, Pileup};
use compare::Class;
use simulate::{Outcome, Point, Simulated};

/// What is asked for, as the options have it.
#[derive(Debug, Clone, Default)]
pub struct Asked {
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
pub struct Found {
    /// The results file.
    pub record: Record,
    /// Tables, and when they were made.
    pub table: String,
    /// True unless less was found than is required.
    pub enough: bool,
}

/// Rates that are simulated unless said otherwise.
const USUAL_RATES: [&str; 3] = ["1kHz", "10kHz", "100kHz"];

/// Noise that is simulated unless said otherwise.
const USUAL_NOISE: [&str; 2] = ["none", "dark=1%,bad=1%,coincidence=0.1%,packet=0.1%"];

/// The same of a Gd-GEM, which may have dead strips.
const GEM_NOISE: [&str; 3] = [USUAL_NOISE[0], USUAL_NOISE[1], "dead=1%"];

/// Everything that was asked for, checked.
struct Checked {
    what: Simulated,
    rates: Vec<f64>,
    noises: Vec<Noise>,
    neutrons: usize,
    decoder: Box<dyn Detector>,
    require: Option<f64>,
}

impl Asked {
    fn check(&self) -> Result<Checked, LabError> {
        let what = match self.detector.as_str() {
            "multigrid" => Simulated::MultiGrid(self.modules.unwrap_or(3)),
            "multiblade" => Simulated::MultiBlade(self.modules.unwrap_or(6)),
            other => return Err(refuse("detector", other, "multigrid, multiblade or gdgem").into()),
        };
        let (possible, allowed) = match what {
            Simulated::MultiGrid(n) => ((1..=16).contains(&n), "1 to 16"),
            Simulated::MultiBlade(n) => ([6, 50].contains(&n), "6 or 50"),
        };
        if !possible {
            return Err(refuse("modules", what.modules(), allowed).into());
        }
        let usual = USUAL_RATES.map(str::to_owned);
        let rates = if self.rates.is_empty() { &usual[..] } else { &self.rates };
        let rates = rates.iter().map(|text| rate(text)).collect::<Result<_, _>>()?;
        let (noises, neutrons) = (self.noises()?, self.number()?);
        if noises.iter().any(|noise| noise.dead > 0.0) {
            return Err(refuse("noise", "dead", "dead strips only of a gdgem").into());
        }
        let require = self.require.as_deref().map(percent).transpose()?;
        let mut o = Overlay::default();
        o.put("detector.kind", Some(what.name())).set(&self.set)?;
        let options = o.read(None)?.detector.options;
        let decoder = what.detector(toml::to_string(&options).unwrap_or_default())?;
        Ok(Checked { what, rates, noises, neutrons, decoder, require })
    }

    /// Noise settings.
    fn noises(&self) -> Result<Vec<Noise>, LabError> {
        let given: Vec<&str> = self.noise.iter().map(String::as_str).collect();
        let usual = if self.detector == "gdgem" { &GEM_NOISE[..] } else { &USUAL_NOISE[..] };
        let texts = if given.is_empty() { usual } else { &given };
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

fn rate(text: &str) -> Result<f64, LabError> {
    let number = text.trim().strip_suffix("Hz").and_then(|n| quantity::number(n).ok());
    let inside = number.filter(|hz| (1.0..=PLAYED_HZ).contains(hz));
    inside.ok_or_else(|| refuse("rates", text, "1Hz to 100kHz, for example 10kHz").into())
}

fn noise(text: &str) -> Result<Noise, LabError> {
    let mut noise: Noise = text.parse().map_err(|e| refuse("noise", text, format!("{e}")))?;
    if !text.contains("pileup") {
        noise.pileup = Pileup::Random;
    }
    Ok(noise)
}

fn percent(text: &str) -> Result<f64, LabError> {
    let number = text.trim().strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
    let inside = number.filter(|p| (0.0..=100.0).contains(p));
    inside.ok_or_else(|| refuse("require", text, "0% to 100%, for example 99.9%").into())
}

/// Runs the campaign.
///
/// # Errors
/// Options that are refused, and results files that are there.
pub fn truth(asked: &Asked, results: &Results, tell: Tell) -> Result<Found, LabError> {
    if asked.detector == "gdgem" {
        return gdgem::truth(asked, results, tell);
    }
    let checked = asked.check()?;
    let kind = checked.what.name();
    let usual = format!("truth-{kind}");
    let mut record = results.begin(&usual)?;
    record
        .parameter("detector", kind)
        .parameter("modules", checked.what.modules())
        .parameter("neutrons", checked.neutrons)
        .parameter("seed", asked.seed)
        .parameter("set", asked.set.clone());
    let mut table = head(results.name(&usual), &checked, &asked.set);
    let mut least = 100.0f64;
    for noise in &checked.noises {
        for &rate_hz in &checked.rates {
            let (neutrons, seed) = (checked.neutrons, asked.seed);
            let point = Point { rate_hz, noise: *noise, neutrons, seed };
            let outcome = checked.what.run(&*checked.decoder, &point)?;
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
fn found(record: Record, table: &str, require: Option<f64>, least: f64, tell: Tell) -> Found {
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
    Found { record, table, enough: short.is_none() }
}

/// What was required, if `least` percent are less.
fn short_of(require: Option<f64>, least: f64) -> Option<f64> {
    require.filter(|&wanted| least < wanted)
}

fn hz(rate: f64) -> String {
    if rate >= 1000.0 { format!("{} kHz", rate / 1000.0) } else { format!("{rate} Hz") }
}

fn head(name: &str, asked: &Checked, set: &[String]) -> String {
    let modules = match asked.what {
        Simulated::MultiGrid(n) => format!("Multi-Grid, {n} modules"),
        Simulated::MultiBlade(n) => format!("Multi-Blade, {n} cassettes"),
    };
    let set = match set {
        [] => String::new(),
        keys => format!(" Decoder with `{}`.", keys.join("`, `")),
    };
    format!(
        "# {name}\n\n{modules}, simulated and decoded in memory.{set} Clean: nothing else of the module within \
         the resolution.\n\n\
         | noise | rate per module | neutrons | clean | right, % | wrong pixel | missed | \
         with noise: right, % | with a neutron: right, % | all: right, % | wrong events per neutron |\n\
         |:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
    )
}

fn line(point: &Point, outcome: &Outcome) -> String {
    let v = &outcome.verdict;
    let of = |class: &Class| match class.made {
        0 => "–".to_owned(),
        n => format!("{:.2} of {}", class.percent(), grouped(n)),
    };
    format!(
        "| {} | {} | {} | {} | {:.4} | {} | {} | {} | {} | {:.2} | {:.2e} |\n",
        point.noise,
        hz(point.rate_hz),
        grouped(v.made()),
        grouped(v.clean.made),
        v.clean.percent(),
        grouped(v.clean.wrong),
        grouped(v.clean.missed),
        of(&v.noise),
        of(&v.neutron),
        v.all().percent(),
        v.wrong_events() as f64 / v.made().max(1) as f64,
    )
}

fn row(point: &Point, outcome: &Outcome) -> Value {
    let v = &outcome.verdict;
    let class = |c: &Class| {
        json!({"neutrons": c.made, "right": c.right, "right_percent": c.percent(),
               "wrong_pixel": c.wrong, "missed": c.missed})
    };
    let refused: serde_json::Map<String, Value> =
        outcome.rejected.iter().map(|(name, n)| (name.clone(), json!(n))).collect();
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
        "refused_by_decoder": refused,
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
        assert_eq!(hz(rate("100kHz").unwrap()), "100 kHz");
        assert_eq!(noise("dark=1%").unwrap().pileup, Pileup::Random);
        assert_eq!(noise("pileup=never").unwrap().pileup, Pileup::Never);
    }
}
