//! Captures leave whole, in order and no further than asked, whether trains are cut by a count, a rate or a fault.

use std::net::{SocketAddr, UdpSocket};

use fullcount_core::frame::emit::Route;
use fullcount_core::sim::{Fault, Spec};
use fullcount_io::endpoint::{Endpoint, PcapSpeed, PcapUrl};
use fullcount_io::pcap::{Format, PcapSource, Writer};

use super::*;

/// 40 packets: a train of 30 of 100 bytes, an empty one, single ones of growing length.
fn payloads() -> Vec<Vec<u8>> {
    let train = (0..30).map(|n| vec![n; 100]);
    let rest = (1..10).map(|n| vec![200 + n; 10 * usize::from(n)]);
    train.chain([vec![]]).chain(rest).collect()
}

struct Sending {
    count: Option<u64>,
    packets_per_s: Option<f64>,
    fault: Option<&'static str>,
}

/// Sends the capture; what arrived, and what the sender says.
fn sent(how: &Sending) -> (Vec<Vec<u8>>, Sent) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pcap");
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = Writer::new(file, Format::Pcap, None).unwrap();
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let route = Route { source: at(1000), destination: at(9000), vlan: None };
    for (n, payload) in payloads().iter().enumerate() {
        writer.udp(n as i64, &route, payload).unwrap();
    }
    writer.finish().unwrap();
    let url = PcapUrl { speed: PcapSpeed::FlatOut, preload: true, ..PcapUrl::new(&path) };
    let source = PcapSource::open(&url, None).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let Ok(Endpoint::Udp(to)) = format!("udp://{}", socket.local_addr().unwrap()).parse() else {
        panic!("an endpoint");
    };
    let fault = how.fault.map(|f| Fault::new(f.parse::<Spec>().unwrap()).unwrap());
    let job = Job {
        to: vec![Destination { url: to, fault }],
        payload: Payload::Capture(Box::new(source)),
        packets_per_s: how.packets_per_s,
        duration: None,
        count: how.count,
        core: None,
        source_ports: vec![],
    };
    let sent = job.run(&|| false, &SendProgress::default()).unwrap();
    // Over loopback a packet is in the receiver's buffer when the send call returns.
    socket.set_nonblocking(true).unwrap();
    let mut got = vec![];
    let mut slot = [0; 2048];
    while let Ok(n) = socket.recv(&mut slot) {
        got.push(slot[..n].to_vec());
    }
    (got, sent)
}

#[test]
fn a_capture_leaves_whole_in_order_and_to_its_count() {
    let all = payloads();
    for packets_per_s in [None, Some(1e6)] {
        for count in [None, Some(7), Some(30), Some(31), Some(33), Some(1000)] {
            let expected = &all[..all.len().min(count.map_or(usize::MAX, |n| n as usize))];
            let (got, sent) = sent(&Sending { count, packets_per_s, fault: None });
            assert_eq!(got, expected, "{count:?} at {packets_per_s:?}");
            let bytes = expected.iter().map(Vec::len).sum::<usize>() as u64;
            let told = (sent.packets, sent.bytes, sent.datagrams);
            assert_eq!(told, (expected.len() as u64, bytes, expected.len() as u64));
        }
    }
}

#[test]
fn a_fault_still_sees_every_packet() {
    let (got, sent) =
        sent(&Sending { count: None, packets_per_s: None, fault: Some("drop=10,of=40,seed=3") });
    let all = payloads();
    assert_eq!((got.len(), sent.packets, sent.datagrams), (30, 40, 30));
    let mut rest = all.iter();
    assert!(got.iter().all(|g| rest.any(|a| a == g)), "in order, none changed");
}
