//! da00: each variable a dataset with one row a message, and `time`.
//!
//! A message must have every variable with the shape and type that the structure says; variables that it does not
//! name are left out. Constants whose values come with the data are in `late.rs`. Source: `docs/formats/nexus.md` section 7, `docs/formats/flatbuffers.md` section 3.4.

use hdf5_metno::{Group, Result};

use super::super::behind::Behind;
use super::super::column::{AnyColumn, Column, Phase, Stored};
use super::super::structure::{Dtype, LatePlan, VariablePlan};
use super::late::Late;
use super::{Cues, Seen, Stopped, Unfit, Writer};
use crate::flat::{DataType, Message, Variable};

#[derive(Debug)]
pub(super) struct Arrays {
    variables: Vec<(VariablePlan, AnyColumn)>,
    late: Vec<Late>,
    time: Column<i64>,
    cues: Option<Cues>,
}

impl Arrays {
    pub(super) fn open(
        group: &Group,
        variables: &[VariablePlan],
        late: &[LatePlan],
        cue_interval: Option<u64>,
    ) -> Result<Arrays> {
        let open = |plan: &VariablePlan| {
            let column = AnyColumn::open(group, &plan.name, plan.dtype, Phase::Bulk)?;
            Ok((plan.clone(), column))
        };
        Ok(Arrays {
            variables: variables.iter().map(open).collect::<Result<_>>()?,
            late: late.iter().map(|plan| Late::open(group, plan)).collect::<Result<_>>()?,
            time: Column::open(group, "time", Phase::Time)?,
            cues: cue_interval.map(|interval| Cues::open(group, interval)).transpose()?,
        })
    }
}

fn is_type(is: DataType, dtype: Dtype) -> bool {
    matches!(
        (is, dtype),
        (DataType::Int8, Dtype::I8)
            | (DataType::Uint8, Dtype::U8)
            | (DataType::Int16, Dtype::I16)
            | (DataType::Uint16, Dtype::U16)
            | (DataType::Int32, Dtype::I32)
            | (DataType::Uint32, Dtype::U32)
            | (DataType::Int64, Dtype::I64)
            | (DataType::Uint64, Dtype::U64)
            | (DataType::Float32, Dtype::F32)
            | (DataType::Float64, Dtype::F64)
    )
}

fn fits(plan: &VariablePlan, variable: &Variable<'_>) -> bool {
    is_type(variable.data_type, plan.dtype)
        && variable.fits()
        && variable.shape.len() == plan.shape.len()
        && variable.shape.iter().zip(&plan.shape).all(|(&is, &should)| is == should as i64)
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
        self.time.push(message.timestamp)?;
        if let Some(cues) = &mut self.cues {
            cues.row(self.time.rows() - 1, message.timestamp)?;
        }
        Ok(())
    }

    fn behind(&self, at: i64) -> Result<Behind> {
        Behind::of_values(&self.time, at)
    }

    fn columns(&mut self) -> Vec<&mut dyn Stored> {
        let mut all: Vec<&mut dyn Stored> =
            self.variables.iter_mut().map(|(_, column)| column.stored()).collect();
        all.extend(self.late.iter_mut().map(Late::stored));
        all.push(&mut self.time);
        if let Some(cues) = &mut self.cues {
            all.extend(cues.columns());
        }
        all
    }
}
