//! Items of heaps to arrays with a NumPy header: bytes stay where they are, unless the sender's form has no NumPy name.
//!
//! Values of SPEAD formats with whole bytes are big-endian NumPy arrays as they come; others (bits, structures of fields) are turned
//! into native ones. Refuses values that their descriptor does not fit. Source: `docs/formats/spead.md`, sections 4 and 5.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use fullcount_core::heaps::{ItemProduct, SharedBytes};
use fullcount_spead::describe::{
    FormatField, ItemLayout, NumpyHeader, NumpyKind, NumpyType, ValueError,
};
use fullcount_spead::receive::HeapItem;
use fullcount_spead::{BugCompat, Flavour, Heap, ItemGroup};

use super::native::native;

/// Memory that arrays refer to.
pub(super) type Owner = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Where an item is: in the payload, or its value.
pub(super) type Place = Result<Range<usize>, u64>;

/// How the bytes of an item become an array.
#[derive(Debug)]
enum Reading {
    /// As they are: so many of them.
    Fixed { header: Arc<str>, bytes: usize },
    /// As they are, as many as there are: type and dimensions, one of them open.
    Open { of: NumpyType, shape: Vec<Option<u64>> },
    /// Decoded.
    Turned(ItemLayout),
    /// The descriptor says something that is not supported.
    Bad,
}

/// An item that was described.
#[derive(Debug)]
struct Described {
    name: Arc<str>,
    description: Arc<str>,
    reading: Reading,
}

/// What became of an item.
#[derive(Debug)]
pub(super) enum Taken {
    /// As its descriptor says.
    Value(ItemProduct),
    /// Nobody described it.
    Undescribed(ItemProduct),
    /// Not asked for.
    Unwanted,
    /// Its descriptor does not fit.
    Bad,
}

/// Items that are known, and those that are wanted.
#[derive(Debug)]
pub(super) struct Items {
    group: ItemGroup,
    described: HashMap<u64, Described>,
    wanted: Vec<String>,
    compat: BugCompat,
}

/// The NumPy type of a single field of whole bytes.
fn plain(format: &[FormatField]) -> Option<NumpyType> {
    let [FormatField { code, bits }] = format else { return None };
    let kind = match (code, bits) {
        ('u', 8 | 16 | 32 | 64) => NumpyKind::Unsigned,
        ('i', 8 | 16 | 32 | 64) => NumpyKind::Signed,
        ('f', 32 | 64) => NumpyKind::Float,
        ('c', 8) => NumpyKind::Bytes,
        _ => return None,
    };
    Some(NumpyType::plain(kind, *bits as usize / 8, true))
}

fn reading(layout: Result<&ItemLayout, &ValueError>, compat: BugCompat) -> Reading {
    match layout {
        Err(_) => Reading::Bad,
        Ok(ItemLayout::Numpy(header)) if !compat.swap_endian => match header.bytes() {
            Ok(bytes) => Reading::Fixed { header: header.to_string().into(), bytes },
            Err(_) => Reading::Bad,
        },
        Ok(ItemLayout::Spead { format, shape }) if plain(format).is_some() => {
            let of = plain(format).unwrap_or(NumpyType::plain(NumpyKind::Unsigned, 1, true));
            let fixed =
                shape.iter().map(|d| usize::try_from((*d)?).ok()).collect::<Option<Vec<_>>>();
            match fixed.map(|shape| NumpyHeader::new(of.clone(), shape)) {
                Some(header) => match header.bytes() {
                    Ok(bytes) => Reading::Fixed { header: header.to_string().into(), bytes },
                    Err(_) => Reading::Bad,
                },
                None => Reading::Open { of, shape: shape.clone() },
            }
        }
        Ok(layout) => Reading::Turned(layout.clone()),
    }
}

/// The array that so many bytes are, with its open dimension filled in.
fn filled(of: &NumpyType, shape: &[Option<u64>], bytes: usize) -> Option<NumpyHeader> {
    let each = of.size().ok()?;
    let fixed = shape.iter().flatten().try_fold(1u64, |n, d| n.checked_mul(*d));
    let available = (bytes / each.max(1)) as u64;
    let open = match fixed {
        Some(0) | None => 0,
        Some(fixed) => available / fixed,
    };
    let shape = shape.iter().map(|d| usize::try_from(d.unwrap_or(open)).ok());
    Some(NumpyHeader::new(of.clone(), shape.collect::<Option<_>>()?))
}

impl Items {
    pub fn new(compat: BugCompat, most: usize, wanted: Vec<String>) -> Items {
        let group = ItemGroup::new(compat).with_limit(most);
        Items { group, described: HashMap::new(), wanted, compat }
    }

