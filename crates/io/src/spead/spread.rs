//! Sockets that share a port and get any train of it (`sockets=N`): read as one, in the order in which the kernel received.
//!
//! Each has a receive buffer of its own, so a user who may not raise `net.core.rmem_max` has N times the buffer, and a receiver that stands
//! still for a moment loses nothing for N times as long. Each train carries the kernel's time; what was received before a look at all
//! sockets is taken by that time, later trains wait for the next look. Source: `docs/spead.md`, "Sockets that share a port".

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::{Batch, Train};
use fullcount_core::ledger::Sheet;
use fullcount_core::source::{Received, Source, SourceError};

use crate::wall::wall_ns;

/// Between two looks when nothing was there: in the middle of a stream, and when nothing has come for [`MANY`] looks. A wait in one socket
/// is of a whole clock tick at least, 4 ms, in which 212,992 B of another one are full at 2 Gb/s.
const SHORT: Duration = Duration::from_micros(50);
const LONG: Duration = Duration::from_millis(1);
const MANY: u32 = 100;
/// A train that came so much later than it was read was received before the clock was set back, ns.
const STEP_NS: i64 = 10_000_000;

/// One socket, and what was read from it.
struct SpreadSocket {
    source: Box<dyn Source>,
    batch: Batch,
    /// Its next train.
    next: usize,
    trains: usize,
}

impl SpreadSocket {
    /// Reads if all trains were taken.
    fn fill(&mut self) -> Result<(), SourceError> {
        if self.next == self.trains {
            let got = self.source.recv(&mut self.batch, Duration::ZERO)?;
            self.trains = if got == Received::Data { self.batch.trains().len() } else { 0 };
            self.next = 0;
        }
        Ok(())
    }

    fn front(&self) -> Option<Train<'_>> {
        self.batch.trains().nth(self.next).filter(|_| self.next < self.trains)
    }
}

/// All of them.
pub(super) struct SpreadSockets {
    sockets: Vec<SpreadSocket>,
    /// Looks in a row that found nothing.
    idle: u32,
}

impl SpreadSockets {
    pub fn new(sources: Vec<Box<dyn Source>>) -> SpreadSockets {
        let one = |source: Box<dyn Source>| {
            let batch = source.batch();
            SpreadSocket { source, batch, next: 0, trains: 0 }
        };
        SpreadSockets { sockets: sources.into_iter().map(one).collect(), idle: 0 }
    }

    pub fn sheets(&self) -> Vec<Arc<Sheet>> {
        self.sockets.iter().map(|socket| socket.source.sheet()).collect()
    }

