//! The campaign `fullcount lab udp`: user data speed, packet error ratio and CPU load over packet sizes, for several
//! parameter sets, as "Achieving reliable UDP transmission at 10 Gb/s" measured them.
//!
//! A [`CampaignPlan`] says what is measured; [`Campaign::run`] goes through its points, keeps each in a [`state`] file, and
//! goes on where an interrupted one stopped. [`field`] carries a point out: on loopback, in namespaces or with
//! another host. [`table`] and [`report`] tell the results, [`crate::plot`] draws them. Refuses: see
//! [`CampaignError`].

pub mod asked;
pub mod field;
pub mod outcome;
pub mod parameters;
pub mod report;
pub mod state;
pub mod sysctl;
pub mod table;

use std::time::{Duration, Instant};

use fullcount_core::link::Wire;
use fullcount_core::quantity::spoken;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::PostError;
use crate::agent::order::{Extent, SIZES as ALLOWED};
use crate::agent::trial::PairError;
use crate::namespace::NamespaceError;
use crate::record::RecordError;
use outcome::TrialOutcome;
use parameters::Parameters;

/// Payload sizes of the paper's Table 3, bytes, jumbo frames included.
pub const SIZES: [usize; 16] =
    [64, 128, 256, 472, 772, 1000, 1472, 1700, 1800, 1900, 2000, 2200, 2972, 4472, 5972, 8972];

/// Sizes measured flat out, and switched by `--ablate`: the smallest, Ethernet's and the jumbo frame's largest.
pub const THREE_SIZES: [usize; 3] = [64, 1472, 8972];

/// Why a campaign stopped, or did not begin.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum CampaignError {
    #[error("{key} {value}: {allowed}")]
    Plan { key: &'static str, value: String, allowed: String },
    #[error(transparent)]
    Post(#[from] PostError),
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error("{verb}: did not end within {seconds} s, and was stopped; is the host overloaded?")]
    Stuck { verb: &'static str, seconds: u64 },
    #[error(
        "{link}: its MTU is {found} B, parameters '{name}' want {wanted} B: set it on both hosts (ip link set dev INTERFACE mtu {wanted}), or measure with --mtu {found}"
    )]
    Mtu { link: String, found: usize, wanted: usize, name: String },
    #[error(transparent)]
    Profile(#[from] crate::profile::ProfileError),
    #[error("two cores near each other: {0}")]
    Cores(#[from] std::io::Error),
    #[error("--interface {name}: there is no such interface; 'ip link' lists them")]
    Interface { name: String },
    #[error(transparent)]
    State(#[from] state::StateError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Plot(#[from] crate::plot::ChartError),
    #[error("interrupted; what is measured is kept: go on with the same options and --resume")]
    Interrupted,
}

impl From<PairError> for CampaignError {
    fn from(e: PairError) -> CampaignError {
        match e {
            PairError::Post(e) => CampaignError::Post(e),
            PairError::Stuck { verb, seconds } => CampaignError::Stuck { verb, seconds },
            PairError::Interrupted => CampaignError::Interrupted,
        }
    }
}

/// How much is offered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferedLoad {
    /// A payload rate, bit/s.
    Offered(f64),
    /// As fast as the sender can.
    FlatOut,
}

impl OfferedLoad {
    /// For people.
    pub fn name(&self) -> String {
        match self {
            OfferedLoad::Offered(bits) => format!("{} Gb/s", bits / 1e9),
            OfferedLoad::FlatOut => "flat out".to_owned(),
        }
    }
}

/// How much is sent per trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialVolume {
    /// For a time, ms.
    Milliseconds(u64),
    /// So many payload bytes, rounded up to packets (the paper: 400 GB).
    Bytes(u64),
}

impl TrialVolume {
    /// For packets of `size` bytes.
    pub fn extent(self, size: usize) -> Extent {
        match self {
            TrialVolume::Milliseconds(ms) => Extent::Milliseconds(ms),
            TrialVolume::Bytes(bytes) => Extent::Packets(bytes.div_ceil(size.max(1) as u64).max(1)),
        }
    }

