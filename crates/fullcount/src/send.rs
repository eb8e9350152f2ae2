//! `fullcount send`: the readout system's stand-in.

mod answered;
mod coincidence;
mod destinations;
mod facility;
mod publish;
mod rate;
mod report;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use fullcount_core::link::Wire;
use fullcount_detect::detector::Detector;
use fullcount_engine::config::{OneOrMore, SourceConfig, refuse};
use fullcount_engine::open::{SourcePlan, check_core};
use fullcount_engine::stop::Stop;
use fullcount_engine::summary::grouped;
use fullcount_io::quantity::{self, Rate};
use fullcount_lab::send::{Job, Payload, SendProgress};
use fullcount_lab::traffic::panel::Panel;
use fullcount_lab::traffic::sequence::{Sequence, SequenceSetup};
use fullcount_lab::traffic::sonde::{Mode, Sonde, SondeSetup};
use fullcount_lab::traffic::{Traffic, TrafficError};

use self::rate::SendRate;
use crate::exit::Failure;
use crate::shifted::Shifted;
use crate::{note, tell};

pub use report::shortfall;

/// Sends numbered packets, simulated detector readouts or a capture at a set rate.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// Destination, e.g. udp://127.0.0.1:9000, udp://239.1.2.3:9000?interface=10.0.0.1&ttl=2 or
    /// kafka://broker/topic. May be repeated: each gets the same packets, as over redundant links
    #[arg(long, value_name = "URL", required = true)]
    to: Vec<String>,
    #[command(flatten)]
    what: SendFlags,
    #[command(flatten)]
    kafka: publish::KafkaFlags,
    /// End with one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Source of simulated values of slow control, for Kafka.
const NAME_OF_LOGS: &str = "logs";
/// Source of the start and stop of a run, for Kafka.
const NAME_OF_RUN: &str = "run";

/// What is sent and how fast.
#[derive(Debug, Clone, Args)]
pub struct SendFlags {
    /// sequence (numbered packets), sonde, multigrid, multiblade or gdgem (simulated readouts) or
    /// pcap:FILE (a capture); to Kafka: logs (simulated values of slow control) or run (start and stop
    /// of a run)
    #[arg(long, value_name = "SOURCE", default_value = "sequence")]
    source: String,
    /// Payload bytes of a sequence packet, 24 to 65507; several: 64,128,1472
    #[arg(long, value_name = "BYTES", default_value = "1472")]
    size: String,
    /// Payload bits (10Gbps), packets (14.88Mpps) or events (1Mev/s) per second, to each destination; with
    /// events a simulated detector's clock goes as fast as real time
    /// [default: flat out; sonde 1Mev/s; multigrid and multiblade 10kev/s a module; gdgem 100kev/s; a capture as recorded]
    #[arg(long, value_name = "RATE")]
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
    /// Readouts per packet: SoNDe 1 to 255 [default: 250], Multi-Blade 2 to 1121 [default: 8 to 70 by
    /// rate], words of a Gd-GEM frame 50 to 1492 [default: 1492]
    #[arg(long, value_name = "N")]
    entries: Option<usize>,
    /// SoNDe data mode: d6 (time), d5 or d4 (pulse height)
    #[arg(long, value_name = "MODE", default_value = "d6")]
    mode: String,
    /// SoNDe modules: one, all (400 in 100 groups of 2 x 2, as in the demo) or COLUMNSxROWS [default:
    /// one]; Multi-Grid modules: 1 to 16 [default: 3]; Multi-Blade cassettes: 6 or 50 [default: 6]
    #[arg(long, value_name = "MODULES")]
    modules: Option<String>,
    /// Hits of each Gd-GEM track in each plane, 1 to 20 [default: as the track goes]
    #[arg(long, value_name = "N")]
    hits: Option<usize>,
    /// What coincidence detectors send beside single neutrons, as shares of them:
    /// dark=1%,bad=0.1%,coincidence=0.1%; packet=0.1% (of the packets); pileup=random or =1%; monitor=1%
    /// (Multi-Blade of 6 cassettes); dead=1% (of the strips of a Gd-GEM) [default: none]
    #[arg(long, value_name = "SPEC")]
    noise: Option<String>,
    /// External triggers of a Multi-Grid, 1Hz to 1000Hz
    #[arg(long, value_name = "RATE", default_value = "14Hz")]
    pulse_rate: String,
    /// Write what a Multi-Grid, Multi-Blade or Gd-GEM made to this file, neutron by neutron (CSV)
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Replace the file of --truth if it exists
    #[arg(long, requires = "truth")]
    overwrite: bool,
    /// Print the geometry file that fits --modules, as a receiver on this host needs it, and exit
    #[arg(long)]
    print_geometry: bool,
    /// Detector whose rule moves a capture with ?shift on, or whose pixels are in a printed structure:
    /// sonde, multigrid, multiblade, gdgem or sequence [default: sonde]
    #[arg(long, value_name = "KIND")]
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
Examples:
  fullcount send --to udp://127.0.0.1:9000 --source sequence --size 64 --rate 10Gbps --duration 10s
  fullcount send --to udp://127.0.0.1:9000 --source sonde --rate 1Mev/s --duration 60s
  fullcount send --to udp://127.0.0.1:9000 --source sonde --modules all --print-geometry > all.toml
  fullcount send --to udp://127.0.0.1:9000 --source multigrid --rate 100kev/s --truth truth.csv
  fullcount send --to udp://127.0.0.1:9000 --source multiblade --noise dark=1%,bad=0.1%
  fullcount send --to udp://127.0.0.1:9000 --source gdgem --rate 1Mev/s --noise pileup=random
  fullcount send --to udp://127.0.0.1:9000 --source 'pcap:run42.pcapng?speed=2'
  fullcount send --to kafka://localhost/logs --source logs --duration 60s
  fullcount send --to kafka://localhost/logs --source logs --print-structure > run.json
  fullcount send --to kafka://localhost/logs --print-structure --events loki_detector/loki \\
      --detector multiblade --geometry loki.json > run.json
  fullcount send --to kafka://localhost/pool --source run --structure run.json --file run42.nxs \\
      --control filewriter --duration 60s
  fullcount send --to udp://daq1:9000 --source 'pcap:a.pcapng?repeat=100&shift' --detector sonde
  fullcount send --to udp://10.0.0.2:9000 --source sequence --count 1M --fault loss=1e-4,seed=7
  fullcount send --to udp://10.0.1.2:9000 --to udp://10.0.2.2:9000 --rate 1Gbps --duration 10s \\
      --fault loss=1e-3,seed=1 --fault loss=1e-2,seed=2";

impl SendFlags {
    /// What the demonstration of `detector` sends.
    pub fn for_demo(detector: &str, rate: &str, duration: &str, seed: u64) -> SendFlags {
        SendFlags {
            source: detector.into(),
            size: "1472".into(),
            rate: Some(rate.into()),
            wire_rate: false,
            duration: Some(duration.into()),
            count: None,
            seed,
            fault: vec![],
            entries: None,
            mode: "d6".into(),
            modules: None,
            hits: None,
            noise: None,
            pulse_rate: "14Hz".into(),
            truth: None,
            overwrite: false,
            print_geometry: false,
            detector: None,
            set: vec![],
            core: None,
            demo: true,
        }
    }

