use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use fullcount_core::ledger::Ledger;
use fullcount_core::progress::BatchNumber;
use fullcount_core::source::conformance::{Give, SourceCase, Twin, source};
use fullcount_core::source::{OpenedSource, StreamCredit, StreamPhase};
use fullcount_core::url;

use super::*;
use crate::source::register;

const PATIENCE: Duration = Duration::from_secs(60);

fn framed(packets: &[Vec<u8>]) -> Vec<u8> {
    let one = |p: &Vec<u8>| [&(p.len() as u32).to_be_bytes()[..], p].concat();
    packets.iter().flat_map(one).collect()
}

fn open(keys: &str) -> (TcpSource, SocketAddr) {
    let url: TcpUrl = url::read(&format!("tcp://127.0.0.1:0{keys}")).unwrap();
    let source = TcpSource::open(&url, url.framing.unwrap_or(FrameRule::PREFIXES[2])).unwrap();
    let local = source.local_addr().unwrap();
    (source, local)
}

/// Packets with their senders.
type Came = Vec<(Origin, Vec<u8>)>;

/// Calls until `enough`, or for a minute.
fn until(
    source: &mut TcpSource,
    came: &mut Came,
    enough: impl Fn(&Came, &TcpSource) -> bool,
) -> bool {
    let (began, mut batch) = (Instant::now(), source.batch());
    while began.elapsed() < PATIENCE {
        if enough(came, source) {
            return true;
        }
        match source.recv(&mut batch, Duration::from_millis(5)).unwrap() {
            Received::End => return enough(came, source),
            _ => {
                let chunks =
                    batch.trains().flat_map(|t| t.chunks().map(move |c| (t.origin, c.to_vec())));
                came.extend(chunks);
            }
        }
    }
    false
}

fn get(source: &TcpSource, line: TcpCounter) -> u64 {
    source.sheet().get(line as usize)
}

#[test]
fn it_passes_the_suite_listening_on_both_families_and_connecting() {
    let mut sources = fullcount_core::source::Sources::default();
    register(&mut sources);
    let refused = [
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:1?framing=u8",
        "tcp://127.0.0.1:0?connect",
        "tcp://127.0.0.1:1?frame_max=1GiB",
        "tcp://127.0.0.1:1?stall=1ms",
        "tcp:a:1",
    ];
    for (url, ends) in [
        ("tcp://127.0.0.1:0?framing=u32be", false),
        ("tcp://127.0.0.1:0?framing=u32be&read=16KiB", false),
        ("tcp://[::1]:0", false),
        ("tcp://127.0.0.1:0?until=closed", true),
    ] {
        let mut held = Vec::new();
        let mut give = |opened: Option<&OpenedSource>, packets: &[Vec<u8>]| {
            let mut socket = TcpStream::connect(opened.unwrap().local.unwrap()).unwrap();
            socket.write_all(&framed(packets)).unwrap();
            if !ends {
                held.push(socket);
            }
        };
        let give: &mut Give<'_> = &mut give;
        let twin = Twin::Refused("is in use");
        let case = SourceCase { sources: &sources, url, refused: &refused, give, ends, twin };
        source(case).unwrap_or_else(|e| panic!("{url}: {e}"));
    }
}

#[test]
fn a_source_that_connects_comes_back_after_an_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}?connect", listener.local_addr().unwrap());
    let url: TcpUrl = url::read(&url).unwrap();
    let mut source = TcpSource::open(&url, FrameRule::PREFIXES[2]).unwrap();
    let mut came = Came::new();
    for turn in 1..=3usize {
        let writer = std::thread::spawn({
            let listener = listener.try_clone().unwrap();
            move || {
                let mut peer = listener.accept().unwrap().0;
                peer.write_all(&framed(&[vec![turn as u8; 3]])).unwrap();
            }
        });
        assert!(until(&mut source, &mut came, |came, _| came.len() == turn));
        writer.join().unwrap();
        assert!(until(&mut source, &mut came, |_, s| get(s, TcpCounter::Ended) == turn as u64));
    }
    assert_eq!(get(&source, TcpCounter::Again), 2);
}

#[test]
fn hostile_streams_are_closed_and_counted_and_the_others_go_on() {
    let (mut source, local) = open("?frame_max=64KiB");
    let connect = || TcpStream::connect(local).unwrap();
    let (mut good, mut long, mut cut) = (connect(), connect(), connect());
    good.write_all(&framed(&[vec![1; 10]])).unwrap();
    // Its first packet is good, what follows would be 4 GiB.
    long.write_all(&framed(&[vec![2; 10]])).unwrap();
    long.write_all(&[0xff; 100]).unwrap();
    cut.write_all(&[0, 0, 0, 9, 1, 2]).unwrap();
    drop(cut);
    let mut came = Came::new();
    assert!(until(&mut source, &mut came, |came, s| {
        came.len() == 2 && get(s, TcpCounter::Long) == 1 && get(s, TcpCounter::Cut) == 1
    }));
    let mut answer = [0; 1];
    assert!(matches!(long.read(&mut answer), Ok(0) | Err(_)));
    good.write_all(&framed(&[vec![3; 10]])).unwrap();
    assert!(until(&mut source, &mut came, |came, _| came.len() == 3));
    assert_eq!(get(&source, TcpCounter::Streams), 1);
    let ledger = Ledger::default();
    ledger.register(source.sheet());
    assert_eq!(ledger.read().balance(), 0);
}

