//! What is encoded decodes to the same, for every kind.

use proptest::prelude::*;

use super::super::numpy::{NumpyField, NumpyHeader};
use super::*;

fn plain_type() -> impl Strategy<Value = NumpyType> {
    let kinds = prop_oneof![
        Just((NumpyKind::Bool, 1)),
        Just((NumpyKind::Signed, 1)),
        Just((NumpyKind::Signed, 2)),
        Just((NumpyKind::Signed, 4)),
        Just((NumpyKind::Signed, 8)),
        Just((NumpyKind::Unsigned, 1)),
        Just((NumpyKind::Unsigned, 2)),
        Just((NumpyKind::Unsigned, 4)),
        Just((NumpyKind::Unsigned, 8)),
        Just((NumpyKind::Float, 2)),
        Just((NumpyKind::Float, 4)),
        Just((NumpyKind::Float, 8)),
        Just((NumpyKind::Complex, 8)),
        Just((NumpyKind::Complex, 16)),
        Just((NumpyKind::Bytes, 3)),
        Just((NumpyKind::Raw, 5)),
        Just((NumpyKind::Time, 8)),
        Just((NumpyKind::Span, 8)),
    ];
    (kinds, any::<bool>()).prop_map(|((kind, bytes), big)| {
        // As a header says it: a single byte has no order.
        let ordered = bytes > 1 && !matches!(kind, NumpyKind::Bytes | NumpyKind::Raw);
        NumpyType::plain(kind, bytes, big && ordered)
    })
}

fn any_type() -> impl Strategy<Value = NumpyType> {
    plain_type().prop_recursive(2, 8, 3, |inner| {
        let field = (inner, proptest::collection::vec(0usize..3, 0..2));
        proptest::collection::vec(field, 1..4).prop_map(|fields| {
            let named = fields.into_iter().enumerate();
            let make = |(n, (of, shape))| NumpyField { name: format!("x{n}"), of, shape };
            NumpyType::Record(named.map(make).collect())
        })
    })
}

proptest! {
    #[test]
    fn numpy_arrays_of_every_kind(
        of in any_type(),
        shape in proptest::collection::vec(0usize..4, 0..4),
        (fortran_order, swap_endian) in any::<(bool, bool)>(),
        seed in proptest::collection::vec(any::<u8>(), 1..64),
    ) {
        let header = NumpyHeader { of, fortran_order, shape };
        prop_assert_eq!(&NumpyHeader::parse(&header.to_string()).unwrap(), &header);
        let mut bytes: Vec<u8> = seed.iter().cycle().take(header.bytes().unwrap()).copied().collect();
        // Booleans are 0 or 1, and a NaN may come back as another one.
        bytes.iter_mut().for_each(|b| *b &= 1);
        let layout = ItemLayout::Numpy(header);
        let compat = BugCompat { swap_endian, ..BugCompat::default() };
        let value = layout.decode_bytes(&bytes, false, compat).unwrap();
        prop_assert!(value.check().is_ok());
        prop_assert_eq!(layout.encode(&value, compat).unwrap(), bytes);
    }

    #[test]
    fn formats_of_any_bits(
        format in proptest::collection::vec((0usize..5, 1u64..100), 1..4),
        shape in proptest::collection::vec(0u64..4, 0..3),
        variable: bool,
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let field = |(code, bits): &(usize, u64)| match code {
            0 => FormatField { code: 'u', bits: *bits },
            1 => FormatField { code: 'i', bits: *bits },
            2 => FormatField { code: 'f', bits: if bits % 2 == 0 { 32 } else { 64 } },
            3 => FormatField { code: 'b', bits: 1 },
            _ => FormatField { code: 'c', bits: 8 },
        };
        let mut shape: Vec<Option<u64>> = shape.into_iter().map(Some).collect();
        if variable {
            shape.push(None);
        }
        let layout = ItemLayout::Spead { format: format.iter().map(field).collect(), shape };
        let Ok(value) = layout.decode_bytes(&bytes, false, BugCompat::default()) else { return Ok(()) };
        prop_assert!(value.check().is_ok());
        let again = layout.encode(&value, BugCompat::default()).unwrap();
        // Bits behind the last element are not of the value.
        prop_assert!(again.len() <= bytes.len());
        if let Some((last, all)) = again.split_last() {
            prop_assert_eq!(all, &bytes[..all.len()]);
            let both = last & bytes[all.len()];
            prop_assert_eq!(both, *last);
        }
    }
}

