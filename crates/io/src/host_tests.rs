//! The probes on a saved tree, so that every number is known.

use super::*;

const SNMP: &str = "\
Ip: Forwarding DefaultTTL ReasmTimeout ReasmReqds ReasmOKs ReasmFails
Ip: 1 64 0 10 7 3
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 1000 4 982 2000 980 1 2 0 5
UdpLite: InDatagrams NoPorts InErrors
UdpLite: 77 77 77
";
const SNMP6: &str = "\
Ip6ReasmFails                   \t2
Udp6InDatagrams                 \t11
Udp6RcvbufErrors                \t6
UdpLite6InDatagrams             \t99
";
const UDP: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  1: 0100007F:2328 00000000:0000 07 00000000:00001000 00:00000000 00000000     0        0 7 2 0 982
  2: 00000000:2329 00000000:0000 07 00000000:00000001 00:00000000 00000000     0        0 8 2 0 1
";
const UDP6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  9: 00000000000000000000000000000000:2328 00000000000000000000000000000000:0000 07 00000000:00000010 00:00000000 00000000     0        0 9 2 0 3
";

fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let host = Host::at(dir.path());
    (dir, host)
}

#[test]
fn udp_counters_of_both_families_add_up() {
    let (_dir, host) = tree(&[("proc/net/snmp", SNMP), ("proc/net/snmp6", SNMP6)]);
    let u = host.udp().unwrap();
    assert_eq!((u.in_datagrams, u.no_ports, u.in_errors, u.out_datagrams), (1011, 4, 982, 2000));
    assert_eq!((u.receive_buffer_errors, u.send_buffer_errors), (986, 1));
    assert_eq!((u.checksum_errors, u.memory_errors, u.reassembly_errors), (2, 5, 5));
    let earlier = UdpCounters { in_datagrams: 1000, ..UdpCounters::default() };
    assert_eq!(u.since(&earlier).in_datagrams, 11);
}

#[test]
fn sockets_of_a_port_add_up_over_both_families() {
    let (_dir, host) = tree(&[("proc/net/udp", UDP), ("proc/net/udp6", UDP6)]);
    let nine_thousand = PortState { sockets: 2, queued_bytes: 0x1010, drops: 985 };
    assert_eq!(host.port(9000), Some(nine_thousand));
    assert_eq!(host.port(1), Some(PortState::default()));
}

#[test]
fn cores_and_backlog() {
    let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 1 20 300 5 6 70 8 0 0\ncpu12 1 0 0 0\nintr 5\n";
    let softnet = "0000000a 00000002 00000001 00\n00000010 00000000 00000000 00\n";
    let (_dir, host) = tree(&[("proc/stat", stat), ("proc/net/softnet_stat", softnet)]);
    let ms = 1000 / crate::sys::clock_ticks();
    let cores = host.cores();
    assert_eq!(cores.len(), 2, "the line of the sum is no core");
    assert_eq!(cores[0].softirq_ms, 70 * ms);
    assert_eq!((cores[0].user_ms, cores[0].idle_ms), (11 * ms, 305 * ms));
    assert_eq!((cores[1].core, cores[1].user_ms, cores[1].steal_ms), (12, ms, 0));
    assert_eq!(host.backlog(), Some(SoftnetBacklog { processed: 26, dropped: 2, squeezed: 1 }));
}

#[test]
fn a_snapshot_says_what_the_host_is() {
    let cpuinfo =
        "processor\t: 0\nmodel name\t: Test CPU @ 2 GHz\n\nprocessor\t: 1\nmodel name\t: x\n";
    let (_dir, host) = tree(&[
        ("proc/cpuinfo", cpuinfo),
        ("proc/meminfo", "MemFree: 1 kB\nMemTotal:       2048 kB\n"),
        ("proc/sys/kernel/osrelease", "6.18.0\n"),
        ("proc/sys/net/core/rmem_max", "4194304\n"),
    ]);
    let s = host.snapshot();
    assert_eq!(s.cpu.as_deref(), Some("Test CPU @ 2 GHz"));
    assert_eq!((s.cores, s.memory_bytes), (Some(2), Some(2 << 20)));
    assert_eq!(s.kernel.as_deref(), Some("6.18.0"));
    assert_eq!((s.rmem_max, s.wmem_max), (Some(4 << 20), None));
}

#[test]
fn an_empty_or_broken_tree_says_nothing_and_never_zero() {
    let (_dir, host) = tree(&[]);
    assert_eq!((host.udp(), host.port(9000), host.backlog()), (None, None, None));
    assert!(host.cores().is_empty());
    assert_eq!(host.snapshot(), HostSnapshot::default());
    let (_dir, host) = tree(&[("proc/net/snmp", "Udp\nx"), ("proc/net/udp", "head\n1: x\n:::")]);
    assert_eq!(host.udp(), Some(UdpCounters::default()));
    assert_eq!(host.port(9000), Some(PortState::default()));
}

