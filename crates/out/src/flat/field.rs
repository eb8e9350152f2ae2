//! From generated accessors to plain fields and back: text, numbers, columns, enumerations, tables.
//!
//! Refuses numbers that an enumeration does not have. A column is copied out of the buffer, because its alignment there
//! is that of the message, not of memory; text and bytes are borrowed. Source: `docs/formats/flatbuffers.md` section 1.

use std::borrow::Cow;

use flatbuffers::{FlatBufferBuilder, Follow, ForwardsUOffset, Push, Vector, WIPOffset};

use super::refused::Refused;

/// Made of what a generated accessor gives.
pub(super) trait Take<G>: Sized {
    fn read(value: G) -> Result<Self, Refused>;
}

/// Written into a builder; gives what the generated arguments want.
pub(super) trait Put {
    type Put<'b>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b>;
}

macro_rules! scalars {
    ($($scalar:ty)+) => {$(
        impl Take<$scalar> for $scalar {
            fn read(value: $scalar) -> Result<Self, Refused> {
                Ok(value)
            }
        }
        impl Put for $scalar {
            type Put<'b> = $scalar;
            fn put<'b>(&self, _: &mut FlatBufferBuilder<'b>) -> $scalar {
                *self
            }
        }
    )+};
}
scalars! { bool i8 u8 i16 u16 i32 u32 i64 u64 f32 f64 }

impl<'a> Take<&'a str> for &'a str {
    fn read(value: &'a str) -> Result<Self, Refused> {
        Ok(value)
    }
}

impl<'a> Take<Option<&'a str>> for Option<&'a str> {
    fn read(value: Option<&'a str>) -> Result<Self, Refused> {
        Ok(value)
    }
}

impl Put for &str {
    type Put<'b> = Option<WIPOffset<&'b str>>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b> {
        Some(builder.create_string(self))
    }
}

impl Put for Option<&str> {
    type Put<'b> = Option<WIPOffset<&'b str>>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b> {
        self.map(|text| builder.create_string(text))
    }
}

impl<'a> Take<Vector<'a, u8>> for &'a [u8] {
    fn read(value: Vector<'a, u8>) -> Result<Self, Refused> {
        Ok(value.bytes())
    }
}

impl<'a> Take<Option<Vector<'a, u8>>> for Option<&'a [u8]> {
    fn read(value: Option<Vector<'a, u8>>) -> Result<Self, Refused> {
        Ok(value.map(|bytes| bytes.bytes()))
    }
}

impl Put for &[u8] {
    type Put<'b> = Option<WIPOffset<Vector<'b, u8>>>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b> {
        Some(builder.create_vector(self))
    }
}

impl Put for Option<&[u8]> {
    type Put<'b> = Option<WIPOffset<Vector<'b, u8>>>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b> {
        self.map(|bytes| builder.create_vector(bytes))
    }
}

impl<'a, T> Take<Vector<'a, T>> for Cow<'a, [T]>
where
    T: Follow<'a, Inner = T> + Clone + 'a,
{
    fn read(value: Vector<'a, T>) -> Result<Self, Refused> {
        Ok(Cow::Owned(value.iter().collect()))
    }
}

impl<'a, T> Take<Option<Vector<'a, T>>> for Option<Cow<'a, [T]>>
where
    T: Follow<'a, Inner = T> + Clone + 'a,
{
    fn read(value: Option<Vector<'a, T>>) -> Result<Self, Refused> {
        value.map(Cow::read).transpose()
    }
}

impl<T: Push<Output = T> + Clone + 'static> Put for Cow<'_, [T]> {
    type Put<'b> = Option<WIPOffset<Vector<'b, T>>>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b> {
        Some(builder.create_vector(self))
    }
}

impl<T: Push<Output = T> + Clone + 'static> Put for Option<Cow<'_, [T]>> {
    type Put<'b> = Option<WIPOffset<Vector<'b, T>>>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b> {
        self.as_ref().map(|column| builder.create_vector(column))
    }
}

/// Names, or nothing.
impl<'a> Take<Option<Vector<'a, ForwardsUOffset<&'a str>>>> for Option<Vec<&'a str>> {
    fn read(value: Option<Vector<'a, ForwardsUOffset<&'a str>>>) -> Result<Self, Refused> {
        Ok(value.map(|names| names.iter().collect()))
    }
}

impl Put for Option<Vec<&str>> {
    type Put<'b> = Option<WIPOffset<Vector<'b, ForwardsUOffset<&'b str>>>>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b> {
        self.as_ref().map(|names| {
            let names: Vec<_> = names.iter().map(|name| builder.create_string(name)).collect();
            builder.create_vector(&names)
        })
    }
}

