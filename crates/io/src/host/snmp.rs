//! Counters of the kernel's IP and UDP layers: `/proc/net/snmp` and `/proc/net/snmp6`.
//!
//! IPv4 and IPv6 are added up. The counters belong to the network namespace, so other programs' packets
//! are in them. With GRO a count may be a train of up to 128 datagrams. A line that
//! does not parse is skipped. Sources: RFC 1213 (UDP group), RFC 4113, kernel `net/ipv4/proc.c`,
//! `net/ipv6/proc.c`, `net/ipv4/udp.c`.

use super::Host;

/// Counters of UDP and of the IP layer below it, over IPv4 and IPv6 together, since the network
/// namespace exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UdpCounters {
    /// Datagrams delivered.
    pub in_datagrams: u64,
    /// Datagrams to a port without a socket.
    pub no_ports: u64,
    /// Datagrams dropped for any reason, full buffers included.
    pub in_errors: u64,
    /// Datagrams sent.
    pub out_datagrams: u64,
    /// Dropped because a receive buffer was full.
    pub receive_buffer_errors: u64,
    /// Not sent because a send buffer was full.
    pub send_buffer_errors: u64,
    /// Dropped because the checksum was wrong. These are in `in_errors` and in the socket's own drops
    /// as well.
    pub checksum_errors: u64,
    /// Dropped because the limit of all UDP memory was reached (`net.ipv4.udp_mem`).
    pub memory_errors: u64,
    /// IP packets that could not be put together: a fragment missing, or no room for it.
    pub reassembly_errors: u64,
    /// Of these, those whose time was over (`net.ipv4.ipfrag_time`, 30 s by default).
    pub reassembly_timeouts: u64,
    /// IP packets with a damaged header, or cut short.
    pub header_errors: u64,
}

impl Host {
    /// UDP counters of the calling process's network namespace; `None` without `/proc/net/snmp`.
    pub fn udp(&self) -> Option<UdpCounters> {
        let mut all = self.udp4()?;
        self.add_udp6(&mut all);
        Some(all)
    }

    /// Those of IPv4 alone.
    pub fn udp4(&self) -> Option<UdpCounters> {
        Some(UdpCounters::of_snmp(&self.read("proc/net/snmp")?))
    }

    /// Adds those of IPv6; false if the host does not have it.
    pub fn add_udp6(&self, all: &mut UdpCounters) -> bool {
        let Some(text) = self.read("proc/net/snmp6") else { return false };
        // One name and value a line, the group as the name's beginning.
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
            let value = value.parse().unwrap_or(0);
            for group in ["Udp6", "Ip6"] {
                if let Some(name) = name.strip_prefix(group) {
                    all.add(&group[..group.len() - 1], name, value);
                }
            }
        }
        true
    }

    /// IP packets of which fragments wait for the rest, both families together; `None` if unknown
    /// (`/proc/net/sockstat`).
    pub fn incomplete_packets(&self) -> Option<u64> {
        let find = |file: &str, word: &str| -> Option<u64> {
            let text = self.read(file)?;
            let line = text.lines().find_map(|l| l.strip_prefix(word))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        let four = find("proc/net/sockstat", "FRAG:");
        let six = find("proc/net/sockstat6", "FRAG6:");
        four.map(|n| n + six.unwrap_or(0)).or(six)
    }

    /// Seconds that fragments wait for the rest (`net.ipv4.ipfrag_time`); `None` if unknown.
    pub fn fragment_time_s(&self) -> Option<u64> {
        self.number("proc/sys/net/ipv4/ipfrag_time")
    }
}

impl UdpCounters {
    /// Reads the text of a `/proc/net/snmp`, for who takes that of another namespace.
    pub fn of_snmp(text: &str) -> UdpCounters {
        let mut all = UdpCounters::default();
        // Two lines a group: names, then values.
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let Some((group, names)) = names.split_once(':') else { continue };
            let values = values.split_once(':').map_or("", |(_, v)| v);
            for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
                all.add(group, name, value.parse().unwrap_or(0));
            }
        }
        all
    }

    fn add(&mut self, group: &str, name: &str, value: u64) {
        let line = match (group, name) {
            ("Udp", "InDatagrams") => &mut self.in_datagrams,
            ("Udp", "NoPorts") => &mut self.no_ports,
            ("Udp", "InErrors") => &mut self.in_errors,
            ("Udp", "OutDatagrams") => &mut self.out_datagrams,
            ("Udp", "RcvbufErrors") => &mut self.receive_buffer_errors,
            ("Udp", "SndbufErrors") => &mut self.send_buffer_errors,
            ("Udp", "InCsumErrors") => &mut self.checksum_errors,
            ("Udp", "MemErrors") => &mut self.memory_errors,
            ("Ip", "ReasmFails") => &mut self.reassembly_errors,
            ("Ip", "ReasmTimeout") => &mut self.reassembly_timeouts,
            ("Ip", "InHdrErrors" | "InTruncatedPkts") => &mut self.header_errors,
            _ => return,
        };
        *line = line.wrapping_add(value);
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &UdpCounters) -> UdpCounters {
        let (a, b) = (self, earlier);
        UdpCounters {
            in_datagrams: a.in_datagrams.wrapping_sub(b.in_datagrams),
            no_ports: a.no_ports.wrapping_sub(b.no_ports),
            in_errors: a.in_errors.wrapping_sub(b.in_errors),
            out_datagrams: a.out_datagrams.wrapping_sub(b.out_datagrams),
            receive_buffer_errors: a.receive_buffer_errors.wrapping_sub(b.receive_buffer_errors),
            send_buffer_errors: a.send_buffer_errors.wrapping_sub(b.send_buffer_errors),
            checksum_errors: a.checksum_errors.wrapping_sub(b.checksum_errors),
            memory_errors: a.memory_errors.wrapping_sub(b.memory_errors),
            reassembly_errors: a.reassembly_errors.wrapping_sub(b.reassembly_errors),
            reassembly_timeouts: a.reassembly_timeouts.wrapping_sub(b.reassembly_timeouts),
            header_errors: a.header_errors.wrapping_sub(b.header_errors),
        }
    }
}
