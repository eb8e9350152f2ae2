//! Which turn of the 32-bit counter a packet belongs to, where the packet before it does not tell: by receive times.
//!
//! A header time is the nearest one to that of the stream's last packet, which holds for half a turn (2.1 s at 1 ns). Behind a
//! longer silence, and for streams that are read apart (the partitions of a topic), the receive time says how many turns have
//! passed. Two rules, by what the receive times are worth:
//!
//! - *Recordings that are read apart* have a first packet, and receive times are all that orders their streams. A stream is
//!   placed from the known [`Point`] that is nearest in receive time, so the order of reading does not matter. Points are
//!   noted as the streams go on, so that neither a drift of the clock nor a recording at another speed adds up.
//! - *All others* come in order. A receive time is believed only if the stream's ticks went with its receive times before, and
//!   only if it fits behind the silence; else the nearest time counts. A capture that was made at another speed, or a host
//!   whose clock was set, changes nothing.
//!
//! Refuses, by [`Arrivals::unsettled`]: streams that are read apart over more than half a turn without receive times, or with
//! such as contradict the ticks. Source: `docs/sonde.md`, "Time".

use fullcount_core::time::TickLength;

use super::clock::HeaderTime;

/// Half a turn, ticks: what one packet can be ahead of another without doubt.
const HALF: i64 = 1 << 31;
/// Between two points of one stream, ticks.
const QUARTER: i64 = 1 << 30;
/// How far a time may be from the receive time behind a silence, ticks, beside 1/10000 of the silence: 0.27 s at 1 ns. Packets
/// of a slow module wait until they are full, and clocks drift by 100 ppm at most.
const FITS: i64 = 1 << 28;
/// Points at most, 1 MiB: 19 h at one in 1.07 s; then every other one goes.
const MOST_POINTS: usize = 1 << 16;

/// A packet's receive time, ns since 1970, and unwrapped header time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Point {
    pub time_ns: i64,
    pub ticks: i64,
}

/// Whether a stream's ticks go with its receive times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Verdict {
    #[default]
    Unknown,
    Agrees,
    Contradicts,
}

/// What a stream's times have shown.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// Receive time of its newest accepted packet, ns; 0: unknown.
    came: i64,
    /// Since where it is judged.
    begun: Point,
    /// The last point that was looked at.
    mark: Point,
    verdict: Verdict,
}

/// The receive times of one reader's packets.
#[derive(Debug)]
pub(super) struct Arrivals {
    tick: TickLength,
    /// Half and a quarter of a turn, ns.
    half_ns: i64,
    quarter_ns: i64,
    /// Receive time of the train at hand, ns since 1970; 0: unknown.
    now: i64,
    /// By receive time; empty unless streams are read apart.
    points: Vec<Point>,
    /// The batch at hand is read apart.
    apart: bool,
    /// Earliest header time of packets of unknown receive time that were read apart.
    untimed: Option<i64>,
    /// A stream was placed farther from any point than the nearest time can tell.
    far: bool,
    /// Streams whose ticks go with their receive times, or do not.
    agree: u64,
    contradict: u64,
}

impl Arrivals {
    pub fn new(tick: TickLength) -> Arrivals {
        let (num, den) = tick.fraction();
        let ns = |ticks: i64| {
            let ns = i128::from(ticks) * i128::from(num) / i128::from(den);
            i64::try_from(ns).unwrap_or(i64::MAX).max(1)
        };
        Arrivals {
            tick,
            half_ns: ns(HALF),
            quarter_ns: ns(QUARTER),
            now: 0,
            points: Vec::new(),
            apart: false,
            untimed: None,
            far: false,
            agree: 0,
            contradict: 0,
        }
    }

    /// A batch begins; `first`: the first packet of the recording, if that is read apart.
    pub fn begin(&mut self, apart: bool, first: Option<Point>) {
        self.apart = apart;
        if self.points.is_empty() {
            self.points.extend(first);
        }
    }

    /// The next packets came at this time.
    #[inline]
    pub fn at(&mut self, time_ns: i64) {
        self.now = time_ns.max(0);
    }

    /// Receive time of the packets at hand, ns since 1970; 0: unknown.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// True if the packet before this one tells its turn.
    #[inline]
    pub fn is_near(&self, pace: &Pace) -> bool {
        // Without a time it is negative.
        pace.came == 0 || self.now - pace.came < self.half_ns
    }

    /// True if a stream that is new is placed by its receive time alone.
    pub fn places(&self) -> bool {
        self.now > 0 && !self.points.is_empty()
    }

    /// The first packet of a stream of a recording that is read apart, or one behind a silence.
    pub fn place(&mut self, raw: u32) -> HeaderTime {
        let Some(at) = self.nearest(self.now) else { return HeaderTime::after(None, raw) };
        let point = self.points[at];
        self.far |= (self.now - point.time_ns).abs() >= self.half_ns;
        nearest(self.expected(point), raw)
    }

    /// A packet behind a silence of more than half a turn, in a source that comes in order: `last` and `pace` are of the same
    /// stream, or of the one that was heard last.
    pub fn behind_silence(&self, pace: &Pace, last: HeaderTime, raw: u32) -> HeaderTime {
        let usual = HeaderTime::after(Some(last), raw);
        if pace.verdict != Verdict::Agrees || self.is_near(pace) {
            return usual;
        }
        let expected = self.expected(Point { time_ns: pace.came, ticks: last.ticks });
        let placed = nearest(expected, raw);
        let most = FITS + expected.saturating_sub(last.ticks) / 10_000;
        if placed.ticks.abs_diff(expected) <= most.unsigned_abs() { placed } else { usual }
    }

