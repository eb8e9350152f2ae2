//! Raw readout packets to a topic: each an ar51 message, through a [spool](crate::spool) of its own.
//!
//! Headers say what the payload does not: who sent the packet, when it came, and the epoch of its ticks. The
//! key keeps packets that must meet on one partition. Everything else is as in [`super::KafkaSink`]. Refuses what
//! [`KafkaOptions::validate`] does. Source: `docs/formats/flatbuffers.md` section 3.2; `docs/raw.md`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use fullcount_core::batch::Origin;
use fullcount_core::ledger::Sheet;

use super::farewell::Farewell;
use super::level::Level;
use super::link::Link;
use super::options::{KafkaOptions, MessageId};
use super::sender::{Sender, Tally};
use crate::flat::{Message, RawReadout};
use crate::sink::{Report, SinkError};
use crate::spool::{AppendError, Outgoing, Spool, SpoolError};

/// Header with the sender's address and port, as text: `10.0.0.1:50011`, `[2001:db8::1]:9`.
pub const SOURCE_HEADER: &str = "fc.src";
/// Header with the receive time, ns since 1970 UTC, as decimal text.
pub const TIME_HEADER: &str = "fc.time_ns";
/// Header with the time of tick 0, ns since 1970 UTC, as decimal text.
pub const EPOCH_HEADER: &str = "fc.epoch";

/// Name in the summary.
const NAME: &str = "raw";

fullcount_core::counters! {
    /// What the sending side of raw packets counts; what it was not given, its taps count.
    pub enum RawCounter {
        Recovered "sink.raw.recovered" Packets Sum "sink.raw" In "packets of an earlier run that were in the spool" "";
        Sent "sink.raw.written" Packets Sum "sink.raw" Accepted "packets in messages that the broker has confirmed" "";
        Waiting "sink.raw.queued" Packets Sum "sink.raw" Queued "packets on their way or in the spool" "";
        Refused "sink.raw.refused" Packets Sum "sink.raw" Dropped(Queue) "packets in messages that the broker or librdkafka refuses for good" "the message on standard error says why; a message that is too large needs a larger message.max.bytes on broker and topic";
        Failed "sink.raw.failed" Packets Sum "sink.raw" Dropped(Queue) "packets not sent because the spool had failed, or was full at the end of the run" "the message says why: room on the disk, its permissions, or a broker that is away";
        Damaged "sink.raw.damaged" Packets Sum "sink.raw" Dropped(Queue) "packets in messages of the spool that were damaged on the disk, as far as it is known how many they had" "check the disk";
        Bytes "sink.raw.bytes" Bytes Sum "sink.raw" Note "payload of confirmed messages" "";
        Already "sink.raw.already" Messages Sum "sink.raw" Note "messages of an earlier run that were found on the topic, and not sent again" "";
        SpoolMessages "raw.spool.messages" Messages Sum "sink.raw" Note "messages in the spool that the broker has not confirmed" "if it grows: the broker is away or too slow";
        SpoolBytes "raw.spool.bytes" Bytes Sum "sink.raw" Note "size of the spool's files" "";
        SpoolLimit "raw.spool.limit" Bytes Sum "sink.raw" Note "most bytes of the spool's files: output.raw.spool_size" "";
        SpoolNearlyFull "raw.spool.nearly_full" Times Sum "sink.raw" Note "times that the spool came to be 80 % full" "the broker is away or too slow: start it, or make output.raw.spool_size larger";
        SpoolAge "raw.spool.age_ms" Times Max "sink.raw" Note "age of the oldest message in the spool, ms" "if it grows: the broker is away or too slow";
        SpoolFull "raw.spool.full" Times Sum "sink.raw" Note "times that a message had to wait because the spool or its disk was full" "the broker is away or too slow: make output.raw.spool_size larger, or output.raw.every";
        SpoolDamaged "raw.spool.damaged" Messages Sum "sink.raw" Missing(Queue) "messages of the spool that were damaged or missing on the disk, and that the topic does not have" "check the disk";
        SpoolUnreadable "raw.spool.unreadable" Times Sum "sink.raw" Note "files of the spool that were damaged, missing or of another spool; messages are lost only where raw.spool.damaged says so" "check the disk; what could not be read is kept in the folder as *.damaged";
        SpoolTorn "raw.spool.torn" Times Sum "sink.raw" Note "appends to the spool that were cut off by a kill: never completed" "";
        Errors "raw.errors" Times Sum "sink.raw" Note "errors that librdkafka reported: connections, time-outs, brokers down" "the message on standard error says why";
        Sessions "raw.sessions" Times Sum "sink.raw" Note "times that sending began anew after an error that librdkafka does not mend by itself" "the message on standard error says why";
    }
}

