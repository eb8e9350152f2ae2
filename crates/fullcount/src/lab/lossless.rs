//! `fullcount lab lossless`: the highest rate without loss of each size and engine, by RFC 2544's method.
//!
//! Refuses wrong options before anything is made; namespaces without root are an error at run time.

use anyhow::Context;
use clap::Args;
use fullcount_core::quantity::spoken;
use fullcount_engine::config::refuse;
use fullcount_engine::open::check_core;
use fullcount_engine::stop::Stop;
use fullcount_io::quantity::Rate;
use fullcount_lab::agent::engine::{check_engine, check_fit, check_sizes};
use fullcount_lab::lossless::pair::Pair;
use fullcount_lab::lossless::place::{ReadyPlace, Where};
use fullcount_lab::lossless::{
    Ceiling, LosslessCampaign, LosslessResults, OnCores, OnNearCores, SearchSettings,
};
use fullcount_lab::record::Record;

use super::read;
use super::results::ResultFlags;
use crate::exit::Failure;
use crate::note;

/// The highest rate without loss of each size and engine (RFC 2544: trials, bisection, confirmation).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabLosslessFlags {
    /// Engines, several with commas: auto, plain, mmsg, gso (sender only), gro (receiver only), both; with uring,
    /// packet and xdp (not on loopback) the sender is gso
    #[arg(long, value_name = "ENGINE", value_delimiter = ',', default_value = "auto")]
    engine: Vec<String>,
    /// Payload sizes, bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "64,1472,8972")]
    sizes: Vec<usize>,
    #[command(flatten)]
    place: PlaceFlags,
    #[command(flatten)]
    search: SearchFlags,
    /// Whole searches of each; median and spread are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: usize,
    #[command(flatten)]
    result: ResultFlags,
}

/// Where sender and receiver run.
#[derive(Debug, Args)]
pub struct PlaceFlags {
    /// loopback, veth (two namespaces, needs root) or veth-cut (the same, each packet by itself)
    #[arg(long = "where", value_name = "PLACE", default_value = "loopback")]
    place: String,
    /// MTU of the veth pair, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 9000)]
    mtu: usize,
    /// Socket receive buffer
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    receive_buffer: String,
    /// CPU of the sender [default: 2 where there are more than 2]
    #[arg(long, value_name = "CPU")]
    send_core: Option<usize>,
    /// CPU of the receiver [default: 1 where there are more than 2]
    #[arg(long, value_name = "CPU")]
    receive_core: Option<usize>,
    /// For each trial two CPUs that share a cache at that time (see lab cores)
    #[arg(long, conflicts_with_all = ["send_core", "receive_core"])]
    near_cores: bool,
}

impl PlaceFlags {
    /// Checks everything, then makes the place.
    pub fn kind(&self) -> Result<Where, Failure> {
        let kind = Where::named(&self.place)
            .ok_or_else(|| refuse("where", &self.place, "loopback, veth or veth-cut"))?;
        if !(68..=65_535).contains(&self.mtu) {
            return Err(refuse("mtu", self.mtu, "68 to 65535 bytes").into());
        }
        read::size("receive-buffer", &self.receive_buffer)?;
        check_core("send-core", self.send_core)?;
        check_core("receive-core", self.receive_core)?;
        Ok(kind)
    }

    /// MTU that packets cross with, bytes; loopback's holds any.
    pub fn mtu_of(&self, kind: Where) -> usize {
        if kind == Where::Loopback { usize::MAX } else { self.mtu }
    }

    /// Makes the place.
    pub fn make(&self, kind: Where, purpose: &str) -> Result<ReadyPlace, Failure> {
        Ok(ReadyPlace::make(kind, self.mtu, purpose).map_err(anyhow::Error::from)?)
    }

    /// Sender and receiver there.
    pub fn pair<'a>(
        &self,
        place: &'a ReadyPlace,
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Pair<'a>, Failure> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut pair = Pair::new(program, place, stop);
        pair.receive_buffer = read::size("receive-buffer", &self.receive_buffer)?;
        pair.send_core = self.send_core.or(pair.send_core);
        pair.receive_core = self.receive_core.or(pair.receive_core);
        Ok(pair)
    }

    /// Runs a campaign there; notes on which cores trials were made if each got two that are near each other.
    pub fn run<B: OnCores>(
        &self,
        campaign: LosslessCampaign,
        place: &ReadyPlace,
        mut bench: B,
        record: &mut Record,
    ) -> Result<LosslessResults, Failure> {
        note!("about {} if no confirmation fails", spoken(campaign.usual()));
        let mut tell = |line: &str| note!("{line}");
        if !self.near_cores {
            let results = campaign.run(place.name(), &mut bench, &mut tell);
            return Ok(results.map_err(anyhow::Error::from)?);
        }
        let mut bench = OnNearCores::new(bench);
        let results = campaign.run(place.name(), &mut bench, &mut tell);
        record
            .parameter("near_cores", true)
            .parameter("trials", bench.trials)
            .parameter("trials_on_far_cores", bench.far)
            .parameter("longest_round_trip_ns", bench.longest_ns.round());
        Ok(results.map_err(anyhow::Error::from)?)
    }

    /// Notes how it is used.
    pub fn note(&self, pair: &Pair<'_>, record: &mut Record) {
        record.parameter("receive_buffer", self.receive_buffer.clone());
        if !self.near_cores {
            record
                .parameter("send_core", pair.send_core)
                .parameter("receive_core", pair.receive_core);
        }
        if self.place != Where::Loopback.name() {
            record.parameter("mtu", self.mtu);
        }
    }
}

