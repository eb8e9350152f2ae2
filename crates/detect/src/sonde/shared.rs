//! What the readers of one detector share: the newest header time, the first packet of a recording, and who draws on
//! which module.
//!
//! The time is published once per batch; the lock is taken once per new stream, never
//! per packet. Source: `docs/sonde.md`, "Time" and "Geometry".

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use fullcount_core::batch::Origin;

use super::arrival::Point;
use super::clock::HeaderTime;

/// Senders that are told apart over all modules, 1 MiB and a half: invented addresses must not fill the memory.
const MOST_SENDERS: usize = 1 << 15;

/// Address and system number.
type Senders = HashSet<([u8; 16], u8)>;

/// Shared by all readers of a detector.
#[derive(Debug)]
pub(super) struct Shared {
    /// Newest header time that any reader has seen, for streams that begin on another one.
    newest: AtomicI64,
    /// First packet of a recording whose streams are read apart.
    first: OnceLock<Point>,
    /// Address and system number of all that send for a module, by the module's pixel offset; and how many they are.
    senders: Mutex<(HashMap<u32, Senders>, usize)>,
}

impl Shared {
    pub fn new() -> Shared {
        // Below every header time: the first published one replaces it.
        Shared {
            newest: AtomicI64::new(i64::MIN),
            first: OnceLock::new(),
            senders: Mutex::default(),
        }
    }

    pub fn publish(&self, ticks: i64) {
        self.newest.fetch_max(ticks, Relaxed);
    }

    pub fn newest(&self) -> Option<HeaderTime> {
        let ticks = self.newest.load(Relaxed);
        (ticks != i64::MIN).then_some(HeaderTime { raw: ticks as u32, ticks })
    }

    /// The turns of a recording whose streams are read apart are counted from there.
    pub fn count_turns(&self, from: Point) {
        // The first one stays: all readers must place streams by the same.
        let _ = self.first.set(from);
    }

    pub fn first(&self) -> Option<Point> {
        self.first.get().copied()
    }

    /// True if this new sender's pixels are those of another sender as well. A module that goes on from
    /// another port after a restart is the same sender: address and system number decide. Of more senders than are told
    /// apart it is not said.
    pub fn overlaps(&self, pixel_offset: u32, origin: Origin, system: u8) -> bool {
        let mut senders = self.senders.lock().expect("no holder panics");
        let (modules, all) = &mut *senders;
        if *all >= MOST_SENDERS {
            return false;
        }
        let of_module = modules.entry(pixel_offset).or_default();
        let new = of_module.insert((origin.ip, system));
        *all += usize::from(new);
        new && of_module.len() > 1
    }
}
