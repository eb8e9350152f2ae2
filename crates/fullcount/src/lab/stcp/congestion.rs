//! `fullcount lab stcp congestion`: a simulation, in which nothing is sent.
//!
//! Refuses, before anything runs: unknown parts and variants, numbers out of range, results that are there.

use std::path::PathBuf;

use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_io::quantity;
use fullcount_lab::stcp::cell::ScanCell;
use fullcount_lab::stcp::congestion::{self, ScanOptions, ScanPart};
use fullcount_lab::stcp::variant::Variant;
use fullcount_lab::stcp::watch::WatchFiles;

use super::super::read::{read, whole_bits};
use super::super::results::ResultFlags;
use super::frames::FramesFlags;
use crate::exit::Failure;
use crate::{note, say};

/// Several senders into one port with a finite queue, simulated: the same seed gives the same segments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CongestionFlags {
    /// Parts, with commas: reference (the paper's experiment, with figures), scan (72 networks), times
    /// (retransmission times of 1 to 200 ms, 48 networks), merge (4 × 10 Gb/s into 40 Gb/s), detector
    /// (600 sources at 100 kHz)
    #[arg(long, value_name = "PARTS", value_delimiter = ',', default_value = "reference")]
    parts: Vec<String>,
    /// Senders of the reference, with commas: none, none-fast, backoff, first, simplified, figure6,
    /// reno, static=BYTES, capped=BYTES
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "none,figure6,simplified,static=200000,reno"
    )]
    variants: Vec<String>,
    /// Sender of the other parts
    #[arg(long, value_name = "NAME", default_value = "simplified")]
    scanned: String,
    /// Length of each of the reference's three parts: before, with and after the fifth sender
    #[arg(long, value_name = "TIME", default_value = "10s")]
    part_time: String,
    /// The same of each network of scan and times, there at least ten retransmission times
    #[arg(long, value_name = "TIME", default_value = "1s")]
    scan_time: String,
    /// Time of merge and detector
    #[arg(long, value_name = "TIME", default_value = "1s")]
    layout_time: String,
    /// Sources of detector, four to a port
    #[arg(long, value_name = "N", default_value_t = 600)]
    sources: usize,
    /// Senders of the reference; the last one is there for the middle part
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Network of the reference")]
    senders: usize,
    /// Fragments a second of each source, 2048 B each
    #[arg(
        long,
        value_name = "N",
        default_value_t = 125_000,
        help_heading = "Network of the reference"
    )]
    fragments: u64,
    /// Rate of the senders' links
    #[arg(
        long,
        value_name = "RATE",
        default_value = "5Gbps",
        help_heading = "Network of the reference"
    )]
    emit: String,
    /// Rate of the port
    #[arg(
        long,
        value_name = "RATE",
        default_value = "10Gbps",
        help_heading = "Network of the reference"
    )]
    port: String,
    /// Queue of the port
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1MB",
        help_heading = "Network of the reference"
    )]
    queue: String,
    /// Window of each receiver
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "4MiB",
        help_heading = "Network of the reference"
    )]
    window: String,
    /// Least, or fixed, retransmission time
    #[arg(
        long,
        value_name = "TIME",
        default_value = "2ms",
        help_heading = "Network of the reference"
    )]
    rto: String,
    /// Decides everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Networks that are simulated at a time [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    #[command(flatten)]
    frames: FramesFlags,
    /// What the first sender was told and what it sent, in the first network of the reference, or of the
    /// first part without it, goes to this new file as test vectors (docs/stcp.md)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Size of that file at most; what comes after is left out
    #[arg(long, value_name = "SIZE", default_value = "1GB")]
    trace_limit: String,
    #[command(flatten)]
    result: ResultFlags,
}

const EXAMPLES: &str = "\
The senders are those of this program; network and receivers are simulated. Exit code 1: what
docs/stcp-congestion.md says must be reached was not.

