//! `lab spead tuning`: the rate tuner on a link whose rate it does not know, and that changes in the midst.
//!
//! A sender and a receiver over UDP in two namespaces, opened by the URLs that a person gives (`tune`, `feedback`), a token bucket between
//! them. Twice: the sender's socket takes more than the link's queue, so that the link drops as a switch would; and it takes less, so that the
//! sender waits as before an interface of its own. Written down: every decision, heaps that were lost while the rate was held and by probes, and from
//! when on the rate was within 5 % of the best one: at most that, but for the probes.
//! Needs root.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fullcount_child::Asked as Stop;
use fullcount_core::source::{SourceOpening, SourceSetup, Sources};
use fullcount_io::spead::{SpeadIntake, SpeadOutlet, SpeadOutput, SpeadUrl, carrier};
use fullcount_spead::feedback::TunerDecision;
use fullcount_spead::receive::Delivery;
use fullcount_spead::send::{OutHeap, SendHow};
use serde_json::json;

use super::ground::{SpeadGround, spead_share};
use super::memo;
use crate::error::LabError;
use crate::plot::{Chart, ChartLine, Dot, PlotAxis, Stroke};
use crate::record::Record;

/// Heap of this experiment, bytes: many of them a second, also on slow links.
const HEAP: usize = 60 * 8904;
/// How near the best rate is found: so much below it while a rate is held, and so much to either side in a probe.
const NEAR: f64 = 0.05;
/// A rate that is held may be so much above the best one: a token bucket's burst shows in what came.
const ABOVE: f64 = 0.005;
/// Most heaps that may be lost while a rate is held, as a share of all that left since it was found; and by the probes too.
const HELD_LOSS: f64 = 0.01;
const LOSS: f64 = 0.05;
/// Of fewer heaps one lost heap decides too much: their loss is told and not judged.
const JUDGED: usize = 200;
/// After a probe, heaps may still lose packets: those that left while the queue was full, s.
const AFTER_PROBE: f64 = 0.1;
/// Share of the time after it was found: the tuner probes, and reacts to a loss.
const MOSTLY: f64 = 0.9;
/// Time to find it, s.
const LIMIT: f64 = 10.0;
/// Where heaps go, and where reports.
const PORT: u16 = 17_140;
const REPORTS: u16 = 17_141;
/// The highest rate that the tuner may take, bytes/s: ten times a usual link.
const MOST: f64 = 1.25e9;
/// Of a step of either end.
const STEP: Duration = Duration::from_millis(5);

/// Where the narrow link is, seen from the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Narrow {
    /// Behind a switch: it drops.
    Behind,
    /// The sender's own: the socket waits.
    Own,
}

impl Narrow {
    fn name(self) -> &'static str {
        match self {
            Narrow::Behind => "behind a switch",
            Narrow::Own => "the sender's own",
        }
    }

    /// Send buffer of the socket, bytes: above or below the 5 ms of the link's queue.
    fn send_buffer(self) -> usize {
        match self {
            Narrow::Behind => 4 << 20,
            Narrow::Own => 32 << 10,
        }
    }
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct TuningOrder {
    /// Rates of the link, Gb/s, one after the other.
    pub rates: Vec<f64>,
    /// Time at each of them.
    pub each: Duration,
}

/// A change of rate.
#[derive(Debug, Clone, Copy)]
struct Change {
    at: f64,
    rate: f64,
    why: &'static str,
    loss: f64,
    /// More is tried than was held.
    probes: bool,
}

impl Change {
    fn of(decision: &TunerDecision, before: Option<&Change>) -> Change {
        let why = why(decision);
        // One probe after the other, as long as they are good.
        let goes_on = why == "good" && before.is_some_and(|before| before.probes);
        Change {
            at: decision.time_ns as f64 / 1e9,
            rate: decision.to * 8.0 / 1e9,
            why,
            loss: decision.loss,
            probes: why == "probing" || goes_on,
        }
    }
}

fn words(e: impl std::fmt::Display) -> LabError {
    LabError::Failed(anyhow::anyhow!("{e}"))
}

fn why(decision: &TunerDecision) -> &'static str {
    use fullcount_spead::feedback::RateReason as R;
    match decision.why {
        R::Good => "good",
        R::Loss => "loss",
        R::Lagging => "lagging",
        R::HeldBack => "held back",
        R::Found => "found",
        R::Probing => "probing",
        R::ProbeFailed => "probe failed",
        R::Silence => "silence",
    }
}

