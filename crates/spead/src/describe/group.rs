//! Item groups: all items known of a stream, updated by its heaps; and what of them a sender still has to send.
//!
//! Bounded: as many items as [`ItemGroup::with_limit`] says, descriptors beyond are counted and dropped. What cannot be
//! decoded costs that value and one count. Source: `docs/formats/spead.md`, section 15.

use std::collections::BTreeMap;

use super::array::ItemArray;
use super::descriptor::{Descriptor, ItemLayout};
use super::{BugCompat, DescriptorRefusals, DescriptorRefused, ValueError};
use crate::receive::Heap;
use crate::wire::id;

/// Most items of a group, unless told otherwise.
const MOST_ITEMS: usize = 65_536;
/// Most text of all descriptors of a group, bytes.
const MOST_TEXT: usize = 64 << 20;

/// An item with its last value.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupItem {
    /// What it is.
    pub descriptor: Descriptor,
    /// Its last value; `None`: none came.
    pub value: Option<ItemArray>,
    /// Goes up with each value, and where the descriptor changes.
    pub version: u64,
    layout: Result<ItemLayout, ValueError>,
}

impl GroupItem {
    /// How its bytes are read, or why they cannot be.
    pub fn layout(&self) -> Result<&ItemLayout, &ValueError> {
        self.layout.as_ref()
    }

    fn text(&self) -> usize {
        let d = &self.descriptor;
        d.name.len()
            + d.description.len()
            + d.numpy_header.len()
            + 16 * (d.shape.len() + d.format.len())
    }
}

/// What went wrong so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupCounts {
    /// Values of ids without a descriptor.
    pub unknown: u64,
    /// Values that their descriptor does not fit.
    pub undecodable: u64,
    /// Descriptors beyond the limit.
    pub too_many: u64,
    /// Descriptors that changed an item.
    pub changed: u64,
    /// Descriptors that describe nothing, by reason; those beyond the limits too. An item whose descriptor cannot be read is still in
    /// the group: its name is known, and its values are `undecodable`.
    pub refused: DescriptorRefusals,
}

/// What a heap did to a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupUpdate {
    /// Ids with a new value, in the heap's order.
    pub values: Vec<u64>,
    /// Ids with a new descriptor.
    pub descriptors: Vec<u64>,
    /// Values that could not be decoded.
    pub errors: Vec<(u64, ValueError)>,
}

/// Items by id and name.
#[derive(Debug, Clone, Default)]
pub struct ItemGroup {
    compat: BugCompat,
    limit: Option<usize>,
    items: BTreeMap<u64, GroupItem>,
    names: BTreeMap<String, u64>,
    text: usize,
    counts: GroupCounts,
}

impl ItemGroup {
    /// An empty group.
    pub fn new(compat: BugCompat) -> ItemGroup {
        ItemGroup { compat, ..ItemGroup::default() }
    }

    /// At most so many items.
    pub fn with_limit(self, items: usize) -> ItemGroup {
        ItemGroup { limit: Some(items), ..self }
    }

    /// How PySPEAD is followed.
    pub fn compat(&self) -> BugCompat {
        self.compat
    }

    /// What went wrong so far.
    pub fn counts(&self) -> GroupCounts {
        self.counts
    }

    /// All items by id.
    pub fn items(&self) -> impl Iterator<Item = &GroupItem> {
        self.items.values()
    }

    /// The item of an id.
    pub fn get(&self, id: u64) -> Option<&GroupItem> {
        self.items.get(&id)
    }

    /// The item of a name.
    pub fn named(&self, name: &str) -> Option<&GroupItem> {
        self.items.get(self.names.get(name)?)
    }

    fn remove(&mut self, id: u64) -> Option<GroupItem> {
        let item = self.items.remove(&id)?;
        if self.names.get(&item.descriptor.name) == Some(&id) {
            self.names.remove(&item.descriptor.name);
        }
        self.text -= item.text();
        Some(item)
    }

