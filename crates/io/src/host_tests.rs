//! The probes on a saved tree, so that every number has a known answer.

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
    assert_eq!(host.backlog(), Some(Backlog { processed: 26, dropped: 2, squeezed: 1 }));
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
    assert_eq!(host.snapshot(), Snapshot::default());
    let (_dir, host) = tree(&[("proc/net/snmp", "Udp\nx"), ("proc/net/udp", "head\n1: x\n:::")]);
    assert_eq!(host.udp(), Some(UdpCounters::default()));
    assert_eq!(host.port(9000), Some(PortState::default()));
}
