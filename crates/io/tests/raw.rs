//! The simplified TCP on a veth pair, into the real Linux stack: every byte compared, backwards pressure, RSTs.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fullcount_core::destination::{DestinationKind, DestinationOpening};
use fullcount_core::sim::Spec;
use fullcount_io::raw::{Driver, FrameFile, RawLink, RawSetup, StcpDestination};
use fullcount_stcp::wire::{ChecksumTrust, Packet, parse};
use fullcount_stcp::{Ended, Pressure, StcpCounters, StcpSettings, StcpState, SubmitError};
use fullcount_testing::veth::{NAME, RECEIVER, SENDER, Veth};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

const PORT: u16 = 5000;
/// Neither the interface's own, nor anybody's.
const OWN: [u8; 4] = [10, 77, 0, 9];
const PEER: [u8; 4] = [10, 77, 0, 2];

fn link(veth: &Veth, offload: bool) -> RawLink {
    faulty(veth, offload, "")
}

fn faulty(veth: &Veth, offload: bool, fault: &str) -> RawLink {
    let fault = if fault.is_empty() { Spec::default() } else { fault.parse().unwrap() };
    keyed(veth, (offload, fault), 2)
}

fn keyed(veth: &Veth, (offload, fault): (bool, Spec), key: u64) -> RawLink {
    let plain = RawSetup::new(NAME, Driver::Packet, OWN);
    veth.sending(|| RawLink::open(RawSetup { offload, key: [1, key], fault, ..plain }).unwrap())
}

/// Bound on what should take a second: only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Turns until `done`, as long as the first stream gets on: a busy host may take any time for a gigabyte.
fn until(link: &mut RawLink, what: &str, mut done: impl FnMut(&mut RawLink) -> bool) {
    let (mut end, mut before) = (Instant::now() + PATIENCE, None);
    while !done(link) {
        if Instant::now() >= end {
            let una = Some(link.stream(0).sender().snapshot().una);
            assert!(una != before, "{what}: {:?} {:?}", link.stream(0).sender(), link.counters());
            (end, before) = (Instant::now() + PATIENCE, una);
        }
        if !link.turn().unwrap() {
            link.wait(Duration::from_millis(20)).unwrap();
        }
    }
}

/// The stream repeats after so many bytes: a prime, so that nothing that is misplaced fits.
const PERIOD: u64 = 8_388_593;
/// Longest piece of it.
const PIECE: usize = 1 << 18;

/// `n` bytes of the stream from `at` on.
fn piece(at: u64, n: usize) -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let byte = |at: u64| ((at % PERIOD).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
        (0..PERIOD + PIECE as u64).map(byte).collect()
    });
    &BYTES[(at % PERIOD) as usize..][..n]
}

fn byte(at: u64) -> u8 {
    piece(at, 1)[0]
}

/// Where a reader stops, and for how long.
pub(crate) type Pause = (u64, Duration);
pub(crate) const NO_PAUSE: Pause = (u64::MAX, Duration::ZERO);
const PAUSE: Pause = (30 << 20, Duration::from_millis(500));

/// Reads `total` bytes or to the end; every byte must be the pattern. The end is an error: RST.
fn read_all(listener: &TcpListener, pause: Pause, total: u64) -> (u64, Option<std::io::ErrorKind>) {
    read_within(listener, pause, total, 2 * PATIENCE)
}

/// The same; `silence`: without a byte for so long it ends as well.
fn read_within(
    listener: &TcpListener,
    mut pause: Pause,
    total: u64,
    silence: Duration,
) -> (u64, Option<std::io::ErrorKind>) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(silence)).unwrap();
    let (mut buffer, mut at) = (vec![0; PIECE], 0u64);
    while at < total {
        if at >= pause.0 {
            thread::sleep(pause.1);
            pause = NO_PAUSE;
        }
        match stream.read(&mut buffer) {
            Ok(0) => return (at, None),
            Ok(n) => {
                assert!(buffer[..n] == *piece(at, n), "bytes {at} to {}", at + n as u64);
                at += n as u64;
            }
            // With a timeout a read is interrupted by signals that do nothing else.
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return (at, Some(e.kind())),
        }
    }
    (at, None)
}

/// Bytes of a transfer, and those of statement 51.
pub(crate) const SOME: u64 = 64 << 20;
pub(crate) const GIGABYTE: u64 = 1_000_000_000;