    /// Time that sending takes at `load`; an estimate where only the volume is known.
    fn expected(self, load: OfferedLoad) -> Duration {
        match (self, load) {
            (TrialVolume::Milliseconds(ms), _) => Duration::from_millis(ms),
            (TrialVolume::Bytes(n), OfferedLoad::Offered(rate)) => {
                Duration::from_secs_f64(n as f64 * 8.0 / rate)
            }
            // 10 Gb/s, until the first points tell better.
            (TrialVolume::Bytes(n), OfferedLoad::FlatOut) => {
                Duration::from_secs_f64(n as f64 * 8.0 / 10e9)
            }
        }
    }
}

/// Everything that a campaign is told. Two plans that are equal give comparable points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignPlan {
    /// Name of its files.
    pub name: String,
    /// Where: `loopback`, `namespaces` or the far host.
    pub place: String,
    /// Payload sizes, bytes.
    pub sizes: Vec<usize>,
    /// Parameter sets.
    pub series: Vec<Parameters>,
    /// True if the sets after the first differ from it in one thing each.
    pub ablation: bool,
    /// Offered rate.
    pub load: OfferedLoad,
    /// How much per trial.
    pub volume: TrialVolume,
    /// Length of the discarded trial before each, ms; 0: none.
    pub warm_up_ms: u64,
    /// Trials per point.
    pub repeats: usize,
    /// Length of a CPU interval in ms if there is a CPU pass.
    pub cpu_interval_ms: Option<u64>,
    /// Cores of receiver and sender.
    pub cores: (Option<usize>, Option<usize>),
    /// Instead of these, two that share a cache at the time of the trial.
    #[serde(default)]
    pub near: bool,
    /// Speed of the link that the theoretical maximum is for, bit/s.
    pub link_bits_per_s: f64,
    /// False: sizes above the MTU are refused.
    pub fragments: bool,
}

