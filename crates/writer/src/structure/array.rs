//! Values out of JSON: a scalar or nested lists, of one type.
//!
//! Refuses ragged lists and values that the type cannot hold: a number is never rounded or cut on its way to an
//! integer type. Source: `docs/formats/nexus.md` section 7, "dataset".

use fullcount_core::number::NumberType;
use fullcount_core::with_number;
use serde_json::Value;

use super::budget::Budget;
use super::error::{StructureError, StructureFault, fault};

/// A type as a structure names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Number(NumberType),
    Text,
}

/// The type called `name`, in any of the ways that structures have.
pub(super) fn named(name: &str) -> Option<Named> {
    let number = match name.to_ascii_lowercase().as_str() {
        "int8" | "byte" => NumberType::I8,
        "uint8" | "ubyte" | "bool" => NumberType::U8,
        "int16" | "short" => NumberType::I16,
        "uint16" | "ushort" => NumberType::U16,
        "int32" | "int" | "integer" => NumberType::I32,
        "uint32" | "uint" => NumberType::U32,
        "int64" | "long" => NumberType::I64,
        "uint64" | "ulong" => NumberType::U64,
        "float" | "float32" => NumberType::F32,
        "double" | "float64" => NumberType::F64,
        "string" | "str" | "c_string" => return Some(Named::Text),
        _ => return None,
    };
    Some(Named::Number(number))
}

/// Makes the values of an array, of each type of number and of text.
macro_rules! values {
    ($($name:ident $number:ty),+) => {
        /// Values of one type.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum ArrayValues { $($name(Vec<$number>),)+ Text(Vec<String>) }

        $(impl From<Vec<$number>> for ArrayValues {
            fn from(values: Vec<$number>) -> ArrayValues {
                ArrayValues::$name(values)
            }
        })+

        impl ArrayValues {
            /// Bytes that they take in a file, about.
            fn bytes(&self) -> usize {
                match self {
                    $(ArrayValues::$name(v) => size_of_val(&v[..]),)+
                    ArrayValues::Text(v) => v.iter().map(|text| text.len() + TEXT as usize).sum(),
                }
            }
        }
    };
}
values! { I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64, F32 f32, F64 f64 }

/// Values with their shape, in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Length of each dimension; none for a scalar.
    pub shape: Vec<usize>,
    /// The values.
    pub values: ArrayValues,
}

impl Array {
    /// Bytes that the values take in a file, about.
    pub fn bytes(&self) -> u64 {
        self.values.bytes() as u64
    }

    /// One text.
    pub fn of_text(text: impl Into<String>) -> Array {
        Array { shape: Vec::new(), values: ArrayValues::Text(vec![text.into()]) }
    }

    /// The text, if it is one alone.
    pub fn text(&self) -> Option<&str> {
        match &self.values {
            ArrayValues::Text(all) if self.shape.is_empty() => all.first().map(String::as_str),
            _ => None,
        }
    }

    /// The values as integers, if that is what they are.
    pub fn integers(&self) -> Option<Box<dyn Iterator<Item = i64> + '_>> {
        Some(match &self.values {
            ArrayValues::I8(v) => Box::new(v.iter().map(|&n| n.into())),
            ArrayValues::U8(v) => Box::new(v.iter().map(|&n| n.into())),
            ArrayValues::I16(v) => Box::new(v.iter().map(|&n| n.into())),
            ArrayValues::U16(v) => Box::new(v.iter().map(|&n| n.into())),
            ArrayValues::I32(v) => Box::new(v.iter().map(|&n| n.into())),
            ArrayValues::U32(v) => Box::new(v.iter().map(|&n| n.into())),
            ArrayValues::I64(v) => Box::new(v.iter().copied()),
            ArrayValues::U64(v) if v.iter().any(|&n| i64::try_from(n).is_err()) => return None,
            ArrayValues::U64(v) => Box::new(v.iter().map(|&n| n as i64)),
            ArrayValues::F32(_) | ArrayValues::F64(_) | ArrayValues::Text(_) => return None,
        })
    }

    /// Reads `value` as `dtype`; without one, text is text, whole numbers are int64, and others `other`. Refuses what is
    /// above the `budget`.
    pub(super) fn read(
        value: &Value,
        dtype: Option<Named>,
        other: NumberType,
        budget: &Budget,
        at: &str,
    ) -> Result<Array, StructureError> {
        let mut shape = Vec::new();
        let mut flat = Vec::new();
        flatten(value, 0, &mut shape, &mut flat, at)?;
        let dtype = dtype.unwrap_or_else(|| guess(&flat, other));
        let bytes = match dtype {
            Named::Number(number) => (flat.len() * number.bytes()) as u64,
            // Numbers as text are short.
            Named::Text => flat.iter().map(|v| v.as_str().map_or(8, str::len) as u64 + TEXT).sum(),
        };
        budget.constant(bytes, format!("an array of {shape:?}"), at)?;
        Ok(Array { shape, values: convert(&flat, dtype, at)? })
    }

    /// `size` numbers (at least 2) of the same distance from `first` to `last`. Refuses what is above the `budget`,
    /// and numbers that the type cannot hold.
    pub(super) fn spaced(
        (first, last, size): (f64, f64, u64),
        dtype: NumberType,
        budget: &Budget,
        at: &str,
    ) -> Result<Array, StructureError> {
        let bytes = size.saturating_mul(dtype.bytes() as u64);
        budget.constant(bytes, format!("a constant of {size} values"), at)?;
        let size = size as usize;
        let step = (last - first) / (size - 1) as f64;
        let value = |i: usize| if i + 1 == size { last } else { first + step * i as f64 };
        let wrong = |x: f64| StructureError {
            at: at.to_owned(),
            fault: StructureFault::Value { value: x.to_string(), dtype: dtype.name() },
        };
        let values = with_number!(dtype, T => {
            let one = |i| T::fitting(value(i)).ok_or_else(|| wrong(value(i)));
            (0..size).map(one).collect::<Result<Vec<T>, _>>()?.into()
        });
        Ok(Array { shape: vec![size], values })
    }
}

