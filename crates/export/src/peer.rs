//! A peer's name and port as configured, and its addresses when they are needed.
//!
//! Refuses names with a scheme, and ports outside 1 to 65535.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use fullcount_core::refusal::{Refusal, refuse};

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest wait for a peer that takes nothing.
const WRITE: Duration = Duration::from_secs(10);

/// Name or address, and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    host: String,
    port: u16,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracket = self.host.contains(':');
        let (open, close) = if bracket { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}:{}", self.host, self.port)
    }
}

impl Peer {
    /// Reads `HOST`, `HOST:PORT` or `[IPV6]:PORT`; `None` for `off`.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn read(key: &'static str, text: &str, usual: u16) -> Result<Option<Peer>, Refusal> {
        if text == "off" {
            return Ok(None);
        }
        let wrong = || {
            let why = format!("HOST, HOST:PORT or [IPv6]:PORT (usual port: {usual}), or off");
            refuse(key, text, why)
        };
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                let known = host.parse::<std::net::Ipv6Addr>().is_ok();
                let port = port.strip_prefix(':').or(Some("").filter(|_| port.is_empty()));
                (Some(host).filter(|_| known), port)
            }
            None => match text.split_once(':') {
                Some((host, port)) => (Some(host), Some(port).filter(|p| !p.is_empty())),
                None => (Some(text), Some("")),
            },
        };
        let (host, port) = host.zip(port).ok_or_else(wrong)?;
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
        if host.is_empty() || host.len() > 253 || !host.chars().all(letter) {
            return Err(wrong());
        }
        let port = match port {
            "" => usual,
            port => port.parse().ok().filter(|&p| p > 0).ok_or_else(wrong)?,
        };
        Ok(Some(Peer { host: host.to_owned(), port }))
    }

    /// Addresses of its name, asked for anew: it may have moved.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }

    /// A connection to the first of its addresses that answers.
    pub fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.addresses()? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => {
                    stream.set_write_timeout(Some(WRITE))?;
                    return Ok(stream);
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_addresses_and_ports_are_read_and_all_else_is_refused() {
        let read = |text| Peer::read("metrics.graphite", text, 2003);
        for (text, shown) in [
            ("carbon", "carbon:2003"),
            ("10.0.0.1:2103", "10.0.0.1:2103"),
            ("[::1]", "[::1]:2003"),
            ("[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(read(text).unwrap().unwrap().to_string(), shown);
        }
        assert_eq!(read("off").unwrap(), None);
        for bad in [
            "", ":2003", "h:", "h:0", "h:70000", "http://h", "::1", "[::1", "[h]:1", "a b", "h:1:2",
        ] {
            let said = read(bad).unwrap_err().to_string();
            assert!(
                said.starts_with("metrics.graphite = ") && said.contains("HOST:PORT"),
                "{bad}: {said}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_shown_as_it_can_be_read_again(text in "[a-z0-9:.\\[\\]-]{0,20}") {
            if let Ok(Some(peer)) = Peer::read("k", &text, 2003) {
                prop_assert_eq!(Peer::read("k", &peer.to_string(), 1).unwrap(), Some(peer));
            }
        }
    }
}
