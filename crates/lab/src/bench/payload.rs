//! Events whose messages are text in UTF-8, so that `ProducerPerformance` sends just what we send: it reads its payload
//! as that.
//!
//! Every byte of every event is below 128. Times rise within a pulse up to 59 ms, pixels are any of 16,383, so two bytes of
//! each pixel are always 0: compression finds what it finds in events of a detector of that size. The number of events
//! is chosen such that lengths and offsets in front of them are text too. Refuses sizes that no such message has.

use std::path::PathBuf;
use std::sync::Arc;

use crate::streaming::performance;
use anyhow::Context;
use fullcount_core::products::{EventBatch, Products};
use fullcount_core::time::PulseTime;
use fullcount_messages::EventWriter;
use fullcount_sim::splitmix;

/// Name of the producer in each message.
pub const SOURCE: &str = "lab";
/// Most bytes of all messages of a size: Java holds them four times over.
const ALL: usize = 16 << 20;
/// First pulse, ns since 1970, in September 2025.
const FIRST: i64 = 0x1869_0000_0000_0000;

/// Messages of one size, and what they are made of.
#[derive(Debug)]
pub struct BenchPayload {
    /// Bytes of each message.
    pub size: usize,
    /// Events of each.
    pub events: usize,
    /// A batch for each message: a whole pulse.
    pub batches: Vec<Arc<Products>>,
    /// All messages, as `ProducerPerformance` reads them.
    pub file: PathBuf,
}

impl BenchPayload {
    /// Messages of `wanted` bytes or somewhat fewer, written to `file`.
    pub fn make(wanted: usize, file: PathBuf) -> anyhow::Result<BenchPayload> {
        let events = events(wanted).with_context(|| {
            format!("no message of {wanted} B, or up to a quarter less, is text in UTF-8: give another size")
        })?;
        let count = (ALL / wanted).clamp(1, 16_000);
        let mut dice = wanted as u64;
        let mut writer = EventWriter::new();
        let (mut batches, mut messages) = (Vec::new(), Vec::new());
        for number in 0..count {
            let batch = batch(number, events, &mut dice);
            messages.push(writer.ev44(SOURCE, spread(number as u64) as i64, &batch)?.to_vec());
            batches.push(Arc::new(Products { events: batch, ..Products::default() }));
        }
        let size = messages[0].len();
        std::fs::write(&file, performance::payload(&messages)?)
            .with_context(|| format!("writing {}", file.display()))?;
        Ok(BenchPayload { size, events, batches, file })
    }
}

/// Most events with which a message has at most `wanted` bytes and is text; at least three quarters of it.
fn events(wanted: usize) -> Option<usize> {
    let mut writer = EventWriter::new();
    let most = wanted.saturating_sub(96) / 8;
    let mut zero = batch(0, most, &mut 1);
    (most - most / 4..=most).rev().find(|&events| {
        zero.offset_ns.truncate(events);
        zero.pixel.truncate(events);
        let message = writer.ev44(SOURCE, 0, &zero);
        message.is_ok_and(|m| m.len() <= wanted && str::from_utf8(m).is_ok()) && events > 0
    })
}

fn batch(number: usize, events: usize, dice: &mut u64) -> EventBatch {
    let mut batch = EventBatch::default();
    batch.open_pulse(PulseTime(FIRST + ((spread(number as u64) as i64) << 24)));
    // 2²³ steps spread over four bytes: up to 58.7 ms.
    let mut times: Vec<u64> = (0..events).map(|_| splitmix(dice) >> 41).collect();
    times.sort_unstable();
    for time in times {
        let pixel = spread(1 + splitmix(dice) % 16_383);
        batch.push(spread(time) as u32, pixel as u32);
    }
    batch
}

/// Seven bits to a byte: order is kept, and no byte reaches 128.
fn spread(value: u64) -> u64 {
    (0..8).map(|byte| (value >> (7 * byte) & 0x7f) << (8 * byte)).sum()
}

#[cfg(test)]
mod tests {
    use fullcount_messages::{Message, decode};

    use super::*;

    #[test]
    fn numbers_keep_their_order_when_they_are_spread() {
        assert_eq!((spread(0), spread(127), spread(128)), (0, 127, 256));
        assert_eq!(spread((1 << 23) - 1), 0x037f_7f7f);
        let mut dice = 7;
        for _ in 0..1000 {
            let (a, b) = (splitmix(&mut dice) >> 8, splitmix(&mut dice) >> 8);
            assert_eq!(spread(a).cmp(&spread(b)), a.cmp(&b));
            assert!(spread(a).to_le_bytes().is_ascii());
        }
    }

    #[test]
    fn messages_are_text_of_one_size_and_decode_to_their_events() {
        let folder = tempfile::tempdir().unwrap();
        for wanted in [1000, 10_000, 20_000, 100_000, 1_000_000, 8_000_000] {
            let payload = BenchPayload::make(wanted, folder.path().join("payload")).unwrap();
            assert!(payload.size <= wanted && payload.size > wanted * 7 / 10, "{}", payload.size);
            let text = std::fs::read_to_string(&payload.file).unwrap();
            let parts: Vec<&str> = text.split(performance::DELIMITER).collect();
            assert_eq!(parts.len(), payload.batches.len());
            for (part, products) in parts.iter().zip(&payload.batches) {
                assert_eq!(part.len(), payload.size);
                let Ok(Message::Ev44(events)) = decode(part.as_bytes()) else { panic!("ev44") };
                let times = events.time_of_flight.unwrap();
                assert_eq!(times.len(), payload.events);
                assert!(times.is_sorted() && times[times.len() - 1] < 59_000_000);
                assert!(events.pixel_id.unwrap().iter().all(|&pixel| pixel > 0));
                assert_eq!(events.reference_time[0], products.events.pulse_ns[0]);
            }
            let pulses: Vec<i64> = payload.batches.iter().map(|b| b.events.pulse_ns[0]).collect();
            assert!(pulses.is_sorted_by(|a, b| a < b), "each message is a pulse of its own");
        }
    }
}
