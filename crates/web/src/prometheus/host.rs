//! What matters of the host at high rates: cores, the queue between card and sockets, cards, UDP, disks.
//!
//! Of the calling namespace, read when somebody asks. At most 64 interfaces and 64 disks, so that a host with a thousand of
//! either stays readable. Refuses nothing: what the host does not tell is not there. Sources: proc(5); `io::host`.

use fullcount_io::host::Host;
use fullcount_io::host::disks::DiskCounters;

use super::text::ExpositionText;

/// Interfaces, and disks, at most.
const MOST: usize = 64;

type Labels = Vec<(&'static str, String)>;

/// A family of counters: name, meaning, one value for each set of labels.
fn counters(out: &mut ExpositionText, name: &str, about: &str, values: &[(Labels, u64)]) {
    if values.is_empty() {
        return;
    }
    out.family(name, "counter", about);
    for (labels, value) in values {
        out.sample(name, labels, &value.to_string());
    }
}

/// Adds what the host tells.
pub fn write(out: &mut ExpositionText, host: &Host) {
    cores(out, host);
    softnet(out, host);
    cards(out, host);
    udp(out, host);
    disks(out, &host.disks());
}

fn cores(out: &mut ExpositionText, host: &Host) {
    let all = host.cores();
    if all.is_empty() {
        return;
    }
    let name = "fullcount_host_cpu_seconds_total";
    out.family(name, "counter", "Time of each core, by what it did");
    for core in all {
        let parts = [
            ("user", core.user_ms),
            ("system", core.system_ms),
            ("irq", core.irq_ms),
            ("softirq", core.softirq_ms),
            ("steal", core.steal_ms),
            ("idle", core.idle_ms),
        ];
        for (mode, ms) in parts {
            let labels = [("cpu", core.core.to_string()), ("mode", mode.to_owned())];
            out.seconds(name, &labels, ms, 1000);
        }
    }
}

fn softnet(out: &mut ExpositionText, host: &Host) {
    let Some(all) = host.backlogs() else { return };
    let of =
        |field: fn(&fullcount_io::host::softnet::SoftnetBacklog) -> u64| -> Vec<(Labels, u64)> {
            all.iter().map(|(core, b)| (vec![("cpu", core.to_string())], field(b))).collect()
        };
    let name = |what: &str| format!("fullcount_host_softnet_{what}_total");
    let processed = "Packets that each core took from its cards";
    counters(out, &name("processed"), processed, &of(|b| b.processed));
    let dropped =
        "Packets dropped because the queue of a core was full (net.core.netdev_max_backlog)";
    counters(out, &name("dropped"), dropped, &of(|b| b.dropped));
    let squeezed = "Times that a core stopped with work left (net.core.netdev_budget)";
    counters(out, &name("squeezed"), squeezed, &of(|b| b.squeezed));
}

fn cards(out: &mut ExpositionText, host: &Host) {
    let mut all = host.cards().unwrap_or_default();
    all.truncate(MOST);
    let of = |field: fn(&fullcount_io::host::card::CardCounters) -> u64| -> Vec<(Labels, u64)> {
        let one = |c: &fullcount_io::host::card::Card| {
            (vec![("interface", c.name.clone())], field(&c.counters))
        };
        all.iter().map(one).collect()
    };
    let name = |what: &str| format!("fullcount_host_nic_receive_{what}_total");
    counters(out, &name("packets"), "Frames that an interface received", &of(|c| c.packets));
    counters(out, &name("bytes"), "Bytes of these frames", &of(|c| c.bytes));
    let sent = "fullcount_host_nic_transmit_bytes_total";
    counters(out, sent, "Bytes that an interface sent", &of(|c| c.sent_bytes));
    let dropped = "Frames dropped by driver or kernel for want of room, or that nobody wanted";
    counters(out, &name("dropped"), dropped, &of(|c| c.dropped));
    let missed = "Frames for which the card had no room";
    counters(out, &name("missed"), missed, &of(|c| c.missed));
    counters(out, &name("damaged"), "Frames damaged on the way", &of(|c| c.damaged));
}

fn udp(out: &mut ExpositionText, host: &Host) {
    let Some(udp) = host.udp() else { return };
    let all = [
        ("received", "Datagrams delivered to sockets", udp.in_datagrams),
        ("no_ports", "Datagrams to a port where nobody listened", udp.no_ports),
        ("errors", "Datagrams dropped for any reason", udp.in_errors),
        (
            "receive_buffer_errors",
            "Datagrams dropped because a socket's buffer was full",
            udp.receive_buffer_errors,
        ),
        ("memory_errors", "Datagrams dropped at the limit of all UDP memory", udp.memory_errors),
        ("checksum_errors", "Datagrams dropped for a wrong checksum", udp.checksum_errors),
        ("reassembly_errors", "IP packets that could not be put together", udp.reassembly_errors),
    ];
    for (what, about, value) in all {
        let name = format!("fullcount_host_udp_{what}_total");
        counters(out, &name, about, &[(Vec::new(), value)]);
    }
}

fn disks(out: &mut ExpositionText, all: &[DiskCounters]) {
    let all = &all[..all.len().min(MOST)];
    let of = |field: fn(&DiskCounters) -> u64| -> Vec<(Labels, u64)> {
        all.iter().map(|d| (vec![("disk", d.name.clone())], field(d))).collect()
    };
    let read = "Bytes read from a disk";
    counters(out, "fullcount_host_disk_read_bytes_total", read, &of(|d| d.read_bytes));
    let written = "Bytes written to a disk";
    counters(out, "fullcount_host_disk_written_bytes_total", written, &of(|d| d.written_bytes));
    if all.is_empty() {
        return;
    }
    let name = "fullcount_host_disk_busy_seconds_total";
    out.family(name, "counter", "Time in which a disk had something to do");
    for disk in all {
        out.seconds(name, &[("disk", disk.name.clone())], disk.busy_ms, 1000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_told_in_bytes_and_seconds() {
        let text = " 259 0 nvme0n1 10 0 8 4 20 0 16 5 0 1500 9\n 7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\nrubbish\n";
        let mut out = ExpositionText::default();
        disks(&mut out, &fullcount_io::host::disks::parse(text));
        for line in [
            "fullcount_host_disk_read_bytes_total{disk=\"nvme0n1\"} 4096",
            "fullcount_host_disk_written_bytes_total{disk=\"nvme0n1\"} 8192",
            "fullcount_host_disk_busy_seconds_total{disk=\"nvme0n1\"} 1.5",
        ] {
            assert!(out.0.lines().any(|l| l == line), "{line}: {}", out.0);
        }
        assert!(!out.0.contains("loop0"));
        let mut out = ExpositionText::default();
        disks(&mut out, &[]);
        assert_eq!(out.0, "");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_host_tells_of_its_cores_and_of_udp() {
        let mut out = ExpositionText::default();
        write(&mut out, &Host::default());
        assert!(
            out.0.contains("fullcount_host_cpu_seconds_total{cpu=\"0\",mode=\"softirq\"} "),
            "{}",
            out.0
        );
        assert!(out.0.contains("fullcount_host_udp_receive_buffer_errors_total "), "{}", out.0);
        for way in ["receive", "transmit"] {
            let lo = format!("fullcount_host_nic_{way}_bytes_total{{interface=\"lo\"}} ");
            assert!(out.0.contains(&lo), "{lo}: {}", out.0);
        }
    }
}
