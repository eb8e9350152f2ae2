//! Where trials really happen: on loopback, in two namespaces made for it, or with another host.
//!
//! For each parameter set the ground is prepared once: link with its MTU and offloads, settings of the host, and
//! what is in force is noted. A trial starts the receiver, then the sender, which ends the stream with its end
//! marks, upon which the receiver ends by itself; where every mark was lost it is interrupted as a person would.
//! Refuses: a link whose MTU is smaller than the set's, an interface that is not there, children that fail or
//! hang.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::outcome::TrialOutcome;
use super::parameters::Parameters;
use super::sysctl::Sysctls;
use super::{CampaignError, Ground, OfferedLoad, TrialVolume};
use crate::agent::client::FarPost;
use crate::agent::order::{Extent, ReceiveOrder, Send};
use crate::agent::post::{LocalPost, net_core};
use crate::agent::sample::Sampling;
use crate::agent::trial::{Beside, BothEnds, TrialWait};
use crate::agent::{ChildWork, Post};
use crate::cores::{Near, on_near_cores};
use crate::namespace::{Layout, NamespaceNetwork, VethPair};
use crate::profile::{ProfileRecording, Symbol};

/// How long a child may take to end after the sending time: buffers of 64 MiB drain in less than 0.1 s.
const GRACE: Duration = Duration::from_secs(5);
/// How long a sender may be late on a host that does other things as well.
const LATE: Duration = Duration::from_secs(30);
/// A receiver ends by itself this long after its trial, should everybody else be gone.
const BOUND: Duration = Duration::from_secs(60);
/// Bound of a trial by volume, whose length is not known.
const DAY: Duration = Duration::from_secs(86_400);
/// Between two looks at a child on this host, and on another.
const LOOK: Duration = Duration::from_millis(10);
const LOOK_FAR: Duration = Duration::from_millis(200);

/// Where the two ends are.
pub enum FieldPlace {
    /// Both on this host's loopback.
    Loopback,
    /// In two namespaces joined by a veth pair.
    Namespaces,
    /// One here, one on the host of an agent.
    Far(Far),
}

/// The far end.
pub struct Far {
    /// Its agent.
    pub post: Rc<FarPost>,
    /// True: the far host receives and this one sends.
    pub receives: bool,
    /// Interface of this host that the measured link is at, for its MTU.
    pub interface: Option<String>,
    /// Address of this host on the measured link, if it receives.
    pub own: IpAddr,
}

/// The ends as they are for one parameter set.
struct Stage {
    key: (usize, bool, Option<u64>, Option<u64>),
    receive: Rc<dyn Post>,
    send: Rc<dyn Post>,
    bind: IpAddr,
    /// What is in force.
    found: Value,
    // Put back and removed when the stage is dropped, after the posts.
    _sysctls: Option<Sysctls>,
    _network: Option<Arc<NamespaceNetwork>>,
}

/// What all trials share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialSettings {
    /// Cores of receiver and sender.
    pub cores: (Option<usize>, Option<usize>),
    /// Instead of these, two that share a cache at the time of the trial; both ends are on this host then.
    pub near: bool,
    /// The CPU pass records what the receiver's core spends its time on.
    pub profile: bool,
    /// Offered rate.
    pub load: OfferedLoad,
    /// UDP port; 0: the system's choice.
    pub port: u16,
}

/// Who watches: whether to stop, and what is worth a line.
#[derive(Clone, Copy)]
pub struct FieldWatch<'a> {
    /// True once the person has had enough.
    pub stop: &'a dyn Fn() -> bool,
    /// Hears what is not as asked for.
    pub tell: &'a dyn Fn(&str),
}

/// The real ground.
pub struct Field<'a> {
    program: PathBuf,
    place: FieldPlace,
    settings: TrialSettings,
    watch: FieldWatch<'a>,
    stage: Option<Stage>,
    /// Cores of the last trial that asked for near ones.
    near: Option<Near>,
    sets: Map<String, Value>,
}

