//! Whole turns of a short number that were missed in a stall: how many, where it can be known.
//!
//! A count of n bits tells what is missing modulo 2ⁿ: 14 bits wrap every 205 ms at 80,000 packets/s, so a receiver
//! that stood still for 5 s sees a gap of 2,496 where 297,408 packets are missing. Three things are put together:
//!
//! - *Proof*: the kernel's drop count of the socket, told train by train. Without it nothing is ever added: a sender that
//!   paused, or a capture that is replayed, has no drops.
//! - *Amount*: the stream's rate before the gap times the kernel's receive times on both sides of it. It must leave exactly
//!   one number of turns; then that is counted.
//! - *Limit*: a counted drop is one train, so no more than drops × the longest train can be missing; and the whole gap must
//!   lie where nobody's packets came, for else this sender was silent by itself.
//!
//! Where several numbers of turns remain, the smallest is counted; where none can be told, only the gap is. Both are
//! [`Turned::AtLeast`]. All in integers. Off the hot path: one comparison of drops and one of times per packet. Source:
//! `docs/losses.md`, "Short numbers".

use super::Tracker;
use crate::batch::{Batch, Train};

/// Most packets in a train that the kernel drops as one (`UDP_MAX_SEGMENTS`, Linux 6.9).
const LONGEST_TRAIN: u64 = 128;

/// Time between two points of a stream's history, ns: 50 ms.
const STEP_NS: i64 = 50_000_000;

/// Points of it: 1.6 s, so that 20 pulses of 14 Hz are in the mean.
const POINTS: usize = 32;

/// Points without which no rate is believed.
const LEAST_POINTS: usize = 4;

/// Least uncertainty of a place on the line, numbers: a train before and behind.
const COARSE: i128 = 2 * LONGEST_TRAIN as i128;

/// The rate itself is not believed better than 1 in this many.
const STEADY: i128 = 512;

/// Dark times that are remembered; what follows a stall while the buffer is still full is short and must not hide it.
const DARK: usize = 4;

/// After this time, ns, one may be forgotten however long it was: 60 s.
const REMEMBER_NS: i64 = 60_000_000_000;

/// Time in which nothing at all was received, and in which the kernel dropped packets.
#[derive(Debug, Clone, Copy, Default)]
struct Dark {
    /// Receive time of the last train before it, ns.
    from: i64,
    /// Of the first train behind it.
    to: i64,
}

/// When the train at hand came, and what was dropped before it. One per reader, which has one socket.
#[derive(Debug, Clone, Default)]
pub struct Arrivals {
    /// Receive time of the train at hand, ns since 1970; 0: unknown.
    time: i64,
    /// Trains dropped so far.
    drops: u64,
    /// Packets in the longest train so far.
    longest: u64,
    dark: [Dark; DARK],
    /// Next entry of the batch's drops.
    next: usize,
}

impl Arrivals {
    /// A batch begins.
    #[inline]
    pub fn begin(&mut self) {
        self.next = 0;
    }

    /// Train number `at` of `batch` comes.
    #[inline]
    pub fn train(&mut self, batch: &Batch, at: usize, train: &Train<'_>) {
        if batch.dropped().get(self.next).is_some_and(|d| d.before <= at) {
            self.darkened(batch, at, train.time_ns);
        }
        self.time = train.time_ns;
        self.longest = self.longest.max(train.count() as u64);
    }

    #[cold]
    fn darkened(&mut self, batch: &Batch, at: usize, now: i64) {
        for dropped in batch.dropped()[self.next..].iter().take_while(|d| d.before <= at) {
            self.drops += u64::from(dropped.trains);
            self.next += 1;
        }
        if self.time <= 0 || now <= self.time {
            return;
        }
        let new = Dark { from: self.time, to: now };
        let value = |d: &Dark| if new.from - d.to > REMEMBER_NS { 0 } else { d.to - d.from };
        // There are some.
        let Some(least) = self.dark.iter_mut().min_by_key(|d| value(d)) else { return };
        if value(least) <= new.to - new.from {
            *least = new;
        }
    }

    /// The longest dark time within `from..to`, ns.
    fn dark(&self, from: i64, to: i64) -> i64 {
        let within = |d: &Dark| d.to.min(to) - d.from.max(from);
        self.dark.iter().map(within).max().unwrap_or(0).max(0)
    }
}

