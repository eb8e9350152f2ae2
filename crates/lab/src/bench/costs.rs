//! The costs that `lab capacity --measure` asks for: short measurements of messages, spool, disk and brokers, and on
//! request of the decoders.
//!
//! Writes `capacity-measured.json` beside the other results. What is written for it in the folder of the results is
//! removed again.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::capacity::measured::{DISK, ENCODE, SPOOL};
use crate::detectors::campaign::from_memory_now;
use crate::record::Figure;
use crate::record::results::Results;
use anyhow::Context;
use fullcount_core::products::EventBatch;
use fullcount_core::time::PulseTime;
use fullcount_engine::stop::Stop;
use fullcount_io::newfile::Scratch;
#[cfg(feature = "kafka")]
use fullcount_kafka::Address;
use fullcount_messages::EventWriter;
use fullcount_spool::{AppendError, Outgoing, Spool, SpoolOptions};
use serde_json::Value;

use crate::Tell;
use crate::error::LabError;

/// What is measured.
#[derive(Debug, Clone)]
pub struct CostParts {
    /// Every decoder from memory.
    pub detectors: bool,
    /// Events into messages.
    pub messages: bool,
    /// Messages into a spool.
    pub spool: bool,
    /// Bytes onto the disk.
    pub disk: bool,
    /// Messages to this topic.
    #[cfg(feature = "kafka")]
    pub brokers: Option<Address>,
    /// Length of a trial.
    pub trial: Duration,
}

/// Names of the parts.
pub const KNOWN: [&str; 5] = ["detectors", "messages", "spool", "disk", "brokers"];
/// Events of a message: 99 kB.
pub(super) const EVENTS: u32 = 12_400;
const TRIALS: usize = 3;
/// Most bytes that a trial writes to a disk.
const MOST: u64 = 2 << 30;
const RESULT: &str = "capacity-measured";

/// Events of one pulse.
pub fn batch(events: u32, number: u32) -> EventBatch {
    let mut batch = EventBatch::default();
    batch.open_pulse(PulseTime(1_527_854_400_000_000_000 + i64::from(number) * 71_428_571));
    (0..events).for_each(|i| batch.push(i.wrapping_mul(5003) >> 1, (i ^ number) % 65_536 + 1));
    batch
}

/// Measures, writes the results and gives them.
///
/// # Errors
/// Results files that are there, and measurements that failed or were interrupted.
pub fn measure(
    parts: &CostParts,
    folder: &Path,
    overwrite: bool,
    stop: &Stop,
    tell: Tell,
) -> Result<Value, LabError> {
    let results = Results { folder: folder.to_owned(), name: None, overwrite };
    let mut record = results.begin_with(RESULT, &["json"])?;
    record
        .parameter("trial_s", parts.trial.as_secs_f64())
        .parameter("trials", TRIALS)
        .parameter("message_events", EVENTS);
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    type Once<'a> = &'a mut dyn FnMut() -> anyhow::Result<f64>;
    let mut trials = |(name, unit): (&str, &str), once: Once<'_>| -> anyhow::Result<()> {
        let mut values = vec![];
        for _ in 0..TRIALS {
            values.push(once()?);
            if stop.requested() {
                anyhow::bail!("interrupted");
            }
        }
        let figure = Figure::of(&values, unit).context("no trial")?;
        tell(&format!("{name}: {:.3e} {unit}", figure.value));
        record.figure(name, &figure);
        Ok(())
    };
    if parts.messages {
        trials(ENCODE, &mut || encode(parts.trial))?;
    }
    if parts.spool {
        trials(SPOOL, &mut || spool(parts.trial, folder))?;
    }
    if parts.disk {
        trials(DISK, &mut || disk(parts.trial, folder))?;
    }
    #[cfg(feature = "kafka")]
    if let Some(address) = &parts.brokers {
        trials(crate::capacity::measured::PRODUCE, &mut || {
            super::produce::produce(parts.trial, address, tell)
        })?;
    }
    if parts.detectors {
        for row in from_memory_now(parts.trial, TRIALS, stop, tell)? {
            row.note(&mut record);
        }
    }
    let path = results.write(&record)?;
    tell(&format!("written to {}", path.display()));
    Ok(record.json())
}

/// Events a second into ev44 messages, from batches that no cache holds.
fn encode(time: Duration) -> anyhow::Result<f64> {
    // 256 batches of 99 kB.
    let batches: Vec<EventBatch> = (0..256).map(|n| batch(EVENTS, n)).collect();
    let mut writer = EventWriter::new();
    let (begun, mut events) = (Instant::now(), 0u64);
    loop {
        for (id, batch) in (1..).zip(&batches) {
            std::hint::black_box(writer.ev44("capacity", id, std::hint::black_box(batch))?.len());
            events += u64::from(EVENTS);
        }
        let passed = begun.elapsed();
        if passed >= time {
            return Ok(events as f64 / passed.as_secs_f64());
        }
    }
}

/// A folder that is gone at the end.
fn own(folder: &Path, what: &str) -> anyhow::Result<Scratch> {
    Scratch::make(folder, &format!(".capacity-{what}"))
        .with_context(|| format!("making a folder in {}", folder.display()))
}

/// Bytes a second into a spool, until all is committed.
fn spool(time: Duration, folder: &Path) -> anyhow::Result<f64> {
    let own = own(folder, "spool")?;
    let options = SpoolOptions { limit: MOST, ..SpoolOptions::new(own.path(), "capacity") };
    let (spool, _) = Spool::open(options)?;
    let mut writer = EventWriter::new();
    let payload = writer.ev44("capacity", 1, &batch(EVENTS, 0))?;
    let (begun, mut bytes) = (Instant::now(), 0u64);
    for id in 1.. {
        let message = Outgoing { payload, message_id: id, events: EVENTS, ..Outgoing::default() };
        match spool.append(&message) {
            Ok(_) => bytes += payload.len() as u64,
            Err(AppendError::Full { .. }) => break,
            Err(e) => return Err(e.into()),
        }
        if begun.elapsed() >= time {
            break;
        }
    }
    spool.finish()?;
    Ok(bytes as f64 / begun.elapsed().as_secs_f64())
}

/// Bytes a second that are on the disk.
fn disk(time: Duration, folder: &Path) -> anyhow::Result<f64> {
    let own = own(folder, "disk")?;
    let path = own.path().join("data");
    let mut file = fs::File::create(&path).with_context(|| format!("making {}", path.display()))?;
    let block: Vec<u8> =
        (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (begun, mut bytes) = (Instant::now(), 0u64);
    while begun.elapsed() < time && bytes < MOST {
        file.write_all(&block).with_context(|| format!("writing {}", path.display()))?;
        bytes += block.len() as u64;
    }
    file.sync_data().with_context(|| format!("writing {}", path.display()))?;
    Ok(bytes as f64 / begun.elapsed().as_secs_f64())
}
