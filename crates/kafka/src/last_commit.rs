//! The last commit of a member that leaves its group.
//!
//! If another member leaves at the same time, the group may rebalance just then: a commit with the older assignment is
//! refused, and packets read since the commit before would come again although no other member has read them. So the
//! member joins again, reads nothing, and commits its offsets once more. This is rare, because the rebalance has to
//! come while the commit is in flight: one of about 170 pairs that were stopped within half a second of each other.
//! Refuses partitions that belong to another member by then. Source: KIP-429; `docs/raw.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::consumer::{ConsumeError, Consumer};

/// How long it tries.
const LONGEST: Duration = Duration::from_secs(5);
/// Between two looks whether it has joined.
const JOINING: Duration = Duration::from_millis(50);

impl Consumer {
    /// As [`Consumer::commit`] with `wait`, for a member that reads no more: offset of the next message by partition of `topic`.
    ///
    /// # Errors
    /// As there; also if some of it belongs to another member by now, or was read further already: see
    /// [`Consumer::places`].
    pub fn commit_last(&self, topic: &str, next: &BTreeMap<i32, i64>) -> Result<(), ConsumeError> {
        let list = |next: &BTreeMap<i32, i64>| -> Vec<(&str, i32, i64)> {
            next.iter().map(|(p, at)| (topic, *p, *at)).collect()
        };
        let Err(mut refused) = self.commit(&list(next), true) else { return Ok(()) };
        let end = Instant::now() + LONGEST;
        while refused.is_of_an_older_share() && Instant::now() < end {
            let _ = self.rest(true);
            let _ = self.poll(JOINING);
            // Does not wait for partitions that the group wants for another member meanwhile.
            let _ = self.give_up();
            let Some(left) = self.own_again(topic, next) else { continue };
            match self.commit(&list(&left), true) {
                Ok(()) if left.len() == next.len() => return Ok(()),
                Ok(()) => break,
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Those of the offsets whose partitions this member has now, and which are ahead of the group's; `None` while it
    /// has no partition.
    fn own_again(&self, topic: &str, next: &BTreeMap<i32, i64>) -> Option<BTreeMap<i32, i64>> {
        let own = self.assigned().ok()?.into_iter().filter(|(t, _)| t == topic);
        let own: BTreeSet<i32> = own.map(|(_, partition)| partition).collect();
        if own.is_empty() {
            return None;
        }
        let asked: Vec<i32> = own.iter().copied().collect();
        let stands: BTreeMap<i32, i64> = self.places(topic, &asked).ok()?.into_iter().collect();
        let behind = |p: &i32, at: &i64| stands.get(p).is_none_or(|stands| stands < at);
        let left = next.iter().filter(|(p, at)| own.contains(p) && behind(p, at));
        Some(left.map(|(p, at)| (*p, *at)).collect())
    }
}