/// Fragments of 2048 bytes, with a reader that pauses in the middle.
pub(crate) fn transfer_over(
    veth: &Veth,
    offload: bool,
    fault: &str,
    total: u64,
    pause: Pause,
) -> StcpCounters {
    let clean = fault.is_empty();
    let listener = veth.receiving(|| TcpListener::bind((RECEIVER, PORT)).unwrap());
    let counted = transfer_through(faulty(veth, offload, fault), listener, clean, total, pause);
    if clean {
        // No leftover, and no RST of the local kernel.
        let sockets = veth.run(false, &["ss", "-tn"]);
        assert!(!sockets.contains("10.77.0.9"), "{sockets}");
    }
    counted
}

fn transfer_through(
    mut link: RawLink,
    listener: TcpListener,
    clean: bool,
    total: u64,
    pause: Pause,
) -> StcpCounters {
    let peer = match listener.local_addr().unwrap() {
        SocketAddr::V4(v4) => (v4.ip().octets(), v4.port()),
        SocketAddr::V6(_) => unreachable!(),
    };
    // Over a bad link the RST may be lost.
    let limit = if clean { u64::MAX } else { total };
    let reader = thread::spawn(move || read_all(&listener, pause, limit));
    let settings = StcpSettings { largest_fragment: 2048, ..StcpSettings::daq() };
    let at = link.add(peer, 10, settings, 1 << 20).unwrap();
    assert!(link.add(peer, 10, settings, 1 << 20).is_err(), "a port twice");
    until(&mut link, "connects", |l| l.stream(at).sender().state() == StcpState::Established);
    let (mut sent, mut busy) = (0, false);
    until(&mut link, "sends", |l| {
        while sent < total {
            let next = piece(sent, (total - sent).min(2048) as usize);
            match l.submit(at, next) {
                Ok(accepted) => {
                    busy |= accepted.pressure == Pressure::Busy;
                    sent = accepted.end;
                }
                Err(SubmitError::WouldBlock) => return false,
                Err(e) => panic!("{e}: {:?}", l.stream(at).sender()),
            }
        }
        l.flush(at);
        let s = l.stream(at).sender().snapshot();
        s.una == s.end
    });
    assert!(busy || pause == NO_PAUSE, "the pause of the reader reaches the source");
    link.abort(at);
    until(&mut link, "aborts", |l| !l.turn().unwrap());
    let (read, end) = reader.join().unwrap();
    let reset = Some(std::io::ErrorKind::ConnectionReset);
    assert_eq!((read, end), (total, reset.filter(|_| clean)));
    let c = *link.stream(at).sender().memory().counted();
    assert_eq!((c.acked_bytes, c.fragment_bytes), (total, total));
    assert_eq!(link.counters().malformed, 0);
    c
}

/// Loss, duplication and reordering of frames in both directions.
#[test]
fn s51_every_byte_arrives_over_a_bad_link() {
    for (offload, fault) in [
        (false, "loss=0.01,seed=1"),
        (false, "loss=0.005,duplicate=0.01,swap=0.02,delay=0.01,by=4,seed=2"),
        (true, "loss=0.01,duplicate=0.02,swap=0.02,seed=3"),
    ] {
        // A network of its own for each: a connection whose RST was lost stays.
        let Some(veth) = Veth::new(9000, 1) else { return };
        let c = transfer_over(&veth, offload, fault, SOME, PAUSE);
        assert!(c.again_fast + c.again_rto + c.again_partial > 20, "{fault}: {c:?}");
    }
}

/// Four streams on one link, each to a connection of its own.
#[test]
fn streams_share_a_link() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let listener = veth.receiving(|| TcpListener::bind((RECEIVER, PORT)).unwrap());
    let reader = thread::spawn(move || {
        let of = |listener: &TcpListener| read_all(listener, NO_PAUSE, u64::MAX);
        thread::scope(|scope| {
            let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| of(&listener))).collect();
            readers.into_iter().map(|r| r.join().unwrap().0).collect::<Vec<u64>>()
        })
    });
    let mut link = link(&veth, true);
    let at: Vec<usize> = (0..4)
        .map(|i| link.add((PEER, PORT), 10 + i, StcpSettings::daq(), 1 << 20).unwrap())
        .collect();
    let total = 8u64 << 20;
    let pattern: Vec<u8> = (0..total).map(byte).collect();
    let mut sent = [0usize; 4];
    until(&mut link, "sends", |l| {
        for (&at, sent) in at.iter().zip(&mut sent) {
            while *sent < pattern.len() && l.submit(at, &pattern[*sent..*sent + 4096]).is_ok() {
                *sent += 4096;
            }
            l.flush(at);
        }
        at.iter().all(|&at| l.stream(at).sender().snapshot().una == total)
    });
    at.iter().for_each(|&at| link.abort(at));
    until(&mut link, "aborts", |l| !l.turn().unwrap());
    assert_eq!(reader.join().unwrap(), [total; 4]);
}

