//! `fullcount lab decode`: how fast a decoder is when nothing else limits it.
//!
//! The simulated row of `fullcount lab detectors` for one detector, with the machine's copy bandwidth measured in the
//! same process, before and after. Refuses: a detector that nothing
//! here simulates.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use fullcount_detect::parallel::Threads;
use fullcount_engine::config::refuse;
use fullcount_io::quantity;
use fullcount_lab::detectors::copy;
use fullcount_lab::record::Figure;
use serde_json::json;

use super::detectors::at_once::{Pipeline, at_once};
use super::detectors::chain::Part;
use super::detectors::features;
use super::detectors::job::{Job, JobFlags};
use super::detectors::scratch::Scratch;
use crate::exit::Failure;
use crate::{note, say};

/// Events per second of a decoder from memory.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// Detector that has a simulator
    #[arg(long, value_name = "KIND", default_value = "sonde")]
    detector: String,
    /// Input that is cycled
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    memory: String,
    /// Time per trial
    #[arg(long, value_name = "TIME", default_value = "10s")]
    duration: String,
    /// Trials; the median is reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: usize,
    /// CPU to run on
    #[arg(long, value_name = "CPU")]
    core: Option<usize>,
    /// Folder for the results [default: docs/results if there is one here, else this folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Name of the results file [default: decode- and the detector]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Replace results files that exist
    #[arg(long)]
    overwrite: bool,
    /// Print the results file instead of the lines
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fullcount lab decode
  fullcount lab decode --duration 2s --repeats 5 --core 1 --out /tmp";

/// Time of the copy test.
const COPY: Duration = Duration::from_secs(1);

/// Runs the campaign.
pub fn decode(flags: Flags) -> Result<u8, Failure> {
    let kind = flags.detector.as_str();
    let bytes = quantity::size(&flags.memory)
        .map_err(|e| refuse("memory", &flags.memory, e.to_string()))?;
    let time = quantity::duration(&flags.duration)
        .map_err(|e| refuse("duration", &flags.duration, e.to_string()))?;
    if flags.repeats == 0 {
        return Err(refuse("repeats", 0, "1 or more").into());
    }
    fullcount_engine::open::check_core("core", flags.core)?;
    let name = flags.name.clone().unwrap_or_else(|| format!("decode-{kind}"));
    let folder = super::folder(flags.out.clone());
    let mut record = super::begin(&name, &folder, &["json"], flags.overwrite)?;
    let scratch = Scratch::default();
    let jobs = JobFlags::simulated(kind).jobs(&scratch)?;
    let Job { input, detector, .. } = jobs.first().context("no simulated packets")?;
    note!("preparing {} of packets", quantity::size_text(bytes));
    let image = input.image(&**detector, bytes as usize)?;
    let copy = || copy::bandwidth(&[flags.core], COPY);
    let copy_before = copy();
    let (mut rates, mut gigabytes, mut per_packet) = (vec![], vec![], 0);
    for trial in 1..=flags.repeats {
        let (detector, part) = (&**detector, Part::Whole);
        let threads = &Threads::of(1);
        let pipeline = Pipeline { detector, part, image: &image, core: flags.core, threads };
        let outcome = &at_once(&[pipeline], time, &|| false)?[0];
        let made = outcome.amounts.over(outcome.seconds);
        per_packet = outcome.amounts.events / outcome.amounts.packets.max(1);
        note!(
            "trial {trial}/{}: {:.0} M events/s, {:.2} GB/s",
            flags.repeats,
            made.events / 1e6,
            made.bytes / 1e9
        );
        rates.push(made.events);
        gigabytes.push(made.bytes / 1e9);
    }
    let events = Figure::of(&rates, "events/s").context("no trial")?;
    let input = Figure::of(&gigabytes, "GB/s").context("no trial")?;
    let copied = Figure::of(&[copy_before, copy()], "GB/s").context("no copy")?;
    record
        .parameter("detector", kind)
        .parameter("memory_bytes", bytes)
        .parameter("packets", image.packets)
        .parameter("events_per_packet", per_packet)
        .parameter("seconds", time.as_secs_f64())
        .parameter("target_features", features())
        .parameter("core", json!(flags.core))
        .figure("events", &events)
        .figure("input", &input)
        .figure("copy_bandwidth", &copied);
    if flags.json {
        say!("{}", record.json());
    } else {
        say!(
            "decode {kind}, one core: {:.0} M events/s (median of {})",
            events.value / 1e6,
            flags.repeats
        );
        say!("input read:             {:.2} GB/s", input.value);
        say!("machine's memcpy:       {:.2} GB/s (one core, 256 MiB blocks)", copied.value);
        say!("build:                  {}", features());
    }
    // Shown first: what cannot be written is not lost.
    let path = record.write(&folder, flags.overwrite).map_err(anyhow::Error::from)?;
    note!("written to {}", path.display());
    Ok(0)
}
