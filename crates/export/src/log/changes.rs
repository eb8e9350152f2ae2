//! What is worth a message: a run's state compared with what it was a second ago.
//!
//! Time comes as an argument. A state that stays is said once; losses are summed up once a minute, by place. What the run itself tells
//! at once (a failed output, packets that are refused) is not said again. Refuses nothing.
//! Source: `control-and-monitoring.md` sections 5.3 and 12.

use std::collections::BTreeSet;
use std::time::Duration;

use fullcount_core::ledger::{Entries, Place};
use fullcount_core::status::Facts;

use fullcount_log::LogLevel;

/// Losses are summed up so often.
const MINUTE: Duration = Duration::from_secs(60);

/// What was said already.
#[derive(Debug, Default)]
pub struct Changes {
    begun: bool,
    ended: bool,
    full: BTreeSet<String>,
    lost: [u64; 8],
    next_sum: Duration,
}

macro_rules! message {
    ($level:ident, $($text:tt)*) => { (LogLevel::$level, format!($($text)*)) };
}

impl Changes {
    /// What to say after `elapsed` of the run; `last`: nothing follows.
    pub fn look(
        &mut self,
        facts: &Facts,
        entries: &Entries,
        elapsed: Duration,
        last: bool,
    ) -> Vec<(LogLevel, String)> {
        let mut all = Vec::new();
        if !self.begun {
            self.begun = true;
            self.next_sum = elapsed + MINUTE;
            let about =
                [&facts.source[..], std::slice::from_ref(&facts.detector), &facts.outputs].concat();
            let version = env!("CARGO_PKG_VERSION");
            all.push(message!(
                Info,
                "run started: {} (fullcount {version})\n{}",
                facts.title,
                about.join("\n")
            ));
        }
        for spool in &facts.spools {
            let (name, percent) = (&spool.output, spool.percent);
            if spool.nearly_full && self.full.insert(name.clone()) {
                all.push(message!(
                    Warning,
                    "the spool of output {name} is {percent} % full: is its broker there?"
                ));
            } else if !spool.nearly_full && self.full.remove(name) {
                all.push(message!(
                    Notice,
                    "the spool of output {name} has room again: {percent} % full"
                ));
            }
        }
        if elapsed >= self.next_sum || last {
            self.next_sum = elapsed + MINUTE;
            all.extend(self.losses(facts, entries));
        }
        if last && !self.ended {
            self.ended = true;
            let get = |name| entries.get(name).unwrap_or(0);
            let (packets, events) = (get("receive.packets"), get("events.count"));
            let lost: u64 = self.lost.iter().sum();
            all.push(message!(
                Info,
                "run ended: {packets} packets received, {lost} lost, {events} events made"
            ));
        }
        all
    }

    /// Packets lost since the last sum, place by place.
    fn losses(&mut self, facts: &Facts, entries: &Entries) -> Option<(LogLevel, String)> {
        let now = facts.lost.unwrap_or_else(|| Place::ALL.map(|place| entries.lost_packets(place)));
        let before = std::mem::replace(&mut self.lost, now);
        let each = Place::ALL.iter().zip(now.iter().zip(&before));
        let new = each.map(|(place, (now, before))| (place.name(), now.saturating_sub(*before)));
        let new: Vec<(&str, u64)> = new.filter(|(_, n)| *n > 0).collect();
        if new.is_empty() {
            return None;
        }
        let total: u64 = new.iter().map(|(_, n)| n).sum();
        let places: Vec<String> = new.iter().map(|(place, n)| format!("{place} {n}")).collect();
        Some(message!(Warning, "{total} packets lost since the last sum: {}", places.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::ledger::Ledger;
    use fullcount_core::status::SpoolFacts;

    fn said(changes: &mut Changes, facts: &Facts, seconds: u64, last: bool) -> Vec<(u8, String)> {
        let entries = Ledger::default().read();
        let all = changes.look(facts, &entries, Duration::from_secs(seconds), last);
        all.into_iter().map(|(level, text)| (level as u8, text)).collect()
    }

    #[test]
    fn each_change_is_said_once_and_losses_once_a_minute() {
        let mut changes = Changes::default();
        let mut facts = Facts { title: "tube".into(), ..Facts::default() };
        let first = said(&mut changes, &facts, 0, false);
        assert!(
            first.len() == 1
                && first[0].0 == 6
                && first[0].1.starts_with("run started: tube (fullcount ")
        );
        assert!(said(&mut changes, &facts, 1, false).is_empty());
        facts.spools = vec![SpoolFacts { output: "kafka".into(), percent: 81, nearly_full: true }];
        facts.lost = Some([0, 0, 0, 5, 0, 0, 0, 2]);
        let bad = said(&mut changes, &facts, 2, false);
        let want = [(4, "the spool of output kafka is 81 % full: is its broker there?".to_owned())];
        assert_eq!(bad, want);
        assert!(said(&mut changes, &facts, 3, false).is_empty(), "said already");
        facts.spools[0] = SpoolFacts { output: "kafka".into(), percent: 3, nearly_full: false };
        let good = said(&mut changes, &facts, 4, false);
        assert!(good.len() == 1 && good[0].0 == 5, "{good:?}");
        let sum = "7 packets lost since the last sum: socket 5, unknown 2".to_owned();
        assert_eq!(said(&mut changes, &facts, 60, false), [(4, sum)]);
        assert!(said(&mut changes, &facts, 120, false).is_empty());
        facts.lost = Some([0, 0, 0, 6, 0, 0, 0, 2]);
        let end = said(&mut changes, &facts, 121, true);
        assert_eq!(
            end[0].1,
            "1 packets lost since the last sum: socket 6".replace("socket 6", "socket 1")
        );
        assert_eq!(end[1].1, "run ended: 0 packets received, 8 lost, 0 events made");
    }
}
