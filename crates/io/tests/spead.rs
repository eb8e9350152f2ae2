//! Heaps over real sockets: every transport, both framings, several senders, resets, lost ends, carried packets.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fullcount_core::source::{Received, SourceOpening, SourceSetup, Sources};
use fullcount_io::endpoint::UdpUrl;
use fullcount_io::spead::{
    HeapsJob, HeapsSent, IntakeCounter, IntakeStep, SpeadFraming, SpeadInput, SpeadIntake,
    SpeadOutlet, SpeadOutput, SpeadUrl, TcpIntake, TcpIntakeOptions, TestValues, carrier,
    end_when_stalled,
};
use fullcount_io::udp::{ReceiveOptions, UdpSource};
use fullcount_spead::Flavour;
use fullcount_spead::receive::{Delivery, OnIncomplete, SpeadCounter, StreamEnd};
use fullcount_spead::send::{HeapSender, OutHeap, Packetiser, SendHow, SenderConfig};
use socket2::SockRef;

/// Bound on what should take a second: only a hang meets it.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub fn output(text: &str) -> SpeadUrl<SpeadOutput> {
    SpeadUrl::read(text).unwrap()
}

/// Sends a job from a thread of its own.
pub fn send(url: String, job: HeapsJob, rate: f64) -> std::thread::JoinHandle<HeapsSent> {
    std::thread::spawn(move || {
        let mut outlet = SpeadOutlet::open(&[output(&url)], rate).unwrap();
        job.run(&mut outlet, &|| false, &|_| {}).unwrap()
    })
}

/// Reads until the stream has ended; how it ended, and what it delivered.
pub fn receive(intake: &mut SpeadIntake) -> (StreamEnd, Vec<Delivery>) {
    let (mut all, begun) = (vec![], Instant::now());
    loop {
        let step = intake.step(Duration::from_millis(20), &mut |heap, _| all.push(heap)).unwrap();
        if let IntakeStep::Ended(why) = step {
            return (why, all);
        }
        assert!(begun.elapsed() < PATIENCE, "it hangs: {:?}", intake.stream().statistics());
    }
}

/// Reads until so many bytes of connections have come.
pub fn read_bytes(intake: &mut SpeadIntake, bytes: usize) {
    let begun = Instant::now();
    while intake.stream_bytes() < bytes as u64 {
        intake.step(Duration::from_millis(20), &mut |_, _| {}).unwrap();
        assert!(begun.elapsed() < PATIENCE, "{} of {bytes} bytes", intake.stream_bytes());
    }
}

/// Every heap has the values of the job.
pub fn good(all: Vec<Delivery>, job: &HeapsJob) -> usize {
    let heaps = all.into_iter().filter_map(Delivery::heap);
    heaps
        .map(|heap| assert_eq!(TestValues::mismatch(&heap, job), None, "heap {}", heap.cnt))
        .count()
}

pub fn balanced(intake: &SpeadIntake) {
    let sheet = intake.sheet();
    let get = |line: SpeadCounter| sheet.get(line as usize);
    let refused: u64 =
        (SpeadCounter::Short as usize..=SpeadCounter::Stopped as usize).map(|n| sheet.get(n)).sum();
    assert_eq!(get(SpeadCounter::Packets), get(SpeadCounter::Accepted) + refused);
    let ended = [
        SpeadCounter::Complete,
        SpeadCounter::Contiguous,
        SpeadCounter::Control,
        SpeadCounter::Incomplete,
    ];
    assert_eq!(get(SpeadCounter::Heaps), ended.map(get).iter().sum::<u64>());
}

pub fn udp(told: &SpeadInput) -> (SpeadIntake, SocketAddr) {
    let source = UdpSource::open(&UdpUrl::new(any()), &ReceiveOptions::default()).unwrap();
    let at = source.local_addr();
    let mut intake = SpeadIntake::new(told).unwrap();
    intake.add_source(Box::new(source));
    (intake, at)
}