#[test]
fn s51_a_gigabyte_arrives_with_one_segment_a_frame() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    transfer_over(&veth, false, "", GIGABYTE, NO_PAUSE);
}

#[test]
fn s51_a_gigabyte_arrives_with_segmentation_offload() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    transfer_over(&veth, true, "", GIGABYTE, NO_PAUSE);
}

#[test]
fn s51_a_gigabyte_arrives_with_one_in_a_hundred_lost() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    transfer_over(&veth, true, "loss=0.01,seed=1", GIGABYTE, NO_PAUSE);
}

/// The window closes, probes flow, the source goes busy; afterwards everything arrives.
#[test]
fn s52_a_reader_that_stops_for_2_s_holds_the_source_and_loses_nothing() {
    for offload in [false, true] {
        let Some(veth) = Veth::new(9000, 1) else { return };
        // Linux may drop what its full buffer cannot hold in place of closing the window: such a try says nothing of probes.
        let mut tries = (0..TRIES).map(|_| {
            let c = transfer_over(&veth, offload, "", SOME, (30 << 20, Duration::from_secs(2)));
            assert!(c.busy_ns > 1_000_000_000, "{c:?}");
            c
        });
        let closed = |c: &StcpCounters| {
            c.zero_windows > 0
                && c.zero_window_ns > 100_000_000
                && c.probes > 0
                && c.probe_answers > 0
        };
        assert!(tries.any(|c| closed(&c)), "the window was never closed, offload {offload}");
    }
}

/// What the statements allow between an event at the peer and its notice.
const AT_ONCE: Duration = Duration::from_millis(10);
/// A try that the host's scheduler interrupted is repeated.
const TRIES: usize = 10;

#[test]
fn s55_nobody_listens() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let mut link = link(&veth, false);
    let at = link.add((PEER, PORT), 10, StcpSettings::daq(), 1 << 16).unwrap();
    let mut took = vec![];
    for n in 1..=TRIES as u64 {
        // From the SYN on: before it the own address is probed and the neighbour looked for.
        until(&mut link, "a SYN", |l| l.stream(at).sender().memory().counted().syns == n);
        let begin = Instant::now();
        until(&mut link, "refused", |l| l.stream(at).sender().state() == StcpState::Closed);
        took.push(begin.elapsed());
        assert_eq!(link.ended(at), Some(Ended::Refused));
        if took[took.len() - 1] < AT_ONCE {
            return;
        }
        link.open_again(at).unwrap();
    }
    panic!("{took:?}");
}

#[test]
fn s56_the_peer_closes() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let listener = veth.receiving(|| TcpListener::bind((RECEIVER, PORT)).unwrap());
    let mut link = link(&veth, false);
    let at = link.add((PEER, PORT), 10, StcpSettings::daq(), 1 << 16).unwrap();
    let mut took = vec![];
    for _ in 0..TRIES {
        until(&mut link, "connects", |l| l.stream(at).sender().state() == StcpState::Established);
        let peer = listener.accept().unwrap();
        let begin = Instant::now();
        drop(peer);
        until(&mut link, "closed", |l| l.stream(at).sender().state() == StcpState::Closed);
        took.push(begin.elapsed());
        assert_eq!(link.ended(at), Some(Ended::PeerClosed));
        if took[took.len() - 1] < AT_ONCE {
            return;
        }
        until(&mut link, "its RST leaves", |l| !l.turn().unwrap());
        link.open_again(at).unwrap();
    }
    panic!("{took:?}");
}

