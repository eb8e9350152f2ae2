//! `[output.raw]`: received packets to a Kafka topic as ar51 messages, all of them or every n-th.
//!
//! Taps copy the packets where they are received, a thread writes them to the spool, and the spool's own thread sends
//! them. If the spool cannot keep up, packets of a source that does not wait are counted as `sink.raw.dropped`.
//! Refuses options out of range and invalid names of brokers or topics. Source: `docs/raw.md`.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fullcount_core::ledger::Sheet;
use fullcount_core::output::{
    Claim, DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, PacketOutput,
    PacketReport, Plan, Recording,
};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::sink::{Report, SinkError};
use fullcount_core::source::{Source, SourceError};
use fullcount_io::capture::{BUFFER_MAX, BUFFER_MIN, Captured, TapOptions, Taps, Turn, lines};
use fullcount_io::{quantity, section};

use super::kind::located;
use super::section::{EventsSection, RawSection};
use super::{KafkaOptions, KafkaSettings, RawCounter, RawKey, RawSink};

/// Path of the section.
const SECTION: &str = "output.raw";

/// Packets on a topic.
#[derive(Debug)]
pub struct Packets;

const DECLARED: DeclaredOutput = DeclaredOutput {
    keys: KEYS,
    counters: || {
        let mut all = lines(Captured::catalogue(), "raw", true);
        let sending = RawCounter::catalogue();
        all.extend(sending.into_iter().filter(|l| l.name != "sink.raw.failed"));
        vec![("output: raw", all)]
    },
    takes_events: false,
    ..DeclaredOutput::new(
        "raw",
        SECTION,
        "packets as they were received on a Kafka topic, all or every n-th",
        section::reading::<RawSection>(),
    )
};

impl OutputKind for Packets {
    fn declared(&self) -> &'static DeclaredOutput {
        &DECLARED
    }

    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        let section: RawSection = section::read(SECTION, setup.section)?;
        let events = (setup.beside)("output.kafka");
        let events = events.map(|text| section::read::<EventsSection>("output.kafka", &text));
        let plan = RawPlan::new(&section, events.transpose()?.as_ref(), setup)?;
        Ok(Some(Box::new(plan)))
    }
}

/// Pause of the thread when there is nothing to do.
const NAP: Duration = Duration::from_millis(1);

/// A checked section.
struct RawPlan {
    files: Vec<PathBuf>,
    options: KafkaOptions,
    key: RawKey,
    epoch_ns: i64,
    every: u64,
    buffer: u64,
    required: bool,
}

impl RawPlan {
    /// Checks it.
    fn new(
        raw: &RawSection,
        events: Option<&EventsSection>,
        setup: &OutputSetup<'_>,
    ) -> Result<RawPlan, Refusal> {
        let name = raw.source_name.clone().unwrap_or_else(|| setup.detector.to_owned());
        let topic = raw.topic(events, setup.detector, &name);
        let mut options = KafkaOptions::new(&raw.brokers, &topic, name, &raw.spool);
        let size =
            |key, text: &String| quantity::size(text).map_err(|e| refuse(key, text, e.to_string()));
        options.spool_size = size("output.raw.spool_size", &raw.spool_size)?;
        options.drain = quantity::duration(&raw.drain)
            .map_err(|e| refuse("output.raw.drain", &raw.drain, e.to_string()))?;
        let files = located(&raw.settings()?);
        options.settings = KafkaSettings::read(raw.settings()?)
            .map_err(|e| refuse("output.raw.options", &e.name, e.to_string()))?;
        options.news = say;
        options.validate().map_err(|e| refuse("output.raw", &topic, e.to_string()))?;
        let buffer = size("output.raw.buffer", &raw.buffer)?;
        if !(BUFFER_MIN..=BUFFER_MAX).contains(&buffer) {
            return Err(refuse("output.raw.buffer", &raw.buffer, "8MiB to 16GiB"));
        }
        if raw.every == 0 {
            return Err(refuse("output.raw.every", 0, "1 (all packets) or more"));
        }
        // Packets whose detector needs them all must meet.
        let key = if setup.by_sender { RawKey::Origin } else { RawKey::All };
        let epoch_ns = setup.epoch.0;
        let (every, required) = (raw.every, raw.required);
        Ok(RawPlan { files, options, key, epoch_ns, every, buffer, required })
    }

    /// For people.
    fn fact(&self) -> String {
        let which = match self.every {
            1 => "every packet".to_owned(),
            n => format!("one packet in {n}"),
        };
        let KafkaOptions { brokers, topic, spool, .. } = &self.options;
        format!("output raw: {which} to topic {topic} at {brokers}, spool {}", spool.display())
    }
}

impl Plan for RawPlan {
    fn claims(&self) -> Vec<Claim> {
        let read = self.files.iter().map(|file| Claim::Read("options", file.clone()));
        read.chain([Claim::Folder("output.raw.spool", self.options.spool.clone())]).collect()
    }

    fn spool(&self) -> Option<PathBuf> {
        Some(self.options.spool.clone())
    }

