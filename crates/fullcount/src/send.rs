//! `fullcount send`: the readout system's stand-in.

mod destinations;
mod heaps;
mod options;
#[cfg(feature = "kafka")]
mod publish;
mod rate;
mod report;
mod traffic;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::Context;
use clap::Args;
use fullcount_core::simulator::Simulator;
use fullcount_detect::detector::Detector;
use fullcount_engine::config::{OneOrMore, SourceConfig, refuse};
use fullcount_engine::open::{SourcePlan, check_core};
use fullcount_engine::stop::Stop;
use fullcount_engine::summary::grouped;
use fullcount_io::quantity::{self, Rate};
use fullcount_lab::send::{Payload, SendJob, SendProgress};
use fullcount_log::LogLevel;

use self::options::OptionFlags;
use self::rate::SendRate;
use crate::exit::Failure;
use crate::shifted::Shifted;
use crate::{help, note, tell};

pub use report::shortfall;

/// Sends numbered packets, simulated detector readouts or a capture at a set rate.
#[derive(Debug, Args)]
#[command(after_help = help::examples("send", EXAMPLES))]
pub struct SendFlags {
    #[arg(long, value_name = "URL", required = true, help = help::send_to())]
    to: Vec<String>,
    /// Frames of the stcp:// destination go to this new file too (pcap; pcapng by its ending), at most
    /// 1 GB of them, or frames_limit= of the URL
    #[arg(long, value_name = "FILE")]
    frames_to: Option<PathBuf>,
    #[command(flatten)]
    what: TrafficFlags,
    #[command(flatten)]
    heaps: heaps::HeapFlags,
    #[cfg(feature = "kafka")]
    #[command(flatten)]
    kafka: publish::KafkaFlags,
    /// End with one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// What is sent and how fast.
#[derive(Debug, Clone, Args)]
pub struct TrafficFlags {
    #[arg(long, value_name = "SOURCE", default_value = "sequence", help = help::source())]
    source: String,
    #[arg(long, value_name = "RATE", help = help::send_rate())]
    rate: Option<String>,
    /// A rate in bits counts frames with preamble and gap instead of payload
    #[arg(long)]
    wire_rate: bool,
    /// End after this time, e.g. 10s
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// End after this many packets, e.g. 1M
    #[arg(long, value_name = "N")]
    count: Option<String>,
    /// Makes simulated data and stream number reproducible
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Faults on the way out: shares (loss=1e-4,duplicate=1%,swap=0.01,delay=0.001) or counts of a known
    /// length (drop=100,duplicate=100,swap=100,of=1000000); delay holds a packet back by=8 packets; seed=N.
    /// One for all destinations, which draw their own (seed, seed + 1, ...), or one for each in their order;
    /// none: no fault
    #[arg(long, value_name = "SPEC")]
    fault: Vec<String>,
    #[command(flatten)]
    options: OptionFlags,
    #[arg(long, value_name = "FILE", help = help::send_truth())]
    truth: Option<PathBuf>,
    /// Replace the file of --truth if it exists
    #[arg(long, requires = "truth")]
    overwrite: bool,
    /// Print the geometry file that fits the simulated detector, as a receiver on this host needs it, and exit
    #[arg(long)]
    print_geometry: bool,
    #[arg(long, value_name = "KIND", help = help::moved_detector())]
    detector: Option<String>,
    /// Key of that detector, as the receiver has it, e.g. detector.sequence_state=one; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// CPU to run on
    #[arg(long, value_name = "CPU")]
    core: Option<usize>,
    /// The demonstration has no flag for the readouts per packet.
    #[arg(skip)]
    demo: bool,
}

const EXAMPLES: &str = "\
  fullcount send --to udp://127.0.0.1:9000 --source 'pcap:run42.pcapng?speed=2'
  fullcount send --to spead+udp://127.0.0.1:8888 --source heaps --heaps 1000 --rate 5Gbps
  fullcount send --to 'spead+tcp://10.0.0.1:8888?framing=heap' --source heaps --duration 10s
  fullcount send --to kafka://localhost/logs --source logs --duration 60s
  fullcount send --to kafka://localhost/logs --source logs --print-structure > run.json
  fullcount send --to kafka://localhost/pool --source run --structure run.json --file run42.nxs \\
      --control filewriter --duration 60s
  fullcount send --to 'stcp://10.0.0.2:5000?interface=eth0&address=10.0.0.9' --frames-to run.pcap
  fullcount send --to udp://10.0.1.2:9000 --to udp://10.0.2.2:9000 --rate 1Gbps --duration 10s \\
      --fault loss=1e-3,seed=1 --fault loss=1e-2,seed=2";

impl TrafficFlags {
    /// What the demonstration of `detector` sends.
    pub fn for_demo(
        detector: &str,
        options: &[(&str, &str)],
        rate: &str,
        duration: &str,
        seed: u64,
    ) -> TrafficFlags {
        TrafficFlags {
            source: detector.into(),
            rate: Some(rate.into()),
            wire_rate: false,
            duration: Some(duration.into()),
            count: None,
            seed,
            fault: vec![],
            options: OptionFlags::of(options),
            truth: None,
            overwrite: false,
            print_geometry: false,
            detector: None,
            set: vec![],
            core: None,
            demo: true,
        }
    }

