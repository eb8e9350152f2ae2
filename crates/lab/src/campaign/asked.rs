//! What a person asks for, read: parameter sets with their engines, cores, and where the ends are.
//!
//! Refuses, before anything is measured: names that are not known, an ablation of several sets or engines, near cores on two
//! hosts, and another host without a token.

use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;

use fullcount_engine::config::refuse;
use fullcount_io::sys::UringRing;

use super::CampaignPlan;
use super::field::{Far, FieldPlace, interface_mtu};
use super::parameters::Parameters;
use super::state::{CampaignState, StateError};
use crate::Tell;
use crate::agent::client::FarPost;
use crate::agent::engine::{Method, check_engine};
use crate::agent::server;
use crate::error::LabError;
use crate::record;

/// Parameter sets and engines as asked for.
#[derive(Debug, Clone, Copy)]
pub struct ParameterSets<'a> {
    /// Names of sets.
    pub sets: &'a [String],
    /// Names of engines.
    pub engines: &'a [String],
    /// Where: `loopback`, `namespaces` or a host.
    pub place: &'a str,
    /// MTU of all sets, instead of their own.
    pub mtu: Option<usize>,
    /// Each packet crosses a link of namespaces by itself.
    pub cut_segments: bool,
    /// One thing is switched at a time.
    pub ablate: bool,
}

impl ParameterSets<'_> {
    /// Parameter sets with their engines; for an ablation the base and what differs from it.
    ///
    /// # Errors
    /// Names that are not known, and what cannot be measured there.
    pub fn read(&self) -> Result<Vec<Parameters>, LabError> {
        let ours = self.place == "namespaces";
        if self.cut_segments && !ours {
            let why = "only a veth pair of ours can be told: --where namespaces";
            return Err(refuse("cut-segments", self.place, why).into());
        }
        let set = |name: &String| {
            let p = Parameters::named(name);
            let p = p.ok_or_else(|| refuse("parameters", name, "default or tuned"))?;
            let mtu = self.mtu.unwrap_or(p.mtu);
            Ok(Parameters { mtu, segments_cut: self.cut_segments, ..p })
        };
        let engine = |name: &String| check_engine(name, self.place == "loopback");
        let sets = self.sets.iter().map(set).collect::<Result<Vec<_>, LabError>>()?;
        let engines = self.engines.iter().map(engine).collect::<Result<Vec<_>, _>>()?;
        if self.ablate {
            // The last set named is the one that is taken apart.
            let (Some(base), Some(&first)) = (sets.into_iter().next_back(), engines.first()) else {
                return Err(LabError::Refused("--ablate: one parameter set and one engine".into()));
            };
            if engines.len() > 1 {
                let why = "one engine with --ablate";
                return Err(refuse("engines", self.engines.join(","), why).into());
            }
            let base = base.with_method(first);
            let uring = UringRing::new(1).is_ok().then_some(Method::URING);
            let beside: Vec<Method> = match self.place {
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
}

/// CPUs of receiver and sender; `None`: wherever the system puts them.
type Cores = (Option<usize>, Option<usize>);

/// Cores of receiver and sender, and whether they are to be near each other instead.
///
/// # Errors
/// What are no two cores, and near ones on two hosts.
pub fn cores(asked: Option<&str>, place: &str) -> Result<(Cores, bool), LabError> {
    let here = std::thread::available_parallelism().map_or(1, |n| n.get());
    let text = match asked {
        None => return Ok((if here > 2 { (Some(1), Some(2)) } else { (None, None) }, false)),
        Some("none") => return Ok(((None, None), false)),
        Some("near") if matches!(place, "loopback" | "namespaces") => {
            return Ok(((None, None), true));
        }
        Some("near") => {
            let why = "two core numbers such as 1,2, or none: the ends are on two hosts";
            return Err(refuse("cores", "near", why).into());
        }
        Some(text) => text,
    };
    let pair = text.split_once(',').and_then(|(r, s)| Some((r.parse().ok()?, s.parse().ok()?)));
    let wrong = || refuse("cores", text, "two core numbers such as 1,2, or none, or near");
    let (r, s): (usize, usize) = pair.ok_or_else(wrong)?;
    if r > 1023 || s > 1023 {
        return Err(refuse("cores", text, "core numbers of 0 to 1023").into());
    }
    Ok(((Some(r), Some(s)), false))
}

/// Where the ends are, as asked for.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// `loopback`, `namespaces` or a host.
    pub place: &'a str,
    /// What that host does: `receive` or `send`.
    pub far: &'a str,
    /// The token that its agent was started with.
    pub token_file: Option<&'a Path>,
    /// Interface of this host on the measured link.
    pub interface: Option<&'a str>,
    /// Address of the receiving end on it.
    pub data: Option<IpAddr>,
}

impl Ends<'_> {
    /// Greets the agent, where there is one.
    ///
    /// # Errors
    /// A verb that is none, no token, and an agent that is out of reach.
    pub fn open(&self) -> Result<FieldPlace, LabError> {
        let receives = match self.far {
            "receive" => true,
            "send" => false,
            other => return Err(refuse("far", other, "receive or send").into()),
        };
        match self.place {
            "loopback" => return Ok(FieldPlace::Loopback),
            "namespaces" => return Ok(FieldPlace::Namespaces),
            _ => {}
        }
        let Some(file) = self.token_file else {
            let why = "another host needs --token-file, the same as its agent's";
            return Err(refuse("where", self.place, why).into());
        };
        if let Some(name) = self.interface {
            interface_mtu(name).map_err(anyhow::Error::from)?;
        }
        let token = server::token(file).map_err(|e| LabError::Refused(e.to_string()))?;
        let post = FarPost::connect(self.place, &token).map_err(anyhow::Error::from)?;
        let mut own = post.own_address();
        let post = match (self.data, receives) {
            (Some(address), true) => post.over(address),
            (Some(address), false) => {
                own = address;
                post
            }
            (None, _) => post,
        };
        let interface = self.interface.map(str::to_owned);
        Ok(FieldPlace::Far(Far { post: Rc::new(post), receives, interface, own }))
    }
}

/// Begins the state of a campaign, or goes on with it.
///
/// # Errors
/// A state of another plan, none to go on with, and one that is there and may not be replaced.
pub fn state(
    path: &Path,
    plan: &CampaignPlan,
    resume: bool,
    overwrite: bool,
    tell: Tell,
) -> Result<CampaignState, LabError> {
    let revision = record::revision();
    let opened = match resume {
        true => CampaignState::resume(path, plan, revision),
        false => {
            if overwrite && path.exists() {
                tell(&format!("{}: an interrupted campaign is replaced", path.display()));
            }
            CampaignState::begin(path, plan, revision, overwrite)
        }
    };
    let state = opened.map_err(|e| match e {
        StateError::Other { .. } | StateError::Nothing { .. } | StateError::Exists { .. } => {
            LabError::Refused(e.to_string())
        }
        StateError::Write { .. } | StateError::Shape { .. } | StateError::InUse { .. } => {
            LabError::Failed(e.into())
        }
    })?;
    if !state.is_empty() {
        tell(&format!("{}: {} trials are there already", path.display(), state.len()));
    }
    Ok(state)
}
