//! `fullcount lab spead`: the memo's experiments, the rate without a lost heap, the rate tuner, heaps from memory, what optimisations gain.
//!
//! Refuses, before anything runs: unknown parts and peers, numbers out of range, results that are there.

mod memo;
mod peers;
mod recovery;
mod switches;

use anyhow::Context;
use clap::{Args, Subcommand};
use fullcount_engine::config::refuse;
use fullcount_engine::stop::Stop;
use fullcount_lab::plot::Chart;
use fullcount_lab::spead::lossless::{self, BisectionOrder, Buffers};
use fullcount_lab::spead::memory::{self, MemoryOrder};
use fullcount_lab::spead::tuning::{self, TuningOrder};

use memo::MemoFlags;
use peers::PeerFlags;
use recovery::RecoveryFlags;
use switches::SwitchFlags;

use super::read;
use super::results::ResultFlags;
use crate::exit::Failure;
use crate::{note, say};

/// SPEAD over UDP and TCP: the memo's tables and figures, lossless rates, the rate tuner, heaps from memory.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabSpeadFlags {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The memo's tables 1 to 4 and figures 2 to 6, ours and spead2's tools beside its numbers
    Memo(Box<MemoFlags>),
    /// The highest UDP rate without a lost heap, by bisection; TCP as fast as it goes. Below its goals
    /// beside spead2: exit code 1
    Lossless(Box<BisectionFlags>),
    /// The rate tuner on a link of unknown rate that changes
    Tuning(TuningFlags),
    /// Heaps from packets in memory, beside spead2's own and copies of the same packets
    Memory(MemoryFlags),
    /// What each optimisation gains: it is switched off by itself, by turns with all on
    Switches(SwitchFlags),
    /// Heaps over a link that loses frames, with and without re-requests
    Recovery(RecoveryFlags),
}

const EXAMPLES: &str = "\
Programs of a trial are `fullcount spead2 send|recv`, and spead2's own C++ tools where they are
found or can be built (docs/lab-spead.md). Links need root.

Examples:
  fullcount lab spead memo --quick
  fullcount lab spead memo --parts table3,table4 --build-spead2
  fullcount lab spead memo --parts mro10,mro40,mro90,scaling --scale 0.05
  fullcount lab spead memo --memo          (50000 heaps a stream, links of 10 to 40 Gb/s)
  fullcount lab spead lossless --packets 1472,8972,65507 --build-spead2
  fullcount lab spead tuning --rates 400Mbps,150Mbps,300Mbps
  fullcount lab spead memory --packets 1472,8972,65507 --build-spead2
  fullcount lab spead switches
  fullcount lab spead recovery";

const LOSSLESS: &str = "\
Goals, beside spead2, whose receiver has one socket; ours has --sockets of them, each with such a
buffer. UDP: 2.0 of its rate at 1472 B and 1.5 at other sizes with 4 MB and a pool, 3.0 with stock
buffers. TCP: 1.3 in packets of at most 8972 B, 1.1 in larger ones.
Whole heaps over TCP: 0.9 of iperf3 with cubic. A row below its goal is a line `not reached`, and
the exit code is 1. With --quick, --sockets 1 or without spead2 as a peer nothing is judged.

Examples:
  fullcount lab spead lossless --packets 1472,8972,65507 --build-spead2
  fullcount lab spead lossless --quick";