impl CampaignPlan {
    /// Checks what can be checked before anything is opened.
    ///
    /// # Errors
    /// The first option that is not allowed.
    pub fn check(&self) -> Result<(), CampaignError> {
        let refuse = |key, value: String, allowed: &str| {
            Err(CampaignError::Plan { key, value, allowed: allowed.to_owned() })
        };
        if self.sizes.is_empty() {
            return refuse("--sizes", String::new(), "give at least one size");
        }
        if let Some(size) = self.sizes.iter().find(|s| !ALLOWED.contains(s)) {
            return refuse("--sizes", size.to_string(), "24 to 65507 bytes");
        }
        if let OfferedLoad::Offered(bits) = self.load {
            // What the pacer keeps: 0.001 to 10^9 packets a second.
            let bad = |size: &&usize| !(1e-3..=1e9).contains(&(bits / (8 * **size) as f64));
            if let Some(size) = self.sizes.iter().find(bad) {
                let allowed = format!("at {size} B not within 0.001 to 10^9 packets/s");
                return refuse("--rate", format!("{} Gb/s", bits / 1e9), &allowed);
            }
        }
        if self.repeats == 0 || self.repeats > 1000 {
            return refuse("--repeats", self.repeats.to_string(), "1 to 1000");
        }
        if matches!(self.volume, TrialVolume::Milliseconds(0)) {
            return refuse("--duration", "0".to_owned(), "above 0, such as 10s");
        }
        if matches!(self.volume, TrialVolume::Bytes(0)) {
            return refuse("--volume", "0".to_owned(), "above 0, such as 400GB");
        }
        if self.series.is_empty() {
            return refuse("--parameters", String::new(), "give at least one set");
        }
        if self.link_bits_per_s < 1e3 {
            return refuse("--link-speed", self.link_bits_per_s.to_string(), "1 kbps or more");
        }
        if self.cpu_interval_ms == Some(0) {
            return refuse("--cpu-interval", "0".to_owned(), "above 0, such as 10s");
        }
        for p in &self.series {
            if !(68..=65_535).contains(&p.mtu) {
                return refuse("--mtu", p.mtu.to_string(), "68 to 65535 bytes");
            }
            let whole = |size: &usize| wire(p).frames(*size) == 1;
            if let Some(size) = self.sizes.iter().find(|s| self.cannot_arrive(p, **s)) {
                let allowed = format!(
                    "does not fit the MTU of {} B of parameters '{}' in one piece, and engine {} puts no fragments \
                     together: at most {} B, or a larger --mtu",
                    p.mtu,
                    p.name,
                    p.receive_engine.name(),
                    p.mtu.saturating_sub(28)
                );
                return refuse("--sizes", size.to_string(), &allowed);
            }
            if let Some(size) = self.sizes.iter().find(|s| !self.fragments && !whole(s)) {
                let allowed = format!(
                    "does not fit the MTU of {} B of parameters '{}' without fragments: at most {} B, or \
                     leave out --no-fragments",
                    p.mtu,
                    p.name,
                    p.mtu.saturating_sub(28)
                );
                return refuse("--sizes", size.to_string(), &allowed);
            }
        }
        let mut names: Vec<&str> = self.series.iter().map(|p| p.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() != self.series.len() || {
            let mut sizes = self.sizes.clone();
            sizes.sort_unstable();
            sizes.windows(2).any(|w| w[0] == w[1])
        } {
            return refuse("--sizes, --parameters, --engines", String::new(), "nothing twice");
        }
        Ok(())
    }

    /// True if packets of `size` would cross in fragments, which only sockets get together again. Loopback has
    /// an MTU of its own, in which any size but the largest fits.
    pub fn cannot_arrive(&self, p: &Parameters, size: usize) -> bool {
        let fragments = self.place != "loopback" && wire(p).frames(size) > 1;
        fragments && p.receive_engine.takes_interface()
    }

    /// All points in the order of measuring: repeats go round sizes and sets, so that a slow minute of the
    /// host does not hit one of them alone; the CPU pass comes last.
    pub fn points(&self) -> Vec<CampaignPoint> {
        let passes = (0..self.repeats).map(Pass::Speed);
        let passes = passes.chain(self.cpu_interval_ms.map(|_| Pass::Cpu));
        let mut all = Vec::new();
        for pass in passes {
            for p in &self.series {
                all.extend(self.sizes.iter().map(|&size| CampaignPoint {
                    pass,
                    series: p.name.clone(),
                    size,
                }));
            }
        }
        all
    }

    fn series_called(&self, name: &str) -> Option<&Parameters> {
        self.series.iter().find(|p| p.name == name)
    }
}

/// The Ethernet link that a set's speeds are compared with.
pub fn wire(p: &Parameters) -> Wire {
    Wire { ipv6: false, mtu: p.mtu }
}

/// Highest user data speed that a link of `bits_per_s` allows for a set and size, Gb/s.
pub fn theoretical_gbps(p: &Parameters, size: usize, bits_per_s: f64) -> f64 {
    bits_per_s * 8.0 * size as f64 / wire(p).bits(size) as f64 / 1e9
}

/// What a trial is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// Speed and loss, repeat number; nothing is read meanwhile.
    Speed(usize),
    /// CPU load, over intervals.
    Cpu,
}

/// One trial to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CampaignPoint {
    /// What for.
    pub pass: Pass,
    /// Name of the parameter set.
    pub series: String,
    /// Payload, bytes.
    pub size: usize,
}

/// One trial that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Which.
    pub point: CampaignPoint,
    /// What it gave.
    pub outcome: TrialOutcome,
}

/// Carries trials out.
pub trait Ground {
    /// Makes one trial; with `interval`, CPU intervals of that length are taken.
    ///
    /// # Errors
    /// Whatever kept it from giving a result; the campaign stops.
    fn measure(
        &mut self,
        parameters: &Parameters,
        size: usize,
        volume: TrialVolume,
        interval: Option<Duration>,
    ) -> Result<TrialOutcome, CampaignError>;

    /// What it found: MTU and settings in force, hosts.
    fn found(&self) -> Value;
}

/// A campaign with all its points made.
#[derive(Debug, Clone, PartialEq)]
pub struct Campaign {
    /// What was asked for.
    pub plan: CampaignPlan,
    /// Trials in the order of the plan.
    pub done: Vec<Done>,
}

/// Time that a trial takes beside sending: processes, end mark, summaries.
const OVERHEAD: Duration = Duration::from_millis(300);