#[test]
fn heaps_over_udp_have_their_values_whatever_the_packet_size() {
    for ((packet, items, heap_size), gather) in
        [(1472, 1, 400_000), (65_507, 3, 1 << 20), (56, 2, 4000), (8972, 1, 4)]
            .into_iter()
            .flat_map(|shape| [(shape, 1), (shape, 0)])
    {
        let job =
            HeapsJob { heap_size, items, heaps: Some(6), verify: true, ..HeapsJob::default() };
        let (mut intake, at) = udp(&SpeadInput::default());
        let url = format!("spead+udp://{at}?packet={packet}&burst=16KiB&gather={gather}");
        let sender = send(url, job.clone(), 50e6);
        let (why, all) = receive(&mut intake);
        assert_eq!(why, StreamEnd::StopItem);
        assert_eq!(good(all, &job), 6, "{packet} B");
        let sent = sender.join().unwrap();
        assert_eq!((sent.heaps, sent.counts.packet_bytes), (6, sent.transport.bytes));
        // A stop heap of two packets ends the stream with its first.
        assert!(sent.counts.packets - intake.stream().statistics().packets <= 1);
        balanced(&intake);
    }
}

pub fn tcp(options: TcpIntakeOptions, told: &SpeadInput) -> (SpeadIntake, SocketAddr) {
    let mut told = told.clone();
    (told.config.stops, told.config.readers) = (options.senders, options.senders);
    let listening = TcpIntake::listen(&UdpUrl::new(any()), options).unwrap();
    let at = listening.local_addr().unwrap();
    let mut intake = SpeadIntake::new(&told).unwrap();
    intake.add_tcp(listening);
    (intake, at)
}

#[test]
fn several_senders_fill_one_stream_over_tcp_in_both_framings() {
    for (framing, word) in [(SpeadFraming::Packets, "packets"), (SpeadFraming::Heap, "heap")] {
        let (mut intake, at) = tcp(
            TcpIntakeOptions { senders: 2, framing, ..TcpIntakeOptions::default() },
            &SpeadInput {
                config: fullcount_spead::ReceiverConfig { max_heaps: 8, ..Default::default() },
                ..SpeadInput::default()
            },
        );
        let job = HeapsJob {
            heap_size: 300_000,
            items: 2,
            heaps: Some(5),
            verify: true,
            ..HeapsJob::default()
        };
        let of = |first| HeapsJob { numbers: (first, 2), ..job.clone() };
        let url = format!("spead+tcp://{at}?framing={word}&packet=9000");
        let senders = [send(url.clone(), of(1), 0.0), send(url, of(2), 0.0)];
        let (why, all) = receive(&mut intake);
        assert!(matches!(why, StreamEnd::StopItem | StreamEnd::Readers));
        assert_eq!(good(all, &job), 10, "{word}");
        for sender in senders {
            let sent = sender.join().unwrap();
            assert_eq!(sent.counts.packet_bytes, sent.transport.bytes);
            assert_eq!(
                sent.transport.sent_bytes.map(|n| n - sent.transport.again_bytes.unwrap()),
                Some(sent.transport.bytes)
            );
        }
        balanced(&intake);
        assert_eq!(intake.stream().losses().bytes, 0);
    }
}

fn counted(intake: &SpeadIntake, line: IntakeCounter) -> u64 {
    intake.sheet().get(SpeadCounter::LINES + line as usize)
}

/// Reads until the counter has come so far.
fn until_counted(intake: &mut SpeadIntake, line: IntakeCounter, least: u64) {
    let begun = Instant::now();
    while counted(intake, line) < least {
        intake.step(Duration::from_millis(20), &mut |_, _| {}).unwrap();
        assert!(begun.elapsed() < PATIENCE, "{} of {least}", counted(intake, line));
    }
}

