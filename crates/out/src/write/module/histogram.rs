//! hs01: NXdata with `signal`, its errors and `time`, one row a message.
//!
//! Refuses slices of a histogram (an `offset` that is not 0), other shapes than the structure says, counts that its
//! type cannot hold. Source: `docs/formats/flatbuffers.md` section 3.3, `docs/formats/nexus.md` section 3.

use hdf5_metno::{Group, Result};

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

fn numbers(values: &Values01<'_>) -> Vec<Number> {
    match values {
        Values01::ArrayInt(all) => all.iter().map(|&n| Number::Whole(n.into())).collect(),
        Values01::ArrayLong(all) => all.iter().map(|&n| Number::Whole(n.into())).collect(),
        Values01::ArrayDouble(all) => all.iter().map(|&n| Number::Real(n)).collect(),
        Values01::ArrayFloat(all) => all.iter().map(|&n| Number::Real(n.into())).collect(),
    }
}

impl Writer for Histogram {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        let Seen::Other(Message::Hs01(message)) = message else { return Err(Unfit::Shape.into()) };
        let whole = message.offset.as_deref().is_none_or(|offset| offset.iter().all(|&o| o == 0));
        let shape = &message.current_shape;
        let same = shape.len() == self.shape.len()
            && shape.iter().zip(&self.shape).all(|(&is, &should)| i64::from(is) == should as i64);
        let data = message.data.as_ref().map(numbers).unwrap_or_default();
        let errors = match &self.errors {
            Some(_) => message.errors.as_ref().map(numbers).unwrap_or_default(),
            None => Vec::new(),
        };
        let bins = self.signal.each();
        let wanted = if self.errors.is_some() { bins } else { 0 };
        if !whole || !same || data.len() != bins || errors.len() != wanted {
            return Err(Unfit::Shape.into());
        }
        // First all of it, then the file: a row is whole or not there.
        let errors_fit = self.errors.as_ref().is_none_or(|column| column.holds(&errors));
        if !errors_fit || !self.signal.extend_numbers(&data)? {
            return Err(Unfit::Range.into());
        }
        if let Some(column) = &mut self.errors {
            column.extend_numbers(&errors)?;
        }
        Ok(self.time.push(message.timestamp)?)
    }

    fn columns(&mut self) -> Vec<&mut dyn Stored> {
        let mut all: Vec<&mut dyn Stored> = vec![self.signal.stored()];
        all.extend(self.errors.as_mut().map(AnyColumn::stored));
        all.push(&mut self.time);
        all
    }
}
