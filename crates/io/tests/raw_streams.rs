//! The destination `stcp://` on a veth pair: receivers that hold, die or refuse, one stream of several.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fullcount_core::destination::{
    Destination, DestinationError, DestinationKind, DestinationOpening, DestinationPart,
};
use fullcount_io::raw::{Driver, RawError, RawLink, RawSetup, StcpDestination};
use fullcount_stcp::{StcpSettings, StcpState};
use fullcount_testing::veth::{NAME, RECEIVER, Veth};
use socket2::SockRef;

const PORT: u16 = 5000;
/// A send buffer whose high mark is above the packets that a receiver does not read: their source need not hold.
const FITS: &str = "&buffer=2MiB";

fn open(
    veth: &Veth,
    keys: &str,
    source_ports: &[u16],
) -> Result<Vec<Box<dyn Destination>>, DestinationError> {
    let url = format!("stcp://{RECEIVER}:{PORT}?interface={NAME}&address=10.77.0.9{keys}");
    let endpoint = StcpDestination.plan(&url).unwrap();
    // A source that waits for so long waits for ever.
    let patience = Some(Duration::from_secs(5));
    let opening = DestinationOpening { source_ports, patience, ..Default::default() };
    veth.sending(|| endpoint.open(&opening))
}

/// A listener whose connections take little before they are read.
fn listen(veth: &Veth) -> TcpListener {
    let listener = veth.receiving(|| TcpListener::bind((RECEIVER, PORT)).unwrap());
    SockRef::from(&listener).set_recv_buffer_size(1 << 17).unwrap();
    listener
}

/// Reads to the RST: how many bytes.
fn drain(mut stream: TcpStream) -> u64 {
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let (mut buffer, mut all) = (vec![0; 1 << 18], 0);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => panic!("a FIN"),
            Ok(n) => all += n as u64,
            Err(e) => {
                assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset);
                return all;
            }
        }
    }
}

fn counter(lane: &dyn Destination, name: &str) -> u64 {
    let sheet = lane.sheet();
    sheet.get(sheet.lines().iter().position(|info| info.name == name).unwrap())
}

fn value(part: &DestinationPart, name: &str) -> u64 {
    part.values.iter().find(|(own, _)| *own == name).unwrap().1
}

/// The source is finished, and the receiver reads nothing for longer than any limit; it answers every probe.
#[test]
fn a_finished_sender_waits_for_a_receiver_that_holds() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let listener = listen(&veth);
    let (go, wait) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        wait.recv().unwrap();
        thread::sleep(Duration::from_secs(12));
        drain(stream)
    });
    let mut lanes = open(&veth, FITS, &[]).unwrap();
    lanes[0].send(&[7; 1_000_000], 1000).unwrap();
    let begin = Instant::now();
    go.send(()).unwrap();
    lanes[0].finish().unwrap();
    assert!(begin.elapsed() > Duration::from_secs(11), "{:?}", begin.elapsed());
    assert!(counter(&*lanes[0], "stcp.stream.probes") > 20);
    assert_eq!(counter(&*lanes[0], "stcp.unacknowledged"), 0);
    drop(lanes);
    assert_eq!(reader.join().unwrap(), 1_000_000);
}

/// And one that answers nothing any more ends it, after 7 s by the profile.
#[test]
fn a_finished_sender_gives_a_dead_receiver_up() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let listener = listen(&veth);
    let mut lanes = open(&veth, FITS, &[]).unwrap();
    let _held = listener.accept().unwrap();
    lanes[0].send(&[7; 1_000_000], 1000).unwrap();
    thread::sleep(Duration::from_millis(300));
    veth.run(false, &["ip", "address", "flush", "dev", NAME]);
    let begin = Instant::now();
    let said = lanes[0].finish().unwrap_err().to_string();
    assert!(said.contains("answers no more") || said.contains("acknowledged any more"), "{said}");
    let took = begin.elapsed();
    // A busy host may end it later, but end it does.
    assert!((5..60).contains(&took.as_secs()), "{took:?}");
    let lost = counter(&*lanes[0], "stcp.packets_unacknowledged");
    assert!(lost > 0 && lost <= 1000, "{lost}");
    assert_eq!(lanes[0].departed().failed, lost);
}

