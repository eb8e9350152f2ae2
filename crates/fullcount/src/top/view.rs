//! What is shown of a service: its state, with rates from two looks, and what is bad about it.
//!
//! What a service leaves out counts as 0 or nothing. Refuses nothing.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fetch::{TopLook, plain};

/// Queues fuller than this are bad, percent.
const FULL: u64 = 80;
/// A thread that is busier is near its limit, percent of a CPU.
pub const BUSY: f64 = 90.0;

/// A counter.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterView {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u64,
    /// How fast it grows.
    pub per_s: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// Something is lost with it.
    pub loss: bool,
    /// What to do about it.
    pub todo: String,
}

/// An output.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueView {
    /// Its name.
    pub name: String,
    /// Batches that wait, and that fit.
    pub queued: (u64, u64),
    /// Events that it took, and did not get.
    pub events: (u64, u64),
    /// Percent of its spool.
    pub spool: Option<u64>,
    /// Why it takes nothing any more.
    pub failure: Option<String>,
}

/// All that is shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TopView {
    /// Title of the run.
    pub title: String,
    /// What data are.
    pub detector: String,
    /// The run goes on.
    pub running: bool,
    /// Seconds since data came.
    pub last_data_s: Option<f64>,
    /// Packets, bits and events a second, and packets lost.
    pub rates: Option<[f64; 4]>,
    /// Packets, events, and packets lost.
    pub totals: [u64; 3],
    /// Packets lost by place.
    pub lost: Vec<(String, u64)>,
    /// Packets refused.
    pub refused: u64,
    /// Outputs.
    pub queues: Vec<QueueView>,
    /// Processor time of threads, percent of a CPU; the busiest first.
    pub threads: Vec<(String, f64)>,
    /// Counters: those that lose first, then the fastest.
    pub counters: Vec<CounterView>,
    /// What is wrong now.
    pub bad: Vec<String>,
}

