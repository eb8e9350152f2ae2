//! Sender and receiver on loopback: every engine gives the same chunks, over IPv4, IPv6, multicast
//! and broadcast; odd sizes, cut trains, and the counters of each.
//!
//! Loopback is ordered and the receiver's buffer is far larger than what a test sends, so no test depends on timing:
//! sent packets are in the socket when `send` returns.
#![cfg(target_os = "linux")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use fullcount_core::ledger::Ledger;
use fullcount_io::endpoint::{Endpoint, Engine, UdpUrl};
use fullcount_io::source::{Received, Source};
use fullcount_io::udp::shard::{Steer, worker_of};
use fullcount_io::udp::{
    Receive, ReceiveOptions, SendOptions, Transmit, UdpError, UdpSender, UdpSource,
};

const ENGINES: [Engine; 3] = [Engine::Plain, Engine::Mmsg, Engine::Gro];

/// Engines that receive: `uring` as well, where the kernel allows it.
fn receiving() -> Vec<Engine> {
    let asked = UdpUrl { engine: Engine::Uring, ..url("udp://127.0.0.1:0") };
    let told = match UdpSource::open(&asked, &ReceiveOptions::default()) {
        Ok(_) => return [&ENGINES[..], &[Engine::Uring]].concat(),
        Err(told) => told,
    };
    assert!(std::env::var_os("CI").is_none_or(|v| v != "true"), "{told}");
    println!("skipped: {told}");
    ENGINES.to_vec()
}

fn trains(engine: Engine) -> bool {
    matches!(engine, Engine::Gro | Engine::Uring)
}

/// Long enough for any scheduler; only a failing test waits for it.
const WAIT: Duration = Duration::from_secs(60);

fn url(text: &str) -> UdpUrl {
    match text.parse() {
        Ok(Endpoint::Udp(url)) => url,
        other => panic!("{text}: {other:?}"),
    }
}

fn receiver(text: &str, engine: Engine, options: &ReceiveOptions) -> UdpSource {
    UdpSource::open(&UdpUrl { engine, ..url(text) }, options).unwrap()
}

fn sender_to(to: SocketAddr, engine: Engine) -> UdpSender {
    UdpSender::open(&UdpUrl { engine, ..UdpUrl::new(to) }, &SendOptions::default()).unwrap()
}

/// Receives until `packets` came (refused ones included); the accepted chunks in order.
fn take(source: &mut UdpSource, packets: u64) -> Vec<Vec<u8>> {
    let (sheet, mut batch, mut chunks) = (source.sheet(), source.batch(), Vec::new());
    while sheet.get(Receive::Packets as usize) < packets {
        let idle = sheet.get(Receive::Idle as usize);
        let got = source.recv(&mut batch, WAIT).unwrap();
        assert!(got == Received::Data || sheet.get(Receive::Idle as usize) == idle, "lost some");
        chunks.extend(batch.trains().flat_map(|t| t.chunks()).map(<[u8]>::to_vec));
    }
    let ledger = Ledger::default();
    ledger.register(sheet);
    assert_eq!(ledger.read().balance(), 0);
    chunks
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8 ^ (i / 251) as u8).collect()
}

#[test]
fn all_engines_give_the_same_chunks_whichever_engine_sent_them() {
    // All of a case waits in the socket, so it fits the smallest usual buffer (208 KiB).
    // A short last chunk, exact multiples, single chunks, more than one train, more than one call.
    let cases = [(64 * 300 + 7, 64), (1472 * 44, 1472), (1000, 1472), (8972 * 9 + 1, 8972)];
    for sends in ENGINES {
        for receives in receiving() {
            for address in ["udp://127.0.0.1:0", "udp://[::1]:0"] {
                let mut source = receiver(address, receives, &ReceiveOptions::default());
                let mut sender = sender_to(source.local_addr(), sends);
                assert_eq!((source.engine(), sender.engine()), (receives, sends));
                for (len, stride) in cases {
                    let bytes = data(len);
                    let before = source.sheet().get(Receive::Packets as usize);
                    sender.send(&bytes, stride).unwrap();
                    let chunks = take(&mut source, before + len.div_ceil(stride) as u64);
                    let expected: Vec<&[u8]> = bytes.chunks(stride).collect();
                    assert_eq!(
                        chunks, expected,
                        "{sends:?} to {receives:?} at {address}, {len}/{stride}"
                    );
                }
                let sent = sender.sheet();
                assert_eq!(
                    sent.get(Transmit::Bytes as usize),
                    source.sheet().get(Receive::Bytes as usize)
                );
            }
        }
    }
}

