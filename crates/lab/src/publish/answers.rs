//! What the writer says to the orders of a simulated run: a refused run must not look like one that was written.
//!
//! Listens to the control topic from before the start is sent. Fails for an order that was refused, and for one that
//! nobody answered. Source: `docs/formats/flatbuffers.md` section 5.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fullcount_core::text::is_control;
use fullcount_kafka::{Begin, Consumer, ConsumerOptions, KafkaSettings, Polled};
use fullcount_messages::{Action, AnswerOutcome, Message, decode};

/// Listens to what the writer says.
pub struct WriterAnswers {
    consumer: Consumer,
    topic: String,
    job_id: String,
    /// Code of the answer to the start, once it is there.
    pub start: Option<i32>,
    /// Code of the answer to the stop.
    pub stop: Option<i32>,
}

impl WriterAnswers {
    /// Listens from now on; waits up to `patience` for the topic to be there.
    pub fn new(
        brokers: &str,
        settings: &KafkaSettings,
        topic: &str,
        job_id: &str,
        patience: Duration,
    ) -> anyhow::Result<WriterAnswers> {
        let options = ConsumerOptions {
            tell_ends: false,
            settings: settings.clone(),
            ..ConsumerOptions::new(brokers)
        };
        let consumer = Consumer::new(&options)?;
        let end = Instant::now() + patience;
        let partitions = loop {
            match consumer.topic(topic) {
                Ok(Some(partitions)) if partitions > 0 => break partitions,
                _ if Instant::now() < end => std::thread::sleep(Duration::from_millis(100)),
                Ok(_) => bail!("topic {topic} (--control) is not on the broker; create it"),
                Err(e) => return Err(e.into()),
            }
        };
        let newest = |partition| {
            // Where it ends now: "the newest" would be looked up later, behind the first answer perhaps.
            let (_, end) = consumer.offsets(topic, partition)?;
            Ok((topic, partition, Begin::At(end)))
        };
        let list = (0..partitions).map(newest).collect::<anyhow::Result<Vec<_>>>()?;
        consumer.assign(&list)?;
        let (topic, job_id) = (topic.to_owned(), job_id.to_owned());
        Ok(WriterAnswers { consumer, topic, job_id, start: None, stop: None })
    }

    /// Takes what has come within `time`. Fails for a refusal.
    pub fn take(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            let Polled::Message(message) = self.consumer.poll(rest)? else { return Ok(()) };
            let Ok(Message::Answ(answer)) = decode(message.payload()) else { continue };
            if answer.job_id != self.job_id {
                continue;
            }
            let of = match answer.action {
                Action::StartJob => &mut self.start,
                Action::SetStopTime => &mut self.stop,
            };
            *of = Some(answer.status_code);
            if answer.outcome == AnswerOutcome::Failure {
                // A line of its own in it would look like one of ours.
                let words = answer.message.unwrap_or("without a reason");
                let words = words.replace(is_control, " ");
                let (action, code) = (answer.action, answer.status_code);
                bail!("writer {}: {action:?} refused ({code}): {words}", answer.service_id);
            }
        }
    }

    /// Waits until the start is answered.
    pub fn start(&mut self, patience: Duration) -> anyhow::Result<()> {
        self.until("start", patience, |answers| answers.start.is_some())
    }

    /// Waits until both orders are answered.
    pub fn both(&mut self, patience: Duration) -> anyhow::Result<()> {
        self.start(patience)?;
        self.until("stop", patience, |answers| answers.stop.is_some())
    }

    fn until(
        &mut self,
        order: &str,
        patience: Duration,
        done: fn(&WriterAnswers) -> bool,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + patience;
        while !done(self) {
            if Instant::now() >= end {
                let seconds = patience.as_secs();
                bail!("no writer answered the {order} on {} within {seconds} s", self.topic);
            }
            self.take(Duration::from_millis(100)).context("the run is not written")?;
        }
        Ok(())
    }
}
