//! Replays with a simulated clock; the same datagrams come in every mode.

use super::*;
use crate::pcap::write::{CaptureFormat, Writer};
use fullcount_core::frame::emit::Route;
use fullcount_core::ledger::Ledger;
use proptest::prelude::*;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A clock that moves only by sleeping.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl ReplayClock for Hand {
    fn now_ns(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn sleep(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Relaxed);
    }
}

const LONG: Duration = Duration::from_secs(3600);

fn route(port: u16) -> Route {
    Route {
        source: format!("10.0.0.1:{port}").parse().unwrap(),
        destination: "10.0.0.2:9000".parse().unwrap(),
        vlan: None,
    }
}

/// A capture of (source port, time, payload).
fn capture(packets: &[(u16, i64, &[u8])]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut w = Writer::new(Vec::new(), CaptureFormat::PcapNg, None).unwrap();
    for &(port, time, payload) in packets {
        w.udp(time, &route(port), payload).unwrap();
    }
    file.write_all(&w.finish().unwrap()).unwrap();
    file.flush().unwrap();
    file
}

fn url(file: &tempfile::NamedTempFile, preload: bool, speed: PcapSpeed) -> PcapUrl {
    PcapUrl { preload, speed, ..PcapUrl::new(file.path()) }
}

fn times(n: u64) -> Repeat {
    Repeat::Times(NonZeroU64::new(n).unwrap())
}

/// (clock, origin port, chunk time, payload) of all chunks until the end.
fn play(url: &PcapUrl, shift: Option<Box<dyn Shift>>) -> Vec<(u64, u16, i64, Vec<u8>)> {
    let clock = Hand::default();
    let mut source = PcapSource::with_clock(url, shift, clock.clone()).unwrap();
    let ledger = Ledger::default();
    ledger.register(source.sheet());
    let mut batch = source.batch();
    let mut got = Vec::new();
    loop {
        match source.recv(&mut batch, LONG).unwrap() {
            Received::Data => assert!(!batch.is_empty()),
            other @ (Received::Idle | Received::Flush(_)) => {
                panic!("an hour was enough: {other:?}")
            }
            Received::End => break,
        }
        for train in batch.trains() {
            for chunk in train.chunks() {
                got.push((clock.now_ns(), train.origin.port, train.time_ns, chunk.to_vec()));
            }
        }
    }
    assert_eq!(source.recv(&mut batch, LONG).unwrap(), Received::End, "the end stays the end");
    let counts = ledger.read();
    assert_eq!(counts.get("receive.packets"), Some(got.len() as u64));
    let bytes = got.iter().map(|g| g.3.len() as u64).sum::<u64>();
    assert_eq!(counts.get("receive.bytes"), Some(bytes));
    // All below 1,472 B over IPv4: 28 B of headers, 18 B of Ethernet, at least 64 B, and 20 B around.
    let wire = got.iter().map(|g| (g.3.len() as u64 + 46).max(64) + 20).sum::<u64>();
    assert_eq!(counts.get("receive.wire_bytes"), Some(wire));
    assert_eq!(counts.balance(), 0);
    got
}

#[test]
fn recorded_speed_keeps_distances_in_both_modes() {
    let file = capture(&[
        (1, 5_000_000, b"a"),
        (1, 6_000_000, b"b"),
        (2, 6_000_000, b"c"),
        (1, 9_000_000, b""),
    ]);
    for preload in [false, true] {
        let got = play(&url(&file, preload, PcapSpeed::Recorded), None);
        let clocks: Vec<u64> = got.iter().map(|g| g.0).collect();
        assert_eq!(clocks, [0, 1_000_000, 1_000_000, 4_000_000], "preload {preload}");
        let got = play(&url(&file, preload, PcapSpeed::Factor(2.0)), None);
        let clocks: Vec<u64> = got.iter().map(|g| g.0).collect();
        assert_eq!(clocks, [0, 500_000, 500_000, 2_000_000], "preload {preload}");
        let times: Vec<i64> = got.iter().map(|g| g.2).collect();
        assert_eq!(times, [5_000_000, 6_000_000, 6_000_000, 9_000_000]);
        let got = play(&url(&file, preload, PcapSpeed::FlatOut), None);
        assert!(got.iter().all(|g| g.0 == 0), "flat out never sleeps");
        let payloads: Vec<&[u8]> = got.iter().map(|g| &g.3[..]).collect();
        assert_eq!(payloads, [&b"a"[..], b"b", b"c", b""]);
    }
}

#[test]
fn a_short_wait_is_idle_and_loses_nothing() {
    let file = capture(&[(1, 0, b"a"), (1, 10_000_000, b"b")]);
    for preload in [false, true] {
        let clock = Hand::default();
        let url = url(&file, preload, PcapSpeed::Recorded);
        let mut source = PcapSource::with_clock(&url, None, clock.clone()).unwrap();
        assert!(!source.lossless());
        let mut batch = source.batch();
        let wait = Duration::from_millis(4);
        let got: Vec<Received> = (0..5).map(|_| source.recv(&mut batch, wait).unwrap()).collect();
        use Received::{Data, End, Idle};
        assert_eq!(got, [Data, Idle, Idle, Data, End]);
        assert_eq!(clock.now_ns(), 10_000_000);
        source.clock.sleep(LONG);
        assert_eq!(source.sheet().get(Replayed::Packets as usize), 2);
    }
}

