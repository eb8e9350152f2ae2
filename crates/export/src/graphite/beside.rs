//! What Graphite gets beside the counters: this host (`machine.…`) and each module (`module.…`), as Prometheus does.
//!
//! Read once a second at most. At most 64 interfaces and 64 disks. Refuses nothing: what the host does not tell is not there. Source:
//! `docs/operations.md`, "Graphite".

use fullcount_core::status::ModuleFacts;
use fullcount_io::host::Host;

/// Interfaces, and disks, at most.
const MOST: usize = 64;

/// A word of a name: a dot in it would be a folder.
fn word(text: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    text.chars().map(clean).collect()
}

fn value(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// What matters of the host at high rates.
pub(super) fn machine(host: &Host) -> Vec<(String, i64)> {
    let mut all = Vec::new();
    let mut put = |name: String, n: u64| all.push((format!("machine.{name}"), value(n)));
    for core in host.cores() {
        let busy = [core.user_ms, core.system_ms, core.irq_ms, core.softirq_ms, core.steal_ms];
        put(format!("cpu.{}.busy_ms", core.core), busy.iter().sum());
        put(format!("cpu.{}.softirq_ms", core.core), core.softirq_ms);
    }
    for (core, softnet) in host.backlogs().unwrap_or_default() {
        put(format!("softnet.{core}.processed"), softnet.processed);
        put(format!("softnet.{core}.dropped"), softnet.dropped);
        put(format!("softnet.{core}.squeezed"), softnet.squeezed);
    }
    for card in host.cards().unwrap_or_default().iter().take(MOST) {
        let (name, of) = (word(&card.name), &card.counters);
        put(format!("nic.{name}.packets"), of.packets);
        put(format!("nic.{name}.bytes"), of.bytes);
        put(format!("nic.{name}.sent_bytes"), of.sent_bytes);
        put(format!("nic.{name}.dropped"), of.dropped);
        put(format!("nic.{name}.missed"), of.missed);
        put(format!("nic.{name}.damaged"), of.damaged);
    }
    if let Some(udp) = host.udp() {
        put("udp.received".into(), udp.in_datagrams);
        put("udp.no_ports".into(), udp.no_ports);
        put("udp.errors".into(), udp.in_errors);
        put("udp.receive_buffer_errors".into(), udp.receive_buffer_errors);
        put("udp.memory_errors".into(), udp.memory_errors);
        put("udp.checksum_errors".into(), udp.checksum_errors);
        put("udp.reassembly_errors".into(), udp.reassembly_errors);
    }
    for disk in host.disks().iter().take(MOST) {
        let name = word(&disk.name);
        put(format!("disk.{name}.read_bytes"), disk.read_bytes);
        put(format!("disk.{name}.written_bytes"), disk.written_bytes);
        put(format!("disk.{name}.busy_ms"), disk.busy_ms);
    }
    all
}

/// What each module has sent.
pub(super) fn modules(all: &[ModuleFacts]) -> impl Iterator<Item = (String, i64)> {
    all.iter().flat_map(|module| {
        let name = word(&module.name);
        let of = |what: &str, n: u64| (format!("module.{name}.{what}"), value(n));
        [
            of("packets", module.packets),
            of("lost", module.lost),
            of("age_ms", module.age_ms),
            of("silent", module.silent.into()),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_modules_are_one_folder_each() {
        let module = ModuleFacts {
            name: "10.0.0.5 module 3".into(),
            packets: 7,
            lost: 1,
            age_ms: 250,
            silent: false,
        };
        let all: Vec<(String, i64)> = modules(&[module]).collect();
        assert_eq!(all[0], ("module.10_0_0_5_module_3.packets".to_owned(), 7));
        assert_eq!(all[2], ("module.10_0_0_5_module_3.age_ms".to_owned(), 250));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_host_tells_of_its_cores_and_of_udp() {
        let all = machine(&Host::default());
        for name in [
            "machine.cpu.0.busy_ms",
            "machine.udp.receive_buffer_errors",
            "machine.nic.lo.bytes",
            "machine.nic.lo.sent_bytes",
        ] {
            assert!(all.iter().any(|(known, _)| known == name), "{name}: {all:?}");
        }
    }
}
