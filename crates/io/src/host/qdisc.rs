//! Queues of this host before or after its interfaces (`tc -s qdisc`), and their drops.
//!
//! Only the outermost queue of each interface is listed: what an inner one drops is counted there as well. Sources:
//! `tc(8)`, kernel `net/sched/sch_api.c`, `include/uapi/linux/gen_stats.h`.

use fullcount_core::bytes::Bytes;

use super::Host;
use super::netlink::{self, attributes, ne32, text};

/// One queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Qdisc {
    /// Number of its interface.
    pub interface: u32,
    /// Sort: `tbf`, `fq_codel`, `clsact`, …
    pub kind: String,
    /// True if it stands before the interface's receive path (`ingress`, `clsact`); false if it holds sent packets.
    pub ingress: bool,
    /// Packets dropped; wraps at 2³². A GSO packet counts once.
    pub drops: u32,
}

/// Requests, answers and attributes (`linux/rtnetlink.h`, `linux/pkt_sched.h`, `linux/gen_stats.h`).
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TC_H_INGRESS: u32 = 0xffff_fff1;

impl Host {
    /// Outermost queues of all interfaces; `None` if unknown (a saved tree).
    pub fn qdiscs(&self) -> Option<Vec<Qdisc>> {
        if !self.is_running() {
            return None;
        }
        let answers = netlink::list(RTM_GETQDISC, &[0; 20]).ok()?;
        let queues = answers.iter().filter(|(kind, _)| *kind == RTM_NEWQDISC);
        Some(queues.filter_map(|(_, body)| qdisc(body)).collect())
    }
}

/// One `RTM_NEWQDISC`; `None` for an inner queue.
fn qdisc(body: &[u8]) -> Option<Qdisc> {
    let mut b = Bytes::new(body);
    b.take(4)?;
    let interface = ne32(&mut b)?;
    let _handle = ne32(&mut b)?;
    let parent = ne32(&mut b)?;
    b.take(4)?;
    let ingress = match parent {
        TC_H_ROOT => false,
        TC_H_INGRESS => true,
        _ => return None,
    };
    let mut queue = Qdisc { interface, ingress, ..Qdisc::default() };
    for (kind, value) in attributes(b.rest()) {
        match kind {
            TCA_KIND => queue.kind = text(value),
            TCA_STATS2 => {
                let counts = attributes(value).find(|(kind, _)| *kind == TCA_STATS_QUEUE);
                // Length, bytes waiting, drops.
                let drops = counts.and_then(|(_, v)| {
                    let mut b = Bytes::new(v);
                    b.take(8)?;
                    ne32(&mut b)
                });
                queue.drops = drops.unwrap_or(0);
            }
            _ => {}
        }
    }
    Some(queue)
}
