//! What heaps become: whole records of a stream with named arrays, for files, the page and programs.
//!
//! An item is a NumPy header and bytes, which refer to the memory that the heap was received in: nothing is copied on the way to
//! an output. Source: `docs/heap.md`; NumPy, "NPY format".

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A part of memory that several may hold.
#[derive(Clone)]
pub struct SharedBytes {
    whole: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl SharedBytes {
    /// These bytes of `whole`; what lies beyond its end is left out.
    pub fn part(whole: Arc<dyn AsRef<[u8]> + Send + Sync>, range: Range<usize>) -> SharedBytes {
        let end = range.end.min((*whole).as_ref().len());
        SharedBytes { range: range.start.min(end)..end, whole }
    }

    /// All of these bytes.
    pub fn of(bytes: Vec<u8>) -> SharedBytes {
        let end = bytes.len();
        SharedBytes { whole: Arc::new(bytes), range: 0..end }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &(*self.whole).as_ref()[self.range.clone()]
    }
}

impl PartialEq for SharedBytes {
    fn eq(&self, other: &SharedBytes) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({} B)", self.range.len())
    }
}

/// One array of a heap.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemProduct {
    /// Its id.
    pub id: u64,
    /// Its name; of an item that nobody described `item_0x…`.
    pub name: Arc<str>,
    /// What its sender says about it.
    pub description: Arc<str>,
    /// Type, order and shape, as an `.npy` file has them: `{'descr': …, 'fortran_order': …, 'shape': …}`.
    pub header: Arc<str>,
    /// The array, as the header says.
    pub bytes: SharedBytes,
}

/// One heap.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HeapProduct {
    /// Its number, as the sender gave it.
    pub number: u64,
    /// When its first packet came, ns since 1970; 0: unknown.
    pub time_ns: i64,
    /// Bits of its addresses: its flavour is SPEAD-64-this.
    pub address_bits: u32,
    /// Bytes of its payload, if any packet said so.
    pub length: Option<u64>,
    /// Bytes of payload that are there.
    pub received: u64,
    /// Bytes that are missing, as ranges of the payload; empty: the heap is complete.
    pub missing: Vec<Range<u64>>,
    /// False: some of it is missing, known or not.
    pub complete: bool,
    /// Its arrays; bytes of an incomplete heap that are missing are 0.
    pub items: Vec<ItemProduct>,
}

impl HeapProduct {
    /// Bytes of all its arrays.
    pub fn bytes(&self) -> usize {
        self.items.iter().map(|item| item.bytes.as_slice().len()).sum()
    }

    /// The array of this name.
    pub fn named(&self, name: &str) -> Option<&ItemProduct> {
        self.items.iter().find(|item| &*item.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_memory_compare_by_their_bytes_and_never_reach_beyond() {
        let whole: Arc<Vec<u8>> = Arc::new((0..10).collect());
        let part = SharedBytes::part(whole.clone(), 2..5);
        assert_eq!(
            (part.as_slice(), format!("{part:?}")),
            (&[2, 3, 4][..], "SharedBytes(3 B)".into())
        );
        assert_eq!(part, SharedBytes::of(vec![2, 3, 4]));
        assert_eq!(SharedBytes::part(whole.clone(), 8..99).as_slice(), [8, 9]);
        assert!(SharedBytes::part(whole, 98..99).as_slice().is_empty());
    }
}
