//! What a driver counts under its own names (`ethtool -S`), as far as it means packets lost on receiving.
//!
//! Drivers of cards ask their firmware and hold the kernel's lock of all interfaces meanwhile (milliseconds), so this
//! is read before a run and after it, never in between. Names are the driver's: those that contain receiving and one of
//! a few words for loss count. A saved tree has `sos_commands/networking/ethtool_-S_IF`. A driver without such counters
//! has no losses. Source: `ethtool(8)`, drivers of the kernel (`mlx5`: `rx_out_of_buffer`, `i40e`: `port.rx_dropped`,
//! `ixgbe`: `rx_no_dma_resources`, `veth`: `rx_queue_0_drops`).

use super::Host;

/// Words for a packet that came and was not kept.
const WORDS: [&str; 12] = [
    "drop",
    "discard",
    "missed",
    "no_buf",
    "out_of_buffer",
    "no_dma",
    "overflow",
    "overrun",
    "over_err",
    "fifo_err",
    "alloc_fail",
    "alloc_err",
];

/// True if a counter of that name means packets lost on receiving. Drops by an XDP program do not count.
fn is_loss(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let receives = name.starts_with("rx") || name.contains(".rx") || name.contains("_rx");
    let own = name.contains("xdp") || name.starts_with("tx");
    receives && !own && WORDS.iter().any(|word| name.contains(word))
}

impl Host {
    /// The driver's own counters of an interface that mean losses on receiving, zeros included.
    pub fn driver_losses(&self, interface: &str) -> Vec<(String, u64)> {
        let all = match self.is_running() {
            true => crate::sys::ethtool::statistics(interface).unwrap_or_default(),
            false => super::offload::saved(self, 'S', interface).map_or(Vec::new(), |t| parse(&t)),
        };
        all.into_iter().filter(|(name, _)| is_loss(name)).collect()
    }
}

/// Lines `     rx_queue_0_drops: 12`.
fn parse(text: &str) -> Vec<(String, u64)> {
    let one = |line: &str| {
        let (name, value) = line.rsplit_once(':')?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_losses_are_told_from_others() {
        for name in [
            "rx_out_of_buffer",
            "rx_discards_phy",
            "rx_missed_errors",
            "rx_no_dma_resources",
            "rx_no_buffer_count",
            "port.rx_dropped",
            "rx_queue_0_drops",
            "rx_fifo_errors",
            "RX_ALLOC_FAIL",
            "q3_rx_overruns",
        ] {
            assert!(is_loss(name), "{name}");
        }
        for name in
            ["rx_packets", "tx_dropped", "rx_queue_0_xdp_drops", "peer_ifindex", "rx_csum_good"]
        {
            assert!(!is_loss(name), "{name}");
        }
    }

    #[test]
    fn saved_output_is_read_and_an_absent_one_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sos_commands/networking");
        std::fs::create_dir_all(&folder).unwrap();
        let text = "NIC statistics:\n     rx_packets: 9\n     rx_out_of_buffer: 12\n     odd\n";
        std::fs::write(folder.join("ethtool_-S_eth0"), text).unwrap();
        let host = Host::at(dir.path());
        assert_eq!(host.driver_losses("eth0"), [("rx_out_of_buffer".to_owned(), 12)]);
        assert_eq!(host.driver_losses("eth1"), []);
        assert_eq!(host.driver_losses("../eth0"), []);
    }
}
