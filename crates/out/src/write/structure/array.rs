//! Values out of JSON: a scalar or nested lists, of one type.
//!
//! Refuses ragged lists and values that the type cannot hold: a number is never rounded or cut on its way to an
//! integer type. Source: `docs/formats/nexus.md` section 7, "dataset".

use serde_json::Value;

use super::budget::Budget;
use super::error::{Fault, StructureError, fault};

/// Type of the numbers of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Dtype {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Dtype {
    /// Name, as a structure gives it.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::I8 => "int8",
            Dtype::U8 => "uint8",
            Dtype::I16 => "int16",
            Dtype::U16 => "uint16",
            Dtype::I32 => "int32",
            Dtype::U32 => "uint32",
            Dtype::I64 => "int64",
            Dtype::U64 => "uint64",
            Dtype::F32 => "float",
            Dtype::F64 => "double",
        }
    }

    /// Bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::I8 | Dtype::U8 => 1,
            Dtype::I16 | Dtype::U16 => 2,
            Dtype::I32 | Dtype::U32 | Dtype::F32 => 4,
            Dtype::I64 | Dtype::U64 | Dtype::F64 => 8,
        }
    }
}

/// A type as a structure names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Number(Dtype),
    Text,
}

/// The type called `name`, in any of the ways that structures have.
pub(super) fn named(name: &str) -> Option<Named> {
    let number = match name.to_ascii_lowercase().as_str() {
        "int8" | "byte" => Dtype::I8,
        "uint8" | "ubyte" | "bool" => Dtype::U8,
        "int16" | "short" => Dtype::I16,
        "uint16" | "ushort" => Dtype::U16,
        "int32" | "int" | "integer" => Dtype::I32,
        "uint32" | "uint" => Dtype::U32,
        "int64" | "long" => Dtype::I64,
        "uint64" | "ulong" => Dtype::U64,
        "float" | "float32" => Dtype::F32,
        "double" | "float64" => Dtype::F64,
        "string" | "str" | "c_string" => return Some(Named::Text),
        _ => return None,
    };
    Some(Named::Number(number))
}

/// Values of one type.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Values {
    I8(Vec<i8>),
    U8(Vec<u8>),
    I16(Vec<i16>),
    U16(Vec<u16>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Text(Vec<String>),
}

/// Values with their shape, in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Length of each dimension; none for a scalar.
    pub shape: Vec<usize>,
    /// The values.
    pub values: Values,
}

impl Array {
    /// Bytes that the values take in a file, about.
    pub fn bytes(&self) -> u64 {
        let bytes = match &self.values {
            Values::I8(v) => v.len(),
            Values::U8(v) => v.len(),
            Values::I16(v) => 2 * v.len(),
            Values::U16(v) => 2 * v.len(),
            Values::I32(v) => 4 * v.len(),
            Values::U32(v) => 4 * v.len(),
            Values::F32(v) => 4 * v.len(),
            Values::I64(v) => 8 * v.len(),
            Values::U64(v) => 8 * v.len(),
            Values::F64(v) => 8 * v.len(),
            Values::Text(v) => v.iter().map(|text| text.len() + 32).sum(),
        };
        bytes as u64
    }

    /// One text.
    pub fn of_text(text: impl Into<String>) -> Array {
        Array { shape: Vec::new(), values: Values::Text(vec![text.into()]) }
    }

    /// The text, if it is one alone.
    pub fn text(&self) -> Option<&str> {
        match &self.values {
            Values::Text(all) if self.shape.is_empty() => all.first().map(String::as_str),
            _ => None,
        }
    }