impl<'a> Field<'a> {
    /// `program` is the `fullcount` binary.
    pub fn new(
        program: PathBuf,
        place: FieldPlace,
        settings: TrialSettings,
        watch: FieldWatch<'a>,
    ) -> Field<'a> {
        Field { program, place, settings, watch, stage: None, near: None, sets: Map::new() }
    }

    /// Prepares the ground for a set, unless it is as it should be.
    fn prepare(&mut self, p: &Parameters) -> Result<(), CampaignError> {
        let key = (p.mtu, p.segments_cut, p.backlog, p.budget);
        if self.stage.as_ref().is_some_and(|s| s.key == key) {
            return Ok(());
        }
        // First back to what was: the next set begins from there.
        self.stage = None;
        let own = |inside, address| {
            Rc::new(LocalPost { program: self.program.clone(), inside, address }) as Rc<dyn Post>
        };
        let (mut network, mut mtu, mut features) = (None, p.mtu, None);
        let (receive, send, bind): (Rc<dyn Post>, Rc<dyn Post>, IpAddr) = match &self.place {
            FieldPlace::Loopback => {
                mtu = path_mtu(Ipv4Addr::LOCALHOST.into()).unwrap_or(65_536);
                let here = own(None, Ipv4Addr::LOCALHOST.into());
                (here.clone(), here, Ipv4Addr::LOCALHOST.into())
            }
            FieldPlace::Namespaces => {
                let link = VethPair::between(0, 1, p.mtu);
                let link = if p.segments_cut { link.segments_cut() } else { link };
                let made = Arc::new(NamespaceNetwork::build(&Layout::pair("udp", link))?);
                let far = made.address(0, 1).into();
                let inside = made.inside(0, || fullcount_io::sys::features("link0"));
                features = inside.ok().and_then(Result::ok);
                let send = own(Some((made.clone(), 0)), made.address(0, 0).into());
                let receive = own(Some((made.clone(), 1)), far);
                network = Some(made);
                (receive, send, far)
            }
            FieldPlace::Far(far) => {
                mtu = far.check_mtu(p, self.watch.tell)?;
                let there: Rc<dyn Post> = far.post.clone();
                let any: IpAddr = match there.address() {
                    IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let here = own(None, far.own);
                if far.receives { (there, here, any) } else { (here, there, any) }
            }
        };
        // Another host's settings are its own affair, and one end's alone would prove little.
        let ours = !matches!(self.place, FieldPlace::Far(_));
        let wanted =
            [("net.core.netdev_max_backlog", p.backlog), ("net.core.netdev_budget", p.budget)];
        let wanted: Vec<(&str, u64)> =
            wanted.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let tell = self.watch.tell;
        let sysctls = ours.then(|| Sysctls::set(&wanted, &mut |line| tell(line)));
        let found = in_force(mtu, features);
        let (_sysctls, _network) = (sysctls, network);
        self.stage = Some(Stage { key, receive, send, bind, found, _sysctls, _network });
        Ok(())
    }

    fn orders(
        &self,
        stage: &Stage,
        p: &Parameters,
        cores: (Option<usize>, Option<usize>),
        size: usize,
        extent: Extent,
    ) -> (ReceiveOrder, Send) {
        let core = |own: Option<usize>| if p.pinned { own } else { None };
        let receive_core = core(cores.0);
        let send_core = core(if p.same_core { cores.0 } else { cores.1 });
        let bits_per_s = match self.settings.load {
            OfferedLoad::Offered(bits) => Some(bits),
            OfferedLoad::FlatOut => None,
        };
        let send = Send {
            to: SocketAddr::new(stage.receive.address(), self.settings.port),
            size,
            bits_per_s,
            extent,
            buffer: p.send_buffer,
            engine: p.send_engine,
            core: send_core,
        };
        let bound = match extent {
            Extent::Milliseconds(ms) => Duration::from_millis(ms) + BOUND,
            Extent::Packets(_) => DAY,
        };
        let receive = ReceiveOrder {
            // Any address will do for a socket; an interface is found by the address of the link.
            bind: match p.receive_engine.takes_interface() {
                true => stage.receive.address(),
                false => stage.bind,
            },
            port: self.settings.port,
            buffer: p.receive_buffer,
            engine: p.receive_engine,
            interface: None,
            core: receive_core,
            timestamps: p.timestamps,
            busy_poll: p.busy_poll,
            at_most_ms: bound.as_millis() as u64,
        };
        (receive, send)
    }

    fn trial(
        &self,
        stage: &Stage,
        (receive, send): (ReceiveOrder, Send),
        interval: Option<Duration>,
    ) -> Result<TrialOutcome, CampaignError> {
        let look = if matches!(self.place, FieldPlace::Far(_)) { LOOK_FAR } else { LOOK };
        let profiled = self.settings.profile && interval.is_some();
        let receive_core = receive.core.filter(|_| profiled);
        let send_core = send.core.filter(|&core| profiled && Some(core) != receive.core);
        let limit = match send.extent {
            Extent::Milliseconds(ms) => Duration::from_millis(ms) + LATE,
            Extent::Packets(_) => DAY,
        };
        let mut watched = TrialProbes {
            interval: interval.map(|interval| (interval, send.expected())),
            cores: [receive_core, send_core],
            recordings: Default::default(),
            profiles: Default::default(),
        };
        let stop = self.watch.stop;
        let waiting = TrialWait { stop, look, sender: limit, marks: GRACE, grace: GRACE };
        let ends = (stage.receive.as_ref(), stage.send.as_ref());
        let BothEnds { sent, received, by_mark } =
            waiting.trial(ends, (receive, send), &mut watched)?;
        let [profile, sender_profile] = watched.profiles;
        Ok(TrialOutcome { profile, sender_profile, ..TrialOutcome::read(received, sent, by_mark)? })
    }
}

