//! Parts of the kernel that check packets before a socket gets them: connection tracking, packet filters, the
//! reverse-path filter.
//!
//! Sources: kernel `Documentation/networking/nf_conntrack-sysctl`, `.../ip-sysctl`
//! (`rp_filter`).

use super::Host;
use super::tree::step;

/// Filters in this network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Firewall {
    /// Connections in the table of connection tracking; absent where it is not loaded.
    pub tracked: Option<u64>,
    /// Most of them: further ones are dropped.
    pub tracked_max: Option<u64>,
    /// Packets dropped since the start because that table was full.
    pub tracked_drops: Option<u64>,
    /// The old filter tables that are in use, for example `filter`, `raw`.
    pub tables: Vec<String>,
    /// Check of the way back on the interface: 0 off, 1 strict, 2 loose.
    pub rp_filter: Option<u64>,
}

impl Host {
    /// Filters on the way from `interface` to a socket.
    pub fn firewall(&self, interface: Option<&str>) -> Firewall {
        let filter = "proc/sys/net/netfilter";
        let names = self.read("proc/net/ip_tables_names").unwrap_or_default();
        let check = |name: &str| self.number(&format!("proc/sys/net/ipv4/conf/{name}/rp_filter"));
        // The stricter of the two applies: the kernel uses the greater number.
        let own = interface.and_then(step).and_then(check);
        Firewall {
            tracked: self.number(&format!("{filter}/nf_conntrack_count")),
            tracked_max: self.number(&format!("{filter}/nf_conntrack_max")),
            tracked_drops: self.tracked_drops(),
            tables: names.split_whitespace().map(str::to_owned).collect(),
            rp_filter: own.into_iter().chain(check("all")).max(),
        }
    }

    /// Sum over the cores of column `drop`, in hexadecimal.
    fn tracked_drops(&self) -> Option<u64> {
        let text = self.read("proc/net/stat/nf_conntrack")?;
        let mut lines = text.lines();
        let column = lines.next()?.split_whitespace().position(|c| c == "drop")?;
        let cell = |line: &str| {
            let word = line.split_whitespace().nth(column)?;
            u64::from_str_radix(word, 16).ok()
        };
        Some(lines.filter_map(cell).fold(0, u64::wrapping_add))
    }
}