    /// The values as integers, if that is what they are.
    pub fn integers(&self) -> Option<Box<dyn Iterator<Item = i64> + '_>> {
        macro_rules! each {
            ($values:expr) => {
                Box::new($values.iter().map(|&n| i64::from(n)))
            };
        }
        Some(match &self.values {
            Values::I8(v) => each!(v),
            Values::U8(v) => each!(v),
            Values::I16(v) => each!(v),
            Values::U16(v) => each!(v),
            Values::I32(v) => each!(v),
            Values::U32(v) => each!(v),
            Values::I64(v) => each!(v),
            Values::U64(v) if v.iter().any(|&n| i64::try_from(n).is_err()) => return None,
            Values::U64(v) => Box::new(v.iter().map(|&n| n as i64)),
            Values::F32(_) | Values::F64(_) | Values::Text(_) => return None,
        })
    }

    /// Reads `value` as `dtype`; without one, text is text, whole numbers are int64, and others `other`. Refuses what is
    /// above the `budget`.
    pub(super) fn read(
        value: &Value,
        dtype: Option<Named>,
        other: Dtype,
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
        dtype: Dtype,
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
            fault: Fault::Value { value: x.to_string(), dtype: dtype.name() },
        };
        macro_rules! each {
            ($member:ident $number:ty, $fits:expr) => {{
                let fits: fn(f64) -> Option<$number> = $fits;
                let one = |i| fits(value(i)).ok_or_else(|| wrong(value(i)));
                Values::$member((0..size).map(one).collect::<Result<_, _>>()?)
            }};
        }
        macro_rules! whole {
            ($member:ident $number:ty) => {
                each!($member $number, |x| exact(x).and_then(|n| n.try_into().ok()))
            };
        }
        let values = match dtype {
            Dtype::I8 => whole!(I8 i8),
            Dtype::U8 => whole!(U8 u8),
            Dtype::I16 => whole!(I16 i16),
            Dtype::U16 => whole!(U16 u16),
            Dtype::I32 => whole!(I32 i32),
            Dtype::U32 => whole!(U32 u32),
            Dtype::I64 => whole!(I64 i64),
            Dtype::U64 => whole!(U64 u64),
            Dtype::F32 => each!(F32 f32, |x| (x as f32).is_finite().then_some(x as f32)),
            Dtype::F64 => each!(F64 f64, |x| x.is_finite().then_some(x)),
        };
        Ok(Array { shape: vec![size], values })
    }
}

/// What a text takes beside its letters, in memory and in a file.
const TEXT: u64 = 32;

fn guess(flat: &[&Value], other: Dtype) -> Named {
    if flat.iter().any(|v| v.is_string()) {
        Named::Text
    } else if !flat.is_empty() && flat.iter().all(|v| v.is_boolean()) {
        Named::Number(Dtype::U8)
    } else if !flat.is_empty() && flat.iter().all(|v| v.is_i64()) && other == Dtype::I64 {
        Named::Number(Dtype::I64)
    } else if other == Dtype::I64 {
        Named::Number(Dtype::F64)
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
        return fault(at, Fault::Limit { what: "lists in lists".into(), limit: DIMENSIONS });
    }
    match shape.get(level) {
        Some(&first) if first != list.len() => {
            return fault(at, Fault::Ragged { first, other: list.len() });
        }
        Some(_) => {}
        // A scalar stood beside this list, or an empty list in front of it.
        None if !flat.is_empty() => return fault(at, kind(value, "a single value, as beside it")),
        None => shape.push(list.len()),
    }
    list.iter().try_for_each(|one| flatten(one, level + 1, shape, flat, at))
}

/// Says what a JSON value is, in words.
pub(super) fn kind(value: &Value, expected: &'static str) -> Fault {
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
    Fault::Kind { found, expected }
}

fn convert(flat: &[&Value], dtype: Named, at: &str) -> Result<Values, StructureError> {
    let wrong = |value: &Value, dtype: &'static str| {
        let value = value.to_string().chars().take(40).collect();
        StructureError { at: at.to_owned(), fault: Fault::Value { value, dtype } }
    };
    macro_rules! integers {
        ($member:ident $number:ty, $dtype:ident) => {
            Values::$member(
                flat.iter()
                    .map(|value| {
                        whole(value)
                            .and_then(|n| <$number>::try_from(n).ok())
                            .ok_or_else(|| wrong(value, Dtype::$dtype.name()))
                    })
                    .collect::<Result<_, _>>()?,
            )
        };
    }
    let Named::Number(number) = dtype else {
        let text = |value: &&Value| match value {
            Value::String(s) => Ok(s.clone()),
            Value::Number(n) => Ok(n.to_string()),
            Value::Bool(b) => Ok(b.to_string()),
            _ => Err(wrong(value, "string")),
        };
        return Ok(Values::Text(flat.iter().map(text).collect::<Result<_, _>>()?));
    };
    Ok(match number {
        Dtype::I8 => integers!(I8 i8, I8),
        Dtype::U8 => integers!(U8 u8, U8),
        Dtype::I16 => integers!(I16 i16, I16),
        Dtype::U16 => integers!(U16 u16, U16),
        Dtype::I32 => integers!(I32 i32, I32),
        Dtype::U32 => integers!(U32 u32, U32),
        Dtype::I64 => integers!(I64 i64, I64),
        Dtype::U64 => integers!(U64 u64, U64),
        Dtype::F32 => {
            let each = |value: &&Value| match real(value) {
                // Rounding to the nearest float is what "float" means; infinity is not.
                Some(n) if n.is_nan() || (n as f32).is_finite() => Ok(n as f32),
                _ => Err(wrong(value, "float")),
            };
            Values::F32(flat.iter().map(each).collect::<Result<_, _>>()?)
        }
        Dtype::F64 => {
            let each = |value: &&Value| real(value).ok_or_else(|| wrong(value, "double"));
            Values::F64(flat.iter().map(each).collect::<Result<_, _>>()?)
        }
    })
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
