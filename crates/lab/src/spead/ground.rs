//! Where trials run: this host's loopback, links between namespaces with a queue of set rate, or the emulated link with a round trip.
//!
//! The sender's namespace is the first; each link has a receiver's namespace of its own. Needs root but for loopback.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use fullcount_core::sim::{ChannelSetup, Spec};

use super::rights::TrialRights;
use crate::emulator::network::{self, ADDRESSES};
use crate::emulator::{Emulator, EmulatorError, EmulatorPlan};
use crate::namespace::{Layout, NamespaceError, NamespaceNetwork, TokenBucket, VethPair};

/// Frame header and frame check sequence, bytes.
const FRAME: f64 = 18.0;

/// Ports of trials: below those that the system gives to connections.
const FIRST_PORT: u32 = 17_148;
const PORTS: u32 = 8000;
/// Ports that trials of this process had.
static TRIALS: AtomicU32 = AtomicU32::new(0);

/// Why there is no place.
#[derive(Debug, thiserror::Error)]
pub enum SpeadGroundError {
    /// Namespaces.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The emulated link.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
}

/// A place for trials.
#[derive(Debug)]
pub enum SpeadGround {
    /// Loopback of this host.
    Loopback,
    /// Namespaces: sender 0, and one for each link.
    Links(NamespaceNetwork),
    /// Two namespaces with the emulator between them.
    Emulated {
        /// The link; ends first.
        emulator: Emulator,
        /// The namespaces.
        network: NamespaceNetwork,
        /// Rate of the link, Gb/s.
        gbps: f64,
        /// From the sender to the receiver and back.
        round_trip: Duration,
    },
}

impl SpeadGround {
    /// Links of these rates, Gb/s, for packets of `mtu` bytes.
    ///
    /// # Errors
    /// See [`NamespaceError`].
    pub fn links(gbps: &[f64], mtu: usize) -> Result<SpeadGround, SpeadGroundError> {
        let link = |(n, rate): (usize, &f64)| {
            let bits_per_s = (rate * 1e9) as u64;
            // 5 ms wait at most, as in a switch of that age; a burst is at least two frames.
            let limit = (bits_per_s / 8 / 200).max(64 * 1024) + 2 * mtu as u64;
            let burst = (bits_per_s / 8 / 4000).max(2 * (mtu as u64 + 18)).max(16_384);
            let shaped = Some(TokenBucket { bits_per_s, burst, limit });
            VethPair { shaped, ..VethPair::between(0, n + 1, mtu).segments_cut().in_order() }
        };
        let links = gbps.iter().enumerate().map(link).collect();
        let layout = Layout { purpose: "spead".to_owned(), hosts: gbps.len() + 1, links };
        Ok(SpeadGround::Links(NamespaceNetwork::build(&layout)?))
    }

    /// One link of this rate, Gb/s, and round trip.
    ///
    /// # Errors
    /// See [`EmulatorError`].
    pub fn round_trip(
        gbps: f64,
        round_trip: Duration,
        mtu: usize,
    ) -> Result<SpeadGround, SpeadGroundError> {
        SpeadGround::faulty((gbps, round_trip), mtu, Spec::default())
    }

    /// The same with faults; those of the way back have the next seed.
    ///
    /// # Errors
    /// See [`EmulatorError`].
    pub fn faulty(
        (gbps, round_trip): (f64, Duration),
        mtu: usize,
        fault: Spec,
    ) -> Result<SpeadGround, SpeadGroundError> {
        let network = network::build(mtu)?;
        let bits = (gbps * 1e9) as u64;
        let setup = ChannelSetup {
            rate_bps: Some(bits),
            delay_ns: round_trip.as_nanos() as u64 / 2,
            // 5 ms of the rate, and 64 frames.
            queue_bytes: bits / 8 / 200 + 64 * mtu as u64,
            fault,
            ..ChannelSetup::default()
        };
        let back = ChannelSetup { fault: Spec { seed: fault.seed + 1, ..fault }, ..setup };
        let plan = EmulatorPlan {
            interfaces: [String::new(), String::new()],
            setups: [setup, back],
            cores: [None, None],
            busy_poll: false,
        };
        let emulator = network::start(&network, &plan)?;
        Ok(SpeadGround::Emulated { emulator, network, gbps, round_trip })
    }

