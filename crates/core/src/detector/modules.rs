//! What a detector's modules, streams or front ends are called: names for people, metrics and alerts.
//!
//! A detector declares it, its decoders count ([`super::Decoder::modules`]). Refuses nothing.

use std::net::{IpAddr, Ipv6Addr};

use super::SeenModule;
use crate::batch::Origin;

/// Modules that are listed at most, so that invented senders fill neither memory nor metrics.
pub const MOST_MODULES: usize = 256;

/// How a module's name is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleNames {
    /// What stands before its number: `fec`, `module`; `None`: a sender is one module.
    pub called: Option<&'static str>,
    /// The sender's port tells modules apart.
    pub by_port: bool,
}

impl ModuleNames {
    /// A sender is one module, by its address.
    pub const SENDER: ModuleNames = ModuleNames { called: None, by_port: false };

    /// The name of a module: `10.0.0.5 fec 2`.
    pub fn name(&self, seen: &SeenModule) -> String {
        let mut name = String::new();
        if seen.origin != Origin::NONE {
            let ip = IpAddr::V6(Ipv6Addr::from(seen.origin.ip)).to_canonical();
            name = match self.by_port {
                true => std::net::SocketAddr::new(ip, seen.origin.port).to_string(),
                false => ip.to_string(),
            };
        }
        if let Some(called) = self.called {
            let blank = if name.is_empty() { "" } else { " " };
            name += &format!("{blank}{called} {}", seen.id);
        }
        if name.is_empty() { "all".into() } else { name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_who_sends_and_which_of_it() {
        let ip = std::net::Ipv4Addr::new(10, 0, 0, 5).to_ipv6_mapped().octets();
        let seen = |origin| SeenModule { origin, id: 2, packets: 0, lost: 0 };
        let from = seen(Origin { ip, port: 7 });
        let fec = ModuleNames { called: Some("fec"), by_port: false };
        assert_eq!(fec.name(&from), "10.0.0.5 fec 2");
        assert_eq!(fec.name(&seen(Origin::NONE)), "fec 2");
        assert_eq!(ModuleNames::SENDER.name(&from), "10.0.0.5");
        assert_eq!(ModuleNames::SENDER.name(&seen(Origin::NONE)), "all");
        assert_eq!(ModuleNames { by_port: true, ..fec }.name(&from), "10.0.0.5:7 fec 2");
    }
}