/// The rate without a lost heap.
#[derive(Debug, Args)]
#[command(after_help = LOSSLESS)]
struct BisectionFlags {
    /// Packet sizes, bytes, with commas
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "1472,8972,65507")]
    packets: Vec<usize>,
    /// Socket buffers, with commas: stock (212,992 B, a system's default), large (4 MB, with a memory pool)
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "large,stock")]
    buffers: Vec<String>,
    /// Bisections of each, by turns
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: usize,
    /// Steps of a bisection at least; more follow until it is within 5 %, 8 at most
    #[arg(long, value_name = "N", default_value_t = 7)]
    steps: usize,
    /// Length of a trial; a rate passes if two of them lose no heap
    #[arg(long, value_name = "TIME", default_value = "1.2s")]
    trial: String,
    /// Sockets of our receiver over UDP, 1 to 64, each with such a buffer; spead2's has one [default:
    /// 8 with 4 MB, 32 with stock buffers, as the receiver opens there by itself]
    #[arg(long, value_name = "N")]
    sockets: Option<u32>,
    /// No TCP
    #[arg(long)]
    udp_only: bool,
    /// One short bisection of few steps: does everything work?
    #[arg(long)]
    quick: bool,
    /// Go on with an interrupted campaign
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    peers: PeerFlags,
    #[command(flatten)]
    result: ResultFlags,
}

impl BisectionFlags {
    fn order(&self) -> Result<BisectionOrder, Failure> {
        if let Some(bad) = self.packets.iter().find(|p| !(56..=65_507).contains(*p)) {
            return Err(refuse("packets", bad, "56 to 65507 B").into());
        }
        let buffers = |name: &String| match name.as_str() {
            "stock" => Ok(Buffers::Stock),
            "large" => Ok(Buffers::Large),
            other => Err(Failure::from(refuse("buffers", other, "stock or large"))),
        };
        for (key, value, most) in [("repeats", self.repeats, 1000), ("steps", self.steps, 30)] {
            if !(1..=most).contains(&value) {
                return Err(refuse(key, value, format!("1 to {most}")).into());
            }
        }
        if let Some(bad) = self.sockets.filter(|n| !(1..=64).contains(n)) {
            return Err(refuse("sockets", bad, "1 to 64").into());
        }
        let seconds = read::duration("trial", &self.trial)?.as_secs_f64();
        if !(0.1..=3600.0).contains(&seconds) {
            return Err(refuse("trial", &self.trial, "100ms to 1h").into());
        }
        let order = BisectionOrder {
            packets: self.packets.clone(),
            buffers: self.buffers.iter().map(buffers).collect::<Result<_, _>>()?,
            repeats: self.repeats,
            steps: self.steps,
            seconds,
            tcp: !self.udp_only,
            sockets: self.sockets,
            quick: self.quick,
        };
        Ok(match self.quick {
            false => order,
            true => BisectionOrder { repeats: 1, steps: 2, seconds: 0.2, ..order },
        })
    }
}

/// The rate tuner.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct TuningFlags {
    /// Rates of the link, one after the other, with commas
    #[arg(
        long,
        value_name = "RATES",
        value_delimiter = ',',
        default_value = "400Mbps,150Mbps,300Mbps"
    )]
    rates: Vec<String>,
    /// Time at each of them
    #[arg(long, value_name = "TIME", default_value = "15s")]
    each: String,
    /// One rate for two seconds: does everything work?
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    result: ResultFlags,
}

/// Heaps from memory.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct MemoryFlags {
    /// Packet sizes, bytes, with commas
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "1472,8972,65507")]
    packets: Vec<usize>,
    /// Rounds; the median counts
    #[arg(long, value_name = "N", default_value_t = 9)]
    rounds: usize,
    /// Heaps of a pass, 4 MiB each; by default as many as `spead2_bench mem` has
    #[arg(long, value_name = "N", default_value_t = 257)]
    heaps: usize,
    /// One round of a few heaps: does everything work?
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    peers: PeerFlags,
    #[command(flatten)]
    result: ResultFlags,
}

/// Runs what was asked.
pub fn spead(flags: LabSpeadFlags) -> Result<u8, Failure> {
    match flags.what {
        What::Memo(flags) => memo::of_memo(&flags),
        What::Lossless(flags) => of_lossless(&flags),
        What::Tuning(flags) => of_tuning(&flags),
        What::Memory(flags) => of_memory(&flags),
        What::Switches(flags) => switches::of_switches(&flags),
        What::Recovery(flags) => recovery::of_recovery(&flags),
    }
}

