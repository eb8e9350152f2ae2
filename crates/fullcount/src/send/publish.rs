//! `fullcount send --to kafka://…`: simulated logs, or a run's start and stop, published.
//!
//! Refuses sources that are packets, and a run without a structure or a file name, before anything is opened.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use fullcount_core::view::PixelMap;
use fullcount_engine::config::TimeConfig;
use fullcount_engine::run::configure;
use fullcount_engine::stop::Stop;
use fullcount_engine::summary::grouped;
use fullcount_engine::timebase;
use fullcount_io::input_file;
use fullcount_io::quantity::{self, Rate};
use fullcount_out::kafka::{Address, Publisher, Settings};
use serde_json::json;

use super::answered::Answers;
use super::facility::{Events, Facility, Run, Stream, readable, structure};
use super::{Flags, NAME_OF_LOGS, NAME_OF_RUN};
use crate::confirm::confirm;
use crate::exit::Failure;
use crate::flags::Overlay;
use crate::{note, say, tell};

/// What is sent to Kafka.
#[derive(Debug, Clone, Default, Args)]
pub struct KafkaFlags {
    /// File with the structure (JSON) of the run to start
    #[arg(long, value_name = "FILE", help_heading = "Kafka")]
    structure: Option<std::path::PathBuf>,
    /// Name of the file that the writer of the run shall make
    #[arg(long, value_name = "NAME", help_heading = "Kafka")]
    file: Option<String>,
    /// Topic where the writer of the run is controlled and reports: its answers are waited for there
    #[arg(long, value_name = "TOPIC", help_heading = "Kafka")]
    control: Option<String>,
    /// Id of the run's job [default: made of the time]
    #[arg(long, value_name = "ID", help_heading = "Kafka")]
    job: Option<String>,
    /// Start of the run: 2026-01-31T12:00:00Z, or ns since 1970; a replay has older events
    /// [default: now]
    #[arg(long, value_name = "TIME", help_heading = "Kafka")]
    start: Option<String>,
    /// Events in the printed structure: TOPIC/SOURCE, e.g. loki_detector/loki; --detector,
    /// --geometry and --set say of which detector
    #[arg(long, value_name = "TOPIC/SOURCE", help_heading = "Kafka")]
    events: Option<String>,
    /// Geometry file of the detector in the printed structure, as the receiver has it
    #[arg(long, value_name = "FILE", help_heading = "Kafka")]
    geometry: Option<std::path::PathBuf>,
    /// Events of a beam monitor in the printed structure, e.g. loki_beam_monitor/cbm1
    #[arg(long, value_name = "TOPIC/SOURCE", help_heading = "Kafka")]
    monitor: Option<String>,
    /// Print a structure for the simulated logs of the topic, and exit
    #[arg(long, help_heading = "Kafka")]
    print_structure: bool,
    /// librdkafka's own setting, e.g. security.protocol=ssl; may be repeated. Not a password, which others
    /// would see in the list of processes: sasl.password.file=PATH or sasl.password.env=NAME
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Kafka")]
    kafka_set: Vec<String>,
}

/// Messages a second unless said otherwise: ten rounds of four values.
const RATE: f64 = 40.0;
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

fn news(text: &str) {
    note!("{text}");
}

fn wrong(text: impl Into<String>) -> Failure {
    Failure::Wrong(text.into())
}

/// Publishes what the flags say.
pub fn publish(flags: &Flags, to: &str) -> Result<u8, Failure> {
    let address = Address::parse(to).map_err(|e| wrong(format!("--to {e}")))?;
    let kafka = &flags.kafka;
    let pair = |text: &String| {
        let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.ok_or_else(|| wrong(format!("--kafka-set {text}: expected NAME=VALUE")))
    };
    let pairs = kafka.kafka_set.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
    let settings = Settings::read(pairs).map_err(|e| wrong(format!("--kafka-set {e}")))?;
    settings.check().map_err(|e| wrong(format!("--kafka-set {e}")))?;
    let duration =
        flags.what.duration.as_deref().map(|text| {
            quantity::duration(text).map_err(|e| wrong(format!("--duration {text}: {e}")))
        });
    let duration = duration.transpose()?;
    if kafka.print_structure {
        return print_structure(flags, &address.topic);
    }
    let structures = [
        ("events", kafka.events.is_some()),
        ("monitor", kafka.monitor.is_some()),
        ("geometry", kafka.geometry.is_some()),
    ];
    if let Some((flag, _)) = structures.iter().find(|(_, given)| *given) {
        return Err(wrong(format!("--{flag}: goes with --print-structure")));
    }
    if kafka.start.is_some() && flags.what.source != NAME_OF_RUN {
        return Err(wrong(format!("--start: goes with --source {NAME_OF_RUN}")));
    }
    match flags.what.source.as_str() {
        NAME_OF_LOGS => {
            let rate = match flags.what.rate.as_deref() {
                None => RATE,
                Some(text) => match text.parse() {
                    Ok(Rate::Packets(n)) if (0.1..=1e6).contains(&n) => n,
                    _ => {
                        let form = "expected messages a second, 0.1pps to 1Mpps";
                        return Err(wrong(format!("--rate {text}: {form}")));
                    }
                },
            };
            let publisher = open(&address, &settings)?;
            logs(flags, &address, &publisher, rate, duration)
        }
        NAME_OF_RUN => {
            let run = ordered(flags)?;
            let start_ms = start_ms(kafka.start.as_deref())?;
            let publisher = open(&address, &settings)?;
            let answers = match &run.control {
                None => None,
                Some(topic) => {
                    let brokers = &address.brokers;
                    Some(Answers::new(brokers, &settings, topic, &run.job_id, PATIENCE)?)
                }
            };
            start_and_stop(flags, &address, &publisher, (&run, start_ms), answers, duration)
        }
        other => Err(wrong(format!(
            "--source {other}: to Kafka go {NAME_OF_LOGS} (simulated values) and {NAME_OF_RUN} (start and \
             stop of a run); events go there by `fullcount run`"
        ))),
    }
}