/// A sender has its place: its three heaps come, and its end is the stream's.
fn three_heaps_come(intake: &mut SpeadIntake, at: SocketAddr, framing: &str) {
    let job = HeapsJob { heap_size: 100_000, heaps: Some(3), verify: true, ..HeapsJob::default() };
    let sender = send(format!("spead+tcp://{at}?framing={framing}"), job.clone(), 0.0);
    let (why, all) = receive(intake);
    assert!(matches!(why, StreamEnd::StopItem | StreamEnd::Readers), "{why:?}");
    assert_eq!(good(all, &job), 3, "{framing}");
    sender.join().unwrap();
}

/// Number 5 of what users of spead2 meet: one system call for each packet.
#[test]
fn no_5_many_packets_leave_a_connection_in_one_call() {
    for gather in [0, 1] {
        let (mut intake, at) = tcp(TcpIntakeOptions::default(), &SpeadInput::default());
        let job = HeapsJob { heap_size: 1 << 20, heaps: Some(4), ..HeapsJob::default() };
        let url = format!("spead+tcp://{at}?packet=1472&gather={gather}");
        let sender = send(url, job.clone(), 0.0);
        assert_eq!(receive(&mut intake).0, StreamEnd::StopItem);
        let sent = sender.join().unwrap();
        let (packets, calls) = (sent.counts.packets, sent.transport.calls);
        // The socket may take a part of what it is given.
        assert!(calls > 0 && 8 * calls < packets, "{calls} calls for {packets} packets");
        balanced(&intake);
    }
}

#[test]
fn visitors_that_send_nothing_take_no_senders_place() {
    for (framing, word) in [(SpeadFraming::Packets, "packets"), (SpeadFraming::Heap, "heap")] {
        let options = TcpIntakeOptions { framing, ..TcpIntakeOptions::default() };
        let (mut intake, at) = tcp(options, &SpeadInput::default());
        // Six more than may stay.
        let visitors: Vec<TcpStream> = (0..70)
            .map(|_| {
                let visitor = TcpStream::connect(at).unwrap();
                intake.step(Duration::ZERO, &mut |_, _| panic!("nothing was sent")).unwrap();
                visitor
            })
            .collect();
        until_counted(&mut intake, IntakeCounter::Connections, 70);
        three_heaps_come(&mut intake, at, word);
        assert_eq!(counted(&intake, IntakeCounter::Silent), 7, "six, and one for the sender");
        drop(visitors);
        balanced(&intake);
    }
}

#[test]
fn visitors_that_send_something_else_take_no_senders_place_and_end_nothing() {
    for (framing, word) in [(SpeadFraming::Packets, "packets"), (SpeadFraming::Heap, "heap")] {
        let options = TcpIntakeOptions { framing, ..TcpIntakeOptions::default() };
        let mut told = SpeadInput::default();
        (told.config.stall_timeout_ns, told.config.stall_ends) = (1_000_000_000, true);
        let (mut intake, at) = tcp(options, &told);
        let visit = |bytes: &[u8]| {
            let mut visitor = TcpStream::connect(at).unwrap();
            visitor.write_all(bytes).unwrap();
            visitor
        };
        // One stays with a byte, one with a question, one with half of a header; two go. They begin no stream that could stall.
        let request = b"GET / HTTP/1.1\r\nHost: daq\r\n\r\n";
        let half = &packets(100)[..5];
        let stay = [visit(&[7]), visit(request), visit(half)];
        drop([visit(request), visit(half)]);
        read_bytes(&mut intake, 2 * request.len() + 2 * half.len() + 1);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1200) {
            let step = intake.step(Duration::from_millis(100), &mut |_, _| panic!("no heap"));
            assert!(!matches!(step.unwrap(), IntakeStep::Ended(_)), "{word}: nobody has begun");
        }
        // As many more as may stay: what those that go for them had sent stays counted.
        let more: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(at).unwrap()).collect();
        until_counted(&mut intake, IntakeCounter::Silent, 3);
        three_heaps_come(&mut intake, at, word);
        // What belonged to no packet is told; nobody's packet was cut, and nobody was reset.
        assert!(counted(&intake, IntakeCounter::Junk) >= 2 * 24, "{word}");
        let lines = [IntakeCounter::Connections, IntakeCounter::Cut, IntakeCounter::Resets];
        assert_eq!(lines.map(|line| counted(&intake, line)), [70, 0, 0], "{word}");
        drop((stay, more));
        balanced(&intake);
    }
}

