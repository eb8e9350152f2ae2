//! Endpoints are URLs, the same ones for every verb: where packets come from and go to.
//!
//! Each scheme is declared with its source ([`UdpUrl`], [`PcapUrl`], [`XdpUrl`], [`PacketUrl`]); their grammar is
//! [`fullcount_core::url`]. Refuses text without a scheme, with a suggestion; unknown schemes, listing the
//! known ones; schemes of a later version, by name. Source: `docs/architecture.md`, "Endpoints are URLs".

use std::fmt;
use std::str::FromStr;

use fullcount_core::source::Sources;
use fullcount_core::url::{self, Scheme, UrlError};

pub use crate::packet_ring::url::{PacketKeys, PacketUrl};
pub use crate::pcap::url::{Ip, PcapSpeed, PcapUrl, Repeat};
pub use crate::udp::url::{
    BUFFER_MAX, BUFFER_MIN, Engine, InterfaceChoice, MOST_NAP, UdpHost, UdpUrl, each_port,
};
pub use crate::xdp::url::{XdpKeys, XdpMode, XdpUrl};

/// A place where packets come from or go to.
#[derive(Debug, Clone, PartialEq)]
pub enum Endpoint {
    /// Datagrams on a socket.
    Udp(UdpUrl),
    /// Datagrams recorded in a file.
    Pcap(PcapUrl),
    /// Datagrams from an interface's driver.
    Xdp(XdpUrl),
    /// Datagrams from an interface's copies.
    Packet(PacketUrl),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Udp(u) => u.fmt(f),
            Endpoint::Pcap(p) => p.fmt(f),
            Endpoint::Xdp(x) => x.fmt(f),
            Endpoint::Packet(p) => p.fmt(f),
        }
    }
}

impl FromStr for Endpoint {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Endpoint, UrlError> {
        let mut sources = Sources::default();
        crate::source::register_plain(&mut sources);
        match sources.find(url)?.0.name() {
            UdpUrl::NAME => url::read(url).map(Endpoint::Udp),
            PcapUrl::NAME => url::read(url).map(Endpoint::Pcap),
            XdpUrl::NAME => url::read(url).map(Endpoint::Xdp),
            _ => url::read(url).map(Endpoint::Packet),
        }
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
