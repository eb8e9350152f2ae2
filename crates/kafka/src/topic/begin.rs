//! How a topic begins: the first message of each partition, looked at before a file is made.
//!
//! A clock that turns (every 4.3 s) tells the time of a stream only beside another one, and partitions are read one after the
//! other. So the detector is told which packet of the whole topic came first: all members of a group, and all who share its
//! partitions out by number, then count turns from the same packet, whatever they read first. Members of a group put that packet's
//! times to the offsets that they commit, so that those who come when it was deleted count from it too.
//!
//! Refuses: packets that cannot be right for the detector; a clock whose turns only the order of the packets tells, on several
//! partitions. Source: `docs/raw.md`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use fullcount_core::refusal::refuse;
use fullcount_core::source::{SourceError, SourceOpenError, TurningClock, TurnsFrom};
use fullcount_messages::{Message, decode};

use super::Needs;
use super::url::{LOOK, TopicUrl};
use crate::{Begin, Consumer, Polled, TIME_HEADER, time};

/// What the first messages say.
pub(crate) struct Firsts {
    /// Partitions that are read.
    pub partitions: Vec<i32>,
    /// Partitions of the topic.
    pub count: i32,
    /// Partitions of the topic that hold messages; known if the detector's clock turns, else those that are read.
    pub filled: usize,
    /// Packet and receive time, the earliest first; empty if one of them does not say when it came, or was not seen.
    pub firsts: Vec<(i64, Vec<u8>)>,
}

/// What begins the note of a group's offset that says from where turns are counted; behind it receive time (ns since 1970) and ticks.
const COUNTED_FROM: &str = "fullcount turns from ";

/// What members put to the group's offsets.
pub(super) fn note(from: TurnsFrom) -> String {
    format!("{COUNTED_FROM}{} {}", from.time_ns, from.ticks)
}

/// Of a note; `None` of any other. Times of messages are above 0, and a clock that turns has at most 2^61 ticks: with others, which anybody
/// who may commit can put there, differences would leave their range.
fn noted(note: &str) -> Option<TurnsFrom> {
    let (time_ns, ticks) = note.strip_prefix(COUNTED_FROM)?.split_once(' ')?;
    let from = TurnsFrom { time_ns: time_ns.parse().ok()?, ticks: ticks.parse().ok()? };
    (from.time_ns > 0 && (0..=1 << 61).contains(&from.ticks)).then_some(from)
}

impl TopicUrl {
    /// From where members of the group have counted so far, if any has committed.
    pub(super) fn counted_from(
        &self,
        consumer: &Consumer,
        partitions: i32,
    ) -> Result<Option<TurnsFrom>, SourceError> {
        let all: Vec<i32> = (0..partitions).collect();
        let notes = consumer.notes(&self.address.topic, &all);
        let notes = notes.map_err(self.error("asking for the group's place"))?;
        Ok(notes.iter().filter_map(|note| noted(note)).min_by_key(|from| from.time_ns))
    }

    /// Looks at the first message of each partition, so that packets that cannot be right are refused before a
    /// file is made.
    pub(crate) fn look(&self, needs: &Needs) -> Result<Firsts, SourceOpenError> {
        let consumer = self.consumer(None)?;
        let topic = self.address.topic.as_str();
        let (read, count) = self.of_topic()?;
        let all: Vec<i32> = match needs.clock {
            Some(_) => (0..count).collect(),
            None => read.clone(),
        };
        let begin: Vec<_> = all.iter().map(|p| (topic, *p, Begin::Oldest)).collect();
        let (mut seen, mut firsts, mut timed) = (BTreeSet::new(), Vec::new(), true);
        let mut filled = BTreeSet::new();
        consumer.assign(&begin).map_err(self.error("cannot open"))?;
        let end = Instant::now() + LOOK;
        while seen.len() < all.len() && Instant::now() < end {
            match consumer.poll(Duration::from_millis(200)).map_err(self.error("reading"))? {
                Polled::End { partition } => drop(seen.insert(partition)),
                Polled::Nothing => {}
                Polled::Message(m) => {
                    let partition = m.partition();
                    if !seen.insert(partition) {
                        continue;
                    }
                    if read.contains(&partition) {
                        needs.check(self, &m)?;
                    }
                    filled.insert(partition);
                    let Ok(Message::Ar51(raw)) = decode(m.payload()) else { continue };
                    let packet = raw.raw_data.unwrap_or_default();
                    match m.header(TIME_HEADER).and_then(time).filter(|&at| at > 0) {
                        Some(at) => firsts.push((at, partition, packet.to_vec())),
                        None => timed = false,
                    }
                }
            }
        }
        let several = filled.iter().filter(|p| read.contains(p)).count() > 1;
        if let (Some(TurningClock { turn_ns, by_times: false }), true) = (needs.clock, several) {
            let why = format!(
                "packets on one partition: this detector's clock begins anew every {:.1} s, and only the order in which \
                 packets were sent tells how often it has; name one partition (partitions=), or send all with one key",
                turn_ns as f64 / 1e9
            );
            return Err(refuse("source.url", &self.url, why).into());
        }
        if !timed || seen.len() < all.len() {
            firsts.clear();
        }
        firsts.sort();
        let firsts = firsts.into_iter().map(|(at, _, packet)| (at, packet)).collect();
        Ok(Firsts { partitions: read, count, filled: filled.len(), firsts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_are_written_and_others_are_none() {
        for (time_ns, ticks) in [(1, 0), (i64::MAX, 1 << 61), (1_767_225_600_000_000_000, 7)] {
            let from = TurnsFrom { time_ns, ticks };
            assert_eq!(noted(&note(from)), Some(from));
        }
        for (time_ns, ticks) in [(0, 0), (-1, 0), (i64::MIN, 5), (1, -1), (1, (1 << 61) + 1)] {
            assert_eq!(noted(&note(TurnsFrom { time_ns, ticks })), None);
        }
        for other in [
            "",
            "somebody's own",
            COUNTED_FROM,
            "fullcount turns from 1",
            "fullcount turns from 1 2 3",
        ] {
            assert_eq!(noted(other), None, "{other}");
        }
    }
}
