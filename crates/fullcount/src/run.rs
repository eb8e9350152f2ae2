//! `fullcount run`: the service.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::Config;
use fullcount_engine::run::{Plan, Running};
use fullcount_engine::stop::Stop;

use crate::exit::Failure;
use crate::flags::{EngineFlags, LayFlags as _, Overlay, SourceFlags, WebFlags, endpoints};
use crate::status_line::StatusLine;
use crate::{note, say, tell};

/// The service: source → detector → outputs, with live page, metrics and ledger.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// Configuration file; flags and --set win over it
    config: Option<PathBuf>,
    /// Endpoint, e.g. udp://0.0.0.0:9000, xdp://eth0:9000, packet://eth0:9000 or
    /// pcap:run42.pcapng?flat-out [default: udp://127.0.0.1:9000]
    /// May be repeated; udp://HOST:FIRST-LAST stands for one endpoint a port
    #[arg(long, value_name = "URL", help_heading = "Source")]
    source: Vec<String>,
    #[command(flatten)]
    source_flags: SourceFlags,
    /// Detector: sonde, multigrid, multiblade, gdgem or sequence [default: sonde]
    #[arg(long, value_name = "KIND", help_heading = "Detector")]
    detector: Option<String>,
    /// Geometry file of the detector
    #[arg(long, value_name = "FILE", help_heading = "Detector")]
    geometry: Option<PathBuf>,
    /// Pulses: none, grid(14Hz), grid(71428571ns, 5ms) [default: none]
    #[arg(long, value_name = "PULSE", help_heading = "Detector")]
    pulse: Option<String>,
    /// Time of tick 0: 2026-01-31T12:00:00Z, or ns since 1970 [default: 1970]
    #[arg(long, value_name = "TIME", help_heading = "Detector")]
    epoch: Option<String>,
    /// Tick length for formats that do not state one, e.g. 1ns or 125/2ns
    #[arg(long, value_name = "LENGTH", help_heading = "Detector")]
    tick: Option<String>,
    /// Write events to this NeXus file
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    nexus: Option<PathBuf>,
    /// Write hits to this table: .h5, .hdf5 or .parquet
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    hits: Option<PathBuf>,
    /// Write clusters of planes and of detectors to these tables: .h5, .hdf5 or .parquet
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    clusters: Option<PathBuf>,
    /// Replace the files that flags name if they exist; without such flags, the NeXus file
    #[arg(long, help_heading = "Outputs")]
    overwrite: bool,
    /// Compression of the NeXus file: none, gzip or gzip:1 to gzip:9 [default: none]
    #[arg(long, value_name = "HOW", help_heading = "Outputs")]
    compression: Option<String>,
    /// Title of the NeXus file [default: Fullcount run]
    #[arg(long, value_name = "TEXT", help_heading = "Outputs")]
    title: Option<String>,
    /// Number of the run, for the NeXus file
    #[arg(long, value_name = "N", help_heading = "Outputs")]
    run_number: Option<u32>,
    /// Proposal that the run belongs to, for the NeXus file
    #[arg(long, value_name = "ID", help_heading = "Outputs")]
    proposal: Option<String>,
    /// Name of a user, for the NeXus file; may be repeated
    #[arg(long, value_name = "NAME", help_heading = "Outputs")]
    user: Vec<String>,
    /// Name of the sample, for the NeXus file
    #[arg(long, value_name = "NAME", help_heading = "Outputs")]
    sample: Option<String>,
    /// Capture all packets received into this pcapng file, with kernel times
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    capture: Option<PathBuf>,
    /// Begin a new capture file before one would be larger than this, e.g. 1GiB
    #[arg(long, value_name = "SIZE", help_heading = "Outputs")]
    rotate_size: Option<String>,
    /// Begin a new capture file after this time, e.g. 10min
    #[arg(long, value_name = "TIME", help_heading = "Outputs")]
    rotate_time: Option<String>,
    /// Capture files of a series that stay; the oldest is removed first
    #[arg(long, value_name = "N", help_heading = "Outputs")]
    keep: Option<u32>,
    /// Send events to this topic: kafka://HOST[:PORT][,HOST...][/TOPIC]
    /// [default topic: name of the source, _detector]
    #[arg(long, value_name = "URL", help_heading = "Outputs")]
    kafka: Option<String>,
    /// Folder of the spool, where messages lie until the broker has confirmed them
    /// [default: fullcount-spool/TOPIC.SOURCE]
    #[arg(long, value_name = "DIR", help_heading = "Outputs")]
    spool: Option<PathBuf>,
    /// Running numbers of messages: continue (behind the last run's) or restart (at 1)
    /// [default: continue]
    #[arg(long, value_name = "HOW", help_heading = "Outputs")]
    message_id: Option<String>,
    /// A pcap or kafka source whose run was interrupted: resume (send what is missing) or
    /// restart (send all) [default: resume]
    #[arg(long, value_name = "HOW", help_heading = "Outputs")]
    replay: Option<String>,
    /// null: count events and drop them
    #[arg(long, value_name = "null", help_heading = "Outputs")]
    sink: Option<String>,
    #[command(flatten)]
    web: WebFlags,
    #[command(flatten)]
    engine: EngineFlags,
    /// Any other key of the configuration, e.g. detector.sequence_state=one; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Check and print the resulting configuration and exit
    #[arg(long)]
    print_config: bool,
    /// End with one JSON object on standard output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fullcount run --source udp://0.0.0.0:9000 --detector sonde --nexus run42.nxs
  fullcount run --source udp://0.0.0.0:9000 --detector sonde --kafka kafka://broker/sonde_detector
  fullcount run --source xdp://eth0:9000 --detector sonde --sink null
  fullcount run --source 'pcap:run42.pcapng?flat-out' --detector sonde --sink null --json
  fullcount run --source 'pcap:a.pcapng?flat-out' --detector gdgem --hits h.h5 --clusters c.h5
  fullcount run run.toml --capture run42.pcapng --rotate-size 1GiB --keep 20
  fullcount run run.toml --pulse 'grid(14Hz)' --threads 2 --core 2 --process-core 3

