//! From the detector's clock to the host's: consecutive straight lines, and their records.
//!
//! All in integers, so that the same lines give the same times on every machine. Refuses, where records are read: words, numbers
//! and orders that no run writes. Source: `docs/time.md`.

use std::fmt;
use std::str::FromStr;

/// Largest correction: 200 ppm.
pub const MOST_PPB: i64 = 200_000;

/// Parts of 2³² in one ppb, as a fraction: 2³² / 10⁹.
const PPB: (i64, i64) = (1 << 32, 1_000_000_000);

/// Detector times from `from` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockLine {
    /// ns of the detector's clock.
    pub from: i64,
    /// Time of the host at `from`, ns since 1970.
    pub wall: i64,
    /// How much faster than the detector's clock the host's goes, in parts of 2³²: ±858,993 is ±200 ppm.
    pub rate: i32,
}

impl ClockLine {
    /// The host's time at a detector's time; rounded down, saturates.
    #[inline]
    pub fn at(&self, detector_ns: i64) -> i64 {
        let since = i128::from(detector_ns) - i128::from(self.from);
        let wall = i128::from(self.wall) + since + ((since * i128::from(self.rate)) >> 32);
        wall.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// What [`Line::at`] cuts off at this time, in parts of 2³² ns.
    #[inline]
    pub(super) fn cut(&self, detector_ns: i64) -> i64 {
        let since = i128::from(detector_ns) - i128::from(self.from);
        (since * i128::from(self.rate)) as i64 & 0xffff_ffff
    }
}

/// The rate of a line for this many ppb; within ±[`MOST_PPB`].
pub fn rate(ppb: i64) -> i32 {
    (ppb.clamp(-MOST_PPB, MOST_PPB) * PPB.0 / PPB.1) as i32
}

/// One run of the detector's clock without a step: its lines, in order and without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Era {
    /// When the packet came with which it began, ns since 1970.
    pub received: i64,
    /// The point at which both clocks were joined.
    pub anchor: ClockLine,
    /// At least one. The first is the anchor's, or the oldest that is still known.
    pub lines: Vec<ClockLine>,
}

impl Era {
    /// Begins at a line.
    pub fn new(received: i64, anchor: ClockLine) -> Era {
        Era { received, anchor, lines: vec![anchor] }
    }

    /// Number of the line for a detector's time; times before the first line are on it too.
    #[inline]
    pub fn line(&self, detector_ns: i64) -> usize {
        self.lines.partition_point(|line| line.from <= detector_ns).saturating_sub(1)
    }

    /// True if that line holds at a detector's time.
    #[inline]
    pub(super) fn is_on(&self, line: usize, detector_ns: i64) -> bool {
        let begun = line == 0 || self.lines[line].from <= detector_ns;
        begun && self.lines.get(line + 1).is_none_or(|next| detector_ns < next.from)
    }

    /// The host's time at a detector's time.
    pub fn at(&self, detector_ns: i64) -> i64 {
        self.lines[self.line(detector_ns)].at(detector_ns)
    }

    /// The last line.
    pub fn last(&self) -> ClockLine {
        self.lines[self.lines.len() - 1]
    }
}

/// What is written down of a run's clock, one text line each; all in order give the same times again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockRecord {
    /// The packets' own arrival is the time of their readouts; there is nothing to join.
    Received,
    /// Both clocks were joined by a packet that came at `received`.
    Era {
        /// ns since 1970.
        received: i64,
        /// Where.
        anchor: ClockLine,
    },
    /// The last era continues with another rate.
    Line(ClockLine),
}

impl fmt::Display for ClockRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |l: &ClockLine| format!("{} {} {}", l.from, l.wall, l.rate);
        match self {
            ClockRecord::Received => write!(f, "received"),
            ClockRecord::Era { received, anchor } => {
                write!(f, "anchor {received} {}", line(anchor))
            }
            ClockRecord::Line(l) => write!(f, "line {}", line(l)),
        }
    }
}

/// A text that is no record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no record of a clock: received; anchor RECEIVED DETECTOR HOST RATE; line DETECTOR HOST RATE (ns, rate in 2^-32)"
)]
pub struct NoRecord(pub String);

impl FromStr for ClockRecord {
    type Err = NoRecord;

    fn from_str(text: &str) -> Result<ClockRecord, NoRecord> {
        let read = || {
            let mut words = text.split(' ');
            let kind = words.next()?;
            let numbers: Vec<i64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
            let line = |from, wall, rate: i64| {
                let rate = i32::try_from(rate).ok().filter(|r| *r <= 1 << 20)?;
                Some(ClockLine { from, wall, rate })
            };
            match (kind, numbers[..].as_ref()) {
                ("received", []) => Some(ClockRecord::Received),
                ("anchor", &[received, from, wall, rate]) => {
                    Some(ClockRecord::Era { received, anchor: line(from, wall, rate)? })
                }
                ("line", &[from, wall, rate]) => Some(ClockRecord::Line(line(from, wall, rate)?)),
                _ => None,
            }
        };
        // Room for four numbers; nothing longer is copied into a message.
        let shown = || text.chars().take(100).collect();
        if text.len() > 100 { None } else { read() }.ok_or_else(|| NoRecord(shown()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_goes_at_its_rate_and_rounds_down() {
        let line = ClockLine { from: 1000, wall: 5_000_000, rate: rate(100_000) };
        assert_eq!(line.at(1000), 5_000_000);
        // 100 ppm of a second, less what the rate is rounded by.
        assert_eq!(line.at(1_000_001_000), 5_000_000 + 1_000_000_000 + 99_999);
        assert_eq!(line.at(999), 4_999_998, "below the anchor too");
        assert_eq!(line.at(i64::MAX), i64::MAX);
        assert_eq!(rate(1_000_000), rate(MOST_PPB));
    }

    #[test]
    fn an_era_has_one_line_for_each_time() {
        let anchor = ClockLine { from: 10, wall: 100, rate: 0 };
        let mut era = Era::new(100, anchor);
        era.lines.push(ClockLine { from: 20, wall: 110, rate: 0 });
        assert_eq!([0, 10, 19, 20, 30].map(|t| era.at(t)), [90, 100, 109, 110, 120]);
        assert_eq!(era.last().from, 20);
    }

    proptest! {
        #[test]
        fn records_read_what_they_write(received: i64, from: i64, wall: i64, rate in -858_993i32..=858_993) {
            let line = ClockLine { from, wall, rate };
            for record in [ClockRecord::Received, ClockRecord::Line(line), ClockRecord::Era { received, anchor: line }] {
                prop_assert_eq!(record.to_string().parse::<ClockRecord>(), Ok(record));
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,120}") {
            _ = text.parse::<ClockRecord>();
            _ = format!("anchor {text}").parse::<ClockRecord>();
        }

        #[test]
        fn a_line_never_goes_back(from in -1i64 << 60..1 << 60, wall in -1i64 << 60..1 << 60, ppb in -300_000i64..300_000, at in 0i64..1 << 50, step in 0i64..1 << 40) {
            let line = ClockLine { from, wall, rate: rate(ppb) };
            prop_assert!(line.at(from + at + step) >= line.at(from + at));
        }
    }
}
