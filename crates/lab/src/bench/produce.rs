//! Messages to the brokers of `lab capacity --measure brokers`.

use std::time::{Duration, Instant};

use fullcount_kafka::{Address, KafkaSettings, Publisher};
use fullcount_messages::EventWriter;

use super::costs::{EVENTS, batch};
use super::now_ms;
use crate::Tell;

/// Bytes a second of messages that brokers confirm.
pub fn produce(time: Duration, address: &Address, tell: Tell) -> anyhow::Result<f64> {
    let publisher = Publisher::new(&address.brokers, &KafkaSettings::new([]), tell)?;
    let mut writer = EventWriter::new();
    let payload = writer.ev44("capacity", 1, &batch(EVENTS, 0))?;
    let now = || now_ms() as i64;
    let patience = Duration::from_secs(30);
    // The first message finds the brokers and makes the topic.
    publisher.publish(&address.topic, payload, now(), patience)?;
    publisher.flush(patience)?;
    let (begun, first) = (Instant::now(), publisher.confirmed());
    anyhow::ensure!(first == 1, "{}: the brokers refused the first message", address.topic);
    while begun.elapsed() < time {
        publisher.publish(&address.topic, payload, now(), patience)?;
    }
    publisher.flush(patience)?;
    let passed = begun.elapsed().as_secs_f64();
    anyhow::ensure!(publisher.refused() == 0, "{}: the brokers refused messages", address.topic);
    Ok((publisher.confirmed() - first) as f64 * payload.len() as f64 / passed)
}