Exit codes: 0 nothing lost; 1 failed; 2 wrong option or configuration; 3 something was lost.";

impl Flags {
    fn overlay(&self) -> Result<Overlay, Failure> {
        let path = |p: &PathBuf| p.display().to_string();
        let tables = self.hits.is_some() || self.clusters.is_some();
        let replaces = |named: bool| (self.overwrite && named).then_some(true);
        let mut o = Overlay::default();
        o.put("source.url", endpoints(&self.source))
            .source(&self.source_flags)
            .put("detector.kind", self.detector.clone())
            .put("detector.geometry", self.geometry.as_ref().map(path))
            .put("time.pulse", self.pulse.clone())
            .put("time.epoch", self.epoch.clone())
            .put("time.tick", self.tick.clone())
            .put("output.nexus.path", self.nexus.as_ref().map(path))
            .put("output.nexus.overwrite", replaces(self.nexus.is_some() || !tables))
            .put("output.nexus.compression", self.compression.clone())
            .put("output.nexus.title", self.title.clone())
            .put("output.nexus.run_number", self.run_number.map(i64::from))
            .put("output.nexus.proposal", self.proposal.clone())
            .put("output.nexus.users", users(&self.user))
            .put("output.nexus.sample.name", self.sample.clone())
            .put("output.hits.file", self.hits.as_ref().map(path))
            .put("output.hits.overwrite", replaces(self.hits.is_some()))
            .put("output.clusters.file", self.clusters.as_ref().map(path))
            .put("output.clusters.overwrite", replaces(self.clusters.is_some()))
            .put("output.capture.file", self.capture.as_ref().map(path))
            .put("output.capture.rotate_size", self.rotate_size.clone())
            .put("output.capture.rotate_time", self.rotate_time.clone())
            .put("output.capture.keep", self.keep.map(i64::from))
            .kafka(self.kafka.as_deref())?
            .put("output.kafka.spool", self.spool.as_ref().map(path))
            .put("output.kafka.message_id", self.message_id.clone())
            .put("output.kafka.replay", self.replay.clone())
            .put("output.sink", self.sink.clone())
            .put("web.listen", self.web.web.clone())
            .engine(&self.engine);
        o.set(&self.set)?;
        Ok(o)
    }
}

/// Users of whom only the names are known; `None` if none was given.
fn users(names: &[String]) -> Option<toml::Value> {
    let user = |name: &String| toml::Table::from_iter([("name".to_owned(), name.clone().into())]);
    (!names.is_empty()).then(|| names.iter().map(user).collect::<Vec<_>>().into())
}

/// Runs until the source ends, a limit is reached or Ctrl-C.
pub fn run(flags: &Flags) -> Result<u8, Failure> {
    let config = flags.overlay()?.read(flags.config.as_ref())?;
    if flags.print_config {
        Plan::new("run", &config)?;
        tell!("{}", config.to_toml());
        return Ok(0);
    }
    serve("run", &config, flags.json)
}

/// Starts the engine on `config`, shows its progress, ends with the ledger.
pub fn serve(verb: &'static str, config: &Config, json: bool) -> Result<u8, Failure> {
    let plan = Plan::new(verb, config)?;
    let stop = Stop::on_signals_in_two_steps().context("installing the signal handlers")?;
    let running = Running::start(plan, stop).map_err(|e| match e.refused() {
        true => Failure::Wrong(e.to_string()),
        false => Failure::Failed(e.into()),
    })?;
    for fact in running.facts() {
        note!("{fact}");
    }
    let mut line = StatusLine::new();
    let mut warned = false;
    while !running.wait(line.period()) {
        let status = running.status();
        if let Some(refused) = status.refused.as_ref().filter(|_| !warned) {
            line.clear();
            note!("fullcount: {}", refused.message);
        }
        warned = status.refused.is_some();
        line.show(&status);
    }
    line.clear();
    let (summary, outcome) = running.finish(None);
    if let Err(e) = &outcome {
        note!("fullcount: {e}");
    }
    if json {
        note!("{}", summary.to_text().trim_end());
        say!("{}", summary.to_json());
    } else {
        tell!("{}", summary.to_text());
    }
    Ok(if outcome.is_err() { 1 } else { summary.exit_code() })
}
