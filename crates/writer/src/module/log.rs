//! f144, f142 and ns10: NXlog with `value` and `time`, extremes and mean, and the alarm of f142.
//!
//! Numbers are converted to the type that the structure gives, never cut: what does not fit is refused. The alarm of
//! an f142 message gets a row when it says something (not NO_CHANGE). The text of an ns10 message is one number, or refused. Source: `docs/formats/nexus.md` sections 3 and 7.

use hdf5_metno::{Dataset, Group, Result};

use super::super::behind::Behind;
use super::super::column::{AnyColumn, FlushPhase, GrowingColumn, Number, StoredColumn};
use super::super::structure::{LogKind, StreamModule};
use super::{Seen, Stopped, Timed, Unfit, Writer, overwrite};
use fullcount_messages::{AlarmSeverity, AlarmStatus, LogValue, Message};
use fullcount_nexus::file::FileStream;

#[derive(Debug)]
struct Alarm {
    severity: GrowingColumn<i16>,
    status: GrowingColumn<i16>,
    time: GrowingColumn<i64>,
}

/// Extremes and mean of single values.
#[derive(Debug)]
struct Extremes {
    datasets: [Dataset; 3],
    least: f64,
    most: f64,
    sum: f64,
    changed: bool,
}

#[derive(Debug)]
pub(super) struct Log {
    value: AnyColumn,
    time: Timed,
    extremes: Option<Extremes>,
    alarm: Option<Alarm>,
}

impl Log {
    pub(super) fn open(group: &Group, module: &StreamModule) -> Result<Log> {
        let StreamModule::Log { kind, dtype, array, cue_interval, .. } = module else {
            return Err("no log".into());
        };
        let time = Timed::open(group, *cue_interval)?;
        let extremes = match array {
            Some(_) => None,
            None => {
                let datasets = [
                    group.dataset("minimum_value")?,
                    group.dataset("maximum_value")?,
                    group.dataset("average_value")?,
                ];
                let read = |i: usize| datasets[i].read_scalar::<f64>();
                // Of a run that goes on after a kill: what the last commit knew.
                let (least, most, mean) = (read(0)?, read(1)?, read(2)?);
                let sum = if time.time.rows() > 0 { mean * time.time.rows() as f64 } else { 0.0 };
                Some(Extremes { datasets, least, most, sum, changed: false })
            }
        };
        let alarm = match kind {
            LogKind::F144 | LogKind::Ns10 => None,
            LogKind::F142 => Some(Alarm {
                severity: GrowingColumn::open(group, "alarm_severity", FlushPhase::Bulk)?,
                status: GrowingColumn::open(group, "alarm_status", FlushPhase::Bulk)?,
                time: GrowingColumn::open(group, "alarm_time", FlushPhase::Time)?,
            }),
        };
        Ok(Log {
            value: AnyColumn::open(group, "value", *dtype, FlushPhase::Bulk)?,
            time,
            extremes,
            alarm,
        })
    }

    fn put(&mut self, value: &LogValue<'_>, time: i64) -> std::result::Result<(), Stopped> {
        let (count, numbers) = numbers(value);
        self.put_numbers(count, numbers, time)
    }

    fn put_numbers(
        &mut self,
        count: usize,
        numbers: impl Iterator<Item = Number>,
        time: i64,
    ) -> std::result::Result<(), Stopped> {
        // The structure says whether a message is one value or several.
        if count != self.value.each() {
            return Err(Unfit::Shape.into());
        }
        let mut first = None;
        let numbers = numbers.inspect(|&number| first = first.or(Some(number)));
        if !self.value.extend_numbers(numbers)? {
            return Err(Unfit::Range.into());
        }
        self.time.push(time)?;
        if let (Some(extremes), Some(first)) = (&mut self.extremes, first) {
            extremes.add(match first {
                Number::Whole(n) => n as f64,
                Number::Real(x) => x,
            });
        }
        Ok(())
    }
}

