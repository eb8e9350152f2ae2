//! Ports for servers that are told their port: brokers, and the peers of tests.
//!
//! The port is free now and bound later. So it is none that the system gives to connections meanwhile
//! (`net.ipv4.ip_local_port_range`): a client that tries again and again to reach a broker that is down would even be
//! given the broker's own port, and be connected with itself.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;

/// Lowest port taken. Below it are ports of services with a name.
const LOWEST: u16 = 10_000;
/// First port of the range for connections, where the system does not tell.
const USUAL_RANGE: u16 = 32_768;
/// Fewest ports below that range with which it is avoided.
const ENOUGH: u16 = 1_000;

/// A port that nobody has on loopback, for TCP.
///
/// # Errors
/// None is free.
pub fn free_port() -> Result<u16, String> {
    let listener = hold()?;
    listener.local_addr().map(|a| a.port()).map_err(|e| e.to_string())
}

/// A listener at such a port. Two that are held at a time differ.
///
/// # Errors
/// None is free.
pub fn hold() -> Result<TcpListener, String> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let end = range.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(USUAL_RANGE);
    let bind = |port: u16| TcpListener::bind(("127.0.0.1", port));
    let count = end.saturating_sub(LOWEST);
    if count < ENOUGH {
        return bind(0).map_err(|e| format!("a free port: {e}"));
    }
    // A random place, so that processes that choose at the same time choose differently.
    let first = (RandomState::new().hash_one(()) % u64::from(count)) as u16;
    let ports =
        (0..count).map(|n| LOWEST + ((u32::from(first) + u32::from(n)) % u32::from(count)) as u16);
    let mut free = ports.filter_map(|port| bind(port).ok());
    free.next().ok_or(format!("no free TCP port from {LOWEST} to {}", end - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_held_together_differ_and_no_connection_is_given_one() {
        let range =
            fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let held: Vec<TcpListener> = (0..20).map(|_| hold().expect("a port")).collect();
        let mut ports: Vec<u16> =
            held.iter().map(|l| l.local_addr().expect("bound").port()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
        let first = range.split_whitespace().next().and_then(|n| n.parse::<u16>().ok());
        if let Some(first) = first.filter(|first| *first >= LOWEST + ENOUGH) {
            assert!(ports.iter().all(|port| (LOWEST..first).contains(port)), "{ports:?} {range}");
        }
    }
}
