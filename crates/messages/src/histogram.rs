//! hs00 and hs01: histograms of any number of dimensions, unsigned and signed.
//!
//! Source: `docs/formats/flatbuffers.md` section 3.3.

macro_rules! histogram {
    ($schema:ident $id:ident $name:ident $dimension:ident $values:ident: $int:ty, $long:ty;
     $int_member:ident $int_args:ident $long_member:ident $long_args:ident;
     $data_int:ident $data_long:ident $errors_int:ident $errors_long:ident $bins_int:ident $bins_long:ident;
     $take_data:ident $take_errors:ident $take_bins:ident $put:ident) => {
        #[doc = concat!("Numbers of a ", stringify!($schema), " histogram, row-major; none if the vector is absent.")]
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(tag = "type", content = "value")]
        pub enum $values<'a> {
            /// 32-bit integers.
            $int_member(Cow<'a, [$int]>),
            /// 64-bit integers.
            $long_member(Cow<'a, [$long]>),
            /// f64.
            ArrayDouble(Cow<'a, [f64]>),
            /// f32.
            ArrayFloat(Cow<'a, [f32]>),
        }

        impl $values<'_> {
            /// How many.
            pub fn len(&self) -> usize {
                match self {
                    Self::$int_member(values) => values.len(),
                    Self::$long_member(values) => values.len(),
                    Self::ArrayDouble(values) => values.len(),
                    Self::ArrayFloat(values) => values.len(),
                }
            }

            /// True without any.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        union_table! {
            #[doc = concat!("A dimension of a ", stringify!($schema), " histogram.")]
            pub struct $dimension<'a>: $schema DimensionMetaData DimensionMetaDataArgs {
                /// Bins of the whole histogram in this dimension.
                pub length: $int,
                /// Unit of the boundaries.
                pub unit: Option<&'a str>,
                /// What it is.
                pub label: Option<&'a str>,
                /// `length` + 1 boundaries, monotonic.
                pub bin_boundaries(bin_boundaries_type $take_bins $put): Option<$values<'a>>,
            }
        }

        union_table! {
            #[doc = concat!("A histogram, or a block of one (", stringify!($schema), ").")]
            pub struct $name<'a>: $schema EventHistogram EventHistogramArgs {
                /// Who made it.
                pub source: Option<&'a str>,
                /// ns since 1970 UTC.
                pub timestamp: $long,
                /// One for each dimension, of the whole histogram.
                pub dim_metadata: Option<Vec<$dimension<'a>>>,
                /// When that changed last, ns since 1970 UTC.
                pub last_metadata_timestamp: $long,
                /// Shape of `data`.
                pub current_shape: Cow<'a, [$int]>,
                /// Where this block starts in the whole; absent is 0.
                pub offset: Option<Cow<'a, [$int]>>,
                /// Counts.
                pub data(data_type $take_data $put): Option<$values<'a>>,
                /// Their errors, as many.
                pub errors(errors_type $take_errors $put): Option<$values<'a>>,
                /// Text; one producer puts JSON here.
                pub info: Option<&'a str>,
            }
        }

        histogram!(@take $schema $id $values EventHistogram $take_data data_type "data";
            $int_member $data_int $long_member $data_long data_as_array_double data_as_array_float);
        histogram!(@take $schema $id $values EventHistogram $take_errors errors_type "errors";
            $int_member $errors_int $long_member $errors_long errors_as_array_double errors_as_array_float);
        histogram!(@take $schema $id $values DimensionMetaData $take_bins bin_boundaries_type "bin_boundaries";
            $int_member $bins_int $long_member $bins_long bin_boundaries_as_array_double bin_boundaries_as_array_float);

        fn $put(
            values: &Option<$values<'_>>,
            builder: &mut FlatBufferBuilder<'_>,
        ) -> Member<$schema::Array> {
            match values {
                None => ($schema::Array::NONE, None),
                Some($values::$int_member(values)) => {
                    let args = $schema::$int_args { value: values.put(builder) };
                    ($schema::Array::$int_member, Some($schema::$int_member::create(builder, &args).as_union_value()))
                }
                Some($values::$long_member(values)) => {
                    let args = $schema::$long_args { value: values.put(builder) };
                    ($schema::Array::$long_member, Some($schema::$long_member::create(builder, &args).as_union_value()))
                }
                Some($values::ArrayDouble(values)) => {
                    let args = $schema::ArrayDoubleArgs { value: values.put(builder) };
                    ($schema::Array::ArrayDouble, Some($schema::ArrayDouble::create(builder, &args).as_union_value()))
                }
                Some($values::ArrayFloat(values)) => {
                    let args = $schema::ArrayFloatArgs { value: values.put(builder) };
                    ($schema::Array::ArrayFloat, Some($schema::ArrayFloat::create(builder, &args).as_union_value()))
                }
            }
        }
    };
    (@take $schema:ident $id:ident $values:ident $table:ident $take:ident $tag:ident $field:literal;
     $int_member:ident $int:ident $long_member:ident $long:ident $double:ident $float:ident) => {
        fn $take<'a>(table: &$schema::$table<'a>) -> Result<Option<$values<'a>>, NotAMessage> {
            use $schema::Array;
            Ok(match table.$tag() {
                Array::NONE => None,
                Array::$int_member => table.$int().map(|it| column(it.value())).map($values::$int_member),
                Array::$long_member => table.$long().map(|it| column(it.value())).map($values::$long_member),
                Array::ArrayDouble => table.$double().map(|it| column(it.value())).map($values::ArrayDouble),
                Array::ArrayFloat => table.$float().map(|it| column(it.value())).map($values::ArrayFloat),
                Array(tag) => {
                    return Err(NotAMessage::UnknownMember { schema: Schema::$id, field: $field, tag });
                }
            })
        }
    };
}

use std::borrow::Cow;

use flatbuffers::{FlatBufferBuilder, Follow, Vector};

use super::field::{Member, Put, union_table};
use super::generated::{hs00, hs01};
use super::message::Schema;
use super::refused::NotAMessage;

histogram! {
    hs00 Hs00 Histogram00 Dimension00 Values00: u32, u64;
    ArrayUInt ArrayUIntArgs ArrayULong ArrayULongArgs;
    data_as_array_uint data_as_array_ulong errors_as_array_uint errors_as_array_ulong
    bin_boundaries_as_array_uint bin_boundaries_as_array_ulong;
    data00 errors00 bins00 put00
}

histogram! {
    hs01 Hs01 Histogram01 Dimension01 Values01: i32, i64;
    ArrayInt ArrayIntArgs ArrayLong ArrayLongArgs;
    data_as_array_int data_as_array_long errors_as_array_int errors_as_array_long
    bin_boundaries_as_array_int bin_boundaries_as_array_long;
    data01 errors01 bins01 put01
}

/// The numbers of a vector; none if it is absent.
fn column<'a, T: Follow<'a, Inner = T> + Clone + 'a>(
    vector: Option<Vector<'a, T>>,
) -> Cow<'a, [T]> {
    Cow::Owned(vector.map(|vector| vector.iter().collect()).unwrap_or_default())
}