#[test]
fn every_way_of_waiting_gives_the_same_chunks() {
    for (query, words) in [
        ("?nap=0", "woken by each arrival"),
        ("?nap=1ms", "naps of 1000 µs"),
        ("?spin", "polling"),
        ("", "naps of 200 to 1000 µs"),
    ] {
        let mut source =
            receiver(&format!("udp://127.0.0.1:0{query}"), Engine::Gro, &Default::default());
        let facts = source.describe();
        // Without the right to a large buffer there are no naps by default.
        let small = facts.iter().any(|f| f.contains("the host's limit"));
        assert!(small || facts.iter().any(|f| f.contains(words)), "{facts:?}");
        let mut sender = sender_to(source.local_addr(), Engine::Gro);
        for round in 1..=20u64 {
            let bytes = data(1472 * 5 + 3);
            sender.send(&bytes, 1472).unwrap();
            assert_eq!(take(&mut source, 6 * round).concat(), bytes, "{query} {round}");
        }
    }
}

#[test]
fn empty_and_largest_datagrams_pass_every_engine() {
    for engine in receiving() {
        let mut source = receiver("udp://127.0.0.1:0", engine, &ReceiveOptions::default());
        let sends = if engine == Engine::Uring { Engine::Gro } else { engine };
        let mut sender = sender_to(source.local_addr(), sends);
        let (large, small) = (data(65_507), data(3));
        let trains: [(&[u8], usize); 4] = [(&[], 0), (&large, 0), (&[], 64), (&small, 2)];
        sender.send_trains(trains.into_iter()).unwrap();
        let chunks = take(&mut source, 5);
        assert_eq!(chunks, [&[][..], &large, &[], &small[..2], &small[2..]], "{engine:?}");
        let told = sender.send(&data(65_508), 0).unwrap_err().to_string();
        assert!(told.contains("65508 B") && told.contains("65507 B"), "{told}");
        assert_eq!(sender.sheet().get(Transmit::Failed as usize), 1);
        let ledger = Ledger::default();
        ledger.register(sender.sheet());
        assert_eq!((ledger.read().balance(), sender.packets()), (0, 5));
    }
}

#[test]
fn a_train_that_does_not_fit_its_slot_is_counted_and_dropped_whole() {
    let options = ReceiveOptions { slot_bytes: 1000, ..ReceiveOptions::default() };
    for engine in receiving() {
        let mut source = receiver("udp://127.0.0.1:0", engine, &options);
        let mut sender = sender_to(source.local_addr(), Engine::Gro);
        // 11 datagrams of 100 B: with GRO one train of 1100 B, otherwise each fits.
        sender.send(&data(1100), 100).unwrap();
        sender.send(&data(1000), 0).unwrap();
        sender.send(&data(1001), 0).unwrap();
        sender.send(b"end", 0).unwrap();
        let chunks = take(&mut source, 14);
        let (kept, cut) = if trains(engine) { (0, 12) } else { (11, 1) };
        assert_eq!(chunks.len(), kept + 2, "{engine:?}");
        assert_eq!((chunks[kept].len(), &chunks[kept + 1][..]), (1000, &b"end"[..]));
        let sheet = source.sheet();
        assert_eq!(sheet.get(Receive::Truncated as usize), cut, "{engine:?}");
        assert_eq!(sheet.get(Receive::Packets as usize), 14);
        assert_eq!(sheet.get(Receive::Accepted as usize), 14 - cut);
    }
}

