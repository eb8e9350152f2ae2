//! Events beside the truth: which neutron was found, in which pixel, and which event is of no neutron.
//!
//! Events and neutrons meet only within one group: a trigger of a module (Multi-Grid), a packet of a
//! cassette (Multi-Blade). Refuses: nothing.

use crate::traffic::made::{Kind, Made, Overlap};

/// An event or a row of truth, as far as they can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Time of the trigger, or number of the packet.
    pub group: i64,
    /// Module or cassette.
    pub module: u16,
    /// Time, ns.
    pub time_ns: i64,
    /// Pixel from 1; 0: no event is expected.
    pub pixel: u32,
}

/// Neutrons that are alike in what is in their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Class {
    /// Neutrons.
    pub made: u64,
    /// Found in their pixel.
    pub right: u64,
    /// Found in another pixel.
    pub wrong: u64,
    /// Not found.
    pub missed: u64,
}

impl Class {
    /// Share found in the right pixel, percent; 100 if there were none.
    pub fn percent(&self) -> f64 {
        if self.made == 0 { 100.0 } else { 100.0 * self.right as f64 / self.made as f64 }
    }
}

impl Class {
    /// Both together.
    pub fn with(&self, other: &Class) -> Class {
        Class {
            made: self.made + other.made,
            right: self.right + other.right,
            wrong: self.wrong + other.wrong,
            missed: self.missed + other.missed,
        }
    }
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Neutrons with nothing in the way.
    pub clean: Class,
    /// Neutrons with a dark count or a random coincidence within the resolution.
    pub noise: Class,
    /// Neutrons with another neutron within the resolution.
    pub neutron: Class,
    /// Events in all.
    pub events: u64,
    /// Events of no neutron that are a random coincidence's.
    pub coincidences: u64,
    /// Other events of no neutron.
    pub extra: u64,
}

impl Verdict {
    /// Neutrons in all.
    pub fn made(&self) -> u64 {
        self.all().made
    }

    /// Neutrons that no other neutron overlaps, whatever noise does.
    pub fn apart(&self) -> Class {
        self.clean.with(&self.noise)
    }

    /// All neutrons.
    pub fn all(&self) -> Class {
        self.apart().with(&self.neutron)
    }

    /// Events that tell something wrong: in another pixel, or of no neutron.
    pub fn wrong_events(&self) -> u64 {
        self.all().wrong + self.coincidences + self.extra
    }

    fn class(&mut self, overlap: Overlap) -> &mut Class {
        match overlap {
            Overlap::None => &mut self.clean,
            Overlap::Noise => &mut self.noise,
            Overlap::Neutron => &mut self.neutron,
        }
    }

    /// Events and truth of one group.
    fn group(&mut self, events: &[Mark], truth: &[(Mark, Made)], reach_ns: i64) {
        self.events += events.len() as u64;
        let mut found = vec![false; events.len()];
        let mut done = vec![false; truth.len()];
        // First what is right in time and pixel, then in pixel, then what is only near in time.
        type Meets = fn(&Mark, &Mark, i64) -> bool;
        let right: [Meets; 2] = [
            |e, t, _| e.pixel == t.pixel && e.time_ns == t.time_ns,
            |e, t, reach| e.pixel == t.pixel && (e.time_ns - t.time_ns).abs() <= reach,
        ];
        let near: Meets = |e, t, reach| (e.time_ns - t.time_ns).abs() <= reach;
        for (step, meets) in right.into_iter().chain([near]).enumerate() {
            for (i, event) in events.iter().enumerate() {
                let neutron = |(row, made): &(Mark, Made)| {
                    made.kind == Kind::Neutron && meets(event, row, reach_ns)
                };
                let free = |&at: &usize| !done[at] && neutron(&truth[at]);
                if found[i] {
                    continue;
                }
                if let Some(at) = (0..truth.len()).find(free) {
                    (found[i], done[at]) = (true, true);
                    let class = self.class(truth[at].1.overlap);
                    let line = if step < right.len() { &mut class.right } else { &mut class.wrong };
                    *line += 1;
                }
            }
        }
        for (event, _) in events.iter().zip(&found).filter(|(_, found)| !**found) {
            let coincidence = |(row, made): &(Mark, Made)| {
                made.kind == Kind::Coincidence && near(event, row, reach_ns)
            };
            match truth.iter().any(coincidence) {
                true => self.coincidences += 1,
                false => self.extra += 1,
            }
        }
        for (at, (_, made)) in truth.iter().enumerate().filter(|(_, t)| t.1.kind == Kind::Neutron) {
            let class = self.class(made.overlap);
            class.made += 1;
            class.missed += u64::from(!done[at]);
        }
    }
}

