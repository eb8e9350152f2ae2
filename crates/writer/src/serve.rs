//! The writer with its broker: orders in, messages to jobs, answers out, until it is told to end.
//!
//! One loop on one thread. Orders and data come through queues of librdkafka; what the [`Service`] says goes out by a
//! publisher, and is forgotten once the broker has confirmed it. If the broker is down, it waits. The service refuses
//! orders. Source: `docs/write.md`.

mod answers;
mod data;
mod topics;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullcount_kafka::{ConsumeError, EndWish, KafkaSettings, PublishError, Publisher};
use fullcount_log::{info, warning};

use super::service::{Options, Service, WriterError};
use super::summary::WriterSummary;
use answers::Answers;
use data::Data;
use topics::{Directory, Orders};

/// Rest after a turn in which nothing came. It doubles to the longest: a broker's next 10 MB come within some ms.
const REST: Duration = Duration::from_millis(1);
const LONGEST_REST: Duration = Duration::from_millis(10);

/// A writer and its broker.
#[derive(Debug, Clone)]
pub struct WriterSetup {
    /// Brokers, checked by [`fullcount_kafka::check_brokers`].
    pub brokers: String,
    /// librdkafka's own settings.
    pub settings: KafkaSettings,
    /// Consumer group of the writers that share the pool.
    pub group: String,
    /// The service; at least one of its two topics is named.
    pub options: Options,
    /// Ends when so many files are complete.
    pub files: Option<usize>,
    /// Leaves unfinished files to the next start.
    pub keep_jobs: bool,
}

/// A writer that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The service cannot start.
    #[error(transparent)]
    Service(#[from] WriterError),
    /// No consumer can be made.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
    /// No publisher can be made.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

/// What is heard of brokers.
fn told(text: &str) {
    warning!("{}", text.strip_prefix("fullcount: ").unwrap_or(text));
}

/// ms since 1970; the time of control systems and of Kafka.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

/// Writes files until `wish` says to end, or as many are complete as were wanted. What people should see is a message.
/// `None` if the end was asked for before any broker answered.
///
/// # Errors
/// The folder or its journals cannot be used, or librdkafka cannot be set up.
pub fn serve(
    setup: WriterSetup,
    wish: &dyn Fn() -> EndWish,
) -> Result<Option<WriterSummary>, ServeError> {
    let WriterSetup { brokers, settings, group, options, files, keep_jobs } = setup;
    let begun = Instant::now();
    let directory = Directory::new(&brokers, &settings)?;
    // A job that goes on after a restart needs its topics: a broker that is away is waited for.
    let pool = options.pool_topic.clone();
    let any = pool.as_deref().or(options.control_topic.as_deref()).unwrap_or_default();
    if !directory.wait(any, wish) {
        return Ok(None);
    }
    let mut answers = Answers::new(Publisher::new(&brokers, &settings, told)?);
    let (folder, heartbeat) = (options.folder.clone(), options.heartbeat);
    let longest_turn = heartbeat.min(Duration::from_millis(100));
    let mut service = Service::new(options, now_ms(), &directory)?;
    let mut orders = Orders::new(&brokers, &settings, pool.as_deref(), &group)?;
    orders.since(service.heard_ms());
    let mut data = Data::new(&brokers, &settings);
    info!("writing below {}", folder.display());
    let mut rest = REST;
    while wish() == EndWish::GoOn && files.is_none_or(|n| service.files().len() < n) {
        let mut busy = orders.poll(&mut service, &directory);
        service.ask(now_ms(), &directory);
        if orders.caught_up(&service) {
            busy |= data.poll(&mut service, longest_turn)?;
        }
        service.tick(now_ms());
        answers.publish(&mut service);
        if busy {
            rest = REST;
        } else {
            // Orders and data come through queues of librdkafka: nothing is lost while this sleeps.
            std::thread::sleep(rest);
            rest = (2 * rest).min(LONGEST_REST);
        }
    }
    service.end(now_ms(), keep_jobs);
    answers.farewell(&mut service, &brokers, wish);
    Ok(Some(WriterSummary::new(&service, begun.elapsed())))
}
