//! What is in a file already behind a stop that came late: how much, and how far behind.
//!
//! A stop may lie a little in the past, and what came in between was written when no stop was known. It stays, since
//! rows of a file that others read are not taken back; the answer says so. Read from the file, so that it costs nothing
//! while data comes, and is right after a restart too. Source: `docs/write.md`, "A run".

use std::fmt;

use hdf5_metno::{H5Type, Result};

use super::column::GrowingColumn;

/// Rows looked at at a time, from the end: times go up, but for near ones that changed places.
const LOOK: usize = 4096;

/// What lies behind a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Behind {
    /// Events of later pulses.
    pub(super) events: u64,
    /// Other rows with a later time: values, alarms, images.
    pub(super) values: u64,
    /// From the time to the latest of them, ns.
    pub(super) ns: u64,
}

impl Behind {
    /// Both together.
    pub(super) fn and(self, other: Behind) -> Behind {
        Behind {
            events: self.events + other.events,
            values: self.values + other.values,
            ns: self.ns.max(other.ns),
        }
    }

    /// True if there is nothing.
    pub(super) fn is_none(self) -> bool {
        self.events == 0 && self.values == 0
    }

    /// Values behind `at`, ns since 1970, by their column of times.
    pub(super) fn of_values<T: H5Type + Copy + TryInto<i64>>(
        times: &GrowingColumn<T>,
        at: i64,
    ) -> Result<Behind> {
        let mut behind = Behind::default();
        let mut end = times.written();
        while end > 0 {
            let begin = end.saturating_sub(LOOK);
            let before = behind.values;
            for time in times.read(begin..end)? {
                let time = time.try_into().unwrap_or(i64::MAX);
                if time > at {
                    behind.values += 1;
                    behind.ns = behind.ns.max(time.abs_diff(at));
                }
            }
            if behind.values == before {
                break;
            }
            end = begin;
        }
        Ok(behind)
    }

    /// Events of pulses behind `at`, ns since 1970: `zero` and `index` are as long as each other.
    pub(super) fn of_events(
        zero: &GrowingColumn<u64>,
        index: &GrowingColumn<i64>,
        events: usize,
        at: i64,
    ) -> Result<Behind> {
        let mut behind = Behind::default();
        let (mut end, mut next) = (zero.written().min(index.written()), events as i64);
        while end > 0 {
            let begin = end.saturating_sub(LOOK);
            let mut found = false;
            let pulses = zero.read(begin..end)?.into_iter().zip(index.read(begin..end)?);
            for (time, first) in pulses.collect::<Vec<_>>().into_iter().rev() {
                let time = i64::try_from(time).unwrap_or(i64::MAX);
                if time > at {
                    found = true;
                    if next > first {
                        behind.events += next.abs_diff(first);
                        behind.ns = behind.ns.max(time.abs_diff(at));
                    }
                }
                next = first;
            }
            if !found {
                break;
            }
            end = begin;
        }
        Ok(behind)
    }
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Behind { events, values, ns } = self;
        write!(
            f,
            "{events} events and {values} values up to {ns} ns behind it are in the file already, and stay"
        )
    }
}
