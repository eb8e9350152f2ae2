//! The sockets of one UDP port: `/proc/net/udp` and `/proc/net/udp6`.
//!
//! The kernel walks its whole table of ports for each reading, so this is no probe for a busy receiver
//! (`fullcount lab bench probes` gives its cost); the receiver's own `SO_RXQ_OVFL` is. A line
//! that does not parse is skipped. Source: kernel `net/ipv4/udp.c` (`udp4_format_sock`).

use super::Host;

/// All sockets on one UDP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortState {
    /// How many sockets.
    pub sockets: u32,
    /// Bytes waiting, with the kernel's overhead.
    pub queued_bytes: u64,
    /// Dropped because the buffer was full, or for a wrong checksum (trains count once).
    pub drops: u64,
}

impl Host {
    /// State of the sockets on UDP port `port`; `None` without `/proc/net/udp`.
    pub fn port(&self, port: u16) -> Option<PortState> {
        let mut state = PortState::default();
        let tables = [self.read("proc/net/udp"), self.read("proc/net/udp6")];
        if tables.iter().all(Option::is_none) {
            return None;
        }
        for line in tables.iter().flatten().flat_map(|t| t.lines().skip(1)) {
            // sl local remote st tx:rx tr:when retrnsmt uid timeout inode ref pointer drops
            let f: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(queues), Some(drops)) = (f.get(1), f.get(4), f.get(12)) else {
                continue;
            };
            let own = local.rsplit_once(':').and_then(|(_, p)| u16::from_str_radix(p, 16).ok());
            if own != Some(port) {
                continue;
            }
            let queued =
                queues.split_once(':').and_then(|(_, rx)| u64::from_str_radix(rx, 16).ok());
            state.sockets += 1;
            state.queued_bytes += queued.unwrap_or(0);
            state.drops += drops.parse().unwrap_or(0);
        }
        Some(state)
    }
}
