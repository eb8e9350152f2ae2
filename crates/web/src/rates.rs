//! Rates from counter differences, and their last five minutes.
//!
//! Time is an argument, so a test needs no clock. It does not guess: without a counter there is no rate, and a counter
//! that went back (a new run) gives 0 once, not a huge number. Source: `docs/page.md`, "Numbers for programs": values
//! grow, rates are made at the reader.

use std::collections::VecDeque;
use std::time::Duration;

use fullcount_core::ledger::{Entries, Entry, Place, Role, Unit};

/// Points of the history: five minutes at one a second.
const HISTORY: usize = 300;

/// Shortest interval that makes a rate.
const SHORTEST: Duration = Duration::from_millis(500);

/// Totals that the page shows in large digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageTotals {
    /// Packets received: arrivals of the first hop that counts packets.
    pub packets: u64,
    /// Payload bytes received: the first counter in bytes.
    pub bytes: u64,
    /// Events made.
    pub events: u64,
    /// Packets lost at all places, or what is numbered instead.
    pub lost: u64,
    /// Heaps that began; `None`: the detector makes events.
    pub heaps: Option<u64>,
}

impl PageTotals {
    /// Totals of the counters.
    ///
    /// Several hops see the same packets and events. Packets and bytes are those of the first hop; events are those of
    /// the last hop before the sinks.
    pub fn of(entries: &Entries) -> PageTotals {
        let to_sink = |hop: &str| hop.starts_with("sink.") || hop.starts_with("queue.");
        let hops = entries.hops();
        let packets = hops.iter().find(|h| h.unit == Unit::Packets).map_or(0, |h| h.arrived);
        let bytes = entries.iter().find(|e| e.info.unit == Unit::Bytes && !to_sink(&e.info.hop));
        let made = |role: Role| {
            let of_events = |e: &&Entry| e.info.unit == Unit::Events && e.info.role == role;
            let before_sinks = |e: &&Entry| !to_sink(&e.info.hop);
            entries.iter().filter(of_events).filter(before_sinks).last().map(|e| e.value)
        };
        // Detectors whose events are in no hop's balance count them as a note.
        let note = || entries.get("events.count");
        let events = made(Role::Accepted).or_else(|| made(Role::In)).or_else(note);
        let packets_lost = || Place::ALL.iter().map(|&p| entries.lost_packets(p)).sum();
        let missing = |e: &&Entry| matches!(e.info.role, Role::Missing(_));
        let numbered = |e: &&Entry| Unit::NUMBERED.contains(&e.info.unit) && missing(e);
        let lost = match entries.iter().any(|e| numbered(&e)) {
            true => entries.iter().filter(numbered).map(|e| e.value).sum(),
            false => packets_lost(),
        };
        PageTotals {
            packets,
            bytes: bytes.map_or(0, |e| e.value),
            events: events.unwrap_or(0),
            lost,
            heaps: entries.get("heaps.count"),
        }
    }
}

/// Rates over the last second or so.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Time since the server's start, seconds.
    pub at_s: f64,
    /// Events per second.
    pub events: f64,
    /// Packets per second.
    pub packets: f64,
    /// Payload bits per second.
    pub bits: f64,
    /// Lost packets per second.
    pub lost: f64,
    /// Heaps per second; `None`: the detector makes events.
    pub heaps: Option<f64>,
}

/// Makes rates of totals.
#[derive(Debug, Default)]
pub struct RateMeter {
    last: Option<(Duration, PageTotals)>,
    history: VecDeque<Rates>,
    moved: Option<Duration>,
}

impl RateMeter {
    /// Takes the totals at `now` (monotonic, any zero point). Calls closer than 0.5 s are ignored.
    pub fn sample(&mut self, now: Duration, totals: PageTotals) {
        let Some((then, before)) = self.last else {
            self.last = Some((now, totals));
            if totals.packets + totals.events > 0 {
                self.moved = Some(now);
            }
            return;
        };
        let passed = now.saturating_sub(then);
        if passed < SHORTEST {
            return;
        }
        let per_second = |new: u64, old: u64| new.saturating_sub(old) as f64 / passed.as_secs_f64();
        if (totals.packets, totals.events) != (before.packets, before.events) {
            self.moved = Some(now);
        }
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(Rates {
            at_s: now.as_secs_f64(),
            events: per_second(totals.events, before.events),
            packets: per_second(totals.packets, before.packets),
            bits: 8.0 * per_second(totals.bytes, before.bytes),
            lost: per_second(totals.lost, before.lost),
            heaps: totals.heaps.map(|heaps| per_second(heaps, before.heaps.unwrap_or(0))),
        });
        self.last = Some((now, totals));
    }

