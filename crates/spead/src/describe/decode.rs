//! Bytes of an item to a typed array: NumPy types by their columns, SPEAD formats bit by bit.
//!
//! Never more elements than the item has bits. Source: `docs/formats/spead.md`, section 5.

use super::array::{Elements, ItemArray};
use super::bits::BitReader;
use super::descriptor::{FormatField, ItemLayout};
use super::numpy::{NumpyHeader, NumpyKind, NumpyType, count};
use super::{BugCompat, ValueError};
use crate::receive::{HeapItem, ItemValue};

/// The last `wanted` bytes of an immediate, the first of an addressed item.
fn clip(bytes: &[u8], immediate: bool, wanted: u64) -> Result<&[u8], ValueError> {
    let found = bytes.len() as u64;
    if wanted > found {
        return Err(ValueError::TooFew { wanted, found });
    }
    let wanted = wanted as usize;
    Ok(if immediate { &bytes[bytes.len() - wanted..] } else { &bytes[..wanted] })
}

impl ItemLayout {
    /// The value of an item.
    ///
    /// # Errors
    /// If the item is too short or the layout cannot be held.
    pub fn decode(&self, item: &HeapItem<'_>, compat: BugCompat) -> Result<ItemArray, ValueError> {
        match item.value {
            ItemValue::Bytes(bytes) => self.decode_bytes(bytes, false, compat),
            ItemValue::Immediate(value) => {
                let bytes = value.to_be_bytes();
                self.decode_bytes(&bytes[item.flavour.id_bytes()..], true, compat)
            }
        }
    }

    /// The value of these bytes; of an immediate they are all that the flavour has.
    ///
    /// # Errors
    /// If they are too few or the layout cannot be held.
    pub fn decode_bytes(
        &self,
        bytes: &[u8],
        immediate: bool,
        compat: BugCompat,
    ) -> Result<ItemArray, ValueError> {
        match self {
            ItemLayout::Numpy(header) => {
                let bytes = clip(bytes, immediate, header.bytes()? as u64)?;
                numpy(header, bytes, compat.swap_endian)
            }
            ItemLayout::Spead { format, shape } => spead(format, shape, bytes, immediate),
        }
    }
}