/// Prints the structure of a run's file: the simulated values, and events with the pixels of their detector.
fn print_structure(flags: &Flags, topic: &str) -> Result<u8, Failure> {
    let (kafka, what) = (&flags.kafka, &flags.what);
    let stream = |flag: &str, text: &'_ Option<String>| match text.as_deref() {
        None => Ok(None),
        Some(text) => match text.split_once('/') {
            Some((topic, source)) if !topic.is_empty() && !source.is_empty() => {
                Ok(Some((topic.to_owned(), source.to_owned())))
            }
            _ => Err(wrong(format!("--{flag} {text}: expected TOPIC/SOURCE"))),
        },
    };
    let (events, monitor) = (stream("events", &kafka.events)?, stream("monitor", &kafka.monitor)?);
    let described = what.detector.is_some() || !what.set.is_empty() || kafka.geometry.is_some();
    if described && events.is_none() {
        let why =
            "--events: --detector, --geometry and --set describe the detector of these events";
        return Err(wrong(why));
    }
    let kind = what.detector.as_deref().unwrap_or("sonde");
    let mut o = Overlay::default();
    let geometry = kafka.geometry.as_ref().map(|path| path.display().to_string());
    o.put("detector.kind", Some(kind)).put("detector.geometry", geometry).set(&what.set)?;
    let pixels = match &events {
        None => PixelMap::default(),
        Some(_) => configure(&o.read(None)?)?.pixels(),
    };
    if events.is_some() && pixels.is_empty() {
        return Err(wrong(format!("--detector {kind}: has no pixels, which events need")));
    }
    let events = Events {
        detector: events.as_ref().map(|(topic, source)| (Stream { topic, source }, &pixels)),
        monitor: monitor.as_ref().map(|(topic, source)| Stream { topic, source }),
    };
    tell!("{}\n", readable(&structure(topic, &events)));
    Ok(0)
}

fn open(address: &Address, settings: &Settings) -> Result<Publisher, Failure> {
    let made = Publisher::new(&address.brokers, settings, news);
    Ok(made.map_err(anyhow::Error::from)?)
}

fn logs(
    flags: &Flags,
    address: &Address,
    publisher: &Publisher,
    rate: f64,
    duration: Option<Duration>,
) -> Result<u8, Failure> {
    let count = flags
        .what
        .count
        .as_deref()
        .map(|text| quantity::count(text).map_err(|e| wrong(format!("--count {text}: {e}"))));
    let count = count.transpose()?.unwrap_or(u64::MAX);
    let stop = Stop::on_signals_in_two_steps().context("installing the signal handlers")?;
    let mut facility = Facility::new(flags.what.seed);
    let (begun, every) = (Instant::now(), Duration::from_secs_f64(ROUND / rate));
    let (mut sent, mut bytes, mut round) = (0u64, 0u64, 0u32);
    'rounds: while !stop.requested() && sent < count {
        let due = every * round;
        if duration.is_some_and(|end| due >= end) {
            break;
        }
        while let Some(rest) = due.checked_sub(begun.elapsed()).filter(|_| !stop.requested()) {
            publisher.poll();
            std::thread::sleep(rest.min(Duration::from_millis(100)));
        }
        let ns = i64::try_from(now().as_nanos()).unwrap_or(i64::MAX);
        for value in facility.round(ns) {
            let sending = publisher.publish(&address.topic, &value, now_ms() as i64, PATIENCE);
            sending.map_err(anyhow::Error::from)?;
            sent += 1;
            bytes += value.len() as u64;
            if sent == count {
                break 'rounds;
            }
        }
        round += 1;
    }
    let confirmed = confirm(publisher, &address.brokers, PATIENCE, &stop);
    let code = report(flags, &address.topic, sent, bytes, publisher, begun.elapsed())?;
    confirmed.map_err(anyhow::Error::from)?;
    Ok(code)
}

