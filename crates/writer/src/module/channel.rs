//! al00, ep01 and ep00: alarms of a channel and whether it is connected, beside the values of the same group.
//!
//! Words of an alarm beyond 200 bytes are cut: text that grows while others read has a fixed length.
//! Source: `docs/formats/nexus.md` sections 2 and 7.

use hdf5_metno::{Group, Result};

use super::super::behind::Behind;
use super::super::column::{FlushPhase, GrowingColumn, ShortText, StoredColumn, short};
use super::{Seen, Stopped, Unfit, Writer};
use fullcount_messages::Message;
use fullcount_nexus::file::FileStream;

#[derive(Debug)]
pub(super) struct Alarms {
    message: GrowingColumn<ShortText>,
    severity: GrowingColumn<i16>,
    time: GrowingColumn<i64>,
}

impl Alarms {
    pub(super) fn open(group: &Group) -> Result<Alarms> {
        Ok(Alarms {
            message: GrowingColumn::open(group, "alarm_message", FlushPhase::Bulk)?,
            severity: GrowingColumn::open(group, "alarm_severity", FlushPhase::Bulk)?,
            time: GrowingColumn::open(group, "alarm_time", FlushPhase::Time)?,
        })
    }
}

impl FileStream for Alarms {
    fn columns(&mut self) -> Vec<&mut dyn StoredColumn> {
        vec![&mut self.message, &mut self.severity, &mut self.time]
    }
}

impl Writer for Alarms {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        let Seen::Other(Message::Al00(alarm)) = message else { return Err(Unfit::Shape.into()) };
        self.message.push(short(alarm.message.unwrap_or("")))?;
        self.severity.push(alarm.severity as i16)?;
        Ok(self.time.push(alarm.timestamp)?)
    }

    fn behind(&self, at: i64) -> Result<Behind> {
        Behind::of_values(&self.time, at)
    }
}

#[derive(Debug)]
pub(super) struct Connections {
    status: GrowingColumn<i16>,
    time: GrowingColumn<i64>,
}

impl Connections {
    pub(super) fn open(group: &Group) -> Result<Connections> {
        Ok(Connections {
            status: GrowingColumn::open(group, "connection_status", FlushPhase::Bulk)?,
            time: GrowingColumn::open(group, "connection_status_time", FlushPhase::Time)?,
        })
    }
}

impl FileStream for Connections {
    fn columns(&mut self) -> Vec<&mut dyn StoredColumn> {
        vec![&mut self.status, &mut self.time]
    }
}

impl Writer for Connections {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        let (status, time) = match message {
            Seen::Other(Message::Ep01(state)) => (state.status.number(), state.timestamp),
            Seen::Other(Message::Ep00(state)) => {
                let time = i64::try_from(state.timestamp).map_err(|_| Unfit::Range)?;
                (state.type_.number(), time)
            }
            _ => return Err(Unfit::Shape.into()),
        };
        self.status.push(status)?;
        Ok(self.time.push(time)?)
    }

    fn behind(&self, at: i64) -> Result<Behind> {
        Behind::of_values(&self.time, at)
    }
}
