//! Seeded faults on a packet sequence: which packets are dropped, doubled, swapped or held back.
//!
//! [`Fault::plan`] is a pure function of specification and position: the same seed affects the same packets,
//! for any division into calls and any number of them. [`FaultyLine`] applies it to real packets. A tracker finds
//! exactly the planned faults: the sets are disjoint, a swapped pair shares no packet with another fault, and
//! the first and last packet of a sequence of known length are left alone (a lost first packet shows only to
//! a receiver that knows where to begin, a lost last one only to one that knows the end).
//!
//! Counts: the places are drawn without repetition, each set of places equally likely.
//! Shares: a swap decides per block of two packets, the others per packet, so that the expected
//! share of met packets is the one asked for.
//! Refuses: counts without a length, more faults than places, shares that do not fit together.

use std::collections::BTreeSet;

use super::spec::{Amount, Spec};

/// What happens to one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketFate {
    /// Sent in its turn.
    Deliver,
    /// Left out.
    Drop,
    /// Sent twice in a row.
    Duplicate,
    /// Held back until this many later packets have had their turn; 1 is a swap with the next.
    Hold(u32),
}

/// Why a specification cannot be carried out.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum FaultError {
    /// A count of what?
    #[error("fault: counts need of=N, the number of packets; write 0.01 or 1% for a share")]
    CountWithoutLength,
    /// Counts and shares cannot be disjoint at once.
    #[error("fault: counts and shares cannot be mixed in one fault")]
    Mixed,
    /// Too many for the sequence.
    #[error(
        "fault: {wanted} packets to meet do not fit into of={of} (a swap takes two; the first and \
         the last packet are left alone)"
    )]
    TooMany { wanted: u128, of: u64 },
    /// More than the plan may take of memory.
    #[error("fault: {wanted} faults are above the limit of 16777216; use a share instead")]
    TooLarge { wanted: u128 },
    /// Shares add up to more than all packets.
    #[error("fault: drop + duplicate + delay + 2 x swap = {sum} is above 1.0")]
    Shares { sum: f64 },
}

/// Most faults that a plan by count keeps: 16 Mi × 16 B = 256 MiB.
const MOST: u128 = 1 << 24;

#[derive(Debug, Clone)]
enum Plan {
    /// Places met, ascending.
    Places(Box<[(u64, PacketFate)]>),
    /// Thresholds of a 64-bit draw.
    Draw { swap_block: u64, drop: u64, duplicate: u64, delay: u64, odd: bool },
}

/// A fault, ready to be asked.
#[derive(Debug, Clone)]
pub struct Fault {
    spec: Spec,
    plan: Plan,
}

impl Fault {
    /// Plans `spec`.
    pub fn new(spec: Spec) -> Result<Fault, FaultError> {
        let all = [spec.drop, spec.duplicate, spec.swap, spec.delay];
        let some = || all.iter().filter(|a| !a.is_none());
        let counts = some().any(|a| matches!(a, Amount::Count(_)));
        let shares = some().any(|a| matches!(a, Amount::Share(_)));
        let plan = match (counts, shares) {
            (true, true) => return Err(FaultError::Mixed),
            (true, false) => by_count(&spec)?,
            (false, _) => by_share(&spec)?,
        };
        Ok(Fault { spec, plan })
    }

    /// A fault that does nothing.
    pub fn none() -> Fault {
        Fault { spec: Spec::default(), plan: Plan::Places(Box::default()) }
    }

