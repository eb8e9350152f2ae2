//! Finds the schema of a buffer, decodes its message, and encodes it again.
//!
//! Refuses what [`NotAMessage`] lists. The verifier is always on, and its limits bound what a buffer may expand to, so that a
//! small one that names the same vector many times does not become a large allocation.
//! Source: `docs/formats/flatbuffers.md` sections 1 and 10.

use std::fmt;

use flatbuffers::{FlatBufferBuilder, Follow, Verifiable, VerifierOptions};

use super::array::DataArray;
use super::cache::CacheEntry;
use super::connection::{Connection, OldConnection};
use super::event::{Events42, Events43, Events44};
use super::field::{PutTable, Take};
use super::generated;
use super::histogram::{Histogram00, Histogram01};
use super::image::{Image, OldImage};
use super::log::{Alarm, LogEntry142, LogEntry144};
use super::monitor::Monitor;
use super::raw::RawReadout;
use super::refused::NotAMessage;
use super::run::{ActionResponse, FinishedWriting, RunStart, RunStop};
use super::samples::{ChopperTimes, OldSamples, Samples};
use super::status::{JsonText, Status};

/// The deepest of these schemas has 3 levels (histogram, dimension, boundaries).
const DEPTH: usize = 8;
/// Shared vtables count once for each table that uses them: with at most 22 bytes of vtable to at least 8 of table no
/// honest message passes 4 times its own size.
const EXPANSION: usize = 4;

macro_rules! schemas {
    ($($variant:ident $identifier:literal $message:ident $(<$life:lifetime>)? $schema:ident $root:ident $about:literal;)+) => {
        /// A schema that is read and written here.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Schema { $(#[doc = $about] $variant,)+ }

        impl Schema {
            /// All of them.
            pub const ALL: &[Schema] = &[$(Schema::$variant),+];

            /// Bytes 4 to 8 of a buffer.
            pub fn identifier(self) -> &'static str {
                match self { $(Schema::$variant => $identifier,)+ }
            }
        }

        /// A message of any of these schemas.
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(untagged)]
        pub enum Message<'a> { $(#[doc = $about] $variant($message $(<$life>)?),)+ }

        impl<'a> Message<'a> {
            /// Which schema it has.
            pub fn schema(&self) -> Schema {
                match self { $(Message::$variant(_) => Schema::$variant,)+ }
            }

            /// The finished buffer, ready to be sent. Absent unions leave their tag out, as the format allows.
            pub fn encode(&self) -> Vec<u8> {
                let mut builder = FlatBufferBuilder::new();
                match self {
                    $(Message::$variant(message) => {
                        let root = message.put_table(&mut builder);
                        builder.finish(root, Some($identifier));
                    })+
                }
                builder.finished_data().to_vec()
            }
        }

        fn decode_as(schema: Schema, buffer: &[u8]) -> Result<Message<'_>, NotAMessage> {
            Ok(match schema {
                $(Schema::$variant => Message::$variant(Take::read(
                    root::<generated::$schema::$root<'_>>(schema, buffer)?,
                )?),)+
            })
        }
    };
}

schemas! {
    Ev42 "ev42" Events42<'a> ev42 EventMessage "Events of one pulse.";
    Ev44 "ev44" Events44<'a> ev44 Event44Message "Events of one pulse or several.";
    Hs00 "hs00" Histogram00<'a> hs00 EventHistogram "Histogram, unsigned.";
    Hs01 "hs01" Histogram01<'a> hs01 EventHistogram "Histogram, signed.";
    Da00 "da00" DataArray<'a> da00 da00_DataArray "Labelled arrays.";
    Ar51 "ar51" RawReadout<'a> ar51 RawReadoutMessage "One raw readout packet.";
    F142 "f142" LogEntry142<'a> f142 LogData "Value of a channel, with its alarm.";
    F144 "f144" LogEntry144<'a> f144 f144_LogData "Value of a channel.";
    Al00 "al00" Alarm<'a> al00 Alarm "Alarm.";
    Json "json" JsonText<'a> json JsonData "JSON text.";
    X5f2 "x5f2" Status<'a> x5f2 Status "Heartbeat of a service.";
    Pl72 "pl72" RunStart<'a> pl72 RunStart "Start of a run.";
    S6s4t "6s4t" RunStop<'a> s6s4t RunStop "Stop of a run.";
    Answ "answ" ActionResponse<'a> answ ActionResponse "Answer of a file writer.";
    Wrdn "wrdn" FinishedWriting<'a> wrdn FinishedWriting "A file is written.";
    Mo01 "mo01" Monitor<'a> mo01 MonitorMessage "A detector in commissioning.";
    Ep01 "ep01" Connection<'a> ep01 EpicsPVConnectionInfo "Connection to a channel.";
    Se00 "se00" Samples<'a> se00 se00_SampleEnvironmentData "Fast samples.";
    Tdct "tdct" ChopperTimes<'a> tdct timestamp "Time stamps of a chopper.";
    Ad00 "ad00" Image<'a> ad00 ad00_ADArray "Image of an area detector.";
    Ev43 "ev43" Events43<'a> ev43 Event43Message "Events of one pulse or several, without signs.";
    Ns10 "ns10" CacheEntry<'a> ns10 CacheEntry "Value of the cache of a control system.";
    Ep00 "ep00" OldConnection<'a> ep00 EpicsConnectionInfo "Connection to a channel, of the predecessor.";
    Senv "senv" OldSamples<'a> senv SampleEnvironmentData "Fast samples, of the predecessor.";
    Adar "ADAr" OldImage<'a> adar ADArray "Image of an area detector, of the predecessor.";
}

impl Schema {
    /// The schema with this identifier.
    pub fn of(identifier: [u8; 4]) -> Option<Schema> {
        Schema::ALL.iter().copied().find(|schema| schema.identifier().as_bytes() == identifier)
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.identifier())
    }
}

/// The message in `buffer`, one whole Kafka value. Text and bytes are borrowed, columns copied: the buffer may lie at
/// any address.
///
/// # Errors
/// See [`NotAMessage`]; nothing of the buffer is then used.
pub fn decode(buffer: &[u8]) -> Result<Message<'_>, NotAMessage> {
    let (Some(_), Some(identifier)) = (buffer.first_chunk::<8>(), buffer.get(4..8)) else {
        return Err(NotAMessage::TooShort { bytes: buffer.len() });
    };
    let identifier = [identifier[0], identifier[1], identifier[2], identifier[3]];
    let schema = Schema::of(identifier).ok_or(NotAMessage::UnknownSchema { identifier })?;
    decode_as(schema, buffer)
}

/// The verified root table.
pub(super) fn root<'a, T>(schema: Schema, buffer: &'a [u8]) -> Result<T::Inner, NotAMessage>
where
    T: Follow<'a> + Verifiable + 'a,
{
    let options = VerifierOptions {
        max_depth: DEPTH,
        max_tables: buffer.len() / 4,
        max_apparent_size: buffer.len().saturating_mul(EXPANSION),
        ignore_missing_null_terminator: false,
    };
    flatbuffers::root_with_opts::<T>(&options, buffer)
        .map_err(|reason| NotAMessage::Damaged { schema, reason })
}
