//! Flavours SPEAD-64-Y: how the 64 bits of an item pointer are shared between its id and its value or address.
//!
//! Refuses address widths that are not 8, 16, … 56 bits. Source: `docs/formats/spead.md`, sections 2 and 3.

use std::fmt;

/// Reserved item ids.
pub mod id {
    /// Padding; addressed, it ends the item before it.
    pub const NULL: u64 = 0;
    /// Number of the heap.
    pub const HEAP_CNT: u64 = 1;
    /// Payload bytes of the heap.
    pub const HEAP_LENGTH: u64 = 2;
    /// Offset of this packet's payload in the heap.
    pub const PAYLOAD_OFFSET: u64 = 3;
    /// Payload bytes of this packet.
    pub const PAYLOAD_LENGTH: u64 = 4;
    /// An embedded descriptor.
    pub const DESCRIPTOR: u64 = 5;
    /// Stream control: see [`control`](super::control).
    pub const STREAM_CTRL: u64 = 6;
    /// Name, inside of descriptors.
    pub const DESCRIPTOR_NAME: u64 = 0x10;
    /// Description, inside of descriptors.
    pub const DESCRIPTOR_DESCRIPTION: u64 = 0x11;
    /// Shape, inside of descriptors.
    pub const DESCRIPTOR_SHAPE: u64 = 0x12;
    /// Format, inside of descriptors.
    pub const DESCRIPTOR_FORMAT: u64 = 0x13;
    /// Item that is described.
    pub const DESCRIPTOR_ID: u64 = 0x14;
    /// Numpy header, inside of descriptors.
    pub const DESCRIPTOR_DTYPE: u64 = 0x15;
    /// First id that a sender takes when it may choose.
    pub const FIRST_CHOSEN: u64 = 0x1000;
}

/// Values of the stream control item.
pub mod control {
    /// The stream begins.
    pub const START: u64 = 0;
    /// Descriptors are sent again.
    pub const DESCRIPTOR_REISSUE: u64 = 1;
    /// The stream ends.
    pub const STOP: u64 = 2;
    /// Descriptors have changed.
    pub const DESCRIPTOR_UPDATE: u64 = 3;
}

const IMMEDIATE: u64 = 1 << 63;

/// Not a flavour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("address_bits = {0}: 8, 16, 24, 32, 40, 48 or 56")]
pub struct FlavourError(pub u32);

/// SPEAD-64-Y, version 4. [`Default`] is SPEAD-64-40.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flavour {
    /// Y / 8, 1 to 7.
    bytes: u8,
}

impl Default for Flavour {
    fn default() -> Flavour {
        Flavour::SPEAD_64_40
    }
}

impl fmt::Debug for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SPEAD-64-{}", self.address_bits())
    }
}

impl Flavour {
    /// The usual one: 23 bits of id, 40 of address.
    pub const SPEAD_64_40: Flavour = Flavour { bytes: 5 };
    /// 15 bits of id, 48 of address.
    pub const SPEAD_64_48: Flavour = Flavour { bytes: 6 };

    /// The flavour whose addresses have so many bits.
    ///
    /// # Errors
    /// If these are not 8, 16, 24, 32, 40, 48 or 56.
    pub fn new(address_bits: u32) -> Result<Flavour, FlavourError> {
        match address_bits {
            8..=56 if address_bits.is_multiple_of(8) => {
                Ok(Flavour { bytes: (address_bits / 8) as u8 })
            }
            _ => Err(FlavourError(address_bits)),
        }
    }

    /// Every flavour, narrow addresses first.
    pub fn all() -> impl Iterator<Item = Flavour> {
        (1..8).map(|bytes| Flavour { bytes })
    }

    /// That of bytes 2 and 3 of a header: id width and address width in bytes.
    #[inline]
    pub(crate) fn of_widths(id_bytes: u8, address_bytes: u8) -> Option<Flavour> {
        let good = id_bytes != 0 && address_bytes != 0;
        (good && id_bytes.checked_add(address_bytes) == Some(8))
            .then_some(Flavour { bytes: address_bytes })
    }

    /// Y: bits of a value or an address.
    #[inline]
    pub fn address_bits(self) -> u32 {
        u32::from(self.bytes) * 8
    }

    /// Bytes of a value or an address.
    #[inline]
    pub fn address_bytes(self) -> usize {
        usize::from(self.bytes)
    }

    /// Bytes of mode bit and id.
    #[inline]
    pub fn id_bytes(self) -> usize {
        8 - self.address_bytes()
    }

    /// Largest item id.
    #[inline]
    pub fn largest_id(self) -> u64 {
        (1 << (63 - self.address_bits())) - 1
    }

    /// Largest immediate, heap number, length and offset.
    #[inline]
    pub fn largest_value(self) -> u64 {
        (1 << self.address_bits()) - 1
    }

    /// The pointer of an immediate item; id and value are cut to their fields.
    #[inline]
    pub fn immediate(self, id: u64, value: u64) -> ItemPointer {
        ItemPointer(IMMEDIATE | self.addressed(id, value).0)
    }

    /// The pointer of an addressed item; id and address are cut to their fields.
    #[inline]
    pub fn addressed(self, id: u64, address: u64) -> ItemPointer {
        let id = id & self.largest_id();
        ItemPointer(id << self.address_bits() | (address & self.largest_value()))
    }

    /// Id of a pointer.
    #[inline]
    pub fn id_of(self, pointer: ItemPointer) -> u64 {
        (pointer.0 & !IMMEDIATE) >> self.address_bits()
    }

    /// Value or address of a pointer.
    #[inline]
    pub fn value_of(self, pointer: ItemPointer) -> u64 {
        pointer.0 & self.largest_value()
    }
}

/// The 64 bits of an item pointer; a [`Flavour`] takes them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ItemPointer(pub u64);

impl ItemPointer {
    /// The pointer holds the item itself.
    #[inline]
    pub fn is_immediate(self) -> bool {
        self.0 & IMMEDIATE != 0
    }

    /// From the wire.
    #[inline]
    pub fn from_bytes(bytes: [u8; 8]) -> ItemPointer {
        ItemPointer(u64::from_be_bytes(bytes))
    }

    /// To the wire.
    #[inline]
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_of_the_documents_example() {
        let f = Flavour::default();
        assert_eq!(f.immediate(2, 0x15d).0, 0x8000_0200_0000_015d);
        assert_eq!(f.addressed(0x1002, 0x158).0, 0x0010_0200_0000_0158);
        assert_eq!(f.largest_id(), 8_388_607);
        assert_eq!(f.to_string(), "SPEAD-64-40");
    }

    #[test]
    fn each_flavour_takes_its_own_pointers_apart() {
        assert_eq!(Flavour::all().count(), 7);
        for f in Flavour::all() {
            assert_eq!(Flavour::new(f.address_bits()), Ok(f));
            assert_eq!(Flavour::of_widths(f.id_bytes() as u8, f.address_bytes() as u8), Some(f));
            let (id, value) = (f.largest_id(), f.largest_value());
            for p in [f.immediate(id, value), f.addressed(id, value)] {
                assert_eq!((f.id_of(p), f.value_of(p)), (id, value));
                assert_eq!(ItemPointer::from_bytes(p.to_bytes()), p);
            }
            assert!(f.immediate(1, 0).is_immediate() && !f.addressed(1, 0).is_immediate());
        }
        for bits in [0, 4, 12, 57, 64] {
            assert_eq!(Flavour::new(bits), Err(FlavourError(bits)));
        }
    }
}
