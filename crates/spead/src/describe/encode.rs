//! A typed array to the bytes of an item.
//!
//! Refuses an array whose type or shape is not that of the layout. Source: `docs/formats/spead.md`, section 5.

use super::array::{Elements, ItemArray};
use super::bits::BitWriter;
use super::decode::fortran_places;
use super::descriptor::{FormatField, ItemLayout};
use super::numpy::{NumpyKind, NumpyType, count};
use super::{BugCompat, ValueError};

impl ItemLayout {
    /// Bytes of a value.
    ///
    /// # Errors
    /// [`ValueError::Mismatch`] if type or shape are others.
    pub fn encode(&self, value: &ItemArray, compat: BugCompat) -> Result<Vec<u8>, ValueError> {
        value.check()?;
        match self {
            ItemLayout::Numpy(header) => {
                if header.shape != value.shape {
                    return Err(ValueError::Mismatch);
                }
                let elements = count(&value.shape)?;
                let c_order = column(&header.of, &value.elements, elements, compat.swap_endian)?;
                let size = header.of.size()?;
                if !header.fortran_order || header.shape.len() < 2 || elements * size == 0 {
                    return Ok(c_order);
                }
                let mut out = vec![0; c_order.len()];
                let places = fortran_places(&header.shape);
                for (place, element) in places.iter().zip(c_order.chunks_exact(size)) {
                    out[place * size..][..size].copy_from_slice(element);
                }
                Ok(out)
            }
            ItemLayout::Spead { format, shape } => spead(format, shape, value),
        }
    }

    /// What spead2's Python says of "may become an immediate": no variable dimension, and whole bytes per element.
    pub fn allow_immediate(&self) -> bool {
        match self {
            ItemLayout::Numpy(_) => true,
            ItemLayout::Spead { format, shape } => {
                let bits: u64 = format.iter().map(|f| f.bits % 8).sum();
                bits.is_multiple_of(8) && shape.iter().all(Option::is_some)
            }
        }
    }
}

fn column(
    of: &NumpyType,
    elements: &Elements,
    many: usize,
    swap: bool,
) -> Result<Vec<u8>, ValueError> {
    match (of, elements) {
        (NumpyType::Plain { kind, bytes, big_endian, .. }, elements) => {
            plain(*kind, *bytes, *big_endian != swap, elements)
        }
        (NumpyType::Record(fields), Elements::Record(columns)) => {
            let stride = of.size()?;
            let mut out = vec![0; stride.checked_mul(many).ok_or(ValueError::TooLarge)?];
            let mut at = 0;
            let mut columns = columns.iter();
            for field in fields {
                let inner = count(&field.shape)?;
                let size = field.of.size()? * inner;
                if !field.name.is_empty() {
                    let (name, array) = columns.next().ok_or(ValueError::Mismatch)?;
                    if *name != field.name || !array.shape.ends_with(&field.shape) {
                        return Err(ValueError::Mismatch);
                    }
                    let bytes = column(&field.of, &array.elements, many * inner, swap)?;
                    if bytes.len() != size * many {
                        return Err(ValueError::Mismatch);
                    }
                    if size > 0 {
                        for (row, value) in
                            out.chunks_exact_mut(stride).zip(bytes.chunks_exact(size))
                        {
                            row[at..at + size].copy_from_slice(value);
                        }
                    }
                }
                at += size;
            }
            match columns.next() {
                None => Ok(out),
                Some(_) => Err(ValueError::Mismatch),
            }
        }
        _ => Err(ValueError::Mismatch),
    }
}

