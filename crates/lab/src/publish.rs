//! What `send` publishes to Kafka: simulated values of a [`Facility`], or the start and stop of a run.
//!
//! The start of a run is answered by a writer ([`WriterAnswers`]); what nobody confirms is an error.
//! Source: `docs/formats/flatbuffers.md` sections 4 and 5.

mod answers;
mod facility;
mod order;
mod structure;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullcount_kafka::{Address, EndWish, KafkaSettings, Publisher, confirm};

use crate::Tell;

pub use answers::WriterAnswers;
pub use facility::Facility;
pub use order::RunOrder;
pub use structure::{EventSource, EventSources, readable, structure};

/// Values of a round.
const ROUND: f64 = 4.0;
/// A broker that is away, and an answer, are waited for so long.
const PATIENCE: Duration = Duration::from_secs(30);

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn now_ms() -> u64 {
    now().as_millis() as u64
}

/// What was published.
#[derive(Debug, Clone, Copy)]
pub struct Published {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that the brokers have confirmed.
    pub confirmed: u64,
    /// Messages that they have refused.
    pub refused: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// How many simulated values, how fast, how long.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedValues {
    /// Seed of their noise.
    pub seed: u64,
    /// Messages at most.
    pub count: u64,
    /// Messages a second.
    pub rate: f64,
    /// Time at most.
    pub duration: Option<Duration>,
}

/// Sends to one topic.
pub struct TopicSender {
    address: Address,
    settings: KafkaSettings,
    publisher: Publisher,
    tell: Tell,
}

impl TopicSender {
    /// Opens it; brokers that are away are waited for later.
    ///
    /// # Errors
    /// Settings that librdkafka does not take.
    pub fn new(
        address: Address,
        settings: KafkaSettings,
        tell: Tell,
    ) -> anyhow::Result<TopicSender> {
        let publisher = Publisher::new(&address.brokers, &settings, tell)?;
        Ok(TopicSender { address, settings, publisher, tell })
    }

    /// Listens to a writer's answers to the orders of `run`; `None`: it has no control topic.
    ///
    /// # Errors
    /// A control topic that is not there.
    pub fn answers(&self, run: &RunOrder) -> anyhow::Result<Option<WriterAnswers>> {
        let Some(topic) = &run.control else { return Ok(None) };
        let (brokers, id) = (&self.address.brokers, &run.job_id);
        WriterAnswers::new(brokers, &self.settings, topic, id, PATIENCE).map(Some)
    }

    /// Sends simulated values until they are all sent or the end is wished for. What nobody confirmed is the second error.
    ///
    /// # Errors
    /// Brokers that take nothing.
    pub fn values(
        &self,
        values: &SimulatedValues,
        wish: &dyn Fn() -> EndWish,
    ) -> anyhow::Result<(Published, anyhow::Result<()>)> {
        let ended = || wish() != EndWish::GoOn;
        let mut facility = Facility::new(values.seed);
        let (begun, every) = (Instant::now(), Duration::from_secs_f64(ROUND / values.rate));
        let (mut sent, mut bytes, mut round) = (0u64, 0u64, 0u32);
        'rounds: while !ended() && sent < values.count {
            let due = every * round;
            if values.duration.is_some_and(|end| due >= end) {
                break;
            }
            while let Some(rest) = due.checked_sub(begun.elapsed()).filter(|_| !ended()) {
                self.publisher.poll();
                std::thread::sleep(rest.min(Duration::from_millis(100)));
            }
            let ns = i64::try_from(now().as_nanos()).unwrap_or(i64::MAX);
            for value in facility.round(ns) {
                let (topic, time) = (&self.address.topic, now_ms() as i64);
                self.publisher.publish(topic, &value, time, PATIENCE)?;
                sent += 1;
                bytes += value.len() as u64;
                if sent == values.count {
                    break 'rounds;
                }
            }
            round += 1;
        }
        let confirmed = self.confirm(wish);
        Ok((self.published(sent, bytes, begun), confirmed))
    }

    /// Starts a run, waits, and stops it. `start_ms`: its start, ms since 1970; `None`: now.
    ///
    /// # Errors
    /// Brokers that take nothing, a writer that refuses an order, and orders that nobody answers.
    pub fn run(
        &self,
        (run, start_ms): (&RunOrder, Option<u64>),
        mut answers: Option<WriterAnswers>,
        duration: Option<Duration>,
        wish: &dyn Fn() -> EndWish,
    ) -> anyhow::Result<Published> {
        let begun = Instant::now();
        let tell = |text: String| (self.tell)(&text);
        let start = run.start(start_ms.unwrap_or_else(now_ms));
        let mut bytes = start.len() as u64;
        self.send(&self.address.topic, &start, wish)?;
        tell(format!("job {}: start sent to {}", run.job_id, self.address.topic));
        if answers.is_none() {
            tell(
                "whether a writer takes it is not known without --control, the topic of its answers"
                    .into(),
            );
        }
        let mut started = Started { run, said: false, tell: self.tell };
        while wish() == EndWish::GoOn && duration.is_none_or(|end| begun.elapsed() < end) {
            match &mut answers {
                None => std::thread::sleep(Duration::from_millis(20)),
                Some(answers) => answers.take(Duration::from_millis(20))?,
            }
            started.say(answers.as_ref());
        }
        let order = run.stop(now_ms());
        bytes += order.len() as u64;
        self.send(run.control.as_deref().unwrap_or(&self.address.topic), &order, wish)?;
        tell(format!("job {}: stop sent", run.job_id));
        if let Some(answers) = &mut answers {
            answers.start(PATIENCE)?;
            started.say(Some(answers));
            answers.both(PATIENCE)?;
            tell(format!("job {} stopped", run.job_id));
        }
        Ok(self.published(2, bytes, begun))
    }

    fn send(&self, topic: &str, value: &[u8], wish: &dyn Fn() -> EndWish) -> anyhow::Result<()> {
        self.publisher.publish(topic, value, now_ms() as i64, PATIENCE)?;
        self.confirm(wish)
    }

    fn confirm(&self, wish: &dyn Fn() -> EndWish) -> anyhow::Result<()> {
        Ok(confirm(&self.publisher, &self.address.brokers, PATIENCE, &wish, self.tell)?)
    }

    fn published(&self, messages: u64, bytes: u64, begun: Instant) -> Published {
        Published {
            messages,
            bytes,
            confirmed: self.publisher.confirmed(),
            refused: self.publisher.refused(),
            elapsed: begun.elapsed(),
        }
    }
}

/// Says once that a writer took the run: not when it was asked to.
struct Started<'a> {
    run: &'a RunOrder,
    said: bool,
    tell: Tell,
}

impl Started<'_> {
    fn say(&mut self, answers: Option<&WriterAnswers>) {
        // A refusal has ended the verb already.
        if !self.said && answers.is_some_and(|answers| answers.start.is_some()) {
            self.said = true;
            (self.tell)(&format!("job {} started: {}", self.run.job_id, self.run.file));
        }
    }
}
