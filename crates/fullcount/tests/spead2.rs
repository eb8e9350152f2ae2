//! `fullcount spead2 send` and `recv`: each option of spead2's tools stands in the printed command and has its effect, and what they print
//! is what spead2 prints.

use std::collections::BTreeSet;
use std::net::UdpSocket;

use fullcount_core::source::{SourceOpening, SourceSetup, Sources};
use fullcount_io::spead::{IntakeStep, SpeadIntake, SpeadOutput, SpeadUrl, carrier};
use fullcount_spead::send::{HeapSender, NextPacket, OutHeap, SendHow};

use crate::service::{PATIENCE, Said, Service, capture, say};

/// What of the equivalent command says `key=value`.
fn has(command: &str, keys: &[&str]) {
    let missing: Vec<_> = keys.iter().filter(|key| !command.contains(**key)).collect();
    assert!(missing.is_empty(), "{missing:?}: {command}");
}

#[test]
fn every_option_of_the_front_ends_stands_in_the_printed_command_and_has_an_effect() {
    let words = ["--tcp", "--bind", "127.0.0.1", "--pyspead", "--descriptors", "--ring-heaps", "7"];
    let pool = ["--mem-pool", "--mem-lower", "1", "--mem-upper", "4096", "--mem-initial", "3"];
    let pool = [&pool[..], &["--memcpy-nt", "--verify"]].concat();
    let mut recv = Service::start(&[&["spead2", "recv"][..], &words, &pool, &["0"]].concat());
    let port = recv.udp_port();
    let to = format!("127.0.0.1:{port}");
    let words =
        ["--tcp", "--bind", "127.0.0.1", "--pyspead", "--heaps", "3", "--heap-size", "4000"];
    let sent = say(&[&["spead2", "send", "--verify"][..], &words, &[&to]].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
    has(&sent.err, &["&pyspead", "&bind=127.0.0.1"]);
    let said = recv.end();
    assert_eq!(said.code, 0, "{}", said.err);
    let keys = ["pool=12", "pool_lower=1B", "pool_upper=4096B", "pool_initial=3", "ring_heaps=7"];
    has(&said.err, &keys);
    has(&said.err, &["&pyspead", "&streaming=1", "spead+tcp://127.0.0.1:0", "3 free blocks"]);
    has(&said.out, &["Received 3 heaps", "Descriptor for Test item 0 (0x1000)"]);
}

/// Statistics of `spead2 recv` by name.
fn statistic(out: &str, name: &str) -> u64 {
    let line = out.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {name}: {out}")).parse().unwrap()
}

#[test]
fn the_front_ends_take_spead2s_options_and_print_its_lines() {
    for tcp in [&[][..], &["--tcp"]] {
        let mut recv = Service::start(
            &[&["spead2", "recv", "--descriptors", "--verify", "127.0.0.1:0"], tcp].concat(),
        );
        let port = recv.udp_port();
        let to = format!("127.0.0.1:{port}");
        let words =
            ["--heaps", "3", "--heap-size", "40", "--items", "3", "--verify", "--rate", "0.1", &to];
        let sent = say(&[&["spead2", "send"], tcp, &words[..]].concat());
        assert!(
            sent.err.contains("using 36 instead of 40")
                && sent.err.contains("fullcount send --source heaps")
        );
        let bytes: u64 = sent.out.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(
            sent.out.starts_with("Sent ")
                && sent.out.contains(" seconds, ")
                && sent.out.trim_end().ends_with(" Gb/s")
        );
        assert!(bytes > 300);
        let said = recv.end();
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.err.contains("fullcount receive 'spead+"), "{}", said.err);
        for line in [
            "Received heap 1 at ",
            "Descriptor for Test item 2 (0x1002)",
            "  description: A test item with arbitrary value",
            "0x1000 = [12 bytes]",
            "Received 3 heaps",
            "heaps: 3",
            "single_packet_heaps: ",
        ] {
            assert!(said.out.contains(line), "{line}: {}", said.out);
        }
        assert_eq!(
            (statistic(&said.out, "heaps"), statistic(&said.out, "incomplete_heaps_flushed")),
            (3, 0)
        );
    }
}

