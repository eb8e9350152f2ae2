//! The bottleneck note: which of processor, memory, link, drops before the card and drops at the socket was the limit of each trial.
//!
//! Judged from what was measured in the trial itself ([`super::cost`]) and the speed of copies on this host. The order of the rules is:
//! packets that were lost name the place where most of them were; heaps that were lost without one name the order of packets; a rate or
//! link that was reached is the limit by itself; only then a core that was used up. Refuses nothing: where no rule fits, the note says so.
//! Source: `docs/lab-spead.md`.

use fullcount_io::host::Host;
use serde_json::{Value, json};

use super::cost::TrialCost;
use super::drops::TrialDrops;
use super::mean_sd;
use super::memo;
use super::trial::HeapTrial;

/// Share of a core from which a program had all of it: it also waits for its start and its last packet.
const USED_UP: f64 = 0.9;
/// Share of a used-up core's time that copies take from which memory is named in place of the processor.
const COPIES: f64 = 0.5;
/// Share of the busy cores that is the trial's own, if it was; the rest is the kernel's work for it, or other programs.
const OWN: f64 = 0.6;
/// Share of a rate, or of a link, from which it is reached.
const REACHED: f64 = 0.9;
/// The same of a TCP window, whose size the kernel rounds.
const WINDOW: f64 = 0.7;

/// What a trial ran against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrialLimit {
    /// The rate that was asked for.
    Asked,
    /// The rate of the link.
    Link,
    /// Socket buffers over the round trip.
    Window,
    /// Packets dropped in queues and interfaces.
    BeforeCard,
    /// Packets dropped at a socket whose reader had time left.
    Socket,
    /// Heaps were lost and no packet was dropped: packets of them came after others.
    Order,
    /// The core of a receiver.
    Receiver,
    /// The core of a sender.
    Sender,
    /// All cores together.
    Processors,
    /// The same, but mostly of programs that are none of the trial's.
    Others,
    /// Copies.
    Memory,
    /// No rule fits.
    Unknown,
}

impl TrialLimit {
    /// In results files.
    pub fn name(self) -> &'static str {
        match self {
            TrialLimit::Asked => "asked",
            TrialLimit::Link => "link",
            TrialLimit::Window => "window",
            TrialLimit::BeforeCard => "before-card",
            TrialLimit::Socket => "socket",
            TrialLimit::Order => "order",
            TrialLimit::Receiver => "receiver-processor",
            TrialLimit::Sender => "sender-processor",
            TrialLimit::Processors => "processors",
            TrialLimit::Others => "other-programs",
            TrialLimit::Memory => "memory",
            TrialLimit::Unknown => "unknown",
        }
    }

    /// In the note.
    fn words(self) -> &'static str {
        match self {
            TrialLimit::Asked => "the rate asked for",
            TrialLimit::Link => "the link's rate",
            TrialLimit::Window => "socket buffers over the round trip",
            TrialLimit::BeforeCard => "drops before the card",
            TrialLimit::Socket => "drops at the receiver's socket",
            TrialLimit::Order => "the order of packets",
            TrialLimit::Receiver => "the receiver's processor",
            TrialLimit::Sender => "the sender's processor",
            TrialLimit::Processors => "all processors together",
            TrialLimit::Others => "other programs on this host",
            TrialLimit::Memory => "memory bandwidth",
            TrialLimit::Unknown => "none of these",
        }
    }
}

/// The host, as far as limits go.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitHost {
    /// Cores.
    pub cores: usize,
    /// Rate at which one thread copies packets, Gb/s.
    pub copy_gbps: f64,
    /// Largest receive and send buffers that the system grants, bytes.
    pub granted: [Option<u64>; 2],
}

impl LimitHost {
    /// This host; copies are measured.
    pub fn measured() -> LimitHost {
        let host = Host::default().snapshot();
        LimitHost {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            copy_gbps: super::memory::copy_gbps(memo::PACKET),
            granted: [host.rmem_max, host.wmem_max],
        }
    }

    /// Share of a core's time that one copy of the fastest stream's bytes takes: each end has one at least, into the kernel or out of it.
    fn copies(&self, trial: &HeapTrial) -> f64 {
        most(&trial.gbps) / self.copy_gbps.max(1e-9)
    }