/// A sender of two connections is killed and comes back with another one: what the receiver says on the old ones draws RSTs.
#[test]
fn connections_of_a_killed_sender_are_reset_when_the_receiver_speaks_on_them() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let listener = listen(&veth);
    let end = Instant::now() + Duration::from_secs(60);
    let open = |ports: &[u16]| {
        let address = [10, 77, 0, 9];
        let key = RawSetup::secret();
        let setup = RawSetup { key, ..RawSetup::new(NAME, Driver::Packet, address) };
        let mut link = veth.sending(|| RawLink::open(setup).unwrap());
        for &port in ports {
            link.add(([10, 77, 0, 2], PORT), port, StcpSettings::daq(), 1 << 16).unwrap();
        }
        let connected = |link: &RawLink| {
            link.streams().iter().all(|s| s.sender().state() == StcpState::Established)
        };
        while !connected(&link) {
            assert!(Instant::now() < end, "{:?}", link.counters());
            if !link.turn().unwrap() {
                link.wait(Duration::from_millis(1)).unwrap();
            }
        }
        link
    };
    drop(open(&[10, 11]));
    let old = [(); 2].map(|()| listener.accept().unwrap().0);
    let mut link = open(&[12]);
    for mut stream in old {
        stream.write_all(b"?").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let how = loop {
            assert!(Instant::now() < end, "{:?}", link.counters());
            link.turn().unwrap();
            match stream.read(&mut [0; 8]) {
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                other => break other,
            }
        };
        assert_eq!(how.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    assert!(link.counters().stray_resets >= 2, "{:?}", link.counters());
    assert_eq!(link.stream(0).sender().state(), StcpState::Established, "its own goes on");
}

/// The RSTs of an abort with bytes in flight are lost; what the receiver sends within a second draws another.
#[test]
fn s54_an_abort_with_bytes_in_flight_is_answered_for_a_second() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let listener = listen(&veth);
    let mut lanes = open(&veth, FITS, &[]).unwrap();
    let (stream, _) = listener.accept().unwrap();
    lanes[0].send(&[7; 1_000_000], 1000).unwrap();
    // Bytes are on their way, and the receiver's buffer is far smaller than all of them.
    assert_eq!(stream.peek(&mut [0]).unwrap(), 1);
    veth.run(false, &["ip", "address", "flush", "dev", NAME]);
    let begin = Instant::now();
    let ending = thread::spawn(move || drop(lanes));
    // Nothing tells when the RSTs were sent. On a host on which they are later than this, they arrive: the end is the same.
    thread::sleep(Duration::from_millis(100));
    let back = format!("{RECEIVER}/24");
    veth.run(false, &["ip", "address", "add", &back, "dev", NAME]);
    // The window opens: that is told, and the answer is the RST.
    let read = drain(stream);
    assert!(read > 0 && read < 1_000_000, "{read}");
    ending.join().unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
}

