//! Several streams that fill one sequence of chunks, each on a thread of its own.
//!
//! A group chunk is whole when every member has left it; its parts are merged: a member fills only its own heaps, and its chunk
//! says where these lie. No lock is held while payload is copied: members fill chunks of their own, and whoever hands one over merges it
//! with what is there before the lock is taken again; the part with fewer heaps is copied into the other. So a payload is copied into its
//! chunk once, and at most half of a chunk's heaps a second time for each further member.
//!
//! Bounded whatever the user does: while as many finished chunks wait as may, no member takes a packet, as a stream with a full ring of
//! heaps does, and counts that as `worker_blocked`. A chunk that a member hands over too late is dropped, and its heaps are that
//! member's `too_old_heaps`. Source: `docs/formats/spead.md`, sections 8.8 and 12.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
use super::window::FilledPart;
use super::window::{Chunk, ChunkMemory};

/// What happens when one member is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupEviction {
    /// The group moves on without it.
    #[default]
    Lossy,
    /// The group waits for all members.
    Lossless,
}

#[derive(Debug)]
struct Shared {
    eviction: GroupEviction,
    max_chunks: u64,
    /// Below this everything has left.
    head: u64,
    /// Largest id that any member has begun, and one.
    tail: u64,
    parts: BTreeMap<u64, Chunk>,
    /// Chunks that a member merges at the moment: they, and all later ones, stay.
    merging: Vec<u64>,
    /// Below this a member has left everything; `None`: it has stopped.
    members: Vec<Option<u64>>,
    ready: Vec<Chunk>,
    /// While so many are ready, members take no more packets.
    most_ready: usize,
    too_old: u64,
}

/// Finished chunks that may wait, unless it is said: as many as spead2's ring has heaps.
const MOST_READY: usize = 4;

impl Shared {
    /// Chunks that nobody fills any more leave, in the order of their ids.
    fn settle(&mut self) {
        let slowest = self.members.iter().flatten().min().copied().unwrap_or(u64::MAX);
        let floor = match self.eviction {
            GroupEviction::Lossless => slowest,
            GroupEviction::Lossy => slowest.max(self.tail.saturating_sub(self.max_chunks)),
        };
        let floor = self.merging.iter().fold(floor, |floor, id| floor.min(*id));
        if floor > self.head {
            let later = self.parts.split_off(&floor);
            self.ready.extend(std::mem::replace(&mut self.parts, later).into_values());
            self.head = floor.min(self.tail.max(self.head));
        }
    }

    /// Takes a part over whose chunk has not left, or gives back the chunk that it belongs to: then both are to be merged outside of
    /// the lock.
    fn merge(&mut self, chunk: Chunk) -> Option<(Chunk, Chunk)> {
        self.tail = self.tail.max(chunk.id + 1);
        match self.parts.remove(&chunk.id) {
            None => {
                self.parts.insert(chunk.id, chunk);
                None
            }
            Some(whole) => {
                self.merging.push(chunk.id);
                Some((whole, chunk))
            }
        }
    }

    /// One that was merged comes back.
    fn merged(&mut self, id: u64) {
        if let Some(at) = self.merging.iter().position(|merging| *merging == id) {
            self.merging.swap_remove(at);
        }
    }
}

/// The part with fewer heaps goes into the other.
fn joined((a, b): (Chunk, Chunk)) -> Chunk {
    let heaps = |chunk: &Chunk| chunk.present.iter().filter(|flag| **flag != 0).count();
    let (mut whole, part) = if heaps(&a) >= heaps(&b) { (a, b) } else { (b, a) };
    join(&mut whole, &part);
    whole
}

/// Takes over what `part` says that its stream filled, wherever that lies.
fn join(whole: &mut Chunk, part: &Chunk) {
    /// What lies beyond the end of either is left out: members may have chunks of several sizes.
    fn copy(to: &mut [u8], from: &[u8], range: &Range<usize>) {
        let range = range.start..range.end.min(to.len()).min(from.len());
        if let (Some(to), Some(from)) = (to.get_mut(range.clone()), from.get(range)) {
            to.copy_from_slice(from);
        }
    }
    for filled in &part.filled {
        copy(&mut whole.present, &part.present, &filled.flags);
        copy(&mut whole.data, &part.data, &filled.data);
        copy(&mut whole.extra, &part.extra, &filled.extra);
    }
    whole.filled.extend_from_slice(&part.filled);
}