/// CPU intervals of both ends and a profile of their cores, taken beside a trial.
struct TrialProbes {
    /// Length of an interval, and of the trial if it is known; `None`: nothing is read.
    interval: Option<(Duration, Option<Duration>)>,
    /// Cores of receiver and sender that are recorded.
    cores: [Option<usize>; 2],
    recordings: [Option<ProfileRecording>; 2],
    profiles: [Vec<Symbol>; 2],
}

impl Beside<CampaignError> for TrialProbes {
    fn begun(
        &mut self,
        receiver: &mut dyn ChildWork,
        sender: &mut dyn ChildWork,
    ) -> Result<(), CampaignError> {
        if let Some((interval, expected)) = self.interval {
            // Where the length is not known the intervals end with the programs.
            let ms = interval.as_millis() as u64;
            let open = Sampling { delay_ms: 1000, interval_ms: ms, count: 10_000 };
            let sampling = expected.map_or(open, |all| Sampling::within(all, interval));
            receiver.sample(sampling)?;
            sender.sample(sampling)?;
        }
        for (recording, core) in self.recordings.iter_mut().zip(self.cores) {
            *recording = core.map(ProfileRecording::begin).transpose()?;
        }
        Ok(())
    }

    fn sent(&mut self) -> Result<(), CampaignError> {
        for (profile, recording) in self.profiles.iter_mut().zip(&mut self.recordings) {
            *profile = recording.take().map(ProfileRecording::end).transpose()?.unwrap_or_default();
        }
        Ok(())
    }
}

impl Ground for Field<'_> {
    fn measure(
        &mut self,
        parameters: &Parameters,
        size: usize,
        volume: TrialVolume,
        interval: Option<Duration>,
    ) -> Result<TrialOutcome, CampaignError> {
        if (self.watch.stop)() {
            return Err(CampaignError::Interrupted);
        }
        self.prepare(parameters)?;
        // Prepared above; taken out so that a trial may borrow the field.
        let Some(stage) = self.stage.take() else { return Err(CampaignError::Interrupted) };
        if !self.sets.contains_key(&parameters.name) {
            self.sets.insert(parameters.name.clone(), stage.found.clone());
        }
        let extent = volume.extent(size);
        let on = |cores| {
            self.trial(&stage, self.orders(&stage, parameters, cores, size, extent), interval)
        };
        let mut near = self.near;
        let outcome = if self.settings.near {
            let made = on_near_cores(&mut near, |c| on((Some(c.receiver), Some(c.sender))));
            made.map(|(outcome, near)| TrialOutcome { near: Some(near), ..outcome })
        } else {
            on(self.settings.cores)
        };
        self.near = near;
        self.stage = Some(stage);
        // Ctrl-C reaches the children as well: what they counted until then is no result.
        if (self.watch.stop)() {
            return Err(CampaignError::Interrupted);
        }
        outcome
    }

    fn found(&self) -> Value {
        let here = crate::record::host::snapshot(std::path::Path::new("/"));
        let (far, receives) = match &self.place {
            FieldPlace::Loopback | FieldPlace::Namespaces => (None, None),
            FieldPlace::Far(far) => {
                let which = if far.receives { "far" } else { "here" };
                (Some(far.post.host()), Some(which))
            }
        };
        json!({"host": here, "far_host": far, "receiver": receives, "sets": self.sets})
    }
}