/// The sender is gone without a word and comes again with the same ports: Linux still holds the old connection.
#[test]
fn s53_a_restart_with_the_same_ports_connects_again() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let listener = veth.receiving(|| TcpListener::bind((RECEIVER, PORT)).unwrap());
    // With the same secret, one that opens in the same 4 µs repeats the SYN that Linux knows.
    let open = |key| {
        let mut link = keyed(&veth, (false, Spec::default()), key);
        let at = link.add((PEER, PORT), 10, StcpSettings::daq(), 1 << 16).unwrap();
        until(&mut link, "connects", |l| l.stream(at).sender().state() == StcpState::Established);
        (link, at)
    };
    drop(open(0));
    let mut took = vec![];
    for n in 1..=TRIES {
        let old = listener.accept().unwrap().0;
        let begin = Instant::now();
        let (again, at) = open(n as u64);
        took.push(begin.elapsed());
        assert!(again.stream(at).sender().memory().counted().half_open > 0);
        old.set_read_timeout(Some(PATIENCE)).unwrap();
        let end = (&old).read(&mut [0; 8]).unwrap_err();
        assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
        if took[took.len() - 1] < Duration::from_millis(1500) {
            return;
        }
    }
    panic!("{took:?}");
}

#[test]
fn s50_linux_sees_large_segments_a_scale_and_nothing_else() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let listener = veth.receiving(|| TcpListener::bind((RECEIVER, PORT)).unwrap());
    let mut link = link(&veth, false);
    let at = link.add((PEER, PORT), 10, StcpSettings::daq(), 1 << 16).unwrap();
    until(&mut link, "connects", |l| l.stream(at).sender().state() == StcpState::Established);
    let _peer = listener.accept().unwrap();
    let said = veth.run(false, &["ss", "-tin", "state", "established"]);
    assert!(said.contains("10.77.0.9:10") && said.contains("mss:8960"), "{said}");
    assert!(said.contains("wscale:1,"), "{said}");
    assert!(!said.contains(" ts") && !said.contains("sack"), "{said}");
}

/// In the middle of a transfer with holes: one of the RSTs, or the answer to what the peer sends next, ends it there too. This
/// link may lose all of them, about once in a hundred: such a try says nothing.
#[test]
fn s54_an_abort_at_full_speed_leaves_nothing_behind() {
    let pattern: Vec<u8> = (0..16 << 20).map(byte).collect();
    for seed in 9..9 + TRIES {
        let Some(veth) = Veth::new(9000, 1) else { return };
        let listener = veth.receiving(|| TcpListener::bind((RECEIVER, PORT)).unwrap());
        let silence = Duration::from_secs(20);
        let reader = thread::spawn(move || read_within(&listener, NO_PAUSE, u64::MAX, silence));
        let mut link = faulty(&veth, true, &format!("loss=0.05,seed={seed}"));
        let at = link.add((PEER, PORT), 10, StcpSettings::daq(), 1 << 20).unwrap();
        let mut sent = 0;
        until(&mut link, "sends", |l| {
            let next = |sent: usize| &pattern[sent..sent + 8192];
            while sent + 8192 <= pattern.len() && l.submit(at, next(sent)).is_ok() {
                sent += 8192;
            }
            let counted = l.stream(at).sender().memory().counted();
            counted.again_fast + counted.again_rto > 2
        });
        link.abort(at);
        until(&mut link, "the peer ends too", |_| reader.is_finished());
        let (read, end) = reader.join().unwrap();
        assert!(read <= sent as u64);
        if end == Some(std::io::ErrorKind::WouldBlock) {
            continue;
        }
        assert_eq!(end, Some(std::io::ErrorKind::ConnectionReset));
        let sockets = veth.run(false, &["ss", "-tn"]);
        assert!(!sockets.contains("10.77.0.9"), "{sockets}");
        return;
    }
    panic!("no RST arrived in {TRIES} tries");
}

/// The peer forgets the sender's MAC address again and again.
#[test]
fn s57_the_peers_neighbour_entry_is_flushed() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                veth.run(false, &["ip", "neighbour", "flush", "dev", NAME]);
            }
        });
        transfer_over(&veth, true, "", SOME, PAUSE);
        done.store(true, Ordering::Relaxed);
    });
}

/// RSTs that a kernel sent, of `/proc/net/snmp`.
fn resets(veth: &Veth, sending: bool) -> u64 {
    let text = veth.run(sending, &["cat", "/proc/net/snmp"]);
    let rows: Vec<&str> = text.lines().filter(|l| l.starts_with("Tcp:")).collect();
    let at = rows[0].split(' ').position(|w| w == "OutRsts").unwrap();
    rows[1].split(' ').nth(at).unwrap().parse().unwrap()
}