#[test]
fn packets_longer_than_a_read_come_whole() {
    let (mut source, local) = open("?read=16KiB&frame_max=1MiB");
    let packets: Vec<Vec<u8>> =
        [10usize, 300_000, 0, 9000, 12_000, 1_000_000, 20].map(|n| vec![n as u8; n]).into();
    let bytes = framed(&packets);
    let writer = std::thread::spawn(move || {
        let mut socket = TcpStream::connect(local).unwrap();
        socket.write_all(&bytes).unwrap();
        socket
    });
    let mut came = Came::new();
    assert!(until(&mut source, &mut came, |came, _| came.len() == packets.len()));
    assert!(came.iter().zip(&packets).all(|(a, b)| a.1 == *b));
    drop(writer.join().unwrap());
}

#[test]
fn a_stream_without_credit_waits_and_the_others_do_not() {
    let (mut source, local) = open("");
    let table = source.streams().unwrap();
    table.begin_with(0);
    let mut sockets: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(local).unwrap()).collect();
    for (socket, n) in sockets.iter_mut().zip(1..) {
        socket.write_all(&framed(&[vec![n; 100], vec![n; 100]])).unwrap();
    }
    let mut came = Came::new();
    assert!(until(&mut source, &mut came, |_, s| get(s, TcpCounter::Pauses) == 3));
    assert!(came.is_empty());
    let all: Vec<Arc<StreamCredit>> =
        source.connections.iter().flatten().map(|one| one.credit.clone()).collect();
    let credit = |n: usize| &all[n];
    credit(1).allow(1);
    assert!(until(&mut source, &mut came, |came, _| came.len() == 2));
    assert!(came.iter().all(|(_, bytes)| bytes[0] == 2));
    // A credit of 0 more, and a refusal.
    credit(0).refuse("source 3");
    credit(2).allow(u64::MAX);
    assert!(until(&mut source, &mut came, |came, s| {
        came.len() == 4 && get(s, TcpCounter::Unwanted) == 1
    }));
    assert!(credit(1).number() == 2 && credit(2).phase() == StreamPhase::Open);
    drop(sockets.pop());
    drop(sockets.remove(0));
    assert!(until(&mut source, &mut came, |_, s| get(s, TcpCounter::Ended) == 1));
}

#[test]
fn a_stream_that_an_event_waits_for_is_read_before_those_that_are_ahead() {
    let (mut source, local) = open("");
    let mut sockets: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(local).unwrap()).collect();
    let mut send = |n: u8| {
        for (socket, stream) in sockets.iter_mut().zip(0..) {
            socket.write_all(&framed(&[vec![10 * n + stream; 100]])).unwrap();
        }
    };
    let mut came = Came::new();
    send(0);
    assert!(until(&mut source, &mut came, |came, _| came.len() == 3));
    let all: Vec<Arc<StreamCredit>> =
        source.connections.iter().flatten().map(|one| one.credit.clone()).collect();
    // All three are there before one of them is read.
    all.iter().for_each(|credit| credit.allow(100));
    send(1);
    assert!(until(&mut source, &mut came, |_, s| get(s, TcpCounter::Pauses) == 3));
    for (credit, behind) in all.iter().zip([StreamCredit::AHEAD, 99, 100]) {
        credit.await_behind(behind);
        credit.allow(u64::MAX);
    }
    assert!(until(&mut source, &mut came, |came, _| came.len() == 6));
    assert_eq!(came[3].1[0], 12);
}

#[test]
fn a_hang_up_is_known_before_the_next_connection_speaks() {
    let (mut source, local) = open("");
    let mut came = Came::new();
    for _ in 0..50 {
        let mut first = TcpStream::connect(local).unwrap();
        first.write_all(&framed(&[vec![1; 10]])).unwrap();
        let before = came.len();
        assert!(until(&mut source, &mut came, |came, _| came.len() > before));
        let origin = came.last().unwrap().0;
        let mut known = source.connections.iter().flatten();
        let credit = known.find(|one| one.origin == origin).unwrap().credit.clone();
        drop(first);
        let mut second = TcpStream::connect(local).unwrap();
        second.write_all(&framed(&[vec![2; 10]])).unwrap();
        let before = came.len();
        assert!(until(&mut source, &mut came, |came, _| came.len() > before));
        assert_ne!(credit.phase(), StreamPhase::Open);
    }
}

#[test]
fn silence_and_too_many_streams_are_named() {
    let (mut source, local) = open("?max_streams=2&stall=100ms");
    let sockets: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(local).unwrap()).collect();
    let mut came = Came::new();
    assert!(until(&mut source, &mut came, |_, s| {
        get(s, TcpCounter::Many) == 1 && get(s, TcpCounter::Stalls) == 2
    }));
    assert_eq!((get(&source, TcpCounter::Stalled), sockets.len()), (2, 3));
    let mut batch = source.batch();
    batch.set_number(BatchNumber { pipeline: 1, batch: 2 });
    source.recv(&mut batch, Duration::ZERO).unwrap();
    assert_eq!(batch.number().batch, 2);
}
