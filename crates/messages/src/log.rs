//! f142 and f144, one value of a slow-control channel, and al00, an alarm.
//!
//! Refuses the text members that f142 once had (21, 22). Source: `docs/formats/flatbuffers.md` sections 4.1 and 4.2.

use std::borrow::Cow;

use flatbuffers::FlatBufferBuilder;

use super::field::{Member, Put, Take, enumeration, table, union_table, whole};
use super::generated::{f142, f144};
use super::message::Schema;
use super::refused::NotAMessage;

macro_rules! values {
    ($($single:ident $scalar:ty, $single_get:ident $single_args:ident; $array:ident, $array_get:ident $array_args:ident;)+) => {
        /// A value of one of the types that both schemas have.
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(tag = "type", content = "value")]
        pub enum LogValue<'a> {
            $(
                #[doc = concat!("One `", stringify!($scalar), "`.")]
                $single($scalar),
                #[doc = concat!("Several `", stringify!($scalar), "`; none if the vector is absent.")]
                $array(Cow<'a, [$scalar]>),
            )+
        }

        values!(@schema f142 LogData F142 take142 put142; $($single $single_get $single_args $array $array_get $array_args)+);
        values!(@schema f144 f144_LogData F144 take144 put144; $($single $single_get $single_args $array $array_get $array_args)+);
    };
    (@schema $schema:ident $root:ident $id:ident $take:ident $put:ident;
     $($single:ident $single_get:ident $single_args:ident $array:ident $array_get:ident $array_args:ident)+) => {
        /// `None` without a value.
        fn $take<'a>(table: &$schema::$root<'a>) -> Result<Option<LogValue<'a>>, NotAMessage> {
            use $schema::Value;
            Ok(match table.value_type() {
                $(
                    Value::$single => table.$single_get().map(|it| LogValue::$single(it.value())),
                    Value::$array => match table.$array_get() {
                        Some(it) => {
                            let values: Option<Cow<'a, [_]>> = Take::read(it.value())?;
                            Some(LogValue::$array(values.unwrap_or_default()))
                        }
                        None => None,
                    },
                )+
                Value::NONE => None,
                Value(tag) => {
                    return Err(NotAMessage::UnknownMember { schema: Schema::$id, field: "value", tag });
                }
            })
        }

        fn $put(value: &LogValue<'_>, builder: &mut FlatBufferBuilder<'_>) -> Member<$schema::Value> {
            let (tag, table) = match value {
                $(
                    LogValue::$single(value) => (
                        $schema::Value::$single,
                        whole(builder, |builder| {
                            let args = $schema::$single_args { value: *value };
                            $schema::$single::create(builder, &args).as_union_value()
                        }),
                    ),
                    LogValue::$array(values) => {
                        let value = values.put(builder);
                        let args = $schema::$array_args { value };
                        ($schema::Value::$array, $schema::$array::create(builder, &args).as_union_value())
                    }
                )+
            };
            (tag, Some(table))
        }
    };
}

values! {
    Byte i8, value_as_byte ByteArgs; ArrayByte, value_as_array_byte ArrayByteArgs;
    UByte u8, value_as_ubyte UByteArgs; ArrayUByte, value_as_array_ubyte ArrayUByteArgs;
    Short i16, value_as_short ShortArgs; ArrayShort, value_as_array_short ArrayShortArgs;
    UShort u16, value_as_ushort UShortArgs; ArrayUShort, value_as_array_ushort ArrayUShortArgs;
    Int i32, value_as_int IntArgs; ArrayInt, value_as_array_int ArrayIntArgs;
    UInt u32, value_as_uint UIntArgs; ArrayUInt, value_as_array_uint ArrayUIntArgs;
    Long i64, value_as_long LongArgs; ArrayLong, value_as_array_long ArrayLongArgs;
    ULong u64, value_as_ulong ULongArgs; ArrayULong, value_as_array_ulong ArrayULongArgs;
    Float f32, value_as_float FloatArgs; ArrayFloat, value_as_array_float ArrayFloatArgs;
    Double f64, value_as_double DoubleArgs; ArrayDouble, value_as_array_double ArrayDoubleArgs;
}