    /// The newest rates, `None` before the second sample.
    pub fn rates(&self) -> Option<Rates> {
        self.history.back().copied()
    }

    /// Up to five minutes of rates, the oldest first.
    pub fn history(&self) -> impl Iterator<Item = &Rates> {
        self.history.iter()
    }

    /// When packets or events last grew, to the second.
    pub fn moved(&self) -> Option<Duration> {
        self.moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::ledger::{Ledger, Sheet};

    fn totals(packets: u64, events: u64) -> PageTotals {
        let heaps = (events == 0).then_some(packets / 2);
        PageTotals { packets, bytes: packets * 1000, events, lost: packets / 10, heaps }
    }

    #[test]
    fn a_rate_is_the_difference_over_the_real_interval() {
        let mut m = RateMeter::default();
        m.sample(Duration::from_secs(10), totals(100, 1000));
        assert_eq!(m.rates(), None, "one sample makes no rate");
        m.sample(Duration::from_millis(12_000), totals(300, 5000));
        let r = m.rates().unwrap();
        assert_eq!((r.packets, r.events, r.bits, r.lost), (100.0, 2000.0, 800_000.0, 10.0));
        assert_eq!(r.heaps, None, "it makes events");
        let mut m = RateMeter::default();
        m.sample(Duration::from_secs(1), totals(100, 0));
        m.sample(Duration::from_secs(3), totals(300, 0));
        assert_eq!(m.rates().unwrap().heaps, Some(50.0));
    }

    #[test]
    fn early_samples_are_ignored_and_a_new_run_is_not_a_burst() {
        let mut m = RateMeter::default();
        m.sample(Duration::ZERO, totals(100, 100));
        m.sample(Duration::from_millis(499), totals(200, 200));
        assert_eq!(m.rates(), None);
        m.sample(Duration::from_secs(1), totals(5, 5));
        assert_eq!(m.rates().unwrap().events, 0.0);
        m.sample(Duration::from_secs(2), totals(8, 8));
        assert_eq!(m.rates().unwrap().events, 3.0);
    }

    #[test]
    fn history_is_bounded_and_the_last_movement_is_kept() {
        let mut m = RateMeter::default();
        for s in 0..1000u64 {
            m.sample(Duration::from_secs(s), totals(s.min(500), 0));
        }
        assert_eq!(m.history().count(), HISTORY);
        assert_eq!(m.moved(), Some(Duration::from_secs(500)));
        assert_eq!(m.rates().unwrap().packets, 0.0);
    }

    fullcount_core::counters! {
        /// A chain of hops.
        enum T {
            Packets "receive.packets" Packets Sum "receive" In "datagrams received" "";
            Taken "receive.accepted" Packets Sum "receive" Accepted "handed on" "";
            Bytes "receive.bytes" Bytes Sum "receive" Note "payload" "";
            Decoded "decode.packets" Packets Sum "decode" In "decoded" "";
            Gap "receive.lost" Packets Sum "receive" Missing(Socket) "missing" "enlarge the buffer";
            Events "events.count" Events Sum "events" Accepted "events made" "";
            Sink "sink.nexus.events" Events Sum "sink.nexus" Accepted "written" "";
        }
    }

    #[test]
    fn totals_count_each_thing_once_though_several_hops_see_it() {
        let ledger = Ledger::default();
        let sheet = Sheet::new(T::catalogue());
        ledger.register(sheet.clone());
        for (line, n) in [
            (T::Packets, 10),
            (T::Taken, 10),
            (T::Bytes, 999),
            (T::Decoded, 10),
            (T::Gap, 2),
            (T::Events, 70),
            (T::Sink, 60),
        ] {
            sheet.add(line as usize, n);
        }
        let expected = PageTotals { packets: 10, bytes: 999, events: 70, lost: 2, heaps: None };
        assert_eq!(PageTotals::of(&ledger.read()), expected);
    }
}
