//! One writer for each kind of stream, and what they have in common.
//!
//! Making a file, [`specs`] says which columns a module has; once it is open for writing, [`open`] gives the writer.
//! Refuses messages that do not fit what the structure says ([`Unfit`]). Source: `docs/formats/nexus.md` sections 1, 3
//! and 7; names and types of datasets are those of the existing file writer.

mod arrays;
mod channel;
mod events;
mod histogram;
mod images;
mod late;
mod log;
mod samples;

use std::fmt::Debug;
use std::sync::Arc;

use hdf5_metno::{Group, H5Type, Result};

use super::behind::Behind;
use super::column::{Phase, Spec, Stored, chunk_rows};
use super::pixels::PixelSet;
use super::structure::{Attribute, Dtype, LogKind, Module, StreamPlan};
use crate::flat::{EventView, Message};
use crate::nexus::StartAttribute;
use crate::nexus::disk::Disk;
use crate::nexus::sys;

pub(super) use events::EventCounts;

/// A message that belongs to a stream.
#[derive(Debug)]
pub(super) enum Seen<'a> {
    Events(EventView<'a>),
    Other(Message<'a>),
}

/// Why a message cannot become a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// Of another shape or type than the structure says, or contradictory.
    Shape,
    /// A number that the dataset's type cannot hold.
    Range,
}

/// What stopped a row.
#[derive(Debug)]
pub(super) enum Stopped {
    Unfit(Unfit),
    Hdf5(hdf5_metno::Error),
}

impl From<hdf5_metno::Error> for Stopped {
    fn from(error: hdf5_metno::Error) -> Stopped {
        Stopped::Hdf5(error)
    }
}

impl From<Unfit> for Stopped {
    fn from(unfit: Unfit) -> Stopped {
        Stopped::Unfit(unfit)
    }
}

/// Writes the messages of one stream.
pub(super) trait Writer: Debug + Send {
    /// Takes a message; nothing of it is in the file if it is refused.
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped>;
    /// Hands what it keeps itself to its columns.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
    /// Its columns.
    fn columns(&mut self) -> Vec<&mut dyn Stored>;
    /// Writes what is no column: totals, extremes.
    fn totals(&mut self) -> Result<()> {
        Ok(())
    }
    /// All of it is in the file.
    fn committed(&mut self) {}
    /// The run is over: what only a complete file has.
    fn close(&mut self, _start_ns: u64) -> Result<()> {
        Ok(())
    }
    /// True if more waits in memory than should.
    fn urgent(&self) -> bool {
        false
    }
    /// What of it is in the file behind `at`, ns since 1970.
    fn behind(&self, at: i64) -> Result<Behind>;
    /// What became of events, if it writes any.
    fn events(&self) -> Option<EventCounts> {
        None
    }
}

/// How files are written, whatever is in them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) start_attribute: StartAttribute,
}

/// Entries of a chunk of cues.
const CHUNK_CUES: usize = 1024;
/// Rows of a chunk of alarms' words, 200 bytes each: every log has them, and most say little.
const CHUNK_WORDS: usize = 32;
/// Rows of a chunk of states of alarms and connections.
const CHUNK_STATES: usize = 128;
/// Rows of a chunk of pulses: a nearly empty dataset costs 128 KiB.
const CHUNK_PULSES: usize = 16_384;

fn cues() -> [Spec; 2] {
    [
        Spec::new("cue_index", Dtype::I64, CHUNK_CUES),
        Spec::new("cue_timestamp_zero", Dtype::I64, CHUNK_CUES).times("start"),
    ]
}

/// Units of a value; an empty text where the structure says none, as the existing writer has it.
fn with_units(spec: Spec, units: &Option<String>) -> Spec {
    spec.with("units", units.clone().unwrap_or_default())
}

fn time(chunk: usize) -> Spec {
    Spec::new("time", Dtype::I64, chunk).times("start")
}