/// When heaps left, s since the begin, in the order of their numbers from 1 on; and which of them arrived whole.
#[derive(Debug, Default)]
struct HeapTimes {
    sent: Vec<f64>,
    whole: BTreeSet<u64>,
}

/// Shares of the heaps of a time that did not arrive whole, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
struct HeapLoss {
    /// Heaps that left.
    sent: usize,
    /// Those that left while a rate was held.
    held: f64,
    /// Those of probes.
    probes: f64,
}

impl HeapTimes {
    /// Those that left in this time. `None`: none left.
    fn lost(&self, (from, to): (f64, f64), probes: &[(f64, f64)]) -> Option<HeapLoss> {
        let (mut sent, mut held, mut probed) = (0, 0.0, 0.0);
        for (n, &end) in self.sent.iter().enumerate().filter(|(_, at)| (from..to).contains(*at)) {
            sent += 1;
            if self.whole.contains(&(n as u64 + 1)) {
                continue;
            }
            let begin = n.checked_sub(1).map_or(0.0, |before| self.sent[before]);
            match probes.iter().any(|probe| begin < probe.1 && end > probe.0) {
                true => probed += 1.0,
                false => held += 1.0,
            }
        }
        let all = sent as f64;
        (sent > 0).then(|| HeapLoss { sent, held: held / all, probes: probed / all })
    }
}

/// When the tuner tried more than it held, s: until the queue is empty again.
fn probes(changes: &[Change]) -> Vec<(f64, f64)> {
    let mut all: Vec<(f64, f64)> = Vec::new();
    let ends = changes.iter().skip(1).map(|change| change.at).chain([f64::MAX]);
    for (change, end) in changes.iter().zip(ends).filter(|(change, _)| change.probes) {
        all.push((change.at, end + AFTER_PROBE));
    }
    all
}

/// What an experiment on one kind of link gave.
struct Tuned {
    changes: Vec<Change>,
    heaps: HeapTimes,
}

/// The receiver of the URL that a person would give. With the system's 208 KiB one that does not run for 4 ms loses what the link did carry.
fn intake(at: SocketAddr, reports: SocketAddr) -> Result<SpeadIntake, LabError> {
    let mut sources = Sources::default();
    fullcount_io::source::register(&mut sources);
    let url = format!(
        "spead+udp://{at}?sequence=1&heap_timeout=100ms&receive_buffer=4MiB&feedback={reports}"
    );
    let (url, inner) = carrier::plan(&url, &SourceSetup::plain(&sources)).map_err(words)?;
    SpeadIntake::open(&[url], &[inner], &SourceOpening::PLAIN).map_err(words)
}

fn outlet(
    at: SocketAddr,
    reports: SocketAddr,
    send_buffer: usize,
) -> Result<SpeadOutlet, LabError> {
    let packet = memo::PACKET;
    let url = format!(
        "spead+udp://{at}?packet={packet}B&send_buffer={send_buffer}B&feedback={reports}&tune"
    );
    let url = SpeadUrl::<SpeadOutput>::read(&url).map_err(words)?;
    SpeadOutlet::open(&[url], MOST).map_err(words)
}

/// Puts heaps together and reports, until it is over; the numbers of whole heaps.
fn receive(mut intake: SpeadIntake, over: &AtomicBool) -> Result<BTreeSet<u64>, LabError> {
    let mut whole = BTreeSet::new();
    while !over.load(Relaxed) {
        let mut count = |heap, _| {
            if let Delivery::Heap(heap) = heap {
                whole.insert(heap.cnt);
            }
        };
        intake.step(STEP, &mut count).map_err(words)?;
    }
    Ok(whole)
}

/// Sends as the tuner says; its decisions, and when heaps left, s since the begin.
fn send(
    mut outlet: SpeadOutlet,
    (begun, length): (Instant, Duration),
    stop: Stop<'_>,
) -> Result<(Vec<Change>, Vec<f64>), LabError> {
    let data: Arc<[u8]> = vec![5; HEAP].into();
    let mut sent = Vec::new();
    while begun.elapsed() < length && !stop() {
        while outlet.sender().space() > 0 {
            let mut heap = OutHeap::default();
            heap.add_item(0x1000, data.clone(), false);
            outlet.sender().send(heap, SendHow::default()).map_err(|e| words(format!("{e:?}")))?;
        }
        outlet.pump(STEP).map_err(words)?;
        while outlet.sender().pop_completion().is_some() {
            sent.push(begun.elapsed().as_secs_f64());
        }
    }
    let mut changes: Vec<Change> = Vec::new();
    for decision in outlet.back().iter().flat_map(|back| back.log()) {
        changes.push(Change::of(decision, changes.last()));
    }
    Ok((changes, sent))
}

