//! Heaps of an item group: descriptors that were not sent yet or are due again, values that have changed.
//!
//! Whoever joins late can decode nothing before the descriptors come again: give a frequency. Source:
//! `docs/formats/spead.md`, section 15.

use std::collections::BTreeMap;

use super::out_heap::OutHeap;
use crate::describe::{Descriptor, DescriptorError, ItemGroup, ValueError};
use crate::wire::Flavour;

/// Which descriptors or values go into a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum What {
    /// Those that were not sent, have changed or are due again.
    #[default]
    Stale,
    /// All.
    All,
    /// None.
    None,
}

/// Why a heap cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// A descriptor has no room in the flavour.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// A value does not fit its descriptor.
    #[error("item 0x{0:x}: {1}")]
    Value(u64, ValueError),
}

#[derive(Debug, Clone, Default)]
struct Told {
    /// The one that the rest is about.
    descriptor: Option<Descriptor>,
    /// It was sent.
    sent: bool,
    at_heap: u64,
    value: Option<u64>,
}

/// Makes heaps of an item group.
#[derive(Debug, Clone)]
pub struct HeapGenerator {
    /// The items.
    pub group: ItemGroup,
    flavour: Flavour,
    descriptor_frequency: Option<u64>,
    heaps: u64,
    told: BTreeMap<u64, Told>,
}

impl HeapGenerator {
    /// For a group; descriptors again every `descriptor_frequency` heaps.
    pub fn new(
        group: ItemGroup,
        flavour: Flavour,
        descriptor_frequency: Option<u64>,
    ) -> HeapGenerator {
        HeapGenerator { group, flavour, descriptor_frequency, heaps: 0, told: BTreeMap::new() }
    }

    /// The next heap.
    ///
    /// # Errors
    /// If a descriptor or value cannot be written.
    pub fn heap(&mut self, descriptors: What, data: What) -> Result<OutHeap, GenerateError> {
        let mut heap = OutHeap::new(self.flavour);
        self.add_to(&mut heap, descriptors, data)?;
        Ok(heap)
    }

    /// Adds what is to be sent to a heap.
    ///
    /// # Errors
    /// If a descriptor or value cannot be written.
    pub fn add_to(
        &mut self,
        heap: &mut OutHeap,
        descriptors: What,
        data: What,
    ) -> Result<(), GenerateError> {
        self.heaps += 1;
        let compat = self.group.compat();
        self.told.retain(|id, _| self.group.get(*id).is_some());
        for item in self.group.items() {
            let id = item.descriptor.id;
            let told = self.told.entry(id).or_default();
            // Another descriptor than before, whether it has a value by now or not: all of the item is new.
            if told.descriptor.as_ref() != Some(&item.descriptor) {
                let descriptor = Some(item.descriptor.clone());
                *told = Told { descriptor, ..Told::default() };
            }
            let again = self.descriptor_frequency.is_some_and(|f| self.heaps - told.at_heap >= f);
            let stale = !told.sent || again;
            if descriptors == What::All || descriptors == What::Stale && stale {
                heap.add_descriptor(&item.descriptor, compat)?;
                told.sent = true;
                told.at_heap = self.heaps;
            }
        }
        for item in self.group.items() {
            let id = item.descriptor.id;
            let Some(value) = &item.value else { continue };
            let told = self.told.entry(id).or_default();
            let stale = told.value != Some(item.version);
            if data == What::All || data == What::Stale && stale {
                let error = |e| GenerateError::Value(id, e);
                let layout = item.layout().map_err(|e| error(e.clone()))?;
                let bytes = layout.encode(value, compat).map_err(error)?;
                heap.add_item(id, bytes, layout.allow_immediate());
                told.value = Some(item.version);
            }
        }
        Ok(())
    }
}
