//! `lab spead switches`: what each optimisation of SPEAD's sender and receiver gains: it is switched off by itself, by turns with all of them on.
//! Copies past the cache are switched on, for they are no default.
//!
//! Heaps of 4 MiB over loopback, one core each side: over UDP to a socket that nobody reads (the sender's core decides), over UDP at a set rate
//! (the receiver's processor time decides), over TCP in packets and in whole heaps as fast as it goes; and from memory, without a
//! socket. A share is that of the same turn. Refuses programs that give no result. Source: `docs/lab-spead.md`.

use std::path::PathBuf;

use fullcount_child::Asked;
use fullcount_spead::receive::PayloadCopy;
use serde_json::{Value, json};

use super::ground::SpeadGround;
use super::heaps_run::{HeapsRan, HeapsRun, HeapsRunner};
use super::memory;
use crate::Tell;
use crate::error::LabError;
use crate::record::{Figure, Record, dash};

/// Largest packet on TCP, bytes: what one segment of loopback holds.
const TCP_PACKET: usize = 65_483;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchOrder {
    /// The `fullcount` binary.
    pub program: PathBuf,
    /// Packet sizes, bytes.
    pub packets: Vec<usize>,
    /// Turns of each row.
    pub repeats: usize,
    /// Length of a trial, s.
    pub seconds: f64,
    /// Rate of UDP with a receiver, Gb/s: one at which nothing is lost.
    pub rate: f64,
}

/// How heaps travel in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SwitchPath {
    /// UDP to a socket that nobody reads.
    Unread,
    /// UDP at the set rate.
    AtRate,
    /// TCP, packets back to back.
    Packets,
    /// TCP, whole heaps.
    Whole,
    /// Packets from memory into a receiver.
    Memory,
}

impl SwitchPath {
    const ALL: [SwitchPath; 5] = [
        SwitchPath::Unread,
        SwitchPath::AtRate,
        SwitchPath::Packets,
        SwitchPath::Whole,
        SwitchPath::Memory,
    ];

    /// As in tables.
    fn name(self) -> &'static str {
        match self {
            SwitchPath::Unread => "UDP, nobody reads",
            SwitchPath::AtRate => "UDP at a set rate",
            SwitchPath::Packets => "TCP, packets",
            SwitchPath::Whole => "TCP, whole heaps",
            SwitchPath::Memory => "memory",
        }
    }

    /// As in names of figures.
    fn key(self) -> &'static str {
        match self {
            SwitchPath::Unread => "udp-unread",
            SwitchPath::AtRate => "udp-at-rate",
            SwitchPath::Packets => "tcp",
            SwitchPath::Whole => "tcp-whole",
            SwitchPath::Memory => "memory",
        }
    }

    /// Keys that switch something off here, or to the other way, each at the end that has it.
    fn switches(self) -> &'static [Off] {
        match self {
            SwitchPath::Unread => &[Off::Sender("gather=0")],
            SwitchPath::AtRate => &[
                Off::Receiver("pages_ahead=0"),
                Off::Receiver("streaming=1"),
                Off::Receiver("pool=0"),
            ],
            SwitchPath::Packets => {
                &[Off::Sender("gather=0"), Off::Receiver("low_water=0"), Off::Receiver("pool=0")]
            }
            SwitchPath::Whole => &[Off::Receiver("low_water=0"), Off::Receiver("pool=0")],
            SwitchPath::Memory => &[Off::Receiver("pages_ahead=0"), Off::Receiver("streaming=1")],
        }
    }

    /// Packet sizes of the order that make a row here: whole heaps have none.
    fn packets(self, order: &SwitchOrder) -> Vec<usize> {
        let most = if self == SwitchPath::Packets { TCP_PACKET } else { usize::MAX };
        let mut sizes: Vec<usize> = order.packets.iter().map(|size| *size.min(&most)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        match self {
            SwitchPath::Whole => vec![0],
            _ => sizes,
        }
    }
}

/// What is switched off, or with `=1` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Off {
    /// Nothing.
    Nothing,
    /// A key of the sending URL.
    Sender(&'static str),
    /// A key of the receiving URL.
    Receiver(&'static str),
}

impl Off {
    /// The key, `-` for none.
    fn name(self) -> &'static str {
        match self {
            Off::Nothing => "-",
            Off::Sender(key) | Off::Receiver(key) => key,
        }
    }

    /// As in names of figures.
    fn key(self) -> String {
        match self {
            Off::Nothing => "all-on".to_owned(),
            Off::Sender(key) | Off::Receiver(key) => {
                let key = key.replace('_', "-");
                match key.strip_suffix("=1") {
                    Some(way) => format!("with-{way}"),
                    None => format!("without-{}", key.trim_end_matches("=0")),
                }
            }
        }
    }
}

/// A trial: rate and processor time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SwitchTrial {
    gbps: f64,
    /// Processor time of the sender, s for each 10⁹ SPEAD bytes.
    sender: Option<f64>,
    /// The same of the receiver.
    receiver: Option<f64>,
    /// Share of the heaps that did not come whole.
    loss: Option<f64>,
}

