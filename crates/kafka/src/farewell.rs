//! The end of a run with messages that no broker has confirmed: how long to wait for them, and the report of it.
//!
//! Not waiting loses nothing: unconfirmed messages stay in the spool, and the next start sends them. So the user is
//! told what the run waits for and how to end the wait. A run that ends by itself waits for as long as a broker accepts
//! messages, and `drain` longer; one that was asked to end waits for `drain` in all.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::link::Link;
use super::options::KafkaOptions;
use super::sender::Tally;
use fullcount_spool::Spool;

/// A running broker confirms within this; a longer wait is reported. If the broker is known to be down, the wait is
/// reported at once.
const UNSAID: Duration = Duration::from_millis(500);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// One wait at the end of a run.
pub(super) struct Farewell {
    options: Arc<KafkaOptions>,
    begun: Instant,
    /// The end was requested before; otherwise the run has ended by itself, and the first request ends the wait.
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

    /// Waits no longer than if it had begun there, where as much was waited for already.
    pub fn since(mut self, begun: Option<Instant>) -> Farewell {
        self.begun = begun.map_or(self.begun, |begun| begun.min(self.begun));
        self
    }

    /// True when the run is asked to end, or ends by itself.
    pub fn is_due(options: &KafkaOptions) -> bool {
        (options.stop)() || (options.over)()
    }

    /// True when the wait was ended by the user, or took too long.
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

    /// Reports what the run waits for, once, if the wait is long enough.
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
