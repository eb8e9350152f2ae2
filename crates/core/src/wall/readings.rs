//! What the packets of one batch show of the detector's clock: pairs of a time in a packet and the time of its arrival.
//!
//! A decoder notes a reading for the first packet of some trains: the latest time in a packet is nearest to
//! the moment at which it was sent. Source: `docs/time.md`.

/// A decoder notes one train in this many, and the first of each batch: if packets come singly, it would
/// otherwise look at each.
pub const EACH: usize = 16;

/// One moment of a detector's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// Time in the packet, ns of the detector's clock; its tick 0 is 0.
    pub detector_ns: i64,
    /// When the packet came, ns since 1970; 0: unknown.
    pub received_ns: i64,
}

/// Readings of one batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readings {
    first: Option<ClockReading>,
    newest: Option<ClockReading>,
    least: Option<ClockReading>,
    most: Option<ClockReading>,
    last: Option<ClockReading>,
    anew: Option<ClockReading>,
    /// That with the latest time since `anew`.
    since: Option<ClockReading>,
    latest: i64,
}

impl Readings {
    /// A batch begins.
    #[inline]
    pub fn begin(&mut self) {
        *self = Readings::default();
    }

    /// A packet with `detector_ns` as its latest time came at `received_ns`.
    #[inline]
    pub fn note(&mut self, detector_ns: i64, received_ns: i64) {
        let reading = ClockReading { detector_ns, received_ns };
        let delay = |r: ClockReading| r.received_ns.wrapping_sub(r.detector_ns);
        if self.first.is_none() {
            self.first = Some(reading);
        }
        if self.newest.is_none_or(|newest| newest.detector_ns <= detector_ns) {
            self.newest = Some(reading);
        }
        if self.least.is_none_or(|least| delay(reading) < delay(least)) {
            self.least = Some(reading);
        }
        if self.most.is_none_or(|most| delay(reading) > delay(most)) {
            self.most = Some(reading);
        }
        self.last = Some(reading);
        if self.since.is_some_and(|since| since.detector_ns < detector_ns) {
            self.since = Some(reading);
        }
        self.latest = self.latest.max(received_ns);
    }

    /// The stream of the last reading is new or restarted: its clock may have restarted, too.
    #[cold]
    pub fn began_anew(&mut self) {
        self.anew = self.last;
        self.since = self.last;
    }

    /// True if no packet showed a time.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Gives readings of unknown arrival this one.
    pub fn arrived(&mut self, now_ns: i64) {
        self.latest = self.latest.max(now_ns);
        let Readings { first, newest, least, most, last, anew, since, .. } = self;
        let all = [first, newest, least, most, last, anew, since];
        for reading in all.into_iter().flatten().filter(|r| r.received_ns == 0) {
            reading.received_ns = now_ns;
        }
    }

    /// The one with the latest time after [`Readings::anew`].
    pub fn since_anew(&self) -> Option<ClockReading> {
        self.since
    }

    /// When the last packet came, ns since 1970.
    pub fn latest(&self) -> i64 {
        self.latest
    }

    /// The first of the batch.
    pub fn first(&self) -> Option<ClockReading> {
        self.first
    }

    /// That with the latest time of the detector.
    pub fn newest(&self) -> Option<ClockReading> {
        self.newest
    }

    /// That which came soonest after its time.
    pub fn least(&self) -> Option<ClockReading> {
        self.least
    }

    /// That which came longest after its time.
    pub fn most(&self) -> Option<ClockReading> {
        self.most
    }

    /// The last one of a stream that is new or restarted.
    pub fn anew(&self) -> Option<ClockReading> {
        self.anew
    }
}