Examples:
  fullcount lab stcp congestion                              (figures 5 and 6, about 20 s)
  fullcount lab stcp congestion --parts reference,scan,times,merge,detector
  fullcount lab stcp congestion --variants none,static=80000 --queue 4MB --part-time 2s
  fullcount lab stcp congestion --variants simplified --frames-to a.pcap --trace a.txt
  fullcount lab stcp congestion --parts scan --scanned none --scan-time 300ms --json";

fn time(key: &'static str, text: &str) -> Result<u64, Failure> {
    let time = read(key, text, quantity::duration)?;
    match u64::try_from(time.as_nanos()) {
        Ok(ns) if (10_000_000..=3_600_000_000_000).contains(&ns) => Ok(ns),
        _ => Err(refuse(key, text, "10ms to 1h").into()),
    }
}

pub fn variant(key: &'static str, text: &str) -> Result<Variant, Failure> {
    let known =
        "none, none-fast, backoff, first, simplified, figure6, reno, static=BYTES or capped=BYTES";
    Variant::named(text).ok_or_else(|| refuse(key, text, known).into())
}

impl CongestionFlags {
    fn watch(&self) -> Result<WatchFiles, Failure> {
        let limit = read("trace-limit", &self.trace_limit, quantity::size)?;
        let trace = self.trace.clone().map(|path| (path, limit));
        Ok(WatchFiles { frames: self.frames.read()?, trace })
    }

    fn asked(&self) -> Result<ScanOptions, Failure> {
        let part = |text: &String| {
            let known = "reference, scan, times, merge or detector";
            let found = ScanPart::ALL.into_iter().find(|p| p.name() == text);
            found.ok_or_else(|| Failure::from(refuse("parts", text, known)))
        };
        if !(4..=4000).contains(&self.sources) || !self.sources.is_multiple_of(4) {
            return Err(refuse("sources", self.sources, "4 to 4000, a multiple of 4").into());
        }
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.unwrap_or(cpus);
        if !(1..=1024).contains(&threads) {
            return Err(refuse("threads", threads, "1 to 1024").into());
        }
        let part_ns = time("part-time", &self.part_time)?;
        let window = read("window", &self.window, quantity::size)?;
        let rto = read("rto", &self.rto, quantity::duration)?.as_micros();
        let cell = ScanCell {
            senders: self.senders,
            rate_hz: self.fragments,
            emit_bps: whole_bits("emit", &self.emit)?,
            port_bps: whole_bits("port", &self.port)?,
            queue_bytes: read("queue", &self.queue, quantity::size)?,
            window_bytes: u32::try_from(window).unwrap_or(u32::MAX),
            rto_us: u32::try_from(rto).unwrap_or(u32::MAX),
            seed: self.seed,
            ..ScanCell::reference(Variant::Simplified, part_ns)
        };
        cell.check().map_err(|e| Failure::Wrong(e.to_string()))?;
        Ok(ScanOptions {
            parts: self.parts.iter().map(part).collect::<Result<_, _>>()?,
            variants: self
                .variants
                .iter()
                .map(|v| variant("variants", v))
                .collect::<Result<_, _>>()?,
            scanned: variant("scanned", &self.scanned)?,
            cell,
            scan_ns: time("scan-time", &self.scan_time)?,
            layout_ns: time("layout-time", &self.layout_time)?,
            sources: self.sources,
            threads,
            watch: self.watch()?,
        })
    }
}

/// Runs it.
pub fn congestion(flags: &CongestionFlags) -> Result<u8, Failure> {
    let asked = flags.asked()?;
    let results = flags.result.results();
    let mut record = flags.result.begin("stcp-congestion")?;
    let found = congestion::congestion(&asked, &mut record, say::line)?;
    flags.result.computed(&record, "Congestion of the simplified TCP", &found.text)?;
    for figure in &found.figures {
        let written = figure.write(&results.folder, results.overwrite);
        let [svg, png] = written.map_err(anyhow::Error::from)?;
        note!("written to {} and {}", svg.display(), png.display());
    }
    Ok(if found.missed.is_empty() { 0 } else { 1 })
}