/// What was found before a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turned {
    /// The number says all.
    Nothing,
    /// So many numbers more than it says are missing, and the tracker knows: whole turns.
    By(u64),
    /// The same, and there may be more turns.
    AtLeast(u64),
}

impl Turned {
    /// Numbers of the missed turns.
    pub fn numbers(self) -> u64 {
        match self {
            Turned::Nothing => 0,
            Turned::By(n) | Turned::AtLeast(n) => n,
        }
    }

    /// True if there may be more turns.
    pub fn is_least(self) -> bool {
        matches!(self, Turned::AtLeast(_))
    }
}

/// Watches one stream's short number for whole turns.
#[derive(Debug, Clone)]
pub struct NumberTurns {
    /// Numbers in a turn.
    turn: u64,
    /// Receive time of the stream's last packet, ns.
    last: i64,
    /// Drops before it.
    drops: u64,
    /// When the next point of the history is due, ns.
    due: i64,
    /// A gap in time below this cannot hide half a turn, ns.
    short: i64,
    /// Most numbers in one packet so far.
    each: u64,
    /// Time and unwrapped number, oldest first.
    points: Vec<(i64, u64)>,
}

/// A stream's progress before a gap.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Numbers in `ns`.
    numbers: i128,
    ns: i128,
    /// Most numbers by which a point lay off the line.
    off: i128,
    /// There are points enough to go on with it.
    known: bool,
}

impl Pace {
    /// Numbers in a time.
    fn numbers_in(&self, ns: i64) -> i128 {
        self.numbers * i128::from(ns) / self.ns
    }

    /// How far that may be wrong: both ends of the line may be off.
    fn doubt(&self, ns: i64) -> i128 {
        let line = self.off + 2 * self.off * i128::from(ns) / self.ns;
        line + self.numbers_in(ns) / STEADY
    }
}

impl NumberTurns {
    /// For numbers of `bits` bits.
    ///
    /// # Panics
    /// `bits` outside 2..=63.
    pub fn new(bits: u32) -> NumberTurns {
        assert!((2..=63).contains(&bits), "turns of {bits}-bit numbers");
        let points = Vec::new();
        NumberTurns { turn: 1 << bits, last: 0, drops: 0, due: i64::MIN, short: 0, each: 1, points }
    }

    /// To be called before [`Tracker::observe`] with the same number: if whole turns were missed, the tracker then counts them as
    /// lost.
    #[inline]
    pub fn before(&mut self, tracker: &mut Tracker, number: u64, now: &Arrivals) -> Turned {
        if self.is_usual(now) { Turned::Nothing } else { self.look(tracker, number, now) }
    }

    /// True, and all is done, if [`NumberTurns::before`] would find nothing whatever the number.
    #[inline]
    pub fn is_usual(&mut self, now: &Arrivals) -> bool {
        let usual = now.drops == self.drops && now.time < self.due;
        if usual {
            self.last = now.time;
        }
        usual
    }

    /// One packet carries so many numbers: what a dropped one may have carried as well.
    #[inline]
    pub fn carries(&mut self, numbers: u64) {
        self.each = self.each.max(numbers);
    }

    /// The stream went on where nobody here saw it: nothing that was known of its pace holds.
    pub fn forget(&mut self) {
        (self.last, self.due, self.short) = (0, i64::MIN, 0);
        self.points.clear();
    }

    #[cold]
    fn look(&mut self, tracker: &mut Tracker, number: u64, now: &Arrivals) -> Turned {
        let dropped = now.drops.saturating_sub(self.drops);
        let mut turned = Turned::Nothing;
        if dropped > 0 && self.due != i64::MIN {
            turned = self.judge(tracker, number, now, dropped);
            if matches!(turned, Turned::AtLeast(_)) {
                self.points.clear();
            }
        }
        (self.drops, self.last) = (now.drops, now.time);
        if now.time >= self.due {
            self.note(tracker, number, now.time);
        }
        turned
    }

