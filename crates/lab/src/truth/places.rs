//! The campaign of detectors whose events have a place finer than a pixel: efficiency, ghosts, and how near each way to a
//! place comes to the conversion.
//!
//! Events are rows of the table of detector clusters. Refuses: modules, rates and noise out of range, and options that the
//! decoder refuses.

use std::fmt::Write;

use fullcount_core::batch::{Batch, Edge, Origin};
use fullcount_core::products::{Products, Want};
use fullcount_detect::detector::Detector;
use fullcount_engine::summary::grouped;
use serde_json::{Value, json};

use super::compare::{NeutronClass, TruthVerdict};
use super::simulate::{Chain, SimulatedDetector, rejected};
use super::tracks::{
    EXTENTS, Event, FAR, NEAR, NEARLY_ALL, STRIPS, Spread, TrackDistances, TrackGroup, UPRIGHT,
    WAYS, compare,
};
use super::{Checked, TruthFindings, TruthOptions, TruthPoint, found, hz, with};
use crate::Tell;
use crate::error::LabError;
use crate::record::results::Results;

/// What came of a point.
type TracksOutcome = super::PointOutcome<TrackDistances>;

/// What the rules say of places.
#[derive(Debug, Clone, Copy)]
pub struct ByPlaces {
    /// Width of a strip, mm.
    pub pitch_mm: f64,
    /// Keys of the second decoder.
    pub second: &'static [&'static str],
    /// What the last two ways are set by.
    pub ways: &'static str,
}

