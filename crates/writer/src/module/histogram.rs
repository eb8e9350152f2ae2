//! hs01 and hs00: NXdata with `signal`, its errors and `time`, one row a message.
//!
//! Refuses slices of a histogram (an `offset` that is not 0), other shapes than the structure says, counts that its
//! type cannot hold. Source: `docs/formats/flatbuffers.md` section 3.3, `docs/formats/nexus.md` section 3.

use hdf5_metno::{Group, Result};

use super::super::behind::Behind;
use super::super::column::{AnyColumn, FlushPhase, GrowingColumn, Number, StoredColumn};
use super::super::structure::NumberType;
use super::{Seen, Stopped, Unfit, Writer};
use fullcount_messages::{Histogram00, Histogram01, Message, Values00, Values01};
use fullcount_nexus::file::FileStream;

#[derive(Debug)]
pub(super) struct Histogram {
    signal: AnyColumn,
    errors: Option<AnyColumn>,
    time: GrowingColumn<i64>,
    shape: Vec<usize>,
}

impl Histogram {
    pub(super) fn open(
        group: &Group,
        dtype: NumberType,
        errors: Option<NumberType>,
        shape: &[usize],
    ) -> Result<Histogram> {
        let errors = match errors {
            Some(dtype) => Some(AnyColumn::open(group, "signal_errors", dtype, FlushPhase::Bulk)?),
            None => None,
        };
        Ok(Histogram {
            signal: AnyColumn::open(group, "signal", dtype, FlushPhase::Bulk)?,
            errors,
            time: GrowingColumn::open(group, "time", FlushPhase::Time)?,
            shape: shape.to_vec(),
        })
    }
}

/// Counts or errors, of either schema.
#[derive(Debug, Clone, Copy)]
enum Numbers<'a> {
    New(&'a Values01<'a>),
    Old(&'a Values00<'a>),
}

impl<'a> Numbers<'a> {
    fn len(self) -> usize {
        match self {
            Numbers::New(all) => all.len(),
            Numbers::Old(all) => all.len(),
        }
    }

    fn each(self) -> Box<dyn Iterator<Item = Number> + 'a> {
        match self {
            Numbers::New(Values01::ArrayInt(all)) => whole(all),
            Numbers::New(Values01::ArrayLong(all)) => whole(all),
            Numbers::New(Values01::ArrayDouble(all)) => real(all),
            Numbers::New(Values01::ArrayFloat(all)) => real(all),
            Numbers::Old(Values00::ArrayUInt(all)) => whole(all),
            Numbers::Old(Values00::ArrayULong(all)) => whole(all),
            Numbers::Old(Values00::ArrayDouble(all)) => real(all),
            Numbers::Old(Values00::ArrayFloat(all)) => real(all),
        }
    }
}

fn whole<T: Copy + Into<i128>>(all: &[T]) -> Box<dyn Iterator<Item = Number> + '_> {
    Box::new(all.iter().map(|&n| Number::Whole(n.into())))
}

fn real<T: Copy + Into<f64>>(all: &[T]) -> Box<dyn Iterator<Item = Number> + '_> {
    Box::new(all.iter().map(|&x| Number::Real(x.into())))
}

/// A message of either schema.
#[derive(Debug)]
struct Given<'a> {
    /// `None` beyond 63 bits.
    time: Option<i64>,
    /// Its shape is that of the structure, and it is no slice.
    same: bool,
    data: Option<Numbers<'a>>,
    errors: Option<Numbers<'a>>,
}

impl<'a> Given<'a> {
    fn new(message: &'a Histogram01<'_>, shape: &[usize]) -> Given<'a> {
        let whole = message.offset.as_deref().is_none_or(|offset| offset.iter().all(|&o| o == 0));
        let is = message.current_shape.iter().map(|&length| i64::from(length));
        Given {
            time: Some(message.timestamp),
            same: whole && is.eq(shape.iter().map(|&length| length as i64)),
            data: message.data.as_ref().map(Numbers::New),
            errors: message.errors.as_ref().map(Numbers::New),
        }
    }

    fn old(message: &'a Histogram00<'_>, shape: &[usize]) -> Given<'a> {
        let whole = message.offset.as_deref().is_none_or(|offset| offset.iter().all(|&o| o == 0));
        let is = message.current_shape.iter().map(|&length| u64::from(length));
        Given {
            time: i64::try_from(message.timestamp).ok(),
            same: whole && is.eq(shape.iter().map(|&length| length as u64)),
            data: message.data.as_ref().map(Numbers::Old),
            errors: message.errors.as_ref().map(Numbers::Old),
        }
    }
}

impl FileStream for Histogram {
    fn columns(&mut self) -> Vec<&mut dyn StoredColumn> {
        let mut all: Vec<&mut dyn StoredColumn> = vec![self.signal.stored()];
        all.extend(self.errors.as_mut().map(AnyColumn::stored));
        all.push(&mut self.time);
        all
    }
}

impl Writer for Histogram {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        let message = match message {
            Seen::Other(Message::Hs01(message)) => Given::new(message, &self.shape),
            Seen::Other(Message::Hs00(message)) => Given::old(message, &self.shape),
            _ => return Err(Unfit::Shape.into()),
        };
        // Counted first: what does not fit costs no memory.
        let fits = |column: &AnyColumn, values: Option<Numbers<'_>>| {
            values.map_or(0, Numbers::len) == column.each()
        };
        let errors_fit = self.errors.as_ref().is_none_or(|column| fits(column, message.errors));
        let fit = message.same && errors_fit && fits(&self.signal, message.data);
        let Some(data) = message.data.filter(|_| fit) else { return Err(Unfit::Shape.into()) };
        let time = message.time.ok_or(Unfit::Range)?;
        // First all of it, then the file: a row is whole or not there.
        let errors = self.errors.as_mut().zip(message.errors);
        if let Some((column, errors)) = &errors
            && !column.holds(errors.each())
        {
            return Err(Unfit::Range.into());
        }
        if !self.signal.extend_numbers(data.each())? {
            return Err(Unfit::Range.into());
        }
        if let Some((column, errors)) = errors {
            column.extend_numbers(errors.each())?;
        }
        Ok(self.time.push(time)?)
    }

    fn behind(&self, at: i64) -> Result<Behind> {
        Behind::of_values(&self.time, at)
    }
}
