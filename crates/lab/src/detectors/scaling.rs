//! 1…n pipelines at once on one host: what each makes, all together in units of one alone, and the machine's
//! copy test on as many threads, as table and as a figure.
//!
//! "Of one alone" is a pipeline's packet rate divided by that of the same detector and input with the host to
//! itself; n pipelines that do not disturb each other add up to n. Refuses: a figure without a point.

use serde_json::{Value, json};

use super::amounts::AmountRates;
use crate::plot::{Chart, ChartLine, Dot, PlotAxis, Stroke};
use crate::record::{Figure, Record};
use fullcount_core::quantity::short_text as short;

/// One pipeline of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Detector.
    pub detector: String,
    /// Its input.
    pub input: String,
    /// Per second.
    pub rates: AmountRates,
    /// Last-level cache misses per packet, where the processor's counter can be read.
    pub misses: Option<f64>,
}

/// Some pipelines at once, once or several times.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalingPoint {
    /// Which detectors: one name, or `mixed`.
    pub set: String,
    /// How many at once.
    pub pipelines: usize,
    /// Cores that had one each; the others shared.
    pub pinned: usize,
    /// Trials; each with its pipelines in order.
    pub trials: Vec<Vec<Member>>,
    /// The copy test on as many threads, GB/s copied.
    pub copy: f64,
}

/// Everything that was measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scaling {
    /// Points in the order of sets, then pipelines.
    pub points: Vec<ScalingPoint>,
    /// Why cache misses are not there.
    pub no_misses: Option<String>,
}

impl Scaling {
    /// Median packets/s of a detector and input alone.
    fn alone(&self, member: &Member) -> Option<f64> {
        let same = |m: &&Member| m.detector == member.detector && m.input == member.input;
        let points = self.points.iter().filter(|p| p.pipelines == 1);
        let rates: Vec<f64> = points
            .flat_map(|p| p.trials.iter().flatten())
            .filter(same)
            .map(|m| m.rates.packets)
            .collect();
        Figure::of(&rates, "packets/s").map(|f| f.value).filter(|v| *v > 0.0)
    }

    /// Sum over the pipelines of a trial in units of one alone.
    fn in_units(&self, trial: &[Member]) -> Option<f64> {
        trial.iter().map(|m| Some(m.rates.packets / self.alone(m)?)).sum()
    }

    /// Median and spread of that.
    pub fn sum(&self, point: &ScalingPoint) -> Option<Figure> {
        let sums: Option<Vec<f64>> = point.trials.iter().map(|t| self.in_units(t)).collect();
        Figure::of(&sums?, "pipelines alone")
    }

    /// The table.
    pub fn markdown(&self) -> String {
        let mut text = "| pipelines | detectors | readouts/s, each | readouts/s, all | events/s, all \
                        | in units of one alone | read, GB/s | copy test, GB/s | cache misses a packet |\n\
                        |--:|:--|:--|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
        for point in &self.points {
            let each: Vec<String> = (0..point.pipelines)
                .map(|at| {
                    let one = |t: &Vec<Member>| t.get(at)?.rates.readouts;
                    self.over(point, one).map_or("–".to_owned(), short)
                })
                .collect();
            let all = |value: fn(&Member) -> Option<f64>| {
                let sum = self.over(point, |t| t.iter().map(value).sum());
                sum.map_or("–".to_owned(), short)
            };
            let sum = self.sum(point).map_or("–".to_owned(), |f| {
                let (low, high) = f.interval;
                format!("{:.2} ({low:.2}–{high:.2})", f.value)
            });
            let misses = self.over(point, |t| {
                let all: Option<f64> = t.iter().map(|m| m.misses).sum();
                Some(all? / t.len().max(1) as f64)
            });
            text.push_str(&format!(
                "| {} | {} | {} | {} | {} | {sum} | {} | {:.1} | {} |\n",
                point.pipelines,
                names(point),
                each.join(", "),
                all(|m| m.rates.readouts),
                all(|m| Some(m.rates.events)),
                self.over(point, |t| Some(t.iter().map(|m| m.rates.bytes).sum::<f64>() / 1e9))
                    .map_or("–".to_owned(), |g| format!("{g:.2}")),
                point.copy,
                misses.map_or("–".to_owned(), short),
            ));
        }
        let short_of = self.points.iter().filter(|p| p.pinned < p.pipelines);
        if let Some(point) = short_of.max_by_key(|p| p.pinned) {
            text.push_str(&format!(
                "\nPipelines beyond the {} cores given share them: this host cannot show more.\n",
                point.pinned
            ));
        }
        if let Some(why) = &self.no_misses {
            text.push_str(&format!("\nCache misses: not read: {why}\n"));
        }
        text
    }

