//! `fullcount lab udp`: the campaign over packet sizes, this binary as both ends.

use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_engine::stop::Stop;
use fullcount_io::quantity::{self, Rate};
use fullcount_io::sys::UringRing;
use fullcount_lab::agent::client::FarPost;
use fullcount_lab::agent::engine::Method;
use fullcount_lab::agent::server;
use fullcount_lab::campaign::field::{Far, Field, Place, Settings, Watch};
use fullcount_lab::campaign::parameters::Parameters;
use fullcount_lab::campaign::report::{self, Circumstances};
use fullcount_lab::campaign::state::{State, StateError};
use fullcount_lab::campaign::{
    Campaign, CampaignError, Ground, Load, Plan, SIZES, THREE_SIZES, Volume, table,
};
use fullcount_lab::record::{self, results::Results};

use super::lossless::check_engine;
use crate::exit::Failure;
use crate::{note, say, tell};

/// User data speed, loss and CPU load of UDP over packet sizes, for several parameter sets, with tables and
/// figures: the measurements of "Achieving reliable UDP transmission at 10 Gb/s" on your own link.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// loopback, namespaces (two, joined by a veth pair, made and removed; needs root), or the HOST[:PORT] where
    /// `fullcount lab agent` runs
    #[arg(
        long = "where",
        value_name = "PLACE",
        default_value = "loopback",
        help_heading = "Place"
    )]
    place: String,
    /// The token that the agent on HOST was started with
    #[arg(long, value_name = "FILE", help_heading = "Place")]
    token_file: Option<PathBuf>,
    /// What HOST does: receive or send
    #[arg(long, value_name = "VERB", default_value = "receive", help_heading = "Place")]
    far: String,
    /// Address of the receiving end on the measured link [default: that of the agent's connection]
    #[arg(long, value_name = "IP", help_heading = "Place")]
    data: Option<IpAddr>,
    /// Interface of this host on the measured link to HOST, to check its MTU
    #[arg(long, value_name = "NAME", help_heading = "Place")]
    interface: Option<String>,
    /// UDP port [default: the system's choice]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Place"
    )]
    port: u16,
    /// Cores of receiver and sender: 1,2, or none, or near (two that share a cache at the time of each trial, see
    /// lab cores) [default: 1,2 where there are more than two]
    #[arg(long, value_name = "R,S", help_heading = "Place")]
    cores: Option<String>,
    /// Namespaces: cut trains before they cross (tx-udp-segmentation off), so that each packet is a real one
    #[arg(long, help_heading = "Place")]
    cut_segments: bool,

    /// Offered payload rate; leave out with --flat-out
    #[arg(long, value_name = "RATE", default_value = "10Gbps", help_heading = "Load")]
    rate: String,
    /// As fast as the sender can
    #[arg(long, help_heading = "Load")]
    flat_out: bool,
    /// Payload sizes, e.g. 64,1472,8972 [default: the 16 of the paper's table 3; three with --ablate]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', help_heading = "Load")]
    sizes: Vec<usize>,
    /// Refuse sizes that do not fit the MTU in one piece
    #[arg(long, help_heading = "Load")]
    no_fragments: bool,
    /// Time per trial
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = "Load")]
    duration: String,
    /// Payload bytes per trial instead of a time; the paper: 400GB
    #[arg(long, value_name = "SIZE", conflicts_with = "duration", help_heading = "Load")]
    volume: Option<String>,
    /// Length of the discarded trial before each, 0s for none
    #[arg(long, value_name = "TIME", default_value = "1s", help_heading = "Load")]
    warm_up: String,
    /// Trials per size and set; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Load")]
    repeats: usize,

    /// Parameter sets: default (kernel's buffers, MTU 1500), tuned (64 MiB, MTU 9000, long backlog)
    #[arg(
        long,
        value_name = "SETS",
        value_delimiter = ',',
        default_value = "default,tuned",
        help_heading = "Parameters"
    )]
    parameters: Vec<String>,
    /// How packets are sent and received: plain (one a call, the paper's method), mmsg, gso (sender only), gro
    /// (receiver only), both, auto; with uring, packet and xdp (not on loopback) the sender is gso
    #[arg(
        long,
        value_name = "ENGINES",
        value_delimiter = ',',
        default_value = "both",
        help_heading = "Parameters"
    )]
    engines: Vec<String>,
    /// MTU of all sets, instead of their own
    #[arg(long, value_name = "BYTES", help_heading = "Parameters")]
    mtu: Option<usize>,
    /// Switch one thing at a time and tabulate what it gains: MTU, buffers, backlog, pinning, same core, clock per
    /// packet, each offload, batches, busy polling
    #[arg(long, help_heading = "Parameters")]
    ablate: bool,
    /// Speed of the link that the theoretical maximum is for
    #[arg(long, value_name = "RATE", default_value = "10Gbps", help_heading = "Parameters")]
    link_speed: String,

    /// One more trial per size and set, with CPU load and context switches of both cores, as the paper did
    #[arg(long, help_heading = "CPU")]
    cpu_pass: bool,
    /// The CPU pass also records with perf what both cores spend their time on; both ends on this host
    #[arg(long, requires = "cpu_pass", help_heading = "CPU")]
    profile: bool,
    /// Length of the intervals of the CPU pass; a shorter trial is one interval
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = "CPU")]
    cpu_interval: String,

    /// Go on with an interrupted campaign: same options, same --out and --name
    #[arg(long, help_heading = "Results")]
    resume: bool,
    /// Exit with 3 if a packet was lost, with 1 if the offered rate was not reached within 1 %
    #[arg(long, help_heading = "Results")]
    require_lossless: bool,
    /// Tables only
    #[arg(long, help_heading = "Results")]
    no_figures: bool,
    /// Folder for the results [default: docs/results if there is one here, else this folder]
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    out: Option<PathBuf>,
    /// Replace results files, and an interrupted campaign, that exist
    #[arg(long)]
    overwrite: bool,
    /// Name of the files [default: after load and place, e.g. udp-offered]
    #[arg(long, value_name = "NAME", help_heading = "Results")]
    name: Option<String>,
    /// Print the results as one JSON object instead of the tables
    #[arg(long, help_heading = "Results")]
    json: bool,
}