/// A message's table: fields in the order of its slots, read from and written to one generated type, which is named by
/// its schema, its own name and that of its arguments.
macro_rules! table {
    ($(#[$doc:meta])* pub struct $name:ident $(<$life:lifetime>)? : $schema:ident $table:ident $args:ident {
        $($(#[$field_doc:meta])* pub $field:ident: $kind:ty,)+
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        pub struct $name $(<$life>)? { $($(#[$field_doc])* pub $field: $kind,)+ }

        impl<$($life)?> $crate::flat::field::Take<$crate::flat::field::table!(@gen $schema $table $($life)?)>
            for $name $(<$life>)?
        {
            fn read(
                table: $crate::flat::field::table!(@gen $schema $table $($life)?),
            ) -> Result<Self, $crate::flat::refused::Refused> {
                Ok(Self { $($field: $crate::flat::field::Take::read(table.$field())?,)+ })
            }
        }

        impl<$($life)?>
            $crate::flat::field::Take<Option<$crate::flat::field::table!(@gen $schema $table $($life)?)>>
            for Option<$name $(<$life>)?>
        {
            fn read(
                table: Option<$crate::flat::field::table!(@gen $schema $table $($life)?)>,
            ) -> Result<Self, $crate::flat::refused::Refused> {
                table.map($crate::flat::field::Take::read).transpose()
            }
        }

        impl<$($life)?> $crate::flat::field::PutTable for $name $(<$life>)? {
            type Table<'g> = $crate::flat::generated::$schema::$table<'g>;
            fn put_table<'g>(
                &self,
                builder: &mut flatbuffers::FlatBufferBuilder<'g>,
            ) -> flatbuffers::WIPOffset<Self::Table<'g>> {
                let args = $crate::flat::generated::$schema::$args {
                    $($field: $crate::flat::field::Put::put(&self.$field, builder),)+
                };
                $crate::flat::field::whole(builder, |builder| {
                    $crate::flat::generated::$schema::$table::create(builder, &args)
                })
            }
        }
    };
    (@gen $schema:ident $table:ident) => { $crate::flat::generated::$schema::$table<'_> };
    (@gen $schema:ident $table:ident $life:lifetime) => { $crate::flat::generated::$schema::$table<$life> };
}
pub(super) use table;

/// Makes a table with every scalar in it, one equal to its default too: -0.0 equals 0.0 and would lose its sign. Not
/// for tables with a union: its tag must be absent where its table is.
pub(super) fn whole<'b, T>(
    builder: &mut FlatBufferBuilder<'b>,
    make: impl FnOnce(&mut FlatBufferBuilder<'b>) -> T,
) -> T {
    builder.force_defaults(true);
    let made = make(builder);
    builder.force_defaults(false);
    made
}

/// A table written into a builder.
pub(super) trait PutTable {
    type Table<'b>: 'b;
    fn put_table<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> WIPOffset<Self::Table<'b>>;
}

impl<T: PutTable> Put for Option<T> {
    type Put<'b> = Option<WIPOffset<T::Table<'b>>>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b> {
        self.as_ref().map(|table| table.put_table(builder))
    }
}

/// An enumeration of a schema, with the names that it has there.
macro_rules! enumeration {
    ($(#[$doc:meta])* pub enum $name:ident : $schema:ident $generated:ident $id:ident $field:literal {
        $($(#[$variant_doc:meta])* $variant:ident = $theirs:ident $text:literal,)+
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)+ }

        impl $name {
            /// Every value, in the order of the schema.
            pub const ALL: &[Self] = &[$(Self::$variant),+];
        }

        impl $crate::flat::field::Take<$crate::flat::generated::$schema::$generated> for $name {
            fn read(
                value: $crate::flat::generated::$schema::$generated,
            ) -> Result<Self, $crate::flat::refused::Refused> {
                use $crate::flat::generated::$schema::$generated as Generated;
                match value {
                    $(Generated::$theirs => Ok(Self::$variant),)+
                    Generated(other) => Err($crate::flat::refused::Refused::UnknownValue {
                        schema: $crate::flat::message::Schema::$id,
                        field: $field,
                        value: other.into(),
                    }),
                }
            }
        }

        impl $crate::flat::field::Put for $name {
            type Put<'b> = $crate::flat::generated::$schema::$generated;
            fn put<'b>(&self, _: &mut flatbuffers::FlatBufferBuilder<'b>) -> Self::Put<'b> {
                use $crate::flat::generated::$schema::$generated as Generated;
                match self { $(Self::$variant => Generated::$theirs,)+ }
            }
        }
    };
}
pub(super) use enumeration;