#[test]
fn trains_keep_origin_stride_and_receive_time() {
    let options = ReceiveOptions { timestamps: true, ..ReceiveOptions::default() };
    for engine in receiving().into_iter().filter(|e| trains(*e)) {
        let mut source = receiver("udp://127.0.0.1:0", engine, &options);
        let ports = UdpUrl { source_ports: 2, ..UdpUrl::new(source.local_addr()) };
        let mut sender = UdpSender::open(&ports, &SendOptions::default()).unwrap();
        let from = sender.local_addrs();
        assert!(from.len() == 2 && from[0] != from[1]);
        sender.send(&data(250), 100).unwrap();
        sender.use_source_port(1);
        sender.send(&data(20), 0).unwrap();
        let mut batch = source.batch();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            assert_eq!(source.recv(&mut batch, WAIT).unwrap(), Received::Data);
            seen.extend(batch.trains().map(|t| (t.origin, t.stride, t.bytes.len(), t.time_ns)));
        }
        assert_eq!((seen[0].0, seen[0].1, seen[0].2), (from[0].into(), 100, 250));
        assert_eq!((seen[1].0, seen[1].1, seen[1].2), (from[1].into(), 0, 20));
        // 100 + 100 + 50 and 20 B, each with 28 B of IPv4 and UDP, 18 B of Ethernet and 20 B around.
        let wire = source.sheet().get(Receive::WireBytes as usize);
        assert_eq!(wire, 270 + 4 * (28 + 18 + 20));
        // 2020-01-01 or later, and in order: the kernel's clock, not ours.
        assert!(seen[0].3 > 1_577_836_800_000_000_000 && seen[1].3 >= seen[0].3, "{seen:?}");
    }
}

#[test]
fn without_the_wish_no_receive_time_is_given() {
    for engine in receiving() {
        let mut source = receiver("udp://127.0.0.1:0", engine, &ReceiveOptions::default());
        sender_to(source.local_addr(), Engine::Plain).send(b"x", 0).unwrap();
        let mut batch = source.batch();
        assert_eq!(source.recv(&mut batch, WAIT).unwrap(), Received::Data);
        assert!(batch.trains().all(|t| t.time_ns == 0), "{engine:?}");
    }
}

#[test]
fn multicast_arrives_where_it_was_joined() {
    for (group, key) in [("239.255.77.7", "interface=127.0.0.1"), ("239.255.77.8", "interface=lo")]
    {
        let mut source =
            receiver(&format!("udp://{group}:0?{key}"), Engine::Gro, &Default::default());
        let port = source.local_addr().port();
        let to = url(&format!("udp://{group}:{port}?{key}&ttl=0&loop=1"));
        let mut sender = UdpSender::open(&to, &SendOptions::default()).unwrap();
        sender.send(&data(500), 100).unwrap();
        assert_eq!(take(&mut source, 5).concat(), data(500));
        assert!(source.describe().iter().any(|l| l.contains("joined")), "{:?}", source.describe());
    }
}

/// An interface that takes IPv6 groups (loopback usually has no route for them).
fn interface_for_groups() -> Option<String> {
    let routes = std::fs::read_to_string("/proc/net/ipv6_route").ok()?;
    let group = |l: &&str| l.starts_with("ff000000000000000000000000000000 08");
    routes.lines().find(group)?.split_whitespace().last().map(str::to_owned)
}

#[test]
fn ipv6_multicast_arrives_where_it_was_joined() {
    // ff01::/16 is local to the host by definition: the kernel never puts it on a link.
    let Some(interface) = interface_for_groups() else {
        let text = "udp://[ff01::7]:9?interface=lo";
        receiver(&text.replace(":9?", ":0?"), Engine::Gro, &Default::default());
        let told = UdpSender::open(&url(text), &SendOptions::default()).unwrap_err().to_string();
        assert!(told.contains("find a way to that address"), "{told}");
        assert!(!told.contains("broadcast"), "{told}");
        return;
    };
    let text = format!("udp://[ff01::7]:0?interface={interface}");
    let mut source = receiver(&text, Engine::Gro, &Default::default());
    let port = source.local_addr().port();
    let to = url(&text.replace(":0?", &format!(":{port}?ttl=1&loop=1&")));
    let mut sender = UdpSender::open(&to, &SendOptions::default()).unwrap();
    sender.send(&data(500), 100).unwrap();
    assert_eq!(take(&mut source, 5).concat(), data(500));
}