/// Own MAC and own address, the interface's MAC with an address that it has not, and an own MAC with the interface's address.
#[test]
fn s58_the_local_kernel_keeps_out_of_it() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let text = veth.run(true, &["cat", &format!("/sys/class/net/{NAME}/address")]);
    let mut mac = [0; 6];
    for (to, from) in mac.iter_mut().zip(text.trim().split(':')) {
        *to = u8::from_str_radix(from, 16).unwrap();
    }
    let before = resets(&veth, true);
    let usual = RawSetup::new(NAME, Driver::Packet, OWN);
    let variants = [
        usual.clone(),
        RawSetup { mac: Some(mac), ..usual.clone() },
        RawSetup { address: SENDER.parse::<Ipv4Addr>().unwrap().octets(), ..usual },
    ];
    for (i, setup) in variants.into_iter().enumerate() {
        let port = PORT + i as u16;
        let listener = veth.receiving(|| TcpListener::bind((RECEIVER, port)).unwrap());
        let link = veth.sending(|| RawLink::open(setup).unwrap());
        transfer_through(link, listener, true, SOME, PAUSE);
        assert_eq!(resets(&veth, true), before, "variant {i}");
    }
}

/// A TAP device in a namespace: the kernel that listens is the far end of its wire.
#[test]
fn s58_every_byte_arrives_over_a_tap_device() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    for offload in [false, true] {
        let name = format!("fctap{}", u8::from(offload));
        let setup = RawSetup { offload, ..RawSetup::new(&name, Driver::Tap, [10, 78, 0, 9]) };
        let link = veth.receiving(|| RawLink::open(setup)).unwrap();
        veth.ip(&format!("address add 10.78.0.2/24 dev {name}"));
        veth.ip(&format!("link set {name} mtu 9000 up"));
        let listener = veth.receiving(|| TcpListener::bind(("10.78.0.2", PORT)).unwrap());
        transfer_through(link, listener, true, SOME, PAUSE);
        assert_eq!(resets(&veth, false), 0);
    }
}

#[test]
fn every_byte_arrives_over_af_xdp() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let setup = RawSetup::new(NAME, Driver::Xdp, OWN);
    let refused = RawSetup { offload: true, ..setup.clone() };
    assert!(veth.sending(|| RawLink::open(refused)).unwrap_err().to_string().contains("offload"));
    let link = veth.sending(|| RawLink::open(setup).unwrap());
    let listener = veth.receiving(|| TcpListener::bind((RECEIVER, PORT)).unwrap());
    transfer_through(link, listener, true, SOME, PAUSE);
}

#[test]
fn echo_requests_are_answered() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let mut link = link(&veth, false);
    let socket =
        veth.receiving(|| Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap());
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = SocketAddr::from((OWN, 0)).into();
    let answers = thread::scope(|scope| {
        let ping = scope.spawn(|| [1, 2].map(|n| echoed(&socket, &to, n)));
        while !ping.is_finished() {
            if !link.turn().unwrap() {
                link.wait(Duration::from_millis(20)).unwrap();
            }
        }
        ping.join().unwrap()
    });
    assert_eq!(answers, [1, 2].map(|n| echo(0, n)), "the request's own bytes, as a reply");
    assert_eq!(link.counters().echoes, 2);
}

