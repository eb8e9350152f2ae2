//! Captures leave whole, in order and no further than asked, whether trains are cut by a count, a rate or a fault.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use fullcount_core::frame::emit::Route;
use fullcount_core::sim::{Fault, Spec};
use fullcount_io::endpoint::{Endpoint, PcapSpeed, PcapUrl};
use fullcount_io::pcap::{CaptureFormat, PcapSource, Writer};

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
    let mut writer = Writer::new(file, CaptureFormat::Pcap, None).unwrap();
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
    let job = SendJob {
        to: vec![SendTo { endpoint: Box::new(to), fault }],
        payload: Payload::Capture(Box::new(source)),
        packets_per_s: how.packets_per_s,
        real_time: false,
        duration: None,
        count: how.count,
        core: None,
        source_ports: vec![],

        wish: None,
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

/// A sender that stalls does not stop the detector's clock: what was withheld leaves behind the stall.
#[test]
fn a_stall_of_the_sender_does_not_stop_the_detectors_clock() {
    use fullcount_sim::multiblade::{MultiBladeSetup, SimulatedMultiBlade};
    use std::sync::atomic::AtomicBool;

    const LENGTH: Duration = Duration::from_millis(800);
    const STALL: Duration = Duration::from_millis(200);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // All of it fits, where that is allowed: a receiver that waits for its core loses nothing.
    let _ = fullcount_io::sys::force_receive_buffer(socket.as_fd(), 64 << 20);
    let Ok(Endpoint::Udp(to)) = format!("udp://{}", socket.local_addr().unwrap()).parse() else {
        panic!("an endpoint");
    };
    let over = AtomicBool::new(false);
    let (newest, sent) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let (mut slot, mut first, mut newest) = ([0; 9000], None, 0);
            loop {
                match socket.recv(&mut slot) {
                    Ok(n) => {
                        // ms of the computer at the restart's end; ticks of 16 ns within it.
                        let ms = u64::from_le_bytes(slot[8..16].try_into().unwrap());
                        let began = *first.get_or_insert(ms - 20);
                        let local = |r: &[u8]| u32::from_le_bytes(r[..4].try_into().unwrap());
                        let ticks = slot[32..n].chunks_exact(8).map(local).max().unwrap();
                        newest = newest.max((ms - 20 - began) * 1_000_000 + u64::from(ticks) * 16);
                    }
                    Err(_) if over.load(Relaxed) => return Duration::from_nanos(newest),
                    Err(_) => {}
                }
            }
        });
        let setup = MultiBladeSetup { neutrons_per_s: 100e3, ..MultiBladeSetup::default() };
        let traffic = SimulatedMultiBlade::new(&setup).unwrap();
        let job = SendJob {
            to: vec![SendTo { endpoint: Box::new(to), fault: None }],
            packets_per_s: Some(traffic.packets_per_s()),
            payload: Payload::Traffic(Box::new(traffic)),
            real_time: true,
            duration: Some(LENGTH),
            count: None,
            core: None,
            source_ports: vec![],
            wish: None,
        };
        let stalled = AtomicBool::new(false);
        let begun = Instant::now();
        let stop = || {
            if begun.elapsed() > LENGTH / 2 && !stalled.swap(true, Relaxed) {
                std::thread::sleep(STALL);
            }
            false
        };
        let sent = job.run(&stop, &SendProgress::default()).unwrap();
        over.store(true, Relaxed);
        (receiver.join().unwrap(), sent)
    });
    let behind = sent.behind.expect("keeps its own clock");
    // The newest packet is complete up to a few ms before.
    let wanted = sent.active.saturating_sub(behind + Duration::from_millis(5));
    assert!(
        newest >= wanted && newest <= sent.active,
        "{newest:?} of {:?}, {behind:?} behind",
        sent.active
    );
}
