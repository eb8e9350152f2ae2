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
mod specs;

use std::fmt::Debug;
use std::sync::Arc;

use hdf5_metno::{Group, H5Type, Result};

use super::behind::Behind;
use super::column::{FlushPhase, StoredColumn};
use super::pixels::PixelSet;
use super::structure::{StreamModule, StreamPlan};
use fullcount_messages::{EventView, Message};
use fullcount_nexus::StartAttribute;
use fullcount_nexus::events::EventWay;
use fullcount_nexus::file::FileStream;
use fullcount_nexus::sys;

pub(super) use events::EventCounts;
pub(super) use specs::{make_totals, specs};

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
pub(super) trait Writer: FileStream + Send {
    /// Takes a message; nothing of it is in the file if it is refused.
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped>;
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

/// Opens the writer of a stream; it goes on behind what is there. Events get to the file as `way` says.
pub(super) fn open(
    group: &Group,
    plan: &StreamPlan,
    pixels: Option<Arc<PixelSet>>,
    way: &EventWay,
) -> Result<Box<dyn Writer>> {
    Ok(match &plan.module {
        StreamModule::Events { chunk, cue_interval, .. } => {
            Box::new(events::Events::open(group, *chunk, *cue_interval, pixels, way.clone())?)
        }
        StreamModule::Log { .. } => Box::new(log::Log::open(group, &plan.module)?),
        StreamModule::Arrays { variables, late, cue_interval, .. } => {
            Box::new(arrays::Arrays::open(group, variables, late, *cue_interval)?)
        }
        StreamModule::Histogram { dtype, errors, shape, .. } => {
            Box::new(histogram::Histogram::open(group, *dtype, *errors, shape)?)
        }
        StreamModule::Alarms => Box::new(channel::Alarms::open(group)?),
        StreamModule::Connections { .. } => Box::new(channel::Connections::open(group)?),
        StreamModule::Samples { dtype, .. } => Box::new(samples::Samples::open(group, *dtype)?),
        StreamModule::Chopper { .. } => Box::new(samples::Chopper::open(group)?),
        StreamModule::Images { dtype, shape, cue_interval, .. } => {
            Box::new(images::Images::open(group, *dtype, shape, *cue_interval)?)
        }
    })
}

/// Table of contents of a column: now and then a row's position and its time.
#[derive(Debug)]
struct Cues {
    index: super::column::GrowingColumn<i64>,
    time: super::column::GrowingColumn<i64>,
    interval: u64,
}

impl Cues {
    fn open(group: &Group, interval: u64) -> Result<Cues> {
        Ok(Cues {
            index: super::column::GrowingColumn::open(group, "cue_index", FlushPhase::Cue)?,
            time: super::column::GrowingColumn::open(group, "cue_timestamp_zero", FlushPhase::Cue)?,
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

    fn columns(&mut self) -> [&mut dyn StoredColumn; 2] {
        [&mut self.index, &mut self.time]
    }
}

/// The time of each row, with a table of contents if one is wanted.
#[derive(Debug)]
struct Timed {
    time: super::column::GrowingColumn<i64>,
    cues: Option<Cues>,
}

impl Timed {
    fn open(group: &Group, cue_interval: Option<u64>) -> Result<Timed> {
        let time = super::column::GrowingColumn::open(group, "time", FlushPhase::Time)?;
        Ok(Timed { time, cues: cue_interval.map(|n| Cues::open(group, n)).transpose()? })
    }

    fn push(&mut self, time: i64) -> Result<()> {
        self.time.push(time)?;
        match &mut self.cues {
            Some(cues) => cues.row(self.time.rows() - 1, time),
            None => Ok(()),
        }
    }

    fn columns(&mut self) -> impl Iterator<Item = &mut dyn StoredColumn> {
        let time: &mut dyn StoredColumn = &mut self.time;
        std::iter::once(time).chain(self.cues.iter_mut().flat_map(Cues::columns))
    }
}

/// Overwrites a single value.
fn overwrite<T: H5Type>(dataset: &hdf5_metno::Dataset, value: &T) -> Result<()> {
    dataset.write_scalar(value)?;
    sys::flush(dataset)
}
