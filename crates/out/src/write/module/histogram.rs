//! hs01: NXdata with `signal`, its errors and `time`, one row a message.
//!
//! Refuses slices of a histogram (an `offset` that is not 0), other shapes than the structure says, counts that its
//! type cannot hold. Source: `docs/formats/flatbuffers.md` section 3.3, `docs/formats/nexus.md` section 3.

use hdf5_metno::{Group, Result};

use super::super::behind::Behind;
use super::super::column::{AnyColumn, Column, Number, Phase, Stored};
use super::super::structure::Dtype;
use super::{Seen, Stopped, Unfit, Writer};
use crate::flat::{Message, Values01};

#[derive(Debug)]
pub(super) struct Histogram {
    signal: AnyColumn,
    errors: Option<AnyColumn>,
    time: Column<i64>,
    shape: Vec<usize>,
}

impl Histogram {
    pub(super) fn open(
        group: &Group,
        dtype: Dtype,
        errors: Option<Dtype>,
        shape: &[usize],
    ) -> Result<Histogram> {
        let errors = match errors {
            Some(dtype) => Some(AnyColumn::open(group, "signal_errors", dtype, Phase::Bulk)?),
            None => None,
        };
        Ok(Histogram {
            signal: AnyColumn::open(group, "signal", dtype, Phase::Bulk)?,
            errors,
            time: Column::open(group, "time", Phase::Time)?,
            shape: shape.to_vec(),
        })
    }
}

fn numbers<'a>(values: &'a Values01<'_>) -> Box<dyn Iterator<Item = Number> + 'a> {
    match values {
        Values01::ArrayInt(all) => Box::new(all.iter().map(|&n| Number::Whole(n.into()))),
        Values01::ArrayLong(all) => Box::new(all.iter().map(|&n| Number::Whole(n.into()))),
        Values01::ArrayDouble(all) => Box::new(all.iter().map(|&n| Number::Real(n))),
        Values01::ArrayFloat(all) => Box::new(all.iter().map(|&n| Number::Real(n.into()))),
    }
}

fn count(values: Option<&Values01<'_>>) -> usize {
    match values {
        None => 0,
        Some(Values01::ArrayInt(all)) => all.len(),
        Some(Values01::ArrayLong(all)) => all.len(),
        Some(Values01::ArrayDouble(all)) => all.len(),
        Some(Values01::ArrayFloat(all)) => all.len(),
    }
}

impl Writer for Histogram {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        let Seen::Other(Message::Hs01(message)) = message else { return Err(Unfit::Shape.into()) };
        let whole = message.offset.as_deref().is_none_or(|offset| offset.iter().all(|&o| o == 0));
        let shape = &message.current_shape;
        let same = shape.len() == self.shape.len()
            && shape.iter().zip(&self.shape).all(|(&is, &should)| i64::from(is) == should as i64);
        let (data, errors) = (message.data.as_ref(), message.errors.as_ref());
        // Counted first: what does not fit costs no memory.
        let fits = |column: &AnyColumn, values| count(values) == column.each();
        let errors_fit = self.errors.as_ref().is_none_or(|column| fits(column, errors));
        let Some(data) =
            data.filter(|data| whole && same && errors_fit && fits(&self.signal, Some(*data)))
        else {
            return Err(Unfit::Shape.into());
        };
        // First all of it, then the file: a row is whole or not there.
        let errors = self.errors.as_mut().zip(errors);
        if let Some((column, errors)) = &errors
            && !column.holds(numbers(errors))
        {
            return Err(Unfit::Range.into());
        }
        if !self.signal.extend_numbers(numbers(data))? {
            return Err(Unfit::Range.into());
        }
        if let Some((column, errors)) = errors {
            column.extend_numbers(numbers(errors))?;
        }
        Ok(self.time.push(message.timestamp)?)
    }

    fn behind(&self, at: i64) -> Result<Behind> {
        Behind::of_values(&self.time, at)
    }

    fn columns(&mut self) -> Vec<&mut dyn Stored> {
        let mut all: Vec<&mut dyn Stored> = vec![self.signal.stored()];
        all.extend(self.errors.as_mut().map(AnyColumn::stored));
        all.push(&mut self.time);
        all
    }
}
