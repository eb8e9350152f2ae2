//! What drivers count under their own names (`ethtool -S`): read before a run and after it only.
//!
//! Where the standard counters of an interface say nothing, the driver's name the place; where they do, the
//! driver's say why. Names overlap (a sum and its queues), so the largest stands for all of them. Source:
//! `docs/losses.md`.

use std::collections::BTreeMap;

use fullcount_io::host::Host;
use fullcount_io::host::card::Card;

use super::moved::{Scope, in_scope};

/// Interfaces that are asked: more than a host for this has, and what some milliseconds each allow.
const MOST: usize = 16;

/// Counters of the interfaces that packets come in on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drivers(BTreeMap<String, Vec<(String, u64)>>);

impl Drivers {
    /// Reads them.
    pub fn of(host: &Host, scope: &Scope, cards: &[Card]) -> Drivers {
        let asked = cards.iter().filter(|c| !c.loopback && in_scope(scope, c.index));
        let one = |c: &Card| (c.name.clone(), host.driver_losses(&c.name));
        Drivers(asked.take(MOST).map(one).filter(|(_, all)| !all.is_empty()).collect())
    }

    /// Interfaces on which counters moved since `then`: the largest movement, and all names with their
    /// movements for people.
    pub fn since(&self, then: &Drivers) -> Vec<(String, u64, String)> {
        let mut all = Vec::new();
        for (interface, now) in &self.0 {
            let Some(then) = then.0.get(interface) else { continue };
            let mut moved = Vec::new();
            for (name, n) in now {
                let before = then.iter().find(|(old, _)| old == name).map_or(*n, |(_, n)| *n);
                // A driver that was restarted begins at 0 again: nothing is said then.
                if *n > before {
                    moved.push((name, n - before));
                }
            }
            let Some(most) = moved.iter().map(|(_, n)| *n).max() else { continue };
            let names: Vec<String> = moved.iter().map(|(name, n)| format!("{name} {n}")).collect();
            all.push((interface.clone(), most, names.join(", ")));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(text: &str) -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sos_commands/networking");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("ethtool_-S_eth0"), text).unwrap();
        let host = Host::at(dir.path());
        (dir, host)
    }

    #[test]
    fn what_moved_is_told_with_the_drivers_names() {
        let card = |index, name: &str| Card { index, name: name.into(), ..Card::default() };
        let cards = [card(2, "eth0"), card(3, "eth1")];
        let scope = |of: u32| Scope { interfaces: Some([of].into()), fragments_wait: 2 };
        let read = |text: &str, of| {
            let (_dir, host) = saved(text);
            Drivers::of(&host, &scope(of), &cards)
        };
        let then = read("rx_out_of_buffer: 5\nrx_discards_phy: 1\nrx_packets: 5\n", 2);
        let now = read("rx_out_of_buffer: 17\nrx_discards_phy: 2\nrx_packets: 9\n", 2);
        let told = now.since(&then);
        assert_eq!(told, [("eth0".into(), 12, "rx_out_of_buffer 12, rx_discards_phy 1".into())]);
        assert_eq!(now.since(&now), [], "nothing moved");
        assert_eq!(then.since(&now), [], "the driver was restarted");
        assert_eq!(read("rx_out_of_buffer: 5\n", 3), Drivers::default(), "not on their way");
    }
}
