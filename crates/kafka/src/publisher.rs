//! Publishing messages that need no spool: answers, heartbeats, simulated logs. Any topic, one queue.
//!
//! A message waits in librdkafka's queue until a broker confirms it, even if the broker is down. Refuses messages above
//! `message.max.bytes`. Messages that the broker refuses permanently are counted. Source: `docs/formats/flatbuffers.md`
//! section 7: no key, Kafka's time is the moment of sending.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};

use super::link::{Link, News};
use super::settings::KafkaSettings;

/// Messages that cannot be published.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum PublishError {
    /// A setting that cannot be.
    #[error("kafka {brokers}: set up: {cause}")]
    Setup { brokers: String, cause: Box<KafkaError> },
    /// librdkafka takes no more, or not this.
    #[error("kafka {topic}: publish: {cause}")]
    Refused { topic: String, cause: Box<KafkaError> },
    /// Not confirmed in time.
    #[error("kafka: {waiting} messages were not confirmed within {seconds} s; is a broker there?")]
    Unconfirmed { waiting: i32, seconds: u64 },
}

impl PublishError {
    /// True if there is no room now, and may be later.
    pub fn is_full(&self) -> bool {
        matches!(self, PublishError::Refused { cause, .. }
            if cause.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull))
    }

    /// True if there never will be: it is larger than `message.max.bytes`.
    pub fn is_too_large(&self) -> bool {
        matches!(self, PublishError::Refused { cause, .. } if is_too_large(cause))
    }
}

struct Context {
    link: Link,
    confirmed: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    receipts: Receipts,
}

/// Receipts of messages that were confirmed. Locked for messages with one only, which are few.
type Receipts = Arc<Mutex<Vec<u64>>>;

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, _: &str, message: &str) {
        self.link.log(level, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.link.error(&error, reason);
    }
}

impl Context {
    /// Nothing more is to be done about the message.
    fn settle(&self, receipt: usize) {
        if let (Some(receipt), Ok(mut all)) = (receipt.checked_sub(1), self.receipts.lock()) {
            all.push(receipt as u64);
        }
    }
}

fn is_too_large(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge)
}

impl ProducerContext for Context {
    /// The receipt and one; 0 for none.
    type DeliveryOpaque = usize;
    fn delivery(&self, result: &DeliveryResult<'_>, receipt: usize) {
        match result {
            Ok(_) => {
                self.confirmed.fetch_add(1, Relaxed);
                self.settle(receipt);
                self.link.up();
            }
            Err((error, _)) => {
                self.refused.fetch_add(1, Relaxed);
                if is_too_large(error) {
                    self.settle(receipt);
                }
                self.link.say(&format!("a message was refused: {error}"));
            }
        }
    }
}

/// Publishes messages.
pub struct Publisher {
    inner: BaseProducer<Context>,
    confirmed: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    receipts: Receipts,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

impl Publisher {
    /// A publisher; no broker is needed yet.
    ///
    /// # Errors
    /// A setting that cannot be.
    pub fn new(
        brokers: &str,
        settings: &KafkaSettings,
        news: News,
    ) -> Result<Publisher, PublishError> {
        let (confirmed, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let link = Link::new(brokers, news);
        let receipts = Receipts::default();
        let context = Context {
            link,
            confirmed: confirmed.clone(),
            refused: refused.clone(),
            receipts: receipts.clone(),
        };
        let made = settings.producer(brokers).create_with_context(context);
        let inner = made.map_err(|cause| PublishError::Setup {
            brokers: brokers.to_owned(),
            cause: Box::new(cause),
        })?;
        Ok(Publisher { inner, confirmed, refused, receipts })
    }

    /// Puts a message into the queue; waits for room up to `patience`.
    ///
    /// # Errors
    /// There was no room, or librdkafka does not take the message.
    pub fn publish(
        &self,
        topic: &str,
        value: &[u8],
        timestamp_ms: i64,
        patience: Duration,
    ) -> Result<(), PublishError> {
        self.put(topic, value, timestamp_ms, patience, 0)
    }

    /// The same; once the broker has the message, [`Publisher::receipts`] gives `receipt`.
    pub fn publish_for(
        &self,
        receipt: u64,
        topic: &str,
        value: &[u8],
        timestamp_ms: i64,
        patience: Duration,
    ) -> Result<(), PublishError> {
        self.put(topic, value, timestamp_ms, patience, receipt as usize + 1)
    }

    /// The receipts of messages that were confirmed since the last time, and of those that are too large for the broker:
    /// sent again they would be refused again.
    pub fn receipts(&self) -> Vec<u64> {
        self.receipts.lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default()
    }

    fn put(
        &self,
        topic: &str,
        value: &[u8],
        timestamp_ms: i64,
        patience: Duration,
        receipt: usize,
    ) -> Result<(), PublishError> {
        let begun = Instant::now();
        loop {
            let record: BaseRecord<'_, (), [u8], usize> =
                BaseRecord::with_opaque_to(topic, receipt).payload(value).timestamp(timestamp_ms);
            match self.inner.send(record) {
                Ok(()) => {
                    self.inner.poll(Duration::ZERO);
                    return Ok(());
                }
                Err((error, _)) => {
                    let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
                    if !full || begun.elapsed() >= patience {
                        let topic = topic.to_owned();
                        return Err(PublishError::Refused { topic, cause: Box::new(error) });
                    }
                    self.inner.poll(Duration::from_millis(10));
                }
            }
        }
    }

    /// Asks the brokers for a topic, as whoever publishes there does: one that makes topics makes it, which takes a moment. Says
    /// nothing: whether it is there is asked elsewhere.
    pub fn want(&self, topic: &str, patience: Duration) {
        let _ = self.inner.client().fetch_metadata(Some(topic), patience);
    }

    /// Processes confirmations. Must be called regularly.
    pub fn poll(&self) {
        self.inner.poll(Duration::ZERO);
    }

    /// Waits until everything is confirmed or refused.
    ///
    /// # Errors
    /// That took longer than `patience`.
    pub fn flush(&self, patience: Duration) -> Result<(), PublishError> {
        self.inner.flush(patience).map_err(|_| PublishError::Unconfirmed {
            waiting: self.inner.in_flight_count(),
            seconds: patience.as_secs(),
        })
    }

    /// Messages that are neither confirmed nor refused yet.
    pub fn waiting(&self) -> usize {
        usize::try_from(self.inner.in_flight_count()).unwrap_or(0)
    }

    /// Messages that a broker confirmed.
    pub fn confirmed(&self) -> u64 {
        self.confirmed.load(Relaxed)
    }

    /// Messages that a broker refused for good.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}