/// The start that was asked for, ms since 1970.
fn start_ms(text: Option<&str>) -> Result<Option<u64>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let time = TimeConfig { epoch: text.to_owned(), ..TimeConfig::default() };
    let ms =
        timebase::read(&time).ok().and_then(|time| u64::try_from(time.epoch.0 / 1_000_000).ok());
    // 0 would be "now".
    let ms = ms.filter(|&ms| ms > 0);
    let form = "expected a time after 1970 such as 2026-01-31T12:00:00Z, or ns since then";
    ms.map(Some).ok_or_else(|| wrong(format!("--start {text}: {form}")))
}

fn ordered(flags: &Flags) -> Result<Run, Failure> {
    let kafka = &flags.kafka;
    let path = kafka.structure.as_ref().ok_or_else(|| {
        wrong("--structure: a run needs the structure of its file; --print-structure makes one")
    })?;
    let structure = input_file::text(path, input_file::LARGEST_INPUT)
        .map_err(|e| wrong(format!("--structure {}: {e}", path.display())))?;
    let file = kafka.file.clone();
    let file = file.ok_or_else(|| wrong("--file: a run needs a file name, e.g. run42.nxs"))?;
    let job_id = kafka.job.clone().unwrap_or_else(|| {
        let n = now().as_nanos();
        let (high, low) = ((n >> 32) as u32, n as u32);
        // The form of a UUID, version 8: digits of one's own.
        format!(
            "{high:08x}-{:04x}-8000-8000-{low:08x}{:04x}",
            low >> 16,
            std::process::id() & 0xffff
        )
    });
    Ok(Run { job_id, file, structure, control: kafka.control.clone() })
}

fn start_and_stop(
    flags: &Flags,
    address: &Address,
    publisher: &Publisher,
    (run, start_ms): (&Run, Option<u64>),
    mut answers: Option<Answers>,
    duration: Option<Duration>,
) -> Result<u8, Failure> {
    let stop = Stop::on_signals_in_two_steps().context("installing the signal handlers")?;
    let begun = Instant::now();
    let start = run.start(start_ms.unwrap_or_else(now_ms));
    let mut bytes = start.len() as u64;
    let send = |topic: &str, value: &[u8]| -> Result<(), Failure> {
        let sent = publisher.publish(topic, value, now_ms() as i64, PATIENCE);
        sent.and_then(|()| confirm(publisher, &address.brokers, PATIENCE, &stop))
            .map_err(anyhow::Error::from)?;
        Ok(())
    };
    send(&address.topic, &start)?;
    note!("job {}: start sent to {}", run.job_id, address.topic);
    if answers.is_none() {
        note!("whether a writer takes it is not known without --control, the topic of its answers");
    }
    let mut started = Started { run, said: false };
    while !stop.requested() && duration.is_none_or(|end| begun.elapsed() < end) {
        match &mut answers {
            None => std::thread::sleep(Duration::from_millis(20)),
            Some(answers) => answers.take(Duration::from_millis(20))?,
        }
        started.say(answers.as_ref());
    }
    let order = run.stop(now_ms());
    bytes += order.len() as u64;
    send(run.control.as_deref().unwrap_or(&address.topic), &order)?;
    note!("job {}: stop sent", run.job_id);
    if let Some(answers) = &mut answers {
        answers.start(PATIENCE)?;
        started.say(Some(answers));
        answers.both(PATIENCE)?;
        note!("job {} stopped", run.job_id);
    }
    report(flags, &address.topic, 2, bytes, publisher, begun.elapsed())
}

/// Says once that a writer took the run: not when it was asked to.
struct Started<'a> {
    run: &'a Run,
    said: bool,
}

impl Started<'_> {
    fn say(&mut self, answers: Option<&Answers>) {
        // A refusal has ended the verb already.
        if !self.said && answers.is_some_and(|answers| answers.start.is_some()) {
            self.said = true;
            note!("job {} started: {}", self.run.job_id, self.run.file);
        }
    }
}

fn report(
    flags: &Flags,
    topic: &str,
    sent: u64,
    bytes: u64,
    publisher: &Publisher,
    elapsed: Duration,
) -> Result<u8, Failure> {
    let refused = publisher.refused();
    let seconds = elapsed.as_secs_f64();
    if flags.json {
        say!(
            "{}",
            json!({
                "schema": "fullcount/summary/1", "verb": "send", "to": flags.to[0], "source": flags.what.source,
                "seed": flags.what.seed, "messages": sent, "bytes": bytes,
                "confirmed": publisher.confirmed(), "refused": refused, "elapsed_s": seconds,
            })
        );
    }
    let text = format!(
        "{} messages, {} bytes to {topic} in {seconds:.1} s",
        grouped(sent),
        grouped(bytes)
    );
    note!("sent {text}");
    Ok(if refused > 0 { 3 } else { 0 })
}