#[test]
fn two_receivers_share_a_group_but_not_a_port() {
    let text = "udp://239.255.77.9:0?interface=lo";
    let mut first = receiver(text, Engine::Gro, &Default::default());
    let port = first.local_addr().port();
    let both = text.replace(":0?", &format!(":{port}?"));
    let mut second = receiver(&both, Engine::Mmsg, &Default::default());
    let mut sender = UdpSender::open(&url(&both), &SendOptions::default()).unwrap();
    sender.send(b"all", 0).unwrap();
    assert_eq!(
        (take(&mut first, 1), take(&mut second, 1)),
        (vec![b"all".to_vec()], vec![b"all".to_vec()])
    );

    let holder = receiver("udp://127.0.0.1:0", Engine::Gro, &Default::default());
    let taken = UdpUrl::new(holder.local_addr());
    let told = UdpSource::open(&taken, &ReceiveOptions::default()).unwrap_err();
    assert!(matches!(told, UdpError::PortInUse { .. }), "{told}");
    assert!(told.to_string().contains(&taken.port.to_string()));
}

#[test]
fn workers_of_one_port_get_their_senders_and_nobody_elses() {
    for (steer, host) in
        [(Steer::Sender, "127.0.0.1"), (Steer::Address, "127.0.0.1"), (Steer::Sender, "[::1]")]
    {
        let alone = ReceiveOptions::default();
        let first = receiver(&format!("udp://{host}:0"), Engine::Gro, &alone);
        let at = UdpUrl::new(first.local_addr());
        let mut workers = first.share(&at, &alone, (3, steer)).unwrap();
        assert_eq!(workers.len(), 3);
        let mut want = [0u64; 3];
        for _ in 0..32 {
            // A sender is a socket; its port decides.
            let sender = std::net::UdpSocket::bind((host.trim_matches(['[', ']']), 0)).unwrap();
            let worker = worker_of(sender.local_addr().unwrap(), 3, steer);
            want[worker as usize] += 2;
            sender.send_to(b"one", workers[0].local_addr()).unwrap();
            sender.send_to(b"two", workers[0].local_addr()).unwrap();
        }
        let share_of = |source: &mut UdpSource| {
            let (mut batch, mut n) = (source.batch(), 0);
            while source.recv(&mut batch, Duration::ZERO).unwrap() == Received::Data {
                n += batch.count();
            }
            n
        };
        assert_eq!([0, 1, 2].map(|i| share_of(&mut workers[i])), want, "{steer:?} {host}");
    }
    let share = ReceiveOptions { shared: Some((2, Steer::Sender)), ..ReceiveOptions::default() };
    let told = UdpSource::open(&url("udp://239.255.77.10:0?interface=lo"), &share).unwrap_err();
    assert!(matches!(told, UdpError::Share { .. }), "{told}");
}

#[test]
fn broadcast_on_loopback_needs_the_key() {
    // 127.255.255.255 is loopback's own broadcast address.
    let mut source = receiver("udp://127.255.255.255:0", Engine::Gro, &Default::default());
    let port = source.local_addr().port();
    let plain = url(&format!("udp://127.255.255.255:{port}"));
    let told = UdpSender::open(&plain, &SendOptions::default()).unwrap_err().to_string();
    assert!(told.contains("broadcast=1"), "{told}");
    let allowed = UdpUrl { broadcast: Some(true), ..plain };
    let mut sender = UdpSender::open(&allowed, &SendOptions::default()).unwrap();
    sender.send(&data(300), 100).unwrap();
    assert_eq!(take(&mut source, 3).concat(), data(300));
}

#[test]
fn an_unspecified_ipv6_address_takes_both_families() {
    for engine in receiving() {
        takes_both_families(receiver("udp://[::]:0", engine, &Default::default()));
    }
}

fn takes_both_families(mut source: UdpSource) {
    let port = source.local_addr().port();
    for address in
        [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), format!("[::1]:{port}").parse().unwrap()]
    {
        let mut sender = sender_to(address, Engine::Gro);
        sender.send(b"x", 0).unwrap();
        let mut batch = source.batch();
        assert_eq!(source.recv(&mut batch, WAIT).unwrap(), Received::Data);
        let from = batch.trains().next().unwrap().origin;
        assert_eq!(SocketAddr::new(from.addr(), from.port), sender.local_addrs()[0]);
    }
}