    /// Adds or changes an item; id 0 takes the next free one from 0x1000. Items with the same id or name are replaced, and the
    /// version goes on from theirs. Returns its id; `None`: the group is full.
    pub fn add(&mut self, mut descriptor: Descriptor) -> Option<u64> {
        if descriptor.id == 0 {
            descriptor.id = (id::FIRST_CHOSEN..).find(|id| !self.items.contains_key(id))?;
        }
        let id = descriptor.id;
        if let Some(known) = self.items.get(&id).filter(|known| known.descriptor == descriptor) {
            if let Err(why) = &known.layout {
                self.counts.refused.add(why.into());
            }
            return Some(id);
        }
        let layout = descriptor.layout();
        let unusable = layout.as_ref().err().map(DescriptorRefused::from);
        let mut item = GroupItem { descriptor, value: None, version: 1, layout };
        let same_name = self.names.get(&item.descriptor.name).copied();
        let replaces =
            [Some(id), same_name].into_iter().flatten().filter(|id| self.items.contains_key(id));
        let replaces: Vec<u64> = replaces.collect();
        let freed: usize = replaces.iter().map(|id| self.items[id].text()).max().unwrap_or(0);
        let full = replaces.is_empty() && self.items.len() >= self.limit.unwrap_or(MOST_ITEMS);
        if full || self.text - freed + item.text() > MOST_TEXT {
            let why =
                if full { DescriptorRefused::GroupFull } else { DescriptorRefused::TextTooLong };
            self.counts.refused.add(why);
            self.counts.too_many += 1;
            return None;
        }
        if let Some(why) = unusable {
            self.counts.refused.add(why);
        }
        for old in replaces {
            if let Some(old) = self.remove(old) {
                item.version = item.version.max(old.version + 1);
                self.counts.changed += 1;
            }
        }
        self.text += item.text();
        self.names.insert(item.descriptor.name.clone(), id);
        self.items.insert(id, item);
        Some(id)
    }

    /// Sets a value to be sent.
    ///
    /// # Errors
    /// If there is no such item, or the value is not of its type and shape.
    pub fn set(&mut self, id: u64, value: ItemArray) -> Result<(), ValueError> {
        let item = self.items.get_mut(&id).ok_or(ValueError::Mismatch)?;
        item.layout.as_ref().map_err(Clone::clone)?.encode(&value, self.compat)?;
        item.value = Some(value);
        item.version += 1;
        Ok(())
    }

    /// Takes the descriptors of a heap, and leaves its values alone. Returns the ids of those that are new or have changed.
    pub fn take_descriptors(&mut self, heap: &Heap) -> Vec<u64> {
        let mut changed = Vec::new();
        for bytes in heap.descriptor_bytes() {
            let refused = &mut self.counts.refused;
            for descriptor in Descriptor::parse_counted(bytes, self.compat, MOST_ITEMS, refused) {
                let known = self.items.get(&descriptor.id).map(|item| &item.descriptor);
                let same = known == Some(&descriptor);
                if let Some(id) = self.add(descriptor).filter(|_| !same) {
                    changed.push(id);
                }
            }
        }
        changed
    }

    /// Takes descriptors and values of a heap.
    pub fn update(&mut self, heap: &Heap) -> GroupUpdate {
        let descriptors = self.take_descriptors(heap);
        let mut update = GroupUpdate { descriptors, ..GroupUpdate::default() };
        for item in heap.items().filter(|item| item.id > id::STREAM_CTRL) {
            let Some(known) = self.items.get_mut(&item.id) else {
                self.counts.unknown += 1;
                continue;
            };
            let layout = known.layout.as_ref().map_err(Clone::clone);
            match layout.and_then(|layout| layout.decode(&item, self.compat)) {
                Ok(value) => {
                    known.value = Some(value);
                    known.version += 1;
                    update.values.push(item.id);
                }
                Err(why) => {
                    self.counts.undecodable += 1;
                    update.errors.push((item.id, why));
                }
            }
        }
        update
    }
}
