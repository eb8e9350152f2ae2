//! Rings, hardware queues and offloads of an interface: read from the kernel on this host, or from the saved output of
//! `ethtool` in the tree of another.
//!
//! Saved files have the names that `sos report` gives them: `sos_commands/networking/ethtool_-g_eth0`,
//! likewise `-k`, `-l` and `-i`. A line that does not parse is skipped, and a file
//! that says nothing is absent. Source: `ethtool(8)`.

use super::Host;
use super::tree::step;
pub use crate::sys::ethtool::{CardQueues, Feature, Rings};

/// Names that `ethtool -k` prints where the kernel has others.
const NAMES: [(&str, &str); 7] = [
    ("rx-checksumming", "rx-checksum"),
    ("generic-segmentation-offload", "tx-generic-segmentation"),
    ("generic-receive-offload", "rx-gro"),
    ("large-receive-offload", "rx-lro"),
    ("receive-hashing", "rx-hashing"),
    ("ntuple-filters", "rx-ntuple-filter"),
    ("rx-vlan-offload", "rx-vlan-hw-parse"),
];

pub(super) fn saved(host: &Host, option: char, interface: &str) -> Option<String> {
    let interface = step(interface)?;
    host.line(&format!("sos_commands/networking/ethtool_-{option}_{interface}"))
}

/// `driver: mlx5_core` of a saved `ethtool -i`.
pub(super) fn saved_driver(host: &Host, interface: &str) -> Option<String> {
    let text = saved(host, 'i', interface)?;
    let driver = text.lines().find_map(|l| l.strip_prefix("driver:"))?.trim();
    (!driver.is_empty()).then(|| driver.to_owned())
}

/// Numbers named `name` of the two parts of `ethtool -g` and `-l`: largest, present.
fn pair(text: &str, name: &str) -> Option<(u32, u32)> {
    let value = |l: &str| {
        let (key, value) = l.split_once(':')?;
        (key.trim() == name).then(|| value.trim().parse().ok())?
    };
    let (most, now) = text.split_once("Current hardware settings")?;
    let first = |part: &str| part.lines().find_map(value);
    Some((first(most)?, first(now)?))
}

fn parse_rings(text: &str) -> Option<Rings> {
    let ((rx_max, rx), (tx_max, tx)) = (pair(text, "RX")?, pair(text, "TX")?);
    Some(Rings { rx, rx_max, tx, tx_max })
}

fn parse_channels(text: &str) -> Option<CardQueues> {
    // `n/a` where a card has only one sort.
    let (own, combined) = (pair(text, "RX"), pair(text, "Combined"));
    let some = own.is_some() || combined.is_some();
    let ((a, b), (c, d)) = (own.unwrap_or_default(), combined.unwrap_or_default());
    some.then(|| CardQueues { rx: b.saturating_add(d), rx_max: a.saturating_add(c) })
}

fn parse_features(text: &str) -> Vec<Feature> {
    let feature = |line: &str| {
        let (name, rest) = line.trim().split_once(": ")?;
        let mut words = rest.split_whitespace();
        let on = match words.next()? {
            "on" => true,
            "off" => false,
            _ => return None,
        };
        let name = NAMES.iter().find(|(said, _)| *said == name).map_or(name, |(_, own)| own);
        let fixed = words.next() == Some("[fixed]");
        Some(Feature { name: name.to_owned(), on, fixed })
    };
    text.lines().filter_map(feature).collect()
}

impl Host {
    /// Rings of an interface; `None` if it has none or the tree does not say.
    pub fn rings(&self, interface: &str) -> Option<Rings> {
        match self.is_this_one() {
            true => crate::sys::ethtool::rings(interface).ok(),
            false => parse_rings(&saved(self, 'g', interface)?),
        }
    }

    /// Receiving hardware queues; `None` if it has none or the tree does not say.
    pub fn channels(&self, interface: &str) -> Option<CardQueues> {
        match self.is_this_one() {
            true => crate::sys::ethtool::channels(interface).ok(),
            false => parse_channels(&saved(self, 'l', interface)?),
        }
    }

    /// Offloads by the kernel's names; empty if the tree does not say.
    pub fn features(&self, interface: &str) -> Vec<Feature> {
        match self.is_this_one() {
            true => crate::sys::ethtool::features(interface).unwrap_or_default(),
            false => saved(self, 'k', interface).map_or(vec![], |t| parse_features(&t)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const G: &str = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t8192\nRX Mini:\tn/a\n\
        RX Jumbo:\tn/a\nTX:\t\t4096\nCurrent hardware settings:\nRX:\t\t1024\nRX Mini:\tn/a\n\
        RX Jumbo:\tn/a\nTX:\t\t512\nRX Buf Len:\t\tn/a\n";
    const L: &str = "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\n\
        Other:\t\tn/a\nCombined:\t63\nCurrent hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\n\
        Other:\t\tn/a\nCombined:\t16\n";
    const K: &str = "Features for eth0:\nrx-checksumming: on [fixed]\ntx-checksumming: on\n\
        \ttx-checksum-ipv4: off [fixed]\ngeneric-receive-offload: off\nrx-udp-gro-forwarding: off\n";

    #[test]
    fn what_ethtool_prints_is_read_back() {
        let rings = Rings { rx: 1024, rx_max: 8192, tx: 512, tx_max: 4096 };
        assert_eq!(parse_rings(G), Some(rings));
        assert_eq!(parse_channels(L), Some(CardQueues { rx: 16, rx_max: 63 }));
        let k = parse_features(K);
        let of = |name: &str| k.iter().find(|f| f.name == name).map(|f| (f.on, f.fixed));
        assert_eq!(of("rx-checksum"), Some((true, true)));
        assert_eq!(of("rx-gro"), Some((false, false)));
        assert_eq!(of("tx-checksum-ipv4"), Some((false, true)));
        assert_eq!(of("rx-udp-gro-forwarding"), Some((false, false)));
    }

    #[test]
    fn a_refusal_of_ethtool_is_no_value() {
        for text in ["netlink error: Operation not supported", "", "Current hardware settings"] {
            assert_eq!((parse_rings(text), parse_channels(text)), (None, None));
            assert!(parse_features(text).is_empty());
        }
        assert_eq!(parse_rings(&G.replace("1024", "-1")), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(RX|TX|Combined|Current hardware settings|: |on|\\n|[0-9a-z]){0,40}") {
            let _ = (parse_rings(&text), parse_channels(&text), parse_features(&text));
        }
    }
}
