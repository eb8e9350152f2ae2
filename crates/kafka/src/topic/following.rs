//! Following a consumer group: partitions that come and go, and how far all is safe.
//!
//! A partition that the group wants for another member goes once all that was read of it is safe: `flush(taken)` is sent
//! behind it, and the number of that batch has to be safe with the outputs. Hits that hold the group's place back for 30 s get a
//! `flush(stalled)`. While nobody calls for more, as outputs are full, a thread asks librdkafka from time to time, whose partitions rest: the
//! group takes who does not for dead. Source: `docs/decisions/0014-partitions-that-move.md`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullcount_core::progress::Flush;
use fullcount_core::source::SourceError;

use super::parting::Leaving;
use super::place::{GroupPlace, Parting, again_later};
use super::reading::{COMMIT_EVERY, Topic};
use super::{FromTopic, say};
use crate::Polled;

/// Where nobody takes what was read for so long, the group hears from us all the same. Sooner would have librdkafka fetch
/// again, at each short wait, what it had fetched.
const ATTEND_AFTER: Duration = Duration::from_secs(1);
/// And so often then.
const ATTEND_EVERY: Duration = Duration::from_millis(20);
/// Between two looks whether that is so.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What comes next.
pub(super) enum Turn {
    Read,
    Wait,
    Flush(Flush),
}

/// Nobody takes what was read.
pub(super) struct Stuck {
    /// librdkafka gives nothing meanwhile.
    resting: bool,
    failed: Option<SourceError>,
}

