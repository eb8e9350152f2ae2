//! Speed of ev44 encoding on one core, compared with `memcpy` of the same bytes.
//!
//! `cargo bench -p fullcount-messages --bench flat [-- --json]`. Messages of 100, 1000, 10,000 and 100,000 events and
//! the default of 12,400; the writer's memory is reused as the copy's is; once from one batch that stays in the cache,
//! once from 256 MB of batches that do not. It is compared with two copies: of the four columns, which is what encoding
//! moves, and of the finished message in one piece. Own timing: all in turn, 7 repeats of at least 0.1 s each, medians,
//! and the medians of the repeats' ratios.

use std::hint::black_box;
use std::time::Instant;

use fullcount_core::products::EventBatch;
use fullcount_core::time::PulseTime;
use fullcount_messages::{EventWriter, Message, decode};

const EVENTS: [u32; 5] = [100, 1_000, 10_000, 12_400, 100_000];
const REPEATS: usize = 7;
const SECONDS: f64 = 0.1;
/// Bytes of batches that no cache holds.
const MEMORY: usize = 256_000_000;

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let mut rows = Vec::new();
    if !json {
        println!(
            "ev44     B a message              encode                memcpy of the columns   of the message   decode"
        );
    }
    for events in EVENTS {
        let bytes = EventWriter::new().ev44("panel", 1, &batch(0, events)).expect("fits").len();
        for (place, batches) in [("cache", 1), ("memory", MEMORY / bytes)] {
            let figures = measure(batches, events);
            if json {
                rows.push(figures.json(place, events, bytes));
                continue;
            }
            let gigabytes = |per_s: f64| per_s * bytes as f64 / 1e9;
            println!(
                "{events:7} {bytes:7} in {place:6} {:6.2} GB/s, {:6.0} M events/s   {:6.2} GB/s, ratio {:.2}   \
                 {:6.2} GB/s, ratio {:.2}   {:.2} GB/s",
                gigabytes(figures.encode),
                figures.encode * f64::from(events) / 1e6,
                gigabytes(figures.columns),
                figures.to_columns,
                gigabytes(figures.message),
                figures.to_message,
                gigabytes(figures.decode),
            );
        }
    }
    if json {
        println!("{{\"bench\": \"flat\", \"rows\": [{}]}}", rows.join(", "));
    }
}

/// Messages per second, and ratios of the encoder to the two copies.
struct Figures {
    encode: f64,
    columns: f64,
    message: f64,
    decode: f64,
    to_columns: f64,
    to_message: f64,
}

impl Figures {
    fn json(&self, place: &str, events: u32, bytes: usize) -> String {
        let bytes_per_s = |messages: f64| messages * bytes as f64;
        format!(
            "{{\"from\": \"{place}\", \"events\": {events}, \"message_bytes\": {bytes}, \
             \"encode_bytes_per_s\": {:.0}, \"events_per_s\": {:.0}, \
             \"copy_of_columns_bytes_per_s\": {:.0}, \"ratio_to_columns\": {:.3}, \
             \"copy_of_message_bytes_per_s\": {:.0}, \"ratio_to_message\": {:.3}, \
             \"decode_bytes_per_s\": {:.0}}}",
            bytes_per_s(self.encode),
            self.encode * f64::from(events),
            bytes_per_s(self.columns),
            self.to_columns,
            bytes_per_s(self.message),
            self.to_message,
            bytes_per_s(self.decode),
        )
    }
}

fn measure(batches: usize, events: u32) -> Figures {
    let batches: Vec<EventBatch> = (0..batches).map(|i| batch(i as u32, events)).collect();
    let mut writer = EventWriter::new();
    let mut id = 0;
    let mut encode = |batch: &EventBatch| {
        id += 1;
        black_box(writer.ev44("panel", id, black_box(batch)).expect("fits"));
    };
    let (mut times, mut firsts) = (vec![0; 1], vec![0; 1]);
    let (mut offsets, mut pixels) = (vec![0; events as usize], vec![0; events as usize]);
    let mut columns = |batch: &EventBatch| {
        let batch = black_box(batch);
        times.copy_from_slice(&batch.pulse_ns);
        firsts.copy_from_slice(&batch.pulse_first);
        offsets.copy_from_slice(&batch.offset_ns);
        pixels.copy_from_slice(&batch.pixel);
        black_box((&times, &firsts, &offsets, &pixels));
    };
    let message = EventWriter::new().ev44("panel", 1, &batches[0]).expect("fits").to_vec();
    // As many messages as there are batches, so that they are read from where the batches are.
    let messages = vec![message.clone(); batches.len()];
    let (mut next, mut copied) = (0, message.clone());
    let mut whole = |_: &EventBatch| {
        copied.copy_from_slice(black_box(&messages[next]));
        next = (next + 1) % messages.len();
        black_box(&copied);
    };
    let mut read = |_: &EventBatch| {
        let Ok(Message::Ev44(events)) = decode(black_box(&message)) else { panic!("ours") };
        black_box(events.time_of_flight.map_or(0, |times| times.len()));
    };
    rate(&batches, &mut encode);
    rate(&batches, &mut columns);
    rate(&batches, &mut whole);
    let mut all: [Vec<f64>; 6] = Default::default();
    for _ in 0..REPEATS {
        let ours = rate(&batches, &mut encode);
        let (by_column, in_one) = (rate(&batches, &mut columns), rate(&batches, &mut whole));
        let decoded = rate(&batches, &mut read);
        let values = [ours, by_column, in_one, decoded, ours / by_column, ours / in_one];
        all.iter_mut().zip(values).for_each(|(all, value)| all.push(value));
    }
    let [encode, columns, message, decode, to_columns, to_message] = all.map(median);
    Figures { encode, columns, message, decode, to_columns, to_message }
}

/// Calls per second, whole rounds over the batches.
fn rate(batches: &[EventBatch], work: &mut impl FnMut(&EventBatch)) -> f64 {
    let start = Instant::now();
    let mut calls = 0;
    loop {
        for _ in 0..64usize.div_ceil(batches.len()) {
            batches.iter().for_each(&mut *work);
            calls += batches.len();
        }
        let seconds = start.elapsed().as_secs_f64();
        if seconds >= SECONDS {
            return calls as f64 / seconds;
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn batch(number: u32, events: u32) -> EventBatch {
    let mut batch = EventBatch::default();
    batch.open_pulse(PulseTime(1_527_854_400_000_000_000 + i64::from(number) * 71_428_571));
    (0..events).for_each(|i| batch.push(i.wrapping_mul(5003) >> 1, (i ^ number) % 65_536 + 1));
    batch
}
