//! The campaign of the Gd-GEM: efficiency, ghosts, and how near each way comes to the conversion.
//!
//! Refuses: modules, rates and noise out of range, and options that the decoder refuses.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use crate::traffic::Traffic;
use crate::traffic::gdgem::{GdGem, GdGemSetup, PITCH_MM};
use crate::traffic::noise::Noise;
use anyhow::Context;
use fullcount_core::batch::{Batch, Edge, Origin};
use fullcount_core::ledger::Sheet;
use fullcount_core::products::Products;
use fullcount_detect::detector::{Builder, Detector, Reader, Setup};
use fullcount_detect::gdgem::{GdGemDetector, PlaneCluster, Watch};
use fullcount_engine::config::{Overlay, refuse};
use fullcount_engine::summary::grouped;
use fullcount_io::quantity;
use serde_json::{Value, json};

use super::compare::Class;
use super::simulate::rejected;
use super::tracks::{
    EXTENTS, Event, FAR, Group, NEAR, NEARLY_ALL, STRIPS, Spread, UPRIGHT, Verdict, WAYS, compare,
};
use super::{Asked, Found, Point, found, percent};
use crate::Tell;
use crate::error::LabError;
use crate::record::results::Results;

/// Neutrons per second over the detector that are simulated unless said otherwise.
const USUAL: [&str; 3] = ["100kHz", "1MHz", "5MHz"];
/// Usual name of the results.
const NAME: &str = "truth-gdgem";
/// Highest rate.
const MOST_HZ: f64 = 20e6;
/// `algo` of the late end, which is ours.
const LATE_END: u8 = 100;
/// Bytes that a neutron takes in a turn, about.
const BYTES_PER_NEUTRON: usize = 105;

/// Keeps every detector cluster.
struct Seen(Arc<Mutex<Vec<Event>>>);

