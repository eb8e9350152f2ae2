//! For any batches, capacities and ticks: every event is in exactly one message, in its order within a pulse.

use std::collections::BTreeMap;
use std::time::Duration;

use fullcount_core::products::EventBatch;
use fullcount_core::time::PulseTime;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{
    Cut, EventSchema, EventStream, Left, Message, Said, StreamOptionError, StreamOptions, decode,
};

/// Messages as (id, cut, pulse, pixels), and what was left.
#[derive(Default)]
struct Log {
    messages: Vec<(u64, Cut, i64, Vec<u32>)>,
    left: Vec<(usize, Left)>,
}

impl Log {
    fn take(&mut self, said: Said<'_>) {
        let ready = match said {
            Said::Left(events, why) => return self.left.push((events, why)),
            Said::Message(ready) => ready,
        };
        let (id, pulse, offsets, pixels) = match decode(ready.bytes).unwrap() {
            Message::Ev44(m) => {
                // The common denominator of consumers: one pulse, index 0, both vectors equally long.
                assert_eq!((m.reference_time.len(), &m.reference_time_index[..]), (1, &[0][..]));
                assert_eq!(m.source_name, "sonde");
                let column = |c: Option<std::borrow::Cow<'_, [i32]>>| {
                    c.unwrap().iter().map(|&v| u32::try_from(v).unwrap()).collect::<Vec<_>>()
                };
                let pulse = m.reference_time[0];
                (m.message_id as u64, pulse, column(m.time_of_flight), column(m.pixel_id))
            }
            Message::Ev42(m) => {
                let column = |c: Option<std::borrow::Cow<'_, [u32]>>| c.unwrap().into_owned();
                let pulse = i64::try_from(m.pulse_time).unwrap();
                (m.message_id, pulse, column(m.time_of_flight), column(m.detector_id))
            }
            other => panic!("{other:?}"),
        };
        assert_eq!((id, pixels.len()), (ready.id, ready.events));
        // The tests give each event its pixel as its offset.
        assert_eq!(offsets, pixels);
        assert!(!pixels.is_empty());
        self.messages.push((id, ready.cut, pulse, pixels));
    }

    fn cuts(&self) -> Vec<(Cut, i64, usize)> {
        self.messages.iter().map(|(_, cut, pulse, pixels)| (*cut, *pulse, pixels.len())).collect()
    }
}

fn batch(pulses: &[(i64, std::ops::Range<u32>)]) -> EventBatch {
    let mut batch = EventBatch::default();
    for (pulse, pixels) in pulses {
        batch.open_pulse(PulseTime(*pulse));
        pixels.clone().for_each(|pixel| batch.push(pixel, pixel));
    }
    batch
}

fn options(capacity: usize, open_pulses: usize) -> StreamOptions {
    StreamOptions { capacity, open_pulses, ..StreamOptions::new("sonde") }
}

proptest! {
    #[test]
    fn every_event_is_in_one_message_in_order(
        steps in vec((0i64..6, 1usize..40, 0u64..700, 0i64..6, 0usize..5), 1..40),
        capacity in 1usize..30,
        open_pulses in 1usize..5,
        first_id in any::<u32>(),
        ev42 in any::<bool>(),
    ) {
        let schema = if ev42 { EventSchema::Ev42 } else { EventSchema::Ev44 };
        let first_id = u64::from(first_id);
        let o = StreamOptions { schema, first_id, ..options(capacity, open_pulses) };
        let mut stream = EventStream::new(o).unwrap();
        let (mut log, mut wanted) = (Log::default(), BTreeMap::<i64, Vec<u32>>::new());
        let (mut next, mut now) = (1, Duration::ZERO);
        for (pulse, n, pause, second, m) in steps {
            let rows = [(pulse, n), (second, m)].map(|(pulse, n)| {
                let range = next..next + n as u32;
                next = range.end;
                wanted.entry(pulse).or_default().extend(range.clone());
                (pulse, range)
            });
            stream.push(&batch(&rows), |said| log.take(said));
            now += Duration::from_millis(pause);
            stream.tick(now, |said| log.take(said));
            let sent: usize = log.messages.iter().map(|m| m.3.len()).sum();
            prop_assert_eq!(sent + stream.waiting(), next as usize - 1);
        }
        stream.finish(|said| log.take(said));
        prop_assert_eq!(stream.waiting(), 0);
        prop_assert!(log.left.is_empty());
        let mut read = BTreeMap::<i64, Vec<u32>>::new();
        for (i, (id, cut, pulse, pixels)) in log.messages.iter().enumerate() {
            prop_assert_eq!(*id, first_id + i as u64);
            prop_assert!(pixels.len() <= capacity);
            prop_assert!((*cut == Cut::Capacity) == (pixels.len() == capacity), "{:?} of {}", cut, pixels.len());
            read.entry(*pulse).or_default().extend(pixels);
        }
        wanted.retain(|_, pixels| !pixels.is_empty());
        prop_assert_eq!(read, wanted);
        prop_assert_eq!(stream.next_id(), first_id + log.messages.len() as u64);
    }
}

