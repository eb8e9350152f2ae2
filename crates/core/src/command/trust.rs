//! Which clients may do what: those of this machine, of networks that may read, and all others behind the token.
//!
//! Networks are written `10.0.0.0/8`, `192.168.1.5`, `fd00::/8`. Refuses what is no address or network. Source:
//! `docs/configuration.md`, `docs/operations.md`.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use super::Access;

/// One network: all addresses whose first bits are these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientNetwork {
    address: IpAddr,
    bits: u8,
}

/// An address as a number of 128 bits, and how many of them it has.
fn number(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    }
}

impl ClientNetwork {
    /// Reads an address, or one with the number of bits behind a `/`.
    pub fn read(text: &str) -> Option<ClientNetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let all = number(address).1;
        let bits = match bits {
            Some(bits) if bits.bytes().all(|b| b.is_ascii_digit()) => bits.parse().ok()?,
            Some(_) => return None,
            None => all,
        };
        Some(ClientNetwork { address, bits }).filter(|_| bits <= all)
    }

    /// True if the address is one of it.
    pub fn has(&self, address: IpAddr) -> bool {
        let ((own, all), (other, of)) = (number(self.address), number(address.to_canonical()));
        let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
        all == of && own & mask == other & mask
    }
}

/// Who may do what.
#[derive(Debug, Clone)]
pub struct ClientTrust {
    /// Networks whose clients may read without the token; shared with who changes them.
    allow: Arc<RwLock<Vec<ClientNetwork>>>,
    /// There is a token.
    pub has_token: bool,
    /// What a client of this machine may do without it.
    pub local: Access,
}

impl Default for ClientTrust {
    /// Clients of this machine may do all, others nothing.
    fn default() -> Self {
        ClientTrust::new(Vec::new(), false, Access::All)
    }
}

impl ClientTrust {
    /// Clients of `allow` may read, those of this machine have `local`, all others need the token if there is one.
    pub fn new(allow: Vec<ClientNetwork>, has_token: bool, local: Access) -> ClientTrust {
        ClientTrust { allow: Arc::new(RwLock::new(allow)), has_token, local }
    }

    /// Lets clients of these networks read from now on; clients that are there stay.
    pub fn allow(&self, networks: Vec<ClientNetwork>) {
        *self.allow.write().unwrap_or_else(PoisonError::into_inner) = networks;
    }

    fn allows(&self, client: IpAddr) -> bool {
        let all = self.allow.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().any(|network| network.has(client))
    }

    /// What a client may do before it has given the token; `None`: it never may anything.
    pub fn of(&self, client: IpAddr) -> Option<Access> {
        let client = client.to_canonical();
        match client.is_loopback() {
            true => Some(self.local),
            false if self.allows(client) => Some(Access::Read),
            false => self.has_token.then_some(Access::Nothing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_the_networks_that_people_think_they_are() {
        let has = |network: &str, address: &str| {
            ClientNetwork::read(network).unwrap().has(address.parse().unwrap())
        };
        for (network, address, is) in [
            ("10.0.0.0/8", "10.255.1.2", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("192.168.1.5", "192.168.1.5", true),
            ("192.168.1.5", "192.168.1.4", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "fd00::1", false),
            ("fd00::/8", "fdff::1", true),
            ("::/0", "1.2.3.4", false),
            ("fd00::1", "fd00::1", true),
        ] {
            assert_eq!(has(network, address), is, "{network} {address}");
        }
        for bad in [
            "",
            "10",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "fd00::/129",
            "a/8",
            "10.0.0.0/8/8",
        ] {
            assert_eq!(ClientNetwork::read(bad), None, "{bad}");
        }
    }
}
