//! How long each step of a viewer's connection may take, and how much it may send: a state machine with time as an
//! argument.
//!
//! Ends a connection that does not finish a request within [`REQUEST`], that sends more than [`LONGEST_REQUEST`] for
//! one, that reads an answer slower than [`SLOWEST`] after [`ANSWER`], and one without a request during [`IDLE`]. It
//! counts bytes and never looks at them, so a slow body is bounded like a head: no request here needs a body, and the
//! answer never waits for one. Source: `docs/page.md`, "Who may ask".

use std::time::Duration;

/// From the first byte of a request, or from the connecting, to the first byte of the answer.
pub const REQUEST: Duration = Duration::from_secs(10);

/// What one request may have, bytes: requests of the page have 1 kB; the rest is room for the cookies that
/// other programs leave under the name `localhost`.
pub const LONGEST_REQUEST: u64 = 64 << 10;

/// For an answer however small.
pub const ANSWER: Duration = Duration::from_secs(30);

/// Bytes per second that an answer must be taken with after that: a picture of 1 M pixels in 2 minutes.
pub const SLOWEST: u64 = 32 << 10;

/// Browsers keep an idle connection for 60 s or less.
pub const IDLE: Duration = Duration::from_secs(75);

/// Where a connection is. Times are on any clock that does not go backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A request is being read, or awaited for the first time.
    Request {
        /// When it began.
        since: Duration,
        /// Bytes of it so far.
        bytes: u64,
    },
    /// An answer is being written.
    Answer {
        /// When it began.
        since: Duration,
        /// Bytes of it that the system took.
        bytes: u64,
    },
    /// All is answered.
    Idle {
        /// Since when.
        since: Duration,
    },
}

impl Step {
    /// A new connection.
    pub fn begin(now: Duration) -> Step {
        Step::Request { since: now, bytes: 0 }
    }

    /// `n` bytes came. False if the request is too long.
    pub fn read(&mut self, n: u64, now: Duration) -> bool {
        match self {
            Step::Request { bytes, .. } => {
                *bytes += n;
                *bytes <= LONGEST_REQUEST
            }
            // The next request may come early; it does not lengthen the time for this answer.
            Step::Answer { .. } => true,
            Step::Idle { .. } if n == 0 => true,
            Step::Idle { .. } => {
                *self = Step::Request { since: now, bytes: n };
                n <= LONGEST_REQUEST
            }
        }
    }

    /// The system took `n` bytes of an answer.
    pub fn wrote(&mut self, n: u64, now: Duration) {
        match self {
            Step::Answer { bytes, .. } => *bytes += n,
            Step::Request { .. } | Step::Idle { .. } => {
                *self = Step::Answer { since: now, bytes: n }
            }
        }
    }

    /// All that is to be written has been taken.
    pub fn flushed(&mut self, now: Duration) {
        if matches!(self, Step::Answer { .. }) {
            *self = Step::Idle { since: now };
        }
    }

    /// When the connection is ended unless something moves before.
    pub fn until(&self) -> Duration {
        match *self {
            Step::Request { since, .. } => since + REQUEST,
            Step::Answer { since, bytes } => {
                since + ANSWER + Duration::from_millis(bytes.saturating_mul(1000) / SLOWEST)
            }
            Step::Idle { since } => since + IDLE,
        }
    }

    /// Which connections are ended first when there are too many: unfinished requests, then idle ones, then answers in
    /// flight; among equals the oldest.
    pub fn rank(&self) -> (u8, Duration) {
        match *self {
            Step::Request { since, .. } => (0, since),
            Step::Idle { since } => (1, since),
            Step::Answer { since, .. } => (2, since),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_request_that_drips_ends_ten_seconds_after_its_first_byte() {
        let mut step = Step::begin(s(100));
        for second in 100..110 {
            assert!(step.read(1, s(second)));
            assert_eq!(step.until(), s(110), "no byte gives it more time");
        }
        // The same for one that comes later on the same connection.
        step.wrote(10, s(110));
        step.flushed(s(110));
        assert_eq!(step.until(), s(185));
        assert!(step.read(1, s(150)) && step.read(1, s(159)));
        assert_eq!(step.until(), s(160));
    }

    #[test]
    fn an_answer_must_be_taken_at_a_least_rate() {
        let mut step = Step::begin(s(0));
        step.wrote(1, s(1));
        assert_eq!(step.until(), s(31));
        step.wrote(32 * 1024 * 60 - 1, s(20));
        assert_eq!(step.until(), s(91), "a minute more for what was taken of it");
        assert!(step.read(1 << 20, s(25)) && step.until() == s(91), "reading gives no time");
        step.flushed(s(30));
        assert_eq!(step, Step::Idle { since: s(30) });
        step.flushed(s(40));
        assert_eq!(step.until(), s(105), "flushing nothing gives no time");
    }

    #[test]
    fn a_request_without_end_is_too_long() {
        let mut step = Step::begin(s(0));
        assert!(step.read(LONGEST_REQUEST, s(0)) && !step.read(1, s(0)));
        let mut later = Step::Idle { since: s(0) };
        assert!(
            later.read(0, s(1)) && later == Step::Idle { since: s(0) },
            "the end is no request"
        );
        assert!(!later.read(LONGEST_REQUEST + 1, s(1)));
    }

    #[test]
    fn unfinished_requests_go_first_then_idle_ones() {
        let mut all = [
            Step::Answer { since: s(1), bytes: 5 },
            Step::Idle { since: s(2) },
            Step::Request { since: s(9), bytes: 1 },
            Step::Request { since: s(4), bytes: 1 },
        ];
        all.sort_by_key(Step::rank);
        let since = all.map(|step| match step {
            Step::Answer { since, .. } | Step::Idle { since } | Step::Request { since, .. } => {
                since
            }
        });
        assert_eq!(since, [s(4), s(9), s(2), s(1)]);
    }
}