    /// What was asked for.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What happens to packet `index`, counted from 0.
    pub fn plan(&self, index: u64) -> PacketFate {
        match &self.plan {
            Plan::Places(places) => places
                .binary_search_by_key(&index, |p| p.0)
                .map_or(PacketFate::Deliver, |at| places[at].1),
            &Plan::Draw { swap_block, drop, duplicate, delay, odd } => {
                if index == 0 || self.spec.of.is_some_and(|of| index >= of.saturating_sub(1)) {
                    return PacketFate::Deliver;
                }
                let shifted = index - u64::from(odd);
                let block = shifted / 2;
                if draw(self.spec.seed, Stream::Block, block) < swap_block
                    && self.whole_block(2 * block + u64::from(odd))
                {
                    return if shifted.is_multiple_of(2) {
                        PacketFate::Hold(1)
                    } else {
                        PacketFate::Deliver
                    };
                }
                let x = draw(self.spec.seed, Stream::Packet, index);
                if x < drop {
                    PacketFate::Drop
                } else if x - drop < duplicate {
                    PacketFate::Duplicate
                } else if x - drop - duplicate < delay {
                    PacketFate::Hold(self.spec.by)
                } else {
                    PacketFate::Deliver
                }
            }
        }
    }

    /// True if both packets of the block that begins at `index` may be moved.
    fn whole_block(&self, index: u64) -> bool {
        index > 0 && self.spec.of.is_none_or(|of| index.saturating_add(2) < of)
    }

    /// The items in the order in which they leave, copies and gaps included.
    pub fn apply<I: IntoIterator>(&self, items: I) -> Applied<'_, I::IntoIter>
    where
        I::Item: Clone,
    {
        Applied {
            fault: self,
            items: items.into_iter(),
            line: FaultyLine::default(),
            ready: Default::default(),
        }
    }
}