    /// Takes what was received before now, in the order in which it was; waits about `wait` at most if there is nothing. True: something came.
    ///
    /// # Errors
    /// A socket that failed for good.
    pub fn read(
        &mut self,
        wait: Duration,
        take: &mut dyn FnMut(Train<'_>),
    ) -> Result<bool, SourceError> {
        let mut came = self.look(take)?;
        if !came && !wait.is_zero() {
            std::thread::sleep(wait.min(if self.idle < MANY { SHORT } else { LONG }));
            came = self.look(take)?;
        }
        self.idle = if came { 0 } else { self.idle.saturating_add(1) };
        Ok(came)
    }

    fn look(&mut self, take: &mut dyn FnMut(Train<'_>)) -> Result<bool, SourceError> {
        let now = wall_ns();
        for socket in &mut self.sockets {
            socket.fill()?;
        }
        // Much later than `now` if this thread had to wait for a processor.
        let read = wall_ns();
        let mut any = false;
        loop {
            let fronts = self.sockets.iter().enumerate();
            let fronts = fronts.filter_map(|(at, s)| Some((s.front()?.time_ns, at)));
            let Some((time, at)) = fronts.min() else { return Ok(any) };
            if time > now && time - read < STEP_NS {
                return Ok(any);
            }
            let socket = &mut self.sockets[at];
            socket.front().into_iter().for_each(&mut *take);
            (socket.next, any) = (socket.next + 1, true);
            // What follows in this socket may be older than what waits in others.
            if socket.next == socket.trains {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use fullcount_core::batch::{Edge, Origin};

    use super::*;

    /// Gives batches of trains of one byte, each with a time, one batch a call, and none before the newest of its times, unless that is far
    /// away.
    struct Told(VecDeque<Vec<(u8, i64)>>, Arc<Sheet>);

    impl Source for Told {
        fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
            batch.clear();
            let Some(trains) = self.0.pop_front() else { return Ok(Received::Idle) };
            let newest = trains.iter().map(|(_, time_ns)| *time_ns).max().unwrap_or(0);
            while (wall_ns() + 1..wall_ns() + 1_000_000_000).contains(&newest) {
                std::thread::yield_now();
            }
            for (byte, time_ns) in trains {
                batch.append(&[byte], Origin::NONE, time_ns, Edge::Datagram);
            }
            Ok(Received::Data)
        }

        fn batch(&self) -> Batch {
            Batch::with_slots(8, 64)
        }

        fn lossless(&self) -> bool {
            true
        }

        fn sheet(&self) -> Arc<Sheet> {
            self.1.clone()
        }

        fn describe(&self) -> Vec<String> {
            vec![]
        }
    }

    fn sockets(told: Vec<Vec<Vec<(u8, i64)>>>) -> SpreadSockets {
        let one = |batches: Vec<_>| -> Box<dyn Source> {
            Box::new(Told(batches.into(), Sheet::new(vec![])))
        };
        SpreadSockets::new(told.into_iter().map(one).collect())
    }

    /// Looks until two looks in a row bring nothing: what came, in order.
    fn all(sockets: &mut SpreadSockets) -> Vec<u8> {
        let (mut came, mut quiet) = (Vec::<u8>::new(), 0);
        while quiet < 2 {
            let any = sockets.look(&mut |train| came.extend(train.bytes)).unwrap();
            quiet = if any { 0 } else { quiet + 1 };
        }
        came
    }

    #[test]
    fn trains_of_all_sockets_come_in_the_order_of_their_times() {
        let mut three = sockets(vec![
            vec![vec![(1, 10), (4, 40)], vec![(6, 60)]],
            vec![vec![(2, 20), (3, 30), (7, 70)]],
            vec![vec![], vec![(5, 50), (8, 80)]],
        ]);
        // A batch whose trains were all refused is no end. What such a socket has next was not seen by the look before.
        assert_eq!(all(&mut three), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(three.sheets().len(), 3);
    }

    #[test]
    fn what_follows_in_a_socket_is_waited_for_before_others_go_on() {
        let mut two = sockets(vec![vec![vec![(1, 10)], vec![(2, 20)]], vec![vec![(3, 30)]]]);
        let mut came: Vec<u8> = vec![];
        assert!(two.look(&mut |train| came.extend(train.bytes)).unwrap());
        assert_eq!(came, [1]);
        assert_eq!(all(&mut two), [2, 3]);
    }

    /// The thread stands still in the middle of a look, so that trains come that are much newer than its beginning: the stop of a stream, and
    /// what was sent before it into a socket that was looked at already.
    #[test]
    fn a_look_that_takes_long_does_not_change_the_order() {
        let now = wall_ns();
        let first = vec![vec![], vec![(1, now + 2 * STEP_NS)]];
        let mut two = sockets(vec![first, vec![vec![(2, now + 3 * STEP_NS)]]]);
        assert_eq!(all(&mut two), [1, 2]);
    }

    #[test]
    fn a_train_of_this_moment_waits_and_a_clock_that_was_set_back_holds_nothing_up() {
        let now = wall_ns();
        let mut two = sockets(vec![vec![vec![(2, now + 3_600_000_000_000)]], vec![vec![(1, 0)]]]);
        assert_eq!(all(&mut two), [1, 2]);
        let mut one = sockets(vec![vec![vec![(1, now + STEP_NS - 1_000_000)]]]);
        let mut came = 0;
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while came == 0 && std::time::Instant::now() < until {
            one.read(Duration::from_millis(1), &mut |_| came += 1).unwrap();
        }
        assert_eq!(came, 1);
    }
}
