//! da00: labelled arrays, which carry histograms and images.
//!
//! Source: `docs/formats/flatbuffers.md` section 3.4. Readers go by name (`signal`, `errors`) or by position: send edges
//! first, then `signal`, then the rest.

use std::borrow::Cow;

use flatbuffers::{FlatBufferBuilder, WIPOffset};
use fullcount_core::number::NumberType;
use fullcount_core::with_number;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::field::{Put, PutTable, Take, enumeration, number_type, table};
use super::generated::da00;
use super::refused::NotAMessage;

enumeration! {
    /// What the bytes of a variable are.
    #[expect(missing_docs, reason = "the names of the types")]
    pub enum DataType: da00 da00_dtype Da00 "data_type" {
        None = none "none",
        Int8 = int8 "int8",
        Uint8 = uint8 "uint8",
        Int16 = int16 "int16",
        Uint16 = uint16 "uint16",
        Int32 = int32 "int32",
        Uint32 = uint32 "uint32",
        Int64 = int64 "int64",
        Uint64 = uint64 "uint64",
        Float32 = float32 "float32",
        Float64 = float64 "float64",
        /// Text without terminator; the shape is its length in bytes.
        Text = c_string "c_string",
    }
}

number_type!(DataType);

impl DataType {
    /// Bytes of one value; 1 for text and if no type is given.
    pub fn bytes(self) -> usize {
        self.number().map_or(1, NumberType::bytes)
    }
}

/// One array with its name and axes. Serialised with `values` in place of `data`.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable<'a> {
    /// What it is: `signal`, `errors`, the name of an axis.
    pub name: &'a str,
    /// Unit, for example `ns` or `counts`.
    pub unit: Option<&'a str>,
    /// Text for people.
    pub label: Option<&'a str>,
    /// Where it comes from, for example a control-system channel.
    pub source: Option<&'a str>,
    /// What the bytes are.
    pub data_type: DataType,
    /// Names of the dimensions, slowest first.
    pub axes: Option<Vec<&'a str>>,
    /// Length of each dimension.
    pub shape: Cow<'a, [i64]>,
    /// The values in C order, little-endian.
    pub data: &'a [u8],
}

impl Variable<'_> {
    /// True if the shape asks for exactly the bytes that are there.
    pub fn fits(&self) -> bool {
        let values =
            self.shape.iter().try_fold(1u64, |n, &d| n.checked_mul(u64::try_from(d).ok()?));
        values.and_then(|n| n.checked_mul(self.data_type.bytes() as u64))
            == Some(self.data.len() as u64)
    }
}

impl<'a> Take<da00::da00_Variable<'a>> for Variable<'a> {
    fn read(table: da00::da00_Variable<'a>) -> Result<Self, NotAMessage> {
        Ok(Self {
            name: table.name(),
            unit: table.unit(),
            label: table.label(),
            source: table.source(),
            data_type: Take::read(table.data_type())?,
            axes: Take::read(table.axes())?,
            shape: Take::read(table.shape())?,
            data: table.data().bytes(),
        })
    }
}

impl PutTable for Variable<'_> {
    type Table<'b> = da00::da00_Variable<'b>;
    fn put_table<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> WIPOffset<Self::Table<'b>> {
        let args = da00::da00_VariableArgs {
            name: self.name.put(builder),
            unit: self.unit.put(builder),
            label: self.label.put(builder),
            source: self.source.put(builder),
            data_type: self.data_type.put(builder),
            axes: self.axes.put(builder),
            shape: self.shape.put(builder),
            data: self.data.put(builder),
        };
        da00::da00_Variable::create(builder, &args)
    }
}

table! {
    /// Variables that belong together.
    pub struct DataArray<'a>: da00 da00_DataArray da00_DataArrayArgs {
        /// Who made it.
        pub source_name: &'a str,
        /// ns since 1970 UTC.
        pub timestamp: i64,
        /// The variables; edges first, then `signal`.
        pub data: Vec<Variable<'a>>,
    }
}

impl Serialize for Variable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Variable", 8)?;
        out.serialize_field("name", self.name)?;
        out.serialize_field("unit", &self.unit)?;
        out.serialize_field("label", &self.label)?;
        out.serialize_field("source", &self.source)?;
        out.serialize_field("data_type", &self.data_type)?;
        out.serialize_field("axes", &self.axes)?;
        out.serialize_field("shape", &self.shape)?;
        out.serialize_field("values", &Values { data_type: self.data_type, data: self.data })?;
        out.end()
    }
}

/// The bytes as values of their type; bytes after the last whole value are not shown.
struct Values<'a> {
    data_type: DataType,
    data: &'a [u8],
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = match self.data_type {
            DataType::Text => {
                return serializer.collect_str(&String::from_utf8_lossy(self.data));
            }
            other => other.number().unwrap_or(NumberType::U8),
        };
        with_number!(number, T => {
            let values = self.data.as_chunks().0;
            serializer.collect_seq(values.iter().map(|bytes| T::from_le_bytes(*bytes)))
        })
    }
}