/// Rate of the token bucket at the link's first end from here on.
fn shape(ground: &SpeadGround, gbps: f64) -> Result<(), LabError> {
    let SpeadGround::Links(network) = ground else { return Ok(()) };
    let bits = (gbps * 1e9) as u64;
    let (rate, limit) = (format!("{bits}bit"), (bits / 8 / 200).max(64 * 1024).to_string());
    let burst = (bits / 8 / 4000).max(18_100).to_string();
    let interface = network.interface(0);
    let words = [
        "qdisc", "change", "dev", &interface, "root", "tbf", "rate", &rate, "burst", &burst,
        "limit", &limit,
    ];
    network.tc(0, words).map(drop).map_err(words_of)
}

fn words_of(e: crate::namespace::NamespaceError) -> LabError {
    LabError::Failed(e.into())
}

/// From `from` on, the time after which the rate is near `best` for [`MOSTLY`] of what is left until `to`, s.
fn found(changes: &[Change], best: f64, from: f64, to: f64) -> Option<f64> {
    let near = |c: &Change| {
        let above = if c.probes { NEAR } else { ABOVE };
        ((1.0 - NEAR) * best..=(1.0 + above) * best).contains(&c.rate)
    };
    let before = changes.iter().rev().find(|c| c.at <= from).map(|c| (from, near(c)));
    let within = changes.iter().filter(|c| c.at > from && c.at < to).map(|c| (c.at, near(c)));
    let starts: Vec<(f64, bool)> = before.into_iter().chain(within).collect();
    let ends = starts.iter().skip(1).map(|start| start.0).chain([to]);
    let pieces: Vec<(f64, f64, bool)> =
        starts.iter().zip(ends).map(|(&(at, near), end)| (at, end, near)).collect();
    let settled = |n: &usize| {
        let (at, _, is) = pieces[*n];
        let good: f64 = pieces[*n..].iter().filter(|p| p.2).map(|p| p.1 - p.0).sum();
        is && good >= MOSTLY * (to - at)
    };
    (0..pieces.len()).find(settled).map(|n| pieces[n].0 - from)
}

/// What came of it.
#[derive(Debug)]
pub struct TuningFound {
    /// Table in Markdown.
    pub text: String,
    /// Heaps that arrived, a line for each kind of link.
    heaps: String,
    /// The rate over time.
    pub figure: Option<Chart>,
    /// Rates that were not found in time.
    pub missed: Vec<String>,
}

/// Measures.
///
/// # Errors
/// No namespaces, or the system's words.
pub fn run(
    order: &TuningOrder,
    record: &mut Record,
    stop: Stop<'_>,
) -> Result<TuningFound, LabError> {
    let mut found =
        TuningFound { text: String::new(), heaps: String::new(), figure: None, missed: Vec::new() };
    for narrow in [Narrow::Behind, Narrow::Own] {
        let tuned = one(order, narrow, stop)?;
        tell(order, narrow, &tuned, record, &mut found);
    }
    found.text += &format!("\n{}", found.heaps);
    found.text += "\nHeaps lost from then on: of those that left while the rate was held, and of those of the tuner's probes, as shares of all heaps since.\n";
    Ok(found)
}

fn one(order: &TuningOrder, narrow: Narrow, stop: Stop<'_>) -> Result<Tuned, LabError> {
    let first = order.rates.first().copied().unwrap_or(0.5);
    let ground = SpeadGround::links(&[first], 9000).map_err(words)?;
    let SpeadGround::Links(network) = &ground else { return Err(words("no link")) };
    let at = SocketAddr::from((ground.address(0), PORT));
    let reports = SocketAddr::from((network.address(0, 0), REPORTS));
    let receiver = ground.inside(0, false, || intake(at, reports)).map_err(words)??;
    let buffer = narrow.send_buffer();
    let sender = ground.inside(0, true, || outlet(at, reports, buffer)).map_err(words)??;
    let over = AtomicBool::new(false);
    let length = order.each * order.rates.len() as u32;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(receiver, &over));
        let sending = scope.spawn(|| send(sender, (begun, length), &|| over.load(Relaxed)));
        let mut shaped = Ok(());
        for (n, &rate) in order.rates.iter().enumerate() {
            if n > 0 && shaped.is_ok() {
                shaped = shape(&ground, rate);
            }
            while begun.elapsed() < order.each * (n as u32 + 1) && !sending.is_finished() && !stop()
            {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // Whoever wants it to end does not wait for the rest of the time.
        over.store(stop(), Relaxed);
        let sent = sending.join().map_err(|_| words("the sender panicked"));
        over.store(true, Relaxed);
        let whole = receiving.join().map_err(|_| words("the receiver panicked"))??;
        shaped?;
        if whole.is_empty() {
            return Err(words("no heap arrived"));
        }
        let (changes, sent) = sent??;
        Ok(Tuned { changes, heaps: HeapTimes { sent, whole } })
    })
}

