//! LabCapacityFlags of `lab capacity`, and those of `--measure` checked.
//!
//! Refuses: unknown parts to measure, times out of range, and brokers without an address.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_lab::bench::costs::{CostParts, KNOWN};

use crate::exit::Failure;
use crate::lab::read;
use crate::lab::results::ResultFlags;

/// Links, cores, hosts, partitions and disk of an instrument from measured costs, and its queues simulated.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabCapacityFlags {
    /// Instruments, with commas: names (see --list), all, or a file.toml of your own
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "all")]
    pub(super) instrument: Vec<String>,
    /// List the instruments, what is known of them, and where from
    #[arg(long)]
    pub(super) list: bool,
    /// Results of lab detectors, lab lossless or lab capacity --measure from your own machine, with
    /// commas; they replace what the committed ones say
    #[arg(long, value_name = "JSON", value_delimiter = ',', help_heading = "Costs")]
    pub(super) measured: Vec<PathBuf>,
    /// Leave out the committed results: only --measured counts
    #[arg(long, requires = "measured", help_heading = "Costs")]
    pub(super) no_committed: bool,
    #[command(flatten)]
    pub(super) measure: MeasureFlags,
    /// Bits a second that brokers take from one producer (e.g. 800Mbps), instead of the measured ones
    #[arg(long, value_name = "RATE", help_heading = "Costs")]
    pub(super) producer_rate: Option<String>,
    #[command(flatten)]
    pub(super) stream: StreamFlags,
    #[command(flatten)]
    pub(super) hosts: HostFlags,
    #[command(flatten)]
    pub(super) queues: QueueFlags,
    #[command(flatten)]
    pub(super) result: ResultFlags,
}

/// What comes in and goes out.
#[derive(Debug, Args)]
pub(super) struct StreamFlags {
    /// Events (5Mev/s) a second, average (one instrument); without a detector packets (5Mpps)
    #[arg(long, value_name = "RATE", help_heading = "Stream")]
    pub(super) rate: Option<String>,
    /// The same in the 1 ms at the peak of a pulse (one instrument)
    #[arg(long, value_name = "RATE", help_heading = "Stream")]
    pub(super) peak: Option<String>,
    /// Peak in units of the average, where the instrument does not say [default: 25.0, the most that a
    /// pulse of 2.86 ms at 14 Hz allows]
    #[arg(long, value_name = "N", help_heading = "Stream")]
    pub(super) peak_factor: Option<f64>,
    /// Bytes of readout an event
    #[arg(long, value_name = "N", help_heading = "Stream")]
    pub(super) bytes_per_event: Option<f64>,
    /// How much smaller compression makes topic and file
    #[arg(long, value_name = "N", help_heading = "Stream")]
    pub(super) compress_factor: Option<f64>,
    /// Most events of a message (output.kafka.capacity)
    #[arg(long, value_name = "N", default_value_t = 12_400, help_heading = "Stream")]
    pub(super) message_events: u64,
    /// Copies that the brokers keep
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Stream")]
    pub(super) replication: u64,
    /// Time that they keep them
    #[arg(long, value_name = "TIME", default_value = "24h", help_heading = "Stream")]
    pub(super) retention: String,
}

/// The machines.
#[derive(Debug, Args)]
pub(super) struct HostFlags {
    /// Share of links and of measured rates that is used
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, help_heading = "Hosts")]
    pub(super) headroom: f64,
    /// Threads of a worker, 1 or 2 (engine.threads)
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Hosts")]
    pub(super) threads: u32,
    /// Cores of a host [default: as many as the measured one]
    #[arg(long, value_name = "N", help_heading = "Hosts")]
    pub(super) host_cores: Option<u64>,
    /// Of these, cores left to the system [default: 1]
    #[arg(long, value_name = "N", help_heading = "Hosts")]
    pub(super) reserve_cores: Option<u64>,
    /// Speed of a host's port
    #[arg(long, value_name = "RATE", default_value = "25Gbps", help_heading = "Hosts")]
    pub(super) port: String,
    /// Ports of a host
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Hosts")]
    pub(super) ports: u64,
    /// Instances for the average, or for the peak
    #[arg(long, value_name = "average|peak", default_value = "average", help_heading = "Hosts")]
    pub(super) size_for: String,
}

