//! `lab spead lossless`: the highest rate at which two trials of 1.2 s lose no heap, by bisection; ours and spead2's tools by turns.
//!
//! A bisection begins below what a sender reaches without a limit, and ends after a number of steps, when two rates of which one passes
//! are within 5 %. Its figure is what the slower one of the two passing trials sent. Source: `docs/formats/spead.md`, annex.

use fullcount_child::Asked as Stop;
use fullcount_io::udp::MOST_SOCKETS;
use serde_json::{Value, json};

use super::goals::{self, RateGoals};
use super::ground::SpeadGround;
use super::kept::Kept;
use super::rights::{self, TrialRights};
use super::tools::{SpeadPeer, SpeadWish};
use super::trial::{FarEnd, Runner};
use super::whole;
use crate::Tell;
use crate::error::LabError;
use crate::record::results::Results;
use crate::record::{Figure, Record};

/// Heap, bytes.
pub(super) const HEAP: u64 = 4 << 20;
/// Trials without a lost heap that a rate needs.
const PASSES: usize = 2;
/// Trials without a limit that the top of a bisection is the best of: single ones reach a third on a host with neighbours.
const FREE: usize = 5;
/// Times that a trial is repeated whose sender did not reach its rate: it says nothing about the rate. Neighbours on the host halve the
/// speed of a core for up to some 12 s at a time, which is as long as this takes.
const AGAIN: usize = 8;
/// A bisection's last two rates are so near to each other, of the upper one: otherwise its figure is a matter of the step. Stock buffers end
/// near a hundredth of the top.
const WITHIN: f64 = 0.05;
/// Steps more than asked for, at most, until they are.
const MORE: usize = 8;
/// A trial's sender reached its rate if so much of it was sent.
const REACHED: f64 = 0.95;
/// What an ordinary user's socket has and gets, bytes: the system's default and limit.
const STOCK: u64 = 212_992;
/// Buffers of both ends otherwise, bytes.
const LARGE: u64 = 4 << 20;
/// Sockets of our receiver with [`LARGE`] buffers.
const SOCKETS: u32 = 8;
/// Largest packet on TCP, bytes: what one segment of loopback holds.
const TCP_PACKET: usize = 65_483;

/// What a first trial over TCP is planned with, Gb/s.
const TCP_GUESS: f64 = 10.0;

/// Buffers of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffers {
    /// 212,992 B at both ends, as an ordinary user has them on a system with nothing set.
    Stock,
    /// 4 MB at both ends, and a memory pool.
    Large,
}

impl Buffers {
    /// As in tables.
    pub fn name(self) -> &'static str {
        match self {
            Buffers::Stock => "stock",
            Buffers::Large => "4 MB, pool",
        }
    }

    /// Sockets of our receiver with them, where nothing is said.
    fn sockets(self) -> u32 {
        match self {
            // As many as it opens by itself for a user who gets no larger buffers.
            Buffers::Stock => MOST_SOCKETS,
            Buffers::Large => SOCKETS,
        }
    }
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct BisectionOrder {
    /// Packet sizes, bytes.
    pub packets: Vec<usize>,
    /// Buffers.
    pub buffers: Vec<Buffers>,
    /// Bisections of each, by turns.
    pub repeats: usize,
    /// Steps of a bisection.
    pub steps: usize,
    /// Length of a trial, s.
    pub seconds: f64,
    /// TCP without a limit as well.
    pub tcp: bool,
    /// Sockets of our receiver, with a buffer each; spead2's has one. `None`: 8 with 4 MB, 32 with stock buffers.
    pub sockets: Option<u32>,
    /// Only shows that everything works: nothing is judged.
    pub quick: bool,
}

impl BisectionOrder {
    fn sockets(&self, buffers: Buffers) -> u32 {
        self.sockets.unwrap_or_else(|| buffers.sockets())
    }

    /// Sockets beside their buffers, for a reader of the tables; `None`: no row has more than one.
    fn sockets_text(&self) -> Option<String> {
        let one = |of: &Buffers| format!("{} ({})", self.sockets(*of), of.name());
        let several = self.buffers.iter().any(|of| self.sockets(*of) > 1);
        several.then(|| self.buffers.iter().map(one).collect::<Vec<_>>().join(", "))
    }
}

/// What was measured.
#[derive(Debug)]
pub struct LosslessFound {
    /// Tables in Markdown, with the goals and what came of them.
    pub text: String,
    /// What is below its goal.
    pub missed: Vec<String>,
    /// Goals of which one side was not there.
    pub unmeasured: Vec<String>,
}