fn text(value: &Value) -> String {
    plain(value.as_str().unwrap_or_default())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

impl TopView {
    /// Of a look, with rates since the one before.
    pub fn of(before: Option<&TopLook>, now: &TopLook) -> TopView {
        let state = &now.state;
        let seconds =
            before.map(|b| now.at.duration_since(b.at).as_secs_f64()).filter(|s| *s > 0.0);
        let rates = &state["rates"];
        let rate = |name: &str| rates[name].as_f64().unwrap_or(0.0);
        let names = ["packets_per_s", "bits_per_s", "events_per_s", "lost_per_s"];
        let totals = ["packets", "events", "lost"].map(|name| number(&state["totals"][name]));
        let lost = state["lost"].as_object().into_iter().flatten();
        let mut view = TopView {
            title: text(&state["run"]["title"]),
            detector: text(&state["run"]["detector"]),
            running: state["run"]["running"].as_bool().unwrap_or(false),
            last_data_s: state["run"]["last_data_s_ago"].as_f64(),
            rates: rates.is_object().then(|| names.map(rate)),
            totals,
            lost: lost.map(|(place, n)| (plain(place), number(n))).collect(),
            refused: number(&state["rejected"]["packets"]),
            queues: queues(state),
            threads: threads(before, now, seconds),
            counters: counters(before, now, seconds),
            bad: Vec::new(),
        };
        view.bad = bad(&view, state);
        view
    }

    /// As one object.
    pub fn to_json(&self) -> Value {
        let [packets, bits, events, lost] = self.rates.unwrap_or_default();
        let queue = |q: &QueueView| {
            json!({"name": q.name, "queued": q.queued.0, "capacity": q.queued.1, "events": q.events.0,
                   "dropped_events": q.events.1, "spool_percent": q.spool, "failure": q.failure})
        };
        let counter = |c: &CounterView| json!({"name": c.name, "value": c.value, "per_s": c.per_s, "unit": c.unit, "loss": c.loss});
        let lost_at: serde_json::Map<String, Value> =
            self.lost.iter().map(|(place, n)| (place.clone(), (*n).into())).collect();
        let threads: serde_json::Map<String, Value> =
            self.threads.iter().map(|(name, percent)| (name.clone(), (*percent).into())).collect();
        json!({
            "title": self.title, "detector": self.detector, "running": self.running,
            "last_data_s_ago": self.last_data_s,
            "rates": {"packets_per_s": packets, "bits_per_s": bits, "events_per_s": events, "lost_per_s": lost},
            "totals": {"packets": self.totals[0], "events": self.totals[1], "lost": self.totals[2]},
            "lost": lost_at, "refused": self.refused,
            "outputs": self.queues.iter().map(queue).collect::<Vec<_>>(),
            "threads_percent": threads,
            "counters": self.counters.iter().map(counter).collect::<Vec<_>>(),
            "bad": self.bad,
        })
    }
}

fn queues(state: &Value) -> Vec<QueueView> {
    let of = |all: &str, key: &str, name: &str| {
        list(&state[all]).iter().find(|one| one[key] == name).cloned().unwrap_or_default()
    };
    let one = |sink: &Value| {
        let name = sink["name"].as_str().unwrap_or_default();
        QueueView {
            name: plain(name),
            queued: (number(&sink["queued"]), number(&sink["capacity"])),
            events: (number(&sink["events"]), number(&sink["dropped_events"])),
            spool: of("spools", "output", name)["percent"].as_u64(),
            failure: of("outputs_failed", "name", name)["reason"].as_str().map(plain),
        }
    };
    let mut all: Vec<QueueView> = list(&state["sinks"]).iter().map(one).collect();
    // Outputs of packets have no queue here.
    for failed in list(&state["outputs_failed"]) {
        let name = text(&failed["name"]);
        if !all.iter().any(|q| q.name == name) {
            let failure = Some(text(&failed["reason"]));
            all.push(QueueView { name, queued: (0, 0), events: (0, 0), spool: None, failure });
        }
    }
    all
}

fn threads(before: Option<&TopLook>, now: &TopLook, seconds: Option<f64>) -> Vec<(String, f64)> {
    let (Some(before), Some(seconds)) = (before, seconds) else { return Vec::new() };
    let one = |(name, time): (&String, &f64)| {
        let used = time - before.threads.get(name)?;
        Some((plain(name), (100.0 * used / seconds).max(0.0)))
    };
    let mut all: Vec<(String, f64)> = now.threads.iter().filter_map(one).collect();
    all.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
    all
}

fn counters(before: Option<&TopLook>, now: &TopLook, seconds: Option<f64>) -> Vec<CounterView> {
    let old: BTreeMap<&str, u64> = before.map_or_else(BTreeMap::new, |before| {
        let all = list(&before.state["ledger"]).iter();
        all.filter_map(|c| Some((c["name"].as_str()?, number(&c["value"])))).collect()
    });
    let one = |counter: &Value| {
        let (name, value) =
            (counter["name"].as_str().unwrap_or_default(), number(&counter["value"]));
        let grown = old.get(name).map(|before| value as f64 - *before as f64);
        CounterView {
            name: plain(name),
            value,
            per_s: grown.zip(seconds).map(|(grown, seconds)| grown / seconds),
            unit: text(&counter["unit"]),
            loss: counter["severity"] == "loss" && value > 0,
            todo: text(&counter["todo"]),
        }
    };
    let mut all: Vec<CounterView> = list(&now.state["ledger"]).iter().map(one).collect();
    let speed = |c: &CounterView| c.per_s.unwrap_or(0.0);
    all.sort_by(|a, b| {
        let faster = speed(b).total_cmp(&speed(a));
        b.loss.cmp(&a.loss).then(faster).then(b.value.cmp(&a.value)).then(a.name.cmp(&b.name))
    });
    all
}

/// What somebody should look at.
fn bad(view: &TopView, state: &Value) -> Vec<String> {
    let mut all = Vec::new();
    if !view.running {
        all.push("the run has ended".into());
    }
    for q in &view.queues {
        if let Some(why) = &q.failure {
            all.push(format!("output {} has failed: {why}", q.name));
        }
        let (queued, capacity) = q.queued;
        if capacity > 0 && queued * 100 / capacity >= FULL {
            all.push(format!("the queue of output {} is nearly full", q.name));
        }
        if q.events.1 > 0 {
            all.push(format!("output {} did not get {} events", q.name, q.events.1));
        }
        if let Some(percent) = q.spool.filter(|p| *p >= FULL) {
            all.push(format!("the spool of output {} is {percent} % full", q.name));
        }
    }
    if let Some(why) = state["mostly_refused"].as_str() {
        all.push(plain(why));
    }
    if view.totals[2] > 0 || state["anything_lost"] == true {
        let most = view.lost.iter().max_by_key(|(_, n)| *n).filter(|(_, n)| *n > 0);
        let place = most.map_or(String::new(), |(place, _)| format!(", most of them at: {place}"));
        all.push(format!("{} packets lost{place}", view.totals[2]));
    }
    for (name, percent) in view.threads.iter().filter(|(_, percent)| *percent >= BUSY) {
        all.push(format!("thread {name} uses {percent:.0} % of a CPU"));
    }
    all
}
