//! From generated accessors to plain fields and back: text, numbers, columns, enumerations, tables.
//!
//! Refuses numbers that an enumeration does not have. A column is copied out of the buffer, because its alignment there
//! is that of the message, not of memory; text and bytes are borrowed. Source: `docs/formats/flatbuffers.md` section 1.

use std::borrow::Cow;

use flatbuffers::{
    FlatBufferBuilder, Follow, ForwardsUOffset, Push, UnionWIPOffset, Vector, WIPOffset,
};

use super::refused::NotAMessage;

/// Made of what a generated accessor gives.
pub(super) trait Take<G>: Sized {
    fn read(value: G) -> Result<Self, NotAMessage>;
}

/// Written into a builder; gives what the generated arguments want.
pub(super) trait Put {
    type Put<'b>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b>;
}

macro_rules! scalars {
    ($($scalar:ty)+) => {$(
        impl Take<$scalar> for $scalar {
            fn read(value: $scalar) -> Result<Self, NotAMessage> {
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
    fn read(value: &'a str) -> Result<Self, NotAMessage> {
        Ok(value)
    }
}

impl<'a> Take<Option<&'a str>> for Option<&'a str> {
    fn read(value: Option<&'a str>) -> Result<Self, NotAMessage> {
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
    fn read(value: Vector<'a, u8>) -> Result<Self, NotAMessage> {
        Ok(value.bytes())
    }
}

impl<'a> Take<Option<Vector<'a, u8>>> for Option<&'a [u8]> {
    fn read(value: Option<Vector<'a, u8>>) -> Result<Self, NotAMessage> {
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
    fn read(value: Vector<'a, T>) -> Result<Self, NotAMessage> {
        Ok(Cow::Owned(value.iter().collect()))
    }
}

impl<'a, T> Take<Option<Vector<'a, T>>> for Option<Cow<'a, [T]>>
where
    T: Follow<'a, Inner = T> + Clone + 'a,
{
    fn read(value: Option<Vector<'a, T>>) -> Result<Self, NotAMessage> {
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
impl Put for Option<Vec<&str>> {
    type Put<'b> = Option<WIPOffset<Vector<'b, ForwardsUOffset<&'b str>>>>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b> {
        self.as_ref().map(|names| {
            let names: Vec<_> = names.iter().map(|name| builder.create_string(name)).collect();
            builder.create_vector(&names)
        })
    }
}

/// Tables, or names.
impl<'a, G, T> Take<Vector<'a, ForwardsUOffset<G>>> for Vec<T>
where
    G: Follow<'a, Inner = G> + 'a,
    T: Take<G>,
{
    fn read(value: Vector<'a, ForwardsUOffset<G>>) -> Result<Self, NotAMessage> {
        value.iter().map(Take::read).collect()
    }
}

impl<'a, G, T> Take<Option<Vector<'a, ForwardsUOffset<G>>>> for Option<Vec<T>>
where
    G: Follow<'a, Inner = G> + 'a,
    T: Take<G>,
{
    fn read(value: Option<Vector<'a, ForwardsUOffset<G>>>) -> Result<Self, NotAMessage> {
        value.map(Take::read).transpose()
    }
}

impl<T: PutTable> Put for Vec<T> {
    type Put<'b> = Option<WIPOffset<Vector<'b, ForwardsUOffset<T::Table<'b>>>>>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b> {
        let tables: Vec<_> = self.iter().map(|table| table.put_table(builder)).collect();
        Some(builder.create_vector(&tables))
    }
}

impl<T: PutTable> Put for Option<Vec<T>> {
    type Put<'b> = Option<WIPOffset<Vector<'b, ForwardsUOffset<T::Table<'b>>>>>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b> {
        self.as_ref().and_then(|tables| tables.put(builder))
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

        impl<$($life)?> $crate::field::Take<$crate::field::table!(@gen $schema $table $($life)?)>
            for $name $(<$life>)?
        {
            fn read(
                table: $crate::field::table!(@gen $schema $table $($life)?),
            ) -> Result<Self, $crate::refused::NotAMessage> {
                Ok(Self { $($field: $crate::field::Take::read(table.$field())?,)+ })
            }
        }

        impl<$($life)?>
            $crate::field::Take<Option<$crate::field::table!(@gen $schema $table $($life)?)>>
            for Option<$name $(<$life>)?>
        {
            fn read(
                table: Option<$crate::field::table!(@gen $schema $table $($life)?)>,
            ) -> Result<Self, $crate::refused::NotAMessage> {
                table.map($crate::field::Take::read).transpose()
            }
        }

        impl<$($life)?> $crate::field::PutTable for $name $(<$life>)? {
            type Table<'g> = $crate::generated::$schema::$table<'g>;
            fn put_table<'g>(
                &self,
                builder: &mut flatbuffers::FlatBufferBuilder<'g>,
            ) -> flatbuffers::WIPOffset<Self::Table<'g>> {
                let args = $crate::generated::$schema::$args {
                    $($field: $crate::field::Put::put(&self.$field, builder),)+
                };
                $crate::field::whole(builder, |builder| {
                    $crate::generated::$schema::$table::create(builder, &args)
                })
            }
        }
    };
    (@gen $schema:ident $table:ident) => { $crate::generated::$schema::$table<'_> };
    (@gen $schema:ident $table:ident $life:lifetime) => { $crate::generated::$schema::$table<$life> };
}
pub(super) use table;

/// As [`table`], for a message with unions: of each, the field of its tag and the functions that take and put it.
macro_rules! union_table {
    ($(#[$doc:meta])* pub struct $name:ident<$life:lifetime>: $schema:ident $table:ident $args:ident {
        $($(#[$field_doc:meta])* pub $field:ident $(($tag:ident $take:ident $put:ident))?: $kind:ty,)+
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        pub struct $name<$life> { $($(#[$field_doc])* pub $field: $kind,)+ }

        impl<$life> $crate::field::Take<$crate::generated::$schema::$table<$life>> for $name<$life> {
            fn read(
                table: $crate::generated::$schema::$table<$life>,
            ) -> Result<Self, $crate::refused::NotAMessage> {
                Ok(Self { $($field: $crate::field::union_table!(@take table $field $($take)?),)+ })
            }
        }

        impl $crate::field::PutTable for $name<'_> {
            type Table<'g> = $crate::generated::$schema::$table<'g>;
            fn put_table<'g>(
                &self,
                builder: &mut flatbuffers::FlatBufferBuilder<'g>,
            ) -> flatbuffers::WIPOffset<Self::Table<'g>> {
                $(let $field = $crate::field::union_table!(@put self builder $field $($put)?);)+
                let args = $crate::generated::$schema::$args {
                    $($($tag: $field.0,)? $field: $crate::field::union_table!(@offset $field $($tag)?),)+
                };
                $crate::generated::$schema::$table::create(builder, &args)
            }
        }
    };
    (@take $table:ident $field:ident) => { $crate::field::Take::read($table.$field())? };
    (@take $table:ident $field:ident $take:ident) => { $take(&$table)? };
    (@put $self:ident $builder:ident $field:ident) => { $crate::field::Put::put(&$self.$field, $builder) };
    (@put $self:ident $builder:ident $field:ident $put:ident) => { $put(&$self.$field, $builder) };
    (@offset $field:ident) => { $field };
    (@offset $field:ident $tag:ident) => { $field.1 };
}
pub(super) use union_table;

/// Tag of a union and its table, if there is one.
pub(super) type Member<T> = (T, Option<WIPOffset<UnionWIPOffset>>);

/// Functions that take and put a union of tables, a variant for each.
macro_rules! union {
    ($take:ident $put:ident: $schema:ident $table:ident $generated:ident $tag:ident $id:ident $field:literal,
     $name:ident { $($variant:ident $theirs:ident $get:ident,)+ }) => {
        fn $take<'a>(
            table: &$crate::generated::$schema::$table<'a>,
        ) -> Result<Option<$name<'a>>, $crate::refused::NotAMessage> {
            use $crate::generated::$schema::$generated as Tag;
            match table.$tag() {
                Tag::NONE => Ok(None),
                $(Tag::$theirs => Ok(Option::read(table.$get())?.map($name::$variant)),)+
                Tag(tag) => Err($crate::refused::NotAMessage::UnknownMember {
                    schema: $crate::message::Schema::$id,
                    field: $field,
                    tag,
                }),
            }
        }

        fn $put(
            value: &Option<$name<'_>>,
            builder: &mut flatbuffers::FlatBufferBuilder<'_>,
        ) -> $crate::field::Member<$crate::generated::$schema::$generated> {
            use $crate::generated::$schema::$generated as Tag;
            match value {
                None => (Tag::NONE, None),
                $(Some($name::$variant(it)) => {
                    (Tag::$theirs, Some(it.put_table(builder).as_union_value()))
                })+
            }
        }
    };
}
pub(super) use union;

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

        impl $crate::field::Take<$crate::generated::$schema::$generated> for $name {
            fn read(
                value: $crate::generated::$schema::$generated,
            ) -> Result<Self, $crate::refused::NotAMessage> {
                use $crate::generated::$schema::$generated as Generated;
                match value {
                    $(Generated::$theirs => Ok(Self::$variant),)+
                    Generated(other) => Err($crate::refused::NotAMessage::UnknownValue {
                        schema: $crate::message::Schema::$id,
                        field: $field,
                        value: other.into(),
                    }),
                }
            }
        }

        impl $crate::field::Put for $name {
            type Put<'b> = $crate::generated::$schema::$generated;
            fn put<'b>(&self, _: &mut flatbuffers::FlatBufferBuilder<'b>) -> Self::Put<'b> {
                use $crate::generated::$schema::$generated as Generated;
                match self { $(Self::$variant => Generated::$theirs,)+ }
            }
        }
    };
}
pub(super) use enumeration;

/// The number that a value of an enumeration of types is.
macro_rules! number_type {
    ($of:ident) => {
        impl $of {
            /// The type of number; `None`: it is none.
            pub fn number(self) -> Option<fullcount_core::number::NumberType> {
                use fullcount_core::number::NumberType as N;
                Some(match self {
                    $of::Int8 => N::I8,
                    $of::Uint8 => N::U8,
                    $of::Int16 => N::I16,
                    $of::Uint16 => N::U16,
                    $of::Int32 => N::I32,
                    $of::Uint32 => N::U32,
                    $of::Int64 => N::I64,
                    $of::Uint64 => N::U64,
                    $of::Float32 => N::F32,
                    $of::Float64 => N::F64,
                    _ => return None,
                })
            }
        }
    };
}
pub(super) use number_type;