/// splitmix64 (Steele, Lea, Flood 2014): the n-th number of a sequence without the ones before it.
fn mix(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Independent sequences of one seed.
#[derive(Clone, Copy)]
enum Stream {
    Block = 1,
    Packet = 2,
    Place = 3,
    Kind = 4,
    Parity = 5,
    Chance = 6,
}

fn draw(seed: u64, stream: Stream, n: u64) -> u64 {
    mix(mix(seed, stream as u64), n)
}

/// Uniform in 0..below; the bias of the product is below 2⁻⁴⁰ for the sizes used here.
fn below(draw: u64, below: u64) -> u64 {
    ((u128::from(draw) * u128::from(below)) >> 64) as u64
}

/// Draw number `n` of a separate sequence, uniform in 0..`limit`: for jitter.
pub(super) fn chance(seed: u64, n: u64, limit: u64) -> u64 {
    below(draw(seed, Stream::Chance, n), limit)
}

fn by_count(spec: &Spec) -> Result<Plan, FaultError> {
    let count = |a: Amount| match a {
        Amount::Count(n) => u128::from(n),
        Amount::Share(_) => 0,
    };
    let of = spec.of.ok_or(FaultError::CountWithoutLength)?;
    let (drop, duplicate) = (count(spec.drop), count(spec.duplicate));
    let (swap, delay) = (count(spec.swap), count(spec.delay));
    let faults = drop + duplicate + swap + delay;
    // A delayed packet must be overtaken by `by` packets before the last one.
    let by = if delay > 0 { u64::from(spec.by) } else { 0 };
    let inner = of.saturating_sub(2).saturating_sub(by);
    let wanted = faults + swap;
    if wanted > u128::from(inner) {
        return Err(FaultError::TooMany { wanted: wanted + u128::from(by), of });
    }
    if faults > MOST {
        return Err(FaultError::TooLarge { wanted: faults });
    }
    // Each pair shrunk to one place leaves `units` places, of which `faults` are drawn (Floyd).
    let (faults, swap) = (faults as u64, swap as u64);
    let units = inner - swap;
    let mut places = BTreeSet::new();
    for (n, top) in (units - faults..units).enumerate() {
        let t = below(draw(spec.seed, Stream::Place, n as u64), top + 1);
        if !places.insert(t) {
            places.insert(top);
        }
    }
    let mut kinds = Vec::with_capacity(faults as usize);
    kinds.resize(drop as usize, PacketFate::Drop);
    kinds.resize(kinds.len() + duplicate as usize, PacketFate::Duplicate);
    kinds.resize(kinds.len() + swap as usize, PacketFate::Hold(1));
    // Swaps are known by their place in this list: a delay by one packet takes one place only.
    let swaps = (drop + duplicate) as usize..(drop + duplicate) as usize + swap as usize;
    kinds.resize(faults as usize, PacketFate::Hold(spec.by));
    let mut order: Vec<u32> = (0..faults as u32).collect();
    for n in (1..order.len()).rev() {
        let other = below(draw(spec.seed, Stream::Kind, n as u64), n as u64 + 1) as usize;
        order.swap(n, other);
    }
    let mut widened = 1;
    let plan = places.into_iter().zip(order).map(|(place, kind)| {
        let index = place + widened;
        let kind = kind as usize;
        widened += u64::from(swaps.contains(&kind));
        (index, kinds[kind])
    });
    Ok(Plan::Places(plan.collect()))
}

fn by_share(spec: &Spec) -> Result<Plan, FaultError> {
    let share = |a: Amount| match a {
        Amount::Share(p) => p,
        Amount::Count(_) => 0.0,
    };
    let (drop, duplicate) = (share(spec.drop), share(spec.duplicate));
    let (swap, delay) = (share(spec.swap), share(spec.delay));
    let sum = drop + duplicate + delay + 2.0 * swap;
    if sum > 1.0 + 1e-9 {
        return Err(FaultError::Shares { sum });
    }
    // Packets of swapped blocks have no other fault, so the others have the rest more often.
    let free = 1.0 - 2.0 * swap;
    let threshold = |p: f64| (p * 18_446_744_073_709_551_616.0) as u64; // × 2⁶⁴, saturating
    let other = |p: f64| if free > 0.0 { threshold((p / free).min(1.0)) } else { 0 };
    Ok(Plan::Draw {
        swap_block: threshold(2.0 * swap),
        drop: other(drop),
        duplicate: other(duplicate),
        delay: other(delay),
        odd: draw(spec.seed, Stream::Parity, 0) & 1 == 1,
    })
}

/// Carries a plan out: packets go in one by one, and leave in the faulty order.
#[derive(Debug)]
pub struct FaultyLine<T> {
    next: u64,
    /// Held packets with the index after whose turn they leave, in order of leaving.
    held: Vec<(u64, T)>,
}

impl<T> Default for FaultyLine<T> {
    fn default() -> Self {
        FaultyLine { next: 0, held: Vec::new() }
    }
}

impl<T> FaultyLine<T> {
    /// The packet that comes next has this number.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Packets held back at present.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes the next packet and says what happened to it. What leaves now goes to `out`;
    /// `copy` makes the second copy of a duplicate.
    pub fn push(
        &mut self,
        fault: &Fault,
        packet: T,
        copy: impl FnOnce(&T) -> T,
        mut out: impl FnMut(T),
    ) -> PacketFate {
        let index = self.next;
        self.next += 1;
        let action = fault.plan(index);
        match action {
            PacketFate::Deliver => out(packet),
            PacketFate::Drop => {}
            PacketFate::Duplicate => {
                let second = copy(&packet);
                out(packet);
                out(second);
            }
            PacketFate::Hold(by) => {
                let due = index.saturating_add(u64::from(by));
                let at = self.held.partition_point(|h| h.0 <= due);
                self.held.insert(at, (due, packet));
            }
        }
        let due = self.held.partition_point(|h| h.0 <= index);
        self.held.drain(..due).for_each(|(_, p)| out(p));
        action
    }

    /// Nothing follows: the held packets leave in order.
    pub fn finish(&mut self, out: impl FnMut(T)) {
        self.held.drain(..).map(|(_, p)| p).for_each(out);
    }
}

/// Iterator of [`Fault::apply`].
#[derive(Debug)]
pub struct Applied<'a, I: Iterator> {
    fault: &'a Fault,
    items: I,
    line: FaultyLine<I::Item>,
    ready: std::collections::VecDeque<I::Item>,
}

impl<I: Iterator> Iterator for Applied<'_, I>
where
    I::Item: Clone,
{
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            let ready = &mut self.ready;
            match self.items.next() {
                Some(item) => {
                    self.line.push(self.fault, item, Clone::clone, |i| ready.push_back(i));
                }
                None => {
                    self.line.finish(|i| ready.push_back(i));
                    return self.ready.pop_front();
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