/// What is in force: MTU of the link, settings of this host, offloads that are on.
fn in_force(mtu: usize, features: Option<Vec<(String, bool)>>) -> Value {
    let on: Option<Vec<String>> =
        features.map(|f| f.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect());
    json!({
        "mtu": mtu,
        "net.core.netdev_max_backlog": net_core("netdev_max_backlog"),
        "net.core.netdev_budget": net_core("netdev_budget"),
        "features_on": on,
    })
}

impl Far {
    /// MTU of the way to the far host, if it is enough for a set.
    fn check_mtu(&self, p: &Parameters, tell: &dyn Fn(&str)) -> Result<usize, CampaignError> {
        let address = self.post.address();
        let (link, found) = match &self.interface {
            Some(name) => (name.clone(), interface_mtu(name)?),
            // Where the system does not say, the first refused packet will.
            None => (address.to_string(), path_mtu(address).unwrap_or(p.mtu)),
        };
        if found < p.mtu {
            let (wanted, name) = (p.mtu, p.name.clone());
            return Err(CampaignError::Mtu { link, found, wanted, name });
        }
        if found > p.mtu {
            let (name, mtu) = (&p.name, p.mtu);
            tell(&format!(
                "{link}: its MTU is {found} B, parameters '{name}' mean {mtu} B: sizes above {} B cross whole",
                mtu.saturating_sub(28)
            ));
        }
        Ok(found)
    }
}

/// MTU of an interface of this host.
///
/// # Errors
/// There is none of that name.
pub fn interface_mtu(name: &str) -> Result<usize, CampaignError> {
    let none = || CampaignError::Interface { name: name.to_owned() };
    // A name with a slash would lead elsewhere.
    fullcount_io::sys::interface_index(name).map_err(|_| none())?;
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/mtu")).map_err(|_| none())?;
    text.trim().parse().map_err(|_| none())
}

/// MTU that the system knows for the way to an address.
fn path_mtu(to: IpAddr) -> Option<usize> {
    let any: IpAddr = match to {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Connecting a UDP socket sends nothing.
    socket.connect((to, 9)).ok()?;
    fullcount_io::sys::path_mtu(socket.as_fd(), to.is_ipv6()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_found_by_name() {
        assert!(interface_mtu("lo").unwrap() >= 1500);
        for absent in ["fc-none0", "", "../lo", "lo/../lo"] {
            let e = interface_mtu(absent).unwrap_err();
            assert!(e.to_string().contains("no such interface"), "{e}");
        }
        assert!(path_mtu(Ipv4Addr::LOCALHOST.into()).unwrap() >= 1500);
    }

    #[test]
    fn the_orders_carry_the_whole_set() {
        let (stop, tell) = (|| false, |_: &str| ());
        let load = OfferedLoad::Offered(5e9);
        let cores = (Some(1), Some(2));
        let (settings, watch) = (
            TrialSettings { cores, near: false, profile: false, load, port: 4711 },
            FieldWatch { stop: &stop, tell: &tell },
        );
        let field = Field::new("p".into(), FieldPlace::Loopback, settings, watch);
        let here = Rc::new(LocalPost::loopback("p".into()));
        let bind = Ipv4Addr::LOCALHOST.into();
        let key = (1500, false, None, None);
        let (_sysctls, _network) = (None, None);
        let found = Value::Null;
        let stage =
            Stage { key, receive: here.clone(), send: here, bind, found, _sysctls, _network };
        let extent = Extent::Milliseconds(300);
        let tuned = Parameters { timestamps: true, busy_poll: true, ..Parameters::tuned() };
        let (receive, send) = field.orders(&stage, &tuned, cores, 64, extent);
        assert_eq!((receive.core, send.core), (Some(1), Some(2)));
        assert_eq!((receive.buffer, send.buffer), (tuned.receive_buffer, tuned.send_buffer));
        assert!(receive.timestamps && receive.busy_poll && receive.at_most_ms == 60_300);
        assert_eq!((send.to.to_string().as_str(), send.size), ("127.0.0.1:4711", 64));
        assert_eq!((send.bits_per_s, send.extent), (Some(5e9), extent));
        let same = Parameters { same_core: true, ..Parameters::tuned() };
        let (receive, send) = field.orders(&stage, &same, cores, 64, Extent::Packets(5));
        assert_eq!((receive.core, send.core), (Some(1), Some(1)));
        let free = Parameters { pinned: false, ..Parameters::tuned() };
        let (receive, send) = field.orders(&stage, &free, cores, 64, extent);
        assert_eq!((receive.core, send.core), (None, None));
    }
}