    /// One point more of the stream's history: where the packet with this number stands, behind the gap before it.
    fn note(&mut self, tracker: &Tracker, number: u64, time: i64) {
        if self.due == i64::MIN || time <= 0 {
            // The first packet, of which the tracker knows nothing yet; or no times at all.
            self.due = 1.max(time.saturating_add(1));
            return;
        }
        self.due = time.saturating_add(STEP_NS);
        let gap = tracker.ahead(number);
        let next = tracker.next().wrapping_add(if gap < self.turn / 2 { gap } else { 0 });
        if let (Some(&(first, _)), Some(&(at, number))) = (self.points.first(), self.points.last())
        {
            // After a silence, or a restart of the sender, its pace is another one.
            let pause = time.saturating_sub(at) > (at - first).max(20 * STEP_NS);
            if pause || time <= at || next.wrapping_sub(number) > u64::MAX / 2 {
                self.points.clear();
            }
        }
        if self.points.len() >= POINTS {
            self.points.remove(0);
        }
        self.points.push((time, next));
        self.short = self.pace(time, next).map_or(0, |pace| {
            let quarter = i128::from(self.turn / 4) - pace.off;
            let ns = quarter.max(0) * pace.ns / pace.numbers;
            if pace.known { i64::try_from(ns).unwrap_or(i64::MAX) } else { 0 }
        });
    }

    /// Progress from the oldest point to number `next` at `time`.
    fn pace(&self, time: i64, next: u64) -> Option<Pace> {
        let &(begun, first) = self.points.first()?;
        let (ns, numbers) = (i128::from(time.checked_sub(begun)?), next.wrapping_sub(first));
        if ns <= 0 || numbers == 0 || numbers > u64::MAX / 2 {
            return None;
        }
        let numbers = i128::from(numbers);
        let off = |&(t, n): &(i64, u64)| {
            let line = numbers * i128::from(t - begun) / ns;
            (i128::from(n.wrapping_sub(first)) - line).abs()
        };
        let off = self.points.iter().map(off).max().unwrap_or(0) + COARSE;
        Some(Pace { numbers, ns, off, known: self.points.len() >= LEAST_POINTS })
    }

    /// The kernel dropped trains since the stream's last packet: how far has the sender gone on?
    fn judge(&self, tracker: &mut Tracker, number: u64, now: &Arrivals, dropped: u64) -> Turned {
        let gone = now.time - self.last;
        if self.last > 0 && gone < self.short {
            return Turned::Nothing;
        }
        let (gap, turn) = (i128::from(tracker.ahead(number)), i128::from(self.turn));
        let train = i128::from(now.longest.clamp(1, LONGEST_TRAIN)) * i128::from(self.each);
        let most = i128::from(dropped) * train;
        // From half a turn on the tracker takes a number for an old one, or for that of a sender that began anew.
        let next_turn = if gap < turn / 2 { gap + turn } else { gap };
        let may_turn = |limit: i128| match next_turn <= limit {
            true => Turned::AtLeast(0),
            false => Turned::Nothing,
        };
        if self.last <= 0 || gone < 0 {
            return may_turn(most);
        }
        let Some(pace) = self.pace(self.last, tracker.next()) else { return may_turn(most) };
        let (usual, doubt) = (pace.numbers_in(gone), pace.doubt(gone));
        if !pace.known {
            return may_turn(most.min(4 * usual + 4 * COARSE));
        }
        let (least, limit) = ((usual - doubt).max(0), most.min(usual + doubt));
        // Time outside of the darkness in which others' packets came, and this sender's did not.
        let dark = now.dark(self.last, now.time);
        if pace.numbers_in(gone - dark) > pace.off {
            return may_turn(limit);
        }
        // The first number of missing ones that ends in this gap.
        let fits = gap + (least - gap + turn - 1).div_euclid(turn).max(0) * turn;
        if fits > limit {
            // Another pace, or another beginning: what the time says is not what came.
            return if limit >= turn / 2 { may_turn(most) } else { Turned::Nothing };
        }
        if fits != gap || gap >= turn / 2 {
            tracker.skip(fits as u64);
        }
        let more = (fits - gap) as u64;
        match (fits + turn <= limit, more) {
            (true, _) => Turned::AtLeast(more),
            (false, 0) => Turned::Nothing,
            (false, _) => Turned::By(more),
        }
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
