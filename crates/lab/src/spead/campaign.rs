//! The memo's experiments in one campaign: parts, peers, trials that are kept, text and figures.
//!
//! Refuses: unknown parts, no peer at all, links without root.

use fullcount_child::Asked as Stop;
use serde_json::{Value, json};

use super::kept::Kept;
use super::limits::{LimitHost, LimitNote, TrialSeries};
use super::lossless::capital;
use super::rights::{self, TrialRights};
use super::tables::{TABLES, table1};
use super::tools::SpeadPeer;
use super::trial::HeapTrial;
use super::{figures, memo, mro};
use crate::Tell;
use crate::error::{LabError, TrialError};
use crate::plot::Chart;
use crate::record::Record;
use crate::record::host::congestion_control;
use crate::record::results::Results;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoPart {
    /// Table 1: iperf.
    Table1,
    /// Table 2: light receiver.
    Table2,
    /// Table 3: loopback.
    Table3,
    /// Table 4: 1 Gb/s.
    Table4,
    /// Three streams of 10 Gb/s.
    Mro10,
    /// Four streams of 40 Gb/s.
    Mro40,
    /// Nine streams.
    Mro90,
    /// One to four senders.
    Scaling,
    /// Buffers and round trips.
    Buffers,
}

impl MemoPart {
    /// All, in the order of a run.
    pub const ALL: [MemoPart; 9] = [
        MemoPart::Table1,
        MemoPart::Table2,
        MemoPart::Table3,
        MemoPart::Table4,
        MemoPart::Mro10,
        MemoPart::Mro40,
        MemoPart::Scaling,
        MemoPart::Mro90,
        MemoPart::Buffers,
    ];

    /// As a person names it.
    pub const fn name(self) -> &'static str {
        match self {
            MemoPart::Table1 => "table1",
            MemoPart::Table2 => "table2",
            MemoPart::Table3 => "table3",
            MemoPart::Table4 => "table4",
            MemoPart::Mro10 => "mro10",
            MemoPart::Mro40 => "mro40",
            MemoPart::Mro90 => "mro90",
            MemoPart::Scaling => "scaling",
            MemoPart::Buffers => "buffers",
        }
    }

    /// True if it needs namespaces.
    pub fn needs_root(self) -> bool {
        !matches!(self, MemoPart::Table1 | MemoPart::Table2 | MemoPart::Table3)
    }
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoOrder {
    /// Parts.
    pub parts: Vec<MemoPart>,
    /// Runs of each cell of a table.
    pub repeats: usize,
    /// Runs of each point on links.
    pub link_repeats: usize,
    /// Payload of a heap, bytes.
    pub heap_bytes: u64,
    /// Heaps of a run of tables 2 and 3; table 4 has a tenth.
    pub table_heaps: u64,
    /// Heaps of each stream on links.
    pub heaps: u64,
    /// Links and rates are the memo's times this.
    pub scale: f64,
    /// Rate of the emulated link, Gb/s.
    pub emulated_gbps: f64,
    /// Length of a run of iperf3, s.
    pub iperf_seconds: u64,
    /// At most so many points of each scan; 0: all.
    pub points: usize,
    /// Namespaces may be made.
    pub namespaces: bool,
}

impl MemoOrder {
    /// With the memo's own amounts in place of those that suit any host.
    #[must_use]
    pub fn of_the_memo(self) -> MemoOrder {
        MemoOrder {
            heaps: memo::HEAPS,
            scale: 1.0,
            link_repeats: memo::RUNS,
            heap_bytes: memo::HEAP,
            iperf_seconds: memo::IPERF_SECONDS,
            ..self
        }
    }

    /// First, last and some between them, if fewer are asked for.
    pub fn few(&self, all: &[f64]) -> Vec<f64> {
        match self.points {
            0 => all.to_vec(),
            n if n >= all.len() => all.to_vec(),
            1 => all[all.len() / 2..][..1].to_vec(),
            n => (0..n).map(|i| all[i * (all.len() - 1) / (n - 1)]).collect(),
        }
    }

    /// The largest socket buffers that these parts ask for, bytes; `None`: table 1 asks for none.
    fn most_buffer(&self) -> Option<u64> {
        let of = |part: &MemoPart| match part {
            MemoPart::Table1 => None,
            MemoPart::Mro10 | MemoPart::Mro40 | MemoPart::Mro90 | MemoPart::Scaling => {
                Some(memo::LINK_BUFFER)
            }
            _ => Some(memo::TABLE_BUFFER),
        };
        self.parts.iter().filter_map(of).max()
    }