    /// What the trial ran against.
    pub fn limit(&self, trial: &HeapTrial) -> TrialLimit {
        let Some(cost) = &trial.cost else { return TrialLimit::Unknown };
        let (sender, receiver) = (most(&cost.sender_cores), most(&cost.receiver_cores));
        let drops = cost.drops.unwrap_or_default();
        if trial.loss > Some(0.0)
            && trial.interrupted == 0
            && cost.drops == Some(TrialDrops::default())
        {
            return TrialLimit::Order;
        }
        if trial.loss > Some(0.0) && drops != TrialDrops::default() {
            return match drops.before_card() >= drops.socket {
                true => TrialLimit::BeforeCard,
                false if receiver >= USED_UP => self.core(trial, TrialLimit::Receiver),
                false => TrialLimit::Socket,
            };
        }
        // What arrived, if that was counted: over TCP a sender ends when the rest fits into the buffers.
        let came = trial.effective.unwrap_or(trial.sum);
        let reached = |goal: Option<f64>, share: f64| goal.is_some_and(|g| came >= share * g);
        // The nearest bound first: a rate above the link's is never reached.
        if cost.window < cost.carries && reached(cost.window, WINDOW) {
            return TrialLimit::Window;
        }
        if cost.carries.is_none_or(|link| cost.asked.is_some_and(|asked| asked < link))
            && reached(cost.asked, REACHED)
        {
            return TrialLimit::Asked;
        }
        if reached(cost.carries, REACHED) {
            return TrialLimit::Link;
        }
        if sender.max(receiver) >= USED_UP {
            let end = if receiver > sender { TrialLimit::Receiver } else { TrialLimit::Sender };
            return self.core(trial, end);
        }
        match cost.busy_cores {
            Some(busy) if busy >= USED_UP * self.cores as f64 => {
                let own = cost.all_cores() >= OWN * busy;
                if own { TrialLimit::Processors } else { TrialLimit::Others }
            }
            _ => TrialLimit::Unknown,
        }
    }

    /// A core that was used up: by copies, or by the rest of the work.
    fn core(&self, trial: &HeapTrial, end: TrialLimit) -> TrialLimit {
        if self.copies(trial) >= COPIES { TrialLimit::Memory } else { end }
    }

    fn words(&self) -> String {
        let size = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), |n| format!("{n} B"));
        format!(
            "{} processors for all programs of a trial; one thread copies packets of {} B at {:.0} Gb/s; the kernel grants \
             receive buffers of {} (rmem_max) and send buffers of {} (wmem_max).",
            self.cores,
            memo::PACKET,
            self.copy_gbps,
            size(self.granted[0]),
            size(self.granted[1]),
        )
    }
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Trials that are judged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TrialSeries {
    pub part: &'static str,
    pub peer: &'static str,
    pub tcp: bool,
}

/// All trials of a campaign with their limits.
#[derive(Debug)]
pub(super) struct LimitNote {
    host: LimitHost,
    all: Vec<(TrialSeries, HeapTrial)>,
}

impl LimitNote {
    pub fn new(host: LimitHost) -> LimitNote {
        LimitNote { host, all: Vec::new() }
    }

    /// Takes a trial in; its limit.
    pub fn add(&mut self, series: TrialSeries, trial: &HeapTrial) -> TrialLimit {
        self.all.push((series, trial.clone()));
        self.host.limit(trial)
    }

    /// Series in the order of their first trials.
    fn series(&self) -> Vec<TrialSeries> {
        let mut all: Vec<TrialSeries> = Vec::new();
        for (series, _) in &self.all {
            if !all.contains(series) {
                all.push(*series);
            }
        }
        all
    }

    fn trials(&self, series: TrialSeries) -> impl Iterator<Item = &HeapTrial> {
        self.all.iter().filter(move |(s, _)| *s == series).map(|(_, trial)| trial)
    }

