//! Where a live trial happens: two namespaces with a link that may be limited, or one with a TAP device.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use fullcount_core::destination::{Destination, DestinationKind, DestinationOpening};
use fullcount_io::host::unit::set_longest_unit;
use fullcount_io::raw::{Driver, RawLink, RawSetup, StcpDestination, UNIT};
use socket2::{Domain, Socket, Type};

use super::during;
use crate::error::LabError;
use crate::namespace::{Layout, NamespaceNetwork, TokenBucket, VethPair};

/// Name of the TAP device.
const TAP: &str = "link0";

/// A token bucket of `bits_per_s` as the reference was measured with: 300 kB at once at 10 Gb/s, 4 MB may wait.
pub fn limited(bits_per_s: u64) -> TokenBucket {
    let burst = (bits_per_s as u128 * 300_000 / 10_000_000_000) as u64;
    TokenBucket { bits_per_s, burst: burst.max(70_000), limit: 4_000_000 }
}

/// A network for one sender and one receiver.
#[derive(Debug)]
pub struct LivePlace {
    network: NamespaceNetwork,
    tap: bool,
}

/// Congestion control of Linux senders here, the baseline of the paper's kernel: bbr paces itself to half of it on such a link. It is set by
/// socket: a namespace may have another than the host's own only if `net.ipv4.tcp_allowed_congestion_control` lists it.
pub const CONTROL: &str = "cubic";

impl LivePlace {
    /// Makes it; `limit` is a queue at the sender's end.
    ///
    /// # Errors
    /// Not root, or the system's words.
    pub fn make(tap: bool, mtu: usize, limit: Option<TokenBucket>) -> Result<LivePlace, LabError> {
        if tap && limit.is_some() {
            return Err(LabError::Refused("a TAP device has no limit here: links none".into()));
        }
        let layout = match tap {
            true => Layout { purpose: "stcp".into(), hosts: 1, links: vec![] },
            false => {
                Layout::pair("stcp", VethPair { shaped: limit, ..VethPair::between(0, 1, mtu) })
            }
        };
        let network = during("making the network", NamespaceNetwork::build(&layout))?;
        let place = LivePlace { network, tap };
        if !tap && limit.is_none() {
            place.take_long_units()?;
        }
        if tap {
            place.make_tap(mtu)?;
        }
        Ok(place)
    }

    /// Both ends take units of 256 KiB, of whoever sends. A limited link keeps the 64 KiB of a new interface: its bucket holds little more.
    fn take_long_units(&self) -> Result<(), LabError> {
        let name = self.network.interface(0);
        for end in 0..2 {
            let set = self.network.inside(end, || set_longest_unit(&name, UNIT));
            during("setting the longest unit", during("entering the namespace", set)?)?;
        }
        Ok(())
    }

    /// Makes the device before anybody opens it: whoever does may wait for the receiver's answers at once.
    fn make_tap(&self, mtu: usize) -> Result<(), LabError> {
        let (address, mtu) = (format!("{}/24", self.peer()), mtu.to_string());
        for words in [
            &["tuntap", "add", "dev", TAP, "mode", "tap"][..],
            &["address", "add", &address, "dev", TAP],
            &["link", "set", TAP, "mtu", &mtu, "up"],
        ] {
            during("setting up the TAP device", self.network.ip(0, words.iter().copied()))?;
        }
        Ok(())
    }

    fn interface(&self) -> String {
        if self.tap { TAP.to_owned() } else { self.network.interface(0) }
    }

    /// Address of the simplified TCP.
    fn own(&self) -> Ipv4Addr {
        let [a, b, c, _] = self.peer().octets();
        Ipv4Addr::new(a, b, c, 9)
    }

    fn receiver(&self) -> usize {
        usize::from(!self.tap)
    }

    /// Address of the receiver.
    pub fn peer(&self) -> Ipv4Addr {
        match self.tap {
            true => Ipv4Addr::new(10, 202, 0, 2),
            false => self.network.address(0, 1),
        }
    }

    /// Opens the simplified TCP at the sender's end; `alter` may change what it is told.
    ///
    /// # Errors
    /// The driver's words.
    pub fn link(
        &self,
        driver: Driver,
        alter: impl FnOnce(&mut RawSetup),
    ) -> Result<RawLink, LabError> {
        let mut setup = RawSetup::new(&self.interface(), driver, self.own().octets());
        setup.key = RawSetup::secret();
        alter(&mut setup);
        let opened = self.network.inside(0, || RawLink::open(setup));
        during("opening the interface", during("entering the namespace", opened)?)
    }

    /// Opens the destination `stcp://` at the sender's end and waits for its connection; `keys`: those of its URL beside interface and own
    /// address. Its thread stays in that namespace.
    ///
    /// # Errors
    /// A value that a key does not take; the destination's words.
    pub fn destination(&self, port: u16, keys: &str) -> Result<Box<dyn Destination>, LabError> {
        let (peer, own, interface) = (self.peer(), self.own(), self.interface());
        let url = format!("stcp://{peer}:{port}?interface={interface}&address={own}&{keys}");
        let endpoint = StcpDestination.plan(&url).map_err(|e| LabError::Refused(e.to_string()))?;
        let opened = self.network.inside(0, || endpoint.open(&DestinationOpening::default()));
        let lanes = during("opening stcp://", during("entering the namespace", opened)?)?;
        let lane = lanes.into_iter().next();
        lane.ok_or_else(|| anyhow::anyhow!("stcp:// without a lane").into())
    }

    /// Does `work` at the receiver's end; sockets opened there stay there.
    ///
    /// # Errors
    /// The namespace.
    pub fn at_receiver<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        during("entering the namespace", self.network.inside(self.receiver(), work))
    }

    /// A command that runs `program` at the receiver's end.
    pub fn receiver_command(&self, program: &Path) -> Command {
        self.network.command(self.receiver(), program)
    }

    /// Listens at the receiver's end.
    ///
    /// # Errors
    /// The system's words.
    pub fn listen(&self, port: u16) -> Result<TcpListener, LabError> {
        during("listening", self.at_receiver(|| TcpListener::bind((self.peer(), port)))?)
    }

    /// A plain connection from the sender's end.
    ///
    /// # Errors
    /// The system's words.
    pub fn connect(&self, port: u16) -> Result<TcpStream, LabError> {
        let made = self.network.inside(0, || Socket::new(Domain::IPV4, Type::STREAM, None));
        let socket = during("making a socket", during("entering the namespace", made)?)?;
        // Before it connects: a connection that has begun with bbr stays paced, and has 1.8 Gb/s in place of 14.5 (veth, fragments of 2 KiB).
        let set = fullcount_io::sys::set_congestion(socket.as_fd(), CONTROL);
        during("setting the congestion control cubic", set)?;
        during("connecting", socket.connect(&SocketAddrV4::new(self.peer(), port).into()))?;
        Ok(socket.into())
    }
}
