//! Tests of the namespaces: made, used and gone. Those that make some need root.

use std::net::UdpSocket;
use std::time::Duration;

use super::*;

/// Says why the rest of a test is left out, or fails where CI must have it.
fn left_out() -> bool {
    let Some(reason) = lacking() else { return false };
    assert!(std::env::var_os("CI").is_none(), "CI must have it: {reason}");
    println!("skipped: {reason}");
    true
}

#[test]
fn datagrams_cross_and_everything_is_gone_afterwards() {
    if left_out() {
        return;
    }
    let link = VethPair::between(0, 1, 9000).segments_cut();
    let network = NamespaceNetwork::build(&Layout::pair("test", link)).unwrap();
    let to = network.address(0, 1);
    let far = network.inside(1, || UdpSocket::bind((to, 4711)).unwrap()).unwrap();
    far.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let near = network.inside(0, || UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    near.send_to(&[7; 8972], (to, 4711)).unwrap();
    let mut bytes = [0; 9000];
    let (n, from) = far.recv_from(&mut bytes).unwrap();
    assert_eq!((n, from.ip()), (8972, network.address(0, 0).into()));
    let v6 = network.inside(1, || UdpSocket::bind((network.address_v6(0, 1), 0)).unwrap()).unwrap();
    v6.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let from = network.inside(0, || UdpSocket::bind("[::]:0").unwrap()).unwrap();
    from.send_to(&[1], v6.local_addr().unwrap()).unwrap();
    assert_eq!(v6.recv(&mut bytes).unwrap(), 1);
    let features = network.inside(0, || fullcount_io::sys::features("link0").unwrap()).unwrap();
    assert!(features.contains(&("tx-udp-segmentation".to_owned(), false)));
    let shown = network.command(1, "ip").args(["link", "show", "link0"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("mtu 9000"));
    let paths = [network.path(0), network.path(1)];
    assert!(paths.iter().all(|p| p.exists()));
    drop(network);
    assert!(paths.iter().all(|p| !p.exists()), "removed on drop");
}

#[test]
fn three_hosts_in_a_row_with_a_queue() {
    if left_out() {
        return;
    }
    let bucket = TokenBucket { bits_per_s: 1_000_000_000, burst: 100_000, limit: 1_000_000 };
    let second = VethPair { shaped: Some(bucket), ..VethPair::between(1, 2, 1500) };
    let links = vec![VethPair::between(0, 1, 1280), second];
    let layout = Layout { purpose: "row".into(), hosts: 3, links };
    let network = NamespaceNetwork::build(&layout).unwrap();
    let queues = network.tc(1, ["qdisc", "show", "dev", "link1"]).unwrap();
    assert!(queues.contains("tbf") && queues.contains("rate 1Gbit"), "{queues}");
    assert_ne!(network.hardware_address(1, "link0").unwrap(), "");
    assert!(network.hardware_address(0, "link1").is_err(), "link1 ends elsewhere");
}

#[test]
fn a_link_in_order_is_received_by_the_hash_of_the_flow() {
    assert_eq!([1, 2, 31, 32].map(processor_mask), ["1", "3", "7fffffff", "ffffffff"]);
    assert_eq!([33, 64].map(processor_mask), ["1,ffffffff", "ffffffff,ffffffff"]);
    if left_out() {
        return;
    }
    let link = VethPair::between(0, 1, 1500).in_order();
    let network = NamespaceNetwork::build(&Layout::pair("order", link)).unwrap();
    let masks = [0, 1].map(|host| {
        let mut cat = network.command(host, "cat");
        let said = cat.arg("/sys/class/net/link0/queues/rx-0/rps_cpus").output().unwrap();
        String::from_utf8(said.stdout).unwrap().trim().to_owned()
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(masks[0].trim_start_matches(['0', ',']), "", "the sender's end is as it was");
    let set = masks[1].trim_start_matches(['0', ',']).to_owned();
    assert_eq!(set, processor_mask(cores), "every processor of this one's");
}

#[test]
fn what_a_killed_program_left_is_removed_at_the_next_start() {
    if left_out() {
        return;
    }
    // A maker that is no more: process 1 did not start at that tick.
    let name = "fullcount-test-1-18446744073709551615-0-0";
    run("ip", ["netns", "add", name]).unwrap();
    let network =
        NamespaceNetwork::build(&Layout { purpose: "next".into(), hosts: 1, links: vec![] });
    assert!(!std::path::Path::new("/run/netns").join(name).exists());
    assert!(network.unwrap().path(0).exists());
}

#[test]
fn a_failure_half_way_leaves_nothing() {
    if left_out() {
        return;
    }
    let mut link = VethPair::between(0, 1, 1500);
    link.offloads.push(("no-such-offload".into(), true));
    let e = NamespaceNetwork::build(&Layout::pair("halfway", link)).unwrap_err();
    assert!(matches!(&e, NamespaceError::Offload { .. }), "{e}");
    let mine = format!("fullcount-halfway-{}-", std::process::id());
    let left = std::fs::read_dir("/run/netns").map(|d| {
        d.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(&mine)).count()
    });
    assert_eq!(left.unwrap_or(0), 0);
}

#[test]
fn layouts_that_cannot_be_are_refused_before_anything_is_made() {
    let pair = |link| Layout::pair("test", link);
    let bucket = TokenBucket { bits_per_s: 0, burst: 1, limit: 1 };
    for (layout, key) in [
        (Layout { purpose: "Too long a word".into(), hosts: 1, links: vec![] }, "purpose"),
        (Layout { purpose: "none".into(), hosts: 0, links: vec![] }, "hosts"),
        (pair(VethPair::between(0, 0, 1500)), "link"),
        (pair(VethPair::between(0, 2, 1500)), "link"),
        (pair(VethPair::between(0, 1, 67)), "mtu"),
        (pair(VethPair::between(0, 1, 65_536)), "mtu"),
        (pair(VethPair { shaped: Some(bucket), ..VethPair::between(0, 1, 1500) }), "shaped"),
    ] {
        let e = NamespaceNetwork::build(&layout).unwrap_err();
        assert!(e.to_string().contains(&format!("{key} ")), "{e}");
        assert!(matches!(e, NamespaceError::Layout { .. }), "{e}");
    }
}