/// The stop of either source ends the one stream, by spead2's options and by the command that is printed.
#[test]
fn joint_sources_are_one_stream_that_the_first_stop_ends_and_so_is_the_printed_command() {
    let url = |keys: &str| format!("spead+udp://127.0.0.1:0?compat=spead2{keys}");
    let (first, second) = (url(""), url("&senders=0"));
    for (words, printed) in [
        (["spead2", "recv", "--quiet", "--joint", "127.0.0.1:0", "127.0.0.1:0"].to_vec(), true),
        (["receive", "--json", &first, &second].to_vec(), false),
    ] {
        let mut receiver = Service::start(&words);
        let port = |line: &str| line.strip_prefix("listening on 127.0.0.1:")?.parse::<u16>().ok();
        let one = receiver.wait_for("the first port", port);
        let two = receiver.wait_for("the second port", |line| port(line).filter(|n| *n != one));
        // Only the second one gets anything.
        let to = format!("127.0.0.1:{two}");
        let sent = say(&["spead2", "send", "--heaps", "3", "--rate", "0.1", &to]);
        assert_eq!(sent.code, 0, "{}", sent.err);
        let said = receiver.end();
        assert_eq!(said.code, 0, "{}{}", said.out, said.err);
        if printed {
            assert!(said.out.contains("Received 3 heaps"), "{}", said.out);
            let same = said.err.lines().find(|line| line.contains("fullcount receive"));
            let same = same.expect("the same command");
            assert_eq!(
                (same.matches("spead+udp").count(), same.matches("senders=0").count()),
                (2, 1)
            );
        } else {
            assert_eq!(said.summary()["heaps"]["received"], 3);
        }
    }
    for words in [&["receive", &second][..], &["run", "--source", &second, "--detector", "sonde"]] {
        let refused = say(words);
        assert!(refused.code == 2 && refused.err.contains("senders=0"), "{}", refused.err);
    }
}