impl SwitchTrial {
    fn of(ran: &HeapsRan) -> SwitchTrial {
        let per_gb = |seconds: f64| seconds / (ran.bytes as f64 / 1e9).max(1e-9);
        let loss = ran.received.map(|n| 1.0 - n as f64 / ran.sent.max(1) as f64);
        // The receiver's time is for what came.
        let came = (1.0 - loss.unwrap_or(0.0)).max(1e-9);
        SwitchTrial {
            gbps: ran.gbps,
            sender: Some(per_gb(ran.sender_s)),
            receiver: ran.receiver_s.map(|seconds| per_gb(seconds) / came),
            loss,
        }
    }

    fn json(&self) -> Value {
        json!({"gbps": self.gbps, "sender_s_per_gb": self.sender, "receiver_s_per_gb": self.receiver, "heap_loss": self.loss})
    }

    /// What decides on this path, and is better if it is more: the rate, or bytes for a second of the receiver's time.
    fn good(&self, path: SwitchPath) -> Option<f64> {
        match path {
            SwitchPath::AtRate => self.receiver.map(|s| 1.0 / s.max(1e-9)),
            _ => Some(self.gbps),
        }
    }
}

/// Trials of a row, one for each turn.
struct SwitchRow {
    path: SwitchPath,
    packet: usize,
    off: Off,
    trials: Vec<SwitchTrial>,
}

impl SwitchRow {
    fn figure(&self, unit: &str, value: impl Fn(&SwitchTrial) -> Option<f64>) -> Option<Figure> {
        Figure::of(&self.trials.iter().filter_map(value).collect::<Vec<_>>(), unit)
    }

    /// What it has of the row with all on, in the same turn.
    fn share(&self, all_on: &SwitchRow) -> Option<Figure> {
        let pairs = self.trials.iter().zip(&all_on.trials);
        let shares = pairs.filter_map(|(a, b)| Some(a.good(self.path)? / b.good(self.path)?));
        Figure::of(&shares.collect::<Vec<_>>(), "")
    }
}

struct Trials<'a> {
    order: &'a SwitchOrder,
    runner: HeapsRunner<'a>,
}

impl Trials<'_> {
    fn once(&self, path: SwitchPath, packet: usize, off: Off) -> Result<SwitchTrial, LabError> {
        if path == SwitchPath::Memory {
            let copy = match off {
                Off::Nothing => PayloadCopy::PagesAhead,
                Off::Receiver("streaming=1") => PayloadCopy::Streaming,
                _ => PayloadCopy::AtOnce,
            };
            let gbps = memory::from_memory(packet, copy)?;
            return Ok(SwitchTrial { gbps, sender: None, receiver: None, loss: None });
        }
        let mut keys = [vec![], vec![]];
        let [to, from] = &mut keys;
        match path {
            SwitchPath::Whole => {
                [&mut *to, from].into_iter().for_each(|k| k.push("framing=heap".into()))
            }
            _ => to.push(format!("packet={packet}")),
        }
        if path == SwitchPath::AtRate {
            // A stop heap may be lost.
            from.push("stall_timeout=2s".to_owned());
        }
        match off {
            Off::Nothing => {}
            Off::Sender(key) => to.push(key.to_owned()),
            Off::Receiver(key) => from.push(key.to_owned()),
        }
        let [to, from] = keys.map(|keys| keys.join("&"));
        let run = HeapsRun {
            tcp: matches!(path, SwitchPath::Packets | SwitchPath::Whole),
            to,
            from: (path != SwitchPath::Unread).then_some(from),
            rate: (path == SwitchPath::AtRate).then_some(self.order.rate),
            seconds: self.order.seconds,
        };
        Ok(SwitchTrial::of(&self.runner.run(&run)?))
    }

    /// All rows of a packet size, by turns; who begins changes.
    fn rows(
        &self,
        path: SwitchPath,
        packet: usize,
        tell: Tell,
    ) -> Result<Vec<SwitchRow>, LabError> {
        let all = std::iter::once(Off::Nothing).chain(path.switches().iter().copied());
        let mut rows: Vec<SwitchRow> =
            all.map(|off| SwitchRow { path, packet, off, trials: vec![] }).collect();
        for turn in 0..self.order.repeats {
            for n in 0..rows.len() {
                if (self.runner.stop)() {
                    return Err(LabError::Failed(anyhow::anyhow!("stopped")));
                }
                let row = (n + turn) % rows.len();
                let off = rows[row].off;
                let trial = self.once(path, packet, off)?;
                let (name, off) = (path.name(), off.name());
                tell(&format!("{name}, {packet} B, {off}, turn {turn}: {}", trial.json()));
                rows[row].trials.push(trial);
            }
        }
        Ok(rows)
    }
}