/// Packets of one heap and no stop.
fn packets(heap_bytes: usize) -> Vec<u8> {
    let mut sender = HeapSender::new(SenderConfig::default()).unwrap();
    let mut heap = OutHeap::default();
    heap.add_item(0x1000, vec![7; heap_bytes], false);
    sender.send(heap, SendHow::default()).unwrap();
    let mut bytes = vec![];
    while let fullcount_spead::send::NextPacket::Packet { .. } = sender.next_packet(0, &mut bytes) {
    }
    bytes
}

#[test]
fn a_reset_ends_the_stream_and_a_silent_visitor_does_not() {
    for framing in [SpeadFraming::Packets, SpeadFraming::Heap] {
        let (mut intake, at) = tcp(
            TcpIntakeOptions { framing, ..TcpIntakeOptions::default() },
            &SpeadInput::default(),
        );
        drop(TcpStream::connect(at).unwrap());
        intake.step(Duration::from_millis(50), &mut |_, _| {}).unwrap();
        intake.step(Duration::from_millis(50), &mut |_, _| {}).unwrap();
        assert!(intake.stream().ended().is_none(), "somebody who sent nothing is no sender");
        let mut sender = TcpStream::connect(at).unwrap();
        let bytes = packets(100_000);
        sender.write_all(&bytes[..50_000]).unwrap();
        SockRef::from(&sender).set_linger(Some(Duration::ZERO)).unwrap();
        read_bytes(&mut intake, 50_000);
        drop(sender);
        let (why, all) = receive(&mut intake);
        assert_eq!((why, all.len()), (StreamEnd::Readers, 0));
        let sheet = intake.sheet();
        let line = |line: IntakeCounter| sheet.get(SpeadCounter::LINES + line as usize);
        assert_eq!((line(IntakeCounter::Connections), line(IntakeCounter::Resets)), (2, 1));
    }
}

/// A heap that is one packet, and no stop.
fn whole_heap(heap_bytes: usize) -> Vec<u8> {
    let mut heap = OutHeap::default();
    heap.add_item(0x1000, vec![7; heap_bytes], false);
    let mut bytes = vec![];
    Packetiser::whole(&heap, 1).unwrap().next_packet(&heap, &mut bytes);
    bytes
}

#[test]
fn a_reset_inside_a_whole_heap_is_an_incomplete_heap_to_the_byte() {
    for incomplete in [OnIncomplete::Drop, OnIncomplete::Give] {
        let options = TcpIntakeOptions { framing: SpeadFraming::Heap, ..Default::default() };
        let mut told = SpeadInput::default();
        told.config.incomplete = incomplete;
        let (mut intake, at) = tcp(options, &told);
        let mut sender = TcpStream::connect(at).unwrap();
        let bytes = whole_heap(100_000);
        let head = bytes.len() - 100_000;
        sender.write_all(&bytes[..head + 40_000]).unwrap();
        SockRef::from(&sender).set_linger(Some(Duration::ZERO)).unwrap();
        read_bytes(&mut intake, head + 40_000);
        drop(sender);
        let (why, all) = receive(&mut intake);
        assert_eq!(
            (why, all.len()),
            (StreamEnd::Readers, usize::from(incomplete == OnIncomplete::Give))
        );
        for delivery in all {
            let Delivery::Incomplete(part) = delivery else { panic!("{delivery:?}") };
            assert_eq!(
                (part.cnt, part.heap_length, part.received_length),
                (1, Some(100_000), 40_000)
            );
            assert!(part.gaps().eq(std::iter::once(40_000..100_000)));
            assert!(part.pieces().all(|(at, bytes)| at == 0 && bytes == vec![7; 40_000]));
        }
        balanced(&intake);
        let sheet = intake.sheet();
        let get = |line: SpeadCounter| sheet.get(line as usize);
        assert_eq!((get(SpeadCounter::Heaps), get(SpeadCounter::Incomplete)), (1, 1));
        assert_eq!(
            (get(SpeadCounter::LostBytes), get(SpeadCounter::PayloadBytes)),
            (60_000, 40_000)
        );
        assert_eq!(get(SpeadCounter::PacketBytes), (head + 40_000) as u64);
        assert_eq!(sheet.get(SpeadCounter::LINES + IntakeCounter::Cut as usize), 1);
    }
}

