//! The campaign of the Gd-GEM: efficiency, ghosts, and how near each way comes to the conversion.
//!
//! Refuses: modules, rates and noise out of range, and options that the decoder refuses.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use fullcount_core::batch::{Batch, Edge, Origin};
use fullcount_core::products::Products;
use fullcount_detect::detector::{Detector, Setup};
use fullcount_detect::gdgem::{GdGemDetector, PlaneCluster, Watch};
use fullcount_engine::config::refuse;
use fullcount_engine::summary::grouped;
use fullcount_io::quantity;
use fullcount_lab::record::Record;
use fullcount_lab::traffic::Traffic;
use fullcount_lab::traffic::gdgem::{GdGem, GdGemSetup, PITCH_MM};
use fullcount_lab::traffic::noise::Noise;
use serde_json::{Value, json};

use super::compare::Class;
use super::simulate::rejected;
use super::tracks::{EXTENTS, Event, NEAR, Spread, Verdict, WAYS, compare};
use super::{Flags, Point, percent, write};
use crate::exit::Failure;
use crate::flags::Overlay;
use crate::note;

/// Neutrons per second over the detector that are simulated unless said otherwise.
const USUAL: [&str; 3] = ["100kHz", "1MHz", "5MHz"];
/// Highest rate.
const MOST_HZ: f64 = 20e6;
/// Bytes that a neutron takes in a turn, about.
const BYTES_PER_NEUTRON: usize = 105;

/// Keeps every detector cluster.
struct Seen(Arc<Mutex<Vec<Event>>>);

impl Watch for Seen {
    fn matched(&mut self, detector: u32, planes: [Option<&PlaneCluster>; 3], best: bool) {
        let (Some(x), Some(y), true) = (planes[0], planes[1], best) else { return };
        let ways = |c: &PlaneCluster| [c.pos, c.pos_charge2, c.pos_utpc, c.pos_algo];
        let (x_at, y_at) = (ways(x), ways(y));
        let event = Event {
            sector: detector as u16,
            time: x.time.min(y.time),
            at: std::array::from_fn(|way| [x_at[way], y_at[way]]),
        };
        if let Ok(mut events) = self.0.lock() {
            events.push(event);
        }
    }
}

/// What came of a point.
struct Outcome {
    verdict: Verdict,
    seconds: f64,
    rejected: Vec<(String, u64)>,
}

/// Runs the campaign; gives the least share of clean neutrons found, and the table.
///
/// # Errors
/// Wrong options, and results that cannot be written.
pub fn truth(flags: &Flags) -> Result<u8, Failure> {
    if let Some(n) = flags.modules {
        return Err(refuse("modules", n, "none: the Gd-GEM has its four sectors").into());
    }
    let usual = USUAL.map(str::to_owned);
    let texts = if flags.rates.is_empty() { &usual[..] } else { &flags.rates };
    let rates = texts.iter().map(|text| rate(text)).collect::<Result<Vec<f64>, _>>()?;
    let noises = flags.noises()?;
    let neutrons = flags.number()?;
    let require = flags.require.as_deref().map(percent).transpose()?;
    let detector = decoder(&flags.set)?;
    let name = flags.name.clone().unwrap_or_else(|| "truth-gdgem".to_owned());
    let mut record = Record::begin(&name).map_err(anyhow::Error::from)?;
    record
        .parameter("detector", "gdgem")
        .parameter("neutrons", neutrons)
        .parameter("seed", flags.seed)
        .parameter("near_strips", NEAR)
        .parameter("pitch_mm", PITCH_MM)
        .parameter("set", flags.set.clone());
    let (mut found, mut places) = (String::new(), String::new());
    let mut least = 100.0f64;
    for noise in &noises {
        for &rate_hz in &rates {
            let point = Point { rate_hz, noise: *noise, neutrons, seed: flags.seed };
            let outcome = run(&detector, &point)?;
            let v = &outcome.verdict;
            least = least.min(v.clean.percent());
            record.row(row(&point, &outcome));
            found += &line(&point, v);
            places += &lines(&point, v);
            note!(
                "{}, noise {noise}: {} neutrons, {:.3} % of the clean ones found, {:.3} % of all, {:.2e} ghosts each",
                hz(rate_hz),
                grouped(v.all().made),
                v.clean.percent(),
                v.all().percent(),
                ghosts(v)
            );
        }
    }
    let table = document(&name, &flags.set, &found, &places);
    write(flags, &name, &record, &table)?;
    Ok(super::verdict(require, least))
}

