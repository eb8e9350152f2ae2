//! The paper's table 5 for our detectors: packets, readouts, triggers and events a second, cores and packet size,
//! with the published row beside ours.
//!
//! [`amounts`] reads them off a detector's counters, [`service`] measures one as the paper did, [`limits`] says what
//! its cores do meanwhile, [`scaling`] holds several pipelines at once, [`speedup`] several builder threads of one, [`copy`] the
//! machine's copy test, and this file the table. [`campaign`] runs all of it over the detectors and inputs that a [`job::Choice`]
//! names: [`image`] puts packets into memory, [`chain`] drives reader and builder over them, [`udp`] plays them into the
//! service. What is published of a detector, its kind declares (`Simulator::published`): M. J. Christensen et al.,
//! "Software-based data acquisition and processing for neutron detectors at European Spallation Source – early experience
//! from four detector designs", 2018, table 5 and section 5. Cores of a 2.4 GHz Xeon E5-2620 v3, recorded data replayed over
//! UDP, whole chain with output.

pub mod amounts;
pub mod at_once;
pub mod campaign;
pub mod chain;
pub mod copy;
pub mod image;
pub mod input;
pub mod job;
pub mod limits;
pub mod pipelines;
mod progress;
pub mod scaling;
pub mod scratch;
pub mod service;
mod simulated;
pub mod speedup;
pub mod udp;

use fullcount_core::quantity::short_text as short;
use fullcount_core::simulator::facts::PublishedRates;
use serde_json::{Value, json};

use crate::record::{Figure, Record};
use amounts::AmountRates;
use limits::CoreProfile;

/// The paper's row of a detector.
fn published(detector: &str) -> Option<PublishedRates> {
    fullcount_sim::registered().find(detector).and_then(|kind| kind.declared().published)
}

/// How a row was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Packets lie in memory; one thread reads, builds and drops the events.
    Memory,
    /// The same with so many builder threads, the reading one included.
    Building(usize),
    /// Packets lie in memory; one thread reads and drops what it has read.
    Reading,
    /// Replayed over UDP as fast as the sender can, into a service with so many threads.
    FlatOut(u32),
    /// Replayed over UDP at the highest rate without loss, into a service with so many threads.
    Lossless(u32),
}

impl How {
    /// For the table.
    pub fn text(self) -> String {
        let threads = |n: u32| if n == 1 { "1 thread".to_owned() } else { format!("{n} threads") };
        match self {
            How::Memory => "from memory, 1 thread".to_owned(),
            How::Building(n) => format!("from memory, {n} builder threads"),
            How::Reading => "from memory, reading alone, 1 thread".to_owned(),
            How::FlatOut(n) => format!("UDP flat out, {}", threads(n)),
            How::Lossless(n) => format!("UDP without loss, {}", threads(n)),
        }
    }

    /// For names of figures.
    fn key(self) -> String {
        match self {
            How::Memory => "memory".to_owned(),
            How::Building(n) => format!("memory-build-{n}"),
            How::Reading => "memory-reading".to_owned(),
            How::FlatOut(n) => format!("udp-flat-out-{n}"),
            How::Lossless(n) => format!("udp-lossless-{n}"),
        }
    }
}

/// One trial of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedTrial {
    /// Per second.
    pub rates: AmountRates,
    /// Cores used: one for each thread from memory, the process' CPU time over UDP.
    pub cores: Option<f64>,
    /// Share of the packets sent that did not reach the decoder; `None` where nothing can be lost.
    pub lost: Option<f64>,
}

/// One line of the table, over its trials.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeedRow {
    /// Detector.
    pub detector: String,
    /// Name of its input.
    pub input: String,
    /// What that is.
    pub about: String,
    /// How it was measured.
    pub how: How,
    /// Mean bytes of a packet.
    pub packet_bytes: f64,
    /// Trials; empty if none gave a result.
    pub runs: Vec<SpeedTrial>,
    /// The search that found the rate, every trial of it.
    pub search: Option<Value>,
    /// What the cores of the service did at that rate, if they were watched.
    pub profile: Vec<CoreProfile>,
}

/// `23.5 M`, or `500 k–1.00 M` of a range.
fn range(events: Option<(f64, f64)>) -> String {
    match events {
        None => "–".to_owned(),
        Some((least, most)) if least < most => format!("{}–{}", short(least), short(most)),
        Some((least, _)) => short(least),
    }
}

impl SpeedRow {
    /// Median and spread of a value over the trials; `None` unless all have it.
    pub fn figure(&self, unit: &str, value: impl Fn(&SpeedTrial) -> Option<f64>) -> Option<Figure> {
        let values: Option<Vec<f64>> = self.runs.iter().map(value).collect();
        Figure::of(&values?, unit)
    }

    /// What kept the search from a higher rate: `sender`, `loss` or `ceiling`.
    pub fn limit(&self) -> Option<&str> {
        self.search.as_ref()?["limit"].as_str()
    }

