//! se00 and tdct: fast samples with the time of each, and time stamps of a chopper. A cue marks each message.
//!
//! Refuses times that are not as many as the samples, and evenly spaced samples without a spacing.
//! Source: `docs/formats/nexus.md` section 7, `docs/formats/flatbuffers.md` section 4.3.

use hdf5_metno::{Group, Result};

use super::super::column::{AnyColumn, Column, Number, Phase, Stored};
use super::super::structure::Dtype;
use super::{Cues, Seen, Stopped, Unfit, Writer};
use crate::flat::{Message, SampleValues, Samples as Sampled};

#[derive(Debug)]
pub(super) struct Samples {
    value: AnyColumn,
    time: Column<i64>,
    cues: Cues,
    numbers: Vec<Number>,
    times: Vec<i64>,
}

impl Samples {
    pub(super) fn open(group: &Group, dtype: Dtype) -> Result<Samples> {
        Ok(Samples {
            value: AnyColumn::open(group, "value", dtype, Phase::Bulk)?,
            time: Column::open(group, "time", Phase::Time)?,
            cues: Cues::open(group, 1)?,
            numbers: Vec::new(),
            times: Vec::new(),
        })
    }

    fn numbers(&mut self, values: &SampleValues<'_>) {
        self.numbers.clear();
        macro_rules! each {
            ($($member:ident $as:ident;)+) => {
                match values {
                    $(SampleValues::$member(all) => {
                        self.numbers.extend(all.iter().map(|&n| Number::$as(n.into())));
                    })+
                }
            };
        }
        each! {
            Int8Array Whole; UInt8Array Whole; Int16Array Whole; UInt16Array Whole; Int32Array Whole;
            UInt32Array Whole; Int64Array Whole; UInt64Array Whole; DoubleArray Real; FloatArray Real;
        }
    }

    fn times(&mut self, message: &Sampled<'_>) -> std::result::Result<(), Unfit> {
        let samples = self.numbers.len();
        self.times.clear();
        match message.timestamps.as_deref() {
            Some(times) if !times.is_empty() => self.times.extend(times),
            // Spacing in ns as a double: the product is exact enough, the sum is made with integers.
            _ if message.time_delta > 0.0 || samples == 1 => {
                let at = |i: usize| {
                    let since = (i as f64 * message.time_delta.max(0.0)).round();
                    message.packet_timestamp.saturating_add(since as i64)
                };
                self.times.extend((0..samples).map(at));
            }
            _ => {}
        }
        if self.times.len() == samples { Ok(()) } else { Err(Unfit::Shape) }
    }
}

impl Writer for Samples {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        let Seen::Other(Message::Se00(message)) = message else { return Err(Unfit::Shape.into()) };
        if message.values.is_empty() {
            return Ok(());
        }
        self.numbers(&message.values);
        self.times(message)?;
        let row = self.time.rows();
        if !self.value.extend_numbers(&self.numbers)? {
            return Err(Unfit::Range.into());
        }
        self.time.extend(self.times.iter().copied())?;
        Ok(self.cues.put(row, message.packet_timestamp)?)
    }

    fn columns(&mut self) -> Vec<&mut dyn Stored> {
        let mut all: Vec<&mut dyn Stored> = vec![self.value.stored(), &mut self.time];
        all.extend(self.cues.columns());
        all
    }
}

#[derive(Debug)]
pub(super) struct Chopper {
    time: Column<u64>,
    cues: Cues,
}

impl Chopper {
    pub(super) fn open(group: &Group) -> Result<Chopper> {
        let time = Column::open(group, "time", Phase::Time)?;
        Ok(Chopper { time, cues: Cues::open(group, 1)? })
    }
}

impl Writer for Chopper {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        let Seen::Other(Message::Tdct(message)) = message else { return Err(Unfit::Shape.into()) };
        let Some(&first) = message.timestamps.first() else { return Ok(()) };
        self.cues.put(self.time.rows(), i64::try_from(first).map_err(|_| Unfit::Range)?)?;
        Ok(self.time.extend(message.timestamps.iter().copied())?)
    }

    fn columns(&mut self) -> Vec<&mut dyn Stored> {
        let mut all: Vec<&mut dyn Stored> = vec![&mut self.time];
        all.extend(self.cues.columns());
        all
    }
}
