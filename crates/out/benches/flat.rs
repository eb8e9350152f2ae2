//! How fast events become ev44 on one core, beside `memcpy` of the same columns.
//!
//! `cargo bench -p fullcount-out --bench flat [-- --json]`. Full messages of 12,400 events (99 kB), the writer's memory
//! reused as the copy's is; once from one batch that stays in the cache, once from 256 MB of batches that do not.
//! Own timing: both in turn, 7 repeats of at least 0.2 s each, medians, and the median of the pairs' ratios. The copy moves the bytes of all four columns
//! and nothing else.

use std::hint::black_box;
use std::time::Instant;

use fullcount_core::products::EventBatch;
use fullcount_core::time::PulseTime;
use fullcount_out::flat::{EventWriter, Message, decode};

const EVENTS: u32 = 12_400;
const REPEATS: usize = 7;
const SECONDS: f64 = 0.2;

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let message = EventWriter::new().ev44("sonde", 1, &batch(0)).expect("99 kB").len();
    let in_cache = measure(1);
    let in_memory = measure(256_000_000 / message);
    if json {
        println!(
            "{{\"bench\": \"flat\", \"message_bytes\": {message}, \
             \"in_cache\": {}, \"in_memory\": {}}}",
            in_cache.json(message),
            in_memory.json(message)
        );
        return;
    }
    println!("ev44 of {EVENTS} events, {message} B a message");
    for (name, figures) in [("in cache", in_cache), ("in memory", in_memory)] {
        println!(
            "{name:10} encode {:6.2} GB/s, {:6.0} M events/s   memcpy {:6.2} GB/s   ratio {:.2}   decode {:6.2} GB/s",
            figures.encode * message as f64 / 1e9,
            figures.encode * f64::from(EVENTS) / 1e6,
            figures.copy * message as f64 / 1e9,
            figures.ratio,
            figures.decode * message as f64 / 1e9,
        );
    }
}

/// Messages per second.
struct Figures {
    encode: f64,
    copy: f64,
    decode: f64,
    ratio: f64,
}

impl Figures {
    fn json(&self, message: usize) -> String {
        format!(
            "{{\"encode_bytes_per_s\": {:.0}, \"events_per_s\": {:.0}, \"copy_bytes_per_s\": {:.0}, \
             \"ratio\": {:.3}, \"decode_bytes_per_s\": {:.0}}}",
            self.encode * message as f64,
            self.encode * f64::from(EVENTS),
            self.copy * message as f64,
            self.ratio,
            self.decode * message as f64
        )
    }
}

fn measure(batches: usize) -> Figures {
    let batches: Vec<EventBatch> = (0..batches).map(|i| batch(i as u32)).collect();
    let mut writer = EventWriter::new();
    let mut id = 0;
    let mut encode = |batch: &EventBatch| {
        id += 1;
        black_box(writer.ev44("sonde", id, black_box(batch)).expect("99 kB").len());
    };
    let (mut times, mut firsts) = (vec![0; 1], vec![0; 1]);
    let (mut offsets, mut pixels) = (vec![0; EVENTS as usize], vec![0; EVENTS as usize]);
    let mut copy = |batch: &EventBatch| {
        let batch = black_box(batch);
        times.copy_from_slice(&batch.pulse_ns);
        firsts.copy_from_slice(&batch.pulse_first);
        offsets.copy_from_slice(&batch.offset_ns);
        pixels.copy_from_slice(&batch.pixel);
        black_box((&times, &firsts, &offsets, &pixels));
    };
    let message = EventWriter::new().ev44("sonde", 1, &batches[0]).expect("99 kB").to_vec();
    let mut read = |_: &EventBatch| {
        let Ok(Message::Ev44(events)) = decode(black_box(&message)) else { panic!("ours") };
        black_box(events.time_of_flight.map_or(0, |times| times.len()));
    };
    rate(&batches, &mut encode);
    rate(&batches, &mut copy);
    let (mut encodes, mut copies, mut decodes, mut ratios) = (vec![], vec![], vec![], vec![]);
    for _ in 0..REPEATS {
        let (ours, theirs) = (rate(&batches, &mut encode), rate(&batches, &mut copy));
        encodes.push(ours);
        copies.push(theirs);
        ratios.push(ours / theirs);
        decodes.push(rate(&batches, &mut read));
    }
    Figures {
        encode: median(encodes),
        copy: median(copies),
        decode: median(decodes),
        ratio: median(ratios),
    }
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

fn batch(number: u32) -> EventBatch {
    let mut batch = EventBatch::default();
    batch.open_pulse(PulseTime(1_527_854_400_000_000_000 + i64::from(number) * 71_428_571));
    (0..EVENTS).for_each(|i| batch.push(i.wrapping_mul(5003) >> 1, (i ^ number) % 65_536 + 1));
    batch
}
