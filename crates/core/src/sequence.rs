//! One sequence tracker for every numbered stream: lost, duplicate, reordered, late, restarted, wrapped.
//!
//! Takes n-bit numbers (1 to 64 bits) in order of arrival. A window of the newest numbers is kept, and a
//! number counts as lost only when it leaves the window unseen: a reordered packet is never first lost
//! and then new (Christensen et al. 2018 could not tell the two apart). Numbers behind the window are
//! `late` and stay lost. A jump out of reach is believed only when the next number follows it.
//!
//! A count of few bits wraps within a stall; [`turns`] says how often, where the kernel's drops and receive times prove it.
//! A decoder states in a [`numbering::Numbering`] what its format numbers; [`streams`] follows each of its streams with it and
//! writes the lines of the ledger.
//!
//! Refuses: widths outside 1..=64 and windows above a quarter of the number range. Numbers come from
//! the network and may be anything: amounts saturate at 2⁶⁴−1, nothing overflows.

pub mod numbering;
mod runs;
pub mod streams;
pub mod turns;

/// How the first number of a stream is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The stream begins with whatever number comes first (a device that was already running).
    AtFirst,
    /// The stream begins at 0: what is before the first number seen is missing, if that number is
    /// within the window; beyond it the stream was joined late and [`Tracker::first`] says where.
    AtZero,
}

/// What one number turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The next one, or ahead of a gap: a first copy.
    New,
    /// Fills a gap inside the window: a first copy.
    Reordered,
    /// Seen before.
    Duplicate,
    /// Behind the window: given up already, may or may not be a copy.
    Late,
    /// First number after the sender began anew: a first copy.
    Restarted,
}

/// Totals of one stream; amounts saturate. `first_copies = New + Reordered + Restarted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Numbers observed.
    pub received: u64,
    /// Numbers that left the window unseen.
    pub lost: u64,
    /// Repeated numbers inside the window.
    pub duplicate: u64,
    /// Numbers that came after a higher one but in time.
    pub reordered: u64,
    /// Numbers behind the window.
    pub late: u64,
    /// New beginnings.
    pub restarted: u64,
    /// Overflows of the n-bit counter.
    pub wrapped: u64,
}

/// Default window: 4,096 numbers ≈ 64 GRO trains; a quarter of a 14-bit range.
pub const DEFAULT_WINDOW: u32 = 4096;

/// Follows one stream of n-bit numbers.
#[derive(Debug, Clone)]
pub struct Tracker {
    mask: u64,
    window: u64,
    /// Next number expected, unwrapped (64-bit counters wrap with it).
    next: u64,
    /// How many numbers before `next` the window knows: at most its size, fewer after a start.
    reach: u64,
    /// Number at which this stream was joined.
    first: u64,
    /// One bit per number of the window: 1 = still missing.
    missing: Box<[u64]>,
    holes: u64,
    started: bool,
    start: Start,
    /// Unlikely number whose successor would confirm it.
    candidate: Option<u64>,
    /// How many numbers of one packet end with the candidate ([`Tracker::observe_run`]).
    candidates: u64,
    totals: Totals,
}

impl Tracker {
    /// A tracker for `bits`-bit numbers that waits `window` numbers for a missing one.
    ///
    /// # Panics
    /// `bits` outside 1..=64; `window` 0 or no power of two, or above a quarter of the range.
    pub fn new(bits: u32, window: u32, start: Start) -> Tracker {
        assert!((1..=64).contains(&bits), "counter width {bits} outside 1..=64 bits");
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let window = u64::from(window);
        assert!(window.is_power_of_two(), "window {window} is not a power of two");
        assert!(window <= mask / 4 + 1, "window {window} above a quarter of {bits}-bit numbers");
        Tracker {
            mask,
            window,
            next: 0,
            reach: 0,
            first: 0,
            missing: vec![0; (window as usize).div_ceil(64)].into_boxed_slice(),
            holes: 0,
            started: false,
            start,
            candidate: None,
            candidates: 0,
            totals: Totals::default(),
        }
    }

    /// Takes the next number in order of arrival; higher bits than the width are ignored.
    #[inline]
    pub fn observe(&mut self, number: u64) -> Seen {
        match self.takes(number) {
            true => Seen::New,
            false => self.observe_slowly(number & self.mask),
        }
    }

    /// Takes `number` if it is the next one and no gap is open: the common case, of 1 compare and 2 additions, after which
    /// no other amount has changed. Else false, and nothing is done.
    #[inline]
    pub fn takes(&mut self, number: u64) -> bool {
        let usual =
            self.holes == 0 && number == self.next & self.mask && self.started && number != 0;
        if usual {
            self.next = self.next.wrapping_add(1);
            self.reach = (self.reach + 1).min(self.window);
            self.totals.received += 1;
            self.candidate = None;
        }
        usual
    }

    #[cold]
    fn observe_slowly(&mut self, number: u64) -> Seen {
        self.totals.received += 1;
        if !self.started {
            self.started = true;
            match self.start {
                Start::AtZero if number <= self.window => self.restart_at(0),
                Start::AtFirst | Start::AtZero => self.restart_at(number),
            }
            self.first = self.next;
            self.advance_through(number.wrapping_sub(self.next));
            return Seen::New;
        }
        let ahead = self.ahead(number);
        let half = self.mask / 2 + 1;
        if ahead < half {
            if ahead > self.furthest_jump() && !self.confirmed(number) {
                self.totals.late += 1;
                return Seen::Late;
            }
            self.advance_through(ahead);
            self.candidate = None;
            return Seen::New;
        }
        let behind = self.next.wrapping_sub(number) & self.mask; // 1 = the newest one
        if behind <= self.reach {
            let n = self.next.wrapping_sub(behind);
            self.candidate = None;
            if self.is_missing(n) {
                self.fill(n);
                self.totals.reordered += 1;
                return Seen::Reordered;
            }
            self.totals.duplicate += 1;
            return Seen::Duplicate;
        }
        if self.confirmed(number) {
            // The candidate before was the true first one: it was no late packet.
            self.totals.late -= 1;
            self.totals.restarted += 1;
            self.give_up_all();
            self.restart_at(number.wrapping_sub(1) & self.mask);
            self.advance_through(0);
            self.advance_through(0);
            return Seen::Restarted;
        }
        self.totals.late += 1;
        Seen::Late
    }