/// Keeps the consumer's session in its group alive while nobody calls [`Topic::recv`].
pub(super) struct KeepAlive {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl KeepAlive {
    /// Starts its thread.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn start(topic: Arc<Mutex<Topic>>) -> std::io::Result<KeepAlive> {
        let over = Arc::new(AtomicBool::new(false));
        let told = over.clone();
        let body = move || {
            while !told.load(Relaxed) {
                let pause = match topic.try_lock() {
                    Ok(mut topic) => topic.keep_alive(Instant::now()),
                    // It is being called.
                    Err(TryLockError::WouldBlock) => LOOK_EVERY,
                    Err(TryLockError::Poisoned(_)) => return,
                };
                std::thread::park_timeout(pause);
            }
        };
        let thread = Some(std::thread::Builder::new().name("group-alive".into()).spawn(body)?);
        Ok(KeepAlive { over, thread })
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Topic {
    /// What the group has done with the partitions.
    fn hear_of_moves(&mut self, place: &GroupPlace) -> Result<(), SourceError> {
        if let Some(moves) = self.consumer.moves() {
            let numbers = |list: Vec<(String, i32)>| list.into_iter().map(|(_, p)| p).collect();
            let (lost, partitions): (BTreeSet<i32>, BTreeSet<i32>) =
                (numbers(moves.lost), numbers(moves.leaving));
            // Of somebody else's, or of ours that begins at its place again.
            self.left.take_if(|left| lost.contains(&left.place.0));
            let read = lost.iter().chain(&partitions).any(|p| self.handed.contains_key(p))
                || self.left.as_ref().is_some_and(|left| partitions.contains(&left.place.0));
            if !lost.is_empty() {
                self.part(place, &lost, Parting::Lost);
            }
            match (read, &mut self.leaving) {
                // All that has to wait is there already: nothing is read meanwhile.
                (_, Some(leaving)) => leaving.partitions = partitions,
                (true, leaving) => {
                    *leaving = Some(Leaving::new(partitions, Instant::now()));
                }
                (false, None) => self.give_up(place, &partitions, Parting::Drained)?,
            }
        }
        Ok(())
    }

    /// What the group wants before more is read. `number`: of the batch that is to be filled.
    pub fn follow_group(&mut self, number: u64) -> Result<Turn, SourceError> {
        let Some(place) = self.place.clone() else {
            if self.looked.elapsed() >= COMMIT_EVERY {
                self.looked = Instant::now();
                self.count_partitions()?;
            }
            return Ok(Turn::Read);
        };
        self.hear_of_moves(&place)?;
        // What did not fit the last batch goes first.
        if let Some(mut leaving) = self.leaving.take_if(|_| self.left.is_none()) {
            let Some(asked) = leaving.asked else {
                leaving.asked = Some(number);
                // Those that have gone already wait for nothing: what comes next is behind it.
                self.leaving = (!leaving.partitions.is_empty()).then_some(leaving);
                return Ok(Turn::Flush(Flush::Taken));
            };
            let safe = leaving.partitions.is_empty() || place.safe() >= asked;
            if !safe && !leaving.late(Instant::now(), self.url.patience()) {
                self.leaving = Some(leaving);
                return Ok(Turn::Wait);
            }
            let how = if safe { Parting::Drained } else { Parting::Late };
            self.give_up(&place, &leaving.partitions, how)?;
        }
        match self.tell(&place)? && place.is_stalled() {
            true => Ok(Turn::Flush(Flush::Stalled)),
            false => Ok(Turn::Read),
        }
    }

    /// If nobody takes what was read: tells the group that we live, and follows it as far as that goes without the pipeline. Time
    /// to the next call.
    fn keep_alive(&mut self, now: Instant) -> Duration {
        if self.over || now.saturating_duration_since(self.called) < ATTEND_AFTER {
            return LOOK_EVERY;
        }
        let stuck = self.stuck.get_or_insert(Stuck { resting: false, failed: None });
        if stuck.failed.is_some() {
            return LOOK_EVERY;
        }
        let begins = !std::mem::replace(&mut stuck.resting, true);
        let rested = if begins { self.consumer.rest(true) } else { Ok(()) };
        let outcome = rested.map_err(self.url.error("reading"));
        let outcome = outcome.and_then(|()| self.attend_group(now));
        if let (Err(error), Some(stuck)) = (outcome, &mut self.stuck) {
            stuck.failed = Some(error);
        }
        ATTEND_EVERY
    }

    fn attend_group(&mut self, now: Instant) -> Result<(), SourceError> {
        let Some(place) = self.place.clone() else { return Ok(()) };
        let failed = || self.url.error("reading");
        if let Polled::Message(message) = self.consumer.poll(Duration::ZERO).map_err(failed())? {
            // A partition that came in this moment.
            let (partition, offset) = (message.partition(), message.offset());
            let topic = self.url.address.topic.as_str();
            self.consumer.go_back(topic, partition, offset).map_err(failed())?;
            self.consumer.rest(true).map_err(failed())?;
        }
        self.hear_of_moves(&place)?;
        if let Some(leaving) = self.leaving.take_if(|l| l.late(now, self.url.patience())) {
            // It was not handed on, so it is not ours to tell of.
            self.left.take_if(|left| leaving.partitions.contains(&left.place.0));
            self.give_up(&place, &leaving.partitions, Parting::Late)?;
            // Before more is read the pipeline forgets their numbers: what others read of them is no loss here.
            self.leaving = Some(Leaving::new(BTreeSet::new(), now));
        }
        self.tell(&place).map(drop)
    }

    /// About once a second: how far all is safe, and what is ours. True if it was time.
    fn tell(&mut self, place: &GroupPlace) -> Result<bool, SourceError> {
        let due = self.looked.elapsed() >= COMMIT_EVERY;
        if due {
            self.looked = Instant::now();
            place.look(&self.handed, self.newest);
            self.count_partitions()?;
        }
        Ok(due)
    }

    fn count_partitions(&self) -> Result<(), SourceError> {
        let owned = self.consumer.assigned().map_err(self.url.error("reading"))?;
        self.sheet.set(FromTopic::Owned as usize, owned.len() as u64);
        Ok(())
    }

    /// Somebody takes what was read again.
    pub fn go_on(&mut self, stuck: Stuck) -> Result<(), SourceError> {
        if stuck.resting {
            self.consumer.rest(false).map_err(self.url.error("reading"))?;
        }
        stuck.failed.map_or(Ok(()), Err)
    }

    /// Tells the group where they stand, and gives them up.
    fn give_up(
        &mut self,
        place: &GroupPlace,
        partitions: &BTreeSet<i32>,
        how: Parting,
    ) -> Result<(), SourceError> {
        self.part(place, partitions, how);
        self.consumer.give_up().map_err(self.url.error("giving up partitions"))
    }

    /// These are somebody else's from now on.
    fn part(&mut self, place: &GroupPlace, gone: &BTreeSet<i32>, how: Parting) {
        let parted = place.part(&self.handed, gone, how);
        self.handed.retain(|p, _| !gone.contains(p));
        self.ended.retain(|p| !gone.contains(p));
        self.behind.retain(|p| !gone.contains(p));
        self.sheet.add(FromTopic::Moved as usize, gone.len() as u64);
        if parted.again > 0 {
            let late =
                "their events were not safe in time: the spool is full, or an output is too slow";
            let lost = "the group took this member for dead (session.timeout.ms, max.poll.interval.ms) and gave its \
                        partitions away";
            let why = match (&parted.refused, how) {
                (Some(refused), _) => refused.clone(),
                (None, Parting::Lost) => lost.to_owned(),
                (None, Parting::Late | Parting::Drained) => late.to_owned(),
            };
            say(&again_later(parted.again, &why));
        }
    }
}
