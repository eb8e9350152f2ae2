//! A time-of-flight spectrum, and the message that carries it.
//!
//! Refuses messages whose arrays do not fit together. Source: `docs/formats/flatbuffers.md` sections 3.1 and 3.4.

use std::borrow::Cow;

use fullcount_messages::{DataArray, DataType, Events42, Events44, Message, Variable, decode};

/// Bins of equal width, ns since the pulse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bins {
    /// Where the first one begins, ns.
    pub from_ns: i64,
    /// Width of each, ns, at least 1.
    pub width_ns: i64,
    /// How many, at least 1.
    pub count: usize,
}

impl Bins {
    /// Where each bin begins and the last one ends, ns.
    pub fn edges(&self) -> Vec<i64> {
        (0..=self.count as i64).map(|n| self.from_ns + n * self.width_ns).collect()
    }
}

/// Events by time of flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spectrum {
    /// What is counted where.
    pub bins: Bins,
    /// Events in each bin.
    pub counts: Vec<i64>,
    /// Events below the first bin and above the last.
    pub outside: [i64; 2],
}

impl Spectrum {
    /// Without events.
    pub fn new(bins: Bins) -> Spectrum {
        Spectrum { bins, counts: vec![0; bins.count], outside: [0; 2] }
    }

    /// All events, those outside of the bins too.
    pub fn events(&self) -> i64 {
        self.counts.iter().chain(&self.outside).sum()
    }

    /// Counts an event, ns since its pulse.
    pub fn count(&mut self, tof_ns: i64) {
        let behind = tof_ns - self.bins.from_ns;
        let place = usize::try_from(behind.div_euclid(self.bins.width_ns));
        match place.map(|place| self.counts.get_mut(place)) {
            Ok(Some(bin)) => *bin += 1,
            Ok(None) => self.outside[1] += 1,
            Err(_) => self.outside[0] += 1,
        }
    }

    /// Adds another one with the same bins.
    pub fn add(&mut self, other: &Spectrum) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        for (mine, theirs) in self.outside.iter_mut().zip(other.outside) {
            *mine += theirs;
        }
    }

    /// Counts the events of an ev44 or ev42 message of `source` (`None`: of any). `false`: it holds none for us,
    /// because it is of another source or kind, damaged, or contradicts itself.
    pub fn take(&mut self, message: &[u8], source: Option<&str>) -> bool {
        let ours = |name: &str| source.is_none_or(|wanted| wanted == name);
        match decode(message) {
            Ok(Message::Ev44(m)) if ours(m.source_name) && m.check().is_ok() => self.take44(&m),
            Ok(Message::Ev42(m))
                if ours(m.source_name.unwrap_or_default()) && m.check().is_ok() =>
            {
                self.take42(&m);
            }
            _ => return false,
        }
        true
    }

    // Times are those since the event's own pulse in both: whichever pulse it is.
    fn take44(&mut self, message: &Events44<'_>) {
        message.time_of_flight.iter().flat_map(|t| t.iter()).for_each(|&t| self.count(t.into()));
    }

    fn take42(&mut self, message: &Events42<'_>) {
        message.time_of_flight.iter().flat_map(|t| t.iter()).for_each(|&t| self.count(t.into()));
    }

    /// The da00 message. `next`: offset of the first event message that is not counted yet.
    pub fn encode(&self, name: &str, timestamp_ns: i64, next: Option<i64>) -> Vec<u8> {
        let bytes = |all: &[i64]| all.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        let edges = bytes(&self.bins.edges());
        let (counts, outside) = (bytes(&self.counts), bytes(&self.outside));
        let next = next.map(|next| next.to_le_bytes());
        let array = |name, unit, label, axis, length: usize, data| Variable {
            name,
            unit: Some(unit),
            label: Some(label),
            source: None,
            data_type: DataType::Int64,
            axes: Some(vec![axis]),
            shape: Cow::Owned(vec![length as i64]),
            data,
        };
        let n = self.counts.len();
        let mut data = vec![
            array(TOF, "ns", "time of flight", TOF, n + 1, &edges),
            array(SIGNAL, "counts", "events", TOF, n, &counts),
            array(OUTSIDE, "counts", "events below and above", "side", 2, &outside),
        ];
        if let Some(next) = &next {
            data.push(array(NEXT, "", "offset of the next event message", "one", 1, next));
        }
        let message = DataArray { source_name: name, timestamp: timestamp_ns, data };
        Message::Da00(message).encode()
    }

    /// Source name, spectrum and next offset of a da00 message; `None` if it is none of ours.
    pub fn decode(message: &[u8]) -> Option<(String, Spectrum, Option<i64>)> {
        let Ok(Message::Da00(array)) = decode(message) else { return None };
        let numbers = |name: &str| {
            let found = array.data.iter().find(|v| v.name == name)?;
            let ours = found.fits() && found.data_type == DataType::Int64;
            let values = || found.data.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b));
            ours.then(|| values().collect::<Vec<i64>>())
        };
        let (edges, counts) = (numbers(TOF)?, numbers(SIGNAL)?);
        let [from_ns, second, ..] = edges[..] else { return None };
        let width = second.checked_sub(from_ns).filter(|width| *width > 0)?;
        let even = edges.windows(2).all(|edge| edge[1].checked_sub(edge[0]) == Some(width));
        let whole = even && edges.len() == counts.len() + 1;
        let bins = Bins { from_ns, width_ns: width, count: counts.len() };
        let outside = <[i64; 2]>::try_from(numbers(OUTSIDE)?).ok()?;
        let next = numbers(NEXT).and_then(|all| all.first().copied());
        whole.then(|| (array.source_name.to_owned(), Spectrum { bins, counts, outside }, next))
    }
}