    /// A jump ahead is believed at once up to half the range and 1 Mi numbers (44 ms at
    /// 24 Mpps); beyond, a damaged number must not invent a loss, so the next one must confirm it.
    fn furthest_jump(&self) -> u64 {
        (self.mask / 2).min(1 << 20)
    }

    /// True if `number` follows the unlikely number before it; else remembers it.
    fn confirmed(&mut self, number: u64) -> bool {
        let yes = self.candidate.is_some_and(|c| number == c.wrapping_add(1) & self.mask);
        self.candidate = if yes { None } else { Some(number) };
        yes
    }

    fn restart_at(&mut self, number: u64) {
        self.next = number;
        self.reach = 0;
        self.holes = 0;
        self.missing.fill(0);
    }

    fn word(&self, n: u64) -> (usize, u64) {
        let at = n & (self.window - 1);
        ((at / 64) as usize, 1 << (at % 64))
    }

    fn is_missing(&self, n: u64) -> bool {
        let (word, bit) = self.word(n);
        self.missing[word] & bit != 0
    }

    fn fill(&mut self, n: u64) {
        let (word, bit) = self.word(n);
        if self.missing[word] & bit != 0 {
            self.missing[word] &= !bit;
            self.holes -= 1;
        }
    }

    /// Moves the front over `gap` missing numbers and the one that came.
    fn advance_through(&mut self, gap: u64) {
        self.advance(gap);
        self.advance(1);
        self.fill(self.next.wrapping_sub(1));
    }

    /// Moves the front by `by`: new numbers are missing until filled, old ones become lost.
    fn advance(&mut self, by: u64) {
        if by == 0 {
            return;
        }
        let next = self.next.wrapping_add(by);
        self.totals.wrapped = self.totals.wrapped.saturating_add(self.wraps(by));
        if by > self.window {
            // Everything in the window and the part of the gap that never enters it is lost.
            // No sum beyond 2⁶⁴: there are at most `window` holes.
            self.lose(self.holes + (by - self.window));
            self.missing.fill(u64::MAX);
            if self.window < 64 {
                self.missing[0] = (1 << self.window) - 1;
            }
            self.holes = self.window;
        } else {
            for step in 0..by {
                let (word, bit) = self.word(self.next.wrapping_add(step));
                if self.missing[word] & bit != 0 {
                    self.lose(1); // number n - window leaves the window unseen
                } else {
                    self.missing[word] |= bit;
                    self.holes += 1;
                }
            }
        }
        self.next = next;
        self.reach = self.reach.saturating_add(by).min(self.window);
    }

    /// How often the n-bit counter overflows within the next `by` numbers: how many of them are 0.
    fn wraps(&self, by: u64) -> u64 {
        let at = self.next & self.mask;
        // Multiples of 2ⁿ in at..at + by, in 128 bits: both parts may be near 2⁶⁴.
        let zeros = |end: u128| (end + u128::from(self.mask)) >> self.mask.count_ones();
        let met = zeros(u128::from(at) + u128::from(by)) - zeros(u128::from(at));
        // A stream that begins with 0 has not overflowed. `met` is at most 2⁶³ (1-bit numbers).
        met as u64 - u64::from(self.next == 0 && self.reach == 0)
    }

    fn lose(&mut self, n: u64) {
        self.totals.lost = self.totals.lost.saturating_add(n);
    }

    fn give_up_all(&mut self) {
        self.lose(self.holes);
        self.holes = 0;
        self.missing.fill(0);
    }

    /// Totals so far; numbers still inside the window are in [`Tracker::pending`], not in `lost`.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Numbers missing inside the window, not yet given up.
    pub fn pending(&self) -> u64 {
        self.holes
    }

    /// Number at which the stream was joined: above 0 with [`Start::AtZero`], earlier ones were sent
    /// while nobody listened.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Unwrapped number expected next; for [`Start::AtZero`], the highest number seen plus 1.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The stream has ended: what is missing is lost. With `total`, numbers up to it are missing too.
    pub fn finish(&mut self, total: Option<u64>) -> Totals {
        if let Some(total) = total.filter(|&t| t > self.next) {
            self.started = true;
            self.advance(total - self.next);
        }
        self.give_up_all();
        self.reach = 0;
        self.totals
    }

    /// The sender has gone on by `ahead` numbers, more than one number can say: those are missing, and the next
    /// number to be observed is expected.
    pub fn skip(&mut self, ahead: u64) {
        self.advance(ahead);
        self.candidate = None;
    }

    /// How far `number` is ahead of the next one expected, modulo the range of the count.
    fn ahead(&self, number: u64) -> u64 {
        number.wrapping_sub(self.next) & self.mask
    }

    /// The stream went on where nobody here saw it: what is missing in the window counts as lost, what comes next
    /// begins the stream, whatever its number, and what lies between was never ours to lose.
    pub fn forget(&mut self) {
        self.give_up_all();
        self.reach = 0;
        self.candidate = None;
        self.started = false;
        self.start = Start::AtFirst;
    }
}

#[cfg(test)]
#[path = "sequence_tests.rs"]
mod tests;