/// Numbers 13 and 14 of what users of spead2 meet: its sender has `--addr-bits` in the stop heap alone, and its receiver checks nothing with
/// `--ring`, and takes the descriptors of a second destination's first heap for data.
#[test]
fn every_heap_has_the_addresses_asked_for_and_values_are_checked_with_a_ring_and_at_each_destination()
 {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = socket.local_addr().unwrap().to_string();
    let words = ["--addr-bits", "48", "--heaps", "3", "--heap-size", "4000", "--rate", "0.1"];
    let sent = say(&[&["spead2", "send"], &words[..], &[&to]].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
    let (mut heaps, mut packet) = (std::collections::BTreeSet::new(), [0; 9000]);
    while heaps.len() < 4 {
        let many = socket.recv(&mut packet).expect("the next heap");
        // 16 bits of id, 48 of addresses; the heap's number is the first item.
        assert!(many > 16 && packet[..4] == [0x53, 4, 2, 6], "{:?}", &packet[..8]);
        heaps.insert(packet[10..16].to_vec());
    }
    let mut receivers = [&["--ring"][..], &[]].map(|ring| {
        let words = [&["spead2", "recv", "--verify", "--quiet"], ring, &["127.0.0.1:0"]].concat();
        Service::start(&words)
    });
    let ports = [receivers[0].udp_port(), receivers[1].udp_port()];
    let to = ports.map(|port| format!("127.0.0.1:{port}"));
    let words = ["--verify", "--heaps", "6", "--heap-size", "4000", "--rate", "0.1"];
    let sent = say(&[&["spead2", "send"], &words[..], &[&to[0], &to[1]]].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
    for receiver in receivers {
        let said = receiver.end();
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.out.contains("Received 3 heaps"), "{}", said.out);
    }
    // One that has other values is told, with a ring as well.
    for ring in [&["--ring"][..], &[]] {
        let words = [&["spead2", "recv", "--verify", "--quiet"], ring, &["127.0.0.1:0"]].concat();
        let mut receiver = Service::start(&words);
        let to = format!("127.0.0.1:{}", receiver.udp_port());
        let words = ["--heaps", "2", "--heap-size", "4000", "--rate", "0.1", &to];
        let sent = say(&[&["spead2", "send"], &words[..]].concat());
        assert_eq!(sent.code, 0, "{}", sent.err);
        let said = receiver.end();
        assert_eq!(said.code, 1, "{ring:?}: {}{}", said.out, said.err);
    }
}

/// The URL of the command that is printed.
fn printed(err: &str) -> String {
    let url = err.split('\'').find(|word| word.starts_with("spead+"));
    url.unwrap_or_else(|| panic!("no URL: {err}")).to_owned()
}

/// A packet of SPEAD-64-40: number and length of its heap, offset, payload, and an item at the heap's beginning.
fn packet(cnt: u64, length: usize, offset: usize, many: usize) -> Vec<u8> {
    let mut bytes = vec![0x53, 4, 3, 5, 0, 0, 0, 5];
    for (id, value) in [(1, cnt), (2, length as u64), (3, offset as u64), (4, many as u64)] {
        bytes.extend((1u64 << 63 | id << 40 | value).to_be_bytes());
    }
    bytes.extend((0x1000u64 << 40).to_be_bytes());
    bytes.extend(vec![cnt as u8; many]);
    bytes
}

/// The stop heap.
fn stop() -> Vec<u8> {
    let mut bytes = vec![0x53, 4, 3, 5, 0, 0, 0, 5];
    for (id, value) in [(1u64, 1u64 << 30), (2, 0), (3, 0), (4, 0), (6, 2)] {
        bytes.extend((1u64 << 63 | id << 40 | value).to_be_bytes());
    }
    bytes
}

/// `recv` of these packets and a stop, from a socket of its own.
fn received(options: &[&str], packets: &[Vec<u8>]) -> Said {
    let words = [&["spead2", "recv", "--quiet"], options, &["127.0.0.1:0"]].concat();
    let mut recv = Service::start(&words);
    let to = ("127.0.0.1", recv.udp_port());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for packet in packets.iter().chain([&stop()]) {
        socket.send_to(packet, to).unwrap();
    }
    let said = recv.end();
    assert_eq!(said.code, 0, "{}", said.err);
    said
}

#[test]
fn heaps_that_overlap_need_places_in_a_window_or_windows_of_their_own() {
    // Two heaps whose packets take turns.
    let turns = |a, b| [packet(a, 200, 0, 100), packet(b, 200, 0, 100)];
    let rest = |a, b| [packet(a, 200, 100, 100), packet(b, 200, 100, 100)];
    for (options, keys, (a, b), heaps) in [
        (&["--concurrent-heaps", "1"][..], "max_heaps=1&substreams=1", (2, 3), 1),
        (&["--concurrent-heaps", "2"], "max_heaps=2&substreams=1", (2, 3), 2),
        (&["--concurrent-heaps", "1", "--substreams", "2"], "max_heaps=1&substreams=2", (2, 3), 2),
        // Both numbers are even.
        (&["--concurrent-heaps", "1", "--substreams", "2"], "max_heaps=1&substreams=2", (2, 4), 1),
        (&[], "max_heaps=4&substreams=1", (2, 4), 2),
    ] {
        let said = received(options, &[turns(a, b), rest(a, b)].concat());
        has(&said.err, &[keys]);
        has(&said.out, &[&format!("Received {heaps} heaps")]);
        assert_eq!(statistic(&said.out, "incomplete_heaps_evicted"), 2 - heaps, "{options:?}");
    }
}

#[test]
fn packets_above_the_limit_are_thrown_away_and_buffers_and_sockets_are_as_asked() {
    let packets = [packet(1, 100, 0, 100), packet(2, 300, 0, 300)];
    for (options, heaps, key) in
        [(&["--packet", "200"][..], 1, "max_packet=200B"), (&[], 2, "max_packet=9200B")]
    {
        let said = received(options, &packets);
        has(&said.err, &[key]);
        has(&said.out, &[&format!("Received {heaps} heaps")]);
    }
    for (options, keys) in [
        (
            &["--buffer", "100000"][..],
            &["receive_buffer=100000B", "receive buffer: asked 97.7 KiB"][..],
        ),
        (&["--buffer", "65536", "--sockets", "3"], &["sockets=3", "3 sockets share the port"]),
    ] {
        let said = received(options, &packets);
        has(&said.err, keys);
        has(&said.out, &["Received 2 heaps"]);
    }
}

/// Number 15 of what users of spead2 meet: its programs dump core there.
#[test]
fn no_15_what_cannot_be_opened_is_a_sentence_and_an_exit_code() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let to = format!("127.0.0.1:{port}");
    let sent = say(&["spead2", "send", "--tcp", "--heaps", "1", &to]);
    assert!(sent.code == 1 && sent.err.contains("refused"), "{} {}", sent.code, sent.err);
    for tcp in [&[][..], &["--tcp"]] {
        let mut first =
            Service::start(&[&["spead2", "recv", "--quiet", "127.0.0.1:0"], tcp].concat());
        let at = format!("127.0.0.1:{}", first.udp_port());
        let twin = say(&[&["spead2", "recv", "--quiet", &at], tcp].concat());
        assert!(twin.code == 1 && twin.err.contains("in use"), "{} {}", twin.code, twin.err);
        let sent =
            say(&[&["spead2", "send", "--heaps", "2", "--heap-size", "40", &at], tcp].concat());
        assert_eq!(sent.code, 0, "{}", sent.err);
        let said = first.end();
        assert_eq!(said.code, 0, "the first one is not disturbed: {}", said.err);
        has(&said.out, &["Received 2 heaps"]);
    }
}

