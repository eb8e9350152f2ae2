//! ad00 and ADAr: `value` with one image a row, and `time`.
//!
//! Refuses images of another shape or type than the structure says. Source: `docs/formats/flatbuffers.md` section 3.5.

use hdf5_metno::{Group, Result};

use super::super::behind::Behind;
use super::super::column::{AnyColumn, Column, Phase, Stored};
use super::super::structure::Dtype;
use super::{Cues, Seen, Stopped, Unfit, Writer};
use crate::flat::{Message, PixelType};

#[derive(Debug)]
pub(super) struct Images {
    value: AnyColumn,
    time: Column<i64>,
    cues: Option<Cues>,
    shape: Vec<usize>,
}

impl Images {
    pub(super) fn open(
        group: &Group,
        dtype: Dtype,
        shape: &[usize],
        cue_interval: Option<u64>,
    ) -> Result<Images> {
        Ok(Images {
            value: AnyColumn::open(group, "value", dtype, Phase::Bulk)?,
            time: Column::open(group, "time", Phase::Time)?,
            cues: cue_interval.map(|interval| Cues::open(group, interval)).transpose()?,
            shape: shape.to_vec(),
        })
    }
}

fn is_type(is: PixelType, dtype: Dtype) -> bool {
    matches!(
        (is, dtype),
        (PixelType::Int8, Dtype::I8)
            | (PixelType::Uint8, Dtype::U8)
            | (PixelType::Int16, Dtype::I16)
            | (PixelType::Uint16, Dtype::U16)
            | (PixelType::Int32, Dtype::I32)
            | (PixelType::Uint32, Dtype::U32)
            | (PixelType::Int64, Dtype::I64)
            | (PixelType::Uint64, Dtype::U64)
            | (PixelType::Float32, Dtype::F32)
            | (PixelType::Float64, Dtype::F64)
    )
}

impl Writer for Images {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        let shape = &self.shape;
        let (same, data_type, data, time) = match message {
            Seen::Other(Message::Ad00(image)) => {
                let lengths = shape.iter().map(|&length| length as i64);
                let same = image.dimensions.iter().copied().eq(lengths);
                (same, image.data_type, image.data, image.timestamp)
            }
            Seen::Other(Message::Adar(image)) => {
                let lengths = shape.iter().map(|&length| length as u64);
                let same = image.dimensions.iter().copied().eq(lengths);
                let time = i64::try_from(image.timestamp).map_err(|_| Unfit::Range)?;
                (same, image.data_type, image.data, time)
            }
            _ => return Err(Unfit::Shape.into()),
        };
        let bytes = self.value.each() * self.value.dtype().bytes();
        if !same || !is_type(data_type, self.value.dtype()) || data.len() != bytes {
            return Err(Unfit::Shape.into());
        }
        self.value.extend_bytes(data)?;
        self.time.push(time)?;
        if let Some(cues) = &mut self.cues {
            cues.row(self.value.rows() - 1, time)?;
        }
        Ok(())
    }

    fn behind(&self, at: i64) -> Result<Behind> {
        Behind::of_values(&self.time, at)
    }

    fn columns(&mut self) -> Vec<&mut dyn Stored> {
        let mut all: Vec<&mut dyn Stored> = vec![self.value.stored(), &mut self.time];
        if let Some(cues) = &mut self.cues {
            all.extend(cues.columns());
        }
        all
    }
}
