//! Constants of da00 whose values come with the data: written once, of the first message that has them.
//!
//! Numbers are converted to the type that the structure says, and never cut. Refuses another shape, numbers that the type
//! cannot hold, and more than [`MOST`] of them. Source: `docs/formats/flatbuffers.md` section 3.4.

use hdf5_metno::{Group, Result};

use super::super::column::{AnyColumn, Number, Phase, Stored};
use super::super::structure::LatePlan;
use super::Unfit;
use crate::flat::{DataType, Variable};

/// Most numbers of one constant: 64 MiB of doubles, as one in the structure may have.
const MOST: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct Late {
    plan: LatePlan,
    column: AnyColumn,
}

impl Late {
    /// Opens its dataset; what is there is kept.
    pub(super) fn open(group: &Group, plan: &LatePlan) -> Result<Late> {
        let column = AnyColumn::open(group, &plan.name, plan.dtype, Phase::Bulk)?;
        Ok(Late { plan: plan.clone(), column })
    }

    /// Its variable of a message, if that is still to be written.
    pub(super) fn of<'m, 'a>(&self, all: &'m [Variable<'a>]) -> Option<&'m Variable<'a>> {
        if self.column.rows() > 0 {
            return None;
        }
        all.iter().find(|v| v.name == self.plan.name)
    }

    /// Whether it can be written.
    pub(super) fn check(&self, variable: &Variable<'_>) -> std::result::Result<(), Unfit> {
        let same = match &self.plan.shape {
            None => variable.shape.len() <= 1,
            Some(shape) => {
                variable.shape.len() == shape.len()
                    && variable.shape.iter().zip(shape).all(|(&is, &should)| is == should as i64)
            }
        };
        let bytes = variable.data_type.bytes();
        if !same || !variable.fits() || variable.data.len() / bytes > MOST {
            return Err(Unfit::Shape);
        }
        let numbers = numbers(variable).ok_or(Unfit::Shape)?;
        self.column.holds(numbers).then_some(()).ok_or(Unfit::Range)
    }

    /// Writes it; it was checked.
    pub(super) fn write(&mut self, variable: &Variable<'_>) -> Result<()> {
        if let Some(numbers) = numbers(variable) {
            self.column.extend_numbers(numbers)?;
        }
        Ok(())
    }

    pub(super) fn stored(&mut self) -> &mut dyn Stored {
        self.column.stored()
    }
}

/// The numbers of a variable; `None` of text.
fn numbers<'v>(variable: &'v Variable<'_>) -> Option<Box<dyn Iterator<Item = Number> + 'v>> {
    macro_rules! each {
        ($number:ty, $as:ident) => {{
            let (all, _) = variable.data.as_chunks::<{ size_of::<$number>() }>();
            Box::new(all.iter().map(|&b| Number::$as(<$number>::from_le_bytes(b).into())))
        }};
    }
    Some(match variable.data_type {
        DataType::Int8 => each!(i8, Whole),
        DataType::Uint8 => each!(u8, Whole),
        DataType::Int16 => each!(i16, Whole),
        DataType::Uint16 => each!(u16, Whole),
        DataType::Int32 => each!(i32, Whole),
        DataType::Uint32 => each!(u32, Whole),
        DataType::Int64 => each!(i64, Whole),
        DataType::Uint64 => each!(u64, Whole),
        DataType::Float32 => each!(f32, Real),
        DataType::Float64 => each!(f64, Real),
        _ => return None,
    })
}
