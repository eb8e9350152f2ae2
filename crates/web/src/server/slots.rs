//! The table of open connections: how many each address has, and which one is ended for a new one.
//!
//! A new connection is always accepted: if its address has [`MOST_OF_ONE`], or all have [`MOST`], one of that address,
//! or of the address with the most, is ended for it. So a client that opens hundreds ends its own, and a viewer who
//! asks at once is answered, even from the same address. IPv6 is counted by networks of 64 bits, because one host has
//! all addresses of one. Source: `docs/page.md`, "Who may ask".

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::pace::Step;

/// Connections at a time; of the 1024 file descriptors that a process has.
pub const MOST: usize = 256;

/// Connections of one address: a browser opens 6, and viewers behind one gateway share an address.
pub const MOST_OF_ONE: usize = 64;

/// One connection as the table sees it.
#[derive(Debug)]
struct Open {
    from: IpAddr,
    step: Step,
    /// Set when it is to end; it leaves the table when its task has seen so.
    ended: bool,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<u64, Open>,
    next: u64,
}

/// The table; its handles share it.
#[derive(Debug, Clone, Default)]
pub struct SlotTable(Arc<Mutex<Inner>>);

/// One connection's place in the table; leaves it when dropped.
#[derive(Debug)]
pub struct Slot {
    table: SlotTable,
    id: u64,
}

/// The address that connections are counted by.
fn counted_as(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6([a, b, c, d, 0, 0, 0, 0].into())
        }
        v4 => v4,
    }
}

impl SlotTable {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, and ends another one if there are too many.
    pub fn enter(&self, from: IpAddr, now: Duration) -> Slot {
        let from = counted_as(from);
        let mut inner = self.inner();
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        let mut all = 0;
        for open in inner.open.values().filter(|o| !o.ended) {
            *counts.entry(open.from).or_default() += 1;
            all += 1;
        }
        let crowd = if counts.get(&from).is_some_and(|&n| n >= MOST_OF_ONE) {
            Some(from)
        } else if all >= MOST {
            counts.into_iter().max_by_key(|&(_, n)| n).map(|(ip, _)| ip)
        } else {
            None
        };
        if let Some(crowd) = crowd {
            let members = inner.open.values_mut().filter(|o| !o.ended && o.from == crowd);
            if let Some(victim) = members.min_by_key(|o| o.step.rank()) {
                victim.ended = true;
                if let Some(waker) = victim.waker.take() {
                    waker.wake();
                }
            }
        }
        let id = inner.next;
        inner.next += 1;
        inner.open.insert(id, Open { from, step: Step::begin(now), ended: false, waker: None });
        Slot { table: self.clone(), id }
    }
}

impl Slot {
    /// Changes the step; false if the connection is to end.
    pub fn with(&self, waker: &Waker, change: impl FnOnce(&mut Step)) -> Option<Step> {
        let mut inner = self.table.inner();
        let open = inner.open.get_mut(&self.id)?;
        if open.ended {
            return None;
        }
        change(&mut open.step);
        if !open.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
            open.waker = Some(waker.clone());
        }
        Some(open.step)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.table.inner().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn lives(slot: &Slot) -> bool {
        slot.with(Waker::noop(), |_| ()).is_some()
    }

    fn at(ms: usize) -> Duration {
        Duration::from_millis(ms as u64)
    }

    #[test]
    fn an_address_pushes_out_its_own_oldest_unfinished_requests() {
        let table = SlotTable::default();
        let other = table.enter(ip("10.0.0.1"), at(0));
        let viewer = table.enter(ip("10.0.0.2"), at(0));
        viewer.with(Waker::noop(), |step| step.wrote(1, at(1))).unwrap();
        let many: Vec<Slot> = (0..300).map(|k| table.enter(ip("10.0.0.2"), at(2 + k))).collect();
        assert!(lives(&other), "another address");
        assert!(lives(&viewer), "an answer under way");
        let alive: Vec<bool> = many.iter().map(lives).collect();
        assert!(alive[..300 - MOST_OF_ONE + 1].iter().all(|a| !a), "the oldest");
        assert!(alive[300 - MOST_OF_ONE + 1..].iter().all(|a| *a), "the newest stay");
    }

    #[test]
    fn when_all_are_taken_the_address_with_the_most_makes_room() {
        let table = SlotTable::default();
        let few: Vec<Slot> = (0..2).map(|k| table.enter(ip("192.0.2.7"), at(k))).collect();
        let nets = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"];
        let many: Vec<Slot> = (0..400).map(|k| table.enter(ip(nets[k % 5]), at(10 + k))).collect();
        assert!(few.iter().all(lives));
        assert_eq!(many.iter().filter(|s| lives(s)).count(), MOST - few.len());
        drop(many);
        assert_eq!(table.inner().open.len(), 2, "who leaves is forgotten");
    }

    #[test]
    fn addresses_of_one_host_count_together() {
        assert_eq!(counted_as(ip("2001:db8:1:2:3:4:5:6")), counted_as(ip("2001:db8:1:2::9")));
        assert_ne!(counted_as(ip("2001:db8:1:2::9")), counted_as(ip("2001:db8:1:3::9")));
        assert_eq!(counted_as(ip("::ffff:10.0.0.1")), ip("10.0.0.1"));
    }
}