#[test]
fn each_cause_cuts_as_the_format_says() {
    let mut stream = EventStream::new(options(10, 2)).unwrap();
    let mut log = Log::default();
    // Two modules take turns around the end of pulse 100: nothing is cut yet.
    for pulses in [[(100, 1..4), (200, 4..5)], [(100, 5..7), (200, 7..9)]] {
        stream.push(&batch(&pulses), |said| log.take(said));
    }
    assert_eq!((log.messages.len(), stream.waiting()), (0, 8));
    // A third pulse sends the oldest; an empty one sends nothing.
    stream.push(&batch(&[(250, 0..0), (300, 9..10)]), |said| log.take(said));
    assert_eq!(log.cuts(), [(Cut::Pulse, 100, 5)]);
    // 25 events of a new pulse: two full messages without waiting, the rest opens it.
    stream.push(&batch(&[(400, 10..35)]), |said| log.take(said));
    assert_eq!(
        log.cuts()[1..],
        [(Cut::Pulse, 200, 3), (Cut::Capacity, 400, 10), (Cut::Capacity, 400, 10)]
    );
    stream.tick(Duration::from_millis(999), |said| log.take(said));
    assert_eq!(log.messages.len(), 4);
    // Later events do not prolong the wait of earlier ones.
    stream.push(&batch(&[(400, 35..36)]), |said| log.take(said));
    stream.tick(Duration::from_millis(1000), |said| log.take(said));
    assert_eq!(log.cuts()[4..], [(Cut::Timer, 300, 1), (Cut::Timer, 400, 6)]);
    stream.push(&batch(&[(500, 36..37)]), |said| log.take(said));
    stream.finish(|said| log.take(said));
    assert_eq!(log.cuts()[6..], [(Cut::End, 500, 1)]);
    assert!(log.messages.iter().map(|m| m.0).eq(1..8));
    stream.finish(|said| log.take(said));
    assert_eq!(log.messages.len(), 7, "nothing twice");
}

#[test]
fn with_one_open_pulse_a_change_cuts_at_once() {
    let mut stream = EventStream::new(options(10, 1)).unwrap();
    let mut log = Log::default();
    stream.push(&batch(&[(100, 1..3), (200, 3..4), (100, 4..5)]), |said| log.take(said));
    assert_eq!(log.cuts(), [(Cut::Pulse, 100, 2), (Cut::Pulse, 200, 1)]);
    assert_eq!(stream.waiting(), 1);
}

#[test]
fn what_cannot_be_sent_is_told() {
    let mut stream = EventStream::new(options(10, 2)).unwrap();
    let mut log = Log::default();
    stream.push(&batch(&[(-5, 1..4), (0, 4..6)]), |said| log.take(said));
    let mut broken = batch(&[(100, 1..4)]);
    broken.pixel.push(9);
    stream.push(&broken, |said| log.take(said));
    for (first, pulses) in [(2, 1), (0, 0)] {
        let mut broken = batch(&[(100, 1..4)]);
        broken.pulse_first = vec![first; pulses];
        broken.pulse_ns.truncate(pulses);
        stream.push(&broken, |said| log.take(said));
    }
    let malformed = Left::Malformed;
    assert_eq!(log.left, [(3, Left::Before1970), (4, malformed), (3, malformed), (3, malformed)]);
    assert_eq!(stream.waiting(), 2);
}

#[test]
fn options_out_of_range_are_refused_with_the_range() {
    let refused = |change: fn(&mut StreamOptions)| {
        let mut o = StreamOptions::new("sonde");
        assert_eq!(o.validate(), Ok(()));
        change(&mut o);
        let error = EventStream::new(o).unwrap_err();
        assert!(!error.to_string().is_empty());
        error
    };
    use StreamOptionError::*;
    assert_eq!(refused(|o| o.source_name.clear()), SourceName(0));
    assert_eq!(refused(|o| o.source_name = "x".repeat(1025)), SourceName(1025));
    assert_eq!(refused(|o| o.capacity = 0), Capacity(0));
    assert_eq!(refused(|o| o.capacity = 1_000_001), Capacity(1_000_001));
    assert_eq!(
        refused(|o| o.flush = Duration::from_micros(999)),
        Flush(Duration::from_micros(999))
    );
    assert_eq!(refused(|o| o.open_pulses = 0), OpenPulses(0));
    assert_eq!(refused(|o| o.open_pulses = 65), OpenPulses(65));
}
