//! In which order the partitions of a topic were read, kept in a file, so that a replay reads them in that order again.
//!
//! Partitions have no order among each other, and what arrives first is chance; events at one time, and batches, follow
//! from it. So each batch's runs of messages are written down before the batch is handed on: to the page cache only, as
//! the spool's appends are, which outlives the process. A batch that was cut off by a kill was not handed on.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | partition, u32; 2³²−1: the batch ends here; 2³²−2: the topic was read to its end |
//! | 4..8 | messages, u32 |
//!
//! Little-endian, one after the other. Refuses a file that cannot be written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

const BATCH: u32 = u32::MAX;
const END: u32 = u32::MAX - 1;
const ENTRY: usize = 8;

/// What was read next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A batch: partition and number of messages, in turn.
    Batch(Vec<(i32, u32)>),
    /// The topic was read to its end.
    End,
}

/// The file, and what an earlier process wrote into it.
pub(crate) struct PartitionOrder {
    file: File,
    earlier: VecDeque<Step>,
    buffer: Vec<u8>,
}

impl PartitionOrder {
    /// Reads what is there, and goes on behind the last whole batch.
    pub fn open(path: &Path) -> io::Result<PartitionOrder> {
        let mut file = fullcount_io::newfile::open_own(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let (mut earlier, mut runs, mut whole) = (VecDeque::new(), Vec::new(), 0);
        for (at, entry) in bytes.as_chunks::<ENTRY>().0.iter().enumerate() {
            let half = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| entry[at + i]));
            match (half(0), half(4)) {
                (BATCH, _) => earlier.push_back(Step::Batch(std::mem::take(&mut runs))),
                (END, _) => earlier.push_back(Step::End),
                (partition, messages) => {
                    runs.push((partition.cast_signed(), messages));
                    continue;
                }
            }
            whole = (at + 1) * ENTRY;
        }
        file.set_len(whole as u64)?;
        Ok(PartitionOrder { file, earlier, buffer: Vec::new() })
    }

    /// What the earlier process read next; `None` once all has been said.
    pub fn next(&mut self) -> Option<Step> {
        self.earlier.pop_front()
    }

    /// Before it is handed on.
    pub fn write(&mut self, step: &Step) -> io::Result<()> {
        self.buffer.clear();
        let mut lay = |a: u32, b: u32| {
            self.buffer.extend(a.to_le_bytes());
            self.buffer.extend(b.to_le_bytes());
        };
        match step {
            Step::Batch(runs) => {
                runs.iter().for_each(|&(p, n)| lay(p.cast_unsigned(), n));
                lay(BATCH, 0);
            }
            Step::End => lay(END, 0),
        }
        self.file.write_all(&self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_batches_are_read_back_and_a_cut_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("order");
        let steps = [
            Step::Batch(vec![(0, 5), (2, 1), (0, 7)]),
            Step::Batch(vec![]),
            Step::Batch(vec![(1, 1024)]),
        ];
        let mut order = PartitionOrder::open(&path).unwrap();
        assert_eq!(order.next(), None);
        steps.iter().for_each(|step| order.write(step).unwrap());
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut order = PartitionOrder::open(&path).unwrap();
            let count = [32, 40, 56].iter().filter(|&&end| cut >= end).count();
            let found: Vec<Step> = std::iter::from_fn(|| order.next()).collect();
            assert_eq!(found, steps[..count], "{cut} bytes");
            // It goes on behind them.
            order.write(&Step::End).unwrap();
            let mut order = PartitionOrder::open(&path).unwrap();
            assert_eq!(std::iter::from_fn(|| order.next()).count(), count + 1);
        }
    }
}
