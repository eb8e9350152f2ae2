//! One trial of a receiver and a sender, wherever they are: until the sender has ended, and then until the receiver has.
//!
//! The sender's end marks end the receiver. Where every mark was lost it is interrupted as a person would. Refuses:
//! children that fail or hang.

use std::time::{Duration, Instant};

use super::order::{Order, ReceiveOrder, Send};
use super::{ChildReport, ChildWork, Post, PostError};

/// A trial without a result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum PairError {
    #[error(transparent)]
    Post(#[from] PostError),
    #[error("{verb}: still running after {seconds} s")]
    Stuck { verb: &'static str, seconds: u64 },
    #[error("interrupted")]
    Interrupted,
}

/// What a trial left.
#[derive(Debug)]
pub struct BothEnds {
    /// The sender's report.
    pub sent: ChildReport,
    /// The receiver's.
    pub received: ChildReport,
    /// True if the end marks ended the receiver.
    pub by_mark: bool,
}

/// What is done beside a trial.
pub trait Beside<E> {
    /// Both ends have begun.
    ///
    /// # Errors
    /// What is to end the trial.
    fn begun(&mut self, receiver: &mut dyn ChildWork, sender: &mut dyn ChildWork) -> Result<(), E>;

    /// The sender has ended.
    ///
    /// # Errors
    /// What is to end the trial.
    fn sent(&mut self) -> Result<(), E>;
}

/// Nothing.
pub struct NothingBeside;

impl<E> Beside<E> for NothingBeside {
    fn begun(&mut self, _: &mut dyn ChildWork, _: &mut dyn ChildWork) -> Result<(), E> {
        Ok(())
    }

    fn sent(&mut self) -> Result<(), E> {
        Ok(())
    }
}

/// How long a trial waits, and for whom it ends early.
pub struct TrialWait<'a> {
    /// True once somebody asks to stop.
    pub stop: &'a dyn Fn() -> bool,
    /// Between two looks at a child.
    pub look: Duration,
    /// For the sender's end.
    pub sender: Duration,
    /// For the receiver to see the end marks.
    pub marks: Duration,
    /// For the receiver to end once it is interrupted.
    pub grace: Duration,
}