#[test]
fn repeats_follow_each_other_and_times_stay_unless_shifted() {
    let file = capture(&[(1, 1_000_000, b"a"), (1, 3_000_000, b"b")]);
    for preload in [false, true] {
        let mut u = url(&file, preload, PcapSpeed::Recorded);
        u.repeat = times(3);
        let got = play(&u, None);
        let clocks: Vec<u64> = got.iter().map(|g| g.0 / 1_000_000).collect();
        assert_eq!(clocks, [0, 2, 4, 6, 8, 10], "preload {preload}");
        assert!(got.iter().all(|g| g.2 <= 3_000_000));
    }
}

struct AddPass;

impl Shift for AddPass {
    fn shift(&mut self, payload: &mut [u8], _: Origin, repetition: u64) {
        payload[0] += repetition as u8;
    }
}

#[test]
fn shift_moves_every_chunk_of_later_passes_and_their_times() {
    // Three equal ones make a train.
    let packets: [(u16, i64, &[u8]); 4] =
        [(1, 0, &[1, 0]), (1, 10, &[2, 0]), (1, 20, &[3, 0]), (2, 30_000_000, &[9])];
    let file = capture(&packets);
    for preload in [false, true] {
        for speed in [PcapSpeed::FlatOut, PcapSpeed::Recorded] {
            let mut u = url(&file, preload, speed);
            u.repeat = times(3);
            u.shift = true;
            let got = play(&u, Some(Box::new(AddPass)));
            let firsts: Vec<u8> = got.iter().map(|g| g.3[0]).collect();
            assert_eq!(firsts, [1, 2, 3, 9, 2, 3, 4, 10, 3, 4, 5, 11], "{preload} {speed:?}");
            assert!(got[4].2 > got[3].2 && got[8].2 > got[7].2, "times move on");
        }
    }
    let mut u = url(&file, true, PcapSpeed::FlatOut);
    u.shift = true;
    let e = PcapSource::open(&u, None).unwrap_err().to_string();
    assert!(e.contains("shift") && e.contains("no rule"), "{e}");
    u.shift = false;
    u.repeat = times(2);
    let got = play(&u, Some(Box::new(AddPass)));
    assert_eq!((got[0].3[0], got[4].3[0]), (1, 1), "not asked for, not done");
}

#[test]
fn equal_neighbours_become_trains_as_on_a_socket() {
    let long = vec![7u8; 1_000];
    let mut packets: Vec<(u16, i64, &[u8])> = (0..100).map(|k| (1, k * 1_000, &long[..])).collect();
    packets.push((1, 100_000, &long[..10])); // shorter: closes the train
    packets.push((1, 100_000, &long[..10])); // does not join it
    packets.push((2, 100_000, &long[..10])); // another sender
    packets.push((2, 2_000_000, &long[..10])); // too late
    packets.push((2, 2_000_000, b""));
    packets.push((2, 2_000_000, &long));
    let file = capture(&packets);
    let counts = |speed| {
        [false, true].map(|preload| {
            let mut s = PcapSource::open(&url(&file, preload, speed), None).unwrap();
            let mut batch = s.batch();
            let mut counts = Vec::new();
            while s.recv(&mut batch, LONG).unwrap() != Received::End {
                counts.extend(batch.trains().map(|t| t.count()));
            }
            counts
        })
    };
    let flat = vec![64, 37, 1, 1, 1, 1, 1];
    assert_eq!(counts(PcapSpeed::FlatOut), [flat.clone(), flat]);
    // By the clock, a train holds datagrams that are due within 50 µs.
    let fifty_us: Vec<usize> = counts_by_clock(&file);
    assert!(fifty_us.iter().all(|&n| n <= 51), "50 µs of 1 µs each: {fifty_us:?}");
}

fn counts_by_clock(file: &tempfile::NamedTempFile) -> Vec<usize> {
    let url = url(file, true, PcapSpeed::Recorded);
    let mut s = PcapSource::with_clock(&url, None, Hand::default()).unwrap();
    let mut batch = s.batch();
    let mut counts = Vec::new();
    while s.recv(&mut batch, LONG).unwrap() != Received::End {
        counts.extend(batch.trains().map(|t| t.count()));
    }
    counts
}