/// How the rate is searched.
#[derive(Debug, Args)]
pub struct SearchFlags {
    /// Gap between the rate found and one that loses: 0.05% to 50% [default: 1%; link-emulator 5%]
    #[arg(long, value_name = "SHARE", help_heading = "Search")]
    resolution: Option<String>,
    /// Length of a search trial [default: 1s; link-emulator 500ms]
    #[arg(long, value_name = "TIME", help_heading = "Search")]
    trial: Option<String>,
    /// Length of a confirmation trial [default: 10s; link-emulator 2s]
    #[arg(long, value_name = "TIME", help_heading = "Search")]
    confirm: Option<String>,
    /// Confirmations in a row that a rate needs; one that loses lowers the rate [default: 3; link-emulator 2]
    #[arg(long, value_name = "N", help_heading = "Search")]
    confirmations: Option<u32>,
    /// How often a search trial that lost is repeated before it counts
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Search")]
    retries: u32,
    /// Highest rate tried: payload bits (10Gbps) or packets (1Mpps) [default: what the sender reaches
    /// flat out]
    #[arg(long, value_name = "RATE", help_heading = "Search")]
    max: Option<String>,
    /// Lowest rate tried, as a share of the highest
    #[arg(long, value_name = "SHARE", default_value = "1%", help_heading = "Search")]
    floor: String,
}

impl SearchFlags {
    /// Reads and checks all of them; what is not given is as `usual` has it.
    pub fn settings(&self, usual: SearchSettings) -> Result<SearchSettings, Failure> {
        let time = |key: &'static str, text: &Option<String>, usual| match text {
            None => Ok(usual),
            Some(text) => read::duration(key, text),
        };
        let ceiling = match &self.max {
            None => usual.ceiling,
            Some(text) => match read::rate("max", text)? {
                Rate::Bits(bits) => Some(Ceiling::Bits(bits)),
                Rate::Packets(n) => Some(Ceiling::Packets(n)),
            },
        };
        let settings = SearchSettings {
            resolution: match &self.resolution {
                None => usual.resolution,
                Some(text) => read::share("resolution", text)?,
            },
            trial: time("trial", &self.trial, usual.trial)?,
            confirm: time("confirm", &self.confirm, usual.confirm)?,
            confirmations: self.confirmations.unwrap_or(usual.confirmations),
            retries: self.retries,
            floor: read::share("floor", &self.floor)?,
            ceiling,
        };
        settings.check().map_err(|e| Failure::Wrong(e.to_string()))?;
        Ok(settings)
    }
}

const EXAMPLES: &str = "\
The ceiling is the sender's flat-out rate, unless --max says otherwise. Trials bisect down to
--resolution; the rate found must stand --confirmations longer trials in a row.
Exit code 1 if a search found no rate without loss above the floor.

Examples:
  fullcount lab lossless
  fullcount lab lossless --engine plain,auto --sizes 1472 --repeats 5
  fullcount lab lossless --where veth-cut --confirm 60s --confirmations 1
  fullcount lab lossless --where veth-cut --engine both,packet,xdp --sizes 64
  fullcount lab lossless --max 10Gbps --resolution 0.5% --out /var/tmp";

/// Runs the campaign.
pub fn lossless(flags: LabLosslessFlags) -> Result<u8, Failure> {
    check_sizes(&flags.sizes)?;
    let settings = flags.search.settings(SearchSettings::default())?;
    let kind = flags.place.kind()?;
    for name in &flags.engine {
        let method = check_engine(name, kind == Where::Loopback)?;
        check_fit(method, &flags.sizes, flags.place.mtu_of(kind))?;
    }
    let (sizes, contenders, repeats) = (flags.sizes, flags.engine, flags.repeats);
    let campaign =
        LosslessCampaign { contenders, sizes, repeats, flat_out: None, search: Some(settings) };
    campaign.check().map_err(|e| Failure::Wrong(e.to_string()))?;
    let mut record = flags.result.begin(&format!("lossless-{}", kind.name()))?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let asked = || stop.requested();
    let place = flags.place.make(kind, "lossless")?;
    let pair = flags.place.pair(&place, &asked)?;
    flags.place.note(&pair, &mut record);
    let results = flags.place.run(campaign, &place, pair, &mut record)?;
    results.note(&mut record);
    let title = format!("Highest rate without loss, {}", place.name());
    flags.result.finish(&record, &title, &results.markdown())?;
    Ok(if results.complete() { 0 } else { 1 })
}