#[test]
fn a_whole_heap_that_comes_slowly_is_no_stall() {
    let options = TcpIntakeOptions { framing: SpeadFraming::Heap, ..Default::default() };
    let mut told = SpeadInput::default();
    // The heap takes 3.6 s, a fifth of the limit from piece to piece.
    (told.config.stall_timeout_ns, told.config.stall_ends) = (3_000_000_000, true);
    let (mut intake, at) = tcp(options, &told);
    let (mut sender, bytes) = (TcpStream::connect(at).unwrap(), whole_heap(100_000));
    let pieces = bytes.chunks(bytes.len() / 6 + 1);
    assert_eq!(pieces.len(), 6);
    let mut all = vec![];
    for piece in pieces {
        sender.write_all(piece).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(600) {
            let step = intake.step(Duration::from_millis(20), &mut |heap, _| all.push(heap));
            assert!(!matches!(step.unwrap(), IntakeStep::Ended(_)), "it comes slowly");
        }
    }
    drop(sender);
    let (why, last) = receive(&mut intake);
    assert_eq!((why, all.len() + last.len()), (StreamEnd::Readers, 1));
}

#[test]
fn heap_numbers_begin_anew_where_the_addresses_of_a_flavour_end() {
    let dir = tempfile::tempdir().unwrap();
    let job = HeapsJob {
        heap_size: 40,
        heaps: Some(300),
        verify: true,
        flavour: Flavour::new(8).unwrap(),
        ..HeapsJob::default()
    };
    let url = format!("spead+pcap:{}?flavour=8", dir.path().join("narrow.pcap").display());
    send(url.clone(), job.clone(), 0.0).join().unwrap();
    let mut sources = Sources::default();
    fullcount_io::source::register(&mut sources);
    // Without time between the heaps, their numbers would be remembered as those of late copies.
    let from = url.replace("?flavour=8", "?flat-out&compat=spead2");
    let (url, inner) = carrier::plan(&from, &SourceSetup::plain(&sources)).unwrap();
    let mut intake = SpeadIntake::open(&[url], &[inner], &SourceOpening::PLAIN).unwrap();
    let (why, all) = receive(&mut intake);
    assert_eq!((why, good(all, &job)), (StreamEnd::StopItem, 300));
    let long = HeapsJob { heap_size: 256, ..job };
    assert!(long.check().unwrap_err().to_string().contains("at most 255 B"));
}

#[test]
fn a_missing_stop_of_several_senders_hangs_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let job = HeapsJob { heap_size: 50_000, heaps: Some(3), verify: true, ..HeapsJob::default() };
    let url = format!("spead+pcap:{}", dir.path().join("one.pcap").display());
    send(url.clone(), job.clone(), 0.0).join().unwrap();
    let mut sources = Sources::default();
    fullcount_io::source::register(&mut sources);
    let setup = SourceSetup::plain(&sources);
    // The capture has the stop heap of one of its two senders.
    let from = format!("{url}?flat-out&senders=2");
    let (url, inner) = carrier::plan(&from, &setup).unwrap();
    let mut intake = SpeadIntake::open(&[url], &[inner], &SourceOpening::PLAIN).unwrap();
    let (why, all) = receive(&mut intake);
    assert_eq!((why, good(all, &job)), (StreamEnd::Readers, 3));
    // As a carrier.
    let endpoint = sources.find(&from).unwrap().0.plan(&from, &setup).unwrap();
    let mut source = endpoint.open(&SourceOpening::PLAIN).unwrap().remove(0).source;
    let (mut batch, mut heaps, begun) = (source.batch(), 0, Instant::now());
    loop {
        match source.recv(&mut batch, Duration::from_millis(20)).unwrap() {
            Received::End => break,
            Received::Data => heaps += batch.trains().count(),
            _ => assert!(begun.elapsed() < PATIENCE, "it hangs"),
        }
    }
    assert_eq!(heaps, 3);
}