    /// How it was measured, and what was the limit: the sender, where nothing was lost flat out.
    fn way(&self) -> String {
        let text = self.how.text();
        let lossless = !self.runs.is_empty() && self.runs.iter().all(|r| r.lost == Some(0.0));
        match self.how {
            How::FlatOut(_) if lossless => format!("{text}: the sender's limit"),
            How::Lossless(_) => match self.limit() {
                Some("sender") => format!("{text}: the sender's limit"),
                Some("ceiling") => format!("{text}: nothing higher was tried"),
                Some(_) => format!("{text}: more is lost"),
                None => format!("{text}: even the lowest rate tried lost some"),
            },
            How::FlatOut(_) | How::Memory | How::Building(_) | How::Reading => text,
        }
    }

    /// The figures by name.
    fn figures(&self) -> [(&'static str, Option<Figure>); 8] {
        let rate = |unit, of: fn(&AmountRates) -> Option<f64>| self.figure(unit, |r| of(&r.rates));
        [
            ("packets", rate("packets/s", |r| Some(r.packets))),
            ("readouts", rate("readouts/s", |r| r.readouts)),
            ("hits", rate("hits/s", |r| r.hits)),
            ("triggers", rate("triggers/s", |r| r.triggers)),
            ("events", rate("events/s", |r| Some(r.events))),
            ("read", rate("GB/s", |r| Some(r.bytes / 1e9))),
            ("cores", self.figure("cores", |r| r.cores)),
            ("lost", self.figure("of sent", |r| r.lost)),
        ]
    }

    /// Notes the row in a results file.
    pub fn note(&self, record: &mut Record) {
        let mut row = json!({
            "detector": self.detector, "input": self.input, "about": self.about,
            "how": self.how.key(), "packet_bytes": self.packet_bytes,
            "trials": self.runs.iter().map(trial).collect::<Vec<Value>>(), "search": self.search,
        });
        if !self.profile.is_empty()
            && let Some(object) = row.as_object_mut()
        {
            let cores: Vec<Value> = self.profile.iter().map(CoreProfile::json).collect();
            object.insert("profile".to_owned(), cores.into());
        }
        for (what, figure) in self.figures() {
            let Some(figure) = figure else { continue };
            if let Some(object) = row.as_object_mut() {
                let (low, high) = figure.interval;
                let value =
                    json!({"value": figure.value, "unit": figure.unit, "interval": [low, high]});
                object.insert(what.to_owned(), value);
            }
            if what != "cores" && what != "lost" {
                let name = [what, &self.detector, &self.input, &self.how.key()].join("_");
                record.figure(&name, &figure);
            }
        }
        if let Some(paper) = published(&self.detector) {
            let beside: Value = json!({
                "packets": paper.packets, "packet_bytes": paper.packet_bytes,
                "readouts": paper.readouts, "triggers": paper.triggers,
                "events": paper.events.map(|(_, most)| most),
                "events_least": paper.events.map(|(least, _)| least),
                "cores": paper.cores, "about": paper.about,
            });
            if let Some(object) = row.as_object_mut() {
                object.insert("paper".to_owned(), beside);
            }
        }
        record.row(row);
    }
}

fn trial(run: &SpeedTrial) -> Value {
    let r = &run.rates;
    json!({
        "packets_per_s": r.packets, "bytes_per_s": r.bytes, "readouts_per_s": r.readouts,
        "hits_per_s": r.hits, "triggers_per_s": r.triggers, "events_per_s": r.events,
        "cores": run.cores, "lost": run.lost,
    })
}

fn cell(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), short)
}

/// `median (least–most)` where several trials differ.
fn spread(figure: Option<&Figure>) -> String {
    let Some(figure) = figure else { return "–".to_owned() };
    let (low, high) = figure.interval;
    match low < high {
        true => format!("{} ({}–{})", short(figure.value), short(low), short(high)),
        false => short(figure.value),
    }
}

