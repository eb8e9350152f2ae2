//! `fullcount write`: the file writer. Options, then one loop: orders in, messages to jobs, answers out.
//!
//! Refuses (exit 2) options that cannot be before anything is opened. What it writes and answers: `docs/write.md`.

mod data;
mod report;
mod topics;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use fullcount_engine::stop::Stop;
use fullcount_io::quantity;
use fullcount_out::kafka::{Publisher, Settings};
use fullcount_out::nexus::{Compression, DiskWay, StartAttribute};
use fullcount_out::write::structure::Limits;
use fullcount_out::write::{Note, Options, Reply, Service};

use crate::confirm::confirm;
use crate::exit::Failure;
use crate::{note, say, tell};
use data::Data;
use topics::{Directory, Orders};

/// Writes runs that control systems start and stop by messages to NeXus files.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
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
    /// Compression of what grows: none, gzip or gzip:1 to gzip:9
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
  fullcount write --brokers localhost --pool filewriter_pool --files 1 --json

Exit codes: 0 all files complete; 1 failed; 2 wrong option; 3 a file was given up, events
lost, or all of a stream was before the start or after the stop of its run.";

fn wrong(flag: &str, value: &str, allowed: &str) -> Failure {
    Failure::Wrong(format!("--{flag} {value}: {allowed}"))
}

fn time(flag: &str, text: &str, least: Duration, most: Duration) -> Result<Duration, Failure> {
    let found = quantity::duration(text).ok().filter(|time| (least..=most).contains(time));
    let ms = |time: Duration| format!("{} ms", time.as_millis());
    found.ok_or_else(|| {
        wrong(flag, text, &format!("expected a time of {} to {}, e.g. 2s", ms(least), ms(most)))
    })
}

fn compression(text: &str) -> Result<Compression, Failure> {
    let level = match text {
        "none" => return Ok(Compression::None),
        "gzip" => Some(6),
        other => other.strip_prefix("gzip:").and_then(|n| n.parse().ok()),
    };
    match level {
        Some(level @ 1..=9) => Ok(Compression::Gzip(level)),
        _ => Err(wrong("compression", text, "expected none, gzip or gzip:1 to gzip:9")),
    }
}

fn disk(text: &str) -> Result<DiskWay, Failure> {
    match text {
        "direct" => Ok(DiskWay::Direct),
        "cached" => Ok(DiskWay::Cached),
        _ => Err(wrong("disk", text, "expected direct or cached")),
    }
}

fn memory(text: &str) -> Result<u64, Failure> {
    let found = quantity::size(text).ok().filter(|n| (16 << 20..=1 << 40).contains(n));
    found.ok_or_else(|| wrong("job-memory", text, "expected a size of 16MiB to 1TiB, e.g. 2GiB"))
}

fn host() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname");
    read.map(|name| name.trim().to_owned()).unwrap_or_else(|_| "host".into())
}

/// Name of a topic or of a service: also part of paths.
fn plain(flag: &str, text: &str) -> Result<(), Failure> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if (1..=128).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(fine) {
        Ok(())
    } else {
        Err(wrong(flag, text, "expected 1 to 128 letters, digits, '.', '_' and '-', not '.' first"))
    }
}

impl Flags {
    fn settings(&self) -> Result<Settings, Failure> {
        let pair = |text: &String| {
            let pair =
                text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
            pair.ok_or_else(|| wrong("kafka-set", text, "expected NAME=VALUE, e.g. acks=all"))
        };
        let pairs = self.kafka_set.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
        let settings =
            Settings::read(pairs).map_err(|e| Failure::Wrong(format!("--kafka-set {e}")))?;
        settings.check().map_err(|e| Failure::Wrong(format!("--kafka-set {e}")))?;
        Ok(settings)
    }

    fn options(&self) -> Result<Options, Failure> {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        if self.pool.is_none() && self.control.is_none() {
            return Err(Failure::Wrong(
                "--pool or --control: at least one topic with orders is needed".into(),
            ));
        }
        for (flag, topic) in [("pool", &self.pool), ("control", &self.control)] {
            topic.as_deref().map_or(Ok(()), |topic| plain(flag, topic))?;
        }
        plain("group", &self.group)?;
        let service_id = self.service_id.clone().unwrap_or_else(|| format!("fullcount-{}", host()));
        plain("service-id", &service_id)?;
        if !(1..=1000).contains(&self.jobs) {
            return Err(wrong("jobs", &self.jobs.to_string(), "expected 1 to 1000"));
        }
        let start_attribute = match self.start_attribute.as_str() {
            "offset" => StartAttribute::Offset,
            "start" => StartAttribute::Start,
            other => return Err(wrong("start-attribute", other, "expected offset or start")),
        };
        for (flag, path) in [("folder", Some(&self.folder)), ("templates", self.templates.as_ref())]
        {
            let Some(path) = path else { continue };
            let shown = path.display().to_string();
            match std::fs::metadata(path) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return Err(wrong(flag, &shown, "is not a folder")),
                Err(e) => return Err(wrong(flag, &shown, &format!("{e}; make it first"))),
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
            leeway: time("leeway", &self.leeway, Duration::ZERO, hour)?,
            flush: time("flush", &self.flush, Duration::from_millis(10), hour)?,
            heartbeat: time("heartbeat", &self.heartbeat, second / 10, hour)?,
            compression: compression(&self.compression)?,
            disk: disk(&self.disk)?,
            start_attribute,
            read_only: self.read_only,
            limits: Limits { memory: memory(&self.job_memory)?, ..Limits::default() },
        })
    }
}