    /// Panel of the simulated SoNDe detector; a single module for other sources, which have none.
    pub fn panel(&self) -> Result<Panel, Failure> {
        let modules = match self.is_coincidence() {
            true => "one",
            false => self.modules.as_deref().unwrap_or("one"),
        };
        let wrong = || {
            let why = "one, all, or COLUMNSxROWS such as 4x4";
            Failure::from(refuse("modules", modules, why))
        };
        match modules {
            "one" => Panel::new(1, 1).map_err(|e| Failure::Wrong(e.to_string())),
            "all" => Ok(Panel::full()),
            other => {
                let (c, r) = other.split_once('x').ok_or_else(wrong)?;
                let size = c.parse().ok().zip(r.parse().ok());
                let (columns, rows) = size.ok_or_else(wrong)?;
                Panel::new(columns, rows).map_err(|e| Failure::Wrong(e.to_string()))
            }
        }
    }

    /// Makes the job; nothing is opened except a capture.
    pub fn job(&self, to: &[String], panel: Panel) -> Result<Job, Failure> {
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
        self.only_coincidence()?;
        let shifted = Shifted::new(&self.source, self.detector.as_deref(), &self.set)?;
        let rate = self.rate.as_deref().map(SendRate::read).transpose()?;
        // With both kinds the larger frames decide, so that no link gets more than it was meant to.
        let ipv6 = to.iter().any(|to| to.url.resolve().is_ok_and(|a| a.is_ipv6()));
        let (payload, packets_per_s, source_ports) = match self.source.as_str() {
            "sequence" => self.sequence(rate, ipv6)?,
            "sonde" => self.sonde(rate, ipv6, panel)?,
            "multigrid" => self.multigrid(rate, ipv6)?,
            "multiblade" => self.multiblade(rate, ipv6)?,
            "gdgem" => self.gdgem(rate, ipv6)?,
            url if url.starts_with("pcap:") => {
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
            other => {
                let known = "sequence, sonde, multigrid, multiblade, gdgem or pcap:FILE";
                return Err(refuse("source", other, known).into());
            }
        };
        let core = self.core;
        // A rate in events is one of the detector; one in bits or packets is one of the link, which sets its pace.
        let real_time = !matches!(rate, Some(SendRate::Link(_)));
        Ok(Job { to, payload, packets_per_s, real_time, duration, count, core, source_ports })
    }

    fn sequence(
        &self,
        rate: Option<SendRate>,
        ipv6: bool,
    ) -> Result<(Payload, Option<f64>, Vec<u16>), Failure> {
        let size = |t: &str| quantity::size(t).map_err(|e| refuse("size", t, e.to_string()));
        let sizes = self.size.split(',').map(size).collect::<Result<Vec<u64>, _>>()?;
        let sizes: Vec<usize> = sizes.into_iter().map(|n| n as usize).collect();
        let setup = SequenceSetup { sizes, seed: self.seed, count: None };
        let traffic = Sequence::new(&setup).map_err(|e| Failure::Wrong(e.to_string()))?;
        let mean = traffic.mean_packet();
        let pps = match rate {
            None => None,
            Some(SendRate::Link(rate)) => Some(self.pps(rate, mean, ipv6)),
            Some(SendRate::Events(_)) => {
                let text = self.rate.as_deref().unwrap_or_default();
                return Err(refuse("rate", text, "sequence packets hold no events").into());
            }
        };
        Ok((Payload::Traffic(Box::new(traffic)), pps, vec![]))
    }

    fn sonde(
        &self,
        rate: Option<SendRate>,
        ipv6: bool,
        panel: Panel,
    ) -> Result<(Payload, Option<f64>, Vec<u16>), Failure> {
        let mode = match self.mode.as_str() {
            "d6" => Mode::TriggerTime,
            "d5" => Mode::SingleEvent,
            "d4" => Mode::MultiEvent,
            other => return Err(refuse("mode", other, "d6, d5 or d4").into()),
        };
        let wrong = |e: TrafficError| Failure::Wrong(self.in_flags(&e));
        // The packet's shape decides how bits and packets become events.
        let entries = self.entries.unwrap_or(250);
        let (bytes, events) = Sonde::packet(mode, entries).map_err(wrong)?;
        let events_per_s = match rate.unwrap_or(SendRate::Events(1e6)) {
            SendRate::Events(n) => n,
            SendRate::Link(rate) => self.pps(rate, bytes as f64, ipv6) * events as f64,
        };
        let (seed, count) = (self.seed, None);
        let setup = SondeSetup { panel, mode, entries, events_per_s, seed, count };
        let traffic = Sonde::new(&setup).map_err(wrong)?;
        let pps = match rate {
            Some(SendRate::Link(_)) => events_per_s / events as f64,
            _ => traffic.packets_per_s(),
        };
        let ports = match panel.lanes() {
            1 => vec![],
            n => (0..n).map(|lane| panel.source_port(lane)).collect(),
        };
        Ok((Payload::Traffic(Box::new(traffic)), Some(pps), ports))
    }

    /// The sentence with the flags of the verb that was called.
    fn in_flags(&self, e: &TrafficError) -> String {
        match e {
            TrafficError::Slow { rate, lowest, .. } if self.demo => format!(
                "--rate: {rate} events/s is too low for this demonstration: its dimmest module would \
                 send nothing for longer than the 2.1 s after which 32-bit times are ambiguous; give \
                 at least --rate {lowest:.0}ev/s"
            ),
            TrafficError::Slow { .. }
            | TrafficError::Entries(_)
            | TrafficError::Readouts(_)
            | TrafficError::Words(_)
            | TrafficError::Hits(_)
            | TrafficError::GridModules(_)
            | TrafficError::Cassettes(_) => format!("--{e}"),
            other => other.to_string(),
        }
    }

    /// Packets per second for packets of `mean` bytes. Of mixed sizes the mean is right for bits on the
    /// wire too: from 24 B on every datagram costs the same on top of its payload, but for fragments.
    fn pps(&self, rate: Rate, mean: f64, ipv6: bool) -> f64 {
        let payload = mean.round() as usize;
        let wire = self.wire_rate.then(|| Wire::usual(ipv6, payload));
        rate.packets_per_second(payload, wire)
    }
}

/// Sends until the source, the duration or the count ends, or Ctrl-C.
pub fn send(flags: Flags) -> Result<u8, Failure> {
    if let Some(topic) = flags.to.iter().find(|to| to.starts_with("kafka://")) {
        if flags.to.len() > 1 {
            let why = "alone: several destinations are udp:// endpoints";
            return Err(refuse("to", topic, why).into());
        }
        return publish::publish(&flags, topic);
    }
    let panel = flags.what.panel()?;
    if flags.what.print_geometry {
        match flags.what.configuration()? {
            Some(text) => tell!("{text}"),
            None => tell!("{}", panel.geometry_toml(std::net::Ipv4Addr::LOCALHOST.into())),
        }
        return Ok(0);
    }
    let mut job = flags.what.job(&flags.to, panel)?;
    let truth = flags.what.watched(&mut job)?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let progress = Arc::new(SendProgress::default());
    let (watched, ending) = (progress.clone(), stop.clone());
    let sender = std::thread::Builder::new()
        .name("send".into())
        .spawn(move || job.run(&|| ending.requested(), &watched))
        .context("starting the sender")?;
    report::watch(&progress, || sender.is_finished());
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
