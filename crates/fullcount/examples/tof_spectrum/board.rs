//! The topic with the spectra: the newest of each partition, read and published.
//!
//! A spectrum of a partition says up to which offset it has counted (`next_offset`). It depends on nothing but what the
//! partition holds up to there, so whoever made it, the one that has counted furthest is right. Refuses spectra with
//! other bins under the same name.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use fullcount_kafka::{Begin, Consumer, ConsumerOptions, KafkaSettings, Polled, Publisher};

use crate::now;
use crate::spectrum::{Bins, Spectrum};

/// A broker that is away is waited for so long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What was counted of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Its spectrum.
    pub spectrum: Spectrum,
    /// Offset of the first message that is not counted yet.
    pub next: i64,
}

/// The topic with the spectra.
pub struct Board {
    consumer: Consumer,
    publisher: Publisher,
    topic: String,
    name: String,
    bins: Bins,
    /// Offsets of the next messages, by partition; empty as long as there is no such topic.
    places: BTreeMap<i32, i64>,
    newest: BTreeMap<i32, Share>,
}

impl Board {
    /// A topic that need not be there yet.
    pub fn new(
        brokers: &str,
        settings: &KafkaSettings,
        topic: &str,
        name: &str,
        bins: Bins,
    ) -> Result<Board> {
        let news = |text: &str| eprintln!("{text}");
        let options =
            ConsumerOptions { settings: settings.clone(), news, ..ConsumerOptions::new(brokers) };
        Ok(Board {
            consumer: Consumer::new(&options)?,
            publisher: Publisher::new(brokers, settings, news)?,
            topic: topic.to_owned(),
            name: name.to_owned(),
            bins,
            places: BTreeMap::new(),
            newest: BTreeMap::new(),
        })
    }

    /// Reads to the end of the topic as it is now; gives the newest spectrum of each partition.
    pub fn read(&mut self) -> Result<&BTreeMap<i32, Share>> {
        if self.places.is_empty() {
            let partitions = 0..self.consumer.partitions(&self.topic)?;
            let all: Vec<_> =
                partitions.clone().map(|p| (self.topic.as_str(), p, Begin::Oldest)).collect();
            if all.is_empty() {
                return Ok(&self.newest);
            }
            self.consumer.assign(&all)?;
            self.places = partitions.map(|p| (p, 0)).collect();
        }
        let mut ends = BTreeMap::new();
        for &partition in self.places.keys() {
            let (oldest, end) = self.consumer.offsets(&self.topic, partition)?;
            if end > oldest {
                ends.insert(partition, end);
            }
        }
        let begun = std::time::Instant::now();
        while ends.iter().any(|(p, end)| self.places[p] < *end) {
            if begun.elapsed() > PATIENCE {
                bail!("topic {}: not read to its end within {PATIENCE:?}", self.topic);
            }
            let Polled::Message(m) = self.consumer.poll(Duration::from_millis(100))? else {
                continue;
            };
            self.places.insert(m.partition(), m.offset() + 1);
            let Some((source, spectrum, Some(next))) = Spectrum::decode(m.payload()) else {
                continue;
            };
            let partition = source.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('/'));
            let Some(Ok(partition)) = partition.map(str::parse::<i32>) else { continue };
            if spectrum.bins != self.bins {
                let Bins { from_ns, width_ns, count } = spectrum.bins;
                bail!(
                    "topic {}: {source} has {count} bins of {width_ns} ns from {from_ns} ns: give the \
                     same bins, or another --name",
                    self.topic
                );
            }
            if self.newest.get(&partition).is_none_or(|known| known.next <= next) {
                self.newest.insert(partition, Share { spectrum, next });
            }
        }
        Ok(&self.newest)
    }

    /// The sum over all partitions, as it was last read.
    pub fn total(&self) -> Spectrum {
        let mut total = Spectrum::new(self.bins);
        self.newest.values().for_each(|share| total.add(&share.spectrum));
        total
    }

    /// Publishes what was counted of a partition; to be followed by [`Board::confirm`].
    pub fn publish(&self, partition: i32, share: &Share) -> Result<()> {
        self.send(&format!("{}/{partition}", self.name), &share.spectrum, Some(share.next))
    }

    /// Publishes the sum.
    pub fn publish_total(&self) -> Result<()> {
        self.send(&self.name, &self.total(), None)
    }

    fn send(&self, name: &str, spectrum: &Spectrum, next: Option<i64>) -> Result<()> {
        let now = now();
        let message = spectrum.encode(name, now.as_nanos() as i64, next);
        Ok(self.publisher.publish(&self.topic, &message, now.as_millis() as i64, PATIENCE)?)
    }

    /// Waits until the broker has what was published.
    pub fn confirm(&self) -> Result<()> {
        self.publisher.flush(PATIENCE)?;
        if self.publisher.refused() > 0 {
            bail!("topic {}: the broker refused spectra", self.topic);
        }
        Ok(())
    }
}