impl TrialWait<'_> {
    /// Makes a trial: the receiver begins and says its port, then the sender.
    ///
    /// # Errors
    /// A child that cannot begin, failed or did not end; those of `beside`; somebody asked to stop.
    pub fn trial<E: From<PairError>>(
        &self,
        (receiver, sender): (&dyn Post, &dyn Post),
        (receive, mut send): (ReceiveOrder, Send),
        beside: &mut dyn Beside<E>,
    ) -> Result<BothEnds, E> {
        let mut receiver = receiver.start(&Order::Receive(receive)).map_err(PairError::from)?;
        send.to.set_port(receiver.port().unwrap_or(send.to.port()));
        let mut sender = sender.start(&Order::Send(send)).map_err(PairError::from)?;
        beside.begun(receiver.as_mut(), sender.as_mut())?;
        let (sent, early) = self.sent(receiver.as_mut(), sender.as_mut())?;
        beside.sent()?;
        let (received, by_mark) = self.received(receiver.as_mut(), early)?;
        Ok(BothEnds { sent, received, by_mark })
    }

    /// Waits for the sender's end; gives the receiver's report too, if that has ended by then.
    ///
    /// # Errors
    /// A failed child, the sender's time is over, or somebody asked to stop.
    fn sent(
        &self,
        receiver: &mut dyn ChildWork,
        sender: &mut dyn ChildWork,
    ) -> Result<(ChildReport, Option<ChildReport>), PairError> {
        let (begun, mut received) = (Instant::now(), None);
        loop {
            if let Some(report) = sender.poll()? {
                return Ok((report, received));
            }
            // A receiver that fails in mid-run is the reason to tell, not what follows from it.
            if received.is_none() {
                received = receiver.poll()?;
            }
            if begun.elapsed() >= self.sender {
                return Err(PairError::Stuck { verb: "send", seconds: self.sender.as_secs() });
            }
            self.pause()?;
        }
    }

    /// Waits for the receiver's end, unless it has come already; gives its report, and whether the end marks ended it.
    ///
    /// # Errors
    /// It failed, did not end although it was interrupted, or somebody asked to stop.
    fn received(
        &self,
        receiver: &mut dyn ChildWork,
        already: Option<ChildReport>,
    ) -> Result<(ChildReport, bool), PairError> {
        if let Some(report) = already {
            return Ok((report, true));
        }
        if let Some(report) = self.until(receiver, self.marks)? {
            return Ok((report, true));
        }
        receiver.interrupt()?;
        let seconds = (self.marks + self.grace).as_secs();
        let report = self.until(receiver, self.grace)?;
        Ok((report.ok_or(PairError::Stuck { verb: "receive", seconds })?, false))
    }

    fn until(
        &self,
        work: &mut dyn ChildWork,
        limit: Duration,
    ) -> Result<Option<ChildReport>, PairError> {
        let begun = Instant::now();
        loop {
            if let Some(report) = work.poll()? {
                return Ok(Some(report));
            }
            if begun.elapsed() >= limit {
                return Ok(None);
            }
            self.pause()?;
        }
    }

    /// A pause, unless somebody has had enough.
    fn pause(&self) -> Result<(), PairError> {
        if (self.stop)() {
            return Err(PairError::Interrupted);
        }
        std::thread::sleep(self.look);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::sample::Sampling;
    use super::*;

    /// Ends after so many looks, or once it is interrupted; `None`: never by itself.
    struct Child {
        looks: Option<u32>,
        interrupted: Cell<bool>,
    }

    fn child(looks: Option<u32>) -> Child {
        Child { looks, interrupted: Cell::new(false) }
    }

    impl ChildWork for Child {
        fn port(&self) -> Option<u16> {
            None
        }
        fn poll(&mut self) -> Result<Option<ChildReport>, PostError> {
            let over = self.looks == Some(0) || self.interrupted.get();
            self.looks = self.looks.map(|n| n.saturating_sub(1));
            Ok(over.then(ChildReport::default))
        }
        fn sample(&mut self, _: Sampling) -> Result<(), PostError> {
            Ok(())
        }
        fn interrupt(&mut self) -> Result<(), PostError> {
            self.interrupted.set(true);
            Ok(())
        }
    }

    fn waiting(stop: &dyn Fn() -> bool) -> TrialWait<'_> {
        let [look, marks] = [0, 5].map(Duration::from_millis);
        let sender = Duration::from_secs(60);
        TrialWait { stop, look, sender, marks, grace: sender }
    }

    #[test]
    fn the_receiver_ends_by_marks_or_is_interrupted() {
        let go_on = || false;
        let w = waiting(&go_on);
        let (mut receiver, mut sender) = (child(Some(1)), child(Some(3)));
        let (_, received) = w.sent(&mut receiver, &mut sender).unwrap();
        assert!(received.is_some());
        assert!(w.received(&mut receiver, received).unwrap().1, "by its marks");
        let (mut receiver, mut sender) = (child(None), child(Some(3)));
        let (_, received) = w.sent(&mut receiver, &mut sender).unwrap();
        assert!(!w.received(&mut receiver, received).unwrap().1, "no mark came");
        assert!(receiver.interrupted.get());
    }

    #[test]
    fn a_sender_that_hangs_and_a_wish_to_stop_end_it() {
        let (go_on, stop) = (|| false, || true);
        let hasty = TrialWait { sender: Duration::ZERO, ..waiting(&go_on) };
        let e = hasty.sent(&mut child(None), &mut child(None)).unwrap_err();
        assert!(matches!(e, PairError::Stuck { verb: "send", .. }), "{e}");
        let e = waiting(&stop).sent(&mut child(None), &mut child(None)).unwrap_err();
        assert!(matches!(e, PairError::Interrupted), "{e}");
    }
}