#[test]
fn a_finite_reader_ends_once_and_leaves_the_others_their_time() {
    let mut told = SpeadInput::default();
    (told.config.stops, told.config.readers) = (2, 2);
    let (mut intake, at) = udp(&told);
    intake.add_memory(packets(5000));
    let mut all = vec![];
    for _ in 0..20 {
        let step = intake.step(Duration::from_millis(5), &mut |heap, _| all.push(heap)).unwrap();
        assert!(!matches!(step, IntakeStep::Ended(_)), "the socket is still open");
    }
    assert_eq!(all.len(), 1);
    // One sender's reader has ended, the other one stops: these are both.
    let job = HeapsJob { heap_size: 5000, heaps: Some(2), numbers: (2, 1), ..HeapsJob::default() };
    let sender = send(format!("spead+udp://{at}"), job, 0.0);
    let (why, all) = receive(&mut intake);
    assert_eq!((why, all.len()), (StreamEnd::Readers, 2));
    sender.join().unwrap();
}

#[test]
fn without_its_stop_a_stream_of_datagrams_ends_some_time_after_its_last_packet() {
    let mut sources = Sources::default();
    fullcount_io::source::register(&mut sources);
    let setup = SourceSetup::plain(&sources);
    let (planned, inner) = carrier::plan("spead+udp://127.0.0.1:0", &setup).unwrap();
    let mut urls = [planned];
    assert!(end_when_stalled(&mut urls, Duration::from_millis(1500)));
    let mut intake = SpeadIntake::open(&urls, &[inner], &SourceOpening::PLAIN).unwrap();
    let url = format!("spead+udp://127.0.0.1:{}", crate::spead_ways::port_of(&intake, "127.0.0.1"));
    let before = Instant::now();
    while before.elapsed() < Duration::from_millis(1800) {
        let step = intake.step(Duration::from_millis(20), &mut |_, _| {}).unwrap();
        assert_eq!(step, IntakeStep::Idle, "before the first packet nothing stalls");
    }
    let job = HeapsJob {
        heap_size: 5000,
        heaps: Some(2),
        stop: false,
        verify: true,
        ..Default::default()
    };
    let sender = send(url, job.clone(), 0.0);
    let (why, all) = receive(&mut intake);
    assert_eq!((why, good(all, &job)), (StreamEnd::Stalled, 2));
    sender.join().unwrap();
}

#[test]
fn a_lost_end_and_a_lost_stop_hang_nobody() {
    let mut told = SpeadInput::default();
    told.config.heap_timeout_ns = 50_000_000;
    told.config.stall_timeout_ns = 200_000_000;
    told.config.stall_ends = true;
    let (mut intake, at) = udp(&told);
    let socket = std::net::UdpSocket::bind(any()).unwrap();
    let bytes = packets(100_000);
    for packet in bytes.chunks(1472).take(10) {
        socket.send_to(packet, at).unwrap();
    }
    let (why, _) = receive(&mut intake);
    assert_eq!(why, StreamEnd::Stalled);
    let statistics = intake.stream().statistics();
    assert_eq!((statistics.packets, statistics.incomplete_heaps_timed_out), (10, 1));
    balanced(&intake);
}