/// The group.
#[derive(Debug, Clone)]
pub struct ChunkGroup {
    shared: Arc<Mutex<Shared>>,
}

impl ChunkGroup {
    /// A group whose window has `max_chunks` chunks, at least 1; larger windows of members are refused. Four finished chunks may wait
    /// for [`ChunkGroup::take_ready`].
    pub fn new(max_chunks: usize, eviction: GroupEviction) -> ChunkGroup {
        let shared = Shared {
            eviction,
            max_chunks: max_chunks.max(1) as u64,
            head: 0,
            tail: 0,
            parts: BTreeMap::new(),
            merging: vec![],
            members: vec![],
            ready: vec![],
            most_ready: MOST_READY,
            too_old: 0,
        };
        ChunkGroup { shared: Arc::new(Mutex::new(shared)) }
    }

    /// While `ready` finished chunks wait, at least 1, no member takes a packet. What members hold by then may still be added: at most
    /// three windows of the group for each, its stop included.
    pub fn with_limit(self, ready: usize) -> ChunkGroup {
        self.lock().most_ready = ready.max(1);
        self
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A member, whose chunks look like `like`; `spare` are kept for reuse.
    pub fn member(&self, like: Chunk, spare: usize) -> ChunkGroupMember {
        let mut shared = self.lock();
        shared.members.push(Some(0));
        let number = shared.members.len() - 1;
        drop(shared);
        ChunkGroupMember { group: self.clone(), number, like, spare: vec![], most_spare: spare }
    }

    /// Chunks that are finished, in the order of their ids. Who does not take them lets all members wait.
    pub fn take_ready(&self) -> Vec<Chunk> {
        std::mem::take(&mut self.lock().ready)
    }

    /// Parts of chunks that had left already.
    pub fn too_old(&self) -> u64 {
        self.lock().too_old
    }

    /// All members have stopped and everything was taken.
    pub fn is_stopped(&self) -> bool {
        let shared = self.lock();
        shared.members.iter().all(Option::is_none) && shared.ready.is_empty()
    }
}

/// The memory of a member's chunk receiver.
#[derive(Debug)]
pub struct ChunkGroupMember {
    group: ChunkGroup,
    number: usize,
    like: Chunk,
    spare: Vec<Chunk>,
    most_spare: usize,
}

impl ChunkGroupMember {
    /// Gives a chunk back for reuse.
    pub fn give_back(&mut self, chunk: Chunk) {
        if self.spare.len() < self.most_spare {
            self.spare.push(chunk);
        }
    }
}

impl ChunkMemory for ChunkGroupMember {
    fn take(&mut self, id: u64, stream: u64) -> Option<Chunk> {
        {
            let mut shared = self.group.lock();
            shared.tail = shared.tail.max(id + 1);
            shared.settle();
        }
        let mut chunk = self.spare.pop().unwrap_or_else(|| self.like.clone());
        chunk.clear();
        Some(Chunk { id, stream, ..chunk })
    }

    fn ready(&mut self, chunk: Chunk) -> bool {
        let left = chunk.id + 1;
        let mut shared = self.group.lock();
        let late = chunk.id < shared.head;
        shared.too_old += u64::from(late);
        let mut both = if late { None } else { shared.merge(chunk) };
        while let Some(pair) = both {
            drop(shared);
            let whole = joined(pair);
            shared = self.group.lock();
            shared.merged(whole.id);
            // Another member may have handed its part over meanwhile. The chunk has not left: it was being merged.
            both = shared.merge(whole);
        }
        let own = &mut shared.members[self.number];
        *own = own.map(|before| before.max(left));
        shared.settle();
        !late
    }

    fn stop(&mut self) {
        let mut shared = self.group.lock();
        shared.members[self.number] = None;
        shared.settle();
    }