    /// Limits and how many of `trials` had them, the most frequent first.
    fn counts<'a>(&self, trials: impl Iterator<Item = &'a HeapTrial>) -> Vec<(TrialLimit, usize)> {
        let mut counts: Vec<(TrialLimit, usize)> = Vec::new();
        for limit in trials.map(|trial| self.host.limit(trial)) {
            match counts.iter_mut().find(|(l, _)| *l == limit) {
                Some((_, n)) => *n += 1,
                None => counts.push((limit, 1)),
            }
        }
        counts.sort_by_key(|(limit, n)| (std::cmp::Reverse(*n), *limit));
        counts
    }

    /// For the results file.
    pub fn json(&self) -> Value {
        let of = |series: TrialSeries| {
            let counts = self.counts(self.trials(series));
            let limits: serde_json::Map<String, Value> =
                counts.iter().map(|(limit, n)| (limit.name().to_owned(), json!(n))).collect();
            json!({"part": series.part, "peer": series.peer, "tcp": series.tcp, "limits": limits})
        };
        json!({
            "processors": self.host.cores, "copy_gbps": self.host.copy_gbps, "rmem_max": self.host.granted[0],
            "wmem_max": self.host.granted[1], "series": self.series().into_iter().map(of).collect::<Vec<_>>(),
        })
    }

    /// The note, in Markdown.
    pub fn text(&self) -> String {
        let mut text = format!("\n## What limits it here\n\n{}\n", self.host.words());
        if self.all.is_empty() {
            return text;
        }
        text += &format!(
            "\n| part | | transport | sender cores | receiver cores | busy of {} | copies % | before the card | at the socket | limit |\n\
             |---|---|---|---|---|---|---|---|---|---|\n",
            self.host.cores
        );
        for series in self.series() {
            text += &self.row(series);
        }
        text += "\nMeans over trials; of several streams the busiest one. Cores: processor time of a program over the time of the \
                 trial. Copies: share of a core that one copy of a stream's bytes takes; each end has one at least. Packets dropped \
                 are sums: before the card in the sender's queue or in an interface, and at the receiver's socket (nobody reads it \
                 in table 2 over UDP). Drops are of UDP and TCP alike.\n";
        let counts = self.counts(self.all.iter().map(|(_, trial)| trial));
        let told: Vec<String> =
            counts.iter().map(|(limit, n)| format!("{} ({n})", limit.words())).collect();
        text += &format!("\nOf {} trials the limit was: {}.\n", self.all.len(), told.join(", "));
        text
    }

    fn row(&self, series: TrialSeries) -> String {
        let mean = |what: &dyn Fn(&HeapTrial, &TrialCost) -> Option<f64>| -> Option<f64> {
            let of = |trial: &HeapTrial| what(trial, trial.cost.as_ref()?);
            let values: Vec<f64> = self.trials(series).filter_map(of).collect();
            mean_sd(&values).map(|(mean, _)| mean)
        };
        let cell = |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{v:.2}"));
        let some = |list: &[f64]| (!list.is_empty()).then(|| most(list));
        let sender = cell(mean(&|_, cost| some(&cost.sender_cores)));
        let receiver = cell(mean(&|_, cost| some(&cost.receiver_cores)));
        let busy = cell(mean(&|_, cost| cost.busy_cores));
        let copies = mean(&|trial, _| Some(100.0 * self.host.copies(trial)));
        let copies = copies.map_or("–".to_owned(), |share| format!("{share:.0}"));
        let drops: Vec<TrialDrops> =
            self.trials(series).filter_map(|trial| trial.cost.as_ref()?.drops).collect();
        let before: u64 = drops.iter().map(|d| d.before_card()).sum();
        let socket: u64 = drops.iter().map(|d| d.socket).sum();
        let counts = self.counts(self.trials(series));
        let trials: usize = counts.iter().map(|(_, n)| n).sum();
        let told: Vec<String> = counts
            .iter()
            .map(|(limit, n)| format!("{} ({n} of {trials})", limit.words()))
            .collect();
        format!(
            "| {} | {} | {} | {sender} | {receiver} | {busy} | {copies} | {before} | {socket} | {} |\n",
            series.part,
            series.peer,
            if series.tcp { "TCP" } else { "UDP" },
            told.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: LimitHost =
        LimitHost { cores: 2, copy_gbps: 100.0, granted: [Some(212_992), None] };

    /// 10 Gb/s on loopback with half a core at each end.
    fn trial() -> (HeapTrial, TrialCost) {
        let cost = TrialCost {
            seconds: 1.0,
            sender_cores: vec![0.5],
            receiver_cores: vec![0.5],
            busy_cores: Some(1.0),
            drops: Some(TrialDrops::default()),
            ..TrialCost::default()
        };
        let trial =
            HeapTrial { gbps: vec![10.0], sum: 10.0, loss: Some(0.0), ..HeapTrial::default() };
        (trial, cost)
    }

    fn limit(change: impl FnOnce(&mut HeapTrial, &mut TrialCost)) -> TrialLimit {
        let (mut trial, mut cost) = trial();
        change(&mut trial, &mut cost);
        HOST.limit(&HeapTrial { cost: Some(cost), ..trial })
    }

    #[test]
    fn a_used_up_core_is_the_limit_and_memory_if_copies_fill_it() {
        assert_eq!(limit(|_, _| {}), TrialLimit::Unknown);
        assert_eq!(limit(|_, c| c.sender_cores = vec![0.2, 0.95]), TrialLimit::Sender);
        assert_eq!(
            limit(|_, c| (c.sender_cores, c.receiver_cores) = (vec![0.95], vec![0.99])),
            TrialLimit::Receiver
        );
        let busy = |own: f64| limit(move |_, c| (c.busy_cores, c.own_cores) = (Some(1.9), own));
        assert_eq!((busy(0.5), busy(0.1)), (TrialLimit::Processors, TrialLimit::Others));
        let memory = |t: &mut HeapTrial, c: &mut TrialCost| {
            (t.gbps, t.sum, c.sender_cores) = (vec![60.0], 60.0, vec![1.0]);
        };
        assert_eq!(limit(memory), TrialLimit::Memory);
        assert_eq!(limit(|t, _| t.gbps = vec![60.0]), TrialLimit::Unknown, "with time left");
        let (trial, _) = trial();
        assert_eq!(HOST.limit(&trial), TrialLimit::Unknown, "a trial of an earlier version");
    }

    #[test]
    fn lost_heaps_name_the_place_of_most_drops() {
        let drops = |queue, interface, socket| TrialDrops { queue, interface, socket };
        let lost = |d: TrialDrops, receiver: f64| {
            limit(move |t, c| {
                (t.loss, c.drops, c.receiver_cores) = (Some(0.1), Some(d), vec![receiver]);
            })
        };
        assert_eq!(lost(drops(10, 0, 3), 0.5), TrialLimit::BeforeCard);
        assert_eq!(lost(drops(1, 4, 3), 1.0), TrialLimit::BeforeCard);
        assert_eq!(lost(drops(1, 0, 3), 0.5), TrialLimit::Socket);
        assert_eq!(lost(drops(1, 0, 3), 0.97), TrialLimit::Receiver);
        assert_eq!(lost(drops(0, 0, 0), 0.97), TrialLimit::Order);
        // Nobody counted heaps: a light receiver's socket drops all.
        let light = |t: &mut HeapTrial, c: &mut TrialCost| {
            (t.loss, c.drops, c.sender_cores) = (None, Some(drops(0, 0, 99)), vec![1.0]);
        };
        assert_eq!(limit(light), TrialLimit::Sender);
    }

    #[test]
    fn rates_links_and_windows_that_are_reached_are_the_limit() {
        assert_eq!(limit(|_, c| c.asked = Some(10.5)), TrialLimit::Asked);
        assert_eq!(limit(|_, c| c.asked = Some(20.0)), TrialLimit::Unknown);
        let short = limit(|t, c| (t.effective, c.carries) = (Some(5.0), Some(10.0)));
        assert_eq!(short, TrialLimit::Unknown, "most of it was still in the buffers");
        let link =
            |asked, carries| limit(move |_, c| (c.asked, c.carries) = (asked, Some(carries)));
        assert_eq!(link(None, 10.1), TrialLimit::Link);
        assert_eq!(link(Some(10.9), 10.1), TrialLimit::Link, "more than the link was asked for");
        assert_eq!(link(Some(10.0), 10.1), TrialLimit::Asked);
        let window = |bytes| limit(move |_, c| (c.window, c.carries) = (Some(bytes), Some(50.0)));
        assert_eq!(window(11.0), TrialLimit::Window);
        assert_eq!(window(40.0), TrialLimit::Unknown);
        assert_eq!(
            limit(|_, c| (c.window, c.carries) = (Some(50.0), Some(10.0))),
            TrialLimit::Link
        );
    }

    #[test]
    fn the_note_names_the_limit_of_each_series_and_of_all() {
        let mut note = LimitNote::new(HOST);
        let series = TrialSeries { part: "mro10", peer: "fullcount", tcp: false };
        let (trial, cost) = trial();
        let with = |cost: &TrialCost, loss| HeapTrial {
            loss: Some(loss),
            cost: Some(cost.clone()),
            ..trial.clone()
        };
        let full = TrialCost { sender_cores: vec![1.0], ..cost.clone() };
        let drops = Some(TrialDrops { queue: 700, interface: 11, socket: 5 });
        let lossy = TrialCost { drops, ..cost };
        assert_eq!(note.add(series, &with(&lossy, 0.3)), TrialLimit::BeforeCard);
        assert_eq!(note.add(series, &with(&lossy, 0.2)), TrialLimit::BeforeCard);
        assert_eq!(note.add(series, &with(&full, 0.0)), TrialLimit::Sender);
        let tcp = TrialSeries { tcp: true, ..series };
        assert_eq!(note.add(tcp, &with(&full, 0.0)), TrialLimit::Sender);
        let text = note.text();
        for words in [
            "2 processors",
            "at 100 Gb/s",
            "212992 B (rmem_max)",
            "unknown (wmem_max)",
            "| mro10 | fullcount | UDP | 0.67 | 0.50 | 1.00 | 10 | 1422 | 10 | drops before the card (2 of 3), the sender's processor (1 of 3) |",
            "| mro10 | fullcount | TCP | 1.00 | 0.50 | 1.00 | 10 | 0 | 0 | the sender's processor (1 of 1) |",
            "Of 4 trials the limit was: drops before the card (2), the sender's processor (2).",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let json = note.json();
        assert_eq!(json["series"][0]["limits"], json!({"before-card": 2, "sender-processor": 1}));
        assert_eq!(
            (json["processors"].as_u64(), json["copy_gbps"].as_f64()),
            (Some(2), Some(100.0))
        );
        let bare = LimitNote::new(HOST);
        assert!(!bare.text().contains("| part |") && bare.json()["series"] == json!([]));
    }
}