fn wish(
    packet: usize,
    buffers: Buffers,
    (rate, seconds, expected): (Option<f64>, f64, f64),
    sockets: u32,
) -> SpeadWish {
    let bits = rate.unwrap_or(expected) * 1e9 * seconds;
    SpeadWish {
        tcp: false,
        heap_bytes: HEAP,
        heaps: ((bits / 8.0 / HEAP as f64) as u64).max(4),
        packet,
        buffer: Some(if buffers == Buffers::Large { LARGE } else { STOCK }),
        rate,
        pool: buffers == Buffers::Large,
        sockets,
    }
}

/// A rate that passed and the lowest one above it that did not, by halves of 0 to `top`: so many steps, and more until they are within
/// [`WITHIN`] of each other or `more` are over. `passes` is what came of a good rate. Never asks outside; `None`: no rate passed.
pub fn bisect<T, E>(
    top: f64,
    (steps, more): (usize, usize),
    mut passes: impl FnMut(f64) -> Result<Option<T>, E>,
) -> Result<(Option<T>, f64), E> {
    let (mut low, mut high, mut best) = (0.0, top, None);
    for step in 0..steps + more {
        if step >= steps && high - low <= WITHIN * high {
            break;
        }
        let middle = (low + high) / 2.0;
        match passes(middle)? {
            Some(of) => (low, best) = (middle, Some(of)),
            None => high = middle,
        }
    }
    Ok((best, high))
}

struct Search<'a> {
    order: &'a BisectionOrder,
    stop: Stop<'a>,
    cores: Option<[usize; 2]>,
}

impl Search<'_> {
    fn once(
        &self,
        peer: &SpeadPeer,
        wish: &SpeadWish,
    ) -> Result<super::trial::HeapTrial, LabError> {
        let ground = &SpeadGround::Loopback;
        let runner = Runner { ground, peer, stop: self.stop, cores: self.cores };
        let trial = runner.trial(wish, &[0], FarEnd::Full);
        trial.map_err(|e| LabError::Failed(anyhow::anyhow!("{}: {e}", peer.name())))
    }

    /// As fast as it goes, for the time of a trial: a first, shorter one says how many heaps that takes.
    fn over_tcp(&self, peer: &SpeadPeer, packet: usize) -> Result<Value, LabError> {
        let wish = |seconds: f64, expected: f64| {
            let wish = wish(packet, Buffers::Large, (None, seconds, expected), 1);
            SpeadWish { tcp: true, ..wish }
        };
        let first = self.once(peer, &wish(self.order.seconds / 4.0, TCP_GUESS))?;
        let expected = first.sum.max(TCP_GUESS / 4.0);
        Ok(self.once(peer, &wish(self.order.seconds, expected))?.json())
    }

    /// Gb/s.
    fn find(&self, peer: &SpeadPeer, packet: usize, buffers: Buffers) -> Result<Value, LabError> {
        let (seconds, sockets) = (self.order.seconds, self.order.sockets(buffers));
        let mut top: f64 = 0.01;
        for _ in 0..FREE {
            let free = wish(packet, buffers, (None, seconds, top.max(10.0)), sockets);
            top = top.max(self.once(peer, &free)?.sum);
        }
        // Rates that did not pass: what was lost, and how many trials came to nothing before.
        let (mut tried, mut failed) = (0, vec![]);
        let more = if self.order.quick { 0 } else { MORE };
        let (found, above) = bisect(top, (self.order.steps, more), |rate| {
            let (mut passed, mut late, mut sent) = (0, 0, rate);
            while passed < PASSES {
                tried += 1;
                let wish = wish(packet, buffers, (Some(rate), seconds, rate), sockets);
                let trial = self.once(peer, &wish)?;
                let slow = trial.sum < REACHED * rate;
                late += usize::from(slow);
                let lost = trial.loss.is_none_or(|loss| loss > 0.0);
                if lost || late > AGAIN {
                    failed.push(json!({"asked_gbps": rate, "late": late, "heap_loss": trial.loss}));
                    return Ok::<_, LabError>(None);
                }
                if !slow {
                    (passed, sent) = (passed + 1, sent.min(trial.sum));
                }
            }
            Ok(Some((rate, sent)))
        })?;
        let (asked, found) = found.unwrap_or((0.0, 0.0));
        Ok(
            json!({"gbps": found, "asked_gbps": asked, "above_gbps": above, "free_gbps": top, "trials": tried, "failed": failed}),
        )
    }
}