/// The receiver resets one of three connections: its packets are lost and counted, the others arrive.
#[test]
fn a_stream_that_ends_ends_alone() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let listener = veth.receiving(|| TcpListener::bind((RECEIVER, PORT)).unwrap());
    let (told, refused) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut readers = vec![];
        for _ in 0..3 {
            let (mut stream, from) = listener.accept().unwrap();
            let told = told.clone();
            readers.push(thread::spawn(move || {
                if from.port() != 200 {
                    return drain(stream);
                }
                let n = stream.read(&mut [0; 1000]).unwrap() as u64;
                SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
                drop(stream);
                told.send(()).unwrap();
                n
            }));
        }
        readers.into_iter().map(|r| r.join().unwrap()).collect::<Vec<_>>()
    });
    let mut lanes = open(&veth, "", &[100, 200, 300]).unwrap();
    let packets = vec![7; 100_000];
    let mut rounds = 0;
    let mut hung_up = false;
    while !hung_up || counter(&*lanes[0], "stcp.ended") == 0 {
        // Told once.
        hung_up |= refused.try_recv().is_ok();
        lanes.iter_mut().for_each(|lane| lane.send(&packets, 1000).unwrap());
        rounds += 1;
        assert!(rounds < 100_000);
        thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..50 {
        lanes.iter_mut().for_each(|lane| lane.send(&packets, 1000).unwrap());
        rounds += 1;
    }
    lanes.iter_mut().for_each(|lane| lane.finish().unwrap());
    let get = |name: &str| counter(&*lanes[0], name);
    assert_eq!((get("stcp.ended"), get("stcp.offered")), (1, rounds * 300));
    assert_eq!(get("stcp.offered"), get("stcp.packets") + get("stcp.packets_lost"));
    assert!(get("stcp.packets_lost") >= 5000, "{}", get("stcp.packets_lost"));
    let lost = get("stcp.packets_lost") + get("stcp.packets_unacknowledged");
    assert_eq!(lanes.iter().map(|lane| lane.departed().failed).sum::<u64>(), lost);
    let parts: Vec<_> = lanes.iter().flat_map(|lane| lane.parts()).collect();
    let names: Vec<&str> = parts.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["port 100", "port 200", "port 300"]);
    let why = parts[1].ended.as_deref().unwrap();
    assert!(why.contains("port 200") && why.contains("reset"), "{why}");
    assert_eq!(
        value(&parts[1], "packets") - value(&parts[1], "packets_unacknowledged") + lost,
        rounds * 100
    );
    for part in [&parts[0], &parts[2]] {
        assert_eq!(part.ended, None);
        let get = |name| value(part, name);
        assert_eq!((get("packets"), get("packets_unacknowledged")), (rounds * 100, 0));
        assert!(get("rtt_least_ns") > 0 && get("rtt_least_ns") <= get("rtt_most_ns"), "{part:?}");
        assert!(get("srtt_ns") > 0 && get("rto_ns") >= 5_000_000, "{part:?}");
        assert!(get("window_least_bytes") <= get("window_most_bytes"), "{part:?}");
        let latencies = ["latency_p50_ns", "latency_p99_ns", "latency_most_ns"].map(get);
        assert!(latencies[0] > 0 && latencies.is_sorted(), "{part:?}");
    }
    drop(lanes);
    let mut read = reader.join().unwrap();
    read.sort();
    assert_eq!(read[1..], [rounds * 100_000; 2]);
}

/// Two streams share a lane and one reader holds: packets go to the other.
#[test]
fn a_stream_that_is_blocked_holds_up_no_other() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let listener = listen(&veth);
    let (go, wait) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let (held, _) = listener.accept().unwrap();
        let (read, _) = listener.accept().unwrap();
        let other = thread::spawn(move || drain(read));
        wait.recv().unwrap();
        [drain(held), other.join().unwrap()]
    });
    let mut lanes = open(&veth, "&buffer=128KiB&streams=2", &[]).unwrap();
    let packets = vec![7; 100_000];
    for _ in 0..200 {
        lanes[0].send(&packets, 1000).unwrap();
    }
    go.send(()).unwrap();
    lanes[0].finish().unwrap();
    assert_eq!(counter(&*lanes[0], "stcp.packets"), 20_000);
    drop(lanes);
    let [held, read] = reader.join().unwrap();
    assert_eq!(held + read, 20_000_000);
    assert!(held < read / 4, "{held} {read}");
}

/// Frames that are longer than the interface takes are refused before anything is sent.
#[test]
fn an_mtu_above_the_interfaces_is_refused() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    let listener = listen(&veth);
    let said = open(&veth, "", &[]).err().expect("9000 on 1500").to_string();
    assert!(["mtu=9000", NAME, "1500"].iter().all(|part| said.contains(part)), "{said}");
    // Ports of their own: the kernel still holds the end of the first connection, which nobody acknowledges.
    for (driver, port) in [(Driver::Packet, 10), (Driver::Xdp, 11)] {
        let setup = RawSetup::new(NAME, driver, [10, 77, 0, 9]);
        let mut link = veth.sending(|| RawLink::open(setup)).unwrap();
        let peer = ([10, 77, 0, 2], PORT);
        let long = link.add(peer, port, StcpSettings { mtu: 1501, ..StcpSettings::daq() }, 1 << 16);
        assert!(matches!(long, Err(RawError::Mtu { mtu: 1501, most: 1500, .. })), "{long:?}");
        let settings = StcpSettings { mtu: 1500, ..StcpSettings::daq() };
        let at = link.add(peer, port, settings, 1 << 16).unwrap();
        let begun = Instant::now();
        while link.stream(at).sender().state() != StcpState::Established {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", link.notice(at));
            if !link.turn().unwrap() {
                link.wait(Duration::from_millis(20)).unwrap();
            }
        }
        drop(listener.accept().unwrap());
    }
}