    fn takes_packets(&self) -> bool {
        true
    }

    fn open(&mut self, opening: &Opening) -> Result<Opened, OutputOpenError> {
        let mut options = self.options.clone();
        options.stop = opening.ending.requested.clone();
        options.over = opening.ending.over.clone();
        options.hurry = opening.ending.hurried.clone();
        options.stuck = opening.ending.stuck.clone();
        let place = format!("kafka://{}/{}", options.brokers, options.topic);
        let sink = RawSink::open(options, self.key, self.epoch_ns);
        let sink = sink.map_err(|e| OutputOpenError(e.to_string()))?;
        let taps = Taps::new(&TapOptions {
            output: "raw",
            place: &place,
            buffer: self.buffer,
            workers: opening.workers,
            required: self.required,
            every: self.every,
        });
        let packets: Box<dyn PacketOutput> = Box::new(Raw { taps, sink });
        Ok(Opened { packets: Some(packets), facts: vec![self.fact()], ..Opened::default() })
    }
}

/// Said once each, as librdkafka says it.
fn say(what: &str) {
    fullcount_log::warning!("{what}");
}

/// An opened output of packets.
struct Raw {
    /// One for each worker.
    taps: Taps,
    /// From packet to spool.
    sink: RawSink,
}

/// Its thread.
struct Sending(JoinHandle<Result<Report, SinkError>>);

impl Recording for Sending {
    fn finish(self: Box<Self>) -> Result<PacketReport, String> {
        match self.0.join() {
            Ok(Ok(r)) => {
                Ok(PacketReport { place: r.place, packets: r.events, bytes: r.bytes, files: None })
            }
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err("its thread panicked".to_owned()),
        }
    }
}

impl PacketOutput for Raw {
    fn name(&self) -> &'static str {
        "raw"
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sink.sheet()
    }

    fn safe(&self, worker: usize) -> Option<Arc<AtomicU64>> {
        self.taps.safe(worker)
    }

    fn tap(
        &mut self,
        source: Box<dyn Source>,
        name: &str,
    ) -> Result<(Box<dyn Source>, Arc<Sheet>), SourceError> {
        let tap = self.taps.tap(source, name)?;
        let sheet = tap.capture_sheet();
        Ok((Box::new(tap), sheet))
    }

    fn start(
        self: Box<Self>,
        on_failure: Box<dyn Fn(&SinkError) + Send>,
    ) -> std::io::Result<Box<dyn Recording>> {
        let Raw { mut taps, mut sink } = *self;
        let thread = thread::Builder::new().name("raw".into()).spawn(move || {
            let mut said = false;
            loop {
                let turn = taps.trains(|train, _| {
                    for packet in train.chunks() {
                        sink.send(packet, train.origin, train.time_ns);
                    }
                });
                if let (Err(e), false) = (sink.check(), said) {
                    said = true;
                    taps.fail();
                    on_failure(&e);
                }
                if sink.has_all() {
                    taps.safe_now();
                }
                match turn {
                    Turn::Data => {}
                    Turn::Idle => {
                        sink.refresh();
                        thread::sleep(NAP);
                    }
                    Turn::Over => {
                        if sink.has_all() {
                            taps.all_safe();
                        }
                        let end = sink.finish();
                        if let Err(e) = &end {
                            on_failure(e);
                        }
                        return end;
                    }
                }
            }
        })?;
        Ok(Box::new(Sending(thread)))
    }
}

fullcount_core::keys! {
    /// Keys of the section.
    const KEYS =
        Text "output.raw.brokers" "required" "`HOST:PORT`, several with commas between them"
            "brokers to begin with. None has to be there at the start";
        Text "output.raw.topic" "–" "1 to 249 of a-z A-Z 0-9 `.` `_` `-`"
            "topic; without it the topic of `output.kafka` and `_samples`, and without that the name of the producer in lower case and `_detector_samples`";
        Text "output.raw.source_name" "–" "1 to 1024 bytes"
            "name of the producer in each message; without it the detector's name";
        Value "output.raw.every" "`1`" "1 or more"
            "every n-th packet of each worker; 1 is all of them";
        Path "output.raw.spool" "required" "path"
            "folder of its [spool](kafka.md#the-spool), not that of `output.kafka`";
        Text "output.raw.spool_size" "`\"4GiB\"`" "16 MiB and more"
            "most bytes of the spool's files";
        Text "output.raw.buffer" "`\"64MiB\"`" "8 MiB to 16 GiB"
            "memory between receiver and spool, all workers together; of more than 128 MiB the rest is taken when it is needed";
        Text "output.raw.drain" "`\"10s\"`" "length of time"
            "how long the end of a run waits for the broker; what is not confirmed by then stays in the spool for the next run";
        Value "output.raw.required" "`true`" "`true`, `false`"
            "packets that are not sent make exit code 3, and a source that can wait is made to. `false`: they are only counted";
        Value "output.raw.options" "–" "table"
            "librdkafka's own settings, as in `output.kafka.options`";
}
