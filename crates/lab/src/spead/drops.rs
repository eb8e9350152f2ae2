//! Where a trial's packets were dropped: in a queue or an interface, which is before the receiving card, or at the receiver's socket.
//!
//! Counters of the kernel, read in the namespaces of both ends before and after a trial. On loopback they are those of the whole host,
//! other programs' packets included. With GSO and GRO a count may be a train of packets. Refuses nothing: a place that cannot be read
//! counts nothing. Sources: `tc(8)`, kernel `net/core/net-procfs.c` (`/proc/net/dev`), `net/ipv4/proc.c` (`/proc/net/snmp`).

use fullcount_io::host::{Host, UdpCounters};
use serde_json::{Value, json};

use super::ground::SpeadGround;

/// Packets that were dropped, by place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrialDrops {
    /// In the sending interface's queue, or in that of the emulated link: what the link does not carry.
    pub queue: u64,
    /// In the interfaces themselves: the receiving host's backlog was full.
    pub interface: u64,
    /// At the receiver's socket: its buffer was full.
    pub socket: u64,
}

impl TrialDrops {
    /// Before a receiving card would have had them.
    pub fn before_card(self) -> u64 {
        self.queue + self.interface
    }

    /// For results files.
    pub fn json(self) -> Value {
        json!({"queue": self.queue, "interface": self.interface, "socket": self.socket})
    }

    /// From a results file.
    pub fn of(value: &Value) -> Option<TrialDrops> {
        let number = |name: &str| value.get(name)?.as_u64();
        Some(TrialDrops {
            queue: number("queue")?,
            interface: number("interface")?,
            socket: number("socket")?,
        })
    }
}

/// Counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DropCounts {
    /// Of all queues of the sender's host; wraps.
    queues: u32,
    /// Of the emulated link.
    emulated: u64,
    /// At the sender's interfaces, and at the receivers'.
    sent: u64,
    received: u64,
    socket: u64,
}

impl DropCounts {
    /// What was dropped since `earlier`.
    pub fn since(&self, earlier: &DropCounts) -> TrialDrops {
        let sent = self.sent.saturating_sub(earlier.sent);
        let received = self.received.saturating_sub(earlier.received);
        TrialDrops {
            queue: u64::from(self.queues.wrapping_sub(earlier.queues))
                + self.emulated.saturating_sub(earlier.emulated),
            // A veth counts a packet that its peer's backlog refused at both ends.
            interface: sent.max(received),
            socket: self.socket.saturating_sub(earlier.socket),
        }
    }
}

/// Drops of a direction in `/proc/net/dev`, over the interfaces that `wanted` names.
fn interfaces(table: &str, sends: bool, wanted: impl Fn(&str) -> bool) -> u64 {
    // Behind the name: eight columns of receiving, of which the fourth is drops, then those of sending.
    let column = if sends { 11 } else { 3 };
    let of = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let drops = counts.split_whitespace().nth(column)?.parse::<u64>().ok()?;
        wanted(name.trim()).then_some(drops)
    };
    table.lines().filter_map(of).sum()
}

/// The thread's own tables: a process's are those of its first thread, which stays outside.
fn table(name: &str) -> String {
    std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
}

fn queue_drops() -> u32 {
    let queues = Host::default().qdiscs().unwrap_or_default();
    queues.iter().filter(|q| !q.ingress).fold(0, |sum, q| sum.wrapping_add(q.drops))
}

impl SpeadGround {
    /// Drops so far, at the receivers of these links.
    pub(super) fn drops(&self, links: &[usize]) -> DropCounts {
        let loopback = matches!(self, SpeadGround::Loopback);
        let wanted = |name: &str| (name == "lo") == loopback;
        let sender = || (queue_drops(), interfaces(&table("dev"), true, wanted));
        let receiver = || {
            let socket = UdpCounters::of_snmp(&table("snmp")).receive_buffer_errors;
            (socket, interfaces(&table("dev"), false, wanted))
        };
        let mut counts = DropCounts::default();
        if let Ok((queues, sent)) = self.inside(0, true, sender) {
            // Loopback has no queue; what those of cards drop is another program's.
            counts.queues = if loopback { 0 } else { queues };
            counts.sent = sent;
        }
        let mut hosts: Vec<usize> = links.to_vec();
        hosts.sort_unstable();
        hosts.dedup();
        if loopback {
            hosts.truncate(1);
        }
        for link in hosts {
            if let Ok((socket, received)) = self.inside(link, false, receiver) {
                counts.socket += socket;
                counts.received += received;
            }
        }
        if let SpeadGround::Emulated { emulator, .. } = self {
            counts.emulated = emulator.report().counts[0].gone();
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  100       1    0    7    0     0          0         0      100       1    0    5    0     0       0          0
 link0: 9000       2    0   30    0     0          0         0     9000       2    0   40    0     0       0          0
 link1: 9000       2    0    3    0     0          0         0     9000       2    0    4    0     0       0          0
";

    #[test]
    fn drops_of_interfaces_are_read_by_direction() {
        let links = |name: &str| name != "lo";
        assert_eq!((interfaces(DEV, false, links), interfaces(DEV, true, links)), (33, 44));
        assert_eq!(interfaces(DEV, true, |name| name == "lo"), 5);
        assert_eq!(interfaces("", true, links), 0);
    }

    #[test]
    fn drops_are_differences_and_none_counts_twice() {
        let before =
            DropCounts { queues: u32::MAX - 1, emulated: 5, sent: 1, received: 2, socket: 10 };
        let after = DropCounts { queues: 3, emulated: 8, sent: 11, received: 12, socket: 14 };
        let drops = after.since(&before);
        assert_eq!(drops, TrialDrops { queue: 5 + 3, interface: 10, socket: 4 });
        assert_eq!(drops.before_card(), 18);
        assert_eq!(TrialDrops::of(&drops.json()), Some(drops));
        assert_eq!(after.since(&after), TrialDrops::default());
    }

    #[test]
    fn a_socket_that_nobody_reads_drops() {
        let ground = SpeadGround::Loopback;
        let full = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = ground.drops(&[0]);
        // The largest buffer that a system grants by itself is far below this.
        for _ in 0..1000 {
            sender.send_to(&[0; 60_000], full.local_addr().unwrap()).unwrap();
        }
        let drops = ground.drops(&[0]).since(&before);
        assert!(drops.socket > 0, "{drops:?}");
    }
}