    fn is_full(&self) -> bool {
        let shared = self.group.lock();
        if shared.ready.len() >= shared.most_ready {
            return true;
        }
        let own = shared.members[self.number].unwrap_or(0);
        match shared.eviction {
            // Whoever is ahead of a member that must be waited for takes no more packets.
            GroupEviction::Lossless => own >= shared.head + shared.max_chunks,
            // Only while a member merges, which is waited for: parts behind that chunk would have no bound.
            GroupEviction::Lossy => own > shared.head + shared.max_chunks,
        }
    }

    fn merges(&self) -> bool {
        true
    }

    fn oldest(&self) -> u64 {
        self.group.lock().head
    }

    fn largest_window(&self) -> Option<usize> {
        usize::try_from(self.group.lock().max_chunks).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(member: &mut ChunkGroupMember, id: u64, heap: usize) {
        let mut chunk = member.take(id, 0).unwrap();
        chunk.present[heap] = 1;
        chunk.data[heap] = ((10 * id) as u8).wrapping_add(heap as u8);
        let (flags, data) = (heap..heap + 1, heap..heap + 1);
        chunk.filled.push(FilledPart { flags, data, extra: 0..0 });
        member.ready(chunk);
    }

    fn show(group: &ChunkGroup) -> Vec<(u64, Vec<u8>)> {
        group.take_ready().into_iter().map(|c| (c.id, c.data)).collect()
    }

    #[test]
    fn parts_of_all_members_are_one_chunk() {
        let group = ChunkGroup::new(2, GroupEviction::Lossless);
        let [mut a, mut b] = [0, 1].map(|_| group.member(Chunk::new(2, 2, 0), 4));
        chunk(&mut a, 0, 0);
        chunk(&mut a, 1, 0);
        assert!(show(&group).is_empty() && a.is_full() && !b.is_full(), "waits for b");
        chunk(&mut b, 0, 1);
        assert_eq!(show(&group), [(0, vec![0, 1])]);
        chunk(&mut b, 1, 1);
        a.stop();
        b.stop();
        assert_eq!(show(&group), [(1, vec![10, 11])]);
        assert!(group.is_stopped());
    }

    /// Each of eight threads has one heap of each of 300 chunks; what one merges meanwhile is not lost for another.
    #[test]
    fn members_on_threads_of_their_own_make_whole_chunks() {
        const MEMBERS: usize = 8;
        let group = ChunkGroup::new(4, GroupEviction::Lossless);
        let all: Vec<_> =
            (0..MEMBERS).map(|_| group.member(Chunk::new(MEMBERS, MEMBERS, 0), 4)).collect();
        let mut chunks = vec![];
        std::thread::scope(|scope| {
            for (heap, mut member) in all.into_iter().enumerate() {
                scope.spawn(move || {
                    for id in 0..300 {
                        while member.is_full() {
                            std::thread::yield_now();
                        }
                        chunk(&mut member, id, heap);
                    }
                    member.stop();
                });
            }
            while !group.is_stopped() {
                chunks.extend(group.take_ready());
                std::thread::yield_now();
            }
        });
        chunks.extend(group.take_ready());
        let ids: Vec<u64> = chunks.iter().map(|chunk| chunk.id).collect();
        assert_eq!(ids, (0..300).collect::<Vec<_>>());
        for chunk in chunks {
            assert_eq!(chunk.present, [1; MEMBERS], "chunk {}", chunk.id);
            let wanted: Vec<u8> =
                (0..MEMBERS as u8).map(|heap| ((10 * chunk.id) as u8).wrapping_add(heap)).collect();
            assert_eq!(chunk.data, wanted, "chunk {}", chunk.id);
        }
    }

    #[test]
    fn lossy_moves_on_and_counts_what_comes_late() {
        let group = ChunkGroup::new(2, GroupEviction::Lossy);
        let [mut a, mut b] = [0, 1].map(|_| group.member(Chunk::new(2, 2, 0), 4));
        (0..4).for_each(|id| chunk(&mut a, id, 0));
        assert_eq!(show(&group), [(0, vec![0, 0]), (1, vec![10, 0])]);
        chunk(&mut b, 1, 1);
        chunk(&mut b, 2, 1);
        assert_eq!(group.too_old(), 1);
        assert_eq!(show(&group), [(2, vec![20, 21])]);
        drop(b.take(9, 0));
        a.stop();
        b.stop();
        assert_eq!(show(&group), [(3, vec![30, 0])]);
    }
}
