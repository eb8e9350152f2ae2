//! `fullcount write`: the file writer. Options and printing; the rest is [`fullcount_writer::serve()`].
//!
//! Refuses (exit 2) options that cannot be before anything is opened. What it writes and answers: `docs/write.md`.

mod print;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::{ConfigError, refuse};
use fullcount_engine::stop::Stop;
use fullcount_export::MessagePlan;
use fullcount_io::quantity;
use fullcount_kafka::{KafkaSettings, check_brokers};
use fullcount_nexus::{Compression, DiskWay, StartAttribute};
use fullcount_writer::structure::StructureLimits;
use fullcount_writer::{Options, WriterSetup, serve};
use toml::{Table, Value};

use crate::exit::Failure;
use crate::wish::wish;
use crate::{fact, note, say, tell};

/// Writes runs that control systems start and stop by messages to NeXus files.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WriteFlags {
    /// Kafka brokers: HOST[:PORT], several with commas between them
    #[arg(long, value_name = "HOSTS", help_heading = "Kafka")]
    brokers: String,
    /// Topic with run starts (pl72) that the writers of a group share
    #[arg(long, value_name = "TOPIC", help_heading = "Kafka")]
    pool: Option<String>,
    /// Consumer group of the writers that share the pool
    #[arg(long, value_name = "NAME", default_value = "fullcount-writers", help_heading = "Kafka")]
    group: String,
    /// Topic with orders for this writer, and where it reports when an order names none
    #[arg(long, value_name = "TOPIC", help_heading = "Kafka")]
    control: Option<String>,
    /// Say nothing about jobs of other writers on the control topics; always so with --pool
    #[arg(long, help_heading = "Kafka")]
    shared_control: bool,
    /// librdkafka's own setting, e.g. security.protocol=ssl; may be repeated. Not a password, which others
    /// would see in the list of processes: sasl.password.file=PATH or sasl.password.env=NAME
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Kafka")]
    kafka_set: Vec<String>,
    /// Folder that files are written below
    #[arg(long, value_name = "DIR", default_value = ".", help_heading = "Files")]
    folder: PathBuf,
    /// Folder of structures of instruments, NAME.json, for starts that have an instrument_name and no
    /// nexus_structure
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    templates: Option<PathBuf>,
    /// Compression of what grows: none, gzip (level 4) or gzip:1 to gzip:9
    #[arg(long, value_name = "HOW", default_value = "none", help_heading = "Files")]
    compression: String,
    /// How events get to the disk without compression: direct (past the page cache) or cached
    #[arg(long, value_name = "HOW", default_value = "direct", help_heading = "Files")]
    disk: String,
    /// Attribute of event_time_zero with the epoch: offset or start
    #[arg(long, value_name = "NAME", default_value = "offset", help_heading = "Files")]
    start_attribute: String,
    /// Take the write permission away from complete files
    #[arg(long, help_heading = "Files")]
    read_only: bool,
    /// Time between flushes: what a kill may cost in reading again, and how far readers are behind
    #[arg(long, value_name = "TIME", default_value = "2s", help_heading = "Files")]
    flush: String,
    /// Which writer this is, in messages and for its journal; the same after a restart [default:
    /// fullcount-HOST]
    #[arg(long, value_name = "NAME", help_heading = "Service")]
    service_id: Option<String>,
    /// Files written at the same time, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Service")]
    jobs: usize,
    /// Memory that one run may take: constants, names and a chunk of each dataset that grows, and its
    /// structure while it is read; 16MiB to 1TiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB", help_heading = "Service")]
    job_memory: String,
    /// Kafka time before the start and after the stop of a run in which its messages may be
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = "Service")]
    leeway: String,
    /// Time between heartbeats (x5f2)
    #[arg(long, value_name = "TIME", default_value = "2s", help_heading = "Service")]
    heartbeat: String,
    /// When told to end, leave unfinished files to the next start instead of completing them
    #[arg(long, help_heading = "Service")]
    keep_jobs: bool,
    /// End when so many files are complete
    #[arg(long, value_name = "N", help_heading = "Service")]
    files: Option<usize>,
    /// Messages go to others as well: a key of [log] with its value, e.g. file=/var/log/write.log,
    /// syslog=HOST, journald=on, gelf=HOST; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Messages")]
    log_set: Vec<String>,
    /// End with one JSON object on standard output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Runs are started by pl72 messages (with the file's structure as JSON) and stopped by 6s4t. Each is
answered (answ), reported while it runs (x5f2) and at its end (wrdn). A writer that was killed goes
on with its files when it is started again with the same folder and service id.

Examples:
  fullcount write --brokers kafka1,kafka2 --pool filewriter_pool --folder /data
  fullcount write --brokers localhost --control loki_filewriter --folder /data --service-id loki-1
  fullcount write --brokers localhost --control filewriter --templates /etc/nexus-structures
  fullcount write --brokers localhost --pool filewriter_pool --log-set file=/var/log/write.log
  fullcount write --brokers localhost --pool filewriter_pool --files 1 --json

Exit codes: 0 all files complete; 1 failed; 2 wrong option; 3 a file was given up, events
lost, or all of a stream was before the start or after the stop of its run.";

fn time(
    flag: &'static str,
    text: &str,
    least: Duration,
    most: Duration,
) -> Result<Duration, ConfigError> {
    let found = quantity::duration(text).ok().filter(|time| (least..=most).contains(time));
    let ms = |time: Duration| format!("{} ms", time.as_millis());
    found.ok_or_else(|| {
        refuse(flag, text, format!("expected a time of {} to {}, e.g. 2s", ms(least), ms(most)))
    })
}