    /// Takes a heap's descriptors; returns how many were new or had changed.
    pub fn describe(&mut self, heap: &Heap) -> usize {
        let changed = self.group.take_descriptors(heap);
        for id in &changed {
            let Some(item) = self.group.get(*id) else { continue };
            let d = &item.descriptor;
            let (name, description) = (d.name.as_str().into(), d.description.as_str().into());
            let reading = reading(item.layout(), self.compat);
            self.described.insert(*id, Described { name, description, reading });
        }
        if !changed.is_empty() {
            let group = &self.group;
            self.described.retain(|id, _| group.get(*id).is_some());
        }
        changed.len()
    }

    /// Descriptors that were refused so far.
    pub fn refused(&self) -> u64 {
        self.group.counts().too_many
    }

    /// The descriptors.
    pub fn group(&self) -> &ItemGroup {
        &self.group
    }

    /// The array of an item.
    pub fn take(&self, owner: &Owner, flavour: Flavour, id: u64, place: &Place) -> Taken {
        let Some(described) = self.described.get(&id) else {
            let name: Arc<str> = format!("item_0x{id:x}").into();
            if !self.wants(&name) {
                return Taken::Unwanted;
            }
            return Taken::Undescribed(undescribed(owner, id, name, place));
        };
        if !self.wants(&described.name) {
            return Taken::Unwanted;
        }
        match value(owner, flavour, id, place, &described.reading, self.compat) {
            Some((header, bytes)) => Taken::Value(ItemProduct {
                id,
                name: described.name.clone(),
                description: described.description.clone(),
                header,
                bytes,
            }),
            None => Taken::Bad,
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|wanted| wanted == name)
    }
}

/// Bytes, or a number, as they came.
fn undescribed(owner: &Owner, id: u64, name: Arc<str>, place: &Place) -> ItemProduct {
    let (header, bytes) = match place {
        Ok(range) => {
            let of = NumpyType::plain(NumpyKind::Unsigned, 1, false);
            let bytes = SharedBytes::part(owner.clone(), range.clone());
            (NumpyHeader::new(of, vec![bytes.as_slice().len()]), bytes)
        }
        Err(value) => {
            let of = NumpyType::plain(NumpyKind::Unsigned, 8, false);
            (NumpyHeader::new(of, vec![]), SharedBytes::of(value.to_le_bytes().to_vec()))
        }
    };
    ItemProduct { id, name, description: "".into(), header: header.to_string().into(), bytes }
}

/// Header and bytes; `None`: they do not fit.
fn value(
    owner: &Owner,
    flavour: Flavour,
    id: u64,
    place: &Place,
    reading: &Reading,
    compat: BugCompat,
) -> Option<(Arc<str>, SharedBytes)> {
    let wide = flavour.address_bytes();
    match (reading, place) {
        (Reading::Bad, _) => None,
        (Reading::Fixed { header, bytes }, Ok(range)) => {
            let fits = range.len() >= *bytes;
            let part = || SharedBytes::part(owner.clone(), range.start..range.start + bytes);
            fits.then(|| (header.clone(), part()))
        }
        (Reading::Fixed { header, bytes }, Err(value)) => {
            let last = (*bytes <= wide).then(|| value.to_be_bytes()[8 - bytes..].to_vec());
            last.map(|last| (header.clone(), SharedBytes::of(last)))
        }
        (Reading::Open { of, shape }, Ok(range)) => {
            let header = filled(of, shape, range.len())?;
            let end = range.start + header.bytes().ok().filter(|n| *n <= range.len())?;
            Some((header.to_string().into(), SharedBytes::part(owner.clone(), range.start..end)))
        }
        (Reading::Open { of, shape }, Err(value)) => {
            let header = filled(of, shape, wide)?;
            let bytes = header.bytes().ok().filter(|n| *n <= wide)?;
            let last = value.to_be_bytes()[8 - bytes..].to_vec();
            Some((header.to_string().into(), SharedBytes::of(last)))
        }
        (Reading::Turned(layout), place) => {
            let whole = (**owner).as_ref();
            let value = match place {
                Ok(range) => layout.decode_bytes(whole.get(range.clone())?, false, compat).ok()?,
                Err(value) => {
                    let value = fullcount_spead::receive::ItemValue::Immediate(*value);
                    layout.decode(&HeapItem { id, value, flavour }, compat).ok()?
                }
            };
            let (header, bytes) = native(&value)?;
            Some((header.to_string().into(), SharedBytes::of(bytes)))
        }
    }
}
