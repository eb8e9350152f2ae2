//! Descriptors: what an item is called and how its bytes are read; their own form on the wire.
//!
//! A descriptor is itself SPEAD packets inside of an item, at most as long as that item: what it announces beyond is refused.
//! Refuses ids and lengths that the flavour cannot hold. Source: `docs/formats/spead.md`, sections 4 and 17.

use super::numpy::NumpyHeader;
use super::{BugCompat, DescriptorRefusals, DescriptorRefused, ValueError};
use crate::receive::{Delivery, Heap, HeapReceiver, OnIncomplete, ReceiverConfig, SpeadCounter};
use crate::wire::{Flavour, HEADER_BYTES, POINTER_BYTES, header, id};

/// A field of a SPEAD format: a code and bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FormatField {
    /// `u`, `i`, `f`, `b`, `c`.
    pub code: char,
    /// Of one value.
    pub bits: u64,
}

/// How the bytes of an item are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemLayout {
    /// As NumPy says it.
    Numpy(NumpyHeader),
    /// As a SPEAD format says it.
    Spead {
        /// Fields of an element.
        format: Vec<FormatField>,
        /// Dimensions; `None`: as long as the data.
        shape: Vec<Option<u64>>,
    },
}

/// What is said of an item.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Descriptor {
    /// Of the item.
    pub id: u64,
    /// ASCII.
    pub name: String,
    /// ASCII.
    pub description: String,
    /// Dimensions; `None`: as long as the data.
    pub shape: Vec<Option<u64>>,
    /// Fields of an element.
    pub format: Vec<FormatField>,
    /// As NumPy writes it; empty: shape and format count.
    pub numpy_header: String,
}

