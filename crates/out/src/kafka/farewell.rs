//! The end of a run with messages that no broker has confirmed: how long they are waited for, and that this is said.
//!
//! Nothing is lost by not waiting: what is not confirmed stays in the spool, and the next start sends it. So somebody who
//! wants to go is told what is waited for and how to end it. A run that ends by itself waits for as long as a broker goes on
//! taking messages, and `drain` longer; one that was asked to end waits for `drain` in all. Refuses nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::link::Link;
use super::options::KafkaOptions;
use super::sender::Tally;
use crate::spool::Spool;

/// A broker that is there confirms within this; a longer wait is said. One that is known to be away is not given it.
const UNSAID: Duration = Duration::from_millis(500);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// One wait at the end of a run.
pub(super) struct Farewell {
    options: Arc<KafkaOptions>,
    begun: Instant,
    /// The end was asked for before; else the run has ended by itself, and the first wish ends the wait.
    asked: bool,
    /// Messages that were confirmed when it began.
    confirmed: u64,
    tally: Arc<Tally>,
    said: bool,
}

impl Farewell {
    /// Begins to wait.
    pub fn begin(options: &Arc<KafkaOptions>, tally: &Arc<Tally>) -> Farewell {
        let (begun, asked) = (Instant::now(), (options.stop)());
        let (confirmed, tally) = (tally.messages.load(Relaxed), tally.clone());
        Farewell { options: options.clone(), begun, asked, confirmed, tally, said: false }
    }

    /// True once the run is asked to end, or ends by itself.
    pub fn is_due(options: &KafkaOptions) -> bool {
        (options.stop)() || (options.over)()
    }

    /// True once nobody wants to wait any more, or it took too long.
    pub fn is_over(&mut self) -> bool {
        let o = &self.options;
        if (o.hurry)() || (!self.asked && (o.stop)()) {
            return true;
        }
        if self.begun.elapsed() < o.drain {
            return false;
        }
        let confirmed = self.tally.messages.load(Relaxed);
        let goes_on = !self.asked && confirmed > self.confirmed;
        if goes_on {
            (self.begun, self.confirmed) = (Instant::now(), confirmed);
        }
        !goes_on
    }

    /// Says what is waited for, once, if it is worth a word.
    pub fn say(&mut self, link: &Link, spool: &Spool) {
        if self.said || !(link.is_down() || self.begun.elapsed() >= UNSAID) {
            return;
        }
        self.said = true;
        let KafkaOptions { drain, brokers, .. } = &*self.options;
        let (left, messages) = (drain.saturating_sub(self.begun.elapsed()), spool.depth().messages);
        let again = if self.asked { " again" } else { "" };
        link.tell(&format!(
            "waiting up to {:.0} s for the broker at {brokers}: {messages} messages in the spool; Ctrl-C{again} to \
             stop now (the next start sends them)",
            left.as_secs_f64().ceil()
        ));
    }

    /// Waits until all is confirmed, or until it is over.
    pub fn wait(mut self, link: &Link, spool: &Spool) {
        while spool.depth().messages > 0 && !self.is_over() {
            self.say(link, spool);
            spool.wait(LOOK);
        }
    }
}
