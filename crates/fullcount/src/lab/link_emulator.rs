//! `fullcount lab link-emulator`: rate, delay, jitter, queue and faults between two interfaces, in user space.
//!
//! Refuses wrong options before anything is opened; interfaces that are missing, down or busy, and a missing
//! right, are errors at run time with what to do.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use fullcount_core::quantity::spoken;
use fullcount_core::sim::{Channel, ChannelSetup, Spec};
use fullcount_engine::config::refuse;
use fullcount_engine::open::check_core;
use fullcount_engine::stop::Stop;
use fullcount_lab::agent::engine::{check_engine, check_fit, check_sizes};
use fullcount_lab::emulator::network::{self, ADDRESSES};
use fullcount_lab::emulator::watch::watch;
use fullcount_lab::emulator::{Emulator, EmulatorPlan, Unmerged, mtu};
use fullcount_lab::lossless::pair::Pair;
use fullcount_lab::lossless::{LosslessCampaign, SearchSettings};
use serde_json::json;

use super::lossless::SearchFlags;
use super::read;
use super::results::ResultFlags;
use crate::exit::Failure;
use crate::{note, say};

/// A link of set rate, delay, jitter, queue and faults between two interfaces, in user space.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("where").required(true).args(["between", "make", "measure"])))]
pub struct LabLinkEmulatorFlags {
    /// Two interfaces of this namespace, without addresses of their own
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    between: Vec<String>,
    /// Make three namespaces in a row with the emulator in the middle, and remove them at the end
    #[arg(long)]
    make: bool,
    /// The same, and search the highest rate that crosses without loss: the emulator's own limit
    #[arg(long)]
    measure: bool,
    /// Speed of the link, bit/s, frames counted with preamble and gap [default: none]
    #[arg(long, value_name = "RATE", help_heading = "Link")]
    rate: Option<String>,
    /// One-way delay; a round trip has it twice
    #[arg(long, value_name = "TIME", default_value = "0ns", help_heading = "Link")]
    delay: String,
    /// Up to so much more, evenly drawn for each frame; order is kept
    #[arg(long, value_name = "TIME", default_value = "0ns", help_heading = "Link")]
    jitter: String,
    /// Jitter may reorder
    #[arg(long, help_heading = "Link")]
    jitter_reorders: bool,
    /// Frames that may wait for --rate; more are dropped at the tail
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Link")]
    queue_packets: usize,
    /// Bytes that may wait for --rate [default: no limit but --queue-packets]
    #[arg(long, value_name = "SIZE", help_heading = "Link")]
    queue: Option<String>,
    /// Shares of frames (loss=1e-4,duplicate=1%,swap=0.01,delay=0.001) or counts (drop=100,of=1000000);
    /// delay holds a frame back by=8 frames; seed=N. The way back meets the same faults with seed N+1
    #[arg(long, value_name = "SPEC", help_heading = "Link")]
    fault: Option<String>,
    /// The way back (B to A): same, or clear (no rate, delay or fault)
    #[arg(long, value_name = "same|clear", default_value = "same", help_heading = "Link")]
    back: String,
    /// Bytes that may be under way in one direction
    #[arg(long, value_name = "SIZE", default_value = "1GiB", help_heading = "Link")]
    memory: String,
    /// CPUs of the two directions, e.g. 2,3
    #[arg(long, value_name = "CPU,CPU", value_delimiter = ',')]
    cores: Vec<usize>,
    /// Never sleep: exact to microseconds, costs two CPUs
    #[arg(long)]
    busy_poll: bool,
    /// MTU of the links that are made, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 9000)]
    mtu: usize,
    /// End after this time [default: Ctrl-C]
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Payload sizes of --measure, bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "64,1472,8972")]
    sizes: Vec<usize>,
    /// Engine of the two ends of --measure
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    engine: String,
    /// Searches of each size of --measure [default: 1; 3 with --thorough]
    #[arg(long, value_name = "N")]
    repeats: Option<usize>,
    /// Let --measure search as long as `lab lossless` does (its defaults): minutes instead of one
    #[arg(long)]
    thorough: bool,
    #[command(flatten)]
    search: SearchFlags,
    #[command(flatten)]
    result: ResultFlags,
}