const EXAMPLES: &str = "\
Writes NAME.json (everything), NAME.md (tables) and NAME-speed, -per and -cpu as .svg and .png.

Examples:
  fullcount lab udp
  fullcount lab udp --flat-out --sizes 64,1472,8972 --engines plain,mmsg,both
  fullcount lab udp --where namespaces --cut-segments --cpu-pass
  fullcount lab udp --where namespaces --flat-out --ablate
  fullcount lab udp --where namespaces --cut-segments --flat-out --engines both,packet,xdp
  fullcount lab udp --where daq2 --token-file token --parameters tuned --volume 400GB
  fullcount lab udp --rate 5Gbps --sizes 64,1472 --duration 3s --parameters tuned --require-lossless

Two hosts: run `fullcount lab agent --listen 0.0.0.0 --token-file token` on the other one.

Exit codes: 0 measured (losses are results); 1 failed, or the rate was not reached with
--require-lossless; 2 wrong option; 3 lost packets with --require-lossless.";

impl Flags {
    fn plan(&self) -> Result<Plan, Failure> {
        let bits = |key: &'static str, text: &str| match text.parse::<Rate>() {
            Ok(Rate::Bits(bits)) => Ok(bits),
            Ok(Rate::Packets(_)) => Err(refuse(key, text, "bits per second such as 10Gbps")),
            Err(e) => Err(refuse(key, text, e.to_string())),
        };
        let ms = |key: &'static str, text: &str| match quantity::duration(text) {
            Ok(d) => Ok(d.as_millis() as u64),
            Err(e) => Err(refuse(key, text, e.to_string())),
        };
        let load = match self.flat_out {
            true => Load::FlatOut,
            false => Load::Offered(bits("rate", &self.rate)?),
        };
        let volume = match &self.volume {
            Some(text) => {
                let bytes = quantity::size(text);
                Volume::Bytes(bytes.map_err(|e| refuse("volume", text, e.to_string()))?)
            }
            None => Volume::Milliseconds(ms("duration", &self.duration)?),
        };
        let sizes = match (self.sizes.as_slice(), self.ablate) {
            ([], false) => SIZES.to_vec(),
            ([], true) => THREE_SIZES.to_vec(),
            (given, _) => given.to_vec(),
        };
        let (place, series) = (self.place.clone(), self.series()?);
        let cpu_interval_ms =
            self.cpu_pass.then(|| ms("cpu-interval", &self.cpu_interval)).transpose()?;
        let mut plan = Plan {
            name: self.name(),
            place,
            sizes,
            series,
            ablation: self.ablate,
            load,
            volume,
            warm_up_ms: ms("warm-up", &self.warm_up)?,
            repeats: self.repeats,
            cpu_interval_ms,
            cores: self.cores()?,
            near: self.near()?,
            link_bits_per_s: bits("link-speed", &self.link_speed)?,
            fragments: !self.no_fragments,
        };
        // Of an ablation, what cannot be measured at these sizes is left out; its base must be.
        if plan.ablation && !plan.series.is_empty() {
            let base = plan.series.remove(0);
            let fits = |p: &Parameters| !plan.sizes.iter().any(|&size| plan.cannot_arrive(p, size));
            let others: Vec<Parameters> = plan.series.iter().filter(|p| fits(p)).cloned().collect();
            plan.series = [base].into_iter().chain(others).collect();
        }
        if !record::allowed_name(&plan.name) {
            return Err(refuse("name", &plan.name, "1 to 80 of a-z, 0-9 and -").into());
        }
        plan.check().map_err(|e| Failure::Wrong(e.to_string()))?;
        Ok(plan)
    }

    fn name(&self) -> String {
        let load = if self.flat_out { "flat-out" } else { "offered" };
        let place = match self.place.as_str() {
            "loopback" => "",
            "namespaces" => "-namespaces",
            _ => "-hosts",
        };
        let what = if self.ablate { "-ablation" } else { "" };
        self.name.clone().unwrap_or_else(|| format!("udp-{load}{place}{what}"))
    }

    /// Parameter sets with their engines; with `--ablate` the base and what differs from it.
    fn series(&self) -> Result<Vec<Parameters>, Failure> {
        let ours = self.place == "namespaces";
        if self.cut_segments && !ours {
            let why = "only a veth pair of ours can be told: --where namespaces";
            return Err(refuse("cut-segments", &self.place, why).into());
        }
        let set = |name: &String| {
            let p = Parameters::named(name);
            let p = p.ok_or_else(|| refuse("parameters", name, "default or tuned"))?;
            let mtu = self.mtu.unwrap_or(p.mtu);
            Ok(Parameters { mtu, segments_cut: self.cut_segments, ..p })
        };
        let engine = |name: &String| check_engine(name, self.place == "loopback");
        let sets = self.parameters.iter().map(set).collect::<Result<Vec<_>, Failure>>()?;
        let engines = self.engines.iter().map(engine).collect::<Result<Vec<_>, _>>()?;
        if self.ablate {
            // The last set named is the one that is taken apart.
            let (Some(base), Some(&first)) = (sets.into_iter().next_back(), engines.first()) else {
                return Err(Failure::Wrong("--ablate: one parameter set and one engine".into()));
            };
            if engines.len() > 1 {
                let why = "one engine with --ablate";
                return Err(refuse("engines", self.engines.join(","), why).into());
            }
            let base = base.with_method(first);
            let uring = UringRing::new(1).is_ok().then_some(Method::URING);
            let beside: Vec<Method> = match self.place.as_str() {
                // Nobody knows here what another host allows.
                _ if !ours && self.place != "loopback" => Vec::new(),
                _ if !ours => uring.into_iter().collect(),
                _ => uring.into_iter().chain([Method::PACKET, Method::XDP]).collect(),
            };
            let others = base.ablations(ours, &beside);
            return Ok([base].into_iter().chain(others).collect());
        }
        let mut series = Vec::new();
        for set in sets {
            for &engine in &engines {
                let set = set.clone().with_method(engine);
                let name = match engines.len() {
                    1 => set.name.clone(),
                    _ => format!("{}, {}", set.name, engine.name),
                };
                series.push(Parameters { name, ..set });
            }
        }
        Ok(series)
    }

    /// True for `--cores near`: both cores are this host's then.
    fn near(&self) -> Result<bool, Failure> {
        let near = self.cores.as_deref() == Some("near");
        if near && !matches!(self.place.as_str(), "loopback" | "namespaces") {
            let why = "two core numbers such as 1,2, or none: the ends are on two hosts";
            return Err(refuse("cores", "near", why).into());
        }
        Ok(near)
    }

    fn cores(&self) -> Result<(Option<usize>, Option<usize>), Failure> {
        let here = std::thread::available_parallelism().map_or(1, |n| n.get());
        match self.cores.as_deref() {
            None => Ok(if here > 2 { (Some(1), Some(2)) } else { (None, None) }),
            Some("none" | "near") => Ok((None, None)),
            Some(text) => {
                let pair = text.split_once(',');
                let pair = pair.and_then(|(r, s)| Some((r.parse().ok()?, s.parse().ok()?)));
                let wrong =
                    || refuse("cores", text, "two core numbers such as 1,2, or none, or near");
                let (r, s): (usize, usize) = pair.ok_or_else(wrong)?;
                if r > 1023 || s > 1023 {
                    return Err(refuse("cores", text, "core numbers of 0 to 1023").into());
                }
                Ok((Some(r), Some(s)))
            }
        }
    }

    /// Greets the agent, where there is one.
    fn open(&self) -> Result<Place, Failure> {
        let receives = match self.far.as_str() {
            "receive" => true,
            "send" => false,
            other => return Err(refuse("far", other, "receive or send").into()),
        };
        match self.place.as_str() {
            "loopback" => return Ok(Place::Loopback),
            "namespaces" => return Ok(Place::Namespaces),
            _ => {}
        }
        let Some(file) = &self.token_file else {
            let why = "another host needs --token-file, the same as its agent's";
            return Err(refuse("where", &self.place, why).into());
        };
        if let Some(name) = &self.interface {
            fullcount_lab::campaign::field::interface_mtu(name).map_err(anyhow::Error::from)?;
        }
        let token = server::token(file).map_err(|e| Failure::Wrong(e.to_string()))?;
        let post = FarPost::connect(&self.place, &token).map_err(anyhow::Error::from)?;
        let mut own = post.own_address();
        let post = match (self.data, receives) {
            (Some(address), true) => post.over(address),
            (Some(address), false) => {
                own = address;
                post
            }
            (None, _) => post,
        };
        let interface = self.interface.clone();
        Ok(Place::Far(Far { post: Rc::new(post), receives, interface, own }))
    }
}