/// The decoder with the usual parameters, in the simulator's geometry; `--set` comes last.
fn decoder(set: &[String]) -> Result<GdGemDetector, Failure> {
    let mut o = Overlay::default();
    o.put("detector.kind", Some("gdgem"))
        .put("detector.one_picture", Some(true))
        .put("detector.algo", Some(6))
        .set(set)?;
    let options = toml::to_string(&o.read(None)?.detector.options).unwrap_or_default();
    let geometry_path = "the simulator's geometry".to_owned();
    let setup =
        Setup { geometry: GdGem::configuration(), geometry_path, options, ..Setup::default() };
    GdGemDetector::new(&setup).map_err(|e| Failure::Wrong(e.to_string()))
}

fn rate(text: &str) -> Result<f64, Failure> {
    let number = text.trim().strip_suffix("Hz").and_then(|n| quantity::number(n).ok());
    let inside = number.filter(|hz| (1.0..=MOST_HZ).contains(hz));
    inside.ok_or_else(|| refuse("rates", text, "1Hz to 20MHz over the detector, e.g. 5MHz").into())
}

/// Simulates, decodes and compares one turn.
fn run(detector: &GdGemDetector, point: &Point) -> Result<Outcome, Failure> {
    let setup = GdGemSetup {
        neutrons_per_s: point.rate_hz,
        noise: point.noise,
        seed: point.seed,
        prepared_bytes: point.neutrons * BYTES_PER_NEUTRON,
        ..GdGemSetup::default()
    };
    let mut traffic = GdGem::new(&setup).map_err(|e| Failure::Wrong(e.to_string()))?;
    let rows = Arc::new(Mutex::new(Vec::new()));
    let into = rows.clone();
    traffic.watch(Box::new(move |made| {
        if let Ok(mut rows) = into.lock() {
            rows.push(*made);
        }
    }));
    let (packets, seconds) = (traffic.turn().0, traffic.turn_s());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (mut reader, mut builder) = (detector.reader(), detector.watched(Seen(seen.clone())));
    let mut products = Products::default();
    let mut batch = Batch::with_slots(0, 0);
    for _ in 0..packets {
        let Some(train) = traffic.next_train(1, 0) else { break };
        batch.clear();
        batch.append(train.bytes, Origin::NONE, 0, Edge::Datagram);
        reader.read(&batch, &mut products);
        builder.build(&mut products, None);
        products.clear();
    }
    reader.finish(&mut products);
    builder.finish(&mut products);
    drop(traffic);
    let sheets: Vec<_> = [Some(reader.sheet()), builder.sheet()].into_iter().flatten().collect();
    drop(builder);
    let rows = Arc::into_inner(rows).and_then(|rows| rows.into_inner().ok());
    let events = Arc::into_inner(seen).and_then(|seen| seen.into_inner().ok());
    let rows = rows.context("the simulator kept its rows")?;
    let events = events.context("the builder kept its events")?;
    Ok(Outcome { verdict: compare(events, &rows), seconds, rejected: rejected(&sheets) })
}

fn hz(rate: f64) -> String {
    match rate {
        r if r >= 1e6 => format!("{} MHz", r / 1e6),
        r if r >= 1e3 => format!("{} kHz", r / 1e3),
        r => format!("{r} Hz"),
    }
}

fn ghosts(v: &Verdict) -> f64 {
    v.ghosts as f64 / v.all().made.max(1) as f64
}

/// Words for a class of extents.
fn extents(class: usize) -> String {
    match class {
        0 => format!("below {}", EXTENTS[0]),
        n if n == EXTENTS.len() => format!("{} and more", EXTENTS[n - 1]),
        n => format!("{} to {}", EXTENTS[n - 1], EXTENTS[n]),
    }
}