/// What was asked and not reached.
fn missed(what: &str, after: Option<f64>, lost: Option<HeapLoss>) -> Vec<String> {
    let mut missed = Vec::new();
    if after.is_none_or(|s| s > LIMIT) {
        let shown = after.map_or("never".to_owned(), |s| format!("after {s:.1} s"));
        missed.push(format!("{what}: found {shown}, at most after {LIMIT} s"));
    }
    let Some(lost) = lost.filter(|lost| lost.sent >= JUDGED) else { return missed };
    for (which, share, most) in
        [("while held", lost.held, HELD_LOSS), ("in all", lost.held + lost.probes, LOSS)]
    {
        if share > most {
            let (share, most) = (100.0 * share, 100.0 * most);
            missed
                .push(format!("{what}: {share:.1} % of the heaps lost {which}, at most {most} %"));
        }
    }
    missed
}

fn tell(
    order: &TuningOrder,
    narrow: Narrow,
    tuned: &Tuned,
    record: &mut Record,
    all: &mut TuningFound,
) {
    let Tuned { changes, heaps } = tuned;
    if all.text.is_empty() {
        all.text = "| narrow link | its rate Gb/s | best SPEAD rate Gb/s | within 5 % after s | held last Gb/s | heaps lost from then on, % | by probes, % |\n|---|---|---|---|---|---|---|\n".to_owned();
    }
    let mut links = Vec::new();
    let place = narrow.name();
    let each = order.each.as_secs_f64();
    for (n, &rate) in order.rates.iter().enumerate() {
        let (from, to) = (n as f64 * each, (n + 1) as f64 * each);
        let best = rate * spead_share(memo::PACKET);
        let after = found(changes, best, from, to);
        let last = changes.iter().rev().find(|c| c.at < to && !c.probes).map(|c| c.rate);
        let shown = after.map_or("never".to_owned(), |s| format!("{s:.1}"));
        let number = |v: Option<f64>| v.map_or("–".to_owned(), |v| format!("{v:.4}"));
        let lost = after.and_then(|after| heaps.lost((from + after, to), &probes(changes)));
        let percent = |share: fn(HeapLoss) -> f64| {
            lost.map_or("–".to_owned(), |lost| format!("{:.1}", 100.0 * share(lost)))
        };
        all.text += &format!(
            "| {place} | {rate} | {best:.4} | {shown} | {} | {} | {} |\n",
            number(last),
            percent(|lost| lost.held),
            percent(|lost| lost.probes)
        );
        record.row(json!({
            "link": place, "link_gbps": rate, "best_gbps": best, "found_after_s": after, "held_last_gbps": last,
            "held_heap_loss": lost.map(|lost| lost.held), "probes_heap_loss": lost.map(|lost| lost.probes),
        }));
        all.missed.extend(missed(&format!("{place}, {rate} Gb/s"), after, lost));
        let end = |x| Dot { x, y: best, spread: None, below: false };
        links.extend([end(from), end(to)]);
    }
    let (sent, whole) = (heaps.sent.len(), heaps.whole.len());
    record.parameter(&format!("heaps, {place}"), json!({"sent": sent, "whole": whole}));
    all.heaps += &format!(
        "Narrow link {place}: {sent} heaps of {HEAP} B were sent, {whole} arrived whole.\n"
    );
    let decisions =
        changes.iter().map(|c| json!({"s": c.at, "gbps": c.rate, "why": c.why, "loss": c.loss}));
    let key = match narrow {
        Narrow::Behind => "decisions",
        Narrow::Own => "decisions_own_link",
    };
    record.parameter(key, json!(decisions.collect::<Vec<_>>()));
    let mut dots = Vec::new();
    for pair in changes.windows(2) {
        dots.extend([pair[0].at, pair[1].at].map(|x| Dot {
            x,
            y: pair[0].rate,
            spread: None,
            below: false,
        }));
    }
    let line = |name: &str, colour, stroke, dots| ChartLine {
        name: name.to_owned(),
        colour,
        stroke,
        dots,
    };
    if dots.is_empty() {
        return;
    }
    let figure = all.figure.get_or_insert_with(|| Chart {
        name: record.name().to_owned(),
        title: "Rate tuner on a link of unknown rate".to_owned(),
        x_label: "Time, s".to_owned(),
        y_label: "SPEAD rate, Gb/s".to_owned(),
        x_axis: PlotAxis::Linear(0.0),
        axis: PlotAxis::Linear(0.0),
        lines: vec![line("best", 6, Stroke::Floor, links)],
    });
    let colour = figure.lines.len() - 1;
    figure.lines.push(line(place, colour, Stroke::Line, dots));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_that_are_lost_while_a_rate_is_held_are_told_from_those_of_probes() {
        let sent = vec![0.5, 1.0, 2.0, 3.0, 4.0, 5.0];
        let heaps = HeapTimes { sent, whole: [2, 3, 5].into() };
        let lost = |sent, held, probes| Some(HeapLoss { sent, held, probes });
        assert_eq!(heaps.lost((1.0, 5.0), &[]), lost(4, 0.25, 0.0));
        // The fourth left from 2 to 3 s.
        assert_eq!(heaps.lost((1.0, 5.0), &[(2.9, 3.5)]), lost(4, 0.0, 0.25));
        assert_eq!(heaps.lost((1.0, 5.0), &[(1.0, 2.0), (3.0, 4.0)]), lost(4, 0.25, 0.0));
        assert_eq!(heaps.lost((0.0, 6.0), &[(4.5, 9.0)]), lost(6, 2.0 / 6.0, 1.0 / 6.0));
        assert_eq!(heaps.lost((5.5, 9.0), &[]), None);
        assert_eq!(HeapTimes::default().lost((0.0, 9.0), &[]), None);
    }

    fn changes(of: &[(f64, f64, &'static str)]) -> Vec<Change> {
        let change =
            |&(at, rate, why)| Change { at, rate, why, loss: 0.0, probes: why == "probing" };
        of.iter().map(change).collect()
    }

    #[test]
    fn a_rate_is_found_when_it_stays() {
        let touched = changes(&[(0.0, 1.0, "good"), (2.0, 9.8, "good"), (3.0, 12.0, "good")]);
        assert_eq!(found(&touched, 10.0, 0.0, 15.0), None);
        let held = [
            (0.0, 1.0, "good"),
            (4.0, 9.8, "found"),
            (6.0, 10.8, "probing"),
            (6.5, 9.8, "probe failed"),
        ];
        let held = changes(&held);
        assert_eq!(found(&held, 10.0, 0.0, 15.0), Some(4.0));
        assert_eq!(found(&held, 10.0, 7.0, 15.0), Some(0.0));
        assert_eq!(found(&[], 10.0, 0.0, 15.0), None);
        assert_eq!(probes(&held), [(6.0, 6.5 + AFTER_PROBE)]);
    }

    #[test]
    fn a_rate_that_is_held_above_the_best_one_is_not_found_and_a_probe_there_is() {
        for (rate, is_found) in [(10.04, true), (10.06, false), (9.51, true), (9.49, false)] {
            let held = changes(&[(0.0, rate, "found")]);
            assert_eq!(found(&held, 10.0, 0.0, 15.0).is_some(), is_found, "{rate}");
        }
        let probing = changes(&[(0.0, 9.9, "found"), (1.0, 10.2, "probing")]);
        assert_eq!(found(&probing, 10.0, 0.0, 15.0), Some(0.0));
    }

    #[test]
    fn loss_and_time_are_judged() {
        let lost = |held, probes| Some(HeapLoss { sent: JUDGED, held, probes });
        let few = Some(HeapLoss { sent: JUDGED - 1, held: 1.0, probes: 0.0 });
        for (after, lost, misses) in [
            (Some(9.9), lost(0.01, 0.04), 0),
            (Some(10.1), lost(0.0, 0.0), 1),
            (None, None, 1),
            (Some(1.0), few, 0),
            (Some(1.0), lost(0.011, 0.0), 1),
            (Some(1.0), lost(0.0, 0.06), 1),
            (Some(1.0), lost(0.1, 0.0), 2),
        ] {
            assert_eq!(missed("x", after, lost).len(), misses, "{after:?} {lost:?}");
        }
    }
}
