//! Names that counters are published under: ours, or those of the event formation unit, so that its users' dashboards match.
//!
//! A detector's kind says which names of theirs stand for which of ours ([`PublishedNames`]). What has no name of theirs keeps ours, so
//! that nothing is hidden; a name of theirs without a counterpart does not exist. Refuses names of no naming.
//! Source: `control-and-monitoring.md` sections 4.1 to 4.5.

use crate::ledger::{Entries, signed};

/// Whose names counters have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Naming {
    /// Those of the catalogue.
    #[default]
    Ours,
    /// Those of today's event formation unit.
    Efu,
    /// Those of its state of 2018.
    Efu2018,
}

impl Naming {
    /// All, as they are configured.
    pub const ALL: [(&'static str, Naming); 3] =
        [("ours", Naming::Ours), ("efu", Naming::Efu), ("efu2018", Naming::Efu2018)];

    /// Reads `metrics.names`.
    pub fn read(text: &str) -> Option<Naming> {
        Naming::ALL.into_iter().find(|(name, _)| *name == text).map(|(_, naming)| naming)
    }
}

/// A name of theirs, and the counters of ours whose sum it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theirs {
    /// Their name, without prefix and region.
    pub name: &'static str,
    /// Ours; those that a run does not have count 0, and without any of them the name is not there.
    pub ours: &'static [&'static str],
}

/// Shorthand for tables.
pub const fn theirs(name: &'static str, ours: &'static [&'static str]) -> Theirs {
    Theirs { name, ours }
}

/// What the event formation unit calls a detector and its counters.
#[derive(Debug, Clone, Copy)]
pub struct PublishedNames {
    /// Names of its modules for this detector, the usual one first.
    pub modules: &'static [&'static str],
    /// What its names of 2018 began with, behind `efu.`.
    pub module_2018: &'static str,
    /// Names of today, the number of received packets first.
    pub now: &'static [Theirs],
    /// Names of 2018, the number of received packets first.
    pub of_2018: &'static [Theirs],
    /// Options of the modules that `fullcount efu` refuses, dashes included, each with what is here instead.
    pub not_taken: &'static [(&'static str, &'static str)],
}

/// Names that all detectors have today, where ours are others.
const COMMON: &[Theirs] = &[
    theirs("receive.fifo_seq_errors", &["thread.fifo_synch_errors"]),
    theirs("produce.cause.timeout", &["sink.kafka.cut.timer"]),
    theirs("produce.cause.pulse_change", &["sink.kafka.cut.pulse"]),
    theirs("produce.cause.max_events_reached", &["sink.kafka.cut.capacity"]),
    theirs("producer.event.produce_calls", &["sink.kafka.messages"]),
    theirs("producer.event.produce_bytes_ok", &["sink.kafka.bytes"]),
    // With `acks=all`, which nobody can change, what is confirmed is on the disks of all replicas that are in step.
    theirs("producer.event.msg.delivery_success", &["sink.kafka.messages"]),
    theirs("producer.event.msg.status_persisted", &["sink.kafka.messages"]),
    theirs("producer.event.msg.num_of_msg_in_queue", &["kafka.spool.messages"]),
    theirs("producer.event.msg.bytes_in_queue", &["kafka.spool.bytes"]),
    theirs("producer.event.msg.max_bytes_in_queue", &["kafka.spool.limit"]),
    theirs("producer.event.error_events", &["kafka.errors"]),
];

/// The number of received packets: scripts ask for the first counter.
const FIRST: &str = "receive.packets";
/// Seconds since the start, the last counter.
pub const UPTIME: &str = "main.uptime";

/// How the counters of a run are published.
#[derive(Debug, Clone)]
pub struct Names {
    /// What all names begin with, its last dot included.
    prefix: String,
    table: Vec<Theirs>,
    /// What the detector is called.
    detector: String,
}

/// What was set of the names, each in place of the usual one.
#[derive(Debug, Clone, Copy, Default)]
pub struct NamesGiven<'a> {
    /// What the detector is called.
    pub detector: Option<&'a str>,
    /// First part of the names.
    pub prefix: Option<&'a str>,
    /// Second part of the names.
    pub region: Option<&'a str>,
}

impl Names {
    /// Names of a detector; those that are not given are the usual ones.
    pub fn new(
        naming: Naming,
        (detector, published): (&str, Option<&PublishedNames>),
        given: NamesGiven<'_>,
    ) -> Names {
        let module = given.detector.or(published.map(|p| p.module_2018)).unwrap_or(detector);
        let detector = given.detector.unwrap_or(detector);
        let (usual, usual_region, mut table) = match naming {
            Naming::Ours => (format!("fullcount.{detector}"), None, Vec::new()),
            Naming::Efu => (
                format!("efu.{detector}"),
                Some("0"),
                published.map_or(Vec::new(), |p| p.now.to_vec()),
            ),
            Naming::Efu2018 => (
                format!("efu.{module}"),
                None,
                published.map_or(Vec::new(), |p| p.of_2018.to_vec()),
            ),
        };
        if naming == Naming::Efu {
            let new = |t: &&Theirs| !table.iter().any(|have: &Theirs| have.name == t.name);
            let common: Vec<Theirs> = COMMON.iter().filter(new).copied().collect();
            table.extend(common);
        }
        let mut full = given.prefix.map_or(usual, str::to_owned);
        if let Some(region) = given.region.or(usual_region) {
            full = format!("{full}.{region}");
        }
        Names { prefix: full + ".", table, detector: detector.to_owned() }
    }

    /// What the detector is called: one word.
    pub fn detector(&self) -> &str {
        &self.detector
    }