#[test]
fn an_interrupt_ends_a_receiver_that_waits_for_the_writer_of_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("heaps.pcap");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut recv = Service::start(&["spead2", "recv", "--quiet", pipe.to_str().unwrap()]);
    recv.wait_for("the same command", |line| line.contains("fullcount receive").then_some(()));
    recv.interrupt();
    assert!(recv.child.ended(PATIENCE).expect("a child"), "{:?}", recv.seen());
}

/// A receiver of two streams with these options, and where both listen.
fn two_streams(options: &[&str]) -> (Service, [String; 2]) {
    let words = ["--quiet", "127.0.0.1:0", "127.0.0.1:0"];
    let mut recv = Service::start(&[&["spead2", "recv"][..], options, &words].concat());
    let port = |line: &str| line.strip_prefix("listening on 127.0.0.1:")?.parse::<u16>().ok();
    let one = recv.wait_for("the first port", port);
    let two = recv.wait_for("the second port", |line| port(line).filter(|n| *n != one));
    (recv, [one, two].map(|port| format!("127.0.0.1:{port}")))
}

#[test]
fn a_wrong_value_of_one_stream_ends_all_and_a_lost_stop_ends_where_that_is_asked_for() {
    let (recv, [one, _]) = two_streams(&["--verify"]);
    // Without --verify of the sender all values are 0; the other stream gets nothing.
    let sent = say(&["spead2", "send", "--heaps", "1", "--heap-size", "40", &one]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    let said = recv.end();
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("Verification mismatch in heap 1"), "{}", said.err);

    // Unless something else is said, datagrams that end without a stop end the stream after 30 s.
    for (options, key) in
        [(&[][..], "&stall_timeout=30s"), (&["--stall-timeout", "0s"], "&stall_timeout=0s")]
    {
        let (recv, _) = two_streams(options);
        recv.interrupt();
        let said = recv.end();
        assert!(said.err.contains(key), "{}", said.err);
    }

    let (recv, to) = two_streams(&["--stall-timeout", "300ms"]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for to in to {
        socket.send_to(&packet(1, 100, 0, 100), to).unwrap();
    }
    let said = recv.end();
    assert_eq!(said.code, 3, "{}", said.err);
    has(&said.err, &["stall_timeout=300ms", "no packet came for --stall-timeout"]);
    has(&said.out, &["Received 2 heaps"]);
}

/// Free blocks of the memory pool of the printed command: before, while heaps of so many bytes are held, and when they are let go.
fn free_blocks(options: &[&str], heap: usize, heaps: u64) -> [usize; 3] {
    let folder = tempfile::tempdir().unwrap();
    let payloads: Vec<_> = (1..=heaps).map(|cnt| packet(cnt, heap, 0, heap)).collect();
    let file = capture(folder.path(), "heaps", &payloads);
    let said = say(&[&["spead2", "recv", "--quiet", "--mem-pool"], options, &[&file]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    has(&said.out, &[&format!("Received {heaps} heaps")]);
    let mut sources = Sources::default();
    fullcount_io::source::register(&mut sources);
    let (url, inner) = carrier::plan(&printed(&said.err), &SourceSetup::plain(&sources)).unwrap();
    let mut intake = SpeadIntake::open(&[url], &[inner], &SourceOpening::PLAIN).unwrap();
    let free = |intake: &SpeadIntake| {
        let facts = intake.describe();
        let words = facts.iter().find_map(|fact| fact.strip_prefix("memory pool: "));
        words.and_then(|words| words.split(' ').next()?.parse().ok()).unwrap()
    };
    let (before, mut all) = (free(&intake), vec![]);
    while !matches!(
        intake.step(PATIENCE, &mut |heap, _| all.push(heap)).unwrap(),
        IntakeStep::Ended(_)
    ) {}
    assert_eq!(all.len() as u64, heaps);
    let held = free(&intake);
    drop(all);
    [before, held, free(&intake)]
}

#[test]
fn the_memory_pool_keeps_as_many_blocks_as_asked_for_heaps_of_the_sizes_asked_for() {
    let sizes = ["--mem-lower", "500", "--mem-upper", "2000"];
    let pool =
        |initial, most| [&sizes[..], &["--mem-initial", initial, "--mem-max-free", most]].concat();
    // Blocks come back up to the most; the first ones are kept even if they are more, as spead2 has it.
    for (options, free) in [
        (pool("0", "2"), [0, 0, 2]),
        (pool("0", "4"), [0, 0, 4]),
        (pool("0", "9"), [0, 0, 5]),
        (pool("3", "4"), [3, 0, 4]),
        (pool("6", "2"), [6, 1, 6]),
    ] {
        assert_eq!(free_blocks(&options, 1000, 5), free, "{options:?}");
    }
    // Smaller and larger heaps take none.
    for (heap, held) in [(499, 6), (500, 1), (2000, 1), (2001, 6)] {
        assert_eq!(free_blocks(&pool("6", "6"), heap, 5), [6, held, 6], "{heap} B");
    }
}

#[test]
fn what_has_no_effect_here_is_said() {
    let packets = [packet(1, 100, 0, 100)];
    let plain = received(&[], &packets);
    assert!(!plain.err.contains("no effect"), "{}", plain.err);
    for (options, words) in [
        (&["--ring"][..], "--ring has no effect"),
        (&["--threads", "2"], "--threads has no effect"),
    ] {
        let said = received(options, &packets);
        has(&said.err, &[words, &printed(&plain.err)]);
        // How many packets a read brings is the kernel's.
        let own = |out: &str| -> Vec<String> {
            out.lines().filter(|l| !l.contains("batch")).map(str::to_owned).collect()
        };
        assert_eq!(own(&said.out), own(&plain.out));
    }
    let sent = |method| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap().to_string();
        say(&["spead2", "send", "--heaps", "1", "--heap-size", "40", "--rate-method", method, &to])
    };
    for method in ["AUTO", "auto", "Auto"] {
        let said = sent(method);
        assert!(said.code == 0 && !said.err.contains("no effect"), "{}", said.err);
    }
    for method in ["SW", "HW", "sw", "hw", "Hw"] {
        let said = sent(method);
        assert_eq!(said.code, 0, "{}", said.err);
        has(&said.err, &["--rate-method has no effect"]);
    }
    let said = sent("FAST");
    assert_eq!(said.code, 2);
    has(&said.err, &["SW, HW or AUTO"]);
}

/// What `send` with these options puts on a socket, and what it prints.
fn sent(options: &[&str]) -> (Vec<usize>, Said) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = socket.local_addr().unwrap().to_string();
    let said = say(&[&["spead2", "send"], options, &[&to]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    socket.set_nonblocking(true).unwrap();
    let mut slot = [0; 65_536];
    (std::iter::from_fn(|| socket.recv(&mut slot).ok()).collect(), said)
}

/// The send stream of the printed command at a rate in B/s.
fn sender(options: &[&str], rate: f64) -> HeapSender {
    let (_, said) = sent(&[&["--heaps", "0"], options].concat());
    let url = SpeadUrl::<SpeadOutput>::read(&printed(&said.err)).unwrap();
    HeapSender::new(url.sender_config(rate)).unwrap()
}

fn heap(bytes: usize) -> OutHeap {
    let mut heap = OutHeap::default();
    heap.add_item(0x1000, vec![7; bytes], false);
    heap
}

/// When packets of a heap leave, ns, and how many bytes then. The clock is moved by hand, and is late once.
fn bursts(mut sender: HeapSender, late_ns: u64) -> Vec<(u64, usize)> {
    sender.send(heap(200_000), SendHow::default()).unwrap();
    let (mut all, mut now, mut bytes) = (vec![(0, 0)], 0, vec![]);
    loop {
        match sender.next_packet(now, &mut bytes) {
            NextPacket::Packet { bytes, .. } => all.last_mut().unwrap().1 += bytes,
            NextPacket::Wait(until) => {
                now = until + if all.len() == 1 { late_ns } else { 0 };
                all.push((now, 0));
            }
            NextPacket::Idle => return all,
        }
        bytes.clear();
    }
}

#[test]
fn a_burst_is_as_long_and_is_caught_up_as_fast_as_asked() {
    for (options, least) in
        [(&["--burst", "10000", "--packet", "1000"][..], 10_000), (&["--packet", "1000"], 65_536)]
    {
        let all = bursts(sender(options, 1e6), 0);
        let (_, whole) = all.split_last().unwrap();
        assert!(whole.len() > 1, "{all:?}");
        assert!(whole.iter().all(|(_, bytes)| (least..least + 1000).contains(bytes)), "{all:?}");
    }
    // 50 ms late at 1 MB/s: the next bursts of 10 kB follow in 10 ms divided by the ratio.
    for (ratio, options) in [(4.0, &["--burst-rate-ratio", "4"][..]), (1.05, &[])] {
        let options = [&["--burst", "10000", "--packet", "1000"], options].concat();
        let all = bursts(sender(&options, 1e6), 50_000_000);
        let (took, wanted) = ((all[3].0 - all[2].0) as f64, all[2].1 as f64 * 1e3 / ratio);
        assert!((took / wanted - 1.0).abs() < 0.01, "{took} ns, not {wanted} ns");
    }
}

#[test]
fn so_many_heaps_are_in_flight_and_packets_are_as_large_as_asked() {
    for (options, most) in [(&["--max-heaps", "7"][..], 7), (&[], 4)] {
        let mut sender = sender(options, 0.0);
        for _ in 0..most {
            sender.send(heap(8), SendHow::default()).unwrap();
        }
        assert!(sender.send(heap(8), SendHow::default()).is_err(), "{options:?}");
    }
    for (options, most, buffer) in [
        (&["--packet", "1000", "--buffer", "100000"][..], 1000, 100_000),
        (&["--buffer", "5"], 1472, 4096),
        (&[], 1472, 524_288),
    ] {
        let size = ["--heaps", "2", "--heap-size", "10000"];
        let (packets, said) = sent(&[&size[..], options].concat());
        assert_eq!(packets.iter().max(), Some(&most), "{packets:?}");
        let url = SpeadUrl::<SpeadOutput>::read(&printed(&said.err)).unwrap();
        assert_eq!(url.address.unwrap().send_buffer, Some(buffer), "{options:?}");
    }
    // Of a buffer of 0 the URL says nothing: it is the system's.
    let (_, said) = sent(&["--heaps", "0", "--buffer", "0"]);
    assert!(!said.err.contains("send_buffer"), "{}", said.err);
}

#[test]
fn without_a_number_of_heaps_it_sends_until_it_is_interrupted() {
    for heaps in [&[][..], &["--heaps", "-1"]] {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let to = socket.local_addr().unwrap().to_string();
        let words = ["spead2", "send", "--heap-size", "1000", "--rate", "0.001"];
        let mut sender = Service::start(&[&words[..], heaps, &[&to]].concat());
        for _ in 0..20 {
            socket.recv(&mut [0; 2000]).expect("the next packet");
        }
        assert!(!sender.has_ended());
        sender.interrupt();
        let said = sender.end();
        assert_eq!(said.code, 0, "{}", said.err);
        has(&said.out, &["Sent "]);
        assert!(!said.err.contains("--heaps"), "{}", said.err);
    }
}

/// Frames to a group, as the receiver's interface sees them: the byte with the TTL or the hop limit.
#[cfg(target_os = "linux")]
#[test]
fn multicast_leaves_at_the_interface_and_with_the_ttl_asked_for() {
    use fullcount_testing::veth::{NAME, SENDER, Veth};
    use std::io::Read as _;

    let Some(veth) = Veth::new(1500, 1) else { return };
    for (bind, group, place, kind) in
        [(SENDER, "239.1.2.3", 22, 0x0800), (NAME, "[ff15::7]", 21, 0x86DD)]
    {
        for (options, ttl) in [(&["--ttl", "7"][..], 7), (&[], 1)] {
            let mut frames = crate::spead::frames(&veth);
            let to = format!("{group}:7148");
            let words = ["spead2", "send", "--heaps", "1", "--heap-size", "40", "--bind", bind];
            let words = [&words[..], options, &[&to]].concat();
            let sent = veth.sending(|| crate::service::fullcount(&words).output()).unwrap();
            let err = String::from_utf8_lossy(&sent.stderr);
            assert!(sent.status.success(), "{err}");
            has(&err, &[&format!("ttl={ttl}"), &format!("interface={bind}")]);
            let mut frame = [0; 2000];
            loop {
                let many = frames.read(&mut frame).expect("a frame to the group");
                let what = u16::from_be_bytes([frame[12], frame[13]]);
                let port = if kind == 0x0800 { 14 + 20 + 2 } else { 14 + 40 + 2 };
                if many > 60 && what == kind && frame[port..port + 2] == 7148u16.to_be_bytes() {
                    break;
                }
            }
            assert_eq!(frame[place], ttl, "{group} {options:?}");
        }
    }
}

#[test]
fn a_group_is_joined_at_the_interface_asked_for() {
    let words = ["--quiet", "--bind", "127.0.0.1", "239.255.77.21:0"];
    let mut recv = Service::start(&[&["spead2", "recv"], &words[..]].concat());
    let to = format!("239.255.77.21:{}", recv.udp_port());
    let words = ["--heaps", "3", "--heap-size", "40", "--bind", "127.0.0.1", "--ttl", "0", &to];
    let sent = say(&[&["spead2", "send"], &words[..]].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
    has(&sent.err, &["&ttl=0", "&interface=127.0.0.1"]);
    let said = recv.end();
    has(&said.err, &["&interface=127.0.0.1", "joined"]);
    has(&said.out, &["Received 3 heaps"]);
}

/// Options of a verb in its help.
fn options(verb: &[&str]) -> BTreeSet<String> {
    let said = say(&[verb, &["--help"]].concat());
    let words = said.out.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| word.starts_with("--") && word.len() > 2).map(str::to_owned).collect()
}

/// A new option without a test is found here.
#[test]
fn every_option_in_the_help_stands_in_a_test_of_this_file() {
    let (text, every_verb) = (include_str!("spead2.rs"), options(&["catalogue"]));
    for tool in ["send", "recv"] {
        let own = &options(&["spead2", tool]) - &every_verb;
        assert!(own.len() > 15, "{tool}: {own:?}");
        for option in own {
            assert!(text.contains(&format!("\"{option}\"")), "{tool} {option} has no test");
        }
    }
}
