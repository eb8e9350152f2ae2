//! se00, senv and tdct: fast samples with the time of each, and time stamps of a chopper. A cue marks each message.
//!
//! Refuses times that are not as many as the samples, evenly spaced samples without a spacing, times beyond 64 bits, and
//! more than 8,388,608 samples in a message.
//! Source: `docs/formats/nexus.md` section 7, `docs/formats/flatbuffers.md` section 4.3.

use std::borrow::Cow;

use hdf5_metno::{Group, Result};

use super::super::behind::Behind;
use super::super::column::{AnyColumn, FlushPhase, GrowingColumn, Number, StoredColumn};
use super::super::structure::NumberType;
use super::{Cues, Seen, Stopped, Unfit, Writer};
use fullcount_messages::{Message, OldSampleValues, OldSamples, SampleValues, Samples as Sampled};
use fullcount_nexus::file::FileStream;

/// Samples of a message: 64 MiB of times. One byte a sample in the message is 16 in the file.
const MOST: usize = 8 << 20;
/// Bytes of times that may wait for a flush; they are written after the samples.
const WAITING: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct Samples {
    value: AnyColumn,
    time: GrowingColumn<i64>,
    cues: Cues,
}

impl Samples {
    pub(super) fn open(group: &Group, dtype: NumberType) -> Result<Samples> {
        Ok(Samples {
            value: AnyColumn::open(group, "value", dtype, FlushPhase::Bulk)?,
            time: GrowingColumn::open(group, "time", FlushPhase::Time)?,
            cues: Cues::open(group, 1)?,
        })
    }
}

/// How many samples there are, and each.
fn numbers<'a>(values: &'a SampleValues<'_>) -> (usize, Box<dyn Iterator<Item = Number> + 'a>) {
    macro_rules! each {
        ($($member:ident $as:ident;)+) => {
            match values {
                $(SampleValues::$member(all) => {
                    (all.len(), Box::new(all.iter().map(|&n| Number::$as(n.into()))))
                })+
            }
        };
    }
    each! {
        Int8Array Whole; UInt8Array Whole; Int16Array Whole; UInt16Array Whole; Int32Array Whole;
        UInt32Array Whole; Int64Array Whole; UInt64Array Whole; DoubleArray Real; FloatArray Real;
    }
}

/// The time of each sample, ns since 1970.
fn times<'a>(
    message: &'a Sampled<'_>,
    samples: usize,
) -> std::result::Result<Cow<'a, [i64]>, Unfit> {
    match message.timestamps.as_deref() {
        Some(times) if !times.is_empty() => {
            if times.len() == samples {
                Ok(times.into())
            } else {
                Err(Unfit::Shape)
            }
        }
        // Spacing in ns as a double: the product is exact enough, the sum is made with integers.
        _ if message.time_delta > 0.0 || samples == 1 => {
            let at = |i: usize| {
                let since = (i as f64 * message.time_delta.max(0.0)).round();
                // A time that nobody meant is none: 2^63 ns are 292 years.
                let since = Some(since).filter(|since| *since < 9.2e18).ok_or(Unfit::Range)?;
                message.packet_timestamp.checked_add(since as i64).ok_or(Unfit::Range)
            };
            (0..samples).map(at).collect()
        }
        _ => Err(Unfit::Shape),
    }
}

/// A message of the predecessor as one of today; `None` if a time is beyond 63 bits.
fn as_se00<'a>(old: &'a OldSamples<'_>) -> Option<Sampled<'a>> {
    macro_rules! same {
        ($($member:ident)+) => {
            match &old.values { $(
                OldSampleValues::$member(all) => SampleValues::$member(Cow::Borrowed(all)),
            )+ }
        };
    }
    let times = old.timestamps.as_deref();
    let times = times.map(|all| all.iter().map(|&t| i64::try_from(t).ok()).collect::<Option<_>>());
    let timestamps: Option<Vec<i64>> = match times {
        None => None,
        Some(times) => Some(times?),
    };
    Some(Sampled {
        name: old.name,
        channel: old.channel,
        packet_timestamp: i64::try_from(old.packet_timestamp).ok()?,
        time_delta: old.time_delta,
        timestamp_location: old.timestamp_location,
        values: same! {
            Int8Array UInt8Array Int16Array UInt16Array Int32Array UInt32Array Int64Array UInt64Array
        },
        timestamps: timestamps.map(Cow::Owned),
        message_counter: 0,
    })
}

impl FileStream for Samples {
    fn columns(&mut self) -> Vec<&mut dyn StoredColumn> {
        let mut all: Vec<&mut dyn StoredColumn> = vec![self.value.stored(), &mut self.time];
        all.extend(self.cues.columns());
        all
    }
}

impl Writer for Samples {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        let newer;
        let message = match message {
            Seen::Other(Message::Se00(message)) => message,
            Seen::Other(Message::Senv(message)) => {
                newer = as_se00(message).ok_or(Unfit::Range)?;
                &newer
            }
            _ => return Err(Unfit::Shape.into()),
        };
        if message.values.is_empty() {
            return Ok(());
        }
        let (samples, numbers) = numbers(&message.values);
        if samples > MOST {
            return Err(Unfit::Shape.into());
        }
        let times = times(message, samples)?;
        let row = self.time.rows();
        if !self.value.extend_numbers(numbers)? {
            return Err(Unfit::Range.into());
        }
        self.time.extend(times.iter().copied())?;
        Ok(self.cues.put(row, message.packet_timestamp)?)
    }

    fn behind(&self, at: i64) -> Result<Behind> {
        Behind::of_values(&self.time, at)
    }

    fn urgent(&self) -> bool {
        self.time.waiting() > WAITING
    }
}

#[derive(Debug)]
pub(super) struct Chopper {
    time: GrowingColumn<u64>,
    cues: Cues,
}

impl Chopper {
    pub(super) fn open(group: &Group) -> Result<Chopper> {
        let time = GrowingColumn::open(group, "time", FlushPhase::Time)?;
        Ok(Chopper { time, cues: Cues::open(group, 1)? })
    }
}

impl FileStream for Chopper {
    fn columns(&mut self) -> Vec<&mut dyn StoredColumn> {
        let mut all: Vec<&mut dyn StoredColumn> = vec![&mut self.time];
        all.extend(self.cues.columns());
        all
    }
}

impl Writer for Chopper {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        let Seen::Other(Message::Tdct(message)) = message else { return Err(Unfit::Shape.into()) };
        let Some(&first) = message.timestamps.first() else { return Ok(()) };
        self.cues.put(self.time.rows(), i64::try_from(first).map_err(|_| Unfit::Range)?)?;
        Ok(self.time.extend(message.timestamps.iter().copied())?)
    }

    fn behind(&self, at: i64) -> Result<Behind> {
        Behind::of_values(&self.time, at)
    }

    fn urgent(&self) -> bool {
        self.time.waiting() > WAITING
    }
}