const EXAMPLES: &str = "\
Ends with a ledger of both directions: in + doubled = out + dropped + lost + ... + inside.
Exit code 3 if frames are gone that the setup did not ask for (the emulator was too slow: see
--measure, or the other interface refused them).

Examples:
  fullcount lab link-emulator --make --rate 10Gbps --delay 4385us
        the 8.77 ms round trip of the SKA memo, from correlator to data processor and back
  fullcount lab link-emulator --make --rate 1Gbps --queue 1MiB --fault loss=1e-4,swap=1e-3,seed=7
  fullcount lab link-emulator --between eth1,eth2 --delay 10ms --jitter 1ms --duration 60s
  fullcount lab link-emulator --measure
  fullcount lab link-emulator --measure --thorough --sizes 1472,8972";

/// Runs it.
pub fn link_emulator(flags: LabLinkEmulatorFlags) -> Result<u8, Failure> {
    let plan = plan(&flags)?;
    if flags.thorough && !flags.measure {
        return Err(refuse("thorough", true, "only with --measure").into());
    }
    let duration = flags.duration.as_ref().map(|t| read::duration("duration", t)).transpose()?;
    if !(68..=65_535).contains(&flags.mtu) {
        return Err(refuse("mtu", flags.mtu, "68 to 65535 bytes").into());
    }
    if flags.measure {
        return measure(flags, plan);
    }
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    if flags.make {
        let network = network::build(flags.mtu).map_err(anyhow::Error::from)?;
        let emulator = network::start(&network, &plan).map_err(anyhow::Error::from)?;
        let [a, b] = network::names(&network);
        note!("A  {}  namespace {a}", ADDRESSES[0]);
        note!("B  {}  namespace {b}", ADDRESSES[1]);
        note!("try, in two other terminals:");
        let to = format!("udp://{}:9000", ADDRESSES[1]);
        note!("  ip netns exec {b} fullcount receive {to}");
        note!("  ip netns exec {a} fullcount send --to {to} --rate 100Mbps --duration 10s");
        return run(emulator, &stop, duration, flags.result.json());
    }
    let unmerged = Unmerged::at(&plan.interfaces);
    let emulator = Emulator::start(&plan).map_err(anyhow::Error::from)?;
    let [a, b] = &plan.interfaces;
    if let (Some(ours), Some(theirs)) = (mtu(a), mtu(b))
        && ours != theirs
    {
        note!("MTU of {a} is {ours} B, of {b} {theirs} B: longer frames will be refused");
    }
    let code = run(emulator, &stop, duration, flags.result.json());
    drop(unmerged);
    code
}

fn plan(flags: &LabLinkEmulatorFlags) -> Result<EmulatorPlan, Failure> {
    let delay = |key: &'static str, text: &str| {
        let ns = read::duration(key, text)?;
        Ok::<u64, Failure>(u64::try_from(ns.as_nanos()).unwrap_or(u64::MAX))
    };
    let rate_bps = flags.rate.as_ref().map(|r| read::whole_bits("rate", r)).transpose()?;
    let fault = match &flags.fault {
        Some(text) => text.parse::<Spec>().map_err(|e| refuse("fault", text, e.to_string()))?,
        None => Spec::default(),
    };
    let there = ChannelSetup {
        rate_bps,
        delay_ns: delay("delay", &flags.delay)?,
        jitter_ns: delay("jitter", &flags.jitter)?,
        jitter_reorders: flags.jitter_reorders,
        queue_packets: flags.queue_packets,
        queue_bytes: flags.queue.as_ref().map_or(Ok(u64::MAX), |q| read::size("queue", q))?,
        memory_bytes: read::size("memory", &flags.memory)?,
        fault,
    };
    let back = match flags.back.as_str() {
        "same" => {
            ChannelSetup { fault: Spec { seed: fault.seed.wrapping_add(1), ..fault }, ..there }
        }
        "clear" => ChannelSetup { memory_bytes: there.memory_bytes, ..ChannelSetup::default() },
        other => return Err(refuse("back", other, "same or clear").into()),
    };
    Channel::<()>::new(there).map_err(|e| Failure::Wrong(e.to_string()))?;
    for core in &flags.cores {
        check_core("cores", Some(*core))?;
    }
    if !matches!(flags.cores.len(), 0 | 2) {
        let text: Vec<String> = flags.cores.iter().map(usize::to_string).collect();
        return Err(refuse("cores", text.join(","), "two CPUs such as 2,3").into());
    }
    let cores = [flags.cores.first().copied(), flags.cores.get(1).copied()];
    let interfaces = match flags.between.as_slice() {
        [a, b] if a == b => {
            return Err(refuse("between", format!("{a},{b}"), "two different interfaces").into());
        }
        [a, b] => [a.clone(), b.clone()],
        [] => [String::new(), String::new()],
        other => {
            let why = "two interfaces such as eth1,eth2";
            return Err(refuse("between", other.join(","), why).into());
        }
    };
    Ok(EmulatorPlan { interfaces, setups: [there, back], cores, busy_poll: flags.busy_poll })
}

