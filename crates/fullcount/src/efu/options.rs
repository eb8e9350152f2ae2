//! The unit's options, with its letters and defaults; what some of them mean, and those that are refused.

use std::net::Ipv4Addr;

use clap::Args;
use clap::error::{ContextKind, ContextValue};
use fullcount_detect::detector::registered;
use fullcount_io::input_file;
use serde_json::Value;

/// Takes the options of the event formation unit and runs the same, under its names of counters
#[derive(Debug, Clone, Args)]
#[command(after_help = examples())]
pub struct EfuFlags {
    #[arg(short = 'd', long, value_name = "MODULE", help = format!("Detector module: {}", modules()))]
    pub det: String,
    /// Local address of the receiving interface; a multicast address is joined
    #[arg(short = 'i', long, value_name = "ADDR", default_value = "0.0.0.0")]
    pub dip: Ipv4Addr,
    /// UDP port of the readout data
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 9000)]
    pub port: u16,
    /// Kafka brokers
    #[arg(
        short = 'b',
        long = "broker_addr",
        value_name = "HOST:PORT",
        default_value = "localhost:9092"
    )]
    pub broker_addr: String,
    /// Topic of the events [default: MODULE_detector]
    #[arg(short = 't', long = "broker_topic", value_name = "TOPIC")]
    pub broker_topic: Option<String>,
    /// Topic of raw packets; without it none are sent
    #[arg(long = "ar51_topic", value_name = "TOPIC")]
    pub ar51_topic: Option<String>,
    /// JSON file of client properties of Kafka
    #[arg(long = "kafka_config", value_name = "FILE")]
    pub kafka_config: Option<String>,
    /// Configuration of the detector (JSON)
    #[arg(short = 'f', long, value_name = "FILE")]
    pub file: Option<String>,
    /// Calibration (JSON)
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<String>,
    /// TCP port of the command server, on this machine only
    #[arg(short = 'm', long, value_name = "PORT", default_value_t = 8888)]
    pub cmdport: u16,
    /// Address of the Carbon server
    #[arg(short = 'g', long, value_name = "HOST", default_value = "127.0.0.1")]
    pub graphite: String,
    /// Port of the Carbon server
    #[arg(short = 'o', long, value_name = "PORT", default_value_t = 2003)]
    pub gport: u16,
    /// First part of the names of counters [default: efu.DETECTOR]
    #[arg(long = "graphite_prefix", value_name = "PREFIX")]
    pub graphite_prefix: Option<String>,
    /// Second part of the names of counters [default: 0]
    #[arg(short = 'r', long, value_name = "REGION")]
    pub region: Option<String>,
    /// Graylog server, port 12201 unless given [default: none]
    #[arg(short = 'a', long, value_name = "HOST")]
    pub logip: Option<String>,
    /// Log level: Critical, Error, Warning, Notice, Info, Debug, or 1 to 7 [default: Info]
    #[arg(short = 'l', long = "log_level", value_name = "LEVEL", value_parser = level)]
    pub log_level: Option<u8>,
    /// Copy of the log
    #[arg(long = "log_file", value_name = "FILE")]
    pub log_file: Option<String>,
    /// Seconds to run; 4294967295: for ever; 0: end right after the start
    #[arg(short = 's', long, value_name = "SECONDS", default_value_t = u32::MAX)]
    pub stopafter: u32,
    /// Seconds between forced output of events
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub updateinterval: u32,
    /// Receive buffer of the socket, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 2_000_000)]
    pub rxbuffer: u64,
    /// Send buffer of the socket, bytes; nothing is sent from it
    #[arg(long, value_name = "BYTES", default_value_t = 9216)]
    pub txbuffer: u64,
    /// Skips the check of the interfaces
    #[arg(long)]
    pub nohwcheck: bool,
    /// Interfaces to be checked: up, with an IPv4 address and a large MTU
    #[arg(long, value_name = "NAMES", value_delimiter = ',', num_args = 1..)]
    pub checkif: Vec<String>,
    /// Smallest MTU that passes the check
    #[arg(short = 'u', long = "min_mtu", value_name = "BYTES", default_value_t = 9000)]
    pub min_mtu: usize,
    /// Raw packets: period in packets
    #[arg(long = "monitor_every", value_name = "N", default_value_t = 1000)]
    pub monitor_every: u64,
    /// Raw packets: packets of each period
    #[arg(long = "monitor_consecutive", value_name = "N", default_value_t = 2)]
    pub monitor_consecutive: u64,
    /// CPUs: N for input and N+1 for processing, or input:N,processing:M
    #[arg(short = 'c', long = "core_affinity", value_name = "CPUS")]
    pub core_affinity: Option<String>,
    #[arg(long, hide = true)]
    udder: bool,
    #[arg(long = "udder_usleep", hide = true)]
    udder_usleep: Option<String>,
    #[arg(long = "udder_events_per_pulse", hide = true)]
    udder_events_per_pulse: Option<String>,
    #[arg(long = "write_config", hide = true)]
    write_config: Option<String>,
    #[arg(long = "read_config", hide = true)]
    read_config: Option<String>,
    #[arg(long, hide = true)]
    dumptofile: Option<String>,
    #[arg(long, hide = true)]
    wlo: Option<String>,
    #[arg(long, hide = true)]
    whi: Option<String>,
    #[arg(long, hide = true)]
    glo: Option<String>,
    #[arg(long, hide = true)]
    ghi: Option<String>,
    #[arg(long, hide = true)]
    module: Option<String>,
    #[arg(long = "ttlmonitor-reduce", hide = true)]
    ttlmonitor_reduce: Option<String>,
}