impl Extremes {
    fn add(&mut self, value: f64) {
        // f64::min and max give the other one where one is none: the first value replaces NaN.
        self.least = self.least.min(value);
        self.most = self.most.max(value);
        self.sum += value;
        self.changed = true;
    }
}

/// How many numbers there are, and each.
fn numbers<'a>(value: &'a LogValue<'_>) -> (usize, Box<dyn Iterator<Item = Number> + 'a>) {
    macro_rules! each {
        ($($single:ident $array:ident $as:ident;)+) => {
            match value {
                $(
                    LogValue::$single(n) => (1, Box::new(std::iter::once(Number::$as((*n).into())))),
                    LogValue::$array(all) => {
                        (all.len(), Box::new(all.iter().map(|&n| Number::$as(n.into()))))
                    }
                )+
            }
        };
    }
    each! {
        Byte ArrayByte Whole; UByte ArrayUByte Whole; Short ArrayShort Whole; UShort ArrayUShort Whole;
        Int ArrayInt Whole; UInt ArrayUInt Whole; Long ArrayLong Whole; ULong ArrayULong Whole;
        Float ArrayFloat Real; Double ArrayDouble Real;
    }
}

/// ns since 1970 of seconds since 1970, if 64 bits hold them.
fn nanoseconds(seconds: f64) -> Option<i64> {
    let ns = (seconds * 1e9).round();
    (ns.abs() < 9.2e18).then_some(ns as i64)
}

/// The number that a text is: a whole one keeps all of its digits.
fn number_of(text: &str) -> Option<Number> {
    let text = text.trim();
    let whole = text.parse().ok().map(Number::Whole);
    whole.or_else(|| text.parse().ok().map(Number::Real))
}

impl FileStream for Log {
    fn columns(&mut self) -> Vec<&mut dyn StoredColumn> {
        let mut all: Vec<&mut dyn StoredColumn> = vec![self.value.stored()];
        all.extend(self.time.columns());
        if let Some(alarm) = &mut self.alarm {
            let three: [&mut dyn StoredColumn; 3] =
                [&mut alarm.severity, &mut alarm.status, &mut alarm.time];
            all.extend(three);
        }
        all
    }

    fn totals(&mut self) -> Result<()> {
        let rows = self.time.time.rows();
        if let Some(extremes) = &mut self.extremes
            && extremes.changed
        {
            let mean = extremes.sum / rows as f64;
            for (dataset, value) in
                extremes.datasets.iter().zip([extremes.least, extremes.most, mean])
            {
                overwrite(dataset, &value)?;
            }
            extremes.changed = false;
        }
        Ok(())
    }
}

impl Writer for Log {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        match message {
            Seen::Other(Message::F144(entry)) => self.put(&entry.value, entry.timestamp),
            Seen::Other(Message::F142(entry)) => {
                let Ok(time) = i64::try_from(entry.timestamp) else {
                    return Err(Unfit::Range.into());
                };
                match &entry.value {
                    Some(value) => self.put(value, time)?,
                    None => return Err(Unfit::Shape.into()),
                }
                let said = entry.severity != AlarmSeverity::NoChange
                    || entry.status != AlarmStatus::NoChange;
                if let Some(alarm) = self.alarm.as_mut().filter(|_| said) {
                    // The numbers of the schema: fields without data are in its order.
                    alarm.severity.push(entry.severity as i16)?;
                    alarm.status.push(entry.status as i16)?;
                    alarm.time.push(time)?;
                }
                Ok(())
            }
            Seen::Other(Message::Ns10(entry)) => {
                let time = nanoseconds(entry.time).ok_or(Unfit::Range)?;
                let number = entry.value.and_then(number_of).ok_or(Unfit::Shape)?;
                self.put_numbers(1, std::iter::once(number), time)
            }
            _ => Err(Unfit::Shape.into()),
        }
    }

    fn behind(&self, at: i64) -> Result<Behind> {
        Behind::of_values(&self.time.time, at)
    }
}