fn line(point: &Point, v: &Verdict) -> String {
    let of = |class: &Class| match class.made {
        0 => "–".to_owned(),
        n => format!("{:.2} of {}", class.percent(), grouped(n)),
    };
    format!(
        "| {} | {} | {} | {} | {:.4} | {} | {} | {} | {:.2} | {:.2e} |\n",
        point.noise,
        hz(point.rate_hz),
        grouped(v.all().made),
        grouped(v.clean.made),
        v.clean.percent(),
        grouped(v.clean.missed),
        of(&v.noise),
        of(&v.neutron),
        v.all().percent(),
        ghosts(v),
    )
}

fn lines(point: &Point, v: &Verdict) -> String {
    let mut text = String::new();
    for (class, ways) in v.spreads.iter().enumerate().filter(|(_, ways)| ways[0].number > 0) {
        let _ = write!(
            text,
            "| {} | {} | {} | {} |",
            point.noise,
            hz(point.rate_hz),
            extents(class),
            grouped(ways[0].number as u64)
        );
        for s in ways {
            let _ = write!(text, " {:.2} / {:.2} |", s.most, s.rms);
        }
        text.push('\n');
    }
    text
}

fn document(name: &str, set: &[String], found: &str, places: &str) -> String {
    let set = match set {
        [] => String::new(),
        keys => format!(" Decoder with `{}`.", keys.join("`, `")),
    };
    let ways = WAYS.map(|way| format!(" {way} |")).concat();
    format!(
        "# {name}\n\nGd-GEM, four sectors of 640 strips in x and y, simulated and decoded in memory.{set} Rates are over the \
         whole detector.\n\n## Found\n\nA neutron is found if an event has its micro-TPC place within {NEAR} strips of the \
         conversion in both planes, at its time. Clean: nothing else of the sector within the resolution, no dead strip. \
         A ghost is an event of no neutron and no random coincidence.\n\n\
         | noise | neutrons/s | neutrons | clean | clean: found, % | clean: missed | with noise: found, % | \
         with a neutron: found, % | all: found, % | ghosts per neutron |\n\
         |:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n{found}\n\
         ## How near\n\nDistance between place and conversion in strips ({PITCH_MM} mm), of all found: 68.27 % are nearer than the \
         first number, the second is the root of the mean square. By the extent of the track in the plane. Weighted µTPC: `algo \
         = 6` unless set otherwise.\n\n\
         | noise | neutrons/s | extent, strips | planes |{ways}\n|:--|--:|:--|--:|--:|--:|--:|--:|\n{places}"
    )
}

fn row(point: &Point, outcome: &Outcome) -> Value {
    let v = &outcome.verdict;
    let class = |c: &Class| json!({"neutrons": c.made, "found": c.right, "found_percent": c.percent(), "missed": c.missed});
    let one = |s: &Spread| json!({"two_thirds_strips": s.most, "rms_strips": s.rms, "along_the_track_strips": s.bias});
    let spreads: Vec<Value> = v
        .spreads
        .iter()
        .enumerate()
        .map(|(at, ways)| {
            json!({"extent_strips": extents(at), "planes": ways[0].number, "centre_of_mass": one(&ways[0]),
                   "charge2": one(&ways[1]), "utpc": one(&ways[2]), "weighted_utpc": one(&ways[3])})
        })
        .collect();
    let refused: serde_json::Map<String, Value> =
        outcome.rejected.iter().map(|(name, n)| (name.clone(), json!(n))).collect();
    let noise: Noise = point.noise;
    json!({
        "rate_hz": point.rate_hz,
        "noise": noise.to_string(),
        "simulated_s": outcome.seconds,
        "neutrons": v.all().made,
        "events": v.events,
        "clean": class(&v.clean),
        "overlapped_by_noise": class(&v.noise),
        "overlapped_by_neutron": class(&v.neutron),
        "all": class(&v.all()),
        "random_coincidences": v.coincidences,
        "ghosts": v.ghosts,
        "ghosts_per_neutron": ghosts(v),
        "places": spreads,
        "refused_by_decoder": refused,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_extents_are_words() {
        assert_eq!(
            ["100kHz", "5MHz", "2Hz"].map(|t| hz(rate(t).unwrap())),
            ["100 kHz", "5 MHz", "2 Hz"]
        );
        assert!(rate("21MHz").is_err() && rate("5").is_err());
        assert_eq!([0, 1, 3].map(extents), ["below 1", "1 to 3", "6 and more"]);
    }
}
