//! `fullcount inspect`: decodes a capture or a live port readout by readout, as tcpdump does for packets.

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
    /// Detector: sonde or sequence
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
    /// One JSON object a line for each packet
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fullcount inspect pcap:run42.pcapng --detector sonde --count 3
  fullcount inspect pcap:run42.pcapng --errors --hex
  fullcount inspect udp://0.0.0.0:9000 --json | jq .rows";

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
    let mut inspector = configure(&config)?.inspector();
    let plan = SourcePlan::new(&config.source)?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let mut source = plan.open(None).map_err(anyhow::Error::from)?.source;
    for fact in source.describe() {
        note!("{fact}");
    }
    match print_all(&flags, &mut *inspector, &mut *source, &stop) {
        // The reader of a pipe has seen enough (`| head`).
        Err(e) if e.downcast_ref::<io::Error>().is_some_and(is_closed_pipe) => Ok(0),
        outcome => outcome.map(|()| 0).map_err(Failure::Failed),
    }
}

fn is_closed_pipe(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::BrokenPipe
}

/// A capture is for looking at, not for replaying: no pauses unless a speed was asked for.
fn flat_out(url: &str) -> String {
    let capture = url.starts_with("pcap:");
    if !capture || url.contains("speed=") || url.contains("flat-out") {
        return url.to_owned();
    }
    format!("{url}{}flat-out", if url.contains('?') { "&" } else { "?" })
}

fn print_all(
    flags: &Flags,
    inspector: &mut dyn Inspector,
    source: &mut dyn Source,
    stop: &Stop,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut batch = source.batch();
    let (mut number, mut refused, mut readouts) = (0u64, 0u64, 0u64);
    while !stop.requested() && number < flags.count.unwrap_or(u64::MAX) {
        match source.recv(&mut batch, Duration::from_millis(100))? {
            Received::End => break,
            // Live traffic is shown as it comes.
            Received::Idle => out.flush()?,
            Received::Data => {
                for train in batch.trains() {
                    for chunk in train.chunks() {
                        if number == flags.count.unwrap_or(u64::MAX) {
                            break;
                        }
                        number += 1;
                        let seen = inspector.inspect(chunk, train.origin);
                        refused += u64::from(seen.error.is_some());
                        readouts += seen.rows.len() as u64;
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
    let (n, r) = (grouped(number), grouped(readouts));
    note!("{n} packets, {} refused, {r} readouts", grouped(refused));
    Ok(())
}

fn as_text(
    out: &mut impl Write,
    number: u64,
    train: &Train<'_>,
    chunk: &[u8],
    seen: &Inspected,
    flags: &Flags,
) -> io::Result<()> {
    let (s, ns) =
        (train.time_ns.div_euclid(1_000_000_000), train.time_ns.rem_euclid(1_000_000_000));
    write!(out, "#{number}  {s}.{ns:09} s  {}  {} B", train.origin, chunk.len())?;
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
        let head: Vec<String> = seen.columns.iter().map(|c| format!("{c:>12}")).collect();
        writeln!(out, "    {}", head.join(""))?;
    }
    for row in &seen.rows[..shown] {
        let cells: Vec<String> = row.iter().map(|v| format!("{v:>12}")).collect();
        writeln!(out, "    {}", cells.join(""))?;
    }
    if shown < seen.rows.len() && shown > 0 {
        writeln!(out, "    … {} more", seen.rows.len() - shown)?;
    }
    Ok(())
}

fn as_json(number: u64, train: &Train<'_>, chunk: &[u8], seen: &Inspected, flags: &Flags) -> Value {
    let header: Map<String, Value> =
        seen.header.iter().map(|(k, v)| ((*k).to_owned(), number_or_text(v))).collect();
    let shown = flags.rows.unwrap_or(usize::MAX).min(seen.rows.len());
    let mut o = json!({
        "packet": number,
        "time_ns": train.time_ns,
        "origin": train.origin.to_string(),
        "bytes": chunk.len(),
        "result": if seen.error.is_some() { "error" } else { "ok" },
        "header": header,
        "columns": seen.columns,
        "rows": &seen.rows[..shown],
    });
    if let Some((class, reason)) = seen.error {
        o["error"] = json!(class);
        o["reason"] = json!(reason);
    }
    if flags.hex {
        o["hex"] = chunk.iter().map(|b| format!("{b:02x}")).collect::<String>().into();
    }
    o
}

fn number_or_text(value: &str) -> Value {
    value.parse::<i64>().map_or_else(|_| json!(value), |n| json!(n))
}