    /// Where a sender reaches the receiver of link `link`.
    pub fn address(&self, link: usize) -> Ipv4Addr {
        match self {
            SpeadGround::Loopback => Ipv4Addr::LOCALHOST,
            SpeadGround::Links(network) => network.address(link, 1),
            SpeadGround::Emulated { .. } => ADDRESSES[1],
        }
    }

    /// Where the receiver of link `link` reaches the sender.
    pub fn sender_address(&self, link: usize) -> Ipv4Addr {
        match self {
            SpeadGround::Loopback => Ipv4Addr::LOCALHOST,
            SpeadGround::Links(network) => network.address(link, 0),
            SpeadGround::Emulated { .. } => ADDRESSES[0],
        }
    }

    fn host(&self, link: usize, sends: bool) -> Option<(&NamespaceNetwork, usize)> {
        match self {
            SpeadGround::Loopback => None,
            SpeadGround::Links(network) => Some((network, if sends { 0 } else { link + 1 })),
            SpeadGround::Emulated { network, .. } => Some((network, if sends { 0 } else { 2 })),
        }
    }

    /// A command at an end of a link, with these rights, and on one core of its own by `taskset` if `cores` says which: that of senders,
    /// and that of receivers.
    pub fn pinned(
        &self,
        (link, sends): (usize, bool),
        program: &Path,
        cores: Option<[usize; 2]>,
        rights: TrialRights,
    ) -> Command {
        let words = rights.words(program, cores.map(|cores| cores[usize::from(!sends)]));
        let first = words.first().map_or(program.as_os_str(), |word| word.as_os_str());
        let mut command = match self.host(link, sends) {
            None => Command::new(first),
            Some((network, host)) => network.command(host, first),
        };
        command.args(words.iter().skip(1));
        command
    }

    /// Frames that these links carry together, Gb/s; `None` on loopback, which has no rate.
    pub fn carries(&self, links: &[usize]) -> Option<f64> {
        match self {
            SpeadGround::Loopback => None,
            SpeadGround::Emulated { gbps, .. } => Some(*gbps),
            SpeadGround::Links(network) => {
                let all = &network.layout().links;
                let once: BTreeSet<usize> = links.iter().copied().collect();
                let bits = |link: &usize| Some(all.get(*link)?.shaped?.bits_per_s as f64);
                once.iter().map(bits).sum::<Option<f64>>().map(|bits| bits / 1e9)
            }
        }
    }

    /// Round trip of the link; `None` where it has none but that of the host.
    pub fn round_trip_time(&self) -> Option<Duration> {
        match self {
            SpeadGround::Emulated { round_trip, .. } => Some(*round_trip),
            SpeadGround::Loopback | SpeadGround::Links(_) => None,
        }
    }

    /// Runs `work` on a thread at an end of a link: sockets opened there stay there.
    ///
    /// # Errors
    /// The system's words.
    pub fn inside<T: Send>(
        &self,
        link: usize,
        sends: bool,
        work: impl FnOnce() -> T + Send,
    ) -> std::io::Result<T> {
        match self.host(link, sends) {
            None => Ok(work()),
            Some((network, host)) => network.inside(host, work),
        }
    }

    /// A port of the receiver's end at which nobody listens, and that no trial of this process had recently.
    pub fn free_port(&self, link: usize, tcp: bool) -> u16 {
        let next = || port(std::process::id(), TRIALS.fetch_add(1, Relaxed));
        let free = (0..PORTS).map(|_| next()).find(|port| !self.listens(link, tcp, *port));
        // With all of them taken the receiver says so.
        free.unwrap_or_else(next)
    }

    /// True if somebody listens at this port of the receiver's end.
    pub fn listens(&self, link: usize, tcp: bool, port: u16) -> bool {
        let tables = if tcp { ["tcp", "tcp6"] } else { ["udp", "udp6"] };
        let read = || {
            tables.map(|t| {
                std::fs::read_to_string(format!("/proc/thread-self/net/{t}")).unwrap_or_default()
            })
        };
        let found = self.inside(link, false, read).unwrap_or_default();
        found.iter().any(|table| has_port(table, tcp, port))
    }
}

