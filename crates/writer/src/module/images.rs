//! ad00 and ADAr: `value` with one image a row, and `time`.
//!
//! Refuses images of another shape or type than the structure says. Source: `docs/formats/flatbuffers.md` section 3.5.

use hdf5_metno::{Group, Result};

use super::super::behind::Behind;
use super::super::column::{AnyColumn, FlushPhase, StoredColumn};
use super::super::structure::NumberType;
use super::{Seen, Stopped, Timed, Unfit, Writer};
use fullcount_messages::Message;
use fullcount_nexus::file::FileStream;

#[derive(Debug)]
pub(super) struct Images {
    value: AnyColumn,
    time: Timed,
    shape: Vec<usize>,
}

impl Images {
    pub(super) fn open(
        group: &Group,
        dtype: NumberType,
        shape: &[usize],
        cue_interval: Option<u64>,
    ) -> Result<Images> {
        Ok(Images {
            value: AnyColumn::open(group, "value", dtype, FlushPhase::Bulk)?,
            time: Timed::open(group, cue_interval)?,
            shape: shape.to_vec(),
        })
    }
}

impl FileStream for Images {
    fn columns(&mut self) -> Vec<&mut dyn StoredColumn> {
        std::iter::once(self.value.stored()).chain(self.time.columns()).collect()
    }
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
        if !same || data_type.number() != Some(self.value.dtype()) || data.len() != bytes {
            return Err(Unfit::Shape.into());
        }
        self.value.extend_bytes(data)?;
        Ok(self.time.push(time)?)
    }

    fn behind(&self, at: i64) -> Result<Behind> {
        Behind::of_values(&self.time.time, at)
    }
}