/// A message of ICMP, RFC 792: 8 asks for an echo, 0 is one.
fn echo(kind: u8, number: u8) -> Vec<u8> {
    let mut bytes = vec![kind, 0, 0, 0, 0x12, 0x34, 0, number];
    bytes.extend((0..56).map(|n| n ^ number));
    let sum: u32 = bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Asks for an echo: what comes back from there, without its IPv4 header.
fn echoed(mut socket: &Socket, to: &SockAddr, number: u8) -> Vec<u8> {
    socket.send_to(&echo(8, number), to).unwrap();
    let mut packet = [0; 1500];
    loop {
        let n = socket.read(&mut packet).unwrap();
        if packet[12..16] == OWN {
            return packet[usize::from(packet[0] & 15) * 4..n].to_vec();
        }
    }
}

/// What went over the link, as a file: bounded, and its checksums are complete.
#[test]
fn frames_are_written_to_a_file_up_to_its_size() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.pcap");
    let listener = veth.receiving(|| TcpListener::bind((RECEIVER, PORT)).unwrap());
    let mut link = link(&veth, false);
    link.record(FrameFile::create(&path, 60_000).unwrap());
    assert!(FrameFile::create(&path, 1).is_err(), "nothing is replaced");
    let at = link.add((PEER, PORT), 10, StcpSettings::daq(), 1 << 17).unwrap();
    link.submit(at, &[7; 90_000]).unwrap();
    until(&mut link, "sends", |l| l.stream(at).sender().snapshot().una == 90_000);
    drop(listener);
    let frames = link.take_file().unwrap().finish().unwrap();
    assert!(link.counters().recorded == frames && link.counters().not_recorded > 0);
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.len() <= 60_000 && frames > 8, "{} {frames}", bytes.len());
    let (mut at, mut segments) = (24, 0);
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        let frame = &bytes[at + 16..at + 16 + length];
        if frame[12..14] == [8, 0] {
            let us = if frame[26..30] == OWN { PEER } else { OWN };
            let whole = parse(&frame[14..], us, ChecksumTrust::Check);
            assert!(matches!(whole, Ok(Packet::Tcp { .. })), "{whole:?}");
            segments += 1;
        }
        at += 16 + length;
    }
    assert!(segments > 6, "{segments}");
}

/// Two lanes of one link, each to a connection of its own, with the packets' lengths in front.
#[test]
fn packets_of_a_destination_arrive_on_the_lanes_ports() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let listener = veth.receiving(|| TcpListener::bind((RECEIVER, PORT)).unwrap());
    let reader = thread::spawn(move || {
        let read = |_| {
            let (mut stream, from) = listener.accept().unwrap();
            let mut all = vec![];
            let end = stream.read_to_end(&mut all).unwrap_err().kind();
            assert_eq!(end, std::io::ErrorKind::ConnectionReset);
            (from.port(), all)
        };
        let mut both: Vec<(u16, Vec<u8>)> = (0..2).map(read).collect();
        both.sort();
        both
    });
    let url = format!("stcp://{RECEIVER}:{PORT}?interface={NAME}&address=10.77.0.9&framing=u16le");
    let endpoint = StcpDestination.plan(&url).unwrap();
    let opening = DestinationOpening { source_ports: &[100, 200], ..Default::default() };
    let mut lanes = veth.sending(|| endpoint.open(&opening)).unwrap();
    assert!(lanes.iter().all(|lane| lane.lossless()));
    let packets: Vec<u8> = (0..100_000).map(byte).collect();
    lanes[0].send(&packets, 1000).unwrap();
    lanes[1].send(&packets[..700], 300).unwrap();
    lanes[1].send(&[], 0).unwrap();
    assert!(lanes[1].send(&vec![0; 70_000], 0).is_err(), "its length has two bytes");
    lanes.iter_mut().for_each(|lane| lane.finish().unwrap());
    let departed = [lanes[0].departed(), lanes[1].departed()];
    assert_eq!(departed.map(|d| (d.datagrams, d.failed)), [(100, 0), (4, 1)]);
    let sheet = lanes[0].sheet();
    let names: Vec<_> = sheet.lines().iter().map(|info| info.name.to_string()).collect();
    let get = |name: &str| sheet.get(names.iter().position(|n| n == name).unwrap());
    assert_eq!((get("stcp.offered"), get("stcp.packets"), get("stcp.failed")), (105, 104, 1));
    assert_eq!((get("stcp.connections"), get("stcp.unacknowledged")), (2, 0));
    assert_eq!(get("stcp.stream.acked_bytes"), 100_200 + 708);
    drop(lanes);
    let both = reader.join().unwrap();
    assert_eq!(both.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [100, 200]);
    let wire = |packets: &[&[u8]]| -> Vec<u8> {
        let framed = |p: &&[u8]| [&(p.len() as u16).to_le_bytes()[..], p].concat();
        packets.iter().flat_map(framed).collect()
    };
    assert_eq!(both[0].1, wire(&packets.chunks(1000).collect::<Vec<_>>()));
    assert_eq!(both[1].1, wire(&[&packets[..300], &packets[300..600], &packets[600..700], &[]]));
    let nobody = StcpDestination.plan(&url.replace(":5000", ":5001")).unwrap();
    let opened = veth.sending(|| nobody.open(&DestinationOpening::default()));
    let said = opened.err().expect("nobody listens");
    assert!(said.to_string().contains("nobody listens"), "{said}");
}