#[test]
fn another_type_or_shape_is_refused() {
    let header =
        NumpyHeader::parse("{'descr': '<u2', 'fortran_order': False, 'shape': (2,)}").unwrap();
    let layout = ItemLayout::Numpy(header);
    let of = |elements| layout.encode(&ItemArray::vector(elements), BugCompat::default());
    assert_eq!(of(Elements::U16(vec![1, 2])).unwrap(), [1, 0, 2, 0]);
    assert_eq!(of(Elements::U16(vec![1])), Err(ValueError::Mismatch));
    assert_eq!(of(Elements::U32(vec![1, 2])), Err(ValueError::Mismatch));
    let format = vec![FormatField { code: 'u', bits: 4 }];
    let layout = ItemLayout::Spead { format, shape: vec![None] };
    let of =
        |value| layout.encode(&ItemArray::vector(Elements::U8(vec![value])), BugCompat::default());
    assert_eq!((of(15), of(16)), (Ok(vec![0xf0]), Err(ValueError::Mismatch)));
}

#[test]
fn a_short_item_is_an_error_and_surplus_is_not_seen() {
    let format = vec![FormatField { code: 'u', bits: 16 }];
    let layout = ItemLayout::Spead { format, shape: vec![Some(2)] };
    let of = |bytes: &[u8], immediate| layout.decode_bytes(bytes, immediate, BugCompat::default());
    let two = |a, b| Ok(ItemArray::vector(Elements::U16(vec![a, b])));
    assert_eq!(of(&[0, 1, 0, 2, 9], false), two(1, 2));
    assert_eq!(of(&[9, 0, 1, 0, 2], true), two(1, 2));
    assert_eq!(of(&[0, 1, 0], false), Err(ValueError::TooFew { wanted: 4, found: 3 }));
    let huge = ItemLayout::Spead {
        format: vec![FormatField { code: 'u', bits: 1 }],
        shape: vec![Some(1 << 62), Some(8)],
    };
    assert_eq!(huge.decode_bytes(&[0; 9], false, BugCompat::default()), Err(ValueError::TooLarge));
}

/// Number 18 of what users of spead2 meet: its Python cannot send these.
#[test]
fn no_18_negative_scalars_of_any_width_come_back() {
    for bits in 1..=64u32 {
        let format = vec![FormatField { code: 'i', bits: u64::from(bits) }];
        let layout = ItemLayout::Spead { format, shape: vec![] };
        let least = (1u64 << 63) as i64 >> (64 - bits);
        for wanted in [-1, least, least / 2] {
            let elements = match bits {
                0..=8 => Elements::I8(vec![wanted as i8]),
                9..=16 => Elements::I16(vec![wanted as i16]),
                17..=32 => Elements::I32(vec![wanted as i32]),
                _ => Elements::I64(vec![wanted]),
            };
            let value = ItemArray { shape: vec![], ..ItemArray::vector(elements) };
            let bytes = layout.encode(&value, BugCompat::default()).unwrap();
            assert_eq!(bytes.len() as u32, bits.div_ceil(8), "{bits} bits");
            let read = |bytes: &[u8], immediate| {
                layout.decode_bytes(bytes, immediate, BugCompat::default()).unwrap()
            };
            assert_eq!(read(&bytes, false), value, "{wanted} in {bits} bits");
            if bits % 8 == 0 {
                // As an immediate it stands at the end, behind zeros.
                assert_eq!(read(&[&[0, 0], &bytes[..]].concat(), true), value);
            }
        }
    }
}
