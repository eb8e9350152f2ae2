//! What the service says, on its way to the broker: answers wait until there is room in the queue. Heartbeats do not wait.
//!
//! An answer that the broker will never take (it is too large) is forgotten.

use std::collections::VecDeque;
use std::time::Duration;

use fullcount_kafka::{EndWish, Publisher, confirm};
use fullcount_log::{notice, warning};

use super::{now_ms, told};
use crate::service::{Note, Reply, Service};

/// Longest wait for answers to be confirmed when the writer ends.
const FAREWELL: Duration = Duration::from_secs(10);

/// Answers that the broker does not have yet.
pub(super) struct Answers {
    publisher: Publisher,
    waiting: VecDeque<Reply>,
}

impl Answers {
    pub(super) fn new(publisher: Publisher) -> Answers {
        Answers { publisher, waiting: VecDeque::new() }
    }

    /// Says what the service has to say, and tells it what has arrived. A broker that is away stops nothing.
    pub(super) fn publish(&mut self, service: &mut Service) {
        for Note { text, wrong } in service.notes() {
            if wrong {
                warning!("{text}");
            } else {
                notice!("{text}");
            }
        }
        self.waiting.extend(service.replies());
        let mut full = false;
        self.waiting.retain(|reply| {
            let Reply { topic, value, receipt } = reply;
            let time = i64::try_from(now_ms()).unwrap_or(i64::MAX);
            let said = match (full, receipt) {
                (true, _) => return receipt.is_some(),
                (false, Some(n)) => {
                    self.publisher.publish_for(*n, topic, value, time, Duration::ZERO)
                }
                (false, None) => self.publisher.publish(topic, value, time, Duration::ZERO),
            };
            let Err(e) = said else { return false };
            full = e.is_full();
            if !full {
                warning!("{e}");
            }
            if e.is_too_large() {
                // Said again at each start it would be refused at each: the echo of a start can be so large.
                receipt.iter().for_each(|receipt| service.confirmed(*receipt));
            }
            full && receipt.is_some()
        });
        self.publisher.poll();
        self.publisher.receipts().into_iter().for_each(|receipt| service.confirmed(receipt));
    }

    /// The same at the end: waits for the broker, but not for ever. What did not arrive is said at the next start.
    pub(super) fn farewell(
        &mut self,
        service: &mut Service,
        brokers: &str,
        wish: &dyn Fn() -> EndWish,
    ) {
        for _ in 0..2 {
            self.publish(service);
            if let Err(e) = confirm(&self.publisher, brokers, FAREWELL, wish, told) {
                warning!("{e}; said at the next start");
                break;
            }
        }
        self.publish(service);
    }
}
