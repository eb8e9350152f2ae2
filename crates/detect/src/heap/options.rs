//! `[detector]` of the kind `heap`: what is read, its ranges, and the settings of the receiver that follow.
//!
//! Refuses what is out of range, with key, value and range. Source: `docs/heap.md`.

use fullcount_core::quantity::{duration, size};
use fullcount_core::refusal::{Refusal, of_detector};
use fullcount_spead::BugCompat;
use fullcount_spead::receive::{NumberSequence, OnIncomplete, ReceiverConfig};
use serde::Deserialize;

fullcount_core::key_rows! {
    /// Rows of the reference.
    pub(super) const KEYS =
        "detector.compat" "`\"default\"`" "`default`, `spead2`"
            "`spead2`: every heap and statistic as spead2 gives it ([what differs](spead.md))";
        "detector.max_heaps" "`4`" "1 to 4096"
            "heaps that may be unfinished at the same time, for each substream; a newer one gives the oldest up";
        "detector.substreams" "`1`" "1 to 4096"
            "heap numbers modulo this have windows of their own: the number of senders that count with this step";
        "detector.max_heap_bytes" "`\"1GiB\"`" "1 B to 64 TiB" "longest heap; packets of longer ones are refused";
        "detector.max_live_bytes" "`\"4GiB\"`" "detector.max_heap_bytes or more" "memory of all unfinished heaps together";
        "detector.heap_timeout" "`\"5s\"`" "0s (never) or more" "a heap without a new packet for so long is given up; not in a replay; with compat = \"spead2\" 0s unless it is given";
        "detector.stall_timeout" "`\"0s\"`" "0s (never) or more" "without any packet for so long, all unfinished heaps are given up; not in a replay";
        "detector.on_stop" "`\"continue\"`" "`continue`, `end`"
            "a stop item: only counted, or it ends the stream, and what comes then is refused";
        "detector.stops" "`1`" "1 to 1,048,576" "so many stop items end the stream: one for each sender; with `on_stop = \"end\"`";
        "detector.incomplete" "`\"give\"`" "`give`, `drop`"
            "heaps with missing bytes: handed to the outputs, flagged, with what is missing; or only counted";
        "detector.items" "`[]`" "up to 4096 names" "arrays that are handed on; none named: all";
        "detector.max_items" "`4096`" "1 to 65,536" "descriptors that are kept";
        "detector.pyspead" "`false`" "`true`, `false`" "senders are PySPEAD 0.5.2";
        "detector.sequence" "–" "`[FIRST, STEP]`" "numbers that the sender gives its heaps: then missing heaps are counted";
        "detector.packet_payload" "–" "1 B or more" "payload bytes of a full packet: then missing packets are counted, exactly if the item pointers of a heap fit into its first packet or the sender has a fixed payload";
        "detector.waterfall" "–" "name of an array" "the array that the live page shows line by line; without it the first one with numbers";
        "detector.bins" "`512`" "16 to 4096" "cells of a line of the waterfall";
        "detector.lines" "`256`" "16 to 1024" "lines of the waterfall";
}

/// `[detector]` keys of `heap`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    compat: Compat,
    max_heaps: usize,
    substreams: usize,
    max_heap_bytes: toml::Value,
    max_live_bytes: toml::Value,
    heap_timeout: Option<String>,
    stall_timeout: Option<String>,
    on_stop: OnStop,
    stops: u32,
    incomplete: Incomplete,
    items: Vec<String>,
    max_items: usize,
    pyspead: bool,
    sequence: Option<[u64; 2]>,
    packet_payload: Option<u64>,
    waterfall: Option<String>,
    bins: u32,
    lines: u32,
}

#[derive(Debug, Clone, Copy, Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Compat {
    #[default]
    Default,
    Spead2,
}

#[derive(Debug, Clone, Copy, Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum OnStop {
    #[default]
    Continue,
    End,
}

#[derive(Debug, Clone, Copy, Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Incomplete {
    #[default]
    Give,
    Drop,
}

