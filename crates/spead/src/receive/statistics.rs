//! Statistics of a stream by the names that spead2 gives them, and those that a user adds.
//!
//! Source: `docs/formats/spead.md`, section 10.

/// How two values become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatisticMode {
    /// Added up.
    Sum,
    /// The largest.
    Maximum,
}

/// One that a user added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserStatistic {
    /// Unique within a stream.
    pub name: String,
    /// How two values become one.
    pub mode: StatisticMode,
    /// Its value.
    pub value: u64,
}

/// Statistics of a receive stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamStatistics {
    /// Heaps handed over: complete, evicted, flushed, given up by time.
    pub heaps: u64,
    /// Pushed out by newer heaps.
    pub incomplete_heaps_evicted: u64,
    /// Still live at the stop.
    pub incomplete_heaps_flushed: u64,
    /// Packets that passed decoding.
    pub packets: u64,
    /// Reads that delivered packets.
    pub batches: u64,
    /// Most packets of one read.
    pub max_batch: u64,
    /// Packets that were whole heaps.
    pub single_packet_heaps: u64,
    /// Places of the window looked at.
    pub search_dist: u64,
    /// Times that the ring was full.
    pub worker_blocked: u64,
    /// Registered by users.
    pub user: Vec<UserStatistic>,
    /// Chunk receivers: heaps of chunks that had left, or that a group had no use for any more.
    pub too_old_heaps: u64,
    /// Chunk receivers: heaps that the place function refused.
    pub rejected_heaps: u64,
    /// Ours: given up because no packet came for them. No line of spead2's list.
    pub incomplete_heaps_timed_out: u64,
}

impl StreamStatistics {
    /// Adds a statistic of the user's; `None` if there is one of that name.
    pub fn register(&mut self, name: &str, mode: StatisticMode) -> Option<usize> {
        if self.entries().any(|(known, _, _)| known == name) {
            return None;
        }
        self.user.push(UserStatistic { name: name.to_owned(), mode, value: 0 });
        Some(self.user.len() - 1)
    }

    /// Name, mode and value in spead2's order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, StatisticMode, u64)> {
        use StatisticMode::{Maximum, Sum};
        let first = [
            ("heaps", Sum, self.heaps),
            ("incomplete_heaps_evicted", Sum, self.incomplete_heaps_evicted),
            ("incomplete_heaps_flushed", Sum, self.incomplete_heaps_flushed),
            ("packets", Sum, self.packets),
            ("batches", Sum, self.batches),
            ("max_batch", Maximum, self.max_batch),
            ("single_packet_heaps", Sum, self.single_packet_heaps),
            ("search_dist", Sum, self.search_dist),
            ("worker_blocked", Sum, self.worker_blocked),
        ];
        let user = self.user.iter().map(|u| (u.name.as_str(), u.mode, u.value));
        let chunks =
            [("too_old_heaps", self.too_old_heaps), ("rejected_heaps", self.rejected_heaps)];
        first.into_iter().chain(user).chain(chunks.map(|(name, value)| (name, Sum, value)))
    }

    /// Value by name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.entries().find(|(known, _, _)| *known == name).map(|(_, _, value)| value)
    }

    /// Adds those of another stream; statistics of users by their names.
    pub fn merge(&mut self, other: &StreamStatistics) {
        self.heaps += other.heaps;
        self.incomplete_heaps_evicted += other.incomplete_heaps_evicted;
        self.incomplete_heaps_flushed += other.incomplete_heaps_flushed;
        self.packets += other.packets;
        self.batches += other.batches;
        self.max_batch = self.max_batch.max(other.max_batch);
        self.single_packet_heaps += other.single_packet_heaps;
        self.search_dist += other.search_dist;
        self.worker_blocked += other.worker_blocked;
        self.too_old_heaps += other.too_old_heaps;
        self.rejected_heaps += other.rejected_heaps;
        self.incomplete_heaps_timed_out += other.incomplete_heaps_timed_out;
        for theirs in &other.user {
            match self.user.iter_mut().find(|own| own.name == theirs.name) {
                None => self.user.push(theirs.clone()),
                Some(own) if own.mode == StatisticMode::Sum => own.value += theirs.value,
                Some(own) => own.value = own.value.max(theirs.value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_statistics_stand_before_those_of_chunks_and_merge_by_mode() {
        let mut a = StreamStatistics { heaps: 1, max_batch: 3, ..Default::default() };
        assert_eq!(a.register("deepest", StatisticMode::Maximum), Some(0));
        assert_eq!(a.register("heaps", StatisticMode::Sum), None);
        a.user[0].value = 5;
        let mut b = StreamStatistics { heaps: 2, max_batch: 2, ..Default::default() };
        b.register("more", StatisticMode::Sum);
        b.user[0].value = 7;
        b.merge(&a);
        assert_eq!((b.get("heaps"), b.get("max_batch")), (Some(3), Some(3)));
        assert_eq!((b.get("deepest"), b.get("more")), (Some(5), Some(7)));
        let names: Vec<&str> = b.entries().map(|e| e.0).collect();
        assert_eq!(
            names[8..],
            ["worker_blocked", "more", "deepest", "too_old_heaps", "rejected_heaps"]
        );
    }
}