/// What keeps packets on one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawKey {
    /// Packets of one sender's address and port.
    Origin,
    /// All of them.
    All,
}

/// Sends packets to a topic.
pub struct RawSink {
    spool: Spool,
    sheet: Arc<Sheet>,
    tally: Arc<Tally>,
    link: Arc<Link>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    options: Arc<KafkaOptions>,
    key: RawKey,
    epoch: String,
    next_id: u64,
    /// Since the run was found to be asked to end while the spool was full.
    farewell: Option<Farewell>,
    /// How full the spool is.
    level: Level,
    failed: Option<AppendError>,
}

impl RawSink {
    /// Opens the spool and starts to send. No broker is needed. `epoch_ns`: time of tick 0.
    ///
    /// # Errors
    /// The spool cannot be used.
    pub fn open(options: KafkaOptions, key: RawKey, epoch_ns: i64) -> Result<RawSink, SinkError> {
        let sink = |message: String| SinkError { sink: NAME, message };
        let (spool, start) =
            Spool::open(options.spool_options()).map_err(|e: SpoolError| sink(e.to_string()))?;
        let next_id = match options.message_id {
            // Numbers of ar51 begin at 0, those of the spool at 1.
            MessageId::Continue => start.next_id.saturating_sub(1),
            MessageId::Restart => 0,
        };
        let sheet = Sheet::new(RawCounter::catalogue());
        sheet.set(RawCounter::Recovered as usize, start.events + start.damaged_events);
        sheet.set(RawCounter::SpoolUnreadable as usize, start.unreadable);
        sheet.set(RawCounter::SpoolTorn as usize, start.torn);
        let link = Arc::new(Link::new(&options.brokers, options.news));
        start.told.iter().for_each(|told| (options.news)(&format!("raw spool: {told}")));
        let (tally, end) = (Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
        let sender = Sender {
            options: options.clone(),
            spool: spool.clone(),
            start,
            tally: tally.clone(),
            link: link.clone(),
            stop: end.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("raw-send".into())
            .spawn(move || sender.run())
            .map_err(|e| sink(format!("starting a thread: {e}")))?;
        let epoch = epoch_ns.to_string();
        let thread = Some(thread);
        let (farewell, failed, options) = (None, None, Arc::new(options));
        Ok(RawSink {
            spool,
            sheet,
            tally,
            link,
            end,
            thread,
            options,
            key,
            epoch,
            next_id,
            farewell,
            level: Level::default(),
            failed,
        })
    }

    /// Counters.
    pub fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    /// Lays one packet into the spool; waits where that is full.
    pub fn send(&mut self, packet: &[u8], origin: Origin, time_ns: i64) {
        let message = RawReadout {
            source_name: &self.options.stream.source_name,
            message_id: self.next_id as i64,
            raw_data: Some(packet),
        };
        let payload = Message::Ar51(message).encode();
        let (from, time) = (origin.to_string(), time_ns.to_string());
        let all: [(&str, &[u8]); 3] = [
            (SOURCE_HEADER, from.as_bytes()),
            (TIME_HEADER, time.as_bytes()),
            (EPOCH_HEADER, self.epoch.as_bytes()),
        ];
        // A packet that came from nowhere has no sender to name.
        let headers = if origin == Origin::NONE { &all[1..] } else { &all[..] };
        let key = match self.key {
            RawKey::Origin => from.as_bytes(),
            RawKey::All => self.options.stream.source_name.as_bytes(),
        };
        let message = Outgoing {
            key: Some(key),
            headers,
            payload: &payload,
            // The spool's count begins at 1, see `open`.
            message_id: self.next_id + 1,
            events: 1,
        };
        let mut waited = false;
        loop {
            if self.failed.is_some() {
                return self.add(RawCounter::Failed, 1);
            }
            match self.spool.append(&message) {
                Ok(_) => {
                    self.next_id += 1;
                    return;
                }
                Err(AppendError::Full { .. }) => {}
                Err(error @ AppendError::DiskFull(_)) => self.link.say(&error.to_string()),
                Err(error @ AppendError::TooLarge { .. }) => {
                    self.link.say(&error.to_string());
                    self.tally.refused.fetch_add(1, Relaxed);
                    return;
                }
                Err(error @ AppendError::Spool(_)) => {
                    self.failed = Some(error);
                    continue;
                }
            }
            if !waited {
                waited = true;
                self.add(RawCounter::SpoolFull, 1);
            }
            if Farewell::is_due(&self.options) {
                let begin = || Farewell::begin(&self.options, &self.tally);
                let farewell = self.farewell.get_or_insert_with(begin);
                farewell.say(&self.link, &self.spool);
                if farewell.is_over() {
                    return self.add(RawCounter::Failed, 1);
                }
            }
            self.refresh();
            self.spool.wait(Duration::from_millis(20));
        }
    }

    fn add(&self, counter: RawCounter, n: u64) {
        self.sheet.add(counter as usize, n);
    }

    /// Copies what others count into the sheet.
    pub fn refresh(&self) {
        use RawCounter as C;
        let (tally, depth) = (&self.tally, self.spool.depth());
        if let Some(said) = self.level.look(&depth, &self.options, "output.raw") {
            self.link.tell(&said);
        }
        for (counter, value) in [
            (C::Sent, tally.events.load(Relaxed)),
            (C::Bytes, tally.bytes.load(Relaxed)),
            (C::Already, tally.already.load(Relaxed)),
            (C::Refused, tally.refused.load(Relaxed)),
            (C::SpoolDamaged, tally.damaged.load(Relaxed)),
            (C::Damaged, depth.damaged_events),
            (C::Sessions, tally.sessions.load(Relaxed)),
            (C::Errors, self.link.errors.load(Relaxed)),
            (C::SpoolMessages, depth.messages),
            (C::SpoolBytes, depth.bytes),
            (C::SpoolLimit, depth.limit),
            (C::SpoolNearlyFull, self.level.times()),
            (C::SpoolAge, depth.age_ms),
            (C::Waiting, depth.events),
        ] {
            self.sheet.set(counter as usize, value);
        }
    }

    /// Why it failed, if it has.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<(), SinkError> {
        match &self.failed {
            None => Ok(()),
            Some(error) => Err(SinkError { sink: NAME, message: error.to_string() }),
        }
    }

    /// Waits until all is confirmed, no longer than the options say; the rest stays in the spool.
    ///
    /// # Errors
    /// The spool failed.
    pub fn finish(mut self) -> Result<Report, SinkError> {
        // The time that a full spool has taken is not given again.
        let begun = self.farewell.take();
        let farewell = begun.unwrap_or_else(|| Farewell::begin(&self.options, &self.tally));
        farewell.wait(&self.link, &self.spool);
        self.end_sender();
        let finished = self.spool.finish();
        self.refresh();
        let depth = self.spool.depth();
        if depth.messages > 0 {
            let folder = self.options.spool.display();
            self.link.tell(&format!(
                "{} raw packets are not confirmed and wait in {folder}: the next start sends them",
                depth.messages
            ));
        }
        self.check()?;
        finished.map_err(|e| SinkError { sink: NAME, message: e.to_string() })?;
        Ok(Report {
            place: self.options.place(),
            events: self.tally.events.load(Relaxed),
            bytes: self.tally.bytes.load(Relaxed),
            rows: Vec::new(),
        })
    }

    fn end_sender(&mut self) {
        self.end.store(true, Relaxed);
        self.spool.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for RawSink {
    fn drop(&mut self) {
        self.end_sender();
        // Nobody is left to be told; what was appended is on disk either way.
        let _ = self.spool.finish();
    }
}

/// Who sent a packet, from the text of its header.
pub fn origin(text: &[u8]) -> Option<Origin> {
    let address: SocketAddr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(Origin::from(address))
}

/// A time from the text of its header.
pub fn time(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
