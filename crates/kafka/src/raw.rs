//! Raw readout packets to a topic: each an ar51 message, through its own [spool](fullcount_spool).
//!
//! Headers say what the payload does not: who sent the packet, when it came, and the epoch of its ticks. The key keeps
//! packets that must be processed together on one partition. Everything else is as in [`super::KafkaSink`]. Refuses
//! what [`KafkaOptions::validate`] does. Source: `docs/formats/flatbuffers.md` section 3.2; `docs/raw.md`.

use std::net::SocketAddr;
use std::sync::Arc;

use fullcount_core::batch::Origin;
use fullcount_core::ledger::Sheet;

use super::options::{KafkaOptions, MessageId};
use super::way::{Appended, Lines, Way, lines};
use fullcount_core::sink::{Report, SinkError};
use fullcount_messages::{Message, RawReadout};
use fullcount_spool::Outgoing;

/// Header with the sender's address and port, as text: `10.0.0.1:50011`, `[2001:db8::1]:9`.
pub const SOURCE_HEADER: &str = "fc.src";
/// Header with the receive time, ns since 1970 UTC, as decimal text.
pub const TIME_HEADER: &str = "fc.time_ns";
/// Header with the time of tick 0, ns since 1970 UTC, as decimal text.
pub const EPOCH_HEADER: &str = "fc.epoch";

/// Name in the summary.
const NAME: &str = "raw";

fullcount_core::counters! {
    /// Counters of the sending side of raw packets; packets that it did not get are counted by its taps.
    pub enum RawCounter {
        Recovered "sink.raw.recovered" Packets Sum "sink.raw" In "packets of an earlier run that were in the spool" "";
        Sent "sink.raw.written" Packets Sum "sink.raw" Accepted "packets in messages that the broker has confirmed" "";
        Waiting "sink.raw.queued" Packets Sum "sink.raw" Queued "packets on their way or in the spool" "";
        Refused "sink.raw.refused" Packets Sum "sink.raw" Dropped(Queue) "packets in messages that the broker or librdkafka refuses for good" "the message on standard error says why; a message that is too large needs a larger message.max.bytes on broker and topic";
        Failed "sink.raw.failed" Packets Sum "sink.raw" Dropped(Queue) "packets not sent because the spool had failed, or was full at the end of the run" "the message says why: room on the disk, its permissions, or a broker that is away";
        Damaged "sink.raw.damaged" Packets Sum "sink.raw" Dropped(Queue) "packets in messages of the spool that were damaged on the disk, as far as it is known how many they had" "check the disk";
        Bytes "sink.raw.bytes" Bytes Sum "sink.raw" Note "payload of confirmed messages" "";
        Already "sink.raw.already" Messages Sum "sink.raw" Note "messages of an earlier run that were found on the topic, and not sent again" "";
        SpoolMessages "raw.spool.messages" Messages Present "sink.raw" Note "messages in the spool that the broker has not confirmed" "if it grows: the broker is away or too slow";
        SpoolBytes "raw.spool.bytes" Bytes Present "sink.raw" Note "size of the spool's files" "";
        SpoolLimit "raw.spool.limit" Bytes Present "sink.raw" Note "most bytes of the spool's files: output.raw.spool_size" "";
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

/// Lines of the sheet that the way to the spool fills.
const LINES: Lines = lines!(RawCounter: Recovered SpoolUnreadable SpoolTorn SpoolFull Sent Bytes Already Refused
    SpoolDamaged Damaged Sessions Errors SpoolMessages SpoolBytes SpoolLimit SpoolNearlyFull SpoolAge Waiting);

/// Sends packets to a topic.
pub struct RawSink {
    way: Way,
    source_name: String,
    key: RawKey,
    epoch: String,
    next_id: u64,
}

impl RawSink {
    /// Opens the spool and starts to send. No broker is needed. `epoch_ns`: time of tick 0.
    ///
    /// # Errors
    /// The spool cannot be used.
    pub fn open(options: KafkaOptions, key: RawKey, epoch_ns: i64) -> Result<RawSink, SinkError> {
        let sheet = Sheet::new(RawCounter::catalogue());
        let (mut way, start) = Way::open(NAME, options, (sheet, LINES))?;
        let next_id = match way.options.message_id {
            // Numbers of ar51 begin at 0, those of the spool at 1.
            MessageId::Continue => start.next_id.saturating_sub(1),
            MessageId::Restart => 0,
        };
        let news = way.options.news;
        start.told.iter().for_each(|told| news(&format!("raw spool: {told}")));
        way.start(start)?;
        let source_name = way.options.stream.source_name.clone();
        Ok(RawSink { way, source_name, key, epoch: epoch_ns.to_string(), next_id })
    }

    /// Counters.
    pub fn sheet(&self) -> Arc<Sheet> {
        self.way.sheet.clone()
    }

    /// Writes one packet to the spool; waits if that is full.
    pub fn send(&mut self, packet: &[u8], origin: Origin, time_ns: i64) {
        let message = RawReadout {
            source_name: &self.source_name,
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
            RawKey::All => self.source_name.as_bytes(),
        };
        let message = Outgoing {
            key: Some(key),
            headers,
            payload: &payload,
            // The spool's count begins at 1, see `open`.
            message_id: self.next_id + 1,
            events: 1,
        };
        match self.way.append(&message, 0) {
            Appended::Safe => self.next_id += 1,
            Appended::Refused => {}
            Appended::Late | Appended::Failed => {
                self.way.sheet.add(RawCounter::Failed as usize, 1);
            }
        }
    }

    /// Copies what others count into the sheet.
    pub fn refresh(&self) {
        self.way.refresh(0);
    }

    /// True while every packet that it was given is in the spool, or can never be sent.
    pub fn has_all(&self) -> bool {
        self.way.sheet.get(RawCounter::Failed as usize) == 0
    }

    /// Why it failed, if it has.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<(), SinkError> {
        self.way.failed.as_ref().map_or(Ok(()), |error| Err(self.way.error(error)))
    }

    /// Waits until all is confirmed, no longer than the options say; the rest stays in the spool.
    ///
    /// # Errors
    /// The spool failed.
    pub fn finish(mut self) -> Result<Report, SinkError> {
        let finished = self.way.finish();
        self.refresh();
        let depth = self.way.spool.depth();
        if depth.messages > 0 {
            let folder = self.way.options.spool.display();
            self.way.link.tell(&format!(
                "{} raw packets are not confirmed and wait in {folder}: the next start sends them",
                depth.messages
            ));
        }
        self.check()?;
        finished?;
        Ok(self.way.report())
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
