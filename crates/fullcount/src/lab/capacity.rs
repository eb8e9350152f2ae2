//! `fullcount lab capacity`: links, cores, hosts, partitions and disk for an instrument, from measured costs, and a small
//! simulation of one worker's queues and spool through pulses and an outage of the brokers.
//!
//! Refuses, before anything is computed: unknown instruments (with the names that there are), values out of range, and
//! files without measured costs.

mod measure;

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::{ConfigError, refuse};
use fullcount_engine::stop::Stop;
use fullcount_io::input_file;
use fullcount_io::quantity::{self, QuantityError, Rate};
use fullcount_lab::capacity::CapacityError;
use fullcount_lab::capacity::advice::run;
use fullcount_lab::capacity::instrument::{File, Instrument, Kind, named, table};
use fullcount_lab::capacity::measured::{Facts, Measure};
use fullcount_lab::capacity::plan::{EVENT_BYTES, Wishes, bound, plan};
use fullcount_lab::capacity::queues::{Setup, Sizes};
use fullcount_lab::capacity::report::{Report, overview, row, section};
use fullcount_out::flat::EventWriter;

use super::lossless::ResultFlags;
use crate::exit::Failure;
use crate::{say, tell};

/// Links, cores, hosts, partitions and disk of an instrument from measured costs, and its queues simulated.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// Instruments, with commas: names (see --list), all, or a file.toml of your own
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "all")]
    instrument: Vec<String>,
    /// List the instruments, what is known of them, and where from
    #[arg(long)]
    list: bool,
    /// Results of lab detectors, lab lossless or lab capacity --measure from your own machine, with
    /// commas; they replace what the committed ones say
    #[arg(long, value_name = "JSON", value_delimiter = ',', help_heading = "Costs")]
    measured: Vec<PathBuf>,
    /// Leave out the committed results: only --measured counts
    #[arg(long, requires = "measured", help_heading = "Costs")]
    no_committed: bool,
    #[command(flatten)]
    measure: measure::MeasureFlags,
    /// Bits a second that brokers take from one producer (e.g. 800Mbps), instead of the measured ones
    #[arg(long, value_name = "RATE", help_heading = "Costs")]
    producer_rate: Option<String>,
    #[command(flatten)]
    stream: StreamFlags,
    #[command(flatten)]
    hosts: HostFlags,
    #[command(flatten)]
    queues: QueueFlags,
    #[command(flatten)]
    result: ResultFlags,
}

/// What comes in and goes out.
#[derive(Debug, Args)]
struct StreamFlags {
    /// Events (5Mev/s) a second, average (one instrument); without a detector packets (5Mpps)
    #[arg(long, value_name = "RATE", help_heading = "Stream")]
    rate: Option<String>,
    /// The same in the 1 ms at the peak of a pulse (one instrument)
    #[arg(long, value_name = "RATE", help_heading = "Stream")]
    peak: Option<String>,
    /// Peak in units of the average, where the instrument does not say [default: 25.0, the most that a
    /// pulse of 2.86 ms at 14 Hz allows]
    #[arg(long, value_name = "N", help_heading = "Stream")]
    peak_factor: Option<f64>,
    /// Bytes of readout an event
    #[arg(long, value_name = "N", help_heading = "Stream")]
    bytes_per_event: Option<f64>,
    /// How much smaller compression makes topic and file
    #[arg(long, value_name = "N", help_heading = "Stream")]
    compress_factor: Option<f64>,
    /// Most events of a message (output.kafka.capacity)
    #[arg(long, value_name = "N", default_value_t = 12_400, help_heading = "Stream")]
    message_events: u64,
    /// Copies that the brokers keep
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Stream")]
    replication: u64,
    /// Time that they keep them
    #[arg(long, value_name = "TIME", default_value = "24h", help_heading = "Stream")]
    retention: String,
}

