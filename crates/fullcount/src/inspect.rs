//! `fullcount inspect`: decodes a capture or a live port readout by readout, as tcpdump does for packets.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use fullcount_core::batch::Train;
use fullcount_detect::detector::{Inspected, Inspector};
use fullcount_engine::open::SourcePlan;
use fullcount_engine::run::configure;
use fullcount_engine::stop::Stop;
use fullcount_engine::summary::grouped;
use fullcount_io::source::{Received, Source};
use serde_json::{Map, Value, json};

use crate::exit::Failure;
use crate::flags::Overlay;
use crate::note;

/// Decodes a capture or a live port readout by readout.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// Endpoint, e.g. pcap:run42.pcapng or udp://0.0.0.0:9000; a capture is read flat out
    url: String,
    /// Detector: sonde, multigrid, multiblade, gdgem or sequence
    #[arg(long, value_name = "KIND", default_value = "sonde")]
    detector: String,
    /// Geometry file of the detector
    #[arg(long, value_name = "FILE")]
    geometry: Option<PathBuf>,
    /// Any key of the configuration, e.g. detector.verify=true; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Stop after this many packets
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Show at most this many readouts of a packet; 0: headers only
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Show the bytes as well
    #[arg(long)]
    hex: bool,
    /// Only packets that are refused
    #[arg(long)]
    errors: bool,
    /// One JSON object a line for each packet, and one with the sums at the end
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fullcount inspect pcap:run42.pcapng --detector sonde --count 3
  fullcount inspect pcap:run42.pcapng --errors --hex
  fullcount inspect udp://0.0.0.0:9000 --json | jq -c '.rows // empty'";

/// Prints until the capture ends, the count is reached or Ctrl-C.
pub fn inspect(flags: Flags) -> Result<u8, Failure> {
    let mut o = Overlay::default();
    let path = |p: &PathBuf| p.display().to_string();
    o.put("source.url", Some(flat_out(&flags.url)))
        .put("detector.kind", Some(flags.detector.clone()))
        .put("detector.geometry", flags.geometry.as_ref().map(path));
    o.put("source.timestamps", Some(true));
    o.set(&flags.set)?;
    let config = o.read(None)?;
    let detector = configure(&config)?;
    let mut inspector = detector.inspector();
    let mut plan = SourcePlan::new(&config.source)?;
    plan.is_there()?;
    plan.for_detector(&*detector);
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let mut source = plan.open_as_one(None).map_err(anyhow::Error::from)?.source;
    for fact in source.describe() {
        note!("{fact}");
    }
    let mut sums = Sums::default();
    let mut outcome = print_all(&flags, &mut *inspector, &mut *source, &stop, &mut sums);
    note!("{}", sums.to_text());
    if flags.json && outcome.is_ok() {
        let mut out = io::stdout().lock();
        outcome =
            writeln!(out, "{}", sums.to_json()).and_then(|()| out.flush()).map_err(Into::into);
    }
    match outcome {
        // The reader of a pipe has seen enough (`| head`).
        Err(e) if e.downcast_ref::<io::Error>().is_some_and(is_closed_pipe) => Ok(0),
        outcome => outcome.map(|()| 0).map_err(Failure::Failed),
    }
}

/// What was seen, shown or not.
#[derive(Debug, Default)]
struct Sums {
    packets: u64,
    bytes: u64,
    readouts: u64,
    /// By the name of the counter that `run` has for it.
    refused: BTreeMap<String, u64>,
}

impl Sums {
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

    fn to_text(&self) -> String {
        let (n, r) = (grouped(self.packets), grouped(self.readouts));
        format!("{n} packets, {} refused, {r} readouts", grouped(self.rejected()))
    }

    fn to_json(&self) -> Value {
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

fn is_closed_pipe(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::BrokenPipe
}

/// A capture is for looking at, not for replaying: no pauses unless a speed was asked for.
fn flat_out(url: &str) -> String {
    let capture = url.starts_with("pcap:");
    if !capture {
        return url.to_owned();
    }
    let more = |url: String, key| {
        let sign = if url.contains('?') { '&' } else { '?' };
        format!("{url}{sign}{key}")
    };
    // A train has one time; here each packet is shown with its own.
    let url = match url.contains("exact-times") {
        true => url.to_owned(),
        false => more(url.to_owned(), "exact-times"),
    };
    if url.contains("speed=") || url.contains("flat-out") { url } else { more(url, "flat-out") }
}

fn print_all(
    flags: &Flags,
    inspector: &mut dyn Inspector,
    source: &mut dyn Source,
    stop: &Stop,
    sums: &mut Sums,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut batch = source.batch();
    let most = flags.count.unwrap_or(u64::MAX);
    while !stop.requested() && sums.packets < most {
        match source.recv(&mut batch, Duration::from_millis(100))? {
            Received::End => break,
            // Live traffic is shown as it comes.
            Received::Idle => out.flush()?,
            Received::Data => {
                for train in batch.trains() {
                    for chunk in train.chunks() {
                        if sums.packets == most {
                            break;
                        }
                        let seen = inspector.inspect(chunk, train.origin);
                        sums.add(chunk, &seen);
                        let number = sums.packets;
                        if flags.errors && seen.error.is_none() {
                            continue;
                        }
                        if flags.json {
                            writeln!(out, "{}", as_json(number, &train, chunk, &seen, flags))?;
                        } else {
                            as_text(&mut out, number, &train, chunk, &seen, flags)?;
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
    flags: &Flags,
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
    if flags.hex {
        for (i, line) in chunk.chunks(16).enumerate() {
            let hex: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
            writeln!(out, "    {:04x}  {}", i * 16, hex.join(" "))?;
        }
    }
    let shown = flags.rows.unwrap_or(usize::MAX).min(seen.rows.len());
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

fn as_json(number: u64, train: &Train<'_>, chunk: &[u8], seen: &Inspected, flags: &Flags) -> Value {
    let header: Map<String, Value> =
        seen.header.iter().map(|(k, v)| ((*k).to_owned(), number_or_text(v))).collect();
    let shown = flags.rows.unwrap_or(usize::MAX).min(seen.rows.len());
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
    if flags.hex {
        o["hex"] = chunk.iter().map(|b| format!("{b:02x}")).collect::<String>().into();
    }
    o
}

fn number_or_text(value: &str) -> Value {
    value.parse::<i64>().map_or_else(|_| json!(value), |n| json!(n))
}
