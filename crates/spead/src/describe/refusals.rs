//! Descriptors that are of no use: one reason, one count.
//!
//! Source: `docs/formats/spead.md`, sections 4 and 15.

use super::ValueError;

/// Why a descriptor describes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum DescriptorRefused {
    /// No SPEAD packet.
    #[error("its bytes are no SPEAD packet")]
    Malformed,
    /// More bytes are announced than its item has.
    #[error("it announces more bytes than its item has")]
    Cut,
    /// It says not which item it describes.
    #[error("it has no item id")]
    NoId,
    /// More descriptors in one item of a heap than are read.
    #[error("too many descriptors in one item")]
    TooMany,
    /// The group has as many items as it may.
    #[error("the group is full")]
    GroupFull,
    /// The group has as much text as it may.
    #[error("the texts of the group are too long")]
    TextTooLong,
    /// The NumPy header is no dictionary of what belongs there, is nested too deep, or is missing as the format is.
    #[error("its NumPy header says nothing that is supported")]
    Header,
    /// A NumPy type that is not supported, objects among them, or one without a byte.
    #[error("its NumPy type is not supported")]
    Type,
    /// A format code or width that is not supported.
    #[error("its format is not supported")]
    Format,
    /// More than one dimension of variable length.
    #[error("it has more than one variable dimension")]
    Variable,
    /// More elements than memory can hold.
    #[error("its shape has more elements than memory can hold")]
    TooLarge,
}

impl DescriptorRefused {
    /// All, in the order in which people see them.
    pub const ALL: [DescriptorRefused; 11] = [
        DescriptorRefused::Malformed,
        DescriptorRefused::Cut,
        DescriptorRefused::NoId,
        DescriptorRefused::TooMany,
        DescriptorRefused::GroupFull,
        DescriptorRefused::TextTooLong,
        DescriptorRefused::Header,
        DescriptorRefused::Type,
        DescriptorRefused::Format,
        DescriptorRefused::Variable,
        DescriptorRefused::TooLarge,
    ];
}

impl From<&ValueError> for DescriptorRefused {
    fn from(why: &ValueError) -> DescriptorRefused {
        match why {
            ValueError::Literal(_) | ValueError::Header(_) => DescriptorRefused::Header,
            // Not of a layout; they are of its values.
            ValueError::TooFew { .. } | ValueError::Mismatch => DescriptorRefused::Header,
            ValueError::Type(_) => DescriptorRefused::Type,
            ValueError::Format(..) => DescriptorRefused::Format,
            ValueError::Variable(_) => DescriptorRefused::Variable,
            ValueError::TooLarge => DescriptorRefused::TooLarge,
        }
    }
}

/// Refused descriptors by their reason. One that comes again counts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DescriptorRefusals([u64; DescriptorRefused::ALL.len()]);

impl DescriptorRefusals {
    pub(super) fn add(&mut self, why: DescriptorRefused) {
        self.0[why as usize] += 1;
    }

    /// Those of one reason.
    pub fn of(&self, why: DescriptorRefused) -> u64 {
        self.0[why as usize]
    }

    /// All.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Reasons that came, with their counts.
    pub fn reasons(&self) -> impl Iterator<Item = (DescriptorRefused, u64)> {
        let counts = DescriptorRefused::ALL.map(|why| (why, self.of(why)));
        counts.into_iter().filter(|(_, count)| *count > 0)
    }
}