#[test]
fn a_full_buffer_shows_in_the_kernels_count_without_another_packet() {
    for engine in receiving() {
        let small = UdpUrl { receive_buffer: Some(4096), engine, ..url("udp://127.0.0.1:0") };
        let mut source = UdpSource::open(&small, &ReceiveOptions::default()).unwrap();
        let mut sender = sender_to(source.local_addr(), Engine::Mmsg);
        sender.send(&data(1000 * 200), 1000).unwrap();
        let mut batch = source.batch();
        let mut got = 0;
        while source.recv(&mut batch, Duration::ZERO).unwrap() == Received::Data {
            got += batch.count();
        }
        let (sheet, drops) = (source.sheet(), Receive::KernelDrops as usize);
        assert!(got < 200);
        assert_eq!(sheet.get(drops), 200 - got, "{engine:?}: single datagrams: exact");
        assert!(sheet.get(Receive::Idle as usize) == 1);
        source.sample();
        assert_eq!(sheet.get(drops), 200 - got, "{engine:?}: a second look adds nothing");
        // The next train carries the kernel's count; it says nothing new.
        sender.send(b"x", 0).unwrap();
        assert_eq!(take(&mut source, got + 1).len(), 1);
        assert_eq!(sheet.get(drops), 200 - got, "{engine:?}");
    }
}

#[test]
fn waiting_ends_and_counts_as_idle() {
    let uring = receiving().contains(&Engine::Uring);
    let with_uring = [(Engine::Uring, false), (Engine::Uring, true)];
    let all = [(Engine::Plain, false), (Engine::Mmsg, false), (Engine::Gro, true)];
    for (engine, spin) in all.into_iter().chain(with_uring.into_iter().filter(|_| uring)) {
        let quiet = UdpUrl { engine, spin, ..url("udp://127.0.0.1:0") };
        let mut source = UdpSource::open(&quiet, &ReceiveOptions::default()).unwrap();
        let mut batch = source.batch();
        for wait in [Duration::ZERO, Duration::from_millis(1)] {
            assert_eq!(source.recv(&mut batch, wait).unwrap(), Received::Idle);
        }
        assert_eq!(source.sheet().get(Receive::Idle as usize), 2);
        sender_to(source.local_addr(), Engine::Plain).send(b"x", 0).unwrap();
        assert_eq!(take(&mut source, 1), [b"x"], "{engine:?} spin {spin}");
    }
}

#[test]
fn nobody_listening_is_reported_and_sending_goes_on() {
    let gone = receiver("udp://127.0.0.1:0", Engine::Mmsg, &Default::default()).local_addr();
    for engine in ENGINES {
        let mut sender = sender_to(gone, engine);
        for _ in 0..20 {
            sender.send(&data(200), 100).unwrap();
        }
        assert_eq!(sender.packets(), 40);
        assert!(sender.sheet().get(Transmit::Reported as usize) > 0, "{engine:?}");
    }
}

#[test]
fn a_batch_is_sent_as_it_was_received() {
    let mut relay = receiver("udp://127.0.0.1:0", Engine::Gro, &Default::default());
    let mut source = receiver("udp://127.0.0.1:0", Engine::Gro, &Default::default());
    sender_to(relay.local_addr(), Engine::Gro).send(&data(1050), 100).unwrap();
    let mut batch = relay.batch();
    assert_eq!(relay.recv(&mut batch, WAIT).unwrap(), Received::Data);
    let mut sender = sender_to(source.local_addr(), Engine::Gro);
    sender.send_batch(&batch).unwrap();
    let chunks = take(&mut source, 11);
    assert_eq!((chunks.len(), chunks[10].len(), chunks.concat()), (11, 50, data(1050)));
}

#[test]
fn wrong_addresses_and_interfaces_are_explained() {
    let open = |text: &str| UdpSource::open(&url(text), &ReceiveOptions::default()).unwrap_err();
    // 192.0.2.0/24 is for documentation: no host has it.
    for (text, part) in [
        ("udp://192.0.2.1:0", "no address of this host"),
        ("udp://239.1.2.3:0?interface=nosuch0", "no such interface"),
        ("udp://239.1.2.3:0?interface=192.0.2.1", "cannot join the group"),
        ("udp://239.1.2.3:0?interface=::1", "an IPv4 group wants"),
        ("udp://[ff02::1]:0?interface=127.0.0.1", "IPv6 wants"),
        ("udp://0.0.0.0:0?interface=127.0.0.1", "listen on that address"),
        ("udp://no.such.name.invalid:9000", "was not found"),
    ] {
        let told = open(text).to_string();
        assert!(told.contains(part), "{text}: {told}");
    }
    let told = UdpSender::open(&url("udp://127.0.0.1:0"), &SendOptions::default()).unwrap_err();
    assert!(matches!(told, UdpError::NoPort { .. }));
}