/// ms since 1970; the time of control systems and of Kafka.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

fn news(text: &str) {
    note!("{text}");
}

/// Longest wait for answers to be confirmed when the writer ends.
const FAREWELL: Duration = Duration::from_secs(10);
/// Rest after a turn in which nothing came. It doubles to the longest: a broker's next 10 MB come within some ms.
const REST: Duration = Duration::from_millis(1);
const LONGEST_REST: Duration = Duration::from_millis(10);

/// What waits for the broker: answers until there is room in the queue. Heartbeats do not wait.
struct Answers {
    publisher: Publisher,
    waiting: VecDeque<Reply>,
}

impl Answers {
    /// Says what the service has to say, and tells it what has arrived. A broker that is away stops nothing.
    fn publish(&mut self, service: &mut Service) {
        for Note(text) in service.notes() {
            note!("{text}");
        }
        self.waiting.extend(service.replies());
        let mut full = false;
        self.waiting.retain(|reply| {
            let Reply { topic, value, receipt } = reply;
            let time = i64::try_from(now_ms()).unwrap_or(i64::MAX);
            let said = match (full, receipt) {
                (true, _) => return receipt.is_some(),
                (false, Some(n)) => {
                    self.publisher.publish_for(*n, topic, value, time, Duration::ZERO)
                }
                (false, None) => self.publisher.publish(topic, value, time, Duration::ZERO),
            };
            let Err(e) = said else { return false };
            full = e.is_full();
            if !full {
                note!("fullcount: {e}");
            }
            if e.is_too_large() {
                // Said again at each start it would be refused at each: the echo of a start can be so large.
                receipt.iter().for_each(|receipt| service.confirmed(*receipt));
            }
            full && receipt.is_some()
        });
        self.publisher.poll();
        self.publisher.receipts().into_iter().for_each(|receipt| service.confirmed(receipt));
    }

    /// The same at the end: waits for the broker, but not for ever. What did not arrive is said at the next start.
    fn farewell(&mut self, service: &mut Service, brokers: &str, stop: &Stop) {
        for _ in 0..2 {
            self.publish(service);
            if let Err(e) = confirm(&self.publisher, brokers, FAREWELL, stop) {
                note!("fullcount: {e}; said at the next start");
                break;
            }
        }
        self.publish(service);
    }
}

/// Writes files until it is told to end.
pub fn write(flags: &Flags) -> Result<u8, Failure> {
    let options = flags.options()?;
    let settings = flags.settings()?;
    let brokers = fullcount_out::kafka::check_brokers(&flags.brokers)
        .map_err(|e| Failure::Wrong(format!("--brokers {e}")))?;
    let stop = Stop::on_signals_in_two_steps().context("installing the signal handlers")?;
    let begun = std::time::Instant::now();
    let directory = Directory::new(&brokers, &settings, news)?;
    // A job that goes on after a restart needs its topics: a broker that is away is waited for.
    let any = flags.pool.as_deref().or(flags.control.as_deref()).unwrap_or_default();
    if !directory.wait(any, &stop) {
        return Ok(1);
    }
    let publisher = Publisher::new(&brokers, &settings, news).map_err(anyhow::Error::from)?;
    let mut answers = Answers { publisher, waiting: VecDeque::new() };
    let heartbeat_only = options.heartbeat.min(Duration::from_millis(100));
    let mut service = Service::new(options, now_ms(), &directory).map_err(anyhow::Error::from)?;
    let mut orders = Orders::new(&brokers, &settings, news, flags.pool.as_deref(), &flags.group)?;
    orders.since(service.heard_ms());
    let mut data = Data::new(&brokers, &settings, news);
    note!("writing below {}", flags.folder.display());
    let mut rest = REST;
    while !stop.requested() && flags.files.is_none_or(|n| service.files().len() < n) {
        let mut busy = orders.poll(&mut service, &directory);
        service.ask(now_ms(), &directory);
        if orders.caught_up(&service) {
            busy |= data.poll(&mut service, heartbeat_only)?;
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
    service.end(now_ms(), flags.keep_jobs);
    answers.farewell(&mut service, &brokers, &stop);
    let summary = report::Summary::new(&service, begun.elapsed());
    if flags.json {
        note!("{}", summary.text().trim_end());
        say!("{}", summary.json());
    } else {
        tell!("{}", summary.text());
    }
    Ok(summary.exit_code())
}
