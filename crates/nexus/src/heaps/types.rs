//! NumPy types as HDF5 types.

use fullcount_spead::describe::{NumpyField, NumpyKind, NumpyType};
use hdf5_metno::types::{CompoundField, CompoundType, FloatSize, IntSize, TypeDescriptor};

fn whole(bytes: usize) -> IntSize {
    match bytes {
        1 => IntSize::U1,
        2 => IntSize::U2,
        4 => IntSize::U4,
        _ => IntSize::U8,
    }
}

fn pair(of: FloatSize, bytes: usize) -> TypeDescriptor {
    let field = |name: &str, index| CompoundField {
        name: name.to_owned(),
        ty: TypeDescriptor::Float(of),
        offset: index * bytes,
        index,
    };
    TypeDescriptor::Compound(CompoundType {
        fields: vec![field("r", 0), field("i", 1)],
        size: 2 * bytes,
    })
}

/// The type of an element; `None`: HDF5 has none, or it has no bytes.
pub(super) fn descriptor(of: &NumpyType) -> Option<TypeDescriptor> {
    let bytes_of =
        |size| TypeDescriptor::FixedArray(Box::new(TypeDescriptor::Unsigned(IntSize::U1)), size);
    Some(match of {
        NumpyType::Plain { kind, bytes, .. } => match (kind, *bytes) {
            (NumpyKind::Bool, _) => TypeDescriptor::Boolean,
            (NumpyKind::Signed, n) => TypeDescriptor::Integer(whole(n)),
            // Nanoseconds and the like: HDF5 has no times that NumPy reads.
            (NumpyKind::Time | NumpyKind::Span, _) => TypeDescriptor::Integer(IntSize::U8),
            (NumpyKind::Unsigned, n) => TypeDescriptor::Unsigned(whole(n)),
            // Bits as they are.
            (NumpyKind::Float, 2) => TypeDescriptor::Unsigned(IntSize::U2),
            (NumpyKind::Float, 4) => TypeDescriptor::Float(FloatSize::U4),
            (NumpyKind::Float, _) => TypeDescriptor::Float(FloatSize::U8),
            (NumpyKind::Complex, 8) => pair(FloatSize::U4, 4),
            (NumpyKind::Complex, _) => pair(FloatSize::U8, 8),
            (NumpyKind::Bytes, n) => TypeDescriptor::FixedAscii(n),
            (NumpyKind::Raw, n) => bytes_of(n),
            (NumpyKind::Text, n) => {
                TypeDescriptor::FixedArray(Box::new(TypeDescriptor::Unsigned(IntSize::U4)), n / 4)
            }
        },
        NumpyType::Record(fields) => compound(fields)?,
    })
}

fn compound(fields: &[NumpyField]) -> Option<TypeDescriptor> {
    let (mut made, mut at) = (Vec::new(), 0);
    for (index, field) in fields.iter().enumerate() {
        let many: usize = field.shape.iter().product();
        let size = field.of.size().ok()? * many;
        let ty = descriptor(&field.of)?;
        // A field's own dimensions, the last one innermost.
        let ty =
            field.shape.iter().rev().fold(ty, |ty, &n| TypeDescriptor::FixedArray(Box::new(ty), n));
        let name = match field.name.as_str() {
            "" => format!("padding{index}"),
            name => name.to_owned(),
        };
        if size == 0 || made.iter().any(|known: &CompoundField| known.name == name) {
            return None;
        }
        made.push(CompoundField { name, ty, offset: at, index });
        at += size;
    }
    (at > 0).then_some(TypeDescriptor::Compound(CompoundType { fields: made, size: at }))
}
