//! How full a spool is: reported once when it reaches 80 %, while there is still time to act, and once when it is below
//! 70 % again. Source: `docs/kafka.md`, "The spool".

use fullcount_core::status::SPOOL_NEARLY_FULL;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::options::KafkaOptions;
use fullcount_spool::Depth;

/// Below this it no longer counts as nearly full: the gap avoids repeated reports.
const WELL: u64 = 70;

/// How full the spool was last time.
#[derive(Debug, Default)]
pub(super) struct Level {
    nearly_full: AtomicBool,
    times: AtomicU64,
}

impl Level {
    /// Looks; a sentence for people if it changed. `output`: name of the output.
    pub fn look(&self, depth: &Depth, options: &KafkaOptions, output: &str) -> Option<String> {
        let percent = depth.percent();
        let (folder, limit) = (options.spool.display(), depth.limit >> 20);
        match self.nearly_full.load(Relaxed) {
            false if percent >= SPOOL_NEARLY_FULL => {
                self.nearly_full.store(true, Relaxed);
                self.times.fetch_add(1, Relaxed);
                Some(format!(
                    "the spool {folder} is {percent} % full: {} MiB of {limit} MiB, {} messages; the broker at {} is away or too \
                     slow. When it is full, a source that can wait waits, and any other loses events: start the broker, or \
                     make output.{output}.spool_size larger",
                    depth.bytes >> 20,
                    depth.messages,
                    options.brokers
                ))
            }
            true if percent < WELL => {
                self.nearly_full.store(false, Relaxed);
                Some(format!(
                    "the spool {folder} is below {WELL} % again: {percent} % of {limit} MiB"
                ))
            }
            _ => None,
        }
    }

    /// How often it came to be nearly full.
    pub fn times(&self) -> u64 {
        self.times.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crossing_is_said_once_and_a_level_that_wavers_not_again() {
        let options = KafkaOptions::new("h:9", "t", "s", "/spool");
        let level = Level::default();
        let at = |percent: u64| {
            let depth = Depth { bytes: percent << 20, limit: 100 << 20, ..Depth::default() };
            level.look(&depth, &options, "kafka")
        };
        assert_eq!((at(0), at(79)), (None, None));
        let said = at(80).expect("said");
        assert!(said.contains("80 % full: 80 MiB of 100 MiB"), "{said}");
        assert!(said.contains("h:9") && said.contains("output.kafka.spool_size"), "{said}");
        assert_eq!([at(81), at(100), at(75), at(80), at(70)], [const { None }; 5]);
        assert!(at(69).is_some_and(|said| said.contains("below 70 % again")));
        assert_eq!(at(79), None);
        assert!(at(95).is_some());
        assert_eq!(level.times(), 2);
    }
}
