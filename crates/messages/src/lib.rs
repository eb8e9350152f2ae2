//! Messages of an event stream as FlatBuffers: ev42, ev44, hs00, hs01, da00, ar51, f142, f144, al00, json, x5f2,
//! pl72, 6s4t, answ, wrdn, mo01, ep01, se00, tdct and ad00, one message a buffer; and those that only old topics hold:
//! ev43, ns10, ep00, senv and ADAr.
//!
//! [`decode`] runs the verifier before it touches a field and refuses what is too short, of another schema, damaged, or
//! expands to more than it is. [`Message::encode`] is its inverse. Events are encoded without an object in between:
//! [`EventWriter`] writes the columns of an `EventBatch` as ev44 or ev42 with one copy, and [`EventStream`] decides
//! where one message ends and the next begins.
//!
//! Source: `docs/formats/flatbuffers.md`. The schemas are in `crates/messages/schemas`; `cargo xtask schemas` makes
//! [`generated`] from them. Serialised (`serde`), a message reads as in `vectors/flatbuffers/expected.json`.
#![deny(unsafe_code)]

mod array;
mod cache;
mod connection;
mod event;
mod event_writer;
mod field;
pub mod generated;
mod histogram;
mod image;
mod log;
mod message;
mod monitor;
mod raw;
mod refused;
mod run;
mod samples;
mod status;
mod stream;
mod view;

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod event_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod message_tests;
#[cfg(test)]
mod stream_tests;

pub use array::{DataArray, DataType, Variable};
pub use cache::CacheEntry;
pub use connection::{Connection, ConnectionEvent, ConnectionState, OldConnection};
pub use event::{
    AdcPulseDebug, EventFault, Events42, Events43, Events44, FacilityData, IsisData, RunState,
};
pub use event_writer::{EventWriter, TooLarge};
pub use histogram::{Dimension00, Dimension01, Histogram00, Histogram01, Values00, Values01};
pub use image::{Image, ImageAttribute, OldImage, PixelType};
pub use log::{
    Alarm, AlarmSeverity, AlarmStatus, LogEntry142, LogEntry144, LogValue, StateSeverity,
};
pub use message::{Message, Schema, decode};
pub use monitor::{Histograms, Hits, Monitor, MonitorData, Point, Track};
pub use raw::RawReadout;
pub use refused::{FlatCounter, NotAMessage};
pub use run::{
    Action, ActionResponse, AnswerOutcome, FinishedWriting, RunStart, RunStop,
    SpectraDetectorMapping,
};
pub use samples::{
    ChopperTimes, OldSampleValues, OldSamples, SampleLocation, SampleValues, Samples,
};
pub use status::{JsonText, Status};
pub use stream::{
    Cut, EventSchema, EventStream, Left, Ready, Said, Standing, StreamOptionError, StreamOptions,
};
pub use view::{EventRefused, EventView};