impl Watch for Seen {
    fn matched(&mut self, detector: u32, _: f64, planes: [Option<&PlaneCluster>; 3], best: bool) {
        let (Some(x), Some(y), true) = (planes[0], planes[1], best) else { return };
        // The last place is the second decoder's.
        let ways = |c: &PlaneCluster| [c.pos, c.pos_charge2, c.pos_utpc, c.pos_algo, c.pos_algo];
        let (x_at, y_at) = (ways(x), ways(y));
        let event = Event {
            sector: detector as u16,
            time: x.time.min(y.time),
            at: std::array::from_fn(|way| [x_at[way], y_at[way]]),
            strips: [x.size, y.size],
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

/// Runs the campaign.
///
/// # Errors
/// Options that are refused, and results files that are there.
pub fn truth(asked: &Asked, results: &Results, tell: Tell) -> Result<Found, LabError> {
    if let Some(n) = asked.modules {
        return Err(refuse("modules", n, "none: the Gd-GEM has its four sectors").into());
    }
    let usual = USUAL.map(str::to_owned);
    let texts = if asked.rates.is_empty() { &usual[..] } else { &asked.rates };
    let rates = texts.iter().map(|text| rate(text)).collect::<Result<Vec<f64>, _>>()?;
    let noises = asked.noises()?;
    let neutrons = asked.number()?;
    let require = asked.require.as_deref().map(percent).transpose()?;
    let mut late = asked.set.clone();
    late.push(format!("detector.algo={LATE_END}"));
    let detectors = [decoder(&asked.set)?, decoder(&late)?];
    let mut record = results.begin(NAME)?;
    record
        .parameter("detector", "gdgem")
        .parameter("neutrons", neutrons)
        .parameter("seed", asked.seed)
        .parameter("near_strips", NEAR)
        .parameter("pitch_mm", PITCH_MM)
        .parameter("set", asked.set.clone());
    let (mut by_rate, mut places, mut by_strips) = (String::new(), String::new(), String::new());
    let mut least = 100.0f64;
    for noise in &noises {
        for &rate_hz in &rates {
            let point = Point { rate_hz, noise: *noise, neutrons, seed: asked.seed };
            let outcome = run(&detectors, &point)?;
            let v = &outcome.verdict;
            least = least.min(v.clean.percent());
            record.row(row(&point, &outcome));
            by_rate += &line(&point, v);
            places += &by_extent(&point, v);
            by_strips += &by_number(&point, v);
            tell(&format!(
                "{}, noise {noise}: {} neutrons, {:.3} % of the clean ones found, {:.3} % of all, {:.2e} ghosts each",
                hz(rate_hz),
                grouped(v.all().made),
                v.clean.percent(),
                v.all().percent(),
                ghosts(v)
            ));
        }
    }
    let table = document(results.name(NAME), &asked.set, [&by_rate, &places, &by_strips]);
    Ok(found(record, &table, require, least, tell))
}

/// The decoder with the usual parameters, in the simulator's geometry; `--set` comes last.
fn decoder(set: &[String]) -> Result<GdGemDetector, LabError> {
    let mut o = Overlay::default();
    o.put("detector.kind", Some("gdgem"))
        .put("detector.one_picture", Some(true))
        .put("detector.algo", Some(6))
        .set(set)?;
    let options = toml::to_string(&o.read(None)?.detector.options).unwrap_or_default();
    let geometry_path = "the simulator's geometry".to_owned();
    let setup =
        Setup { geometry: GdGem::configuration(), geometry_path, options, ..Setup::default() };
    GdGemDetector::new(&setup).map_err(|e| LabError::Refused(e.to_string()))
}

fn rate(text: &str) -> Result<f64, LabError> {
    let number = text.trim().strip_suffix("Hz").and_then(|n| quantity::number(n).ok());
    let inside = number.filter(|hz| (1.0..=MOST_HZ).contains(hz));
    inside.ok_or_else(|| refuse("rates", text, "1Hz to 20MHz over the detector, e.g. 5MHz").into())
}

/// Simulates, decodes and compares one turn. The second decoder differs in `algo` alone: the same events in the same order, with one more
/// place.
fn run(detectors: &[GdGemDetector; 2], point: &Point) -> Result<Outcome, LabError> {
    let setup = GdGemSetup {
        neutrons_per_s: point.rate_hz,
        noise: point.noise,
        seed: point.seed,
        prepared_bytes: point.neutrons * BYTES_PER_NEUTRON,
        ..GdGemSetup::default()
    };
    let mut traffic = GdGem::new(&setup).map_err(|e| LabError::Refused(e.to_string()))?;
    let rows = Arc::new(Mutex::new(Vec::new()));
    let into = rows.clone();
    traffic.watch(Box::new(move |made| {
        if let Ok(mut rows) = into.lock() {
            rows.push(*made);
        }
    }));
    let (packets, seconds) = (traffic.turn().0, traffic.turn_s());
    let mut chains = detectors.each_ref().map(Chain::new);
    let mut batch = Batch::with_slots(0, 0);
    for _ in 0..packets {
        let Some(train) = traffic.next_train(1, 0) else { break };
        batch.clear();
        batch.append(train.bytes, Origin::NONE, 0, Edge::Datagram);
        chains.iter_mut().for_each(|chain| chain.take(&batch));
    }
    drop(traffic);
    let [(mut events, sheets), (late, _)] = chains.map(Chain::finish);
    let rows = Arc::into_inner(rows).and_then(|rows| rows.into_inner().ok());
    let rows = rows.context("the simulator kept its rows")?;
    if events.len() != late.len() {
        return Err(anyhow::anyhow!("algo alone changed {} events", events.len()).into());
    }
    for (event, late) in events.iter_mut().zip(late) {
        event.at[WAYS.len() - 1] = late.at[WAYS.len() - 1];
    }
    Ok(Outcome { verdict: compare(events, &rows), seconds, rejected: rejected(&sheets) })
}

/// A decoder under way, and the events that it has made.
struct Chain {
    reader: Box<dyn Reader>,
    builder: Box<dyn Builder>,
    products: Products,
    seen: Arc<Mutex<Vec<Event>>>,
}

impl Chain {
    fn new(detector: &GdGemDetector) -> Chain {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let builder = detector.watched(Seen(seen.clone()));
        Chain { reader: detector.reader(), builder, products: Products::default(), seen }
    }

    fn take(&mut self, batch: &Batch) {
        self.reader.read(batch, &mut self.products);
        self.builder.build(&mut self.products, None);
        self.products.clear();
    }

    /// All events, and what was counted.
    fn finish(mut self) -> (Vec<Event>, Vec<Arc<Sheet>>) {
        self.reader.finish(&mut self.products);
        self.builder.finish(&mut self.products);
        let sheets =
            [Some(self.reader.sheet()), self.builder.sheet()].into_iter().flatten().collect();
        let events =
            self.seen.lock().map(|mut seen| std::mem::take(&mut *seen)).unwrap_or_default();
        (events, sheets)
    }
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

/// Words for a class of strips that were hit.
fn strips(class: usize) -> String {
    match class {
        0 => format!("below {}", STRIPS[0]),
        n if n == STRIPS.len() => format!("{} and more", STRIPS[n - 1]),
        n if STRIPS[n] == STRIPS[n - 1] + 1 => STRIPS[n - 1].to_string(),
        n => format!("{} to {}", STRIPS[n - 1], STRIPS[n] - 1),
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

fn by_extent(point: &Point, v: &Verdict) -> String {
    lines(point, v.extents.iter().enumerate().map(|(class, group)| (extents(class), group)))
}

fn by_number(point: &Point, v: &Verdict) -> String {
    let classes = v.strips.iter().enumerate().map(|(class, group)| (strips(class), group));
    let inclined = (format!("**inclined: above {}**", v.upright), &v.inclined);
    lines(point, classes.chain([inclined]))
}

fn lines<'a>(point: &Point, groups: impl Iterator<Item = (String, &'a Group)>) -> String {
    let mut text = String::new();
    for (name, group) in groups.filter(|(_, group)| group.number > 0) {
        let _ = write!(
            text,
            "| {} | {} | {name} | {:.0} | {} |",
            point.noise,
            hz(point.rate_hz),
            group.angle,
            grouped(group.number as u64)
        );
        for s in &group.ways {
            let _ = write!(text, " {:.2} / {:.2} / {:.1} |", s.most, s.rms, s.far);
        }
        text.push('\n');
    }
    text
}

fn document(name: &str, set: &[String], [found, places, by_strips]: [&str; 3]) -> String {
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
         first number, the second is the root of the mean square, the third is the share, in %, that is more than {FAR} strip off. \
         Angle: of the track's projection to the drift, in degrees; the median. Weighted µTPC: `algo = 6` unless set otherwise. \
         Late end: `algo = {LATE_END}`.\n\nBy the extent of the track in the plane:\n\n\
         | noise | neutrons/s | extent, strips | angle | planes |{ways}\n|:--|--:|:--|--:|--:|--:|--:|--:|--:|--:|\n{places}\n\
         By the strips that were hit in the plane. Inclined is a track that hits more strips than an upright one does: than {} % of \
         the clean tracks that run over less than {UPRIGHT} strips.\n\n\
         | noise | neutrons/s | strips hit | angle | planes |{ways}\n|:--|--:|:--|--:|--:|--:|--:|--:|--:|--:|\n{by_strips}",
        100.0 * NEARLY_ALL
    )
}

fn row(point: &Point, outcome: &Outcome) -> Value {
    let v = &outcome.verdict;
    let class = |c: &Class| json!({"neutrons": c.made, "found": c.right, "found_percent": c.percent(), "missed": c.missed});
    let one = |s: &Spread| json!({"two_thirds_strips": s.most, "rms_strips": s.rms, "along_the_track_strips": s.bias, "beyond_1_strip_percent": s.far});
    let group = |name: &str, of: String, g: &Group| {
        json!({name: of, "planes": g.number, "angle_degrees": g.angle, "centre_of_mass": one(&g.ways[0]), "charge2": one(&g.ways[1]),
               "utpc": one(&g.ways[2]), "weighted_utpc": one(&g.ways[3]), "late_end": one(&g.ways[4])})
    };
    let classes = v.extents.iter().enumerate();
    let spreads: Vec<Value> =
        classes.map(|(at, g)| group("extent_strips", extents(at), g)).collect();
    let classes = v.strips.iter().enumerate();
    let hit: Vec<Value> = classes.map(|(at, g)| group("strips_hit", strips(at), g)).collect();
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
        "places_by_strips_hit": hit,
        "upright_strips_hit_at_most": v.upright,
        "inclined": group("strips_hit", format!("above {}", v.upright), &v.inclined),
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
        assert_eq!([0, 1, 4, 5].map(strips), ["below 3", "3", "6 to 9", "10 and more"]);
    }
}
