//! `[detector]` of the kind `fragments`.
//!
//! Refuses ids above 4095 and twice, and values out of range, with key, value and range.

use fullcount_core::quantity;
use fullcount_core::refusal::{Refusal, of_detector};
use fullcount_core::time::Nanos;
use serde::Deserialize;

use crate::geometry::text;

/// Source ids have 12 bits.
const IDS: usize = 1 << 12;

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Sources {
    Count(i64),
    List(String),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    sources: Sources,
    event_timeout: String,
    memory: String,
    crc_every: i64,
    rows: bool,
    first_event: Option<i64>,
}

impl Default for Written {
    fn default() -> Self {
        Written {
            sources: Sources::Count(1),
            event_timeout: "off".into(),
            memory: "256MiB".into(),
            crc_every: 1,
            rows: true,
            first_event: None,
        }
    }
}

/// The checked keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    /// Ids, ascending.
    pub sources: Vec<u16>,
    pub timeout: Option<Nanos>,
    /// Bytes.
    pub memory: u64,
    /// 0: never.
    pub crc_every: u32,
    /// Fragments are taken in rows.
    pub rows: bool,
    /// Number of the first event that is expected; `None`: whatever comes first.
    pub first_event: Option<u32>,
}

impl Options {
    /// Reads them.
    pub fn read(options: &str) -> Result<Options, Refusal> {
        let written: Written = text::options(options)?;
        let sources = match &written.sources {
            Sources::Count(n) => usize::try_from(*n)
                .ok()
                .filter(|n| (1..=IDS).contains(n))
                .map(|n| (0..n as u16).collect())
                .ok_or_else(|| of_detector("sources", n, "1 to 4096, or ids such as \"512-527\""))?,
            Sources::List(list) => ids(list).ok_or_else(|| {
                let allowed = "a number from 1 to 4096, or ids from 0 to 4095 and ranges of them, none twice: \"512-527,600\"";
                of_detector("sources", list, allowed)
            })?,
        };
        let timeout = match written.event_timeout.as_str() {
            "off" => None,
            text => {
                let time = quantity::duration(text).ok();
                let time = time.filter(|t| (10..=3_600_000).contains(&t.as_millis()));
                let allowed = "off, or a time from 10ms to 1h";
                let time = time.ok_or_else(|| of_detector("event_timeout", text, allowed))?;
                Some(Nanos(time.as_nanos() as i64))
            }
        };
        let memory = quantity::size(&written.memory).ok();
        let memory = memory.filter(|size| (1 << 20..=1 << 40).contains(size));
        let memory = memory
            .ok_or_else(|| of_detector("memory", &written.memory, "a size from 1MiB to 1TiB"))?;
        let crc = u32::try_from(written.crc_every).ok().filter(|k| *k < 1 << 24);
        let crc_every = crc
            .ok_or_else(|| of_detector("crc_every", written.crc_every, "0 (never) to 16777215"))?;
        // Records have numbers of more bits than fragments.
        let first = |n: i64| {
            let number = u64::try_from(n).map(|n| (n & 0x00ff_ffff) as u32);
            number.map_err(|_| of_detector("first_event", n, "0 or more"))
        };
        let first_event = written.first_event.map(first).transpose()?;
        Ok(Options { sources, timeout, memory, crc_every, rows: written.rows, first_event })
    }
}

/// `512-527,600`
fn ids(list: &str) -> Option<Vec<u16>> {
    let mut all = Vec::new();
    for part in list.split(',') {
        let part = part.trim();
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || usize::from(last) >= IDS {
            return None;
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.windows(2).all(|pair| pair[0] != pair[1]).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_refused_with_their_range() {
        let options = Options::read("").unwrap();
        assert_eq!((options.sources, options.timeout, options.memory), (vec![0], None, 256 << 20));
        let text = "sources = \"600, 5-7\"\nevent_timeout = \"100ms\"\nmemory = \"1MiB\"\ncrc_every = 0\nrows = false";
        let options = Options::read(text).unwrap();
        assert_eq!(options.sources, [5, 6, 7, 600]);
        assert_eq!((options.timeout, options.crc_every), (Some(Nanos(100_000_000)), 0));
        assert!(!options.rows && Options::read("").unwrap().rows);
        assert_eq!(
            (options.first_event, Options::read("first_event = 16777223").unwrap().first_event),
            (None, Some(7))
        );
        assert_eq!(Options::read("sources = 16").unwrap().sources.len(), 16);
        for (wrong, key) in [
            ("sources = 0", "detector.sources: 0"),
            ("sources = \"5-4\"", "detector.sources: 5-4"),
            ("sources = \"1,1\"", "detector.sources"),
            ("sources = \"4096\"", "detector.sources"),
            ("event_timeout = \"1ms\"", "detector.event_timeout: 1ms"),
            ("memory = \"1KiB\"", "detector.memory: 1KiB"),
            ("crc_every = -1", "detector.crc_every: -1"),
            ("first_event = -1", "detector.first_event: -1"),
            ("rows = 1", "rows"),
            ("surces = 1", "surces"),
        ] {
            let said = Options::read(wrong).unwrap_err().to_string();
            assert!(said.contains(key), "{wrong}: {said}");
        }
    }
}
