//! Any cut of any stream: the messages appended before and those that a replay appends after it hold every event once,
//! in order.

use fullcount_core::time::PulseTime;
use proptest::prelude::*;

use super::*;
use fullcount_messages::{Said, StreamOptions};

/// Events (pulse, pixel), each with its own pixel, so that all differ.
type Row = (i64, u32);

fn batches(rows: &[Row], size: usize) -> Vec<Products> {
    let batch = |rows: &[Row]| {
        let mut products = Products::default();
        for &(pulse, pixel) in rows {
            products.events.open_pulse(PulseTime(pulse));
            products.events.push(pixel * 3, pixel);
        }
        products
    };
    let mut all: Vec<Products> = rows.chunks(size).map(batch).collect();
    all.push(Products { phase: Phase::Complete, ..Products::default() });
    all
}

fn replay(identity: &str, restart: bool) -> Replay {
    let (identity, title) = (identity.to_owned(), "capture".to_owned());
    Replay { identity, title, restart, starts: BTreeMap::new() }
}

fn stream(capacity: usize, open_pulses: usize) -> EventStream {
    let options = StreamOptions { capacity, open_pulses, ..StreamOptions::new("x") };
    EventStream::new(options).unwrap()
}

/// A message as the topic has it: the pixels, which are the events.
fn pixels(bytes: &[u8]) -> Vec<u32> {
    let Ok(fullcount_messages::Message::Ev44(m)) = fullcount_messages::decode(bytes) else {
        panic!("ev44")
    };
    m.pixel_id.unwrap().iter().map(|&p| p as u32).collect()
}

/// When a process is killed: this many messages after its start.
struct Process<'a> {
    capacity: usize,
    open_pulses: usize,
    batch: usize,
    tick_every: usize,
    messages: usize,
    folder: &'a Path,
}

/// One process; appends to `topic` and keeps the last note. Returns whether it came to the end, and what was skipped.
fn process(
    rows: &[Row],
    p: &Process<'_>,
    topic: &mut Vec<Vec<u32>>,
    last: &mut Option<Vec<u8>>,
) -> (bool, u64) {
    let (mut follower, beginning) =
        Follower::begin(replay("same", false), p.folder, last.as_deref()).unwrap();
    let mut stream = stream(p.capacity, p.open_pulses);
    let (mut left, mut known) = (p.messages, 0);
    let mut append = |said: Said<'_>, note: &[u8]| {
        let Said::Message(ready) = said else { panic!("{said:?}") };
        if left > 0 {
            left -= 1;
            topic.push(pixels(ready.bytes));
            *last = Some(note.to_vec());
        }
        left > 0
    };
    for (at, products) in batches(rows, p.batch).iter().enumerate() {
        let mut alive = true;
        let passed = follower
            .push(&mut stream, products, |said, note| alive = alive && append(said, note))
            .unwrap();
        known += passed.known;
        if at % p.tick_every == 0 {
            // The flush interval is over, whenever that is.
            let later = std::time::Duration::from_secs(2 * (at as u64 + 1));
            stream.tick(later, |said| {
                let note = follower.note(&said).to_vec();
                alive = alive && append(said, &note);
            });
        }
        if !alive {
            return (false, known);
        }
    }
    let mut alive = true;
    stream.finish(|said| {
        let note = follower.note(&said).to_vec();
        alive = alive && append(said, &note);
    });
    if alive {
        let resumed = matches!(beginning, Beginning::Resumed(_));
        assert!(resumed || known == 0);
        assert_eq!(follower.end(true).unwrap(), (0, None));
    }
    (alive, known)
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    // Pulses rise, and neighbours take turns.
    let steps = prop::collection::vec((0u8..6, 0i64..3), 1..120);
    steps.prop_map(|steps| {
        let mut at = 10;
        let mut row = |(n, (step, back)): (usize, (u8, i64))| {
            at += i64::from(step == 0) * 10;
            ((at - 10 * back).max(0), n as u32 + 1)
        };
        steps.into_iter().enumerate().map(&mut row).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn killed_after_any_message_every_event_is_there_once_and_each_pulse_in_order(
        rows in rows(),
        kills in prop::collection::vec((1usize..6, 1usize..9, 1usize..4, 1usize..20, 1usize..5), 0..6),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (mut topic, mut last, mut ended) = (Vec::new(), None, false);
        let kills = kills.into_iter().chain([(usize::MAX, 5, 2, 7, 3)]);
        for (messages, capacity, open_pulses, batch, tick_every) in kills {
            let p =
                Process { capacity, open_pulses, batch, tick_every, messages, folder: folder.path() };
            (ended, _) = process(&rows, &p, &mut topic, &mut last);
            if ended {
                break;
            }
        }
        prop_assert!(ended);
        prop_assert_eq!(Unfinished::read(folder.path()).unwrap(), None, "told as finished");
        let mut all: Vec<u32> = topic.iter().flatten().copied().collect();
        let pulse = |pixel: u32| rows[pixel as usize - 1].0;
        for message in &topic {
            prop_assert!(message.iter().all(|&p| pulse(p) == pulse(message[0])), "one pulse");
        }
        let pulses: std::collections::BTreeSet<i64> = rows.iter().map(|r| r.0).collect();
        for one in pulses {
            let found: Vec<u32> = all.iter().copied().filter(|&p| pulse(p) == one).collect();
            prop_assert!(found.is_sorted(), "{} at {}", format!("{found:?}"), one);
        }
        all.sort_unstable();
        prop_assert!(all.iter().copied().eq(1..=rows.len() as u32), "{:?}", all);
    }

    #[test]
    fn any_bytes_are_a_note_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let read = Note::read(&bytes);
        prop_assert_eq!(read.is_some(), bytes.len() >= FIXED && (bytes.len() - FIXED).is_multiple_of(16));
    }
}