fn compression(text: &str) -> Result<Compression, ConfigError> {
    let allowed = format!("expected {}", Compression::ALLOWED);
    text.parse().map_err(|_| refuse("--compression", text, allowed))
}

fn disk(text: &str) -> Result<DiskWay, ConfigError> {
    match text {
        "direct" => Ok(DiskWay::Direct),
        "cached" => Ok(DiskWay::Cached),
        _ => Err(refuse("--disk", text, "expected direct or cached")),
    }
}

fn memory(text: &str) -> Result<u64, ConfigError> {
    let found = quantity::size(text).ok().filter(|n| (16 << 20..=1 << 40).contains(n));
    found.ok_or_else(|| refuse("--job-memory", text, "expected a size of 16MiB to 1TiB, e.g. 2GiB"))
}

fn host() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname");
    read.map(|name| name.trim().to_owned()).unwrap_or_else(|_| "host".into())
}

/// Name of a topic or of a service: also part of paths.
fn plain(flag: &'static str, text: &str) -> Result<(), ConfigError> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if (1..=128).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(fine) {
        Ok(())
    } else {
        Err(refuse(
            flag,
            text,
            "expected 1 to 128 letters, digits, '.', '_' and '-', not '.' first",
        ))
    }
}

impl WriteFlags {
    fn settings(&self) -> Result<KafkaSettings, Failure> {
        KafkaSettings::of_options(&self.kafka_set)
            .map_err(|e| Failure::Wrong(format!("--kafka-set {e}")))
    }

    /// Who gets messages beside the terminal.
    fn receivers(&self) -> Result<MessagePlan, Failure> {
        let wrong = |why: String| Failure::Wrong(format!("--log-set {why}"));
        let mut keys = Table::new();
        for given in &self.log_set {
            let (key, value) = given.split_once('=').ok_or_else(|| {
                wrong(format!("{given}: KEY=VALUE is expected, e.g. syslog=HOST"))
            })?;
            let number = value.parse::<i64>().map(Value::from);
            keys.insert(key.to_owned(), number.unwrap_or_else(|_| Value::from(value)));
        }
        MessagePlan::read(&keys.to_string()).map_err(|e| wrong(e.to_string()))
    }

    fn options(&self) -> Result<Options, Failure> {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        if self.pool.is_none() && self.control.is_none() {
            return Err(Failure::Wrong(
                "--pool or --control: at least one topic with orders is needed".into(),
            ));
        }
        for (flag, topic) in [("--pool", &self.pool), ("--control", &self.control)] {
            topic.as_deref().map_or(Ok(()), |topic| plain(flag, topic))?;
        }
        plain("--group", &self.group)?;
        let service_id = self.service_id.clone().unwrap_or_else(|| format!("fullcount-{}", host()));
        plain("--service-id", &service_id)?;
        if !(1..=1000).contains(&self.jobs) {
            return Err(refuse("--jobs", self.jobs, "expected 1 to 1000").into());
        }
        let start_attribute = match self.start_attribute.as_str() {
            "offset" => StartAttribute::Offset,
            "start" => StartAttribute::Start,
            other => {
                return Err(refuse("--start-attribute", other, "expected offset or start").into());
            }
        };
        for (flag, path) in
            [("--folder", Some(&self.folder)), ("--templates", self.templates.as_ref())]
        {
            let Some(path) = path else { continue };
            let shown = path.display().to_string();
            match std::fs::metadata(path) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return Err(refuse(flag, &shown, "is not a folder").into()),
                Err(e) => return Err(refuse(flag, &shown, format!("{e}; make it first")).into()),
            }
        }
        Ok(Options {
            folder: self.folder.clone(),
            templates: self.templates.clone(),
            service_id,
            host: host(),
            process: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            pool_topic: self.pool.clone(),
            control_topic: self.control.clone(),
            // Writers that share a pool are controlled where the orders say, which may be one topic for all.
            shared_control: self.shared_control || self.pool.is_some(),
            jobs: self.jobs,
            leeway: time("--leeway", &self.leeway, Duration::ZERO, hour)?,
            flush: time("--flush", &self.flush, Duration::from_millis(10), hour)?,
            heartbeat: time("--heartbeat", &self.heartbeat, second / 10, hour)?,
            compression: compression(&self.compression)?,
            disk: disk(&self.disk)?,
            start_attribute,
            read_only: self.read_only,
            limits: StructureLimits {
                memory: memory(&self.job_memory)?,
                ..StructureLimits::default()
            },
        })
    }
}

/// Writes files until it is told to end.
pub fn write(flags: &WriteFlags) -> Result<u8, Failure> {
    let options = flags.options()?;
    let settings = flags.settings()?;
    let brokers =
        check_brokers(&flags.brokers).map_err(|e| Failure::Wrong(format!("--brokers {e}")))?;
    let receivers = flags.receivers()?;
    let stop = Stop::on_signals_of_a_service().context("installing the signal handlers")?;
    let setup = WriterSetup {
        brokers,
        settings,
        group: flags.group.clone(),
        options,
        files: flags.files,
        keep_jobs: flags.keep_jobs,
    };
    let receivers = receivers.open("write").map_err(|e| Failure::Failed(e.into()))?;
    if !receivers.fact().is_empty() {
        fact!("{}", receivers.fact());
    }
    let wish = || {
        // SIGHUP, as after a rotation of the log's file.
        if stop.read_again() {
            receivers.reopen();
        }
        wish(&stop)
    };
    let ended = serve(setup, &wish).map_err(anyhow::Error::from)?;
    // No broker answered before the end.
    let Some(summary) = ended else { return Ok(1) };
    if flags.json {
        note!("{}", print::text(&summary).trim_end());
        say!("{}", summary.json());
    } else {
        tell!("{}", print::text(&summary));
    }
    Ok(summary.exit_code())
}
