//! Where sender and receiver run: both on loopback, or each in a network namespace of its own.
//!
//! Refuses: namespaces without root or iproute2, see [`NamespaceError`]. What was made is removed when the
//! [`ReadyPlace`] is dropped.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::namespace::{Layout, NamespaceError, NamespaceNetwork, VethPair};

/// Kind of place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// `127.0.0.1`: trains of the sender cross uncut.
    Loopback,
    /// Two namespaces joined by a veth pair with the kernel's own offloads.
    Veth,
    /// The same with trains cut at the sender, so that each packet crosses by itself, as on a wire.
    VethCut,
}

impl Where {
    /// All, with the names that options use.
    pub const ALL: [(&'static str, Where); 3] =
        [("loopback", Where::Loopback), ("veth", Where::Veth), ("veth-cut", Where::VethCut)];

    /// Name in options and files.
    pub fn name(self) -> &'static str {
        match self {
            Where::Loopback => "loopback",
            Where::Veth => "veth",
            Where::VethCut => "veth-cut",
        }
    }

    /// Kind with that name.
    pub fn named(name: &str) -> Option<Where> {
        Where::ALL.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind)
    }
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Sends.
    Sender,
    /// Receives.
    Receiver,
}

/// A place that is ready.
#[derive(Debug)]
pub struct ReadyPlace {
    name: String,
    network: Option<Arc<NamespaceNetwork>>,
    /// Namespaces of sender and receiver.
    hosts: (usize, usize),
    receiver: IpAddr,
}

impl ReadyPlace {
    /// Makes it; `mtu` in bytes is for namespaces.
    pub fn make(kind: Where, mtu: usize, purpose: &str) -> Result<ReadyPlace, NamespaceError> {
        let link = VethPair::between(0, 1, mtu);
        let link = match kind {
            Where::Loopback => return Ok(ReadyPlace::loopback()),
            Where::Veth => link,
            Where::VethCut => link.segments_cut(),
        };
        let network = NamespaceNetwork::build(&Layout::pair(purpose, link))?;
        let receiver = network.address(0, 1).into();
        Ok(ReadyPlace {
            name: kind.name().into(),
            network: Some(Arc::new(network)),
            hosts: (0, 1),
            receiver,
        })
    }

    /// This host itself.
    pub fn loopback() -> ReadyPlace {
        let receiver = IpAddr::from([127, 0, 0, 1]);
        ReadyPlace { name: Where::Loopback.name().into(), network: None, hosts: (0, 0), receiver }
    }

    /// Namespaces that somebody else joined, with the receiver's address.
    pub fn across(
        name: &str,
        network: NamespaceNetwork,
        hosts: (usize, usize),
        receiver: IpAddr,
    ) -> ReadyPlace {
        ReadyPlace { name: name.to_owned(), network: Some(Arc::new(network)), hosts, receiver }
    }

    /// Name for tables and files.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespaces, if there are some.
    pub fn network(&self) -> Option<&NamespaceNetwork> {
        self.network.as_deref()
    }

    /// Address that the receiver listens on.
    pub fn receiver(&self) -> IpAddr {
        self.receiver
    }

    fn host(&self, end: End) -> usize {
        match end {
            End::Sender => self.hosts.0,
            End::Receiver => self.hosts.1,
        }
    }

    /// The namespace of an end, if it has one of its own.
    pub fn inside(&self, end: End) -> Option<(Arc<NamespaceNetwork>, usize)> {
        self.network.as_ref().map(|network| (network.clone(), self.host(end)))
    }

    /// A command that runs `program` at one end.
    pub fn command(&self, end: End, program: &Path) -> Command {
        match &self.network {
            None => Command::new(program),
            Some(network) => network.command(self.host(end), program),
        }
    }

    /// A table of the kernel's network at one end, such as `tcp` or `udp`.
    pub fn table(&self, end: End, name: &str) -> std::io::Result<String> {
        // Of the thread, not of the process: only the thread goes into the namespace.
        let path = format!("/proc/thread-self/net/{name}");
        match &self.network {
            None => std::fs::read_to_string(path),
            Some(network) => network.inside(self.host(end), || std::fs::read_to_string(path))?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_kind() {
        for (name, kind) in Where::ALL {
            assert_eq!((Where::named(name), kind.name()), (Some(kind), name));
        }
        assert_eq!(Where::named("moon"), None);
    }

    #[test]
    fn loopback_needs_nothing() {
        let place = ReadyPlace::make(Where::Loopback, 0, "test").unwrap();
        assert!(place.network().is_none() && place.receiver().is_loopback());
        assert_eq!(place.command(End::Sender, Path::new("x")).get_program(), "x");
        if cfg!(target_os = "linux") {
            assert!(place.table(End::Receiver, "udp").unwrap().contains("local_address"));
        }
    }
}
