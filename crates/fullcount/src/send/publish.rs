//! `fullcount send --to kafka://…`: simulated logs, or a run's start and stop, published.
//!
//! Refuses sources that are packets, and a run without a structure or a file name, before anything is opened.

use anyhow::Context;
use clap::Args;
use fullcount_core::view::PixelMap;
use fullcount_detect::detector::registered;
use fullcount_engine::config::{TimeConfig, refuse};
use fullcount_engine::run::configure;
use fullcount_engine::stop::Stop;
use fullcount_engine::summary::grouped;
use fullcount_engine::timebase;
use fullcount_io::input_file;
use fullcount_io::quantity::{self, Rate};
use fullcount_kafka::{Address, KafkaSettings};
use fullcount_lab::publish::{
    EventSource, EventSources, Published, RunOrder, SimulatedValues, TopicSender,
};
use fullcount_lab::publish::{readable, structure};
use serde_json::json;

use super::SendFlags;
use crate::exit::Failure;
use crate::flags::Overlay;
use crate::wish::wish;
use crate::{note, say, tell};

/// Source of simulated values of slow control, for Kafka.
const NAME_OF_LOGS: &str = "logs";
/// Source of the start and stop of a run, for Kafka.
const NAME_OF_RUN: &str = "run";

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

fn news(text: &str) {
    note!("{text}");
}

fn wrong(text: impl Into<String>) -> Failure {
    Failure::Wrong(text.into())
}

/// Publishes what the flags say.
pub fn publish(flags: &SendFlags, to: &str) -> Result<u8, Failure> {
    let address = Address::parse(to).map_err(|e| wrong(format!("--to {e}")))?;
    let kafka = &flags.kafka;
    let settings = KafkaSettings::of_options(&kafka.kafka_set)
        .map_err(|e| wrong(format!("--kafka-set {e}")))?;
    let duration = flags.what.duration.as_deref().map(|text| {
        quantity::duration(text).map_err(|e| refuse("--duration", text, e.to_string()))
    });
    let duration = duration.transpose()?;
    let topic = address.topic.clone();
    if kafka.print_structure {
        return print_structure(flags, &topic);
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
                        return Err(refuse("--rate", text, form).into());
                    }
                },
            };
            let count = flags.what.count.as_deref().map(|text| {
                quantity::count(text).map_err(|e| refuse("--count", text, e.to_string()))
            });
            let count = count.transpose()?.unwrap_or(u64::MAX);
            let values = SimulatedValues { seed: flags.what.seed, count, rate, duration };
            let sender = TopicSender::new(address, settings, news)?;
            let stop = signals()?;
            let (published, confirmed) = sender.values(&values, &|| wish(&stop))?;
            let code = report(flags, &topic, &published);
            confirmed?;
            Ok(code)
        }
        NAME_OF_RUN => {
            let run = ordered(flags)?;
            let start_ms = start_ms(kafka.start.as_deref())?;
            let sender = TopicSender::new(address, settings, news)?;
            let answers = sender.answers(&run)?;
            let stop = signals()?;
            let published = sender.run((&run, start_ms), answers, duration, &|| wish(&stop))?;
            Ok(report(flags, &topic, &published))
        }
        other => {
            let why = format!(
                "to Kafka go {NAME_OF_LOGS} (simulated values) and {NAME_OF_RUN} (start and stop of a run); \
                 events go there by `fullcount run`"
            );
            Err(refuse("--source", other, why).into())
        }
    }
}

/// Prints the structure of a run's file: the simulated values, and events with the pixels of their detector.
fn print_structure(flags: &SendFlags, topic: &str) -> Result<u8, Failure> {
    let (kafka, what) = (&flags.kafka, &flags.what);
    let stream = |flag: &'static str, text: &'_ Option<String>| match text.as_deref() {
        None => Ok(None),
        Some(text) => match text.split_once('/') {
            Some((topic, source)) if !topic.is_empty() && !source.is_empty() => {
                Ok(Some((topic.to_owned(), source.to_owned())))
            }
            _ => Err(Failure::from(refuse(flag, text, "expected TOPIC/SOURCE"))),
        },
    };
    let (events, monitor) =
        (stream("--events", &kafka.events)?, stream("--monitor", &kafka.monitor)?);
    let described = what.detector.is_some() || !what.set.is_empty() || kafka.geometry.is_some();
    if described && events.is_none() {
        let why =
            "--events: --detector, --geometry and --set describe the detector of these events";
        return Err(wrong(why));
    }
    let kind = what.detector.as_deref().unwrap_or(registered().usual());
    let mut o = Overlay::default();
    let geometry = kafka.geometry.as_ref().map(|path| path.display().to_string());
    o.put("detector.kind", Some(kind)).put("detector.geometry", geometry).set(&what.set)?;
    let pixels = match &events {
        None => PixelMap::default(),
        Some(_) => configure(&o.read(None)?)?.pixels(),
    };
    if events.is_some() && pixels.is_empty() {
        return Err(refuse("--detector", kind, "has no pixels, which events need").into());
    }
    let events = EventSources {
        detector: events.as_ref().map(|(topic, source)| (EventSource { topic, source }, &pixels)),
        monitor: monitor.as_ref().map(|(topic, source)| EventSource { topic, source }),
    };
    tell!("{}\n", readable(&structure(topic, &events)));
    Ok(0)
}

fn signals() -> Result<Stop, Failure> {
    Ok(Stop::on_signals_in_two_steps().context("installing the signal handlers")?)
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
    ms.map(Some).ok_or_else(|| refuse("--start", text, form).into())
}

fn ordered(flags: &SendFlags) -> Result<RunOrder, Failure> {
    let kafka = &flags.kafka;
    let path = kafka.structure.as_ref().ok_or_else(|| {
        wrong("--structure: a run needs the structure of its file; --print-structure makes one")
    })?;
    let structure = input_file::text(path, input_file::LARGEST_INPUT)
        .map_err(|e| refuse("--structure", path.display(), e.to_string()))?;
    let file = kafka.file.clone();
    let file = file.ok_or_else(|| wrong("--file: a run needs a file name, e.g. run42.nxs"))?;
    let job_id = kafka.job.clone().unwrap_or_else(RunOrder::fresh_id);
    Ok(RunOrder { job_id, file, structure, control: kafka.control.clone() })
}

fn report(flags: &SendFlags, topic: &str, published: &Published) -> u8 {
    let Published { messages, bytes, confirmed, refused, elapsed } = *published;
    let seconds = elapsed.as_secs_f64();
    if flags.json {
        say!(
            "{}",
            json!({
                "schema": "fullcount/summary/1", "verb": "send", "to": flags.to[0], "source": flags.what.source,
                "seed": flags.what.seed, "messages": messages, "bytes": bytes,
                "confirmed": confirmed, "refused": refused, "elapsed_s": seconds,
            })
        );
    }
    let text = format!(
        "{} messages, {} bytes to {topic} in {seconds:.1} s",
        grouped(messages),
        grouped(bytes)
    );
    note!("sent {text}");
    if refused > 0 { 3 } else { 0 }
}
