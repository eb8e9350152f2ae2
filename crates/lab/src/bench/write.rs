//! A topic full of events into a file by `fullcount write`, beside `dd` of the same bytes.
//!
//! The topic is filled first. A trial is a run in the past: ordered by pl72, complete when wrdn is published, which comes
//! after the file's bytes are on the disk. Refuses other compressions, a broker that does not answer, and a file that does
//! not have every event.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fullcount_child::{ChildError, RunningChild};
use fullcount_engine::stop::Stop;
use fullcount_io::compression::{Compression, NoCompression};
use fullcount_kafka::{Begin, ConsumeError, Consumer, ConsumerOptions, Polled, Publisher};
use fullcount_messages::{EventWriter, Message, RunStart, decode};
use serde_json::{Value, json};

use super::ground::{BenchGround, Checked, Topic};
use super::now_ms;
use super::payload::{BenchPayload, SOURCE};
use crate::Tell;
use crate::error::{LabError, TrialError};
use crate::record::Record;
use crate::streaming::{StreamingCampaign, StreamingPoint, StreamingTrial, Ways, cpu_seconds, dd};

/// What is compared with `dd`.
#[derive(Debug, Clone)]
pub struct WriteComparison {
    /// Compressions of the file.
    pub compressions: Vec<String>,
    /// Size of a message, bytes.
    pub size: usize,
    /// Bytes of messages on the topic.
    pub volume: u64,
    /// Rounds.
    pub repeats: usize,
}

/// Name of the contender that is not ours.
const DD: &str = "dd";
/// Longest trial.
const LIMIT: Duration = Duration::from_secs(3600);
/// Longest wait for a broker's answer.
const ANSWER: Duration = Duration::from_secs(60);
/// Time from pulse to pulse: 14 Hz.
const PULSE_NS: i64 = 71_428_571;
/// Before now the run on the topic ended: further back than any leeway.
const AGO_MS: u64 = 3_600_000;

/// The run on the topic.
#[derive(Debug)]
struct Filled {
    data: Topic,
    control: Topic,
    begin_ms: u64,
    end_ms: u64,
    messages: u64,
    events: u64,
}

struct Contest<'a> {
    ground: &'a BenchGround,
    filled: &'a Filled,
    publisher: Publisher,
    program: PathBuf,
    /// A whole file, for `dd`.
    file: PathBuf,
    stop: &'a Stop,
    trials: usize,
}

impl Ways for Contest<'_> {
    fn trial(&mut self, contender: &str, _: &StreamingPoint) -> Result<StreamingTrial, TrialError> {
        if contender == DD {
            return dd::copy(&self.file, &self.ground.path("dd"), &|| self.stop.requested());
        }
        let compression = contender.strip_prefix("write ").unwrap_or(contender);
        let (trial, file) = self.write(compression)?;
        // Gone before the next trial; the folder of the whole run goes as well.
        let _ = std::fs::remove_file(file);
        Ok(trial)
    }
}

