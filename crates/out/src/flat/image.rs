//! ad00, and its predecessor ADAr: an image of an area detector.
//!
//! Refuses number types that the schema does not name. Source: `docs/formats/flatbuffers.md` section 3.5; its types
//! begin with int8 = 0, unlike those of da00.

use std::borrow::Cow;

use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, Vector, WIPOffset};

use super::field::{Put, PutTable, Take, enumeration, table};
use super::generated::{ad00, adar};
use super::message::Schema;
use super::refused::Refused;

enumeration! {
    /// What the bytes of an image are.
    pub enum PixelType: ad00 DType Ad00 "data_type" {
        /// i8.
        Int8 = int8 "int8",
        /// u8.
        Uint8 = uint8 "uint8",
        /// i16.
        Int16 = int16 "int16",
        /// u16.
        Uint16 = uint16 "uint16",
        /// i32.
        Int32 = int32 "int32",
        /// u32.
        Uint32 = uint32 "uint32",
        /// i64.
        Int64 = int64 "int64",
        /// u64.
        Uint64 = uint64 "uint64",
        /// f32.
        Float32 = float32 "float32",
        /// f64.
        Float64 = float64 "float64",
        /// Text.
        Text = c_string "c_string",
    }
}

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

impl<'a> Take<Option<Vector<'a, ForwardsUOffset<ad00::Attribute<'a>>>>>
    for Option<Vec<ImageAttribute<'a>>>
{
    fn read(
        value: Option<Vector<'a, ForwardsUOffset<ad00::Attribute<'a>>>>,
    ) -> Result<Self, Refused> {
        value.map(|all| all.iter().map(Take::read).collect()).transpose()
    }
}

impl Put for Option<Vec<ImageAttribute<'_>>> {
    type Put<'b> = Option<WIPOffset<Vector<'b, ForwardsUOffset<ad00::Attribute<'b>>>>>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b> {
        self.as_ref().map(|all| {
            let tables: Vec<_> = all.iter().map(|one| one.put_table(builder)).collect();
            builder.create_vector(&tables)
        })
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
fn old_type(value: adar::DType) -> Result<PixelType, Refused> {
    let found = PixelType::ALL.iter().find(|known| **known as i8 == value.0);
    found.copied().ok_or(Refused::UnknownValue {
        schema: Schema::Adar,
        field: "data_type",
        value: value.0.into(),
    })
}

impl<'a> Take<adar::Attribute<'a>> for ImageAttribute<'a> {
    fn read(table: adar::Attribute<'a>) -> Result<Self, Refused> {
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
    fn read(table: adar::ADArray<'a>) -> Result<Self, Refused> {
        let attributes = table.attributes();
        Ok(Self {
            source_name: table.source_name(),
            id: table.id(),
            timestamp: table.timestamp(),
            dimensions: Take::read(table.dimensions())?,
            data_type: old_type(table.data_type())?,
            data: table.data().bytes(),
            attributes: attributes.map(|all| all.iter().map(Take::read).collect()).transpose()?,
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
