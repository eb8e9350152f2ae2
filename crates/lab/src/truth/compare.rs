//! Events beside the truth: which neutron was found, in which pixel, and which event is of no neutron.
//!
//! Events and neutrons meet only within one group: a trigger of a module, or a packet of a module.

use fullcount_engine::summary::grouped;
use fullcount_sim::made::{Cause, Made, Overlap};

/// An event or a row of truth, as far as they can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TruthMark {
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
pub struct NeutronClass {
    /// Neutrons.
    pub made: u64,
    /// Found in their pixel.
    pub right: u64,
    /// Found in another pixel.
    pub wrong: u64,
    /// Not found.
    pub missed: u64,
}

impl NeutronClass {
    /// Share found in the right pixel, percent; 100 if there were none.
    pub fn percent(&self) -> f64 {
        if self.made == 0 { 100.0 } else { 100.0 * self.right as f64 / self.made as f64 }
    }

    /// The same with their number, for a table.
    pub fn cell(&self) -> String {
        match self.made {
            0 => "–".to_owned(),
            n => format!("{:.2} of {}", self.percent(), grouped(n)),
        }
    }

    /// Both together.
    pub fn with(&self, other: &NeutronClass) -> NeutronClass {
        NeutronClass {
            made: self.made + other.made,
            right: self.right + other.right,
            wrong: self.wrong + other.wrong,
            missed: self.missed + other.missed,
        }
    }
}

/// What came of a run; `T` is what one way to compare says more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TruthVerdict<T = ()> {
    /// Neutrons with nothing in the way.
    pub clean: NeutronClass,
    /// Neutrons with a dark count or a random coincidence within the resolution, or that hit a dead strip.
    pub noise: NeutronClass,
    /// Neutrons with another neutron within the resolution.
    pub neutron: NeutronClass,
    /// Events in all.
    pub events: u64,
    /// Events of no neutron that are a random coincidence's.
    pub coincidences: u64,
    /// Other events of no neutron: halves of tracks, planes of two neutrons, noise.
    pub extra: u64,
    /// What else is known.
    pub more: T,
}

impl<T> TruthVerdict<T> {
    /// Neutrons in all.
    pub fn made(&self) -> u64 {
        self.all().made
    }

    /// Neutrons that no other neutron overlaps, whatever noise does.
    pub fn apart(&self) -> NeutronClass {
        self.clean.with(&self.noise)
    }

    /// All neutrons.
    pub fn all(&self) -> NeutronClass {
        self.apart().with(&self.neutron)
    }

    /// Events that tell something wrong: in another pixel, or of no neutron.
    pub fn wrong_events(&self) -> u64 {
        self.all().wrong + self.coincidences + self.extra
    }

    /// Neutrons with this in the way.
    pub fn class(&mut self, overlap: Overlap) -> &mut NeutronClass {
        match overlap {
            Overlap::None => &mut self.clean,
            Overlap::Noise => &mut self.noise,
            Overlap::Neutron => &mut self.neutron,
        }
    }

    /// A neutron that was looked for.
    pub fn looked(&mut self, made: &Made, found: bool) {
        if made.kind == Cause::Neutron {
            let class = self.class(made.overlap);
            class.made += 1;
            class.missed += u64::from(!found);
        }
    }
}

