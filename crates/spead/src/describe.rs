//! What items mean: descriptors, NumPy headers, SPEAD formats, and values as typed arrays.
//!
//! Source: `docs/formats/spead.md`, sections 4, 5, 15 and 17.

mod array;
mod bits;
mod decode;
mod descriptor;
mod encode;
mod group;
#[cfg(test)]
mod hostile_tests;
mod literal;
mod numpy;
mod refusals;

pub use array::{Elements, ItemArray};
pub use bits::{BitReader, BitWriter};
pub use descriptor::{Descriptor, DescriptorError, FormatField, ItemLayout};
pub use group::{GroupCounts, GroupItem, GroupUpdate, ItemGroup};
pub use literal::{Literal, LiteralError};
pub use numpy::{NumpyField, NumpyHeader, NumpyKind, NumpyType};
pub use refusals::{DescriptorRefusals, DescriptorRefused};

/// Compatibility with PySPEAD; sender and receiver must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BugCompat {
    /// Format entries of 4 B and shape entries of 8 B, whatever the flavour.
    pub descriptor_widths: bool,
    /// A variable dimension is bit 1 of its first byte.
    pub shape_bit_1: bool,
    /// NumPy values have the opposite byte order of their header.
    pub swap_endian: bool,
}

impl BugCompat {
    /// PySPEAD 0.5.2: all of it.
    pub const PYSPEAD: BugCompat =
        BugCompat { descriptor_widths: true, shape_bit_1: true, swap_endian: true };

    /// From spead2's number; `None` if other bits are set.
    pub fn from_bits(bits: u32) -> Option<BugCompat> {
        (bits < 8).then_some(BugCompat {
            descriptor_widths: bits & 1 != 0,
            shape_bit_1: bits & 2 != 0,
            swap_endian: bits & 4 != 0,
        })
    }
}

/// Why a descriptor or a value cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The NumPy header is no dictionary literal.
    #[error("NumPy header: {0}")]
    Literal(#[from] LiteralError),
    /// The NumPy header says something that is not supported.
    #[error("NumPy header: {0}")]
    Header(String),
    /// A type that is not supported.
    #[error("NumPy type {0:?}: b1, i, u (1, 2, 4, 8), f (2, 4, 8), c (8, 16), S, U, V, M8, m8")]
    Type(String),
    /// A format code that is not supported.
    #[error("format {0:?} with {1} bits: u, i, b with 1 bit or more, f with 32 or 64, c with 8")]
    Format(char, u64),
    /// Two dimensions of variable length.
    #[error("{0} variable dimensions: at most 1")]
    Variable(usize),
    /// Elements that would fill more than the address space.
    #[error("the shape has more elements than memory can hold")]
    TooLarge,
    /// Fewer bytes than the shape needs.
    #[error("{found} B are too few: the shape needs {wanted} B")]
    TooFew {
        /// By the shape.
        wanted: u64,
        /// In the item.
        found: u64,
    },
    /// A value of another type or shape than the descriptor's.
    #[error("the value has not the type or shape of its descriptor")]
    Mismatch,
}
