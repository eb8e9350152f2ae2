//! `fullcount inspect`: decodes a capture or a live port readout by readout, as tcpdump does for packets.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use fullcount_engine::inspect::{InspectError, PacketSums, Showing, show};
use fullcount_engine::open::SourcePlan;
use fullcount_engine::run::configure;
use fullcount_engine::stop::Stop;

use crate::exit::Failure;
use crate::flags::Overlay;
use crate::{help, note};

/// Decodes a capture or a live port readout by readout.
#[derive(Debug, Args)]
#[command(after_help = help::examples("inspect", EXAMPLES))]
pub struct InspectFlags {
    #[arg(help = help::inspect_url())]
    url: String,
    #[arg(long, value_name = "KIND", default_value = help::usual_detector(), help = help::inspect_detector())]
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
  fullcount inspect pcap:run42.pcapng --errors --hex
  fullcount inspect udp://0.0.0.0:9000 --json | jq -c '.rows // empty'";

/// Prints until the capture ends, the count is reached or Ctrl-C.
pub fn inspect(flags: InspectFlags) -> Result<u8, Failure> {
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
    let mut source = plan.open_as_one(Some(&*detector)).map_err(anyhow::Error::from)?.source;
    for fact in source.describe() {
        note!("{fact}");
    }
    let showing = Showing {
        count: flags.count,
        rows: flags.rows,
        hex: flags.hex,
        errors: flags.errors,
        json: flags.json,
    };
    let mut sums = PacketSums::default();
    let mut outcome = {
        let mut out = BufWriter::new(io::stdout().lock());
        show(&showing, &mut *inspector, &mut *source, &stop, &mut out, &mut sums)
    };
    note!("{}", sums.to_text());
    if flags.json && outcome.is_ok() {
        let mut out = io::stdout().lock();
        outcome =
            writeln!(out, "{}", sums.to_json()).and_then(|()| out.flush()).map_err(Into::into);
    }
    match outcome {
        // The reader of a pipe has seen enough (`| head`).
        Err(InspectError::Write(e)) if is_closed_pipe(&e) => Ok(0),
        outcome => Ok(outcome.map(|()| 0).map_err(anyhow::Error::from)?),
    }
}

fn is_closed_pipe(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::BrokenPipe
}

/// A capture is for looking at, not for replaying: no pauses unless a speed was asked for.
fn flat_out(url: &str) -> String {
    let capture = ["pcap:", "spead+pcap:"].iter().any(|scheme| url.starts_with(scheme));
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