impl Campaign {
    /// Makes every point that `state` does not hold yet; `tell` gets one line of progress before and after each.
    ///
    /// # Errors
    /// A plan that cannot be, the first trial that gave no result, a state file that cannot be written.
    pub fn run(
        plan: CampaignPlan,
        ground: &mut dyn Ground,
        state: &mut state::CampaignState,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Campaign, CampaignError> {
        plan.check()?;
        let points = plan.points();
        let mut made = Vec::with_capacity(points.len());
        let warm_up = Duration::from_millis(plan.warm_up_ms);
        let each = plan.volume.expected(plan.load) + warm_up + OVERHEAD;
        let (mut spent, mut here) = (Duration::ZERO, 0u32);
        for (number, point) in points.iter().enumerate() {
            if let Some(outcome) = state.find(point) {
                made.push(Done { point: point.clone(), outcome: outcome.clone() });
                continue;
            }
            let Some(parameters) = plan.series_called(&point.series) else { continue };
            let left = points[number..].iter().filter(|p| state.find(p).is_none()).count() as u32;
            // What the points of this run took says more than what they should take.
            let each = if here == 0 { each } else { spent / here };
            let what = match point.pass {
                Pass::Speed(_) => plan.load.name(),
                Pass::Cpu => format!("{}, CPU", plan.load.name()),
            };
            let of = points.len();
            let place = format!("[{}/{of}] {}, {} B, {what}", number + 1, point.series, point.size);
            tell(&format!("{place}: running, {} left", spoken(each * left)));
            let begun = Instant::now();
            if !warm_up.is_zero() {
                let volume = TrialVolume::Milliseconds(plan.warm_up_ms);
                ground.measure(parameters, point.size, volume, None)?;
            }
            let interval = match point.pass {
                Pass::Speed(_) => None,
                Pass::Cpu => plan.cpu_interval_ms.map(Duration::from_millis),
            };
            let outcome = ground.measure(parameters, point.size, plan.volume, interval)?;
            (spent, here) = (spent + begun.elapsed(), here + 1);
            tell(&format!(
                "{place}: {:.2} Gb/s, {:.3} M packets/s, lost {}, unaccounted {}",
                outcome.received_gbps,
                outcome.mpps,
                outcome.lost,
                outcome.unaccounted()
            ));
            let done = Done { point: point.clone(), outcome };
            state.keep(&done)?;
            made.push(done);
        }
        Ok(Campaign { plan, done: made })
    }

    /// Trials of one set and size that measure speed.
    pub fn trials<'a>(
        &'a self,
        series: &'a str,
        size: usize,
    ) -> impl Iterator<Item = &'a TrialOutcome> {
        self.done.iter().filter_map(move |d| {
            let fits = d.point.series == series && d.point.size == size;
            (fits && matches!(d.point.pass, Pass::Speed(_))).then_some(&d.outcome)
        })
    }

    /// The CPU trial of one set and size.
    pub fn cpu_trial(&self, series: &str, size: usize) -> Option<&TrialOutcome> {
        let fits = |d: &&Done| {
            d.point.series == series && d.point.size == size && d.point.pass == Pass::Cpu
        };
        self.done.iter().find(fits).map(|d| &d.outcome)
    }

    /// True if no trial lost a packet or left one unaccounted, and at least one was made.
    pub fn lossless(&self) -> bool {
        !self.done.is_empty()
            && self.done.iter().all(|d| d.outcome.lost == 0 && d.outcome.unaccounted() == 0)
    }

    /// Points where less than 99 % of the offered rate was sent: sentence for each.
    pub fn shortfalls(&self) -> Vec<String> {
        let OfferedLoad::Offered(bits) = self.plan.load else { return Vec::new() };
        let asked = bits / 1e9;
        let mut worst: Vec<(&str, usize, f64)> = Vec::new();
        for d in self.done.iter().filter(|d| d.outcome.sent_gbps < 0.99 * asked) {
            let (series, size, sent) = (d.point.series.as_str(), d.point.size, d.outcome.sent_gbps);
            match worst.iter_mut().find(|w| w.0 == series && w.1 == size) {
                Some(w) => w.2 = w.2.min(sent),
                None => worst.push((series, size, sent)),
            }
        }
        let sentence = |(series, size, sent): (&str, usize, f64)| {
            format!("{series}, {size} B: asked for {asked} Gb/s, only {sent:.2} were sent")
        };
        worst.into_iter().map(sentence).collect()
    }
}

#[cfg(test)]
#[path = "campaign_tests.rs"]
mod tests;
