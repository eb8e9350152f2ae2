//! `fullcount lab decode`: how fast a decoder is when nothing else limits it.
//!
//! Simulated packets fill a shared piece of memory larger than any cache, which is cycled: every pass
//! reads all bytes again, output columns are reused, all checks and counters are on. The machine's copy
//! bandwidth is measured in the same process, before and after.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::products::Products;
use fullcount_detect::detector::{Registry, Setup};
use fullcount_engine::config::refuse;
use fullcount_io::quantity;
use fullcount_lab::record::{Figure, Record};
use fullcount_lab::traffic::Traffic;
use fullcount_lab::traffic::panel::Panel;
use fullcount_lab::traffic::sonde::{Mode, Sonde, SondeSetup};
use serde_json::json;

use crate::exit::Failure;
use crate::{note, say};

/// Events per second of a decoder from memory.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// Detector
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
    /// Name of the results file
    #[arg(long, value_name = "NAME", default_value = "decode-sonde")]
    name: String,
    /// Print the results file instead of the lines
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fullcount lab decode
  fullcount lab decode --duration 2s --repeats 5 --core 1 --out /tmp";

/// Packets per train, as UDP GRO delivers 1261-byte packets: 64 KiB / 1261.
const TRAIN: usize = 51;
/// Trains per batch, as one receive call gives.
const TRAINS: usize = 16;

/// Runs the campaign.
pub fn decode(flags: Flags) -> Result<u8, Failure> {
    if flags.detector != "sonde" {
        return Err(refuse("detector", &flags.detector, "sonde").into());
    }
    let bytes = quantity::size(&flags.memory)
        .map_err(|e| refuse("memory", &flags.memory, e.to_string()))?;
    let time = quantity::duration(&flags.duration)
        .map_err(|e| refuse("duration", &flags.duration, e.to_string()))?;
    if flags.repeats == 0 {
        return Err(refuse("repeats", 0, "1 or more").into());
    }
    fullcount_engine::open::check_core("core", flags.core)?;
    if let Some(core) = flags.core {
        fullcount_io::sys::pin_thread(core).with_context(|| format!("pinning to CPU {core}"))?;
    }
    let mut record = Record::begin(&flags.name).map_err(anyhow::Error::from)?;
    note!("preparing {} of packets", quantity::size_text(bytes));
    let (batches, packets) = prepare(bytes as usize).map_err(anyhow::Error::from)?;
    let detector =
        Registry::builtin().configure("sonde", &Setup::default()).map_err(anyhow::Error::from)?;
    let copy_before = copy_bandwidth();
    let (mut rates, mut gigabytes) = (vec![], vec![]);
    for trial in 1..=flags.repeats {
        let mut reader = detector.reader();
        let mut products = Products::default();
        let (mut events, mut read) = (0u64, 0u64);
        let begun = Instant::now();
        // One clock read per pass over the whole memory (≈ 60 ms).
        while begun.elapsed() < time {
            for batch in &batches {
                products.clear();
                reader.read(batch, &mut products);
                events += products.events.len() as u64;
                read += batch.bytes();
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        let expected = events / 250;
        let counted = reader.sheet();
        let count = |name: &str| {
            let line = counted.lines().iter().position(|l| l.name == name);
            line.map_or(0, |l| counted.get(l))
        };
        if count("events.count") != events || count("ideas.packets.triggertime") != expected {
            return Err(anyhow::anyhow!("the decoder's counters contradict its events").into());
        }
        rates.push(events as f64 / seconds);
        gigabytes.push(read as f64 / seconds / 1e9);
        note!(
            "trial {trial}/{}: {:.0} M events/s, {:.2} GB/s",
            flags.repeats,
            events as f64 / seconds / 1e6,
            read as f64 / seconds / 1e9
        );
    }
    let copy = [copy_before, copy_bandwidth()];
    let events = Figure::of(&rates, "events/s").context("no trial")?;
    let input = Figure::of(&gigabytes, "GB/s").context("no trial")?;
    let copied = Figure::of(&copy, "GB/s").context("no copy")?;
    record
        .parameter("detector", "sonde")
        .parameter("memory_bytes", bytes)
        .parameter("packets", packets)
        .parameter("events_per_packet", 250)
        .parameter("seconds", time.as_secs_f64())
        .parameter("target_features", features())
        .parameter("core", json!(flags.core))
        .figure("events", &events)
        .figure("input", &input)
        .figure("copy_bandwidth", &copied);
    let path = record.write(&super::folder(flags.out)).map_err(anyhow::Error::from)?;
    if flags.json {
        say!("{}", record.json());
    } else {
        say!(
            "decode sonde, one core: {:.0} M events/s (median of {})",
            events.value / 1e6,
            flags.repeats
        );
        say!("input read:             {:.2} GB/s", input.value);
        say!("machine's memcpy:       {:.2} GB/s (one core, 256 MiB blocks)", copied.value);
        say!("build:                  {}", features());
    }
    note!("written to {}", path.display());
    Ok(0)
}

/// What the compiler was allowed to use.
fn features() -> &'static str {
    if cfg!(target_feature = "avx512f") {
        "target-cpu with AVX-512"
    } else if cfg!(target_feature = "avx2") {
        "target-cpu with AVX2"
    } else {
        "portable"
    }
}

/// Batches that share one memory of at least `bytes`.
fn prepare(bytes: usize) -> Result<(Vec<Batch>, usize), fullcount_lab::traffic::TrafficError> {
    let setup = SondeSetup {
        panel: Panel::demo(),
        mode: Mode::TriggerTime,
        entries: 250,
        events_per_s: 250e6,
        seed: 1,
        count: None,
    };
    let mut traffic = Sonde::new(&setup)?;
    let stride = traffic.packet_bytes();
    let mut memory = Vec::with_capacity(bytes + TRAIN * stride);
    let mut trains = vec![];
    while memory.len() < bytes {
        let Some(train) = traffic.next_train(TRAIN, 0) else { break };
        let (start, len) = (memory.len(), train.bytes.len());
        memory.extend_from_slice(train.bytes);
        let origin = Origin { port: 50_011, ..Origin::NONE };
        trains.push(TrainMeta { start, len, stride, origin, time_ns: 0, edge: Edge::Datagram });
    }
    let memory: Arc<[u8]> = memory.into();
    let packets = memory.len() / stride;
    let batch = |some: &[TrainMeta]| {
        let mut batch = Batch::with_slots(0, 0);
        batch.share(&memory);
        some.iter().for_each(|&t| batch.push(t));
        batch
    };
    Ok((trains.chunks(TRAINS).map(batch).collect(), packets))
}

/// memcpy of 256 MiB blocks for a second, GB/s copied.
fn copy_bandwidth() -> f64 {
    let from = vec![1u8; 256 << 20];
    let mut to = vec![0u8; 256 << 20];
    let (begun, mut copied) = (Instant::now(), 0u64);
    while begun.elapsed() < Duration::from_secs(1) {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        copied += from.len() as u64;
    }
    copied as f64 / begun.elapsed().as_secs_f64() / 1e9
}
