//! The columns of an event message as they are in its buffer, for copying: no single event is examined.
//!
//! Refuses what [`decode`](super::decode) refuses, and what contradicts itself ([`EventFault`]). Columns are bytes,
//! because the alignment is that of the message, not of memory. Source: `docs/formats/flatbuffers.md` sections 2.1 to
//! 2.3.

use super::event::EventFault;
use super::generated::{ev42, ev43, ev44};
use super::message::{Schema, root};
use super::refused::NotAMessage;

/// Events of one message, of any schema.
#[derive(Debug, Clone)]
pub struct EventView<'a> {
    /// Who made them; empty if the message does not say.
    pub source_name: &'a str,
    /// Running number of the producer.
    pub message_id: i64,
    /// Pulses, ns since 1970 UTC, with the position of their first event; at least one, positions ascending.
    pub pulses: Vec<(i64, usize)>,
    /// ns since the pulse, of each event, little-endian.
    pub time_of_flight: &'a [[u8; 4]],
    /// Pixel of each event, little-endian; `None` where there is only one pixel.
    pub pixel: Option<&'a [[u8; 4]]>,
    /// True for ev42 and ev43, whose numbers have no sign.
    pub unsigned: bool,
}

/// Why a buffer gives no events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventRefused {
    /// No such message.
    #[error(transparent)]
    Refused(#[from] NotAMessage),
    /// It contradicts itself.
    #[error("contradictory event message: {0}")]
    Fault(#[from] EventFault),
}

impl<'a> EventView<'a> {
    /// The events of an ev44 message.
    ///
    /// # Errors
    /// The verifier's, or the first contradiction.
    pub fn ev44(buffer: &'a [u8]) -> Result<EventView<'a>, EventRefused> {
        let table = root::<ev44::Event44Message<'_>>(Schema::Ev44, buffer)?;
        let time_of_flight = table.time_of_flight().map_or(&[][..], |v| v.bytes());
        let pixel = table.pixel_id().map_or(&[][..], |v| v.bytes());
        let (time_of_flight, pixel) = (time_of_flight.as_chunks().0, pixel.as_chunks().0);
        let (times, index) = (table.reference_time(), table.reference_time_index());
        let events = time_of_flight.len();
        if pixel.len() != events && !pixel.is_empty() {
            return Err(EventFault::Lengths { times: events, pixels: pixel.len() }.into());
        }
        let (times, index) = (times.iter().map(Ok), index.iter().map(i64::from));
        let pulses = pulses(times, index, events)?;
        Ok(EventView {
            source_name: table.source_name(),
            message_id: table.message_id(),
            pulses,
            time_of_flight,
            pixel: (!pixel.is_empty()).then_some(pixel),
            unsigned: false,
        })
    }

    /// The events of an ev42 message. A pulse time that no `i64` holds is refused.
    ///
    /// # Errors
    /// The verifier's, or the first contradiction.
    pub fn ev42(buffer: &'a [u8]) -> Result<EventView<'a>, EventRefused> {
        let table = root::<ev42::EventMessage<'_>>(Schema::Ev42, buffer)?;
        let time_of_flight = table.time_of_flight().map_or(&[][..], |v| v.bytes()).as_chunks().0;
        let pixel = table.detector_id().map_or(&[][..], |v| v.bytes()).as_chunks().0;
        let (times, pixels) = (time_of_flight.len(), pixel.len());
        if times != pixels {
            return Err(EventFault::Lengths { times, pixels }.into());
        }
        let pulse = table.pulse_time();
        let pulse = i64::try_from(pulse).map_err(|_| EventFault::PulseTime(pulse))?;
        Ok(EventView {
            source_name: table.source_name().unwrap_or(""),
            message_id: i64::try_from(table.message_id()).unwrap_or(i64::MAX),
            pulses: vec![(pulse, 0)],
            time_of_flight,
            pixel: Some(pixel),
            unsigned: true,
        })
    }

    /// The events of an ev43 message. A pulse time that no `i64` holds is refused.
    ///
    /// # Errors
    /// The verifier's, or the first contradiction.
    pub fn ev43(buffer: &'a [u8]) -> Result<EventView<'a>, EventRefused> {
        let table = root::<ev43::Event43Message<'_>>(Schema::Ev43, buffer)?;
        let time_of_flight = table.time_of_flight().map_or(&[][..], |v| v.bytes()).as_chunks().0;
        let pixel = table.detector_id().map_or(&[][..], |v| v.bytes()).as_chunks().0;
        let (times, pixels) = (time_of_flight.len(), pixel.len());
        if times != pixels {
            return Err(EventFault::Lengths { times, pixels }.into());
        }
        let (Some(zero), Some(index)) = (table.pulse_time(), table.pulse_index()) else {
            return Err(EventFault::NoPulse.into());
        };
        let zero = zero.iter().map(|t| i64::try_from(t).map_err(|_| EventFault::PulseTime(t)));
        Ok(EventView {
            source_name: table.source_name().unwrap_or(""),
            message_id: i64::try_from(table.message_id()).unwrap_or(i64::MAX),
            pulses: pulses(zero, index.iter().map(i64::from), times)?,
            time_of_flight,
            pixel: Some(pixel),
            unsigned: true,
        })
    }

    /// How many events there are.
    pub fn events(&self) -> usize {
        self.time_of_flight.len()
    }

    /// Time of the first pulse, ns since 1970.
    pub fn time(&self) -> i64 {
        self.pulses[0].0
    }
}

/// Each pulse with the position of its first event, of a message of so many events.
fn pulses(
    times: impl ExactSizeIterator<Item = Result<i64, EventFault>>,
    index: impl ExactSizeIterator<Item = i64>,
    events: usize,
) -> Result<Vec<(i64, usize)>, EventFault> {
    if times.len() == 0 {
        return Err(EventFault::NoPulse);
    }
    if times.len() != index.len() {
        return Err(EventFault::IndexCount { pulses: times.len(), indices: index.len() });
    }
    let mut pulses = Vec::with_capacity(times.len());
    let mut last = 0;
    for (pulse, (time, index)) in times.zip(index).enumerate() {
        if pulse == 0 && index != 0 {
            return Err(EventFault::IndexStart(index));
        }
        if index < last {
            return Err(EventFault::IndexOrder { pulse, index });
        }
        last = index;
        match usize::try_from(index) {
            Ok(first) if first <= events => pulses.push((time?, first)),
            _ => return Err(EventFault::IndexRange { pulse, index, events }),
        }
    }
    Ok(pulses)
}
