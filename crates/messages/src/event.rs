//! ev42, ev43 and ev44: events of any producer.
//!
//! The verifier knows nothing of index rules or equal lengths: [`Events44::check`] and [`Events42::check`] do, and refuse
//! what contradicts itself. Source: `docs/formats/flatbuffers.md` sections 2.1 to 2.3.

use std::borrow::Cow;
use std::ops::Range;

use super::field::{PutTable, Take, enumeration, table, union, union_table};

enumeration! {
    /// Whether the run goes on (is84).
    pub enum RunState: ev42 RunState Ev42 "run_state" {
        /// Being set up.
        Setup = SETUP "SETUP",
        /// Running.
        Running = RUNNING "RUNNING",
    }
}

table! {
    /// What ISIS adds to a pulse (is84).
    pub struct IsisData: ev42 ISISData ISISDataArgs {
        /// Data-acquisition period.
        pub period_number: u32,
        /// Whether the run goes on.
        pub run_state: RunState,
        /// Charge of this pulse.
        pub proton_charge: f32,
    }
}

table! {
    /// Pulse shapes, parallel to the events (dtdb).
    pub struct AdcPulseDebug<'a>: ev42 AdcPulseDebug AdcPulseDebugArgs {
        /// Height above background.
        pub amplitude: Option<Cow<'a, [u32]>>,
        /// Area under the pulse.
        pub peak_area: Option<Cow<'a, [u32]>>,
        /// Background level.
        pub background: Option<Cow<'a, [u32]>>,
        /// Rising edge over threshold, ns since 1970 UTC.
        pub threshold_time: Option<Cow<'a, [u64]>>,
        /// Maximum, ns since 1970 UTC.
        pub peak_time: Option<Cow<'a, [u64]>>,
    }
}

/// What a facility adds to the events of a pulse.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(tag = "type")]
pub enum FacilityData<'a> {
    /// ISIS.
    #[serde(rename = "ISISData")]
    Isis(IsisData),
    /// Pulse shapes.
    AdcPulseDebug(AdcPulseDebug<'a>),
}

union! {
    take put: ev42 EventMessage FacilityData facility_specific_data_type Ev42 "facility_specific_data",
    FacilityData {
        Isis ISISData facility_specific_data_as_isisdata,
        AdcPulseDebug AdcPulseDebug facility_specific_data_as_adc_pulse_debug,
    }
}

union_table! {
    /// Events of one pulse (ev42).
    pub struct Events42<'a>: ev42 EventMessage EventMessageArgs {
        /// Who made them.
        pub source_name: Option<&'a str>,
        /// Running number of this producer.
        pub message_id: u64,
        /// ns since 1970 UTC.
        pub pulse_time: u64,
        /// ns since the pulse, of each event.
        pub time_of_flight: Option<Cow<'a, [u32]>>,
        /// Pixel of each event.
        pub detector_id: Option<Cow<'a, [u32]>>,
        /// What the facility adds.
        pub facility_specific_data(facility_specific_data_type take put): Option<FacilityData<'a>>,
    }
}

table! {
    /// Events of one pulse or several (ev44).
    pub struct Events44<'a>: ev44 Event44Message Event44MessageArgs {
        /// Who made them.
        pub source_name: &'a str,
        /// Running number of this producer.
        pub message_id: i64,
        /// Each pulse, ns since 1970 UTC.
        pub reference_time: Cow<'a, [i64]>,
        /// Position of each pulse's first event.
        pub reference_time_index: Cow<'a, [i32]>,
        /// ns since the pulse, of each event.
        pub time_of_flight: Option<Cow<'a, [i32]>>,
        /// Pixel of each event; empty or absent where there is only one pixel.
        pub pixel_id: Option<Cow<'a, [i32]>>,
    }
}