impl Default for Raw {
    fn default() -> Raw {
        Raw {
            compat: Compat::Default,
            max_heaps: 4,
            substreams: 1,
            max_heap_bytes: "1GiB".into(),
            max_live_bytes: "4GiB".into(),
            heap_timeout: None,
            stall_timeout: None,
            on_stop: OnStop::Continue,
            stops: 1,
            incomplete: Incomplete::Give,
            items: Vec::new(),
            max_items: 4096,
            pyspead: false,
            sequence: None,
            packet_payload: None,
            waterfall: None,
            bins: 512,
            lines: 256,
        }
    }
}

/// What a reader works by.
#[derive(Debug, Clone)]
pub(super) struct HeapOptions {
    pub receiver: ReceiverConfig,
    pub compat: BugCompat,
    /// Names of arrays that are handed on; none: all.
    pub items: Vec<String>,
    pub max_items: usize,
    pub waterfall: Option<String>,
    pub bins: u32,
    pub lines: u32,
}

fn bytes(key: &str, value: &toml::Value) -> Result<u64, Refusal> {
    match value {
        toml::Value::Integer(n) => {
            u64::try_from(*n).map_err(|_| of_detector(key, n, "a size such as 64MiB"))
        }
        toml::Value::String(text) => size(text).map_err(|e| of_detector(key, text, e.to_string())),
        other => Err(of_detector(key, other, "a size such as 64MiB")),
    }
}

fn nanoseconds(key: &str, text: &str) -> Result<u64, Refusal> {
    // "never" is a time here.
    let zero = ["0", "0s", "0ms"].contains(&text.trim());
    let time = if zero { Ok(std::time::Duration::ZERO) } else { duration(text) };
    let time = time.map_err(|e| of_detector(key, text, e.to_string()))?;
    u64::try_from(time.as_nanos()).map_err(|_| of_detector(key, text, "below 584 years"))
}

impl HeapOptions {
    /// Reads the section.
    pub fn read(text: &str) -> Result<HeapOptions, Refusal> {
        let raw: Raw = crate::geometry::text::options(text)?;
        let base = match raw.compat {
            Compat::Default => ReceiverConfig::default(),
            Compat::Spead2 => ReceiverConfig::spead2(),
        };
        let timed = |own, text: &Option<String>, base| {
            text.as_ref().map_or(Ok(base), |text| nanoseconds(own, text))
        };
        let receiver = ReceiverConfig {
            max_heaps: raw.max_heaps,
            substreams: raw.substreams,
            stop_on_stop_item: raw.on_stop == OnStop::End,
            stops: raw.stops,
            heap_timeout_ns: timed("heap_timeout", &raw.heap_timeout, base.heap_timeout_ns)?,
            stall_timeout_ns: timed("stall_timeout", &raw.stall_timeout, base.stall_timeout_ns)?,
            incomplete: match raw.incomplete {
                Incomplete::Give => OnIncomplete::Give,
                Incomplete::Drop => OnIncomplete::Drop,
            },
            // Taken out after each packet.
            ring_heaps: 1 << 16,
            max_heap_bytes: bytes("max_heap_bytes", &raw.max_heap_bytes)?,
            max_live_bytes: bytes("max_live_bytes", &raw.max_live_bytes)?,
            sequence: raw.sequence.map(|[first, step]| NumberSequence { first, step }),
            packet_payload: raw.packet_payload,
            ..base
        };
        receiver.check().map_err(|e| match e {
            fullcount_core::refusal::Refusal::Value { key, value, allowed } => {
                of_detector(key, value, allowed)
            }
            other => of_detector("", "", other.to_string()),
        })?;
        let within = |key, value: usize, least: usize, most: usize| match value {
            v if (least..=most).contains(&v) => Ok(()),
            v => Err(of_detector(key, v, format!("{least} to {most}"))),
        };
        within("max_items", raw.max_items, 1, 65_536)?;
        within("bins", raw.bins as usize, 16, 4096)?;
        within("lines", raw.lines as usize, 16, 1024)?;
        if raw.items.len() > 4096 {
            return Err(of_detector(
                "items",
                format!("{} names", raw.items.len()),
                "up to 4096 names",
            ));
        }
        let compat = if raw.pyspead { BugCompat::PYSPEAD } else { BugCompat::default() };
        let Raw { items, max_items, waterfall, bins, lines, .. } = raw;
        Ok(HeapOptions { receiver, compat, items, max_items, waterfall, bins, lines })
    }
}