    /// Median over the trials of a point.
    fn over(
        &self,
        point: &ScalingPoint,
        value: impl Fn(&Vec<Member>) -> Option<f64>,
    ) -> Option<f64> {
        let values: Option<Vec<f64>> = point.trials.iter().map(value).collect();
        Figure::of(&values?, "").map(|f| f.value)
    }

    /// Adds everything to a results file.
    pub fn note(&self, record: &mut Record) {
        for point in &self.points {
            let trials: Vec<Value> =
                point.trials.iter().map(|t| Value::Array(t.iter().map(member).collect())).collect();
            let sum = self.sum(point);
            record.row(json!({
                "how": "pipelines", "set": point.set, "pipelines": point.pipelines,
                "pinned": point.pinned, "copy_gbytes_per_s": point.copy,
                "in_units_of_one_alone": sum.as_ref().map(|f| f.value), "trials": trials,
            }));
            let name = format!("pipelines_{}_{}", point.set, point.pipelines);
            record.figure(&name, sum.as_ref());
        }
        if let Some(why) = &self.no_misses {
            record.parameter("cache_misses_not_read", why.clone());
        }
    }

    /// The figure: all pipelines together over their number.
    pub fn figure(&self, name: &str) -> Chart {
        let dot = |x: usize, y: f64, spread| Dot { x: x as f64, y, spread, below: false };
        let mut sets: Vec<&str> = vec![];
        for point in &self.points {
            if !sets.contains(&point.set.as_str()) {
                sets.push(&point.set);
            }
        }
        let mut numbers: Vec<usize> = self.points.iter().map(|p| p.pipelines).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let line = |name: String, colour, stroke, dots| ChartLine { name, colour, stroke, dots };
        let ideal = numbers.iter().map(|&n| dot(n, n as f64, None)).collect();
        let mut lines = vec![line("n times one alone".into(), 0, Stroke::Floor, ideal)];
        for (colour, set) in sets.iter().enumerate() {
            let points = self.points.iter().filter(|p| p.set == *set);
            let dots: Vec<Dot> = points
                .filter_map(|p| {
                    let sum = self.sum(p)?;
                    Some(dot(p.pipelines, sum.value, Some(sum.interval)))
                })
                .collect();
            if !dots.is_empty() {
                lines.push(line((*set).to_owned(), colour, Stroke::Solid, dots));
            }
        }
        let alone = self.points.iter().find(|p| p.pipelines == 1).map(|p| p.copy);
        if let Some(alone) = alone.filter(|c| *c > 0.0) {
            let copies = numbers.iter().filter_map(|&n| {
                let point = self.points.iter().find(|p| p.pipelines == n)?;
                Some(dot(n, point.copy / alone, None))
            });
            lines.push(line("copy test".into(), sets.len(), Stroke::Dashed, copies.collect()));
        }
        Chart {
            name: name.to_owned(),
            title: "Pipelines at once on one host".to_owned(),
            x_label: "Pipelines".to_owned(),
            y_label: "All together, in units of one alone".to_owned(),
            x_axis: PlotAxis::Logarithmic,
            axis: PlotAxis::Linear(0.0),
            lines,
        }
    }
}