fn write(figures: &[Chart], result: &ResultFlags) -> Result<(), Failure> {
    let results = result.results();
    for figure in figures {
        let written = figure.write(&results.folder, results.overwrite);
        let [svg, png] = written.map_err(anyhow::Error::from)?;
        note!("written to {} and {}", svg.display(), png.display());
    }
    Ok(())
}

fn of_lossless(flags: &BisectionFlags) -> Result<u8, Failure> {
    let order = flags.order()?;
    let peers = flags.peers.find()?;
    let mut record = flags.result.begin("spead-lossless")?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let stopped = || stop.requested();
    let results = flags.result.results();
    let watch: (fullcount_lab::Tell, _) = (say::line, &stopped as &dyn Fn() -> bool);
    let found = lossless::run(&order, &peers, (&results, flags.resume), &mut record, watch)?;
    flags.result.finish(&record, "SPEAD: rates without a lost heap, loopback", &found.text)?;
    unmeasured(&found.unmeasured);
    Ok(reached(&found.missed, flags.quick))
}

fn of_tuning(flags: &TuningFlags) -> Result<u8, Failure> {
    let rate = |text: &String| Ok(read::bits("rates", text)? / 1e9);
    let mut rates = flags.rates.iter().map(rate).collect::<Result<Vec<f64>, Failure>>()?;
    if let Some(bad) = rates.iter().find(|r| !(0.02..=9.0).contains(*r)) {
        return Err(refuse("rates", format!("{bad} Gb/s"), "20Mbps to 9Gbps").into());
    }
    let mut each = read::duration("each", &flags.each)?;
    if !(1.0..=3600.0).contains(&each.as_secs_f64()) {
        return Err(refuse("each", &flags.each, "1s to 1h").into());
    }
    if flags.quick {
        rates.truncate(1);
        each = each.min(std::time::Duration::from_secs(2));
    }
    let mut record = flags.result.begin("spead-tuning")?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let order = TuningOrder { rates, each };
    record.parameter("each_s", order.each.as_secs_f64());
    let found = tuning::run(&order, &mut record, &|| stop.requested())?;
    flags.result.finish(&record, "SPEAD: the rate tuner on a link of unknown rate", &found.text)?;
    write(found.figure.as_slice(), &flags.result)?;
    Ok(reached(&found.missed, flags.quick))
}

/// The exit code: a quick run only shows that everything works.
fn reached(missed: &[String], quick: bool) -> u8 {
    missed.iter().for_each(|missed| note!("not reached: {missed}"));
    u8::from(!missed.is_empty() && !quick)
}

/// Goals that could not be judged: no mistake, but never silent.
fn unmeasured(all: &[String]) {
    all.iter().for_each(|goal| note!("not measured: {goal}"));
}

fn of_memory(flags: &MemoryFlags) -> Result<u8, Failure> {
    if let Some(bad) = flags.packets.iter().find(|p| !(56..=1 << 30).contains(*p)) {
        return Err(refuse("packets", bad, "56 B to 1 GiB").into());
    }
    if !(1..=1000).contains(&flags.rounds) || !(1..=1024).contains(&flags.heaps) {
        let value = format!("{} rounds of {} heaps", flags.rounds, flags.heaps);
        return Err(refuse("rounds", value, "1 to 1000 rounds of 1 to 1024 heaps").into());
    }
    let mut order = MemoryOrder {
        packets: flags.packets.clone(),
        rounds: flags.rounds,
        heaps: flags.heaps,
        spead2: flags.peers.memory()?,
    };
    if flags.quick {
        order = MemoryOrder { rounds: 1, heaps: 4, ..order };
    }
    let mut record = flags.result.begin("spead-memory")?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let found = memory::run(&order, &mut record, &|| stop.requested())?;
    flags.result.finish(&record, "SPEAD: heaps from memory", &found.text)?;
    unmeasured(&found.unmeasured);
    Ok(reached(&found.missed, flags.quick))
}
