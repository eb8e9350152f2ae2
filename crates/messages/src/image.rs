//! ad00, and its predecessor ADAr: an image of an area detector.
//!
//! Refuses number types that the schema does not name. Source: `docs/formats/flatbuffers.md` section 3.5; its types
//! begin with int8 = 0, unlike those of da00.

use std::borrow::Cow;

use flatbuffers::{FlatBufferBuilder, WIPOffset};

use super::field::{Put, PutTable, Take, enumeration, number_type, table};
use super::generated::adar;
use super::message::Schema;
use super::refused::NotAMessage;

enumeration! {
    /// What the bytes of an image are.
    #[expect(missing_docs, reason = "the names of the types")]
    pub enum PixelType: ad00 DType Ad00 "data_type" {
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
        Text = c_string "c_string",
    }
}

number_type!(PixelType);

table! {
    /// What else is known of an image.
    pub struct ImageAttribute<'a>: ad00 Attribute AttributeArgs {
        /// What it is.
        pub name: &'a str,
        /// Words.
        pub description: Option<&'a str>,
        /// Where it comes from.
        pub source: Option<&'a str>,
        /// What the bytes are.
        pub data_type: PixelType,
        /// The value, little-endian.
        pub data: &'a [u8],
    }
}

table! {
    /// An image (ad00).
    pub struct Image<'a>: ad00 ad00_ADArray ad00_ADArrayArgs {
        /// Who made it.
        pub source_name: &'a str,
        /// Running number.
        pub id: i32,
        /// ns since 1970 UTC.
        pub timestamp: i64,
        /// Length of each dimension.
        pub dimensions: Cow<'a, [i64]>,
        /// What the bytes are.
        pub data_type: PixelType,
        /// The values in C order, little-endian.
        pub data: &'a [u8],
        /// What else is known.
        pub attributes: Option<Vec<ImageAttribute<'a>>>,
    }
}

/// An image (ADAr).
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct OldImage<'a> {
    /// Who made it.
    pub source_name: &'a str,
    /// Running number.
    pub id: i32,
    /// ns since 1970 UTC.
    pub timestamp: u64,
    /// Length of each dimension.
    pub dimensions: Cow<'a, [u64]>,
    /// What the bytes are.
    pub data_type: PixelType,
    /// The values in C order, little-endian.
    pub data: &'a [u8],
    /// What else is known.
    pub attributes: Option<Vec<ImageAttribute<'a>>>,
}

/// The types of both schemas have the same numbers.
fn old_type(value: adar::DType) -> Result<PixelType, NotAMessage> {
    let found = PixelType::ALL.iter().find(|known| **known as i8 == value.0);
    found.copied().ok_or(NotAMessage::UnknownValue {
        schema: Schema::Adar,
        field: "data_type",
        value: value.0.into(),
    })
}

impl<'a> Take<adar::Attribute<'a>> for ImageAttribute<'a> {
    fn read(table: adar::Attribute<'a>) -> Result<Self, NotAMessage> {
        Ok(Self {
            name: table.name(),
            description: table.description(),
            source: table.source(),
            data_type: old_type(table.data_type())?,
            data: table.data().bytes(),
        })
    }
}

impl<'a> Take<adar::ADArray<'a>> for OldImage<'a> {
    fn read(table: adar::ADArray<'a>) -> Result<Self, NotAMessage> {
        Ok(Self {
            source_name: table.source_name(),
            id: table.id(),
            timestamp: table.timestamp(),
            dimensions: Take::read(table.dimensions())?,
            data_type: old_type(table.data_type())?,
            data: table.data().bytes(),
            attributes: Take::read(table.attributes())?,
        })
    }
}

impl PutTable for OldImage<'_> {
    type Table<'b> = adar::ADArray<'b>;
    fn put_table<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> WIPOffset<Self::Table<'b>> {
        let attribute = |builder: &mut FlatBufferBuilder<'b>, one: &ImageAttribute<'_>| {
            let args = adar::AttributeArgs {
                name: one.name.put(builder),
                description: one.description.put(builder),
                source: one.source.put(builder),
                data_type: adar::DType(one.data_type as i8),
                data: one.data.put(builder),
            };
            adar::Attribute::create(builder, &args)
        };
        let attributes = self.attributes.as_ref().map(|all| {
            let tables: Vec<_> = all.iter().map(|one| attribute(builder, one)).collect();
            builder.create_vector(&tables)
        });
        let args = adar::ADArrayArgs {
            source_name: self.source_name.put(builder),
            id: self.id,
            timestamp: self.timestamp,
            dimensions: self.dimensions.put(builder),
            data_type: adar::DType(self.data_type as i8),
            data: self.data.put(builder),
            attributes,
        };
        adar::ADArray::create(builder, &args)
    }
}
