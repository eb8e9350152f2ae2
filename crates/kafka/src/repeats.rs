//! Limits repeated messages: each at most once a minute, with how often it came meanwhile.
//!
//! librdkafka reports the same problem many times a second, and often several in alternation. Messages that differ only
//! in numbers are the same (`after 12 ms in state CONNECT`). At most [`MOST`] are remembered, at most [`LONGEST`] bytes
//! of each; others within a minute are counted together. Time is an argument.

use std::time::{Duration, Instant};

/// The same message is printed at most this often.
const AGAIN: Duration = Duration::from_secs(60);

/// Sentences remembered: more than a client has brokers and kinds of trouble at a time.
const MOST: usize = 32;

/// Bytes by which a sentence is known.
const LONGEST: usize = 512;

/// One sentence.
#[derive(Debug)]
struct Sentence {
    /// Without its numbers.
    known_by: String,
    said: Instant,
    /// Since then.
    held: u64,
}

/// What was said lately.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    sentences: Vec<Sentence>,
    /// Of sentences for which there was no place, since the time.
    others: u64,
    others_since: Option<Instant>,
}

/// What a sentence is known by: each run of digits is one `#`.
fn known_by(what: &str) -> String {
    let mut known = String::with_capacity(what.len().min(LONGEST));
    for c in what.chars() {
        match c.is_ascii_digit() {
            true if known.ends_with('#') => {}
            true => known.push('#'),
            false => known.push(c),
        }
        if known.len() >= LONGEST {
            break;
        }
    }
    known
}

impl Repeats {
    /// What to say of a sentence that comes at `now`; `None`: nothing, it was said less than a minute ago.
    pub fn say(&mut self, what: &str, now: Instant) -> Option<String> {
        let known_by = known_by(what);
        let old = |at: Instant| now.saturating_duration_since(at) >= AGAIN;
        if let Some(found) = self.sentences.iter_mut().find(|s| s.known_by == known_by) {
            if !old(found.said) {
                found.held += 1;
                return None;
            }
            let held = std::mem::take(&mut found.held);
            found.said = now;
            return Some(match held {
                0 => what.to_owned(),
                n => format!("{what} (this came {n} times more since it was last said)"),
            });
        }
        if self.sentences.len() >= MOST {
            // An expired one frees its place; the number of its suppressed repetitions is kept.
            let Some(over) = self.sentences.iter().position(|s| old(s.said)) else {
                return self.other(what, now);
            };
            self.others += self.sentences.swap_remove(over).held;
        }
        self.sentences.push(Sentence { known_by, said: now, held: 0 });
        Some(match std::mem::take(&mut self.others) {
            0 => what.to_owned(),
            n => format!("{what} ({n} other messages were not said)"),
        })
    }

    /// A sentence for which there is no place: one a minute.
    fn other(&mut self, what: &str, now: Instant) -> Option<String> {
        let since = self.others_since;
        if since.is_some_and(|at| now.saturating_duration_since(at) < AGAIN) {
            self.others += 1;
            return None;
        }
        self.others_since = Some(now);
        Some(match std::mem::take(&mut self.others) {
            0 => what.to_owned(),
            n => format!("{what} ({n} other messages were not said)"),
        })
    }

    /// Starts again; returns how many messages were suppressed.
    pub fn forget(&mut self) -> u64 {
        let before = std::mem::take(self);
        before.sentences.iter().map(|s| s.held).sum::<u64>() + before.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sentences_by_turns_are_said_once_a_minute_each_with_their_count() {
        let (begin, mut repeats, mut said) = (Instant::now(), Repeats::default(), Vec::new());
        for ms in (0..=60_000).step_by(10) {
            let now = begin + Duration::from_millis(ms);
            let what = if ms % 20 == 0 { "broker 1 is down" } else { "broker one: no route" };
            said.extend(repeats.say(what, now));
        }
        assert_eq!(said.len(), 3, "{said:?}");
        assert_eq!(said[..2], ["broker 1 is down", "broker one: no route"]);
        assert_eq!(said[2], "broker 1 is down (this came 2999 times more since it was last said)");
        assert_eq!(repeats.forget(), 2999, "those of the other");
    }

    #[test]
    fn numbers_make_no_other_sentence() {
        let (now, mut repeats) = (Instant::now(), Repeats::default());
        assert!(repeats.say("connect failed (after 7 ms in state CONNECT)", now).is_some());
        assert!(repeats.say("connect failed (after 1234 ms in state CONNECT)", now).is_none());
        assert!(repeats.say("connect failed (after 7 ms in state AUTH)", now).is_some());
    }

    #[test]
    fn ever_new_sentences_take_no_more_room_and_are_said_once_a_minute() {
        let (begin, mut repeats) = (Instant::now(), Repeats::default());
        let word = |n: u32| -> String {
            (0..8).map(|at| char::from(b'a' + (n >> (4 * at) & 15) as u8)).collect()
        };
        let said = (0..10_000).filter_map(|n| repeats.say(&word(n), begin)).count();
        assert_eq!((said, repeats.sentences.len()), (MOST + 1, MOST));
        let later = begin + AGAIN;
        let told = repeats.say("zzz", later).expect("a minute is over");
        assert_eq!(told, format!("zzz ({} other messages were not said)", 10_000 - MOST - 1));
        let long = "y".repeat(1 << 20);
        assert!(repeats.say(&long, later).is_some());
        assert!(repeats.sentences.iter().all(|s| s.known_by.len() <= LONGEST));
    }
}