/// Modules of the unit that a detector here takes the place of, as in a sentence.
pub fn modules() -> String {
    let all = registered().kinds().filter_map(|kind| kind.published());
    all.flat_map(|p| p.modules.iter().copied()).collect::<Vec<_>>().join(", ")
}

/// What is here instead of a module's option that is not taken; `None` for every other mistake.
pub fn not_taken(e: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(option)) = e.get(ContextKind::InvalidArg) else { return None };
    let all = registered().kinds().filter_map(|kind| kind.published());
    let mut all = all.flat_map(|p| p.not_taken);
    let (name, instead) = all.find(|(name, _)| option.split('=').next() == Some(name))?;
    Some(format!("{name} is not taken: {instead}"))
}

fn examples() -> String {
    let modules = modules();
    let one = modules.split(", ").next().unwrap_or("MODULE");
    format!(
        "Examples:\n  \
         fullcount efu -d {one} -i 10.0.0.1 -p 9000 -b kafka:9092 -t {one}_detector\n  \
         fullcount efu -d {one} -f detector.json -g carbon -r north -s 3600\n\n\
         Exit codes: 0 normal, also after losses; 1 failed, or its check did; 255 bad arguments."
    )
}

/// A level by name or number.
fn level(text: &str) -> Result<u8, String> {
    let names = ["critical", "error", "warning", "notice", "info", "debug"];
    let named = names.iter().position(|name| *name == text.to_lowercase()).map(|at| at as u8 + 2);
    let number = text.parse().ok().filter(|n| (1..=7).contains(n));
    named
        .or(number)
        .ok_or_else(|| "Critical, Error, Warning, Notice, Info, Debug, or 1 to 7".into())
}

impl EfuFlags {
    /// Options of the unit that are not here, each with what is instead.
    pub fn refuse_the_rest(&self) -> Result<(), String> {
        let given = Option::is_some;
        let all = [
            (self.udder, "--udder", "simulated readouts are sent to it: fullcount send --source"),
            (given(&self.udder_usleep), "--udder_usleep", "see --udder"),
            (given(&self.udder_events_per_pulse), "--udder_events_per_pulse", "see --udder"),
            (
                given(&self.write_config),
                "--write_config",
                "fullcount run --print-config writes a configuration",
            ),
            (given(&self.read_config), "--read_config", "fullcount run FILE reads one"),
            (
                given(&self.dumptofile),
                "--dumptofile",
                "fullcount run --capture keeps all packets, --hits the hits",
            ),
            (given(&self.wlo), "--wlo", "limits of amplitudes stand in the file of -f"),
            (given(&self.whi), "--whi", "limits of amplitudes stand in the file of -f"),
            (given(&self.glo), "--glo", "limits of amplitudes stand in the file of -f"),
            (given(&self.ghi), "--ghi", "limits of amplitudes stand in the file of -f"),
            (given(&self.module), "--module", "the mapping of channels stands in the file of -f"),
            (
                given(&self.ttlmonitor_reduce),
                "--ttlmonitor-reduce",
                "there is no such monitor here",
            ),
        ];
        match all.iter().find(|(given, ..)| *given) {
            Some((_, name, instead)) => Err(format!("{name} is not taken: {instead}")),
            None => Ok(()),
        }
    }

    /// `log.level` of the number.
    pub fn level(&self) -> Option<&'static str> {
        let names = ["alert", "critical", "error", "warning", "notice", "info", "debug"];
        self.log_level.and_then(|level| names.get(usize::from(level).checked_sub(1)?).copied())
    }

    /// Properties of `--kafka_config`: an object with the list `KafkaParms` of objects with one text each.
    pub fn kafka_settings(&self) -> Result<Vec<(String, String)>, String> {
        let Some(path) = &self.kafka_config else { return Ok(Vec::new()) };
        let wrong = |why: &dyn std::fmt::Display| format!("--kafka_config {path}: {why}");
        let text = input_file::text(path.as_ref(), input_file::LARGEST_SECRET);
        let file: Value =
            serde_json::from_str(&text.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
        let list = file["KafkaParms"].as_array().ok_or_else(|| wrong(&"no list KafkaParms"))?;
        let mut all = Vec::new();
        for one in list {
            let members = one.as_object().filter(|members| members.len() == 1);
            let pair = members.and_then(|members| members.iter().next());
            let pair =
                pair.and_then(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
            all.push(pair.ok_or_else(|| wrong(&format!("{one} is no object with one text")))?);
        }
        Ok(all)
    }

    /// EfuFlags of `run` for the CPUs.
    pub fn cores(&self) -> Result<Vec<(&'static str, String)>, String> {
        let Some(text) = &self.core_affinity else { return Ok(Vec::new()) };
        let wrong = || format!("-c {text}: a CPU from 0 to 99, or input:N,processing:M");
        let cpu = |word: &str| word.parse::<u8>().ok().filter(|n| *n < 100).ok_or_else(wrong);
        let two = ("--threads", "2".to_owned());
        if !text.contains(':') {
            let first = cpu(text)?;
            return Ok(vec![
                two,
                ("--core", first.to_string()),
                ("--process-core", (first + 1).to_string()),
            ]);
        }
        let mut all = Vec::new();
        for part in text.split(',') {
            let (thread, core) = part.split_once(':').ok_or_else(wrong)?;
            let flag = match thread {
                "input" => "--core",
                "processing" => "--process-core",
                _ => return Err(wrong()),
            };
            all.push((flag, cpu(core)?.to_string()));
        }
        if all.iter().any(|(flag, _)| *flag == "--process-core") {
            all.push(two);
        }
        Ok(all)
    }
}