enumeration! {
    /// State of an EPICS alarm (f142).
    #[expect(missing_docs, reason = "the names of EPICS, which explains them")]
    pub enum AlarmStatus: f142 AlarmStatus F142 "status" {
        NoAlarm = NO_ALARM "NO_ALARM",
        Read = READ "READ",
        Write = WRITE "WRITE",
        HiHi = HIHI "HIHI",
        High = HIGH "HIGH",
        LoLo = LOLO "LOLO",
        Low = LOW "LOW",
        State = STATE "STATE",
        Cos = COS "COS",
        Comm = COMM "COMM",
        Timed = TIMED "TIMED",
        HwLimit = HWLIMIT "HWLIMIT",
        Calc = CALC "CALC",
        Scan = SCAN "SCAN",
        Link = LINK "LINK",
        Soft = SOFT "SOFT",
        BadSub = BAD_SUB "BAD_SUB",
        Udf = UDF "UDF",
        Disable = DISABLE "DISABLE",
        Simm = SIMM "SIMM",
        ReadAccess = READ_ACCESS "READ_ACCESS",
        WriteAccess = WRITE_ACCESS "WRITE_ACCESS",
        NoChange = NO_CHANGE "NO_CHANGE",
    }
}

enumeration! {
    /// How bad (f142); its 0 is not "no alarm".
    pub enum AlarmSeverity: f142 AlarmSeverity F142 "severity" {
        /// Look at it some time.
        Minor = MINOR "MINOR",
        /// Look at it now.
        Major = MAJOR "MAJOR",
        /// All is well.
        NoAlarm = NO_ALARM "NO_ALARM",
        /// The value means nothing.
        Invalid = INVALID "INVALID",
        /// As before.
        NoChange = NO_CHANGE "NO_CHANGE",
    }
}

enumeration! {
    /// How bad (al00).
    pub enum StateSeverity: al00 Severity Al00 "severity" {
        /// All is well.
        Ok = OK "OK",
        /// Look at it some time.
        Minor = MINOR "MINOR",
        /// Look at it now.
        Major = MAJOR "MAJOR",
        /// The value means nothing.
        Invalid = INVALID "INVALID",
    }
}

table! {
    /// An alarm (al00).
    pub struct Alarm<'a>: al00 Alarm AlarmArgs {
        /// Channel.
        pub source_name: Option<&'a str>,
        /// ns since 1970 UTC.
        pub timestamp: i64,
        /// How bad.
        pub severity: StateSeverity,
        /// Words.
        pub message: Option<&'a str>,
    }
}

fn put142_if(
    value: &Option<LogValue<'_>>,
    builder: &mut FlatBufferBuilder<'_>,
) -> Member<f142::Value> {
    value.as_ref().map_or((f142::Value::NONE, None), |value| put142(value, builder))
}

fn take144_always<'a>(table: &f144::f144_LogData<'a>) -> Result<LogValue<'a>, NotAMessage> {
    let absent = NotAMessage::UnknownMember { schema: Schema::F144, field: "value", tag: 0 };
    take144(table)?.ok_or(absent)
}

union_table! {
    /// One value of a channel with its alarm (f142).
    pub struct LogEntry142<'a>: f142 LogData LogDataArgs {
        /// Channel.
        pub source_name: Option<&'a str>,
        /// Value.
        pub value(value_type take142 put142_if): Option<LogValue<'a>>,
        /// ns since 1970 UTC; 0 is invalid.
        pub timestamp: u64,
        /// State of the alarm.
        pub status: AlarmStatus,
        /// How bad it is.
        pub severity: AlarmSeverity,
    }
}

union_table! {
    /// One value of a channel (f144).
    pub struct LogEntry144<'a>: f144 f144_LogData f144_LogDataArgs {
        /// Channel.
        pub source_name: &'a str,
        /// ns since 1970 UTC.
        pub timestamp: i64,
        /// Value.
        pub value(value_type take144_always put144): LogValue<'a>,
    }
}