#[test]
fn more_trains_than_slots_come_over_several_calls_in_order() {
    // 1, 2 and 5 slots for 40 trains: io_uring's request ends with each full call and is made again.
    for engine in receiving().into_iter().filter(|e| *e != Engine::Plain) {
        for slots in [1, 2, 5] {
            let options = ReceiveOptions { slots: Some(slots), ..ReceiveOptions::default() };
            let mut source = receiver("udp://127.0.0.1:0", engine, &options);
            let mut sender = sender_to(source.local_addr(), Engine::Gro);
            let want: Vec<Vec<u8>> = (0..40).map(|i| data(10 + 3 * i)).collect();
            for round in 1..=3 {
                for bytes in &want {
                    sender.send(bytes, 0).unwrap();
                }
                assert_eq!(take(&mut source, round * 40), want, "{engine:?} {slots}");
            }
            let rearmed = source.sheet().get(Receive::Rearmed as usize);
            assert_eq!(rearmed > 0, engine == Engine::Uring, "{engine:?} {slots}: {rearmed}");
        }
    }
}

#[test]
fn batches_stay_as_they_are_while_others_are_filled() {
    // For two threads: 16 batches in flight, none changed by a later call.
    for engine in receiving() {
        let options = ReceiveOptions { slots: Some(2), ..ReceiveOptions::default() };
        let mut source = receiver("udp://127.0.0.1:0", engine, &options);
        let mut sender = sender_to(source.local_addr(), Engine::Plain);
        let want: Vec<Vec<u8>> = (0..16).map(|i| data(1000 + i)).collect();
        let mut kept = Vec::new();
        for bytes in &want {
            sender.send(bytes, 0).unwrap();
            let mut batch = source.batch();
            assert_eq!(source.recv(&mut batch, WAIT).unwrap(), Received::Data);
            kept.push(batch);
        }
        let chunks = kept.iter().flat_map(|b| b.trains()).flat_map(|t| t.chunks());
        assert_eq!(chunks.collect::<Vec<_>>(), want, "{engine:?}");
        // A batch that is dropped with its memory loses no packet.
        drop(kept);
        sender.send(b"after", 0).unwrap();
        let mut batch = source.batch();
        assert_eq!(source.recv(&mut batch, WAIT).unwrap(), Received::Data);
        assert_eq!(batch.trains().next().unwrap().bytes, b"after", "{engine:?}");
    }
}

#[test]
fn a_source_moves_from_thread_to_thread() {
    for engine in receiving() {
        let mut source = receiver("udp://127.0.0.1:0", engine, &Default::default());
        let mut sender = sender_to(source.local_addr(), Engine::Plain);
        for round in 1..=3 {
            let sent = data(100 * round as usize);
            sender.send(&sent, 0).unwrap();
            source = std::thread::spawn(move || {
                assert_eq!(take(&mut source, round), [sent], "{engine:?} round {round}");
                source
            })
            .join()
            .unwrap();
        }
    }
}

#[test]
fn the_port_is_free_once_the_source_is_gone() {
    for engine in receiving() {
        let mut port = 0;
        for _ in 0..20 {
            let mut source =
                receiver(&format!("udp://127.0.0.1:{port}"), engine, &Default::default());
            port = source.local_addr().port();
            let mut batch = source.batch();
            assert_eq!(source.recv(&mut batch, Duration::ZERO).unwrap(), Received::Idle);
        }
    }
}

#[test]
fn io_uring_is_for_receiving_only() {
    let told = UdpSender::open(&url("udp://127.0.0.1:9?engine=uring"), &SendOptions::default());
    let told = told.unwrap_err().to_string();
    assert!(told.contains("engine=uring") && told.contains("only receives"), "{told}");
}

#[test]
fn auto_never_chooses_io_uring() {
    let source = receiver("udp://127.0.0.1:0", Engine::Auto, &Default::default());
    assert_eq!(source.engine(), Engine::Gro);
}