/// The port of a trial. Campaigns that run at the same time begin far from each other, since a port is taken only when its receiver has
/// started.
fn port(process: u32, trial: u32) -> u16 {
    let at = process.wrapping_mul(997).wrapping_add(trial) % PORTS;
    (FIRST_PORT + at) as u16
}

/// True if a table of sockets has the port: of TCP a listener.
fn has_port(table: &str, tcp: bool, port: u16) -> bool {
    let end = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let own = words.next().is_some_and(|a| a.ends_with(&end));
        own && (!tcp || words.nth(1) == Some("0A"))
    })
}

/// SPEAD bytes of packets of this size that a link carries, Gb/s of its rate.
pub fn spead_share(packet: usize) -> f64 {
    // IPv4 and UDP headers; the queue counts frames without preamble and gap.
    packet as f64 / (packet as f64 + 28.0 + FRAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_have_ports_that_nobody_listens_at() {
        let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let ground = SpeadGround::Loopback;
        assert!(ground.listens(0, false, taken.local_addr().unwrap().port()));
        let [one, two] = [ground.free_port(0, false), ground.free_port(0, false)];
        assert!(one != two && !ground.listens(0, false, one) && !ground.listens(0, false, two));
        // Two processes in a row are hundreds of trials apart.
        assert!(port(4000, 0).abs_diff(port(4001, 0)) > 500);
        assert_eq!((port(0, 0), port(0, PORTS - 1), port(0, PORTS)), (17_148, 25_147, 17_148));
    }

    #[test]
    fn a_port_is_found_in_the_tables_of_sockets() {
        let udp = "  sl  local_address rem_address\n 5: 0100007F:1BEC 00000000:0000 07 0\n";
        assert!(has_port(udp, false, 7148) && !has_port(udp, false, 7149));
        let tcp = "  sl  local_address rem_address\n 5: 0100007F:1BEC 0100007F:9999 01 0\n";
        assert!(!has_port(tcp, true, 7148), "a connection is no listener");
        assert!(has_port(&tcp.replace(" 01 0", " 0A 0"), true, 7148));
        assert!((0.99..1.0).contains(&spead_share(8950)));
    }

    #[test]
    fn a_pinned_program_runs_on_its_end_s_core_without_the_right_to_larger_buffers() {
        let words = |sends, cores, rights| {
            let command = SpeadGround::Loopback.pinned((0, sends), Path::new("x"), cores, rights);
            let all = command.get_args().map(|w| w.to_string_lossy().into_owned());
            (command.get_program().to_owned(), all.collect::<Vec<_>>().join(" "))
        };
        let (cores, plain) = (Some([2, 5]), TrialRights::Plain);
        assert_eq!(words(true, cores, plain), ("taskset".into(), "-c 2 x".into()));
        assert_eq!(words(false, cores, plain), ("taskset".into(), "-c 5 x".into()));
        assert_eq!(words(true, None, plain), ("x".into(), String::new()));
        let without = "--bounding-set=-net_admin --inh-caps=-net_admin";
        let given_up = |cores| words(true, cores, TrialRights::GivenUp);
        assert_eq!(given_up(cores), ("setpriv".into(), format!("{without} taskset -c 2 x")));
        assert_eq!(given_up(None), ("setpriv".into(), format!("{without} x")));
        assert_eq!(SpeadGround::Loopback.carries(&[0]), None);
    }

    #[test]
    fn on_a_link_the_right_is_given_up_inside_of_the_namespace() {
        if !crate::namespace::allowed() {
            assert!(std::env::var_os("CI").is_none(), "CI must have namespaces");
            println!("skipped: namespaces need root");
            return;
        }
        let ground = SpeadGround::links(&[0.1], 1500).unwrap();
        let cores = Some([0, 0]);
        let command = ground.pinned((0, false), Path::new("x"), cores, TrialRights::GivenUp);
        let words: Vec<_> = command.get_args().map(|w| w.to_string_lossy().into_owned()).collect();
        let words = words.join(" ");
        assert!(words.starts_with("netns exec "), "{words}");
        let end = " setpriv --bounding-set=-net_admin --inh-caps=-net_admin taskset -c 0 x";
        assert!(words.ends_with(end), "{words}");
    }
}
