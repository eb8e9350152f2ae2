//! Values as typed arrays in native byte order and C order; structures as one array per field.

use super::ValueError;
use super::numpy::count;

/// Elements of one type.
#[derive(Debug, Clone, PartialEq)]
pub enum Elements {
    /// Booleans.
    Bool(Vec<bool>),
    /// Signed, up to 8 bits.
    I8(Vec<i8>),
    /// Signed, up to 16 bits.
    I16(Vec<i16>),
    /// Signed, up to 32 bits.
    I32(Vec<i32>),
    /// Signed, up to 64 bits; times as well.
    I64(Vec<i64>),
    /// Unsigned, up to 8 bits.
    U8(Vec<u8>),
    /// Unsigned, up to 16 bits.
    U16(Vec<u16>),
    /// Unsigned, up to 32 bits.
    U32(Vec<u32>),
    /// Unsigned, up to 64 bits.
    U64(Vec<u64>),
    /// IEEE 754, 16 bits, as they are.
    F16(Vec<u16>),
    /// IEEE 754, 32 bits.
    F32(Vec<f32>),
    /// IEEE 754, 64 bits.
    F64(Vec<f64>),
    /// Real and imaginary part.
    Complex32(Vec<[f32; 2]>),
    /// Real and imaginary part.
    Complex64(Vec<[f64; 2]>),
    /// Elements of `width` bytes each, one behind the other: NumPy's `S` and `V`, SPEAD's `c`, integers above 64 bits.
    Bytes {
        /// Of one element.
        width: usize,
        /// All of them.
        data: Vec<u8>,
    },
    /// Texts without their zeros at the end.
    Text(Vec<String>),
    /// A structure: name and array of each field, whose shape is that of the item and then the field's own.
    Record(Vec<(String, ItemArray)>),
}

/// Value of an item.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemArray {
    /// Dimensions; none: a scalar.
    pub shape: Vec<usize>,
    /// In C order.
    pub elements: Elements,
}

/// The value of a 16-bit float.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

impl ItemArray {
    /// A scalar.
    pub fn scalar(elements: Elements) -> ItemArray {
        ItemArray { shape: vec![], elements }
    }

    /// One dimension.
    pub fn vector(elements: Elements) -> ItemArray {
        let length = elements.len().unwrap_or(0);
        ItemArray { shape: vec![length], elements }
    }

    /// Elements by the shape.
    pub fn len(&self) -> usize {
        count(&self.shape).unwrap_or(0)
    }

    /// No elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shape goes with the elements, in each field as well.
    ///
    /// # Errors
    /// If it does not.
    pub fn check(&self) -> Result<(), ValueError> {
        if let Elements::Record(fields) = &self.elements {
            return fields.iter().try_for_each(|(_, field)| {
                field.check()?;
                match field.shape.starts_with(&self.shape) {
                    true => Ok(()),
                    false => Err(ValueError::Mismatch),
                }
            });
        }
        match self.elements.len() == Some(count(&self.shape)?) {
            true => Ok(()),
            false => Err(ValueError::Mismatch),
        }
    }

    /// Numbers as `f64`, whatever their type; `None`: no numbers. Above 2^53 they are rounded.
    pub fn to_f64(&self) -> Option<Vec<f64>> {
        fn all<T: Copy>(values: &[T], f: impl Fn(T) -> f64) -> Option<Vec<f64>> {
            Some(values.iter().map(|v| f(*v)).collect())
        }
        match &self.elements {
            Elements::Bool(v) => all(v, |v| f64::from(u8::from(v))),
            Elements::I8(v) => all(v, f64::from),
            Elements::I16(v) => all(v, f64::from),
            Elements::I32(v) => all(v, f64::from),
            Elements::I64(v) => all(v, |v| v as f64),
            Elements::U8(v) => all(v, f64::from),
            Elements::U16(v) => all(v, f64::from),
            Elements::U32(v) => all(v, f64::from),
            Elements::U64(v) => all(v, |v| v as f64),
            Elements::F16(v) => all(v, half),
            Elements::F32(v) => all(v, f64::from),
            Elements::F64(v) => Some(v.clone()),
            _ => None,
        }
    }

    /// Characters of a one-dimensional `c8`, or of a single text.
    pub fn to_text(&self) -> Option<String> {
        match &self.elements {
            Elements::Bytes { width: 1, data } => {
                Some(data.iter().map(|b| char::from(*b)).collect())
            }
            Elements::Text(texts) if texts.len() == 1 => Some(texts[0].clone()),
            _ => None,
        }
    }
}

impl Elements {
    /// How many; `None` of structures, whose fields know.
    pub fn len(&self) -> Option<usize> {
        Some(match self {
            Elements::Bool(v) => v.len(),
            Elements::I8(v) => v.len(),
            Elements::I16(v) => v.len(),
            Elements::I32(v) => v.len(),
            Elements::I64(v) => v.len(),
            Elements::U8(v) => v.len(),
            Elements::U16(v) | Elements::F16(v) => v.len(),
            Elements::U32(v) => v.len(),
            Elements::U64(v) => v.len(),
            Elements::F32(v) => v.len(),
            Elements::F64(v) => v.len(),
            Elements::Complex32(v) => v.len(),
            Elements::Complex64(v) => v.len(),
            Elements::Bytes { width, data } => data.len().checked_div(*width)?,
            Elements::Text(v) => v.len(),
            Elements::Record(_) => return None,
        })
    }

    /// No elements.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dimension_of_0_makes_any_shape_empty() {
        let array = ItemArray { shape: vec![1 << 40, 1 << 40, 0], elements: Elements::U8(vec![]) };
        assert!(array.check().is_ok() && array.is_empty());
        let full = ItemArray { shape: vec![1 << 40, 1 << 40], ..array };
        assert!(full.check().is_err());
    }

    #[test]
    fn halves() {
        let values = [0x3c00, 0xc000, 0x0001, 0x7bff, 0x8000];
        let wanted = [1.0, -2.0, 2f64.powi(-24), 65504.0, -0.0];
        assert_eq!(ItemArray::vector(Elements::F16(values.into())).to_f64().unwrap(), wanted);
        assert!(half(0x7c00).is_infinite() && half(0x7c01).is_nan());
    }
}
