//! A column of events to be written, in memory that is aligned for direct writes.
//!
//! Direct writes need memory, place in the file and length to be multiples of 4 KiB. So the first value has the same
//! offset from such a boundary in memory as in the file, and data between two boundaries can be written without a copy.
//! Memory grows when it is needed.

use std::ops::Deref;

use fullcount_io::disk::ALIGNED;

use super::sys;

/// Values of a boundary.
const STEP: usize = ALIGNED / size_of::<i32>();
/// Smallest number of values for which memory is allocated: 64 KiB.
const LEAST: usize = 1 << 14;

/// Values of `event_id` or `event_time_offset`.
#[derive(Debug, Default)]
pub struct Cells {
    memory: Vec<i32>,
    /// Values in front of the first one.
    front: usize,
    /// Values behind a boundary of the file at which the first one will be.
    phase: usize,
}

impl Cells {
    /// Room for `values` values.
    pub fn with_capacity(values: usize) -> Cells {
        let mut cells = Cells { memory: Vec::with_capacity(values + 2 * STEP), front: 0, phase: 0 };
        cells.begin(0);
        cells
    }

    /// Removes all values; the next one will be `phase` values after a boundary of [`ALIGNED`] bytes in the file.
    pub fn begin(&mut self, phase: usize) {
        self.memory.clear();
        (self.front, self.phase) = (0, phase % STEP);
        if self.memory.capacity() >= 2 * STEP {
            // Never further than a boundary; if it were, the values would only not be aligned.
            let boundary = self.memory.as_ptr().align_offset(ALIGNED).min(STEP - 1);
            self.front = boundary + self.phase;
            self.memory.resize(self.front, 0);
        }
    }

    /// Reserves space for `more` values, so that they do not move.
    #[inline]
    pub fn make_room(&mut self, more: usize) {
        if self.memory.capacity() - self.memory.len() < more {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let wanted = (self.len() + more).max(LEAST).next_power_of_two();
        let mut larger = Cells::with_capacity(wanted);
        larger.begin(self.phase);
        larger.memory.extend_from_slice(self);
        *self = larger;
    }

    /// Adds values.
    #[inline]
    pub fn extend(&mut self, values: impl ExactSizeIterator<Item = i32>) {
        self.make_room(values.len());
        self.memory.extend(values);
    }

    /// Adds these values.
    #[inline]
    pub fn extend_from_slice(&mut self, values: &[i32]) {
        self.make_room(values.len());
        self.memory.extend_from_slice(values);
    }

    /// Values behind a boundary of the file at which the first one will be.
    pub fn phase(&self) -> usize {
        self.phase
    }

    /// The values as they lie in memory.
    pub fn bytes(&self) -> &[u8] {
        sys::bytes(self)
    }
}

impl Deref for Cells {
    type Target = [i32];

    fn deref(&self) -> &[i32] {
        &self.memory[self.front..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_as_far_behind_a_boundary_as_they_were_told_to() {
        for phase in [0, 1, 1023, 1024, 5000] {
            let mut cells = Cells::default();
            cells.begin(phase);
            let mut want = Vec::new();
            for n in [1, 10, 3000, 100_000, 7] {
                let values: Vec<i32> = (0..n).collect();
                cells.extend(values.iter().copied());
                cells.extend_from_slice(&values);
                want.extend([values.clone(), values].concat());
                assert_eq!(&cells[..], &want[..]);
            }
            let mut roomy = Cells::with_capacity(10);
            roomy.begin(phase);
            roomy.extend(std::iter::repeat_n(7, 1_000_000));
            let place = roomy.bytes().as_ptr() as usize;
            assert_eq!(place % ALIGNED, phase % STEP * 4, "also after it has grown");
            assert_eq!(roomy.bytes().len(), 4_000_000);
        }
    }

    #[test]
    fn memory_stays_where_it_is_while_there_is_room() {
        let mut cells = Cells::with_capacity(1000);
        let place = cells.bytes().as_ptr();
        cells.extend(0..1000);
        assert_eq!((cells.bytes().as_ptr(), cells.len()), (place, 1000));
        cells.begin(0);
        assert!(cells.is_empty());
    }
}