impl TruthVerdict {
    /// Events and truth of one group.
    fn group(&mut self, events: &[TruthMark], truth: &[(TruthMark, Made)], reach_ns: i64) {
        self.events += events.len() as u64;
        let mut found = vec![false; events.len()];
        let mut done = vec![false; truth.len()];
        // First what is right in time and pixel, then in pixel, then what is only near in time.
        type Meets = fn(&TruthMark, &TruthMark, i64) -> bool;
        let right: [Meets; 2] = [
            |e, t, _| e.pixel == t.pixel && e.time_ns == t.time_ns,
            |e, t, reach| e.pixel == t.pixel && (e.time_ns - t.time_ns).abs() <= reach,
        ];
        let near: Meets = |e, t, reach| (e.time_ns - t.time_ns).abs() <= reach;
        for (step, meets) in right.into_iter().chain([near]).enumerate() {
            for (i, event) in events.iter().enumerate() {
                let neutron = |(row, made): &(TruthMark, Made)| {
                    made.kind == Cause::Neutron && meets(event, row, reach_ns)
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
            let coincidence = |(row, made): &(TruthMark, Made)| {
                made.kind == Cause::Coincidence && near(event, row, reach_ns)
            };
            match truth.iter().any(coincidence) {
                true => self.coincidences += 1,
                false => self.extra += 1,
            }
        }
        truth.iter().zip(&done).for_each(|((_, made), done)| self.looked(made, *done));
    }
}

/// Compares all events with all rows; an event belongs to what lies within `reach_ns` of it.
pub fn compare(
    mut events: Vec<TruthMark>,
    mut truth: Vec<(TruthMark, Made)>,
    reach_ns: i64,
) -> TruthVerdict {
    events.sort_unstable();
    truth.sort_unstable_by_key(|(mark, _)| *mark);
    let mut verdict = TruthVerdict::default();
    let (mut events, mut truth) = (&events[..], &truth[..]);
    let key = |mark: &TruthMark| (mark.group, mark.module);
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

    fn event(group: i64, time_ns: i64, pixel: u32) -> TruthMark {
        TruthMark { group, module: 0, time_ns, pixel }
    }

    fn row(
        group: i64,
        time_ns: i64,
        pixel: u32,
        kind: Cause,
        overlap: Overlap,
    ) -> (TruthMark, Made) {
        let made = Made { packet: 0, module: 0, time: time_ns, pixel, kind, overlap, spot: None };
        (event(group, time_ns, pixel), made)
    }

    #[test]
    fn every_event_and_every_neutron_is_counted_once() {
        let truth = vec![
            row(1, 100, 7, Cause::Neutron, Overlap::None),
            row(1, 5_000, 8, Cause::Neutron, Overlap::None),
            row(1, 9_000, 9, Cause::Neutron, Overlap::Noise),
            row(2, 100, 7, Cause::Neutron, Overlap::Neutron),
            row(2, 900, 11, Cause::Neutron, Overlap::Neutron),
            row(3, 40, 5, Cause::Coincidence, Overlap::None),
            row(3, 9_000, 0, Cause::Dark, Overlap::None),
            row(4, 10, 3, Cause::Neutron, Overlap::None),
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
        assert_eq!(v.clean, NeutronClass { made: 3, right: 1, wrong: 1, missed: 1 });
        assert_eq!(v.noise, NeutronClass { made: 1, right: 1, wrong: 0, missed: 0 });
        assert_eq!(v.neutron, NeutronClass { made: 2, right: 0, wrong: 1, missed: 1 });
        assert_eq!((v.events, v.coincidences, v.extra), (6, 1, 1));
        assert_eq!((v.made(), v.wrong_events()), (6, 4));
        assert_eq!(v.apart(), NeutronClass { made: 4, right: 2, wrong: 1, missed: 1 });
        assert!((v.clean.percent() - 100.0 / 3.0).abs() < 1e-9);
        assert_eq!(NeutronClass::default().percent(), 100.0);
    }

    #[test]
    fn what_lies_in_other_groups_or_too_far_away_never_meets() {
        let truth = vec![row(1, 100, 7, Cause::Neutron, Overlap::None)];
        for wrong in
            [event(2, 100, 7), event(1, 2_101, 7), TruthMark { module: 1, ..event(1, 100, 7) }]
        {
            let v = compare(vec![wrong], truth.clone(), 2_000);
            assert_eq!((v.clean.missed, v.extra), (1, 1), "{wrong:?}");
        }
    }
}