/// Measures; tables in Markdown.
///
/// # Errors
/// A program that gives no result.
pub fn run(
    order: &BisectionOrder,
    peers: &[SpeadPeer],
    (results, resume): (&Results, bool),
    record: &mut Record,
    (tell, stop): (Tell, Stop<'_>),
) -> Result<LosslessFound, LabError> {
    let names: Vec<&str> = peers.iter().map(SpeadPeer::name).collect();
    // One core each side: where the system puts both on one for a while, it decides the figure.
    let cores = match crate::cores::allowed().ok().as_deref() {
        Some([sender, receiver, ..]) => Some([*sender, *receiver]),
        _ => None,
    };
    let (granted, rights) = (rights::granted(), TrialRights::here());
    let plan = json!({
        "repeats": order.repeats, "steps": order.steps, "seconds": order.seconds, "peers": names, "heap_bytes": HEAP,
        "passes": PASSES, "free": FREE, "again": AGAIN, "within": WITHIN, "reached": REACHED, "sockets": order.buffers.iter().map(|of| order.sockets(*of)).collect::<Vec<_>>(), "cores": cores, "net_admin": rights.name(),
    });
    record.parameter("plan", plan.clone());
    record.parameter("granted_bytes", granted);
    let mut kept = Kept::open(&results.folder, record.name(), &plan, resume)?;
    let mut goals = RateGoals::new(order, peers);
    let search = Search { order, stop, cores };
    let mut text = "| packet B | buffers | ".to_owned();
    text += &names.iter().map(|n| format!("{n} Gb/s")).collect::<Vec<_>>().join(" | ");
    text += " |";
    // Ours comes first where it is asked for.
    text += &names.iter().skip(1).map(|n| format!(" {} / {n} |", names[0])).collect::<String>();
    text += &format!("\n|---|---|{}\n", "---|".repeat(2 * peers.len() - 1));
    text += &over_udp(&search, peers, &mut kept, (&mut *record, &mut goals), tell)?;
    if order.tcp {
        text += &over_tcp(&search, peers, &mut kept, (&mut *record, &mut goals))?;
    }
    if let Some([sender, receiver]) = cores {
        text += &format!("\nSenders run on core {sender}, receivers on core {receiver}.\n");
    }
    text += "\nMedians (least to most) of bisections by turns; a rate passes if two trials lose no heap, and is what \
             the slower one sent; the lowest rate that did not pass is within 5 %. stock: 212,992 B \
             at both ends, what a user gets on a system with nothing set.\n";
    if let Some(sockets) = order.sockets_text() {
        text += &format!(
            "\nSockets of fullcount's receiver on its port over UDP, each with such a buffer: {sockets}. spead2's has one.\n"
        );
    }
    if let Some(note) = rights::note(LARGE, granted, rights) {
        tell(&note);
        text += &format!("\n{}.\n", capital(&note));
    }
    let ours = peers.iter().find_map(|peer| match peer {
        SpeadPeer::Ours { program } => Some(program),
        _ => None,
    });
    if let Some(program) = ours.filter(|_| order.tcp) {
        let places = (&mut *record, &mut goals);
        text += &whole::run(program, (order, cores), &mut kept, places, (tell, stop))?;
    }
    kept.finish();
    record.parameter("goals", goals.json());
    text += &goals.text();
    Ok(LosslessFound { text, missed: goals.missed, unmeasured: goals.unmeasured })
}

/// Rows of UDP, by bisection.
fn over_udp(
    search: &Search<'_>,
    peers: &[SpeadPeer],
    kept: &mut Kept,
    (record, goals): (&mut Record, &mut RateGoals),
    tell: Tell,
) -> Result<String, LabError> {
    let (order, mut text) = (search.order, String::new());
    for &packet in &order.packets {
        for &buffers in &order.buffers {
            let mut values: Vec<Vec<f64>> = vec![Vec::new(); peers.len()];
            for turn in 0..order.repeats {
                for n in turns(peers.len(), turn) {
                    let peer = &peers[n];
                    let key = format!("udp {packet} {} {} {turn}", buffers.name(), peer.name());
                    let value = kept.or_measure(&key, || search.find(peer, packet, buffers))?;
                    tell(&format!("{key}: {value}"));
                    values[n].extend(value.get("gbps").and_then(Value::as_f64));
                    record.row(json!({"packet_bytes": packet, "buffers": buffers.name(), "peer": peer.name(), "turn": turn, "found": value}));
                }
            }
            let label = format!("| {packet} | {} |", buffers.name());
            let short = if buffers == Buffers::Stock { "stock" } else { "pool" };
            text += &line(&label, (peers, &values), &format!("udp-{packet}-{short}"), record);
            let row = format!("UDP, {packet} B, {}", buffers.name());
            let goal = goals::over_udp(packet, buffers);
            goals.judge(&row, OURS_AND_SPEAD2, of_spead2(peers, &values), goal);
        }
    }
    Ok(text)
}

/// Who is judged, beside whom.
const OURS_AND_SPEAD2: (&str, &str) = ("fullcount", "spead2");

/// Ratio of the medians of ours and of spead2's tools. `None`: one of them is not there.
pub(super) fn of_spead2(peers: &[SpeadPeer], values: &[Vec<f64>]) -> Option<f64> {
    let median = |name: &str| {
        let n = peers.iter().position(|peer| peer.name() == name)?;
        Some(Figure::of(values.get(n)?, "Gb/s")?.value)
    };
    Some(median(OURS_AND_SPEAD2.0)? / median(OURS_AND_SPEAD2.1)?.max(1e-9))
}

/// The same words at the beginning of a sentence.
pub(super) fn capital(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}

/// The order of the peers in a turn: who begins changes.
fn turns(peers: usize, turn: usize) -> Vec<usize> {
    let mut turns: Vec<usize> = (0..peers).collect();
    turns.rotate_left(turn % peers.max(1));
    turns
}

/// Rows of TCP without a limit.
fn over_tcp(
    search: &Search<'_>,
    peers: &[SpeadPeer],
    kept: &mut Kept,
    (record, goals): (&mut Record, &mut RateGoals),
) -> Result<String, LabError> {
    let (order, mut text) = (search.order, String::new());
    for &asked in &order.packets {
        let packet = asked.min(TCP_PACKET);
        if packet < asked && order.packets.contains(&packet) {
            continue;
        }
        let mut values: Vec<Vec<f64>> = vec![Vec::new(); peers.len()];
        for turn in 0..order.repeats {
            for n in turns(peers.len(), turn) {
                let peer = &peers[n];
                let key = format!("tcp {packet} {} {turn}", peer.name());
                let value = kept.or_measure(&key, || search.over_tcp(peer, packet))?;
                values[n].extend(value.get("sum_gbps").and_then(Value::as_f64));
                record.row(json!({"packet_bytes": packet, "tcp": true, "peer": peer.name(), "turn": turn, "found": value}));
            }
        }
        let label = match packet < asked {
            true => format!("| {packet} (not {asked}) | TCP, 4 MB |"),
            false => format!("| {packet} | TCP, 4 MB |"),
        };
        text += &line(&label, (peers, &values), &format!("tcp-{packet}"), record);
        let ratio = of_spead2(peers, &values);
        goals.judge(&format!("TCP, {packet} B"), OURS_AND_SPEAD2, ratio, goals::over_tcp(packet));
    }
    if order.packets.iter().any(|packet| *packet > TCP_PACKET) {
        let most = order.packets.iter().max().unwrap_or(&0);
        text += &format!(
            "\nPackets of {most} B are of {TCP_PACKET} B on TCP: one segment of loopback.\n"
        );
    }
    Ok(text)
}

/// A row of the table: medians, which become figures, and the ratio of the first peer to each other one.
pub(super) fn line(
    label: &str,
    (peers, values): (&[SpeadPeer], &[Vec<f64>]),
    key: &str,
    record: &mut Record,
) -> String {
    let figures: Vec<Option<Figure>> = values.iter().map(|v| Figure::of(v, "Gb/s")).collect();
    let mut text = label.to_owned();
    for (peer, figure) in peers.iter().zip(&figures) {
        match figure {
            Some(f) => {
                record.figure(&format!("{key}-{}", peer.name()), f);
                text += &format!(" {:.2} ({:.2} to {:.2}) |", f.value, f.interval.0, f.interval.1);
            }
            None => text += " – |",
        }
    }
    let (ours, others) = figures.split_first().unwrap_or((&None, &[]));
    for theirs in others {
        text += &match (ours, theirs) {
            (Some(ours), Some(theirs)) => format!(" {:.2} |", ours.value / theirs.value.max(1e-9)),
            _ => " – |".to_owned(),
        };
    }
    text + "\n"
}