/// The detector and input of one sort of pipelines, or all of a mixed set.
fn names(point: &ScalingPoint) -> String {
    let Some(first) = point.trials.first() else { return point.set.clone() };
    let all: Vec<String> = first.iter().map(|m| format!("{} {}", m.detector, m.input)).collect();
    match all.iter().all(|n| Some(n) == all.first()) {
        true => all.first().cloned().unwrap_or_default(),
        false => all.join(", "),
    }
}

fn member(m: &Member) -> Value {
    json!({
        "detector": m.detector, "input": m.input, "packets_per_s": m.rates.packets,
        "bytes_per_s": m.rates.bytes, "readouts_per_s": m.rates.readouts,
        "hits_per_s": m.rates.hits, "triggers_per_s": m.rates.triggers,
        "events_per_s": m.rates.events, "cache_misses_per_packet": m.misses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(detectors: &[(&str, f64)], trials: usize) -> ScalingPoint {
        let member = |&(d, packets): &(&str, f64)| Member {
            detector: d.into(),
            input: "simulated".into(),
            rates: AmountRates {
                packets,
                readouts: Some(10.0 * packets),
                ..AmountRates::default()
            },
            misses: None,
        };
        let members: Vec<Member> = detectors.iter().map(member).collect();
        let same = detectors.iter().all(|d| d.0 == detectors[0].0);
        ScalingPoint {
            set: if same { detectors[0].0.into() } else { "mixed".into() },
            pipelines: detectors.len(),
            pinned: detectors.len().min(2),
            trials: vec![members; trials],
            copy: 9.0 / detectors.len() as f64,
        }
    }

    fn scaling() -> Scaling {
        let points = vec![
            some(&[("sonde", 100.0)], 3),
            some(&[("sonde", 80.0), ("sonde", 90.0)], 2),
            some(&[("other", 10.0)], 1),
            some(&[("sonde", 50.0), ("other", 10.0), ("sonde", 50.0)], 1),
        ];
        Scaling { points, no_misses: Some("no counter here".into()) }
    }

    #[test]
    fn pipelines_add_up_in_units_of_one_alone() {
        let s = scaling();
        let sums: Vec<f64> = s.points.iter().map(|p| s.sum(p).unwrap().value).collect();
        assert_eq!(sums[0], 1.0);
        assert!((sums[1] - 1.7).abs() < 1e-9 && sums[2] == 1.0 && sums[3] == 2.0, "{sums:?}");
        let unknown = Scaling { points: s.points[1..2].to_vec(), no_misses: None };
        assert_eq!(unknown.sum(&unknown.points[0]), None, "nothing ran alone");
    }

    #[test]
    fn table_and_record_say_what_was_not_measured() {
        let s = scaling();
        let text = s.markdown();
        assert!(text.contains("| 2 | sonde simulated | 800, 900 | 1700 |"), "{text}");
        assert!(text.contains("sonde simulated, other simulated, sonde simulated"), "{text}");
        assert!(text.contains("beyond the 2 cores") && text.contains("no counter here"), "{text}");
        let mut record = Record::new("x", "now".into(), None, Value::Null).unwrap();
        s.note(&mut record);
        let json = record.json();
        assert_eq!(json["rows"].as_array().unwrap().len(), 4);
        assert_eq!(json["figures"]["pipelines_mixed_3"]["value"], 2.0);
    }

    #[test]
    fn the_figure_has_a_line_a_set_the_ideal_and_the_copy_test() {
        let figure = scaling().figure("detectors-pipelines");
        let names: Vec<&str> = figure.lines.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["n times one alone", "sonde", "other", "mixed", "copy test"]);
        let text = figure.svg().unwrap();
        for words in ["Pipelines at once", ">\n1\n<", ">\n2\n<"] {
            assert!(text.contains(words), "{words}");
        }
        assert!(Scaling::default().figure("x").svg().is_err());
    }
}