/// Runs the campaign.
///
/// # Errors
/// Options that are refused, and results files that are there.
pub fn truth(
    asked: &TruthOptions,
    what: SimulatedDetector,
    by: &ByPlaces,
    results: &Results,
    tell: Tell,
) -> Result<TruthFindings, LabError> {
    let Checked { what, rates, noises, neutrons, decoder, require } = asked.check(what)?;
    let mut late = asked.set.clone();
    late.extend(by.second.iter().map(|&set| set.to_owned()));
    let detectors = [decoder, what.decoder(&late)?];
    let name = format!("truth-{}", what.kind.name());
    let mut record = results.begin(&name)?;
    record
        .parameter("detector", what.kind.name())
        .parameter("neutrons", neutrons)
        .parameter("seed", asked.seed)
        .parameter("near_strips", NEAR)
        .parameter("pitch_mm", by.pitch_mm)
        .parameter("set", asked.set.clone());
    let (mut by_rate, mut places, mut by_strips) = (String::new(), String::new(), String::new());
    let mut least = 100.0f64;
    for noise in &noises {
        for &rate_hz in &rates {
            let point = TruthPoint { rate_hz, noise: *noise, neutrons, seed: asked.seed };
            let outcome = run(&what, by, &detectors, &point)?;
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
    let parts = [by_rate.as_str(), &places, &by_strips];
    let table = document(results.name(&name), &what, by, &asked.set, parts);
    Ok(found(record, &table, require, least, tell))
}

/// Simulates, decodes and compares one turn. The second decoder differs in the last place alone: the same events in the same
/// order, with one more place.
fn run(
    what: &SimulatedDetector,
    by: &ByPlaces,
    detectors: &[Box<dyn Detector>; 2],
    point: &TruthPoint,
) -> Result<TracksOutcome, LabError> {
    let (mut made, rows) = what.traffic(point)?;
    let (packets, seconds) = made.turn.unwrap_or_default();
    let want = Want { clusters: true, ..Want::default() };
    let [one, late] = detectors.each_ref().map(|detector| Chain::new(&**detector, want));
    let (mut one, mut late) = (one?, late?);
    let (mut events, mut late_events) = (Vec::new(), Vec::new());
    let mut batch = Batch::with_slots(0, 0);
    for _ in 0..packets {
        let Some(train) = made.traffic.next_train(1, 0) else { break };
        batch.clear();
        batch.append(train.bytes, Origin::NONE, 0, Edge::Datagram);
        one.take(&batch, |products| keep(products, &mut events));
        late.take(&batch, |products| keep(products, &mut late_events));
    }
    one.finish(|products| keep(products, &mut events));
    late.finish(|products| keep(products, &mut late_events));
    let rows = rows.taken(made.traffic)?;
    if events.len() != late_events.len() {
        let n = events.len();
        return Err(anyhow::anyhow!("the second decoder changed {n} events").into());
    }
    for (event, late) in events.iter_mut().zip(late_events) {
        event.at[WAYS.len() - 1] = late.at[WAYS.len() - 1];
    }
    let verdict = compare(events, &rows, by.pitch_mm);
    Ok(TracksOutcome { verdict, seconds, rejected: rejected(&one.sheets()) })
}

/// Both planes of x and y.
const BOTH: u8 = 3;

/// Detector clusters that are the best of their kind and have both planes.
fn keep(products: &mut Products, events: &mut Vec<Event>) {
    let rows = &products.detector_clusters;
    let good = |&n: &usize| rows.best[n] == 1 && rows.planes[n] & BOTH == BOTH;
    events.extend((0..rows.id.len()).filter(good).map(|n| {
        // The last place is the second decoder's.
        let at = [
            [rows.pos0[n], rows.pos1[n]],
            [rows.pos0_charge2[n], rows.pos1_charge2[n]],
            [rows.pos0_utpc[n], rows.pos1_utpc[n]],
            [rows.pos0_algo[n], rows.pos1_algo[n]],
            [rows.pos0_algo[n], rows.pos1_algo[n]],
        ];
        let time = rows.time0_ps[n].min(rows.time1_ps[n]) as f64 / 1000.0;
        let strips = [rows.size0[n], rows.size1[n]];
        Event { sector: rows.detector[n] as u16, time, at, strips }
    }));
}

fn ghosts(v: &TruthVerdict<TrackDistances>) -> f64 {
    v.extra as f64 / v.all().made.max(1) as f64
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

fn line(point: &TruthPoint, v: &TruthVerdict<TrackDistances>) -> String {
    format!(
        "| {} | {} | {} | {} | {:.4} | {} | {} | {} | {:.2} | {:.2e} |\n",
        point.noise,
        hz(point.rate_hz),
        grouped(v.all().made),
        grouped(v.clean.made),
        v.clean.percent(),
        grouped(v.clean.missed),
        v.noise.cell(),
        v.neutron.cell(),
        v.all().percent(),
        ghosts(v),
    )
}

fn by_extent(point: &TruthPoint, v: &TruthVerdict<TrackDistances>) -> String {
    lines(point, v.more.extents.iter().enumerate().map(|(class, group)| (extents(class), group)))
}

fn by_number(point: &TruthPoint, v: &TruthVerdict<TrackDistances>) -> String {
    let classes = v.more.strips.iter().enumerate().map(|(class, group)| (strips(class), group));
    let inclined = (format!("**inclined: above {}**", v.more.upright), &v.more.inclined);
    lines(point, classes.chain([inclined]))
}

fn lines<'a>(point: &TruthPoint, groups: impl Iterator<Item = (String, &'a TrackGroup)>) -> String {
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

fn document(
    name: &str,
    what: &SimulatedDetector,
    by: &ByPlaces,
    set: &[String],
    [found, places, by_strips]: [&str; 3],
) -> String {
    let (title, extent) = (what.kind.declared().title, what.rules.modules_name);
    let (pitch_mm, last_ways) = (by.pitch_mm, by.ways);
    let set = with(set);
    let ways = WAYS.map(|way| format!(" {way} |")).concat();
    format!(
        "# {name}\n\n{title}, {extent}, simulated and decoded in memory.{set} Rates are over the \
         whole detector.\n\n## Found\n\nA neutron is found if an event has its micro-TPC place within {NEAR} strips of the \
         conversion in both planes, at its time. Clean: nothing else of the sector within the resolution, no dead strip. \
         A ghost is an event of no neutron and no random coincidence.\n\n\
         | noise | neutrons/s | neutrons | clean | clean: found, % | clean: missed | with noise: found, % | \
         with a neutron: found, % | all: found, % | ghosts per neutron |\n\
         |:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n{found}\n\
         ## How near\n\nDistance between place and conversion in strips ({pitch_mm} mm), of all found: 68.27 % are nearer than the \
         first number, the second is the root of the mean square, the third is the share, in %, that is more than {FAR} strip off. \
         Angle: of the track's projection to the drift, in degrees; the median. {last_ways}\n\nBy the extent of the track in the plane:\n\n\
         | noise | neutrons/s | extent, strips | angle | planes |{ways}\n|:--|--:|:--|--:|--:|--:|--:|--:|--:|--:|\n{places}\n\
         By the strips that were hit in the plane. Inclined is a track that hits more strips than an upright one does: than {} % of \
         the clean tracks that run over less than {UPRIGHT} strips.\n\n\
         | noise | neutrons/s | strips hit | angle | planes |{ways}\n|:--|--:|:--|--:|--:|--:|--:|--:|--:|--:|\n{by_strips}",
        100.0 * NEARLY_ALL
    )
}

fn row(point: &TruthPoint, outcome: &TracksOutcome) -> Value {
    let v = &outcome.verdict;
    let class = |c: &NeutronClass| json!({"neutrons": c.made, "found": c.right, "found_percent": c.percent(), "missed": c.missed});
    let one = |s: &Spread| json!({"two_thirds_strips": s.most, "rms_strips": s.rms, "along_the_track_strips": s.bias, "beyond_1_strip_percent": s.far});
    let group = |name: &str, of: String, g: &TrackGroup| {
        json!({name: of, "planes": g.number, "angle_degrees": g.angle, "centre_of_mass": one(&g.ways[0]), "charge2": one(&g.ways[1]),
               "utpc": one(&g.ways[2]), "weighted_utpc": one(&g.ways[3]), "late_end": one(&g.ways[4])})
    };
    let classes = v.more.extents.iter().enumerate();
    let spreads: Vec<Value> =
        classes.map(|(at, g)| group("extent_strips", extents(at), g)).collect();
    let classes = v.more.strips.iter().enumerate();
    let hit: Vec<Value> = classes.map(|(at, g)| group("strips_hit", strips(at), g)).collect();
    json!({
        "rate_hz": point.rate_hz,
        "noise": point.noise.to_string(),
        "simulated_s": outcome.seconds,
        "neutrons": v.all().made,
        "events": v.events,
        "clean": class(&v.clean),
        "overlapped_by_noise": class(&v.noise),
        "overlapped_by_neutron": class(&v.neutron),
        "all": class(&v.all()),
        "random_coincidences": v.coincidences,
        "ghosts": v.extra,
        "ghosts_per_neutron": ghosts(v),
        "places": spreads,
        "places_by_strips_hit": hit,
        "upright_strips_hit_at_most": v.more.upright,
        "inclined": group("strips_hit", format!("above {}", v.more.upright), &v.more.inclined),
        "refused_by_decoder": outcome.refused(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_extents_are_words() {
        assert_eq!([100e3, 5e6, 2.0].map(hz), ["100 kHz", "5 MHz", "2 Hz"]);
        assert_eq!([0, 1, 3].map(extents), ["below 1", "1 to 3", "6 and more"]);
        assert_eq!([0, 1, 4, 5].map(strips), ["below 3", "3", "6 to 9", "10 and more"]);
    }
}
