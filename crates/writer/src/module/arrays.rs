//! da00: each variable a dataset with one row a message, and `time`.
//!
//! A message must have every variable with the shape and type that the structure says; variables that it does not
//! name are left out. Constants whose values come with the data are in `late.rs`. Source: `docs/formats/nexus.md` section 7, `docs/formats/flatbuffers.md` section 3.4.

use hdf5_metno::{Group, Result};

use super::super::behind::Behind;
use super::super::column::{AnyColumn, FlushPhase, StoredColumn};
use super::super::structure::{LatePlan, VariablePlan};
use super::late::Late;
use super::{Seen, Stopped, Timed, Unfit, Writer};
use fullcount_messages::{Message, Variable};
use fullcount_nexus::file::FileStream;

#[derive(Debug)]
pub(super) struct Arrays {
    variables: Vec<(VariablePlan, AnyColumn)>,
    late: Vec<Late>,
    time: Timed,
}

impl Arrays {
    pub(super) fn open(
        group: &Group,
        variables: &[VariablePlan],
        late: &[LatePlan],
        cue_interval: Option<u64>,
    ) -> Result<Arrays> {
        let open = |plan: &VariablePlan| {
            let column = AnyColumn::open(group, &plan.name, plan.dtype, FlushPhase::Bulk)?;
            Ok((plan.clone(), column))
        };
        Ok(Arrays {
            variables: variables.iter().map(open).collect::<Result<_>>()?,
            late: late.iter().map(|plan| Late::open(group, plan)).collect::<Result<_>>()?,
            time: Timed::open(group, cue_interval)?,
        })
    }
}

fn fits(plan: &VariablePlan, variable: &Variable<'_>) -> bool {
    variable.data_type.number() == Some(plan.dtype)
        && variable.fits()
        && variable.shape.len() == plan.shape.len()
        && variable.shape.iter().zip(&plan.shape).all(|(&is, &should)| is == should as i64)
}

impl FileStream for Arrays {
    fn columns(&mut self) -> Vec<&mut dyn StoredColumn> {
        let mut all: Vec<&mut dyn StoredColumn> =
            self.variables.iter_mut().map(|(_, column)| column.stored()).collect();
        all.extend(self.late.iter_mut().map(Late::stored));
        all.extend(self.time.columns());
        all
    }
}

impl Writer for Arrays {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        let Seen::Other(Message::Da00(message)) = message else { return Err(Unfit::Shape.into()) };
        let found = |plan: &VariablePlan| {
            message.data.iter().find(|v| v.name == plan.name).filter(|v| fits(plan, v))
        };
        // First all of them, then the file: a row is whole or not there.
        if self.variables.iter().any(|(plan, _)| found(plan).is_none()) {
            return Err(Unfit::Shape.into());
        }
        for constant in &self.late {
            constant.of(&message.data).map_or(Ok(()), |variable| constant.check(variable))?;
        }
        for constant in &mut self.late {
            if let Some(variable) = constant.of(&message.data) {
                constant.write(variable)?;
            }
        }
        for (plan, column) in &mut self.variables {
            let variable = found(plan).ok_or(Unfit::Shape)?;
            column.extend_bytes(variable.data)?;
        }
        Ok(self.time.push(message.timestamp)?)
    }

    fn behind(&self, at: i64) -> Result<Behind> {
        Behind::of_values(&self.time.time, at)
    }
}