/// The machines.
#[derive(Debug, Args)]
struct HostFlags {
    /// Share of links and of measured rates that is used
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, help_heading = "Hosts")]
    headroom: f64,
    /// Threads of a worker, 1 or 2 (engine.threads)
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Hosts")]
    threads: u32,
    /// Cores of a host [default: as many as the measured one]
    #[arg(long, value_name = "N", help_heading = "Hosts")]
    host_cores: Option<u64>,
    /// Of these, cores left to the system [default: 1]
    #[arg(long, value_name = "N", help_heading = "Hosts")]
    reserve_cores: Option<u64>,
    /// Speed of a host's port
    #[arg(long, value_name = "RATE", default_value = "25Gbps", help_heading = "Hosts")]
    port: String,
    /// Ports of a host
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Hosts")]
    ports: u64,
    /// Instances for the average, or for the peak
    #[arg(long, value_name = "average|peak", default_value = "average", help_heading = "Hosts")]
    size_for: String,
}

/// The simulation.
#[derive(Debug, Args)]
struct QueueFlags {
    /// Outage of the brokers
    #[arg(long, value_name = "TIME", default_value = "60s", help_heading = "Queues")]
    outage: String,
    /// Receive buffer of the socket (source.receive_buffer)
    #[arg(long, value_name = "SIZE", default_value = "64MiB", help_heading = "Queues")]
    receive_buffer: String,
    /// Batches in the queue of the output (engine.queue)
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Queues")]
    queue: u64,
    /// Bound of each instance's spool (output.kafka.spool_size)
    #[arg(long, value_name = "SIZE", default_value = "4GiB", help_heading = "Queues")]
    spool_size: String,
    /// Step of time, 10us to 1ms
    #[arg(long, value_name = "TIME", default_value = "50us", help_heading = "Queues")]
    step: String,
    /// Seed of the arrivals
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Queues")]
    seed: u64,
}