/// What a text takes beside its letters, in memory and in a file.
const TEXT: u64 = 32;

fn guess(flat: &[&Value], other: NumberType) -> Named {
    if flat.iter().any(|v| v.is_string()) {
        Named::Text
    } else if !flat.is_empty() && flat.iter().all(|v| v.is_boolean()) {
        Named::Number(NumberType::U8)
    } else if !flat.is_empty() && flat.iter().all(|v| v.is_i64()) && other == NumberType::I64 {
        Named::Number(NumberType::I64)
    } else if other == NumberType::I64 {
        Named::Number(NumberType::F64)
    } else {
        Named::Number(other)
    }
}

/// Depth of lists in lists; HDF5 itself holds 32 dimensions.
const DIMENSIONS: usize = 32;

fn flatten<'a>(
    value: &'a Value,
    level: usize,
    shape: &mut Vec<usize>,
    flat: &mut Vec<&'a Value>,
    at: &str,
) -> Result<(), StructureError> {
    let Value::Array(list) = value else {
        if shape.len() > level {
            return fault(at, kind(value, "a list, as beside it"));
        }
        flat.push(value);
        return Ok(());
    };
    if level == DIMENSIONS {
        return fault(
            at,
            StructureFault::Limit { what: "lists in lists".into(), limit: DIMENSIONS },
        );
    }
    match shape.get(level) {
        Some(&first) if first != list.len() => {
            return fault(at, StructureFault::Ragged { first, other: list.len() });
        }
        Some(_) => {}
        // A scalar stood beside this list, or an empty list in front of it.
        None if !flat.is_empty() => return fault(at, kind(value, "a single value, as beside it")),
        None => shape.push(list.len()),
    }
    list.iter().try_for_each(|one| flatten(one, level + 1, shape, flat, at))
}

/// Says what a JSON value is, in words.
pub(super) fn kind(value: &Value, expected: &'static str) -> StructureFault {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => {
            format!("\"{}\"", s.chars().take(40).collect::<String>().escape_debug())
        }
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::Object(_) => "an object".to_owned(),
    };
    StructureFault::Kind { found, expected }
}

fn convert(flat: &[&Value], dtype: Named, at: &str) -> Result<ArrayValues, StructureError> {
    let wrong = |value: &Value, dtype: &'static str| {
        let value = value.to_string().chars().take(40).collect();
        StructureError { at: at.to_owned(), fault: StructureFault::Value { value, dtype } }
    };
    let Named::Number(number) = dtype else {
        let text = |value: &&Value| match value {
            Value::String(s) => Ok(s.clone()),
            Value::Number(n) => Ok(n.to_string()),
            Value::Bool(b) => Ok(b.to_string()),
            _ => Err(wrong(value, "string")),
        };
        return Ok(ArrayValues::Text(flat.iter().map(text).collect::<Result<_, _>>()?));
    };
    Ok(with_number!(number, T => {
        let one = |value: &&Value| T::read(value).ok_or_else(|| wrong(value, number.name()));
        flat.iter().map(one).collect::<Result<Vec<T>, _>>()?.into()
    }))
}

/// A number that a structure can hold.
trait Spelt: Sized {
    /// From a number of JSON, if it can hold that: it is never rounded or cut on its way to an integer.
    fn read(value: &Value) -> Option<Self>;
    /// From one of evenly spaced numbers.
    fn fitting(value: f64) -> Option<Self>;
}

macro_rules! integers {
    ($($number:ty)+) => {$(
        impl Spelt for $number {
            fn read(value: &Value) -> Option<$number> {
                whole(value)?.try_into().ok()
            }

            fn fitting(value: f64) -> Option<$number> {
                exact(value)?.try_into().ok()
            }
        }
    )+};
}
integers! { i8 u8 i16 u16 i32 u32 i64 u64 }

impl Spelt for f32 {
    fn read(value: &Value) -> Option<f32> {
        // Rounding to the nearest float is what "float" means; infinity is not.
        real(value).filter(|n| n.is_nan() || (*n as f32).is_finite()).map(|n| n as f32)
    }

    fn fitting(value: f64) -> Option<f32> {
        (value as f32).is_finite().then_some(value as f32)
    }
}

impl Spelt for f64 {
    fn read(value: &Value) -> Option<f64> {
        real(value)
    }

    fn fitting(value: f64) -> Option<f64> {
        value.is_finite().then_some(value)
    }
}

/// A number without fraction.
fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Bool(b) => Some(i128::from(*b)),
        Value::Number(n) => {
            if let Some(n) = n.as_i64() {
                return Some(n.into());
            }
            if let Some(n) = n.as_u64() {
                return Some(n.into());
            }
            exact(n.as_f64()?)
        }
        _ => None,
    }
}

/// A double that is a whole number: above 2^53 it is no longer the one that was meant.
fn exact(n: f64) -> Option<i128> {
    (n.fract() == 0.0 && n.abs() <= 9_007_199_254_740_992.0).then_some(n as i128)
}

/// A number; null is what JSON has for one that is none.
fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Null => Some(f64::NAN),
        Value::Number(n) => n.as_f64(),
        _ => None,
    }
}