    /// Makes the job; nothing is opened except a capture. `first_port`: of detectors that need certain source ports.
    pub fn job(&self, to: &[String], first_port: Option<u16>) -> Result<SendJob, Failure> {
        let to = destinations::read(to, &self.fault)?;
        let duration = match &self.duration {
            Some(t) => {
                Some(quantity::duration(t).map_err(|e| refuse("duration", t, e.to_string()))?)
            }
            None => None,
        };
        let count = match &self.count {
            Some(n) => Some(quantity::count(n).map_err(|e| refuse("count", n, e.to_string()))?),
            None => None,
        };
        check_core("core", self.core)?;
        let simulator = self.simulator()?;
        let shifted = Shifted::new(&self.source, self.detector.as_deref(), &self.set)?;
        let rate = self.rate.as_deref().map(SendRate::read).transpose()?;
        // With both kinds the larger frames decide, so that no link gets more than it was meant to.
        let ipv6 = to.iter().any(|to| to.endpoint.ipv6());
        let (payload, packets_per_s, source_ports) = match (simulator, self.source.as_str()) {
            (Some((kind, options)), _) => self.simulated(kind, &options, rate, ipv6, first_port)?,
            (None, url) if url.starts_with("pcap:") => {
                let url = OneOrMore::One(url.to_owned());
                let config = SourceConfig { url, ..SourceConfig::default() };
                let shifted = shifted.as_ref().map(|d| d as &dyn Detector);
                let plan = SourcePlan::new(&config)?;
                plan.is_there()?;
                let source = plan.open_as_one(shifted).map_err(anyhow::Error::from)?;
                let pps = match rate {
                    None => None,
                    Some(SendRate::Link(Rate::Packets(pps))) => Some(pps),
                    Some(_) => {
                        let why = "a capture is paced by its own times, ?speed=F, ?flat-out, or a \
                                   rate in packets such as 10kpps";
                        let text = self.rate.as_deref().unwrap_or_default();
                        return Err(refuse("rate", text, why).into());
                    }
                };
                (Payload::Capture(source.source), pps, vec![])
            }
            (None, other) => {
                let all: Vec<&str> =
                    fullcount_sim::registered().kinds().map(Simulator::name).collect();
                let known = format!("{} or pcap:FILE", all.join(", "));
                return Err(refuse("source", other, known).into());
            }
        };
        let core = self.core;
        // A rate in events is one of the detector; one in bits or packets is one of the link, which sets its pace.
        let real_time = !matches!(rate, Some(SendRate::Link(_)));
        let wish = None;
        Ok(SendJob {
            to,
            payload,
            packets_per_s,
            real_time,
            duration,
            count,
            core,
            source_ports,
            wish,
        })
    }
}

/// Sends until the source, the duration or the count ends, or Ctrl-C.
pub fn send(mut flags: SendFlags) -> Result<u8, Failure> {
    if flags.what.source == heaps::SOURCE {
        flags.to = destinations::of_heaps(flags.to);
        return heaps::send(&flags);
    }
    if let Some(topic) = flags.to.iter().find(|to| to.starts_with("kafka://")) {
        if flags.to.len() > 1 {
            let why = "alone: several destinations are udp:// endpoints";
            return Err(refuse("to", topic, why).into());
        }
        #[cfg(feature = "kafka")]
        return publish::publish(&flags, topic);
        #[cfg(not(feature = "kafka"))]
        return Err(Failure::Wrong(crate::absent::sentence(topic, "kafka")));
    }
    if flags.what.print_geometry {
        let geometry = flags.what.geometry(None)?.ok_or_else(|| {
            refuse("source", &flags.what.source, "a simulated detector with a geometry file")
        })?;
        tell!("{geometry}");
        return Ok(0);
    }
    let to = destinations::recorded(&flags.to, flags.frames_to.as_deref())?;
    let mut job = flags.what.job(&to, None)?;
    for caution in job.to.iter().flat_map(|to| to.endpoint.cautions()) {
        fullcount_log::plain(LogLevel::Warning, &format!("fullcount: {caution}\n"));
    }
    let truth = flags.what.watched(&mut job)?;
    let wish = Arc::new(AtomicBool::new(false));
    job.wish = Some(wish.clone());
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let progress = Arc::new(SendProgress::default());
    let (watched, ending, asked) = (progress.clone(), stop.clone(), stop.clone());
    let sender = std::thread::Builder::new()
        .name("send".into())
        .spawn(move || job.run(&|| ending.requested(), &watched))
        .context("starting the sender")?;
    report::watch(&progress, || {
        wish.store(asked.requested(), Relaxed);
        sender.is_finished()
    });
    let sent = sender
        .join()
        .map_err(|_| anyhow::anyhow!("the sender panicked"))?
        .map_err(anyhow::Error::from)?;
    if let Some(truth) = truth {
        let rows = truth.finish().map_err(anyhow::Error::from)?;
        note!("truth: {} rows", grouped(rows));
    }
    Ok(report::report(&sent, flags.json))
}