impl Contest<'_> {
    /// One run of the writer; the file stays.
    fn write(&mut self, compression: &str) -> Result<(StreamingTrial, PathBuf), TrialError> {
        let wrong = |reason: String| TrialError::Result { program: "write".into(), reason };
        let failed = |e: anyhow::Error| wrong(format!("{e:#}"));
        self.trials += 1;
        let name = format!("trial-{}", self.trials);
        let control = self.filled.control.name.as_str();
        let before = cpu_seconds();
        let folder = self.ground.path("");
        let mut command = Command::new(&self.program);
        command.args(["write", "--brokers", self.ground.brokers(), "--control", control]);
        command.args(["--service-id", &name, "--compression", compression, "--files", "1"]);
        command.args(["--json", "--folder"]).arg(&folder);
        let mut child = RunningChild::start("fullcount write", command)?;
        let stop = || self.stop.requested();
        child.wait_for_line(ANSWER, &stop, |l| l.contains("writing below").then_some(()))?;
        let begun_ms = self.order(&name).map_err(failed)?;
        let done_ms = self.done(&name, &mut child)?;
        let ended = child.end(ANSWER, &stop)?.ok_or_else(|| child.stuck(ANSWER))?;
        if !ended.status.success() {
            return Err(ended.failed().into());
        }
        let summary: Value = serde_json::from_str(&ended.output)
            .map_err(|e| wrong(format!("no JSON ({e}): {}", ended.output)))?;
        let events = summary["counters"]["write.events"].as_u64().unwrap_or(0);
        if events != self.filled.events {
            return Err(wrong(format!("{events} of {} events are in it", self.filled.events)));
        }
        let trial = StreamingTrial {
            messages: self.filled.messages,
            events,
            bytes: 8 * events,
            seconds: done_ms.saturating_sub(begun_ms) as f64 / 1e3,
            cpu_s: cpu_seconds().zip(before).map(|(now, before)| now - before),
        };
        Ok((trial, folder.join(format!("{name}.nxs"))))
    }

    /// Orders the run; when, ms since 1970.
    fn order(&self, name: &str) -> anyhow::Result<u64> {
        let structure = structure(&self.filled.data.name);
        let order = Message::Pl72(RunStart {
            start_time: self.filled.begin_ms,
            stop_time: self.filled.end_ms,
            run_name: None,
            instrument_name: None,
            nexus_structure: Some(&structure),
            job_id: Some(name),
            broker: None,
            service_id: Some(name),
            filename: Some(&format!("{name}.nxs")),
            n_periods: 1,
            detector_spectrum_map: None,
            metadata: None,
            control_topic: None,
        });
        let now = now_ms();
        self.publisher.publish(&self.filled.control.name, &order.encode(), now as i64, ANSWER)?;
        self.publisher.flush(ANSWER)?;
        Ok(now)
    }

    /// When the writer said that the file is complete, by the time that it gave its message.
    fn done(&self, name: &str, child: &mut RunningChild) -> Result<u64, TrialError> {
        let wrong = |reason: String| TrialError::Result { program: "write".into(), reason };
        let topic = self.filled.control.name.as_str();
        let words = |e: ConsumeError| wrong(e.to_string());
        let consumer =
            Consumer::new(&ConsumerOptions::new(self.ground.brokers())).map_err(words)?;
        consumer.assign(&[(topic, 0, Begin::Oldest)]).map_err(words)?;
        let (begun, mut ended) = (Instant::now(), None);
        loop {
            if self.stop.requested() {
                return Err(ChildError::Interrupted.into());
            }
            // It says so before it ends.
            if ended.is_none() && child.ended(Duration::ZERO)? {
                ended = Some(Instant::now());
            }
            if begun.elapsed() > LIMIT || ended.is_some_and(|at| at.elapsed() > ANSWER) {
                return Err(wrong("said nothing of a complete file".into()));
            }
            let polled = consumer.poll(Duration::from_millis(100)).map_err(words)?;
            let Polled::Message(message) = polled else { continue };
            match decode(message.payload()) {
                Ok(Message::Wrdn(done)) if done.job_id == name => {
                    if done.error_encountered {
                        return Err(wrong(done.message.unwrap_or("the file failed").to_owned()));
                    }
                    let time = message.timestamp_ms().and_then(|ms| u64::try_from(ms).ok());
                    return time.ok_or_else(|| wrong("a message without a time".into()));
                }
                Ok(Message::Answ(answer)) if answer.status_code >= 400 && answer.job_id == name => {
                    return Err(wrong(answer.message.unwrap_or("refused").to_owned()));
                }
                _ => {}
            }
        }
    }
}

/// One bank of events.
fn structure(topic: &str) -> String {
    json!({"children": [{
        "type": "group", "name": "entry", "attributes": {"NX_class": "NXentry"}, "children": [{
            "type": "group", "name": "bank_events", "attributes": {"NX_class": "NXevent_data"},
            "children": [{"module": "ev44", "config": {"topic": topic, "source": SOURCE}}],
        }],
    }]})
    .to_string()
}