/// The columns of a module.
pub(super) fn specs(module: &Module, style: Style) -> Vec<Spec> {
    match module {
        Module::Events { chunk, .. } => {
            let epoch = style.start_attribute.name();
            vec![
                Spec::new("event_id", Dtype::I32, *chunk).large(),
                Spec::new("event_time_offset", Dtype::I32, *chunk).large().with("units", "ns"),
                Spec::new("event_index", Dtype::I64, CHUNK_PULSES),
                Spec::new("event_time_zero", Dtype::U64, CHUNK_PULSES).times(epoch),
                Spec::new("cue_index", Dtype::I64, CHUNK_CUES),
                Spec::new("cue_timestamp_zero", Dtype::I64, CHUNK_CUES).times(epoch),
            ]
        }
        Module::Log { kind, dtype, array, units, chunk, cue_interval } => {
            let row: Vec<usize> = array.iter().copied().collect();
            let rows = chunk_rows(*dtype, &row, Some(*chunk));
            let value = Spec::new("value", *dtype, rows).rows(&row);
            let mut all = vec![with_units(value, units), time(*chunk)];
            if *kind == LogKind::F142 {
                all.extend([
                    Spec::new("alarm_severity", Dtype::I16, *chunk),
                    Spec::new("alarm_status", Dtype::I16, *chunk),
                    Spec::new("alarm_time", Dtype::I64, *chunk).times("start"),
                ]);
            }
            if cue_interval.is_some() {
                all.extend(cues());
            }
            all
        }
        Module::Arrays { variables, late, chunk, cue_interval } => {
            let mut all: Vec<Spec> = variables
                .iter()
                .map(|v| {
                    let rows = chunk_rows(v.dtype, &v.shape, *chunk);
                    let spec = Spec::new(&v.name, v.dtype, rows).rows(&v.shape);
                    v.attributes.iter().fold(spec, described)
                })
                .collect();
            all.extend(late.iter().map(|constant| {
                let rows = chunk_rows(constant.dtype, constant.row(), Some(CHUNK_CUES));
                let spec = Spec::new(&constant.name, constant.dtype, rows).rows(constant.row());
                constant.attributes.iter().fold(spec, described)
            }));
            all.push(time(CHUNK_CUES));
            if cue_interval.is_some() {
                all.extend(cues());
            }
            all
        }
        Module::Histogram { dtype, errors, shape, chunk, .. } => {
            let counts = |name: &str, dtype: Dtype| {
                let rows = chunk_rows(dtype, shape, *chunk);
                Spec::new(name, dtype, rows).rows(shape).with("units", "counts")
            };
            let mut all = vec![counts("signal", *dtype)];
            all.extend(errors.map(|dtype| counts("signal_errors", dtype)));
            all.push(time(CHUNK_CUES));
            all
        }
        Module::Alarms => {
            let mut message = Spec::new("alarm_message", Dtype::U8, CHUNK_WORDS);
            message.kind = super::column::Kind::Text;
            vec![
                message,
                Spec::new("alarm_severity", Dtype::I16, CHUNK_STATES),
                Spec::new("alarm_time", Dtype::I64, CHUNK_STATES).times("start"),
            ]
        }
        Module::Connections { .. } => vec![
            Spec::new("connection_status", Dtype::I16, CHUNK_STATES),
            Spec::new("connection_status_time", Dtype::I64, CHUNK_STATES).times("start"),
        ],
        Module::Samples { dtype, units, chunk, .. } => {
            let mut all = vec![with_units(Spec::new("value", *dtype, *chunk), units), time(*chunk)];
            all.extend(cues());
            all
        }
        Module::Chopper { chunk } => {
            let mut all = vec![Spec::new("time", Dtype::U64, *chunk).times("start")];
            all.extend(cues());
            all
        }
        Module::Images { dtype, shape, units, chunk, cue_interval, .. } => {
            let rows = chunk_rows(*dtype, shape, *chunk);
            let value = with_units(Spec::new("value", *dtype, rows).rows(shape), units);
            let mut all = vec![value, time(CHUNK_CUES)];
            if cue_interval.is_some() {
                all.extend(cues());
            }
            all
        }
    }
}

