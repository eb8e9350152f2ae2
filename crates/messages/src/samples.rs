//! se00, and its predecessor senv: fast samples of a channel; tdct: time stamps of a chopper.
//!
//! Refuses members and places that the schema does not name. Source: `docs/formats/flatbuffers.md` section 4.3.

use std::borrow::Cow;

use flatbuffers::{FlatBufferBuilder, WIPOffset};

use super::field::{Member, Put, PutTable, Take, enumeration, table, union_table};
use super::generated::{se00, senv};
use super::message::Schema;
use super::refused::NotAMessage;

enumeration! {
    /// Which moment of a sample its time names.
    #[expect(missing_docs, reason = "the names say it")]
    pub enum SampleLocation: se00 Location Se00 "timestamp_location" {
        Unknown = Unknown "Unknown",
        Start = Start "Start",
        Middle = Middle "Middle",
        End = End "End",
    }
}

macro_rules! samples {
    ($enum:ident $schema:ident $id:ident $root:ident $take:ident $put:ident:
     $($name:ident $scalar:ty, $get:ident $args:ident;)+) => {
        #[doc = concat!("Values of samples of ", stringify!($schema), ", one after the other.")]
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(tag = "type", content = "value")]
        pub enum $enum<'a> {
            $(#[doc = concat!("As `", stringify!($scalar), "`.")] $name(Cow<'a, [$scalar]>),)+
        }

        impl $enum<'_> {
            /// How many there are.
            pub fn len(&self) -> usize {
                match self { $($enum::$name(values) => values.len(),)+ }
            }

            /// True without any.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        fn $take<'a>(table: &$schema::$root<'a>) -> Result<$enum<'a>, NotAMessage> {
            let tag = table.values_type();
            let found = match tag {
                $($schema::ValueUnion::$name => match table.$get() {
                    Some(it) => Some($enum::$name(Take::read(it.value())?)),
                    None => None,
                },)+
                _ => None,
            };
            found.ok_or(NotAMessage::UnknownMember { schema: Schema::$id, field: "values", tag: tag.0 })
        }

        fn $put(
            values: &$enum<'_>,
            builder: &mut FlatBufferBuilder<'_>,
        ) -> Member<$schema::ValueUnion> {
            match values {
                $($enum::$name(values) => {
                    let args = $schema::$args { value: values.put(builder) };
                    let table = $schema::$name::create(builder, &args);
                    ($schema::ValueUnion::$name, Some(table.as_union_value()))
                })+
            }
        }
    };
}

samples! {
    SampleValues se00 Se00 se00_SampleEnvironmentData take put:
    Int8Array i8, values_as_int_8_array Int8ArrayArgs;
    UInt8Array u8, values_as_uint_8_array UInt8ArrayArgs;
    Int16Array i16, values_as_int_16_array Int16ArrayArgs;
    UInt16Array u16, values_as_uint_16_array UInt16ArrayArgs;
    Int32Array i32, values_as_int_32_array Int32ArrayArgs;
    UInt32Array u32, values_as_uint_32_array UInt32ArrayArgs;
    Int64Array i64, values_as_int_64_array Int64ArrayArgs;
    UInt64Array u64, values_as_uint_64_array UInt64ArrayArgs;
    DoubleArray f64, values_as_double_array DoubleArrayArgs;
    FloatArray f32, values_as_float_array FloatArrayArgs;
}

samples! {
    OldSampleValues senv Senv SampleEnvironmentData take_old put_old:
    Int8Array i8, values_as_int_8_array Int8ArrayArgs;
    UInt8Array u8, values_as_uint_8_array UInt8ArrayArgs;
    Int16Array i16, values_as_int_16_array Int16ArrayArgs;
    UInt16Array u16, values_as_uint_16_array UInt16ArrayArgs;
    Int32Array i32, values_as_int_32_array Int32ArrayArgs;
    UInt32Array u32, values_as_uint_32_array UInt32ArrayArgs;
    Int64Array i64, values_as_int_64_array Int64ArrayArgs;
    UInt64Array u64, values_as_uint_64_array UInt64ArrayArgs;
}

union_table! {
    /// Samples of a channel (se00).
    pub struct Samples<'a>: se00 se00_SampleEnvironmentData se00_SampleEnvironmentDataArgs {
        /// Channel.
        pub name: &'a str,
        /// Number of an ADC's input; -1: none.
        pub channel: i32,
        /// Of the first sample, ns since 1970 UTC.
        pub packet_timestamp: i64,
        /// ns between samples; 0 or less: see `timestamps`.
        pub time_delta: f64,
        /// Which moment of a sample is meant.
        pub timestamp_location: SampleLocation,
        /// The samples.
        pub values(values_type take put): SampleValues<'a>,
        /// Of each sample, ns since 1970 UTC, if they are not evenly spaced.
        pub timestamps: Option<Cow<'a, [i64]>>,
        /// Running number.
        pub message_counter: i64,
    }
}

/// Samples of a channel (senv).
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct OldSamples<'a> {
    /// Channel.
    pub name: &'a str,
    /// Number of an ADC's input.
    pub channel: i32,
    /// Of the first sample, ns since 1970 UTC.
    pub packet_timestamp: u64,
    /// ns between samples; 0 or less: see `timestamps`.
    pub time_delta: f64,
    /// Which moment of a sample is meant.
    pub timestamp_location: SampleLocation,
    /// The samples.
    pub values: OldSampleValues<'a>,
    /// Of each sample, ns since 1970 UTC, if they are not evenly spaced.
    pub timestamps: Option<Cow<'a, [u64]>>,
    /// Running number.
    pub message_counter: u64,
}

impl<'a> Take<senv::SampleEnvironmentData<'a>> for OldSamples<'a> {
    fn read(table: senv::SampleEnvironmentData<'a>) -> Result<Self, NotAMessage> {
        let location = table.timestamp_location();
        let known = SampleLocation::ALL.iter().find(|known| **known as i8 == location.0);
        let strange = NotAMessage::UnknownValue {
            schema: Schema::Senv,
            field: "timestamp_location",
            value: location.0.into(),
        };
        Ok(Self {
            name: table.name(),
            channel: table.channel(),
            packet_timestamp: table.packet_timestamp(),
            time_delta: table.time_delta(),
            timestamp_location: *known.ok_or(strange)?,
            values: take_old(&table)?,
            timestamps: Take::read(table.timestamps())?,
            message_counter: table.message_counter(),
        })
    }
}

impl PutTable for OldSamples<'_> {
    type Table<'b> = senv::SampleEnvironmentData<'b>;
    fn put_table<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> WIPOffset<Self::Table<'b>> {
        let (values_type, values) = put_old(&self.values, builder);
        let args = senv::SampleEnvironmentDataArgs {
            name: self.name.put(builder),
            channel: self.channel,
            packet_timestamp: self.packet_timestamp,
            time_delta: self.time_delta,
            timestamp_location: senv::Location(self.timestamp_location as i8),
            values_type,
            values,
            timestamps: self.timestamps.put(builder),
            message_counter: self.message_counter,
        };
        senv::SampleEnvironmentData::create(builder, &args)
    }
}

table! {
    /// When a chopper passed its mark (tdct).
    pub struct ChopperTimes<'a>: tdct timestamp timestampArgs {
        /// Chopper.
        pub name: &'a str,
        /// ns since 1970 UTC.
        pub timestamps: Cow<'a, [u64]>,
        /// Running number.
        pub sequence_counter: u64,
    }
}
