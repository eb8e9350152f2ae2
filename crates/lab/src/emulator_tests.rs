//! The emulator between namespaces, with frames of the kernel's own making. Needs root.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

use fullcount_core::sim::Spec;
use fullcount_io::frames::NOTE;

use super::network::{ADDRESSES, build, start};
use super::*;
use crate::namespace;

/// Bound on what should take milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

fn lacking() -> bool {
    if namespace::allowed() {
        return false;
    }
    let reason = NamespaceError::NotRoot.to_string();
    assert!(std::env::var_os("CI").is_none(), "CI must have it: {reason}");
    println!("skipped: {reason}");
    true
}

fn plan(setup: ChannelSetup) -> EmulatorPlan {
    EmulatorPlan {
        interfaces: [String::new(), String::new()],
        setups: [setup, setup],
        cores: [None, None],
        busy_poll: false,
    }
}

/// Sockets of both ends, on a network that is emulated.
fn ends(network: &crate::namespace::NamespaceNetwork) -> (UdpSocket, UdpSocket) {
    let open = |host: usize, address| {
        let socket = network.inside(host, || UdpSocket::bind((address, 4711)).unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    (open(0, ADDRESSES[0]), open(2, ADDRESSES[1]))
}

#[test]
fn datagrams_cross_with_right_checksums_and_not_before_their_delay() {
    if lacking() {
        return;
    }
    let network = build(9000).unwrap();
    let delay = Duration::from_millis(4);
    let setup = ChannelSetup { delay_ns: delay.as_nanos() as u64, ..ChannelSetup::default() };
    let emulator = start(&network, &plan(setup)).unwrap();
    let (near, far) = ends(&network);
    let mut bytes = [0; 9000];
    for size in [0, 1, 17, 1472, 8972] {
        let sent: Vec<u8> = (0..size).map(|i| i as u8).collect();
        let begun = Instant::now();
        near.send_to(&sent, (ADDRESSES[1], 4711)).unwrap();
        // The kernel drops what has a wrong checksum: arrival is the proof.
        let (n, from) = far.recv_from(&mut bytes).unwrap();
        assert_eq!((&bytes[..n], from.ip()), (&sent[..], ADDRESSES[0].into()));
        far.send_to(&sent, from).unwrap();
        near.recv_from(&mut bytes).unwrap();
        assert!(begun.elapsed() >= 2 * delay, "{:?}", begun.elapsed());
    }
    let report = emulator.end().unwrap();
    assert_eq!(report.balance(), 0);
    assert!(report.lossless(), "{}", report.lines());
    assert!(report.counts.iter().all(|c| c.sent() >= 5 && c.trains == 0), "{}", report.lines());
}

#[test]
fn faults_of_a_known_count_are_met_by_real_frames() {
    if lacking() {
        return;
    }
    // Below 1280 B there is no IPv6 and none of its chatter: every frame is ours.
    let network = build(1200).unwrap();
    let (near, far) = ends(&network);
    fullcount_io::sys::force_receive_buffer(far.as_fd(), 8 << 20).unwrap();
    let fault: Spec = "drop=50,duplicate=30,swap=20,of=1000,seed=5".parse().unwrap();
    let mut plan = plan(ChannelSetup { fault, ..ChannelSetup::default() });
    plan.setups[1] = ChannelSetup::default();
    let emulator = start(&network, &plan).unwrap();
    for n in 0..1000u32 {
        near.send_to(&n.to_le_bytes(), (ADDRESSES[1], 4711)).unwrap();
    }
    let begun = Instant::now();
    while emulator.report().counts[0].channel.taken < 1000 {
        assert!(begun.elapsed() < PATIENCE, "{}", emulator.report().lines());
        std::thread::sleep(Duration::from_millis(5));
    }
    let report = emulator.end().unwrap();
    let c = &report.counts[0];
    assert_eq!(report.balance(), 0, "{}", report.lines());
    assert_eq!((c.channel.lost, c.channel.doubled, c.channel.moved), (50, 30, 20));
    assert_eq!((c.offered(), c.sent(), c.gone(), c.inside), (1000, 980, 50, 0));
    let mut bytes = [0; 100];
    let mut got = Vec::new();
    for _ in 0..980 {
        assert_eq!(far.recv(&mut bytes).unwrap(), 4);
        got.push(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    }
    assert_eq!(got.windows(2).filter(|w| w[0] == w[1]).count(), 30, "doubled");
    assert_eq!(got.windows(2).filter(|w| w[0] > w[1]).count(), 20, "swapped");
    got.sort_unstable();
    got.dedup();
    assert_eq!(got.len(), 950);
}

#[test]
fn vlan_tags_and_ipv6_cross_and_what_is_too_long_is_counted() {
    if lacking() {
        return;
    }
    let network = build(1500).unwrap();
    let emulator = start(&network, &plan(ChannelSetup::default())).unwrap();
    // A tagged frame: broadcast, from a made-up address, tag 5 with priority 1, experimental type.
    let mut frame = vec![0; NOTE];
    frame.extend([[0xff; 6], [2, 0, 0, 0, 0, 9]].concat());
    frame.extend([0x81, 0, 0x20, 5, 0x88, 0xb5]);
    frame.extend(0..80);
    let mut receiver = network
        .inside(2, || fullcount_io::frames::FrameReceiver::open("link1", 1 << 20).unwrap())
        .unwrap();
    let mut sender =
        network.inside(0, || fullcount_io::frames::FrameSender::open("link0").unwrap()).unwrap();
    sender.send(&[frame.clone()], |why| panic!("{why:?}")).unwrap();
    let (begun, mut got) = (Instant::now(), Vec::new());
    // Between frames of the kernel's own, such as those of IPv6.
    while got.get(NOTE..) != Some(&frame[NOTE..]) {
        assert!(begun.elapsed() < PATIENCE, "the tagged frame does not come");
        receiver.wait(Duration::from_millis(20)).unwrap();
        for i in 0..receiver.receive().unwrap() {
            if got.get(NOTE..) != Some(&frame[NOTE..]) {
                receiver.copy(i, &mut got);
            }
        }
    }
    let [near, far] = [(0, "fdfc:202::1"), (2, "fdfc:202::2")].map(|(host, address)| {
        let address: std::net::IpAddr = address.parse().unwrap();
        let socket = network.inside(host, || UdpSocket::bind((address, 0)).unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    });
    let mut bytes = [0; 2000];
    near.send_to(&[7; 1400], far.local_addr().unwrap()).unwrap();
    assert_eq!(far.recv(&mut bytes).unwrap(), 1400);
    // One link now carries less than the other.
    network.ip(1, ["link", "set", "link1", "mtu", "1000"]).unwrap();
    let (near, far) = ends(&network);
    near.send_to(&[1; 1200], (ADDRESSES[1], 4711)).unwrap();
    near.send_to(&[2; 500], (ADDRESSES[1], 4711)).unwrap();
    assert_eq!(far.recv(&mut bytes).unwrap(), 500);
    let report = emulator.end().unwrap();
    assert_eq!((report.counts[0].too_long, report.balance()), (1, 0), "{}", report.lines());
    assert!(!report.faithful() && report.lines().contains("same MTU"));
}

#[test]
fn one_emulator_at_a_time_and_only_where_there_are_interfaces() {
    if lacking() {
        return;
    }
    let network = build(1500).unwrap();
    let first = start(&network, &plan(ChannelSetup::default())).unwrap();
    let e = start(&network, &plan(ChannelSetup::default())).unwrap_err();
    assert!(matches!(&e, EmulatorError::Busy { interface } if interface == "link0"), "{e}");
    assert!(first.running());
    drop(first);
    start(&network, &plan(ChannelSetup::default())).unwrap();
    let none = EmulatorPlan {
        interfaces: ["fc-no0".into(), "fc-no1".into()],
        ..plan(ChannelSetup::default())
    };
    let e = Emulator::start(&none).unwrap_err().to_string();
    assert!(e.contains("no interface fc-no0"), "{e}");
    let same =
        EmulatorPlan { interfaces: ["lo".into(), "lo".into()], ..plan(ChannelSetup::default()) };
    let e = Emulator::start(&same).unwrap_err();
    assert!(matches!(&e, EmulatorError::Same { .. }), "{e}");
}

#[test]
fn an_interface_that_goes_away_ends_the_link_with_its_name() {
    if lacking() {
        return;
    }
    let network = build(1500).unwrap();
    let emulator = start(&network, &plan(ChannelSetup::default())).unwrap();
    network.ip(1, ["link", "set", "link1", "down"]).unwrap();
    let begun = Instant::now();
    while emulator.running() {
        assert!(begun.elapsed() < PATIENCE, "still running");
        std::thread::sleep(Duration::from_millis(5));
    }
    let e = emulator.end().unwrap_err().to_string();
    assert!(e.contains("link1 is down"), "{e}");
}
