//! What `inspect` shows: packets decoded one by one, for people or as JSON, and their sums.
//!
//! Source: `docs/architecture.md`, "What a person does with it".

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use fullcount_core::batch::Train;
use fullcount_core::source::SourceError;
use fullcount_detect::detector::{Inspected, Inspector};
use fullcount_io::source::{Received, Source};
use serde_json::{Map, Value, json};

use crate::stop::Stop;
use crate::summary::grouped;

/// Why nothing more is shown.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The source failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// What is shown cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// How much is shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Showing {
    /// Packets at most.
    pub count: Option<u64>,
    /// Readouts of a packet at most; 0: headers only.
    pub rows: Option<usize>,
    /// The bytes as well.
    pub hex: bool,
    /// Only packets that are refused.
    pub errors: bool,
    /// One JSON object a line.
    pub json: bool,
}

/// What was seen, shown or not.
#[derive(Debug, Default)]
pub struct PacketSums {
    packets: u64,
    bytes: u64,
    readouts: u64,
    /// By the name of the counter that `run` has for it.
    refused: BTreeMap<String, u64>,
}

impl PacketSums {
    fn add(&mut self, chunk: &[u8], seen: &Inspected) {
        self.packets += 1;
        self.bytes += chunk.len() as u64;
        self.readouts += seen.rows.len() as u64;
        if let Some((class, reason)) = seen.error {
            *self.refused.entry(format!("errors.{class}.{reason}")).or_default() += 1;
        }
    }

    fn rejected(&self) -> u64 {
        self.refused.values().sum()
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let (n, r) = (grouped(self.packets), grouped(self.readouts));
        format!("{n} packets, {} refused, {r} readouts", grouped(self.rejected()))
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "schema": "fullcount/inspect/1",
            "verb": "inspect",
            "packets": {
                "received": self.packets,
                "accepted": self.packets - self.rejected(),
                "rejected": self.refused,
            },
            "bytes": {"received": self.bytes},
            "readouts": self.readouts,
        })
    }
}

/// Shows packets until the source ends, the count is reached or the end is asked for.
///
/// # Errors
/// The source fails, or what is shown cannot be written.
pub fn show(
    showing: &Showing,
    inspector: &mut dyn Inspector,
    source: &mut dyn Source,
    stop: &Stop,
    out: &mut impl Write,
    sums: &mut PacketSums,
) -> Result<(), InspectError> {
    let mut batch = source.batch();
    let most = showing.count.unwrap_or(u64::MAX);
    while !stop.requested() && sums.packets < most {
        match source.recv(&mut batch, Duration::from_millis(100))? {
            Received::End => break,
            // Live traffic is shown as it comes.
            Received::Idle | Received::Flush(_) => out.flush()?,
            Received::Data => {
                for train in batch.trains() {
                    for chunk in train.chunks() {
                        if sums.packets == most {
                            break;
                        }
                        let seen = inspector.inspect(chunk, train.origin);
                        sums.add(chunk, &seen);
                        let number = sums.packets;
                        if showing.errors && seen.error.is_none() {
                            continue;
                        }
                        if showing.json {
                            writeln!(out, "{}", as_json(number, &train, chunk, &seen, showing))?;
                        } else {
                            as_text(out, number, &train, chunk, &seen, showing)?;
                        }
                    }
                }
            }
        }
    }
    out.flush()?;
    Ok(())
}

/// Time of arrival, ns since 1970: the kernel's, or the recorded one; unknown with `engine=plain`.
fn arrival(train: &Train<'_>) -> Option<i64> {
    (train.time_ns != 0).then_some(train.time_ns)
}

fn as_text(
    out: &mut impl Write,
    number: u64,
    train: &Train<'_>,
    chunk: &[u8],
    seen: &Inspected,
    showing: &Showing,
) -> io::Result<()> {
    write!(out, "#{number}  ")?;
    match arrival(train) {
        Some(t) => {
            write!(out, "{}.{:09} s", t.div_euclid(1_000_000_000), t.rem_euclid(1_000_000_000))?;
        }
        None => write!(out, "no time")?,
    }
    write!(out, "  {}  {} B", train.origin, chunk.len())?;
    for (name, value) in &seen.header {
        write!(out, "  {name}={value}")?;
    }
    writeln!(out)?;
    if let Some((class, reason)) = seen.error {
        writeln!(out, "    refused: {class} ({reason})")?;
    }
    if showing.hex {
        for (i, line) in chunk.chunks(16).enumerate() {
            let hex: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
            writeln!(out, "    {:04x}  {}", i * 16, hex.join(" "))?;
        }
    }
    let shown = showing.rows.unwrap_or(usize::MAX).min(seen.rows.len());
    if shown > 0 {
        readouts(out, seen, shown)?;
    }
    if shown < seen.rows.len() && shown > 0 {
        writeln!(out, "    … {} more", seen.rows.len() - shown)?;
    }
    Ok(())
}

/// Least width of a column.
const WIDTH: usize = 12;

/// Headings and the first `shown` readouts, each behind the space that its column needs in all of them.
fn readouts(out: &mut impl Write, seen: &Inspected, shown: usize) -> io::Result<()> {
    let rows = &seen.rows[..shown];
    let cells = |row: &[i64]| row.iter().map(i64::to_string).collect::<Vec<_>>();
    let rows: Vec<_> = rows.iter().map(|row| cells(row)).collect();
    let head: Vec<_> = seen.columns.iter().map(|c| (*c).to_owned()).collect();
    let widest = |at: usize| {
        let cells = [&head].into_iter().chain(&rows).filter_map(|row| row.get(at));
        cells.map(|cell| cell.len() + 2).max().unwrap_or(0).max(WIDTH)
    };
    let widths: Vec<usize> = (0..head.len()).map(widest).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        padded.collect::<String>()
    };
    writeln!(out, "    {}", line(&head))?;
    let mut refused = seen.refused.iter().peekable();
    for (at, row) in rows.iter().enumerate() {
        match refused.next_if(|(row, _)| *row == at) {
            Some((_, counter)) => writeln!(out, "    {}  refused: {counter}", line(row))?,
            None => writeln!(out, "    {}", line(row))?,
        }
    }
    Ok(())
}

fn as_json(
    number: u64,
    train: &Train<'_>,
    chunk: &[u8],
    seen: &Inspected,
    showing: &Showing,
) -> Value {
    let header: Map<String, Value> =
        seen.header.iter().map(|(k, v)| ((*k).to_owned(), number_or_text(v))).collect();
    let shown = showing.rows.unwrap_or(usize::MAX).min(seen.rows.len());
    let mut o = json!({
        "packet": number,
        "origin": train.origin.to_string(),
        "bytes": chunk.len(),
        "result": if seen.error.is_some() { "error" } else { "ok" },
        "header": header,
        "columns": seen.columns,
        "rows": &seen.rows[..shown],
    });
    if let Some(time) = arrival(train) {
        o["time_ns"] = json!(time);
    }
    if let Some((class, reason)) = seen.error {
        o["error"] = json!(class);
        o["reason"] = json!(reason);
    }
    let refused = seen.refused.iter().filter(|(row, _)| *row < shown);
    let refused: Vec<Value> =
        refused.map(|(row, counter)| json!({"row": row, "counter": counter})).collect();
    if !refused.is_empty() {
        o["refused"] = refused.into();
    }
    if showing.hex {
        o["hex"] = chunk.iter().map(|b| format!("{b:02x}")).collect::<String>().into();
    }
    o
}

fn number_or_text(value: &str) -> Value {
    value.parse::<i64>().map_or_else(|_| json!(value), |n| json!(n))
}