/// The simulation.
#[derive(Debug, Args)]
pub(super) struct QueueFlags {
    /// Outage of the brokers
    #[arg(long, value_name = "TIME", default_value = "60s", help_heading = "Queues")]
    pub(super) outage: String,
    /// Receive buffer of the socket (source.receive_buffer)
    #[arg(long, value_name = "SIZE", default_value = "64MiB", help_heading = "Queues")]
    pub(super) receive_buffer: String,
    /// Batches in the queue of the output (engine.queue)
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Queues")]
    pub(super) queue: u64,
    /// Bound of each instance's spool (output.kafka.spool_size)
    #[arg(long, value_name = "SIZE", default_value = "4GiB", help_heading = "Queues")]
    pub(super) spool_size: String,
    /// Step of time, 10us to 1ms
    #[arg(long, value_name = "TIME", default_value = "50us", help_heading = "Queues")]
    pub(super) step: String,
    /// Seed of the arrivals
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Queues")]
    pub(super) seed: u64,
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

/// What is measured here.
#[derive(Debug, Args)]
pub(super) struct MeasureFlags {
    /// Measure here first, with commas: detectors, messages, spool, disk, brokers, or all; written to
    /// capacity-measured.json beside the results
    #[arg(long, value_name = "PARTS", value_delimiter = ',', help_heading = "Costs")]
    measure: Vec<String>,
    /// Topic for --measure brokers: kafka://HOST[:PORT]/TOPIC, with one partition
    #[cfg(feature = "kafka")]
    #[arg(long, value_name = "URL", requires = "measure", help_heading = "Costs")]
    kafka: Option<String>,
    /// Length of a trial of --measure
    #[arg(long, value_name = "TIME", default_value = "2s", help_heading = "Costs")]
    trial: String,
}

impl MeasureFlags {
    /// What is asked for; `None`: nothing.
    pub fn parts(&self) -> Result<Option<CostParts>, Failure> {
        let trial = read::duration("trial", &self.trial)?;
        if !(Duration::from_millis(10)..=Duration::from_secs(600)).contains(&trial) {
            return Err(refuse("trial", &self.trial, "10ms to 10min").into());
        }
        if self.measure.is_empty() {
            return Ok(None);
        }
        let other = |p: &&String| *p != "all" && !KNOWN.contains(&p.as_str());
        if let Some(other) = self.measure.iter().find(other) {
            let known = format!("all, or of {} with commas", KNOWN.join(", "));
            return Err(refuse("measure", other, known).into());
        }
        let all = self.measure.iter().any(|p| p == "all");
        let has = |part: &str| all || self.measure.iter().any(|p| p == part);
        #[cfg(feature = "kafka")]
        let brokers = match &self.kafka {
            Some(url) => {
                let address = fullcount_kafka::Address::parse(url);
                Some(address.map_err(|e| refuse("kafka", url, e.to_string()))?)
            }
            None if has("brokers") && !all => {
                let why = "only with --kafka kafka://HOST/TOPIC";
                return Err(refuse("measure", "brokers", why).into());
            }
            None => None,
        };
        #[cfg(not(feature = "kafka"))]
        if has("brokers") && !all {
            return Err(refuse("measure", "brokers", "a build with the feature `kafka`").into());
        }
        Ok(Some(CostParts {
            detectors: has("detectors"),
            messages: has("messages"),
            spool: has("spool"),
            disk: has("disk"),
            #[cfg(feature = "kafka")]
            brokers: brokers.filter(|_| has("brokers")),
            trial,
        }))
    }
}