fn run(
    emulator: Emulator,
    stop: &Stop,
    duration: Option<Duration>,
    as_json: bool,
) -> Result<u8, Failure> {
    let (seconds, report) =
        watch(emulator, &|| stop.requested(), duration, say::line).map_err(anyhow::Error::from)?;
    note!("{}", report.lines().trim_end());
    if as_json {
        let mut object = report.json();
        if let Some(o) = object.as_object_mut() {
            o.shift_insert(0, "schema".into(), "fullcount/link-emulator/1".into());
            o.shift_insert(1, "seconds".into(), json!(seconds));
        }
        say!("{object}");
    }
    Ok(if report.faithful() { 0 } else { 3 })
}

/// A search that says where the limit is in about 20 s a size: what an experiment must stay below wants no
/// more than that. Trials are long enough for the sender to be 5 ms late and still keep its rate within 1 %.
fn quick() -> SearchSettings {
    SearchSettings {
        resolution: 0.05,
        trial: Duration::from_millis(500),
        confirm: Duration::from_secs(2),
        confirmations: 2,
        ..SearchSettings::default()
    }
}

/// The emulator's own limit: the highest rate that crosses it without loss.
fn measure(flags: LabLinkEmulatorFlags, mut plan: EmulatorPlan) -> Result<u8, Failure> {
    check_sizes(&flags.sizes)?;
    check_fit(check_engine(&flags.engine, false)?, &flags.sizes, flags.mtu)?;
    let (usual, repeats) = match flags.thorough {
        true => (SearchSettings::default(), 3),
        false => (quick(), 1),
    };
    let settings = flags.search.settings(usual)?;
    let repeats = flags.repeats.unwrap_or(repeats);
    let (sizes, contenders) = (flags.sizes, vec![flags.engine]);
    let campaign =
        LosslessCampaign { contenders, sizes, repeats, flat_out: None, search: Some(settings) };
    campaign.check().map_err(|e| Failure::Wrong(e.to_string()))?;
    let searches = (campaign.sizes.len() * repeats) as u32;
    let mut record = flags.result.begin("link-emulator")?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let asked = || stop.requested();
    let network = network::build(flags.mtu).map_err(anyhow::Error::from)?;
    // Receiver on 1, sender on 2: the way there on 3, the idle way back on 0.
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    if plan.cores == [None, None] && cores > 3 {
        plan.cores = [Some(3), Some(0)];
    }
    let emulator = network::start(&network, &plan).map_err(anyhow::Error::from)?;
    note!("about {} if no confirmation fails", spoken(settings.usual() * searches));
    let place = network::place(network);
    let program = std::env::current_exe().context("finding this program")?;
    let mut pair = Pair::new(program, &place, &asked);
    record
        .parameter("mtu", flags.mtu)
        .parameter("emulator_cores", json!(plan.cores))
        .parameter("busy_poll", plan.busy_poll)
        .parameter("send_core", pair.send_core)
        .parameter("receive_core", pair.receive_core)
        .parameter("link", format!("{:?}", plan.setups[0]));
    let results = campaign
        .run(place.name(), &mut pair, &mut |line| note!("{line}"))
        .map_err(anyhow::Error::from)?;
    let report = emulator.end().map_err(anyhow::Error::from)?;
    note!("{}", report.lines().trim_end());
    record.parameter("ledger", report.json());
    results.note(&mut record);
    let title = "What the link emulator carries without loss";
    flags.result.finish(&record, title, &results.markdown())?;
    Ok(if results.complete() { 0 } else { 1 })
}