macro_rules! bytes_of {
    ($values:expr, $big:expr) => {
        match $big {
            true => $values.iter().flat_map(|v| v.to_be_bytes()).collect(),
            false => $values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    };
}

fn plain(
    kind: NumpyKind,
    size: usize,
    big: bool,
    elements: &Elements,
) -> Result<Vec<u8>, ValueError> {
    use NumpyKind as K;
    Ok(match (kind, size, elements) {
        (K::Bool, _, Elements::Bool(v)) => v.iter().map(|v| u8::from(*v)).collect(),
        (K::Signed, 1, Elements::I8(v)) => v.iter().map(|v| *v as u8).collect(),
        (K::Signed, 2, Elements::I16(v)) => bytes_of!(v, big),
        (K::Signed, 4, Elements::I32(v)) => bytes_of!(v, big),
        (K::Signed | K::Time | K::Span, 8, Elements::I64(v)) => bytes_of!(v, big),
        (K::Unsigned, 1, Elements::U8(v)) => v.clone(),
        (K::Unsigned, 2, Elements::U16(v)) => bytes_of!(v, big),
        (K::Unsigned, 4, Elements::U32(v)) => bytes_of!(v, big),
        (K::Unsigned, 8, Elements::U64(v)) => bytes_of!(v, big),
        (K::Float, 2, Elements::F16(v)) => bytes_of!(v, big),
        (K::Float, 4, Elements::F32(v)) => bytes_of!(v, big),
        (K::Float, 8, Elements::F64(v)) => bytes_of!(v, big),
        (K::Complex, 8, Elements::Complex32(v)) => bytes_of!(v.as_flattened(), big),
        (K::Complex, 16, Elements::Complex64(v)) => bytes_of!(v.as_flattened(), big),
        (K::Bytes | K::Raw, size, Elements::Bytes { width, data }) if *width == size => {
            data.clone()
        }
        (K::Text, size, Elements::Text(texts)) => {
            let mut out = Vec::with_capacity(texts.len().saturating_mul(size));
            for text in texts {
                let mut codes: Vec<u32> = text.chars().map(u32::from).collect();
                if codes.len() > size / 4 {
                    return Err(ValueError::Mismatch);
                }
                codes.resize(size / 4, 0);
                let bytes: Vec<u8> = bytes_of!(codes, big);
                out.extend(bytes);
            }
            out
        }
        _ => return Err(ValueError::Mismatch),
    })
}

fn spead(
    format: &[FormatField],
    shape: &[Option<u64>],
    value: &ItemArray,
) -> Result<Vec<u8>, ValueError> {
    let fits = |(wanted, found): (&Option<u64>, &usize)| wanted.is_none_or(|w| w == *found as u64);
    if shape.len() != value.shape.len() || !shape.iter().zip(&value.shape).all(fits) {
        return Err(ValueError::Mismatch);
    }
    let columns: Vec<&Elements> = match &value.elements {
        Elements::Record(fields) if format.len() > 1 => {
            if fields.iter().any(|(_, array)| array.shape != value.shape) {
                return Err(ValueError::Mismatch);
            }
            fields.iter().map(|(_, array)| &array.elements).collect()
        }
        elements => vec![elements],
    };
    if columns.len() != format.len() {
        return Err(ValueError::Mismatch);
    }
    let mut writer = BitWriter::default();
    for n in 0..value.len() {
        for (field, elements) in format.iter().zip(&columns) {
            field_bits(*field, elements, n, &mut writer)?;
        }
    }
    Ok(writer.finish())
}

fn field_bits(
    field: FormatField,
    elements: &Elements,
    n: usize,
    writer: &mut BitWriter,
) -> Result<(), ValueError> {
    let value = match (field.code, elements) {
        ('u', Elements::U8(v)) => u64::from(v[n]),
        ('u', Elements::U16(v)) => u64::from(v[n]),
        ('u', Elements::U32(v)) => u64::from(v[n]),
        ('u', Elements::U64(v)) => v[n],
        ('i', Elements::I8(v)) => i64::from(v[n]) as u64,
        ('i', Elements::I16(v)) => i64::from(v[n]) as u64,
        ('i', Elements::I32(v)) => i64::from(v[n]) as u64,
        ('i', Elements::I64(v)) => v[n] as u64,
        ('b', Elements::Bool(v)) => u64::from(v[n]),
        ('f', Elements::F32(v)) if field.bits == 32 => u64::from(v[n].to_bits()),
        ('f', Elements::F64(v)) if field.bits == 64 => v[n].to_bits(),
        ('c', Elements::Bytes { width: 1, data }) => u64::from(data[n]),
        ('u' | 'i', Elements::Bytes { width, data }) if *width as u64 == field.bits.div_ceil(8) => {
            writer.put_wide(&data[n * width..][..*width], field.bits);
            return Ok(());
        }
        _ => return Err(ValueError::Mismatch),
    };
    if field.bits > 64 {
        writer.put_wide(&value.to_be_bytes(), field.bits);
        return Ok(());
    }
    let bits = field.bits as u32;
    let fits = match field.code {
        'i' => (value << (64 - bits)) as i64 >> (64 - bits) == value as i64,
        _ => bits == 64 || value >> bits == 0,
    };
    if !fits {
        return Err(ValueError::Mismatch);
    }
    writer.put(value, bits);
    Ok(())
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
