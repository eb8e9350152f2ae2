//! Typed arrays as little-endian NumPy arrays in C order, structures element by element.

use fullcount_spead::ItemArray;
use fullcount_spead::describe::{Elements, NumpyField, NumpyHeader, NumpyKind, NumpyType};

/// Type of an element of a column, its own dimensions, and its bytes, element after element.
struct Column {
    of: NumpyType,
    shape: Vec<usize>,
    each: usize,
    bytes: Vec<u8>,
}

/// Header and bytes of an array.
pub(super) fn native(array: &ItemArray) -> Option<(NumpyHeader, Vec<u8>)> {
    let column = column(array, &array.shape)?;
    Some((NumpyHeader::new(column.of, array.shape.clone()), column.bytes))
}

fn column(array: &ItemArray, outer: &[usize]) -> Option<Column> {
    let own = array.shape.get(outer.len()..)?.to_vec();
    let (of, bytes) = match &array.elements {
        Elements::Record(fields) => return record(fields, outer, array),
        plain => plain_bytes(plain)?,
    };
    let each = of.size().ok()?.checked_mul(own.iter().product())?;
    Some(Column { of, shape: own, each, bytes })
}

/// Fields interleaved: a structure after the other.
fn record(fields: &[(String, ItemArray)], outer: &[usize], array: &ItemArray) -> Option<Column> {
    let many: usize = array.shape.iter().product();
    let own = array.shape.get(outer.len()..)?.to_vec();
    let columns = fields.iter().map(|(name, field)| Some((name, column(field, &array.shape)?)));
    let columns: Vec<(&String, Column)> = columns.collect::<Option<_>>()?;
    let each: usize = columns.iter().map(|(_, column)| column.each).sum();
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(each.checked_mul(many)?).ok()?;
    for n in 0..many {
        for (_, column) in &columns {
            bytes.extend_from_slice(column.bytes.get(n * column.each..(n + 1) * column.each)?);
        }
    }
    let field = |(name, column): (&String, Column)| NumpyField {
        name: name.clone(),
        of: column.of,
        shape: column.shape,
    };
    let of = NumpyType::Record(columns.into_iter().map(field).collect());
    let each = each.checked_mul(own.iter().product())?;
    Some(Column { of, shape: own, each, bytes })
}

fn plain_bytes(elements: &Elements) -> Option<(NumpyType, Vec<u8>)> {
    macro_rules! numbers {
        ($kind:ident, $values:expr) => {{
            let bytes: Vec<u8> = $values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let size = $values.first().map_or(0, size_of_val);
            (NumpyKind::$kind, size, bytes)
        }};
    }
    fn size_of_val<T>(_: &T) -> usize {
        size_of::<T>()
    }
    let (kind, size, bytes) = match elements {
        Elements::Bool(v) => (NumpyKind::Bool, 1, v.iter().map(|b| u8::from(*b)).collect()),
        Elements::I8(v) => numbers!(Signed, v),
        Elements::I16(v) => numbers!(Signed, v),
        Elements::I32(v) => numbers!(Signed, v),
        Elements::I64(v) => numbers!(Signed, v),
        Elements::U8(v) => numbers!(Unsigned, v),
        Elements::U16(v) => numbers!(Unsigned, v),
        Elements::U32(v) => numbers!(Unsigned, v),
        Elements::U64(v) => numbers!(Unsigned, v),
        Elements::F16(v) => numbers!(Float, v),
        Elements::F32(v) => numbers!(Float, v),
        Elements::F64(v) => numbers!(Float, v),
        Elements::Complex32(v) => {
            (NumpyKind::Complex, 8, v.iter().flatten().flat_map(|v| v.to_le_bytes()).collect())
        }
        Elements::Complex64(v) => {
            (NumpyKind::Complex, 16, v.iter().flatten().flat_map(|v| v.to_le_bytes()).collect())
        }
        Elements::Bytes { width, data } => (NumpyKind::Raw, *width, data.clone()),
        Elements::Text(_) | Elements::Record(_) => return None,
    };
    // Without elements the size is that of the type all the same.
    let size = match (size, elements) {
        (0, Elements::I8(_) | Elements::U8(_)) => 1,
        (0, Elements::I16(_) | Elements::U16(_) | Elements::F16(_)) => 2,
        (0, Elements::I32(_) | Elements::U32(_) | Elements::F32(_)) => 4,
        (0, Elements::I64(_) | Elements::U64(_) | Elements::F64(_)) => 8,
        (0, _) => return None,
        (size, _) => size,
    };
    Some((NumpyType::plain(kind, size, false), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_interleaved_and_fields_keep_their_own_dimensions() {
        let field = |shape: &[usize], elements| ItemArray { shape: shape.to_vec(), elements };
        let fields = vec![
            ("a".to_owned(), field(&[2], Elements::U16(vec![1, 2]))),
            ("b".to_owned(), field(&[2, 2], Elements::I8(vec![3, 4, 5, 6]))),
        ];
        let array = field(&[2], Elements::Record(fields));
        let (header, bytes) = native(&array).unwrap();
        assert_eq!(
            header.to_string(),
            "{'descr': [('a', '<u2'), ('b', '|i1', (2,))], 'fortran_order': False, 'shape': (2,)}"
        );
        assert_eq!(bytes, [1, 0, 3, 4, 2, 0, 5, 6]);
        let empty = native(&ItemArray::vector(Elements::F32(vec![]))).unwrap();
        assert_eq!(empty.0.to_string(), "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}");
    }
}