/// Why a descriptor cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// The id is 0 or too large.
    #[error("item id 0x{0:x}: 1 to 0x{1:x} in {2}")]
    Id(u64, u64, Flavour),
    /// A text with other characters.
    #[error("{0} is not ASCII")]
    NotAscii(&'static str),
    /// A number that has no room.
    #[error("{0} {1} has no room in its field of {2} bits")]
    Room(&'static str, u64, u32),
}

/// Bytes of a format entry's number and of a shape entry's.
fn widths(flavour: Flavour, compat: BugCompat) -> (usize, usize) {
    match compat.descriptor_widths {
        true => (3, 7),
        false => (flavour.id_bytes(), flavour.address_bytes()),
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

fn put(
    out: &mut Vec<u8>,
    what: &'static str,
    value: u64,
    bytes: usize,
) -> Result<(), DescriptorError> {
    let all = value.to_be_bytes();
    let (high, low) = all.split_at(8 - bytes);
    if high.iter().any(|b| *b != 0) {
        return Err(DescriptorError::Room(what, value, 8 * bytes as u32));
    }
    out.extend_from_slice(low);
    Ok(())
}

/// Why the bytes of an item, or their last packet, began no descriptor; at most one reason, as the first refused packet ends an item.
fn refused_packet(stream: &mut HeapReceiver) -> Option<DescriptorRefused> {
    let tally = stream.tally();
    let [packets, accepted, too_large] =
        [SpeadCounter::Packets, SpeadCounter::Accepted, SpeadCounter::HeapTooLarge]
            .map(|counter| tally.get(counter));
    match (packets - accepted, too_large) {
        (0, _) => None,
        (_, 0) => Some(DescriptorRefused::Malformed),
        _ => Some(DescriptorRefused::Cut),
    }
}

impl Descriptor {
    /// One whose values are NumPy arrays. Shape and header are sent, as spead2's Python does.
    pub fn numpy(id: u64, name: &str, description: &str, of: &NumpyHeader) -> Descriptor {
        Descriptor {
            id,
            name: name.to_owned(),
            description: description.to_owned(),
            shape: of.shape.iter().map(|d| Some(*d as u64)).collect(),
            format: vec![],
            numpy_header: of.to_string(),
        }
    }

    /// One whose values have a SPEAD format.
    pub fn spead(
        id: u64,
        name: &str,
        description: &str,
        shape: &[Option<u64>],
        format: &[(char, u64)],
    ) -> Descriptor {
        let format = format.iter().map(|(code, bits)| FormatField { code: *code, bits: *bits });
        Descriptor {
            id,
            name: name.to_owned(),
            description: description.to_owned(),
            shape: shape.to_vec(),
            format: format.collect(),
            numpy_header: String::new(),
        }
    }

    /// How its values are read.
    ///
    /// # Errors
    /// If it says something that is not supported.
    pub fn layout(&self) -> Result<ItemLayout, ValueError> {
        if !self.numpy_header.is_empty() {
            let header = NumpyHeader::parse(&self.numpy_header)?;
            return match header.of.size()? {
                0 => Err(ValueError::Type(String::new())),
                _ => Ok(ItemLayout::Numpy(header)),
            };
        }
        let variable = self.shape.iter().filter(|d| d.is_none()).count();
        if variable > 1 {
            return Err(ValueError::Variable(variable));
        }
        if self.format.is_empty() {
            return Err(ValueError::Header("neither a NumPy header nor a format".to_owned()));
        }
        for field in &self.format {
            let good = match (field.code, field.bits) {
                ('u' | 'i' | 'b', bits) => bits > 0,
                ('f', 32 | 64) | ('c', 8) => true,
                _ => false,
            };
            if !good {
                return Err(ValueError::Format(field.code, field.bits));
            }
        }
        let (format, shape) = (self.format.clone(), self.shape.clone());
        Ok(ItemLayout::Spead { format, shape })
    }

    /// Its packet: what stands in an item of id 5.
    ///
    /// # Errors
    /// If the flavour has no room for something.
    pub fn emit(&self, flavour: Flavour, compat: BugCompat) -> Result<Vec<u8>, DescriptorError> {
        if self.id == 0 || self.id > flavour.largest_id() {
            return Err(DescriptorError::Id(self.id, flavour.largest_id(), flavour));
        }
        let texts = [
            ("name", &self.name),
            ("description", &self.description),
            ("numpy header", &self.numpy_header),
        ];
        if let Some((what, _)) = texts.iter().find(|(_, text)| !text.is_ascii()) {
            return Err(DescriptorError::NotAscii(what));
        }
        let (format_width, shape_width) = widths(flavour, compat);
        let mut format = Vec::new();
        for field in &self.format {
            put(&mut format, "format code", u64::from(u32::from(field.code)), 1)?;
            put(&mut format, "bit length", field.bits, format_width)?;
        }
        let variable = if compat.shape_bit_1 { 2 } else { 1 };
        let mut shape = Vec::new();
        for dimension in &self.shape {
            shape.push(if dimension.is_none() { variable } else { 0 });
            put(&mut shape, "dimension", dimension.unwrap_or(0), shape_width)?;
        }
        let mut parts: Vec<(u64, &[u8])> = vec![
            (id::DESCRIPTOR_NAME, self.name.as_bytes()),
            (id::DESCRIPTOR_DESCRIPTION, self.description.as_bytes()),
            (id::DESCRIPTOR_FORMAT, &format),
            (id::DESCRIPTOR_SHAPE, &shape),
        ];
        if !self.numpy_header.is_empty() {
            parts.push((id::DESCRIPTOR_DTYPE, self.numpy_header.as_bytes()));
        }
        let length: usize = parts.iter().map(|(_, bytes)| bytes.len()).sum();
        if length as u64 > flavour.largest_value() {
            return Err(DescriptorError::Room("length", length as u64, flavour.address_bits()));
        }
        let pointers = 5 + parts.len();
        let mut out = Vec::with_capacity(HEADER_BYTES + POINTER_BYTES * pointers + length);
        out.extend(header(flavour, pointers as u16));
        let length = length as u64;
        let first = [(id::HEAP_CNT, 1), (id::HEAP_LENGTH, length), (id::PAYLOAD_OFFSET, 0)];
        let last =
            [(id::PAYLOAD_LENGTH, length), (id::DESCRIPTOR_ID, self.id & flavour.largest_value())];
        for (id, value) in first.into_iter().chain(last) {
            out.extend(flavour.immediate(id, value).to_bytes());
        }
        let mut address = 0;
        for (id, bytes) in &parts {
            out.extend(flavour.addressed(*id, address).to_bytes());
            address += bytes.len() as u64;
        }
        parts.iter().for_each(|(_, bytes)| out.extend_from_slice(bytes));
        Ok(out)
    }

    /// The descriptors in an item of id 5, `most` at most; one without an id is none.
    pub fn parse(item: &[u8], compat: BugCompat, most: usize) -> Vec<Descriptor> {
        Descriptor::parse_counted(item, compat, most, &mut DescriptorRefusals::default())
    }

    /// The same; what is no descriptor is counted.
    pub fn parse_counted(
        item: &[u8],
        compat: BugCompat,
        most: usize,
        refusals: &mut DescriptorRefusals,
    ) -> Vec<Descriptor> {
        let config = ReceiverConfig {
            max_heaps: 1,
            stop_on_stop_item: false,
            max_heap_bytes: (item.len() as u64).max(1),
            max_live_bytes: (item.len() as u64).max(1),
            incomplete: OnIncomplete::Give,
            ..ReceiverConfig::spead2()
        };
        let mut found = Vec::new();
        let Ok(mut stream) = HeapReceiver::new(config) else { return found };
        let mut rest = item;
        while found.len() < most {
            rest = &rest[stream.push_buffer(0, rest)..];
            let ended = rest.is_empty();
            if ended {
                stream.stop(0);
            }
            while let Some(delivery) = stream.pop() {
                match delivery {
                    Delivery::Heap(heap) => match Descriptor::of_heap(&heap, compat) {
                        Some(descriptor) => found.push(descriptor),
                        None => refusals.add(DescriptorRefused::NoId),
                    },
                    Delivery::Incomplete(_) => refusals.add(DescriptorRefused::Cut),
                }
            }
            if ended {
                break;
            }
        }
        if let Some(why) = refused_packet(&mut stream) {
            refusals.add(why);
        }
        if !rest.is_empty() || found.len() > most {
            refusals.add(DescriptorRefused::TooMany);
        }
        found.truncate(most);
        found
    }

    fn of_heap(heap: &Heap, compat: BugCompat) -> Option<Descriptor> {
        let mut descriptor = Descriptor::default();
        let text = |bytes: &[u8]| bytes.iter().map(|b| char::from(*b)).collect::<String>();
        let (format_width, shape_width) = widths(heap.flavour, compat);
        let variable = if compat.shape_bit_1 { 2 } else { 1 };
        for item in heap.all_items() {
            match (item.id, item.immediate(), item.bytes()) {
                (id::DESCRIPTOR_ID, Some(value), _) => descriptor.id = value,
                (id::DESCRIPTOR_NAME, _, Some(bytes)) => descriptor.name = text(bytes),
                (id::DESCRIPTOR_DESCRIPTION, _, Some(bytes)) => {
                    descriptor.description = text(bytes)
                }
                (id::DESCRIPTOR_DTYPE, _, Some(bytes)) => descriptor.numpy_header = text(bytes),
                (id::DESCRIPTOR_FORMAT, _, Some(bytes)) => {
                    let entries = bytes.chunks_exact(1 + format_width);
                    let field =
                        |e: &[u8]| FormatField { code: char::from(e[0]), bits: number(&e[1..]) };
                    descriptor.format = entries.map(field).collect();
                }
                (id::DESCRIPTOR_SHAPE, _, Some(bytes)) => {
                    let entries = bytes.chunks_exact(1 + shape_width);
                    let one = |e: &[u8]| (e[0] & variable == 0).then(|| number(&e[1..]));
                    descriptor.shape = entries.map(one).collect();
                }
                _ => {}
            }
        }
        if !descriptor.numpy_header.is_empty() {
            descriptor.shape.clear();
            descriptor.format.clear();
        }
        (descriptor.id != 0).then_some(descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Raw, adr, imm};
    use proptest::prelude::*;

    #[test]
    fn without_an_id_or_with_one_by_address_it_is_none() {
        let name = |items| Raw { items, ..Raw::new(1, 4, 0, b"name") }.bytes();
        let of = |bytes: &[u8]| Descriptor::parse(bytes, BugCompat::default(), 9);
        assert_eq!(of(&name(vec![imm(0x14, 7), adr(0x10, 0)]))[0].name, "name");
        assert!(of(&name(vec![adr(0x10, 0)])).is_empty());
        assert!(of(&name(vec![imm(0x14, 0), adr(0x10, 0)])).is_empty());
        assert!(of(&name(vec![adr(0x14, 0)])).is_empty());
    }

    #[test]
    fn bombs_cost_what_they_are_long() {
        // One that announces 2^40 bytes, and one item with many descriptors in it.
        let huge = Raw { items: vec![imm(0x14, 7)], ..Raw::new(1, (1 << 40) - 1, 0, b"x") }.bytes();
        assert!(Descriptor::parse(&huge, BugCompat::default(), 9).is_empty());
        let one =
            |n| Raw { items: vec![imm(0x14, n), adr(0x10, 0)], ..Raw::new(n, 1, 0, b"n") }.bytes();
        let many: Vec<u8> = (1..1000).flat_map(one).collect();
        assert_eq!(Descriptor::parse(&many, BugCompat::default(), 100).len(), 100);
        assert_eq!(Descriptor::parse(&many, BugCompat::default(), 9999).len(), 999);
    }

    proptest! {
        #[test]
        fn any_bytes_are_descriptors_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Descriptor::parse(&bytes, BugCompat::default(), 9);
        }

        #[test]
        fn parse_inverts_emit(
            (name, description) in ("[ -~]{0,20}", "[ -~]{0,20}"),
            shape in proptest::collection::vec(proptest::option::of(0u64..1 << 16), 0..4),
            format in proptest::collection::vec((0usize..5, 1u64..1 << 8), 0..4),
            (item, bits, compat) in (1u64..128, 2u32..8, 0u32..8),
        ) {
            let flavour = Flavour::new(8 * bits).unwrap();
            let compat = BugCompat::from_bits(compat).unwrap();
            let format = format.iter().map(|(code, bits)| {
                FormatField { code: ['u', 'i', 'f', 'b', 'c'][*code], bits: *bits }
            }).collect();
            let descriptor = Descriptor { id: item, name, description, shape, format, numpy_header: String::new() };
            let bytes = descriptor.emit(flavour, compat).unwrap();
            prop_assert_eq!(Descriptor::parse(&bytes, compat, 9), vec![descriptor.clone()]);
            let _ = descriptor.layout();
        }
    }
}
