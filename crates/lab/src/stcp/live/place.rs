//! Where a live trial happens: two namespaces with a link that may be limited, or one with a TAP device.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use fullcount_io::raw::{Driver, RawLink, RawSetup};

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

/// Congestion control of Linux sockets here.
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
        // The baseline of the paper's kernel; bbr paces itself to half of it on such a link.
        for host in 0..layout.hosts {
            let set = || fs::write("/proc/sys/net/ipv4/tcp_congestion_control", CONTROL);
            let set = network.inside(host, set).and_then(|set| set);
            during("setting net.ipv4.tcp_congestion_control = cubic in a namespace", set)?;
        }
        Ok(LivePlace { network, tap })
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
        mtu: usize,
        alter: impl FnOnce(&mut RawSetup),
    ) -> Result<RawLink, LabError> {
        let [a, b, c, _] = self.peer().octets();
        let interface = if self.tap { TAP.to_owned() } else { self.network.interface(0) };
        let mut setup = RawSetup::new(&interface, driver, [a, b, c, 9]);
        setup.key = RawSetup::secret();
        alter(&mut setup);
        let opened = self.network.inside(0, || RawLink::open(setup));
        let link = during("opening the interface", during("entering the namespace", opened)?)?;
        if self.tap {
            let (address, mtu) = (format!("{}/24", self.peer()), mtu.to_string());
            for words in [
                &["address", "add", &address, "dev", TAP][..],
                &["link", "set", TAP, "mtu", &mtu, "up"],
            ] {
                during("setting up the TAP device", self.network.ip(0, words.iter().copied()))?;
            }
        }
        Ok(link)
    }

    /// Listens at the receiver's end.
    ///
    /// # Errors
    /// The system's words.
    pub fn listen(&self, port: u16) -> Result<TcpListener, LabError> {
        let bound = self.network.inside(self.receiver(), || TcpListener::bind((self.peer(), port)));
        during("listening", during("entering the namespace", bound)?)
    }

    /// A plain connection from the sender's end.
    ///
    /// # Errors
    /// The system's words.
    pub fn connect(&self, port: u16) -> Result<TcpStream, LabError> {
        let made = self.network.inside(0, || TcpStream::connect((self.peer(), port)));
        during("connecting", during("entering the namespace", made)?)
    }
}