    /// An accepted packet was placed. `followed`: its stream has come again.
    #[inline]
    pub fn placed(&mut self, pace: &mut Pace, time: HeaderTime, followed: bool) {
        if self.now == 0 {
            if self.apart {
                self.untimed = Some(self.untimed.map_or(time.ticks, |first| first.min(time.ticks)));
            }
            return;
        }
        pace.came = self.now;
        let since = pace.mark;
        if self.now.wrapping_sub(since.time_ns).unsigned_abs() >= self.quarter_ns.unsigned_abs()
            || time.ticks.wrapping_sub(since.ticks).unsigned_abs() >= QUARTER.unsigned_abs()
        {
            self.note(pace, Point { time_ns: self.now, ticks: time.ticks }, followed);
        }
    }

    /// The stream goes on from another place: its pace is judged from here.
    pub fn jumped(pace: &mut Pace) {
        pace.begun = Point::default();
    }

    #[cold]
    fn note(&mut self, pace: &mut Pace, here: Point, followed: bool) {
        pace.mark = here;
        if pace.begun.time_ns == 0 {
            pace.begun = here;
        } else {
            self.judge(pace, here);
        }
        // A stranger's one packet must not say what time it is for others.
        if followed || self.points.is_empty() {
            self.add(here);
        }
    }

    /// Whether the ticks went with the receive times, once both have gone on by half a turn.
    fn judge(&mut self, pace: &mut Pace, here: Point) {
        let went = here.ticks.saturating_sub(pace.begun.ticks);
        let should = self.ticks_in(here.time_ns.saturating_sub(pace.begun.time_ns));
        let span = went.unsigned_abs().max(should.unsigned_abs());
        if span < HALF.unsigned_abs() {
            return;
        }
        let verdict = match went.abs_diff(should) <= span / 8 {
            true => Verdict::Agrees,
            false => Verdict::Contradicts,
        };
        pace.begun = here;
        if pace.verdict == verdict {
            return;
        }
        let count = |of: Verdict| u64::from(verdict == of) as i64 - i64::from(pace.verdict == of);
        self.agree = self.agree.saturating_add_signed(count(Verdict::Agrees));
        self.contradict = self.contradict.saturating_add_signed(count(Verdict::Contradicts));
        pace.verdict = verdict;
    }

    /// One point more, where those that are known do not lead to it.
    fn add(&mut self, here: Point) {
        let Some(at) = self.nearest(here.time_ns) else {
            if self.apart {
                self.points.push(here);
            }
            return;
        };
        let known = self.points[at];
        let away = here.time_ns.abs_diff(known.time_ns);
        let expected = known.ticks.saturating_add(self.ticks_in(here.time_ns - known.time_ns));
        if away < self.quarter_ns.unsigned_abs()
            && here.ticks.abs_diff(expected) < QUARTER.unsigned_abs()
        {
            return;
        }
        if self.points.len() >= MOST_POINTS {
            let mut odd = false;
            self.points.retain(|_| {
                odd = !odd;
                odd
            });
        }
        let behind = self.points.partition_point(|p| p.time_ns <= here.time_ns);
        self.points.insert(behind, here);
    }

    /// The point that is nearest in receive time.
    fn nearest(&self, time_ns: i64) -> Option<usize> {
        let behind = self.points.partition_point(|p| p.time_ns <= time_ns);
        let away = |at: usize| self.points[at].time_ns.abs_diff(time_ns);
        match (behind.checked_sub(1), behind < self.points.len()) {
            (None, false) => None,
            (Some(before), false) => Some(before),
            (None, true) => Some(behind),
            (Some(before), true) => {
                Some(if away(before) <= away(behind) { before } else { behind })
            }
        }
    }

    fn expected(&self, from: Point) -> i64 {
        from.ticks.saturating_add(self.ticks_in(self.now - from.time_ns))
    }

    fn ticks_in(&self, ns: i64) -> i64 {
        let (num, den) = self.tick.fraction();
        let ticks = (i128::from(ns) * i128::from(den)).div_euclid(i128::from(num));
        // Far from the ends, so that a turn more or less still fits.
        ticks.clamp(-(1 << 61), 1 << 61) as i64
    }

    /// A batch has been read; `newest` header time of all, of so many streams. Why their times may be wrong.
    pub fn unsettled(&self, newest: Option<HeaderTime>, streams: usize) -> Option<String> {
        let newest = newest?.ticks;
        let half_s = self.half_ns as f64 / 1e9;
        let long = |first: i64| newest.saturating_sub(first) >= HALF;
        if self.apart && streams > 1 && self.untimed.is_some_and(long) {
            return Some(format!(
                "packets of {streams} senders that are read one after the other hold more than {half_s:.2} s, their 32-bit clocks \
                 begin anew every {:.2} s, and messages do not say when packets came (header fc.time_ns): their times would \
                 be wrong by whole turns; name one partition at a time (partitions=), or send the packets with output.raw",
                2.0 * half_s
            ));
        }
        if self.far && self.contradict > self.agree {
            return Some(format!(
                "of {} senders {} have ticks that do not go with the receive times of their packets (header fc.time_ns): \
                 the turn of their 32-bit clocks, {:.2} s each, cannot be told where partitions are read one after the \
                 other; set time.tick to that of the detector, or name one partition at a time (partitions=)",
                self.agree + self.contradict,
                self.contradict,
                2.0 * half_s
            ));
        }
        None
    }
}

/// The time with these 32 bits that is nearest to `expected`.
fn nearest(expected: i64, raw: u32) -> HeaderTime {
    HeaderTime::after(Some(HeaderTime { raw: expected as u32, ticks: expected }), raw)
}

#[cfg(test)]
#[path = "arrival_tests.rs"]
mod tests;