/// Names of the variables.
const TOF: &str = "tof";
const SIGNAL: &str = "signal";
const OUTSIDE: &str = "outside";
const NEXT: &str = "next_offset";

#[cfg(test)]
mod tests {
    use super::*;

    const BINS: Bins = Bins { from_ns: -10, width_ns: 5, count: 3 };

    #[test]
    fn bins_take_their_lower_edge_and_what_is_outside_is_counted() {
        let mut s = Spectrum::new(BINS);
        [-11, -10, -6, -5, 0, 4, 5, i64::from(i32::MAX)].iter().for_each(|&t| s.count(t));
        assert_eq!((&s.counts[..], s.outside, s.events()), (&[2, 1, 2][..], [1, 2], 8));
        assert_eq!(BINS.edges(), [-10, -5, 0, 5]);
    }

    #[test]
    fn a_message_comes_back_as_it_was() {
        let mut s = Spectrum::new(BINS);
        s.counts = vec![1, 2, i64::MAX];
        s.outside = [3, 4];
        for next in [None, Some(17)] {
            let back = Spectrum::decode(&s.encode("tof/0", 1, next));
            assert_eq!(back, Some(("tof/0".into(), s.clone(), next)));
        }
        assert_eq!(Spectrum::decode(b"no message"), None);
    }

    #[test]
    fn only_whole_messages_of_the_source_are_counted() {
        let message = |pixels: Vec<i32>| {
            Message::Ev44(Events44 {
                source_name: "bank",
                message_id: 1,
                reference_time: Cow::Owned(vec![1_000, 2_000]),
                reference_time_index: Cow::Owned(vec![0, 1]),
                time_of_flight: Some(Cow::Owned(vec![-7, 1, 2])),
                pixel_id: Some(Cow::Owned(pixels)),
            })
            .encode()
        };
        let good = message(vec![1, 2, 3]);
        let mut s = Spectrum::new(BINS);
        assert!(s.take(&good, None) && s.take(&good, Some("bank")));
        assert!(!s.take(&good, Some("other")));
        assert!(!s.take(&message(vec![1]), None));
        assert!(!s.take(&good[..good.len() / 2], None));
        assert_eq!(s.counts, [2, 0, 4]);
    }
}