/// 20 events, killed after the first message of 5.
fn interrupted(folder: &Path) -> (Vec<Row>, Vec<u8>) {
    let rows: Vec<Row> = (1..=20).map(|n| (0, n)).collect();
    let p = Process { capacity: 5, open_pulses: 1, batch: 7, tick_every: 100, messages: 1, folder };
    let (mut topic, mut last) = (Vec::new(), None);
    assert_eq!(process(&rows, &p, &mut topic, &mut last), (false, 0));
    assert_eq!(topic, [[1, 2, 3, 4, 5]]);
    (rows, last.unwrap())
}

#[test]
fn other_events_of_the_same_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mut rows, note) = interrupted(folder.path());
    rows[3].1 = 77;
    let (mut follower, beginning) =
        Follower::begin(replay("same", false), folder.path(), Some(&note)).unwrap();
    assert_eq!(beginning, Beginning::Resumed(5));
    let mut stream = stream(5, 1);
    let said = follower.push(&mut stream, &batches(&rows, 7)[0], |_, _| panic!("nothing is sent"));
    let said = said.unwrap_err().message;
    assert!(said.contains("its events are others") && said.contains("--replay restart"), "{said}");
}

#[test]
fn a_replay_that_has_become_shorter_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (rows, note) = interrupted(folder.path());
    let (mut follower, _) =
        Follower::begin(replay("same", false), folder.path(), Some(&note)).unwrap();
    let mut stream = stream(5, 1);
    let short = batches(&rows[..3], 3);
    let all = |_: Said<'_>, _: &[u8]| panic!("nothing is sent");
    assert_eq!(follower.push(&mut stream, &short[0], all).unwrap(), Passed { known: 3, later: 0 });
    let said = follower.push(&mut stream, &short[1], all).unwrap_err().message;
    assert!(said.contains("it has only 3 events"), "{said}");
}

#[test]
fn another_replay_or_a_wish_begins_at_the_first_event() {
    let folder = tempfile::tempdir().unwrap();
    let (_, note) = interrupted(folder.path());
    let begin = |identity, restart| {
        let begun = Follower::begin(replay(identity, restart), folder.path(), Some(&note));
        begun.unwrap().1
    };
    assert_eq!(begin("same", false), Beginning::Resumed(5));
    assert_eq!(begin("same", true), Beginning::Fresh);
    // The new one has begun, and has nothing in messages.
    assert_eq!(begin("same", false), Beginning::Fresh);
    assert_eq!(begin("other", false), Beginning::Instead("capture".into()));
}

#[test]
fn cut_short_it_appends_nothing_more_of_its_own_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (rows, note) = interrupted(folder.path());
    let (mut follower, _) =
        Follower::begin(replay("same", false), folder.path(), Some(&note)).unwrap();
    let mut stream = stream(5, 1);
    let mut sent = Vec::new();
    follower
        .push(&mut stream, &batches(&rows, 12)[0], |said, _| {
            let Said::Message(ready) = said else { panic!("{said:?}") };
            sent.extend(pixels(ready.bytes));
        })
        .unwrap();
    assert_eq!(sent, [6, 7, 8, 9, 10]);
    let mut early = batches(&rows[..2], 2).remove(0);
    early.phase = Phase::CutShort;
    let passed = follower.push(&mut stream, &early, |_, _| panic!("not these")).unwrap();
    assert_eq!(passed, Passed { known: 0, later: 2 });
    let (later, said) = follower.end(true).unwrap();
    assert_eq!(later, 0);
    assert!(said.unwrap().contains("behind 12 events"));
    assert!(Unfinished::read(folder.path()).unwrap().is_some());
}
