//! The queue between card and protocols, core by core: `/proc/net/softnet_stat`.
//!
//! Belongs to the whole host, not to a network namespace. A GSO packet that crosses loopback or a veth
//! uncut counts once. Words that do not parse are 0. Source: kernel
//! `net/core/net-procfs.c` (`softnet_seq_show`), `net/core/dev.c` (`enqueue_to_backlog`).

use super::Host;

/// Queue between card and sockets, of one core or of all, since the host started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SoftnetBacklog {
    /// Packets processed.
    pub processed: u64,
    /// Packets dropped because the queue was full (`net.core.netdev_max_backlog`).
    pub dropped: u64,
    /// Times that processing stopped with work left (`net.core.netdev_budget`). Nothing is lost by that.
    pub squeezed: u64,
}

/// Column with the core's number, in kernels since 5.10; before, lines are in order of the cores.
const CORE: usize = 12;

impl Host {
    /// Backlog of each core, by its number; `None` without `/proc/net/softnet_stat`.
    pub fn backlogs(&self) -> Option<Vec<(u32, SoftnetBacklog)>> {
        let text = self.read("proc/net/softnet_stat")?;
        let one = |(line, text): (usize, &str)| {
            let words: Vec<u64> =
                text.split_whitespace().map(|w| u64::from_str_radix(w, 16).unwrap_or(0)).collect();
            let at = |i: usize| words.get(i).copied().unwrap_or(0);
            let core = words.get(CORE).copied().unwrap_or(line as u64);
            let core = u32::try_from(core).unwrap_or(u32::MAX);
            (core, SoftnetBacklog { processed: at(0), dropped: at(1), squeezed: at(2) })
        };
        Some(text.lines().enumerate().map(one).collect())
    }

    /// Backlog of all cores together; `None` without `/proc/net/softnet_stat`.
    pub fn backlog(&self) -> Option<SoftnetBacklog> {
        let sum = |a: SoftnetBacklog, (_, b): &(u32, SoftnetBacklog)| SoftnetBacklog {
            processed: a.processed + b.processed,
            dropped: a.dropped + b.dropped,
            squeezed: a.squeezed + b.squeezed,
        };
        Some(self.backlogs()?.iter().fold(SoftnetBacklog::default(), sum))
    }
}