#[test]
fn each_core_has_its_own_backlog_and_tells_its_number() {
    let new = "0000000a 00000002 00000001 0 0 0 0 0 0 0 0 0 00000007 0 0\n";
    let (_dir, host) = tree(&[("proc/net/softnet_stat", new)]);
    let ten = SoftnetBacklog { processed: 10, dropped: 2, squeezed: 1 };
    assert_eq!(host.backlogs(), Some(vec![(7, ten)]));
}

#[test]
fn fragments_that_wait_add_up_over_both_families() {
    let four = "sockets: used 200\nUDP: inuse 3 mem 0\nFRAG: inuse 2 memory 4096\n";
    let six = "UDP6: inuse 1\nFRAG6: inuse 5 memory 0\n";
    let (_dir, host) = tree(&[("proc/net/sockstat", four), ("proc/net/sockstat6", six)]);
    assert_eq!(host.incomplete_packets(), Some(7));
    let (_dir, host) = tree(&[("proc/net/sockstat", "sockets: used 200\n")]);
    assert_eq!(host.incomplete_packets(), None);
}

#[test]
fn interfaces_of_a_saved_tree_and_what_lies_below_them() {
    let at = |name: &str, file: &str| format!("sys/class/net/{name}/{file}");
    let mut files = Vec::new();
    for (name, index, lower, kind) in [
        ("bond0", "3", "3", "1"),
        ("eth0", "1", "1", "1"),
        ("lo", "9", "9", "772"),
        ("vlan7", "4", "3", "1"),
    ] {
        files.push((at(name, "ifindex"), index));
        files.push((at(name, "iflink"), lower));
        files.push((at(name, "type"), kind));
        files.push((at(name, "mtu"), "9000\n"));
    }
    files.push((at("eth0", "master/ifindex"), "3\n"));
    for (file, value) in [
        ("rx_packets", "7\n"),
        ("rx_bytes", "700\n"),
        ("tx_bytes", "60\n"),
        ("rx_dropped", "5\n"),
        ("rx_missed_errors", "2\n"),
        ("rx_fifo_errors", "1\n"),
        ("rx_crc_errors", "4\n"),
    ] {
        files.push((at("eth0", &format!("statistics/{file}")), value));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(f, v)| (f.as_str(), *v)).collect();
    let (_dir, host) = tree(&files);
    let cards = host.cards().unwrap();
    let eth0 = cards.iter().find(|c| c.name == "eth0").unwrap();
    let told = card::CardCounters {
        packets: 7,
        bytes: 700,
        sent_bytes: 60,
        dropped: 5,
        missed: 3,
        damaged: 4,
    };
    assert_eq!((eth0.counters, eth0.mtu, eth0.master), (told, 9000, Some(3)));
    let all = card::with_lower([4].into(), &cards);
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [1, 3, 4, 9], "VLAN, bond, card and loopback");
}

#[test]
fn two_ends_of_a_veth_do_not_lie_below_each_other() {
    let end = |index, lower| card::Card { index, lower: Some(lower), ..card::Card::default() };
    let all = card::with_lower([1].into(), &[end(1, 2), end(2, 1)]);
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [1]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_running_host_tells_its_interfaces_and_where_an_address_is() {
    let host = Host::default();
    let cards = host.cards().unwrap();
    let lo = cards.iter().find(|c| c.loopback).unwrap();
    assert_eq!((lo.name.as_str(), lo.index), ("lo", crate::sys::interface_index("lo").unwrap()));
    let of = |ip: &str| host.receiving(ip.parse().unwrap(), &cards);
    assert_eq!(of("127.0.0.1"), Some([lo.index].into()));
    assert_eq!(of("127.1.2.3"), Some([lo.index].into()));
    assert_eq!(of("0.0.0.0"), None, "a wildcard may receive anywhere");
    assert_eq!(of("192.0.2.1"), None, "no address of this host");
    assert!(host.qdiscs().is_some());
    assert!(host.udp().is_some() && host.backlogs().is_some());
}

#[test]
fn every_probe_has_a_cost_and_says_if_it_is_absent() {
    let (_dir, host) = tree(&[("proc/net/snmp", SNMP)]);
    for probe in probe::Probe::ALL {
        let c = probe::cost(&host, probe, 3);
        assert_eq!(c.available, probe == probe::Probe::Snmp, "{probe:?}");
        assert!(c.least <= c.median && c.median <= c.most);
    }
    let reading = probe::Reading::of(&host);
    assert!(reading.udp.is_some() && reading.cards.is_none() && reading.softnet.is_none());
}
