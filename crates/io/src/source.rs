//! The sources and destinations of this crate, and what their kinds read alike. The seam between a source of chunks and everything behind it stands in
//! core. Source: `docs/architecture.md`, "Seams".

use fullcount_core::destination::Destinations;
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::source::{SourceSetup, Sources};

use crate::packet_ring::PacketKind;
use crate::pcap::PcapKind;
use crate::raw::StcpDestination;
use crate::spead::{SpeadDestination, SpeadKind, SpeadTransport};
use crate::tcp::{TcpDestination, TcpKind};
use crate::udp::url::Engine;
use crate::udp::{UdpDestination, UdpKind};
use crate::xdp::XdpKind;

pub use fullcount_core::source::{Received, Source, SourceError};

/// Registers the sources of this crate.
pub fn register(sources: &mut Sources) {
    register_plain(sources);
    for transport in SpeadTransport::ALL {
        sources.register(Box::new(SpeadKind(transport)));
    }
}

/// Those that are around no other.
pub(crate) fn register_plain(sources: &mut Sources) {
    sources.register(Box::new(UdpKind));
    sources.register(Box::new(PcapKind));
    sources.register(Box::new(XdpKind::NEW));
    sources.register(Box::new(PacketKind::NEW));
    sources.register(Box::new(TcpKind));
}

/// Registers the destinations of this crate.
pub fn register_destinations(destinations: &mut Destinations) {
    destinations.register(Box::new(UdpDestination));
    for transport in [SpeadTransport::Udp, SpeadTransport::Tcp, SpeadTransport::Pcap] {
        destinations.register(Box::new(SpeadDestination(transport)));
    }
    destinations.register(Box::new(StcpDestination));
    destinations.register(Box::new(TcpDestination));
}

/// A refused URL.
pub(crate) fn refused(url: &str, why: impl std::fmt::Display) -> Refusal {
    refuse("source.url", url, why.to_string())
}

/// `source.engine`.
pub(crate) fn engine(setup: &SourceSetup<'_>) -> Result<Engine, Refusal> {
    let named = Engine::NAMES.iter().find(|(name, _)| *name == setup.engine);
    let allowed = "auto, plain, mmsg, gro or uring";
    named.map(|(_, engine)| *engine).ok_or_else(|| refuse("source.engine", setup.engine, allowed))
}

/// Refuses `source.engine` where the scheme says how packets are received.
pub(crate) fn no_engine(setup: &SourceSetup<'_>) -> Result<(), Refusal> {
    let why = "is for udp:// only: the scheme of this URL names its engine";
    match engine(setup)? {
        Engine::Auto => Ok(()),
        _ => Err(refuse("source.engine", setup.engine, why)),
    }
}
