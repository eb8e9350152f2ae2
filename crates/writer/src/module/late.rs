//! Constants of da00 whose values come with the data: written once, of the first message that has them.
//!
//! Numbers are converted to the type that the structure says, and never cut. Refuses another shape, numbers that the type
//! cannot hold, and more than [`MOST`] of them. Source: `docs/formats/flatbuffers.md` section 3.4.

use hdf5_metno::{Group, Result};

use super::super::column::{AnyColumn, Element as _, FlushPhase, Number, StoredColumn};
use super::super::structure::LatePlan;
use super::Unfit;
use fullcount_core::with_number;
use fullcount_messages::Variable;

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
        let column = AnyColumn::open(group, &plan.name, plan.dtype, FlushPhase::Bulk)?;
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

    pub(super) fn stored(&mut self) -> &mut dyn StoredColumn {
        self.column.stored()
    }
}

/// The numbers of a variable; `None` of text.
fn numbers<'v>(variable: &'v Variable<'_>) -> Option<Box<dyn Iterator<Item = Number> + 'v>> {
    let bytes = variable.data;
    Some(with_number!(variable.data_type.number()?, T => {
        Box::new(bytes.chunks_exact(size_of::<T>()).map(|one| T::of_bytes(one).number()))
    }))
}
