//! Several sources read by one thread as if they were one.
//!
//! For two links that carry the same numbered packets: one reader sees both, so a number counts once and losing either
//! link loses nothing. Sources are asked in turn, so none starves; while all are silent the thread waits for each in
//! turn, 1 ms at most, in which a 64 MiB buffer fills to a fiftieth at 10 Gb/s. Ends when all have ended. An empty list
//! gives `End` at once. Source: `docs/contracts.md`, "Source".

use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::Batch;
use fullcount_core::ledger::Sheet;

use crate::source::{Received, Source, SourceError};

/// Longest wait for one source while another may have something.
const TURN: Duration = Duration::from_millis(1);

/// Sources read in turn.
pub struct Several {
    sources: Vec<Box<dyn Source>>,
    ended: Vec<bool>,
    next: usize,
}

impl Several {
    /// Reads `sources` in turn; their sheets are registered by whoever opened them.
    pub fn new(sources: Vec<Box<dyn Source>>) -> Several {
        let ended = vec![false; sources.len()];
        Several { sources, ended, next: 0 }
    }

    /// Asks each source once, beginning after the one that was asked last.
    fn round(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        let n = self.sources.len();
        let mut outcome = Received::End;
        for _ in 0..n {
            let at = self.next;
            self.next = (at + 1) % n;
            if self.ended[at] {
                continue;
            }
            match self.sources[at].recv(batch, wait)? {
                given @ (Received::Data | Received::Flush(_)) => return Ok(given),
                Received::Idle => outcome = Received::Idle,
                Received::End => self.ended[at] = true,
            }
        }
        Ok(outcome)
    }
}

impl Source for Several {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        let outcome = self.round(batch, Duration::ZERO)?;
        if outcome != Received::Idle || wait.is_zero() {
            return Ok(outcome);
        }
        let began = Instant::now();
        loop {
            let outcome = self.round(batch, TURN.min(wait))?;
            if outcome != Received::Idle || began.elapsed() >= wait {
                return Ok(outcome);
            }
        }
    }

    fn batch(&self) -> Batch {
        self.sources.first().map_or_else(|| Batch::with_slots(0, 0), |s| s.batch())
    }

    fn lossless(&self) -> bool {
        self.sources.iter().all(|s| s.lossless())
    }

    fn replay(&self) -> bool {
        self.sources.iter().all(|s| s.replay())
    }

    fn for_capture(&mut self) -> Result<(), SourceError> {
        self.sources.iter_mut().try_for_each(|s| s.for_capture())
    }

    fn buffer_percent(&self) -> Option<u32> {
        self.sources.iter().filter_map(|s| s.buffer_percent()).max()
    }

    fn sheet(&self) -> Arc<Sheet> {
        // Counts nothing itself.
        Sheet::new(Vec::new())
    }

    fn describe(&self) -> Vec<String> {
        self.sources.iter().flat_map(|s| s.describe()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::batch::{Edge, Origin};

    /// Gives its bytes one by one, then ends.
    struct Letters(Vec<u8>);

    impl Source for Letters {
        fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
            batch.clear();
            if self.0.is_empty() {
                return Ok(Received::End);
            }
            batch.append(&[self.0.remove(0)], Origin::NONE, 0, Edge::Datagram);
            Ok(Received::Data)
        }
        fn batch(&self) -> Batch {
            Batch::with_slots(0, 0)
        }
        fn lossless(&self) -> bool {
            true
        }
        fn sheet(&self) -> Arc<Sheet> {
            Sheet::new(Vec::new())
        }
        fn describe(&self) -> Vec<String> {
            vec![format!("{} letters", self.0.len())]
        }
    }

    #[test]
    fn sources_take_turns_and_the_last_one_ends_it() {
        let letters = |text: &str| Box::new(Letters(text.into())) as Box<dyn Source>;
        let mut all = Several::new(vec![letters("ac"), letters("bde")]);
        let mut batch = all.batch();
        let mut seen = String::new();
        while all.recv(&mut batch, Duration::ZERO).unwrap() == Received::Data {
            let train = batch.trains().next().unwrap();
            seen.extend(train.chunks().map(|c| char::from(c[0])));
        }
        assert_eq!(seen, "abcde");
        assert_eq!(all.recv(&mut batch, Duration::ZERO).unwrap(), Received::End);
        assert!(all.lossless() && all.describe() == ["0 letters", "0 letters"]);
    }

    #[test]
    fn no_source_is_an_end() {
        let mut none = Several::new(vec![]);
        let mut batch = none.batch();
        assert_eq!(none.recv(&mut batch, Duration::from_secs(1)).unwrap(), Received::End);
    }
}