/// The table: our rows of each detector, then the paper's.
pub fn markdown(rows: &[SpeedRow]) -> String {
    let mut text =
        "| detector | input | how | packets/s | readouts/s | hits/s | triggers/s | events/s | cores \
                    | packet, B | read, GB/s | lost, % |\n\
                    |:--|:--|:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for (at, row) in rows.iter().enumerate() {
        let [packets, readouts, hits, triggers, events, read, cores, lost] =
            row.figures().map(|(_, figure)| figure);
        let lost = lost.map_or("–".to_owned(), |l| format!("{:.2}", 100.0 * l.value));
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.0} | {} | {lost} |\n",
            row.detector,
            row.input,
            row.way(),
            spread(packets.as_ref()),
            spread(readouts.as_ref()),
            spread(hits.as_ref()),
            spread(triggers.as_ref()),
            spread(events.as_ref()),
            cores.map_or("–".to_owned(), |c| format!("{:.2}", c.value)),
            row.packet_bytes,
            spread(read.as_ref()),
        ));
        let last = rows.get(at + 1).is_none_or(|next| next.detector != row.detector);
        if let Some(p) = published(&row.detector).filter(|_| last) {
            let input = p.packets.zip(p.packet_bytes).map(|(n, b)| n * b / 1e9);
            text.push_str(&format!(
                "| {} | recorded | *the paper, 2018, Xeon E5-2620 v3: {}* | {} | {} | – | {} | {} | {} | {} | {} | – |\n",
                row.detector,
                p.about,
                cell(p.packets),
                cell(p.readouts),
                cell(p.triggers),
                range(p.events),
                p.cores,
                p.packet_bytes.map_or("–".to_owned(), |b| format!("{b:.0}")),
                cell(input),
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(detector: &str, events: &[f64]) -> SpeedRow {
        let run = |&events: &f64| {
            let rates =
                AmountRates { packets: 1000.0, bytes: 1.261e6, events, ..AmountRates::default() };
            SpeedTrial { rates, cores: Some(1.0), lost: None }
        };
        SpeedRow {
            detector: detector.into(),
            input: "simulated".into(),
            about: "made here".into(),
            how: How::Memory,
            packet_bytes: 1261.0,
            runs: events.iter().map(run).collect(),
            search: None,
            profile: vec![],
        }
    }

    #[test]
    fn the_published_row_follows_the_last_of_its_detector() {
        let udp = SpeedRow { how: How::FlatOut(2), ..row("sonde", &[]) };
        let table = markdown(&[row("sonde", &[1e9, 1.2e9, 1.1e9]), udp, row("own", &[5.0])]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 2 + 4, "{table}");
        assert!(lines[2].contains("| 1.10 G (1.00 G–1.20 G) | 1.00 | 1261 |"), "{table}");
        assert!(lines[3].contains("UDP flat out, 2 threads | – | – | – |"), "{table}");
        assert!(lines[4].contains("the paper") && lines[4].contains("| 23.5 M | 2 |"), "{table}");
        assert!(lines[5].starts_with("| own ") && lines[5].contains("| 5.00 |"), "{table}");
        assert!(lines.iter().all(|l| l.matches('|').count() == 13), "{table}");
    }

    #[test]
    fn a_flat_out_row_without_loss_names_the_sender() {
        let mut udp = SpeedRow { how: How::FlatOut(1), ..row("own", &[5.0]) };
        udp.runs[0].lost = Some(0.0);
        assert!(markdown(&[udp.clone()]).contains("1 thread: the sender's limit |"));
        udp.runs[0].lost = Some(0.1);
        assert!(!markdown(&[udp]).contains("limit"));
    }

    #[test]
    fn a_row_without_loss_says_what_limits_it() {
        let mut udp = SpeedRow { how: How::Lossless(1), ..row("own", &[5.0]) };
        for (limit, words) in [
            (json!("sender"), "UDP without loss, 1 thread: the sender's limit |"),
            (json!("loss"), "UDP without loss, 1 thread: more is lost |"),
            (json!("ceiling"), "1 thread: nothing higher was tried |"),
            (Value::Null, "even the lowest rate tried lost some |"),
        ] {
            udp.search = Some(json!({"limit": limit}));
            let table = markdown(std::slice::from_ref(&udp));
            assert!(table.contains(words), "{words}: {table}");
        }
    }

    #[test]
    fn the_papers_range_is_a_range_and_says_what_it_is() {
        let table = markdown(&[row("gdgem", &[5.0])]);
        assert!(table.contains("| 500 k–1.00 M | 1 |"), "{table}");
        assert!(table.contains("E5-2620 v3: the algorithm alone*"), "{table}");
    }

    #[test]
    fn a_row_is_noted_with_figures_and_the_paper() {
        let mut record = Record::new("detectors", "now".into(), None, Value::Null).unwrap();
        row("sonde", &[2.0, 1.0, 3.0]).note(&mut record);
        let json = record.json();
        assert_eq!(json["rows"][0]["events"]["value"], 2.0);
        assert_eq!(json["rows"][0]["paper"]["cores"], 2);
        assert_eq!(json["rows"][0]["trials"][2]["events_per_s"], 3.0);
        assert_eq!(json["figures"]["events_sonde_simulated_memory"]["repeats"], 3);
        assert!(json["rows"][0].get("readouts").is_none(), "not counted is absent");
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [(0.0, "0.00"), (5.0, "5.00"), (9999.0, "9999"), (86e3, "86.0 k"), (2.46e6, "2.46 M")]
        {
            assert_eq!(short(value), text);
        }
        assert_eq!((short(1.15e9), short(123e6)), ("1.15 G".to_owned(), "123 M".to_owned()));
    }
}
