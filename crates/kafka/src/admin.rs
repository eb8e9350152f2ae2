//! Creates and removes topics, for measurements that leave nothing behind.
//!
//! The service itself creates no topics: the facility decides on their partitions and replicas. Fails with the broker's
//! message, or if no broker answers within 15 s.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication, TopicResult};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, KafkaResult};

use super::settings::KafkaSettings;

/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(15);

/// A topic that could not be made or removed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum AdminError {
    /// No connection, no answer, or a setting that cannot be.
    #[error("kafka {brokers}: {cause}; is a broker there?")]
    Broker { brokers: String, cause: Box<KafkaError> },
    /// The broker said no.
    #[error("kafka topic {topic}: {reason}")]
    Topic { topic: String, reason: String },
}

/// Makes and removes topics.
pub struct Admin {
    inner: AdminClient<DefaultClientContext>,
    brokers: String,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").field("brokers", &self.brokers).finish_non_exhaustive()
    }
}

impl Admin {
    /// No broker is asked yet.
    ///
    /// # Errors
    /// A setting that cannot be.
    pub fn new(brokers: &str, settings: &KafkaSettings) -> Result<Admin, AdminError> {
        let brokers = brokers.to_owned();
        match settings.producer(&brokers).create() {
            Ok(inner) => Ok(Admin { inner, brokers }),
            Err(cause) => Err(AdminError::Broker { brokers, cause: Box::new(cause) }),
        }
    }

    /// Creates a topic with one replica, this many partitions and these broker settings, under the broker's names.
    ///
    /// # Errors
    /// The broker's message; no answer.
    pub fn create(
        &self,
        topic: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> Result<(), AdminError> {
        let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        new.config.extend_from_slice(settings);
        let options = options();
        self.done(topic, wait(self.inner.create_topics([&new], &options)))
    }

    /// Removes a topic; the broker frees its disk when it comes to it.
    ///
    /// # Errors
    /// The broker's words; no answer.
    pub fn remove(&self, topic: &str) -> Result<(), AdminError> {
        let options = options();
        self.done(topic, wait(self.inner.delete_topics(&[topic], &options)))
    }

    fn done(&self, topic: &str, answer: KafkaResult<Vec<TopicResult>>) -> Result<(), AdminError> {
        let brokers = || self.brokers.clone();
        let all =
            answer.map_err(|e| AdminError::Broker { brokers: brokers(), cause: Box::new(e) })?;
        match all.into_iter().find_map(Result::err) {
            None => Ok(()),
            Some((_, code)) => {
                Err(AdminError::Topic { topic: topic.to_owned(), reason: code.to_string() })
            }
        }
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ANSWER)).operation_timeout(Some(ANSWER))
}

/// Wakes a thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// librdkafka's answers come as futures; one thread that waits for one of them needs no runtime.
fn wait<F: Future>(answer: F) -> F::Output {
    let mut answer = pin!(answer);
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match answer.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_from_another_thread_is_waited_for() {
        let (tell, told) = std::sync::mpsc::channel();
        let mut asked = false;
        let answer = std::future::poll_fn(move |context: &mut Context<'_>| {
            if std::mem::replace(&mut asked, true) {
                return Poll::Ready(42);
            }
            tell.send(context.waker().clone()).unwrap();
            Poll::Pending
        });
        let waking = std::thread::spawn(move || told.recv().unwrap().wake());
        assert_eq!(wait(answer), 42);
        waking.join().unwrap();
    }
}
