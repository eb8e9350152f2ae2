//! What a destination declares before anything is opened, and what it is told when it is.
//!
//! A kind ([`DestinationKind`]) is a URL scheme. It reads a URL ([`DestinationKind::plan`]) without touching the system and gives a
//! checked endpoint ([`DestinationEndpoint`]), which becomes one [`Destination`] for each source port that the traffic needs. A carrier is
//! a kind whose endpoint puts packets into something else. Source: `docs/architecture.md`, "Seams".

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::{Destination, DestinationError};
use crate::ledger::Info;
use crate::refusal::Refusal;
use crate::source::UrlKey;

/// A destination that a URL can name.
pub trait DestinationKind: Send + Sync {
    /// Its scheme, in small letters.
    fn name(&self) -> &'static str;

    /// One line for people.
    fn about(&self) -> &'static str;

    /// How its URLs are written, with an example.
    fn form(&self) -> &'static str;

    /// A URL that is accepted as it stands, for help texts.
    fn example(&self) -> &'static str;

    /// Keys of its URLs.
    fn keys(&self) -> Vec<UrlKey>;

    /// Counters, each name once, under the titles of the catalogue.
    fn counters(&self) -> Vec<(&'static str, Vec<Info>)>;

    /// Reads a URL; touches neither network nor disk.
    ///
    /// # Errors
    /// Key (`to`), value and what is allowed.
    fn plan(&self, url: &str) -> Result<Box<dyn DestinationEndpoint>, Refusal>;
}

/// Packets of each lane are numbered one by one, all lanes alike: so what was not delivered can be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketNumbers {
    /// What has the numbers, in the plural.
    pub what: &'static str,
    /// Number of the first packet.
    pub first: u64,
    /// Numbers begin again with 0 behind so many, at least 1.
    pub wraps: u64,
}

impl PacketNumbers {
    /// Number of a lane's packet, these counted from 0.
    pub fn of(&self, packet: u64) -> u64 {
        self.first.wrapping_add(packet) % self.wraps.max(1)
    }
}

/// What an endpoint is told when it is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct DestinationOpening<'a> {
    /// Local ports that the traffic needs, a [`Destination`] each; empty: one, from a port that the system chooses.
    pub source_ports: &'a [u16],
    /// There are further destinations, which may have the same local ports.
    pub others: bool,
    /// How long one that takes nothing is waited for; `None`: the endpoint's own time.
    pub patience: Option<Duration>,
    /// Packets tell their own lengths, so that a byte stream needs nothing in front of them.
    pub framed: bool,
    /// Numbers that the packets of each lane carry, if they come one by one and without a fault.
    pub numbers: Option<PacketNumbers>,
    /// Set when the sender is asked to end: who waits for the other side waits no longer.
    pub wish: Option<&'a Arc<AtomicBool>>,
}

/// A checked URL.
pub trait DestinationEndpoint: Send + Sync + Debug {
    /// For people and summaries: the URL without its keys.
    fn label(&self) -> String;

    /// Its packets go over IPv6; may ask the system's resolver.
    fn ipv6(&self) -> bool {
        false
    }

    /// What a user should know before it is opened, a sentence each.
    fn cautions(&self) -> Vec<String> {
        vec![]
    }

    /// Opens it: one destination, or one for each of [`DestinationOpening::source_ports`] in their order.
    ///
    /// # Errors
    /// What could not be opened, with its address and the system's words.
    fn open(
        &self,
        opening: &DestinationOpening<'_>,
    ) -> Result<Vec<Box<dyn Destination>>, DestinationError>;
}