#[test]
fn a_batch_of_any_memory_can_be_handed_in() {
    let file = capture(&[(1, 0, b"abc")]);
    for preload in [false, true] {
        for mut batch in
            [Batch::with_slots(0, 0), Batch::with_slots(1, 2), Batch::with_slots(64, 65_536)]
        {
            batch.append(b"old", Origin::NONE, 0, Default::default());
            let mut s = PcapSource::open(&url(&file, preload, PcapSpeed::FlatOut), None).unwrap();
            assert!(s.lossless());
            assert_eq!(s.recv(&mut batch, LONG).unwrap(), Received::Data);
            assert_eq!(batch.trains().next().unwrap().bytes, b"abc");
        }
    }
}

#[test]
fn a_preloaded_pass_points_into_one_memory() {
    let file = capture(&[(1, 0, b"abc"), (2, 0, b"de")]);
    let mut u = url(&file, true, PcapSpeed::FlatOut);
    u.repeat = Repeat::Forever;
    let mut s = PcapSource::open(&u, None).unwrap();
    let mut batch = s.batch();
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..1000 {
        assert_eq!(s.recv(&mut batch, LONG).unwrap(), Received::Data);
        places.extend(batch.trains().map(|t| t.bytes.as_ptr() as usize));
    }
    assert_eq!(places.len(), 2, "no copy in a thousand passes");
    assert_eq!(s.sheet().get(Replayed::Passes as usize), 999);
    assert_eq!(s.sheet().get(Replayed::Frames as usize), 2, "the file was read once");
}

#[test]
fn a_capture_without_datagrams_ends_even_for_ever() {
    let file = capture(&[]);
    for preload in [false, true] {
        let mut u = url(&file, preload, PcapSpeed::FlatOut);
        u.repeat = Repeat::Forever;
        assert!(play(&u, None).is_empty());
        u.port = Some(1);
        assert!(play(&u, None).is_empty());
    }
}

#[test]
fn files_that_cannot_be_played_are_named() {
    let no = |u: PcapUrl| PcapSource::open(&u, None).unwrap_err().to_string();
    let e = no(PcapUrl::new("/no/such/file.pcap"));
    assert!(e.starts_with("pcap:/no/such/file.pcap: cannot open: "), "{e}");
    let dir = tempfile::tempdir().unwrap();
    assert!(no(PcapUrl::new(dir.path())).contains("it is a directory"));
    let mut text = tempfile::NamedTempFile::new().unwrap();
    assert!(no(PcapUrl::new(text.path())).contains("the file is empty"));
    text.write_all(b"what is this, then, a capture?").unwrap();
    assert!(no(PcapUrl::new(text.path())).contains("not a capture"));
}

#[test]
fn a_truncated_file_is_played_to_its_last_whole_frame_and_counted_per_pass() {
    let file = capture(&[(1, 0, b"abc"), (2, 0, b"de")]);
    let len = file.as_file().metadata().unwrap().len();
    file.as_file().set_len(len - 3).unwrap();
    for (preload, truncated) in [(false, 2), (true, 1)] {
        let mut u = url(&file, preload, PcapSpeed::FlatOut);
        u.repeat = times(2);
        let mut s = PcapSource::open(&u, None).unwrap();
        let mut batch = s.batch();
        while s.recv(&mut batch, LONG).unwrap() != Received::End {}
        let sheet = s.sheet();
        assert_eq!(sheet.get(Replayed::Packets as usize), 2);
        assert_eq!(sheet.get(Replayed::Truncated as usize), truncated, "each reading says so");
    }
}

#[test]
fn the_sonde_vectors_play_and_describe_themselves() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/sonde/sonde.pcap");
    let mut u = PcapUrl::new(&path);
    u.preload = true;
    let got = play(&u, None);
    assert_eq!((got.len(), got[20].0), (21, 20_000_000));
    let lines = PcapSource::open(&u, None).unwrap().describe().join("\n");
    assert!(lines.contains("once at recorded speed"), "{lines}");
    assert!(lines.contains("preloaded 21 datagrams"), "{lines}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_mode_gives_the_same_datagrams_in_the_same_order(
        packets in proptest::collection::vec(
            (1u16..4, 0i64..3_000_000, prop_oneof![Just(0usize), Just(5), Just(700), 1usize..4_000]), 0..120,
        ),
        passes in 1u64..4,
    ) {
        let bytes: Vec<u8> = (0..4_000u32).map(|n| (n * 7) as u8).collect();
        let packets: Vec<(u16, i64, &[u8])> =
            packets.iter().enumerate().map(|(k, &(p, t, n))| (p, t, &bytes[k % 7..][..n.min(3_990)])).collect();
        let file = capture(&packets);
        let expected: Vec<(u16, &[u8])> =
            (0..passes).flat_map(|_| packets.iter().map(|p| (p.0, p.2))).collect();
        for preload in [false, true] {
            for speed in [PcapSpeed::FlatOut, PcapSpeed::Recorded, PcapSpeed::Factor(0.5)] {
                let mut u = url(&file, preload, speed);
                u.repeat = times(passes);
                let got = play(&u, None);
                prop_assert!(got.iter().map(|g| (g.1, &g.3[..])).eq(expected.iter().copied()));
                prop_assert!(got.is_sorted_by_key(|g| g.0));
            }
        }
    }
}