/// Compares all events with all rows; an event belongs to what lies within `reach_ns` of it.
pub fn compare(mut events: Vec<Mark>, mut truth: Vec<(Mark, Made)>, reach_ns: i64) -> Verdict {
    events.sort_unstable();
    truth.sort_unstable_by_key(|(mark, _)| *mark);
    let mut verdict = Verdict::default();
    let (mut events, mut truth) = (&events[..], &truth[..]);
    let key = |mark: &Mark| (mark.group, mark.module);
    loop {
        let first = [events.first().map(key), truth.first().map(|(mark, _)| key(mark))];
        let Some(now) = first.into_iter().flatten().min() else { return verdict };
        let (own_events, rest) = events.split_at(events.partition_point(|e| key(e) == now));
        events = rest;
        let (own_truth, rest) = truth.split_at(truth.partition_point(|(t, _)| key(t) == now));
        truth = rest;
        verdict.group(own_events, own_truth, reach_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(group: i64, time_ns: i64, pixel: u32) -> Mark {
        Mark { group, module: 0, time_ns, pixel }
    }

    fn row(group: i64, time_ns: i64, pixel: u32, kind: Kind, overlap: Overlap) -> (Mark, Made) {
        let made = Made { packet: 0, module: 0, time: time_ns, pixel, kind, overlap, spot: None };
        (event(group, time_ns, pixel), made)
    }

    #[test]
    fn every_event_and_every_neutron_is_counted_once() {
        let truth = vec![
            row(1, 100, 7, Kind::Neutron, Overlap::None),
            row(1, 5_000, 8, Kind::Neutron, Overlap::None),
            row(1, 9_000, 9, Kind::Neutron, Overlap::Noise),
            row(2, 100, 7, Kind::Neutron, Overlap::Neutron),
            row(2, 900, 11, Kind::Neutron, Overlap::Neutron),
            row(3, 40, 5, Kind::Coincidence, Overlap::None),
            row(3, 9_000, 0, Kind::Dark, Overlap::None),
            row(4, 10, 3, Kind::Neutron, Overlap::None),
        ];
        let events = vec![
            // Exact; in a wrong pixel; right, but with an earlier readout's time.
            event(1, 100, 7),
            event(1, 5_000, 4),
            event(1, 8_000, 9),
            // Two that became one between them, a coincidence, and one of nothing.
            event(2, 100, 9),
            event(3, 40, 5),
            event(3, 9_000, 6),
        ];
        let v = compare(events, truth, 2_000);
        assert_eq!(v.clean, Class { made: 3, right: 1, wrong: 1, missed: 1 });
        assert_eq!(v.noise, Class { made: 1, right: 1, wrong: 0, missed: 0 });
        assert_eq!(v.neutron, Class { made: 2, right: 0, wrong: 1, missed: 1 });
        assert_eq!((v.events, v.coincidences, v.extra), (6, 1, 1));
        assert_eq!((v.made(), v.wrong_events()), (6, 4));
        assert_eq!(v.apart(), Class { made: 4, right: 2, wrong: 1, missed: 1 });
        assert!((v.clean.percent() - 100.0 / 3.0).abs() < 1e-9);
        assert_eq!(Class::default().percent(), 100.0);
    }

    #[test]
    fn what_lies_in_other_groups_or_too_far_away_never_meets() {
        let truth = vec![row(1, 100, 7, Kind::Neutron, Overlap::None)];
        for wrong in [event(2, 100, 7), event(1, 2_101, 7), Mark { module: 1, ..event(1, 100, 7) }]
        {
            let v = compare(vec![wrong], truth.clone(), 2_000);
            assert_eq!((v.clean.missed, v.extra), (1, 1), "{wrong:?}");
        }
    }
}
