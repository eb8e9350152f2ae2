//! What is wanted of the host: a rate of packets of one size, received or sent.
//!
//! Refuses: sizes that no UDP datagram has, a core that is not on, an interface that is not there, a
//! time to bridge outside 1 ms to 10 s.

use std::time::Duration;

use fullcount_io::quantity::Rate;

/// Largest payload of a UDP datagram over IPv4 (RFC 768: 65,535 B less 28 B of headers).
const LARGEST: usize = 65_507;

/// Which end of the stream the host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostRole {
    /// It receives.
    #[default]
    Receive,
    /// It sends.
    Send,
    /// Both.
    Both,
}

impl HostRole {
    /// It receives, perhaps among other things.
    pub fn receives(self) -> bool {
        self != HostRole::Send
    }

    /// It sends, perhaps among other things.
    pub fn sends(self) -> bool {
        self != HostRole::Receive
    }
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// Payload bits or packets a second.
    pub rate: Rate,
    /// UDP payload of a packet, 1 to 65,507 B.
    pub size: usize,
    /// Over IPv6, whose header is 20 B longer.
    pub ipv6: bool,
    /// Interface; the one of the default route if absent.
    pub interface: Option<String>,
    /// UDP port.
    pub port: Option<u16>,
    /// Core that the receiving or sending thread is pinned to.
    pub core: Option<u32>,
    /// Which end.
    pub role: HostRole,
    /// Datagrams above the MTU may go as IP fragments.
    pub fragments: bool,
    /// How long the socket's buffer must bridge a receiver that is off its core, 1 ms to 10 s.
    pub hold: Duration,
}

impl Default for Wish {
    fn default() -> Wish {
        Wish {
            rate: Rate::Bits(10e9),
            size: 1472,
            ipv6: false,
            interface: None,
            port: None,
            core: None,
            role: HostRole::Receive,
            fragments: false,
            hold: Duration::from_millis(50),
        }
    }
}

/// A wish that cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum WishError {
    #[error("size: {0} B is not allowed: UDP payloads are 1 to {LARGEST} B")]
    Size(usize),
    #[error("hold: {0:?} is not allowed: give 1ms to 10s")]
    Hold(Duration),
    #[error("core: {core} is not on: this host has {online}")]
    Core { core: u32, online: String },
    #[error("interface: there is no '{name}': this host has {there}")]
    Interface { name: String, there: String },
}

impl Wish {
    /// Checks what needs no host.
    ///
    /// # Errors
    /// The size or the time to bridge.
    pub fn check(&self) -> Result<(), WishError> {
        if !(1..=LARGEST).contains(&self.size) {
            return Err(WishError::Size(self.size));
        }
        let range = Duration::from_millis(1)..=Duration::from_secs(10);
        match range.contains(&self.hold) {
            true => Ok(()),
            false => Err(WishError::Hold(self.hold)),
        }
    }
}