fn described(spec: Spec, attribute: &Attribute) -> Spec {
    let name = match attribute.name.as_str() {
        "units" => "units",
        "long_name" => "long_name",
        _ => "source",
    };
    match attribute.value.text() {
        Some(text) => spec.with(name, text),
        None => spec,
    }
}

/// What a module has beside its columns.
pub(super) fn make_totals(group: &Group, module: &Module) -> Result<()> {
    match module {
        Module::Events { .. } => {
            group.new_dataset::<u64>().create("total_counts")?.write_scalar(&0_u64)
        }
        Module::Log { array: None, units, .. } => {
            for name in ["minimum_value", "maximum_value", "average_value"] {
                let dataset = group.new_dataset::<f64>().create(name)?;
                dataset.write_scalar(&f64::NAN)?;
                let units = units.as_deref().unwrap_or_default();
                crate::nexus::layout::text_attribute(&dataset, "units", units)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Opens the writer of a stream; it goes on behind what is there. Large rows of events go to `disk`, if there is one.
pub(super) fn open(
    group: &Group,
    plan: &StreamPlan,
    pixels: Option<Arc<PixelSet>>,
    disk: Option<Arc<Disk>>,
) -> Result<Box<dyn Writer>> {
    Ok(match &plan.module {
        Module::Events { chunk, cue_interval, .. } => {
            Box::new(events::Events::open(group, *chunk, *cue_interval, pixels, disk)?)
        }
        Module::Log { .. } => Box::new(log::Log::open(group, &plan.module)?),
        Module::Arrays { variables, late, cue_interval, .. } => {
            Box::new(arrays::Arrays::open(group, variables, late, *cue_interval)?)
        }
        Module::Histogram { dtype, errors, shape, .. } => {
            Box::new(histogram::Histogram::open(group, *dtype, *errors, shape)?)
        }
        Module::Alarms => Box::new(channel::Alarms::open(group)?),
        Module::Connections { .. } => Box::new(channel::Connections::open(group)?),
        Module::Samples { dtype, .. } => Box::new(samples::Samples::open(group, *dtype)?),
        Module::Chopper { .. } => Box::new(samples::Chopper::open(group)?),
        Module::Images { dtype, shape, cue_interval, .. } => {
            Box::new(images::Images::open(group, *dtype, shape, *cue_interval)?)
        }
    })
}

/// Table of contents of a column: now and then a row's position and its time.
#[derive(Debug)]
struct Cues {
    index: super::column::Column<i64>,
    time: super::column::Column<i64>,
    interval: u64,
}

impl Cues {
    fn open(group: &Group, interval: u64) -> Result<Cues> {
        Ok(Cues {
            index: super::column::Column::open(group, "cue_index", Phase::Cue)?,
            time: super::column::Column::open(group, "cue_timestamp_zero", Phase::Cue)?,
            interval,
        })
    }

    /// Row `row` (from 0) was written, at `time`.
    fn row(&mut self, row: usize, time: i64) -> Result<()> {
        if (row as u64 + 1).is_multiple_of(self.interval) {
            self.put(row, time)?;
        }
        Ok(())
    }

    fn put(&mut self, row: usize, time: i64) -> Result<()> {
        self.index.push(row as i64)?;
        self.time.push(time)
    }

    fn columns(&mut self) -> [&mut dyn Stored; 2] {
        [&mut self.index, &mut self.time]
    }
}

/// Overwrites a single value.
fn overwrite<T: H5Type>(dataset: &hdf5_metno::Dataset, value: &T) -> Result<()> {
    dataset.write_scalar(value)?;
    sys::flush(dataset)
}