/// For each element in C order, its place in Fortran order.
pub(super) fn fortran_places(shape: &[usize]) -> Vec<usize> {
    let total = shape.iter().product();
    let mut index = vec![0; shape.len()];
    let mut places = Vec::with_capacity(total);
    let mut strides = Vec::with_capacity(shape.len());
    shape.iter().fold(1, |stride, d| {
        strides.push(stride);
        stride * d
    });
    for _ in 0..total {
        places.push(index.iter().zip(&strides).map(|(i, s)| i * s).sum());
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    places
}

fn numpy(header: &NumpyHeader, bytes: &[u8], swap: bool) -> Result<ItemArray, ValueError> {
    let size = header.of.size()?;
    let elements = count(&header.shape)?;
    let turned;
    let bytes = if header.fortran_order && header.shape.len() > 1 && elements * size > 0 {
        let places = fortran_places(&header.shape);
        turned =
            places.iter().flat_map(|p| &bytes[p * size..][..size]).copied().collect::<Vec<u8>>();
        &turned[..]
    } else {
        bytes
    };
    column(&header.of, &header.shape, bytes, swap)
}

/// Elements of one type that lie behind each other.
fn column(
    of: &NumpyType,
    shape: &[usize],
    bytes: &[u8],
    swap: bool,
) -> Result<ItemArray, ValueError> {
    let elements = match of {
        NumpyType::Plain { kind, bytes: size, big_endian, .. } => {
            plain(*kind, *size, *big_endian != swap, bytes)
        }
        NumpyType::Record(fields) => {
            let stride = of.size()?;
            let mut columns = Vec::with_capacity(fields.len());
            let mut at = 0;
            for field in fields {
                let inner = count(&field.shape)?;
                let size = field.of.size()? * inner;
                if !field.name.is_empty() {
                    let rows =
                        bytes.chunks_exact(stride.max(1)).flat_map(|row| &row[at..at + size]);
                    let gathered: Vec<u8> = rows.copied().collect();
                    let shape = [shape, &field.shape].concat();
                    let array = column(&field.of, &shape, &gathered, swap)?;
                    columns.push((field.name.clone(), array));
                }
                at += size;
            }
            Elements::Record(columns)
        }
    };
    Ok(ItemArray { shape: shape.to_vec(), elements })
}

macro_rules! numbers {
    ($ty:ty, $big:expr, $bytes:expr) => {{
        let (chunks, _) = $bytes.as_chunks::<{ size_of::<$ty>() }>();
        match $big {
            true => chunks.iter().map(|b| <$ty>::from_be_bytes(*b)).collect::<Vec<$ty>>(),
            false => chunks.iter().map(|b| <$ty>::from_le_bytes(*b)).collect::<Vec<$ty>>(),
        }
    }};
}

fn pairs<T: Copy>(values: Vec<T>) -> Vec<[T; 2]> {
    values.as_chunks::<2>().0.to_vec()
}

fn plain(kind: NumpyKind, size: usize, big: bool, bytes: &[u8]) -> Elements {
    match (kind, size) {
        (NumpyKind::Bool, _) => Elements::Bool(bytes.iter().map(|b| *b != 0).collect()),
        (NumpyKind::Signed, 1) => Elements::I8(bytes.iter().map(|b| *b as i8).collect()),
        (NumpyKind::Signed, 2) => Elements::I16(numbers!(i16, big, bytes)),
        (NumpyKind::Signed, 4) => Elements::I32(numbers!(i32, big, bytes)),
        (NumpyKind::Signed | NumpyKind::Time | NumpyKind::Span, _) => {
            Elements::I64(numbers!(i64, big, bytes))
        }
        (NumpyKind::Unsigned, 1) => Elements::U8(bytes.to_vec()),
        (NumpyKind::Unsigned, 2) => Elements::U16(numbers!(u16, big, bytes)),
        (NumpyKind::Unsigned, 4) => Elements::U32(numbers!(u32, big, bytes)),
        (NumpyKind::Unsigned, _) => Elements::U64(numbers!(u64, big, bytes)),
        (NumpyKind::Float, 2) => Elements::F16(numbers!(u16, big, bytes)),
        (NumpyKind::Float, 4) => Elements::F32(numbers!(f32, big, bytes)),
        (NumpyKind::Float, _) => Elements::F64(numbers!(f64, big, bytes)),
        (NumpyKind::Complex, 8) => Elements::Complex32(pairs(numbers!(f32, big, bytes))),
        (NumpyKind::Complex, _) => Elements::Complex64(pairs(numbers!(f64, big, bytes))),
        (NumpyKind::Bytes | NumpyKind::Raw, width) => {
            Elements::Bytes { width, data: bytes.to_vec() }
        }
        (NumpyKind::Text, width) => {
            let text = |chunk: &[u8]| {
                let codes: Vec<u32> = numbers!(u32, big, chunk);
                let end = codes.iter().rposition(|c| *c != 0).map_or(0, |last| last + 1);
                let one = |c: &u32| char::from_u32(*c).unwrap_or(char::REPLACEMENT_CHARACTER);
                codes[..end].iter().map(one).collect()
            };
            Elements::Text(bytes.chunks_exact(width.max(1)).map(text).collect())
        }
    }
}

/// The shape with its variable dimension filled in, by the bits that are there.
fn resolve(shape: &[Option<u64>], bits: u64, element_bits: u64) -> Result<Vec<usize>, ValueError> {
    let fixed = shape.iter().flatten().try_fold(1u64, |n, d| n.checked_mul(*d));
    // A product beyond all memory is as good as endless, unless a dimension is 0.
    let fixed = match shape.contains(&Some(0)) {
        true => 0,
        false => fixed.unwrap_or(u64::MAX),
    };
    let available = bits / element_bits;
    let one = |d: &Option<u64>| {
        let size = d.unwrap_or_else(|| available.checked_div(fixed).unwrap_or(0));
        usize::try_from(size).map_err(|_| ValueError::TooLarge)
    };
    shape.iter().map(one).collect()
}

fn spead(
    format: &[FormatField],
    shape: &[Option<u64>],
    bytes: &[u8],
    immediate: bool,
) -> Result<ItemArray, ValueError> {
    let element_bits = format.iter().try_fold(0u64, |sum, f| sum.checked_add(f.bits));
    let element_bits = element_bits.filter(|bits| *bits > 0).ok_or(ValueError::TooLarge)?;
    let shape = resolve(shape, bytes.len() as u64 * 8, element_bits)?;
    let elements = count(&shape)?;
    let bits = (elements as u64).checked_mul(element_bits).ok_or(ValueError::TooLarge)?;
    let bytes = clip(bytes, immediate, bits.div_ceil(8))?;
    let of = |columns: Vec<Column>| match columns.len() {
        1 => columns.into_iter().next().map(Column::elements),
        _ => {
            let named = columns.into_iter().enumerate().map(|(n, column)| {
                (format!("f{n}"), ItemArray { shape: shape.clone(), elements: column.elements() })
            });
            Some(Elements::Record(named.collect()))
        }
    };
    let mut columns: Vec<Column> = format.iter().map(|f| Column::new(*f, elements)).collect();
    let mut reader = BitReader::new(bytes);
    for _ in 0..elements {
        for column in &mut columns {
            // The length was looked at before.
            column.take(&mut reader).ok_or(ValueError::Mismatch)?;
        }
    }
    let elements = of(columns).ok_or(ValueError::Mismatch)?;
    Ok(ItemArray { shape, elements })
}

/// Values of one field, at once in their own type: an item of bits must not cost 64 times its length.
enum Column {
    /// Up to 64 bits.
    Narrow(FormatField, Elements),
    /// Above.
    Wide(FormatField, Vec<u8>),
}

impl Column {
    fn new(field: FormatField, many: usize) -> Column {
        fn room<T>(many: usize) -> Vec<T> {
            Vec::with_capacity(many)
        }
        let elements = match (field.code, field.bits) {
            (_, 65..) => return Column::Wide(field, Vec::new()),
            ('b', _) => Elements::Bool(room(many)),
            ('c', _) => Elements::Bytes { width: 1, data: room(many) },
            ('f', 32) => Elements::F32(room(many)),
            ('f', _) => Elements::F64(room(many)),
            ('i', 0..=8) => Elements::I8(room(many)),
            ('i', 9..=16) => Elements::I16(room(many)),
            ('i', 17..=32) => Elements::I32(room(many)),
            ('i', _) => Elements::I64(room(many)),
            (_, 0..=8) => Elements::U8(room(many)),
            (_, 9..=16) => Elements::U16(room(many)),
            (_, 17..=32) => Elements::U32(room(many)),
            _ => Elements::U64(room(many)),
        };
        Column::Narrow(field, elements)
    }

    fn take(&mut self, reader: &mut BitReader<'_>) -> Option<()> {
        let (field, elements) = match self {
            Column::Narrow(field, elements) => (field, elements),
            Column::Wide(field, data) => {
                data.extend(reader.take_wide(field.bits)?);
                return Some(());
            }
        };
        let bits = field.bits as u32;
        let value = reader.take(bits)?;
        let unused = 64 - bits;
        let signed = (value << unused) as i64 >> unused;
        match elements {
            Elements::Bool(v) => v.push(value != 0),
            Elements::Bytes { data, .. } => data.push(value as u8),
            Elements::F32(v) => v.push(f32::from_bits(value as u32)),
            Elements::F64(v) => v.push(f64::from_bits(value)),
            Elements::I8(v) => v.push(signed as i8),
            Elements::I16(v) => v.push(signed as i16),
            Elements::I32(v) => v.push(signed as i32),
            Elements::I64(v) => v.push(signed),
            Elements::U8(v) => v.push(value as u8),
            Elements::U16(v) => v.push(value as u16),
            Elements::U32(v) => v.push(value as u32),
            Elements::U64(v) => v.push(value),
            _ => return None,
        }
        Some(())
    }

    fn elements(self) -> Elements {
        match self {
            Column::Narrow(_, elements) => elements,
            Column::Wide(FormatField { code: 'b', bits }, data) => {
                let values = data.chunks(bits.div_ceil(8) as usize);
                Elements::Bool(values.map(|v| v.iter().any(|b| *b != 0)).collect())
            }
            Column::Wide(field, data) => {
                Elements::Bytes { width: field.bits.div_ceil(8) as usize, data }
            }
        }
    }
}