    /// What all names begin with, its last dot included.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// True if what is published under this name can fall.
    pub fn can_fall(&self, name: &str, entries: &Entries) -> bool {
        let line = self.table.iter().find(|line| line.name == name);
        let ours = line.map_or(std::slice::from_ref(&name), |line| line.ours);
        let falls = |ours: &str| {
            let entry = entries.iter().find(|entry| entry.info.name == ours);
            entry.is_some_and(|entry| entry.info.can_fall())
        };
        ours.iter().any(|ours| falls(ours))
    }

    /// All counters, without prefix, the number of received packets first and the seconds since the start last.
    pub fn values(&self, entries: &Entries, uptime: u64) -> Vec<(String, i64)> {
        let mut all: Vec<(String, i64)> = Vec::new();
        let mut renamed: Vec<&str> = Vec::new();
        // Scripts take the first counter for the received packets; a table that names it has it first.
        if !self.table.iter().any(|line| line.ours == [FIRST]) {
            all.extend(entries.get(FIRST).map(|n| (FIRST.to_owned(), signed(n))));
            renamed.push(FIRST);
        }
        for line in &self.table {
            let mut found = line.ours.iter().filter_map(|name| entries.get(name)).peekable();
            if found.peek().is_some() {
                let sum = found.fold(0, u64::saturating_add);
                all.push((line.name.to_owned(), signed(sum)));
                // Of a sum the parts stay beside it.
                if let [one] = line.ours {
                    renamed.push(one);
                }
            }
        }
        for entry in entries.iter() {
            let name = &*entry.info.name;
            if !renamed.contains(&name) && !self.table.iter().any(|line| line.name == name) {
                all.push((name.to_owned(), signed(entry.value)));
            }
        }
        all.push((UPTIME.to_owned(), signed(uptime)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger, Sheet};

    crate::counters! {
        /// Some of a run.
        enum T {
            Other "time.anchors" Times Sum "t" Note "first registered" "";
            In "receive.packets" Packets Sum "t" In "in" "";
            Short "errors.short" Packets Sum "t" Rejected "short" "";
            Long "errors.long" Packets Sum "t" Rejected "long" "";
            Big "big" Times Sum "t" Note "large" "";
        }
    }

    const PUBLISHED: PublishedNames = PublishedNames {
        modules: &["tube"],
        module_2018: "tb",
        now: &[
            theirs("receive.packets", &["receive.packets"]),
            theirs("errors.all", &["errors.short", "errors.long"]),
        ],
        of_2018: &[theirs("input.rx_packets", &["receive.packets"]), theirs("gone", &["no.such"])],
        not_taken: &[],
    };

    fn entries() -> Entries {
        let (ledger, sheet) = (Ledger::default(), Sheet::new(T::catalogue()));
        for (line, n) in [(T::In, 9), (T::Short, 1), (T::Long, 2), (T::Big, u64::MAX)] {
            sheet.add(line as usize, n);
        }
        ledger.register(sheet);
        ledger.read()
    }

    fn named(naming: Naming) -> (String, Vec<(String, i64)>) {
        let names = Names::new(naming, ("tube", Some(&PUBLISHED)), NamesGiven::default());
        (names.prefix().to_owned(), names.values(&entries(), 7))
    }

    #[test]
    fn packets_come_first_uptime_last_and_nothing_is_hidden() {
        let (prefix, ours) = named(Naming::Ours);
        assert_eq!(prefix, "fullcount.tube.");
        let names: Vec<&str> = ours.iter().map(|(name, _)| name.as_str()).collect();
        let want = [
            "receive.packets",
            "time.anchors",
            "errors.short",
            "errors.long",
            "big",
            "main.uptime",
        ];
        assert_eq!(names, want);
        assert_eq!((ours[0].1, ours[4].1, ours[5].1), (9, i64::MAX, 7));
    }

    #[test]
    fn theirs_take_the_place_of_ours_and_sums_stand_beside_their_parts() {
        let (prefix, now) = named(Naming::Efu);
        assert_eq!(prefix, "efu.tube.0.");
        assert_eq!((now[0].0.as_str(), now[0].1), ("receive.packets", 9));
        assert_eq!((now[1].0.as_str(), now[1].1), ("errors.all", 3));
        assert!(now.iter().any(|(name, n)| name == "errors.long" && *n == 2));
        assert_eq!(now.iter().filter(|(name, _)| name == "receive.packets").count(), 1);
        let (prefix, then) = named(Naming::Efu2018);
        assert_eq!(prefix, "efu.tb.");
        assert_eq!((then[0].0.as_str(), then[0].1), ("input.rx_packets", 9));
        assert!(!then.iter().any(|(name, _)| name == "receive.packets" || name == "gone"));
        assert_eq!(then.last().unwrap().0, "main.uptime");
    }

    #[test]
    fn prefix_and_region_are_those_that_are_given() {
        let names = |naming, detector, prefix, region| {
            let given = NamesGiven { detector, prefix, region };
            let names = Names::new(naming, ("x", Some(&PUBLISHED)), given);
            (names.prefix().to_owned(), names.detector().to_owned())
        };
        let of = |prefix: &str, detector: &str| (prefix.to_owned(), detector.to_owned());
        assert_eq!(names(Naming::Efu, None, None, None), of("efu.x.0.", "x"));
        assert_eq!(names(Naming::Efu, Some("y"), None, None), of("efu.y.0.", "y"));
        assert_eq!(names(Naming::Efu2018, Some("y"), None, None), of("efu.y.", "y"));
        assert_eq!(names(Naming::Ours, Some("y"), None, None), of("fullcount.y.", "y"));
        assert_eq!(names(Naming::Efu, Some("y"), Some("a.b"), Some("r")), of("a.b.r.", "y"));
        assert_eq!(Naming::read("efu2018"), Some(Naming::Efu2018));
        assert_eq!(Naming::read("theirs"), None);
    }
}