    fn plan(&self, peers: &[SpeadPeer]) -> Value {
        json!({
            "repeats": self.repeats, "link_repeats": self.link_repeats, "heap_bytes": self.heap_bytes,
            "table_heaps": self.table_heaps, "heaps": self.heaps, "scale": self.scale,
            "emulated_gbps": self.emulated_gbps, "iperf_seconds": self.iperf_seconds, "points": self.points,
            "peers": peers.iter().map(SpeadPeer::name).collect::<Vec<_>>(), "packet": memo::PACKET,
            "table_buffer": memo::TABLE_BUFFER, "link_buffer": memo::LINK_BUFFER,
            "net_admin": TrialRights::here().name(),
        })
    }
}

/// A campaign under way.
pub(super) struct Campaign<'a> {
    pub asked: &'a MemoOrder,
    pub peers: Vec<SpeadPeer>,
    pub stop: Stop<'a>,
    kept: Kept,
    note: LimitNote,
    tell: Tell,
}

impl Campaign<'_> {
    /// A trial that was done, or is now, and its line of the results file, which says what its limit was.
    pub fn trial(
        &mut self,
        key: &str,
        series: TrialSeries,
        measure: impl FnOnce() -> Result<HeapTrial, TrialError>,
    ) -> Result<(HeapTrial, Value), LabError> {
        let value = self.kept(key, || {
            let trial = measure().map_err(|e| LabError::Failed(anyhow::anyhow!("{key}: {e}")))?;
            Ok(trial.json())
        })?;
        let trial = HeapTrial::of(&value).ok_or_else(|| {
            LabError::Failed(anyhow::anyhow!("{key}: a damaged line of an earlier run"))
        })?;
        let mut line = trial.json();
        line["limit"] = json!(self.note.add(series, &trial).name());
        Ok((trial, line))
    }

    /// The same of any result.
    pub fn kept(
        &mut self,
        key: &str,
        measure: impl FnOnce() -> Result<Value, LabError>,
    ) -> Result<Value, LabError> {
        let tell = self.tell;
        self.kept.or_measure(key, || {
            let value = measure()?;
            tell(&format!("{key}: {value}"));
            Ok(value)
        })
    }
}

/// What came of it.
#[derive(Debug)]
pub struct MemoFound {
    /// Tables in Markdown.
    pub text: String,
    /// Figures, to be written.
    pub figures: Vec<Chart>,
}

/// Runs the parts.
///
/// # Errors
/// What cannot be measured, in one sentence; trials that are done are kept for `--resume`.
pub fn run(
    asked: &MemoOrder,
    peers: &[SpeadPeer],
    (results, resume): (&Results, bool),
    record: &mut Record,
    (tell, stop): (Tell, Stop<'_>),
) -> Result<MemoFound, LabError> {
    let plan = asked.plan(peers);
    let name = record.name().to_owned();
    record.parameter("plan", plan.clone());
    let names: Vec<&str> = asked.parts.iter().map(|part| part.name()).collect();
    record.parameter("parts", json!(names));
    record.parameter("tcp_congestion_control", congestion_control());
    let kept = Kept::open(&results.folder, &name, &plan, resume)?;
    let note = LimitNote::new(LimitHost::measured());
    let mut campaign = Campaign { asked, peers: peers.to_vec(), stop, kept, note, tell };
    let (mut text, mut all) = (String::new(), Vec::new());
    for part in &asked.parts {
        let c = &mut campaign;
        match part {
            MemoPart::Table1 => text += &table1(c, record)?,
            MemoPart::Table2 => text += &TABLES[0].run(c, record)?,
            MemoPart::Table3 => text += &TABLES[1].run(c, record)?,
            MemoPart::Table4 => text += &TABLES[2].run(c, record)?,
            MemoPart::Mro10 | MemoPart::Mro40 | MemoPart::Mro90 => {
                let preset = mro::PRESETS.iter().find(|p| p.name == part.name());
                let Some(preset) = preset else { continue };
                let points = preset.run(c, record)?;
                text += &preset.text(&points, asked.scale);
                all.extend(figures::preset(&name, preset, &points));
            }
            MemoPart::Scaling => {
                let points = mro::scaling(c, record)?;
                text += &mro::scaling_text(&points);
                all.extend(figures::scaling(&name, &points));
            }
            MemoPart::Buffers => {
                let points = mro::buffers(c, record)?;
                text += &mro::buffers_text(&points, asked.emulated_gbps);
                all.extend(figures::buffers(&name, &points));
            }
        }
    }
    let granted = rights::granted();
    record.parameter("granted_bytes", granted);
    let note =
        asked.most_buffer().and_then(|most| rights::note(most, granted, TrialRights::here()));
    if let Some(note) = note {
        tell(&note);
        text += &format!("\n{}.\n", capital(&note));
    }
    text += &campaign.note.text();
    record.parameter("bottleneck", campaign.note.json());
    campaign.kept.finish();
    Ok(MemoFound { text, figures: all })
}