const EXAMPLES: &str = "\
Each number comes with the measured one that it is from. The costs are those of the committed
results in docs/results, unless --measured gives others. An instrument of a file without a rate
is computed for each 1 M events/s until --rate is given. For a detector without a decoder here
(LoKI's) the cost of an event is assumed, and said. docs/capacity.md explains the tables.

Examples:
  fullcount lab capacity --list
  fullcount lab capacity --instrument skadi
  fullcount lab capacity --instrument nmx --peak 50Mev/s
  fullcount lab capacity --instrument mine.toml --host-cores 32 --port 100Gbps
  fullcount lab capacity --measure all --kafka kafka://broker/capacity-test --instrument skadi";

/// Usual name of the results.
const NAME: &str = "capacity";

/// Results of this repository, in the order of being read.
const COMMITTED: [(&str, &str); 4] = [
    ("detectors-memory.json", include_str!("../../../../docs/results/detectors-memory.json")),
    ("detectors-udp.json", include_str!("../../../../docs/results/detectors-udp.json")),
    ("lossless-veth-cut.json", include_str!("../../../../docs/results/lossless-veth-cut.json")),
    ("capacity-measured.json", include_str!("../../../../docs/results/capacity-measured.json")),
];

fn wrong(e: CapacityError) -> Failure {
    Failure::Wrong(e.to_string())
}

fn read<T>(
    key: &'static str,
    text: &str,
    by: impl Fn(&str) -> Result<T, QuantityError>,
) -> Result<T, ConfigError> {
    by(text).map_err(|e| refuse(key, text, e.to_string()))
}

fn bits(key: &'static str, text: &str) -> Result<f64, ConfigError> {
    match read(key, text, |t| t.parse::<Rate>())? {
        Rate::Bits(bits) => Ok(bits),
        Rate::Packets(_) => Err(refuse(key, text, "bits a second such as 25Gbps")),
    }
}

/// What the instrument sends a second: events of its detector, or bare packets.
fn per_second(key: &'static str, text: &str, kind: &Kind) -> Result<f64, ConfigError> {
    if kind.detector().is_some() {
        return read(key, text, quantity::events_per_second);
    }
    match read(key, text, |t| t.parse::<Rate>())? {
        Rate::Packets(packets) => Ok(packets),
        Rate::Bits(_) => Err(refuse(key, text, "packets a second such as 5Mpps")),
    }
}

impl Flags {
    fn instruments(&self) -> Result<Vec<Instrument>, Failure> {
        let mut all = vec![];
        for name in &self.instrument {
            if !name.ends_with(".toml") {
                all.extend(named(name).map_err(wrong)?);
                continue;
            }
            let limit = input_file::LARGEST_INPUT;
            let text = input_file::text(name.as_ref(), limit).map_err(|e| {
                refuse("instrument", name, format!("a file that can be read ({e})"))
            })?;
            let file: File = toml::from_str(&text)
                .map_err(|e| refuse("instrument", name, e.to_string().trim_end().to_owned()))?;
            all.extend(file.instruments(name).map_err(wrong)?);
        }
        let s = &self.stream;
        let own = [("rate", &s.rate), ("peak", &s.peak)];
        if let (Some((key, Some(value))), 2..) = (own.iter().find(|(_, v)| v.is_some()), all.len())
        {
            return Err(refuse(key, value, "only with one --instrument").into());
        }
        for i in &mut all {
            if let Some(text) = &s.rate {
                i.rate = Some(per_second("rate", text, &i.kind)?);
                i.source += "; rate as given by --rate";
            }
            if let Some(text) = &s.peak {
                i.peak = Some(per_second("peak", text, &i.kind)?);
            }
            if i.kind != Kind::Packets {
                i.bytes_per_event = s.bytes_per_event.or(i.bytes_per_event);
            }
            i.compress_factor = s.compress_factor.unwrap_or(i.compress_factor);
            i.check().map_err(wrong)?;
            if i.peak.is_some() && i.rate.is_none() {
                let why = "together with --rate, as the instrument's is not known";
                return Err(refuse("peak", s.peak.as_deref().unwrap_or("given"), why).into());
            }
        }
        Ok(all)
    }

    fn facts(&self) -> Result<Facts, Failure> {
        let mut facts = Facts::default();
        if !self.no_committed {
            for (name, text) in COMMITTED {
                facts.read(name, text).map_err(wrong)?;
            }
        }
        for path in &self.measured {
            let name = path.display().to_string();
            let text = input_file::text(path, input_file::LARGEST_INPUT)
                .map_err(|e| refuse("measured", &name, format!("a file that can be read ({e})")))?;
            // The folder says nothing about the number.
            let short = path.file_name().map_or(name.clone(), |n| n.to_string_lossy().into_owned());
            facts.read(&short, &text).map_err(wrong)?;
        }
        Ok(facts)
    }

    fn wishes(&self, facts: &Facts) -> Result<Wishes, Failure> {
        let (s, h) = (&self.stream, &self.hosts);
        let host_cores = h.host_cores.or(facts.cpus).unwrap_or(1);
        let produce = match &self.producer_rate {
            Some(text) => Some(bits("producer-rate", text)? / 8.0),
            None => None,
        };
        let size_for_peak = match h.size_for.as_str() {
            "average" => false,
            "peak" => true,
            other => return Err(refuse("size-for", other, "average or peak").into()),
        };
        let wishes = Wishes {
            headroom: h.headroom,
            peak_factor: s.peak_factor.unwrap_or(bound()),
            threads: h.threads,
            host_cores,
            reserve: h.reserve_cores.unwrap_or(u64::from(host_cores > 1)),
            port: bits("port", &h.port)?,
            ports: h.ports,
            message_events: s.message_events,
            message_bytes: 0.0,
            replication: s.replication,
            retention_s: read("retention", &s.retention, quantity::duration)?.as_secs_f64(),
            outage_s: read("outage", &self.queues.outage, quantity::duration)?.as_secs_f64(),
            produce,
            size_for_peak,
        };
        wishes.check().map_err(wrong)?;
        let message_bytes = message_bytes(wishes.message_events)?;
        Ok(Wishes { message_bytes, ..wishes })
    }

    fn sizes(&self, wishes: &Wishes) -> Result<Sizes, Failure> {
        let q = &self.queues;
        let size = |key, text: &String, least: u64| {
            let bytes = read(key, text, quantity::size)?;
            match bytes >= least {
                true => Ok(bytes),
                false => Err(refuse(key, text, format!("{} and more", quantity::size_text(least)))),
            }
        };
        if !(1..=4096).contains(&q.queue) {
            return Err(refuse("queue", q.queue, "1 to 4096 batches").into());
        }
        let step_s = read("step", &q.step, quantity::duration)?.as_secs_f64();
        if !(10e-6..=1e-3).contains(&step_s) {
            return Err(refuse("step", &q.step, "10us to 1ms").into());
        }
        // 72 million steps of a few ns.
        if wishes.outage_s > 3600.0 {
            return Err(refuse("outage", &q.outage, "at most 1h, as it is simulated").into());
        }
        Ok(Sizes {
            receive_buffer: size("receive-buffer", &q.receive_buffer, 4096)?,
            queue: q.queue,
            spool: size("spool-size", &q.spool_size, 16 << 20)?,
            step_s,
            outage_s: wishes.outage_s,
            seed: q.seed,
        })
    }
}

/// Bytes of an ev44 message beside its events: one is made and counted.
fn message_bytes(events: u64) -> Result<f64, Failure> {
    let batch = measure::batch(events as u32, 0);
    let mut writer = EventWriter::new();
    let message = writer.ev44("detector", 1, &batch).map_err(anyhow::Error::from)?;
    Ok(message.len() as f64 - events as f64 * EVENT_BYTES)
}

/// Computes and prints.
pub fn capacity(flags: Flags) -> Result<u8, Failure> {
    if flags.list {
        list();
        return Ok(0);
    }
    let instruments = flags.instruments()?;
    let mut facts = flags.facts()?;
    let wishes = flags.wishes(&facts)?;
    let sizes = flags.sizes(&wishes)?;
    let parts = flags.measure.parts()?;
    let mut record = flags.result.begin(NAME)?;
    if let Some(parts) = parts {
        let stop = Stop::on_signals().context("installing the signal handlers")?;
        let measured =
            measure::measure(&parts, &flags.result.folder(), flags.result.overwrite(), &stop)?;
        facts.read("capacity-measured.json (now)", &measured.to_string()).map_err(wrong)?;
    }
    let value = |m: &Option<Measure>| m.as_ref().map(|m| m.value);
    let mut reports = vec![];
    for instrument in &instruments {
        let plan = plan(instrument, &facts, &wishes).map_err(wrong)?;
        let produce = wishes.produce.or(value(&facts.produce));
        let setup = Setup::new(&plan, &sizes, value(&facts.spool), produce);
        reports.push(Report::new(plan, run(setup), sizes));
    }
    record
        .parameter("headroom", wishes.headroom)
        .parameter("peak_factor", wishes.peak_factor)
        .parameter("threads", wishes.threads)
        .parameter("host_cores", wishes.host_cores)
        .parameter("reserve_cores", wishes.reserve)
        .parameter("port_bits_per_s", wishes.port)
        .parameter("ports", wishes.ports)
        .parameter("size_for", flags.hosts.size_for.clone())
        .parameter("message_events", wishes.message_events)
        .parameter("message_bytes", wishes.message_bytes)
        .parameter("replication", wishes.replication)
        .parameter("retention_s", wishes.retention_s)
        .parameter("outage_s", wishes.outage_s)
        .parameter("step_s", sizes.step_s)
        .parameter("seed", sizes.seed);
    reports.iter().for_each(|r| {
        record.row(row(r, &facts));
    });
    let mut text = overview(&reports);
    text +=
        "\nBefore the arrow: average over pulses. Behind it: in the 1 ms at the peak of a pulse.\n";
    reports.iter().for_each(|r| text += &section(r, &facts));
    flags.result.finish_as("Computed", &record, "What an instrument needs", &text)?;
    Ok(0)
}

/// The table of instruments.
fn list() {
    tell!(
        "| instrument | what | events/s | bytes an event | links | source |\n|:--|:--|--:|--:|:--|:--|\n"
    );
    for i in table() {
        let of_events = |v: Option<String>| v.filter(|_| i.kind != Kind::Packets);
        let shown = |v: Option<String>| of_events(v).unwrap_or("–".to_owned());
        let rate = shown(i.rate.map(|rate| format!("{} M", rate / 1e6)));
        let links =
            i.links.map_or("–".to_owned(), |l| format!("{} × {} GbE", l.count, l.speed / 1e9));
        let each = shown(i.bytes_per_event.map(|bytes| format!("{bytes:.1}")));
        let assumed = i.kind.assumption().map_or(String::new(), |what| format!("; {what}"));
        say!("| {} | {} | {rate} | {each} | {links} | {}{assumed} |", i.name, i.about, i.source);
    }
}