table! {
    /// Events of one pulse or several, without signs (ev43).
    pub struct Events43<'a>: ev43 Event43Message Event43MessageArgs {
        /// Who made them.
        pub source_name: Option<&'a str>,
        /// Running number of this producer.
        pub message_id: u64,
        /// Each pulse, ns since 1970 UTC.
        pub pulse_time: Option<Cow<'a, [u64]>>,
        /// Position of each pulse's first event.
        pub pulse_index: Option<Cow<'a, [u32]>>,
        /// ns since the pulse, of each event.
        pub time_of_flight: Option<Cow<'a, [u32]>>,
        /// Pixel of each event.
        pub detector_id: Option<Cow<'a, [u32]>>,
    }
}

/// A verified event message that contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum EventFault {
    /// No reference time at all.
    #[error("no reference time: at least one is needed")]
    NoPulse,
    /// Pulses and indices are not equally many.
    #[error("{pulses} reference times but {indices} indices: they must be equally many")]
    IndexCount { pulses: usize, indices: usize },
    /// The first pulse does not start at the first event.
    #[error("the first index is {0}: it must be 0")]
    IndexStart(i64),
    /// A pulse starts before the one in front of it.
    #[error("index {index} of pulse {pulse} is smaller than the one before it")]
    IndexOrder { pulse: usize, index: i64 },
    /// A pulse starts behind the last event.
    #[error("index {index} of pulse {pulse} is above the number of events, {events}")]
    IndexRange { pulse: usize, index: i64, events: usize },
    /// A pulse later than 64 bits with a sign can say.
    #[error("pulse time {0} ns since 1970 is above 9223372036854775807")]
    PulseTime(u64),
    /// Times and pixels are not equally many.
    #[error("{times} times of flight but {pixels} pixels: they must be equally many")]
    Lengths { times: usize, pixels: usize },
}

impl Events44<'_> {
    /// Checks what the verifier cannot: index rules and equal lengths (an empty or absent `pixel_id` is one pixel).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), EventFault> {
        let events = self.time_of_flight.as_ref().map_or(0, |times| times.len());
        let pixels = self.pixel_id.as_ref().map_or(0, |pixels| pixels.len());
        if pixels != events && pixels != 0 {
            return Err(EventFault::Lengths { times: events, pixels });
        }
        let (pulses, indices) = (self.reference_time.len(), self.reference_time_index.len());
        if pulses == 0 {
            return Err(EventFault::NoPulse);
        }
        if pulses != indices {
            return Err(EventFault::IndexCount { pulses, indices });
        }
        let mut last = 0;
        for (pulse, &index) in self.reference_time_index.iter().enumerate() {
            if pulse == 0 && index != 0 {
                return Err(EventFault::IndexStart(index.into()));
            }
            if index < last {
                return Err(EventFault::IndexOrder { pulse, index: index.into() });
            }
            if usize::try_from(index).is_ok_and(|index| index > events) {
                return Err(EventFault::IndexRange { pulse, index: index.into(), events });
            }
            last = index;
        }
        Ok(())
    }

    /// Each pulse with the positions of its events.
    pub fn pulses(&self) -> Result<impl Iterator<Item = (i64, Range<usize>)> + '_, EventFault> {
        self.check()?;
        let events = self.time_of_flight.as_ref().map_or(0, |times| times.len());
        // Not negative: checked above.
        let starts = || self.reference_time_index.iter().map(|&index| index as usize);
        let ends = starts().skip(1).chain([events]);
        Ok(self.reference_time.iter().copied().zip(starts().zip(ends).map(|(a, b)| a..b)))
    }
}

impl Events42<'_> {
    /// Checks what the verifier cannot: times and pixels are equally many.
    ///
    /// # Errors
    /// If they are not.
    pub fn check(&self) -> Result<(), EventFault> {
        let times = self.time_of_flight.as_ref().map_or(0, |times| times.len());
        let pixels = self.detector_id.as_ref().map_or(0, |pixels| pixels.len());
        if times == pixels { Ok(()) } else { Err(EventFault::Lengths { times, pixels }) }
    }
}