/// Begins or goes on.
fn state(flags: &Flags, path: &std::path::Path, plan: &Plan) -> Result<State, Failure> {
    let revision = record::revision();
    let opened = match flags.resume {
        true => State::resume(path, plan, revision),
        false => {
            if flags.overwrite && path.exists() {
                note!("{}: an interrupted campaign is replaced", path.display());
            }
            State::begin(path, plan, revision, flags.overwrite)
        }
    };
    let state = opened.map_err(|e| match e {
        StateError::Other { .. } | StateError::Nothing { .. } | StateError::Exists { .. } => {
            Failure::Wrong(e.to_string())
        }
        StateError::Write { .. } | StateError::Shape { .. } | StateError::InUse { .. } => {
            Failure::Failed(e.into())
        }
    })?;
    if !state.is_empty() {
        note!("{}: {} trials are there already", path.display(), state.len());
    }
    Ok(state)
}

/// Runs the campaign.
pub fn udp(flags: Flags) -> Result<u8, Failure> {
    let plan = flags.plan()?;
    if flags.profile {
        if !matches!(flags.place.as_str(), "loopback" | "namespaces") {
            return Err(refuse("profile", &flags.place, "only with both ends on this host").into());
        }
        if !plan.near && plan.cores.0.is_none() {
            let why = "a core that the receiver is pinned to: --cores R,S or near";
            return Err(refuse("profile", "--cores none", why).into());
        }
        fullcount_lab::profile::available().map_err(anyhow::Error::from)?;
    }
    let results = Results::new(flags.out.clone(), flags.name.clone(), flags.overwrite);
    let ready = || results.ready(&report::names(&plan, !flags.no_figures));
    let folder = &results.folder;
    if !flags.resume {
        ready()?;
    }
    let place = flags.open()?;
    let program = std::env::current_exe().context("finding this program")?;
    let path = State::path_of(folder, &plan.name);
    let mut state = state(&flags, &path, &plan)?;
    if flags.resume {
        // Only now is it known that there is something to go on with.
        ready()?;
    }
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let (stopped, tell) = (|| stop.requested(), |line: &str| note!("{line}"));
    let settings = Settings {
        cores: plan.cores,
        near: plan.near,
        profile: flags.profile,
        load: plan.load,
        port: flags.port,
    };
    let watch = Watch { stop: &stopped, tell: &tell };
    let mut field = Field::new(program, place, settings, watch);
    let run = Campaign::run(plan, &mut field, &mut state, &mut |line| note!("{line}"));
    let campaign = match run {
        Ok(campaign) => campaign,
        Err(e) => {
            if state.is_empty() {
                state.finish();
            } else if !matches!(e, CampaignError::Interrupted) {
                note!("{} trials are kept: --resume goes on from there", state.len());
            }
            return Err(Failure::Failed(e.into()));
        }
    };
    let revision = record::revision();
    let about = Circumstances { date: record::now(), revision, found: field.found() };
    // Links and settings are put back before anything else can fail.
    drop(field);
    let written = report::write(&campaign, &about, folder, !flags.no_figures, flags.overwrite);
    for path in written.map_err(anyhow::Error::from)? {
        note!("written: {}", path.display());
    }
    state.finish();
    if flags.json {
        say!("{}", report::json(&campaign, &about));
    } else {
        tell!("{}", table::markdown(&campaign));
    }
    // A rate that was not offered proves nothing about losing nothing.
    let shortfalls = campaign.shortfalls();
    for line in &shortfalls {
        note!("{line}");
    }
    Ok(match (flags.require_lossless, campaign.lossless(), shortfalls.is_empty()) {
        (false, _, _) | (true, true, true) => 0,
        (true, false, _) => 3,
        (true, true, false) => 1,
    })
}