/// Fills a topic with a run that ended an hour ago, and one message of now, behind which nothing of it can come.
fn fill(
    ground: &BenchGround,
    publisher: &Publisher,
    payload: &BenchPayload,
    volume: u64,
    stop: &Stop,
) -> anyhow::Result<Filled> {
    let (data, control) = (ground.topic("data")?, ground.topic("control")?);
    let messages = (volume / payload.size as u64).max(1);
    let span_ms = messages * PULSE_NS as u64 / 1_000_000 + 1000;
    let end_ms = now_ms() - AGO_MS;
    let begin_ms = end_ms - span_ms;
    let mut writer = EventWriter::new();
    let batches = payload.batches.iter().cycle().take(messages as usize);
    for (number, products) in (0_i64..).zip(batches) {
        ensure!(!stop.requested(), "interrupted");
        let events = &products.events;
        let pulse = begin_ms as i64 * 1_000_000 + number * PULSE_NS;
        let message = writer.ev44_columns(
            SOURCE,
            number,
            &[pulse],
            &[0],
            &events.offset_ns,
            &events.pixel,
        )?;
        publisher.publish(&data.name, message, pulse / 1_000_000, ANSWER)?;
    }
    let last = writer.ev44_columns("nobody", 0, &[0], &[0], &[], &[])?;
    publisher.publish(&data.name, last, now_ms() as i64, ANSWER)?;
    publisher.flush(ANSWER)?;
    ensure!(publisher.refused() == 0, "the broker refused messages of {} B", payload.size);
    let events = messages * payload.events as u64;
    Ok(Filled { data, control, begin_ms, end_ms, messages, events })
}

fn check_compression(name: &str) -> Result<(), LabError> {
    let wrong = |_: NoCompression| {
        LabError::Refused(format!("--compressions {name}: expected {}", Compression::ALLOWED))
    };
    name.parse::<Compression>().map(drop).map_err(wrong)
}

impl WriteComparison {
    /// Checks names and lists.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn check(&self) -> Result<(), LabError> {
        self.compressions.iter().try_for_each(|name| check_compression(name))?;
        if self.compressions.is_empty() || self.repeats == 0 {
            let what = "--compressions, --repeats: at least one of each is needed";
            return Err(LabError::Refused(what.into()));
        }
        Ok(())
    }

    /// Runs it with `program` as the writer; gives the table.
    ///
    /// # Errors
    /// A broker that cannot be used, and trials that failed.
    pub fn run(
        &self,
        program: PathBuf,
        place: Checked,
        record: &mut Record,
        stop: &Stop,
        tell: Tell,
    ) -> Result<String, LabError> {
        let ground = place.open(record, tell)?;
        let payload = BenchPayload::make(self.size, ground.path("payload"))?;
        // Orders leave at once.
        let settings = ground.settings.with("linger.ms", "0");
        let publisher =
            Publisher::new(ground.brokers(), &settings, tell).map_err(anyhow::Error::from)?;
        tell("filling a topic");
        let filled = fill(&ground, &publisher, &payload, self.volume, stop)?;
        record
            .parameter("volume_bytes", self.volume)
            .parameter("messages", filled.messages)
            .parameter("events", filled.events)
            .parameter("message_bytes", payload.size);
        let mut contest = Contest {
            ground: &ground,
            filled: &filled,
            publisher,
            program,
            file: PathBuf::new(),
            stop,
            trials: 0,
        };
        tell("a first file, for dd");
        let (_, file) = contest.write("none").map_err(anyhow::Error::from)?;
        record.parameter("file_bytes", length(&file)?);
        contest.file = file;
        let ways = self.compressions.iter().map(|name| format!("write {name}"));
        let campaign = StreamingCampaign {
            contenders: [DD.to_owned()].into_iter().chain(ways).collect(),
            points: vec![StreamingPoint { size: payload.size, compression: "none".into() }],
            repeats: self.repeats,
        };
        let results = campaign.run(&mut contest, &mut |line| tell(line));
        let results = results.map_err(anyhow::Error::from)?;
        results.note(record);
        Ok(results.markdown())
    }
}

fn length(file: &Path) -> anyhow::Result<u64> {
    Ok(std::fs::metadata(file).with_context(|| file.display().to_string())?.len())
}
