//! Who sends packets of heaps, and how many: each sender is a module to its operator.
//!
//! Heaps are numbered over all senders, so what one of them lacks is not known. Keeps 256 senders; of more, nothing is told.

use fullcount_core::batch::Origin;

use crate::detector::{MOST_MODULES, SeenModule};

/// Senders with their accepted packets, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Senders {
    all: Vec<(Origin, u64)>,
    /// Place of the one that sent last.
    last: usize,
}

impl Senders {
    /// So many packets of a sender more.
    #[inline]
    pub fn add(&mut self, origin: Origin, packets: u64) {
        match self.all.get_mut(self.last) {
            Some((last, count)) if *last == origin => *count += packets,
            _ => self.other(origin, packets),
        }
    }

    fn other(&mut self, origin: Origin, packets: u64) {
        let known = self.all.iter().position(|(sender, _)| *sender == origin);
        if known.is_none() && (packets == 0 || self.all.len() >= MOST_MODULES) {
            return;
        }
        self.last = known.unwrap_or_else(|| {
            self.all.push((origin, 0));
            self.all.len() - 1
        });
        self.all[self.last].1 += packets;
    }

    /// Tells of each.
    pub fn tell(&self, tell: &mut dyn FnMut(SeenModule)) {
        for &(origin, packets) in &self.all {
            tell(SeenModule { origin, id: 0, packets, lost: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(senders: &Senders) -> Vec<(Origin, u64)> {
        let mut all = Vec::new();
        senders.tell(&mut |seen| all.push((seen.origin, seen.packets)));
        all
    }

    #[test]
    fn senders_take_turns_and_invented_ones_are_bounded() {
        let from = |n: u32| Origin::from(std::net::SocketAddr::from((n.to_be_bytes(), 7)));
        let mut senders = Senders::default();
        for (n, packets) in [(1, 2), (2, 3), (1, 4), (3, 0), (2, 1)] {
            senders.add(from(n), packets);
        }
        assert_eq!(told(&senders), [(from(1), 6), (from(2), 4)]);
        (10..5000).for_each(|n| senders.add(from(n), 1));
        senders.add(from(1), 1);
        let all = told(&senders);
        assert_eq!((all.len(), all[0]), (MOST_MODULES, (from(1), 7)));
    }
}