/// Measures; the table in Markdown.
///
/// # Errors
/// A program that gives no result.
pub fn run(
    order: &SwitchOrder,
    record: &mut Record,
    (tell, stop): (Tell, Asked<'_>),
) -> Result<String, LabError> {
    let cores = match crate::cores::allowed().ok().as_deref() {
        Some([sender, receiver, ..]) => Some([*sender, *receiver]),
        _ => None,
    };
    record
        .parameter("repeats", order.repeats)
        .parameter("seconds", order.seconds)
        .parameter("rate_gbps", order.rate)
        .parameter("cores", json!(cores));
    let (ground, program) = (&SpeadGround::Loopback, &order.program);
    let runner = HeapsRunner { ground, program, cores, stop };
    let trials = Trials { order, runner };
    let mut text = "| path | packet B | switched | Gb/s | sender, s for 1 GB | receiver, s for 1 GB | heaps lost % | of all on |\n\
                    |:--|--:|:--|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for path in SwitchPath::ALL {
        for packet in path.packets(order) {
            let rows = trials.rows(path, packet, tell)?;
            for row in &rows {
                text += &line(row, &rows[0], record);
            }
        }
    }
    text += &format!(
        "\nMedians (least to most) of {} turns of {} s (memory: passes of 1 GiB); a share is that of the same turn: of the rate, and for UDP at a set rate ({} Gb/s) of \
         the bytes for one second of the receiver's processor time. Processor time is that of the whole program, its start included.\n",
        order.repeats, order.seconds, order.rate
    );
    if let Some([sender, receiver]) = cores {
        text += &format!("Senders run on core {sender}, receivers on core {receiver}.\n");
    }
    Ok(text)
}

/// A row of the table, and its figures.
fn line(row: &SwitchRow, all_on: &SwitchRow, record: &mut Record) -> String {
    let rate = row.figure("Gb/s", |t| Some(t.gbps));
    let share = (row.off != Off::Nothing).then(|| row.share(all_on)).flatten();
    let size = if row.packet == 0 { String::new() } else { format!("-{}", row.packet) };
    let key = format!("{}{size}-{}", row.path.key(), row.off.key());
    record.figure(&key, &rate);
    record.figure(&format!("{key}-share"), &share);
    record.row(json!({
        "path": row.path.key(), "packet_bytes": (row.packet > 0).then_some(row.packet), "switched_off": row.off.name(),
        "trials": row.trials.iter().map(SwitchTrial::json).collect::<Vec<_>>(),
    }));
    let packet = dash((row.packet > 0).then_some(row.packet), |bytes| bytes.to_string());
    let cells = [
        Figure::cell(rate, 2, 1.0),
        Figure::cell(row.figure("s", |t| t.sender), 3, 1.0),
        Figure::cell(row.figure("s", |t| t.receiver), 3, 1.0),
        Figure::cell(row.figure("", |t| t.loss), 2, 0.01),
        Figure::cell(share, 2, 1.0),
    ];
    format!("| {} | {packet} | {} | {} |\n", row.path.name(), row.off.name(), cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(path: SwitchPath, off: Off, trials: &[(f64, f64)]) -> SwitchRow {
        let trial = |&(gbps, receiver): &(f64, f64)| SwitchTrial {
            gbps,
            sender: Some(0.25),
            receiver: Some(receiver),
            loss: Some(0.01),
        };
        SwitchRow { path, packet: 8972, off, trials: trials.iter().map(trial).collect() }
    }

    #[test]
    fn a_share_is_of_the_rate_and_at_a_set_rate_of_the_receivers_time() {
        let trials = [(10.0, 0.2), (20.0, 0.4), (40.0, 0.8)];
        let half = [(5.0, 0.8), (10.0, 0.4), (10.0, 3.2)];
        for (path, share) in [(SwitchPath::Packets, 0.5), (SwitchPath::AtRate, 0.25)] {
            let off = Off::Receiver("low_water=0");
            let (all, off) = (row(path, Off::Nothing, &trials), row(path, off, &half));
            assert_eq!(off.share(&all).unwrap().value, share, "{path:?}");
        }
        let mut record = Record::new("x", String::new(), None, json!({})).unwrap();
        let (all, off) = (
            row(SwitchPath::Packets, Off::Nothing, &trials),
            row(SwitchPath::Packets, Off::Receiver("low_water=0"), &half),
        );
        let text = line(&off, &all, &mut record);
        let wanted = "| TCP, packets | 8972 | low_water=0 | 10.00 (5.00–10.00) | 0.250 (0.250–0.250) | 0.800 (0.400–3.200) | 1.00 (1.00–1.00) | 0.50 (0.25–0.50) |\n";
        assert_eq!(text, wanted);
        assert!(line(&all, &all, &mut record).ends_with("| – |\n"));
    }

    #[test]
    fn sizes_are_those_that_a_path_can_have() {
        let order = SwitchOrder {
            program: PathBuf::new(),
            packets: vec![1472, 65_483, 65_507],
            repeats: 1,
            seconds: 1.0,
            rate: 1.0,
        };
        assert_eq!(SwitchPath::Packets.packets(&order), [1472, 65_483]);
        assert_eq!(SwitchPath::Whole.packets(&order), [0]);
        assert_eq!(SwitchPath::Memory.packets(&order), order.packets);
        assert_eq!(SwitchPath::Unread.packets(&order), order.packets);
    }
}
