//! What refused packets look like, and how many are too many.

use super::*;
use fullcount_core::batch::Batch;
use fullcount_core::ledger::Ledger;

fullcount_core::counters! {
    /// The lines that are looked at.
    enum C {
        Received "receive.packets" Packets Sum "receive" In "r" "";
        Elsewhere "receive.oversize" Packets Sum "receive" Rejected "no packet of ours" "";
        Decode "decode.packets" Packets Sum "decode" In "d" "";
        Good "decode.accepted" Packets Sum "decode" Accepted "g" "";
        Bad "errors.header.version" Packets Sum "decode" Rejected "version is not 0" "";
        Count "fragments.count" Fragments Sum "fragments" In "f" "";
        Unknown "fragments.unknown_source" Fragments Sum "fragments" Rejected "of no configured source" "";
    }
}

fn entries(received: u64, refused: u64) -> Entries {
    let (ledger, sheet) = (Ledger::default(), Sheet::new(C::catalogue()));
    sheet.add(C::Received as usize, received);
    sheet.add(C::Elsewhere as usize, 1000);
    sheet.add(C::Bad as usize, refused);
    ledger.register(sheet);
    ledger.read()
}

/// An end mark of `sequence`.
fn numbered() -> Vec<u8> {
    [&b"FCSQ"[..], &[0; 20]].concat()
}

/// A container with one event of one word.
fn multigrid() -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0x58, 0, 4, 0, 7, 0, 0, 0xbb];
    packet.extend([1, 2, 3, 4, 0x21, 0x43, 0x65, 0x87, 0, 0, 1, 0xee]);
    packet
}

fn origin() -> Origin {
    Origin::from(std::net::SocketAddr::from(([10, 0, 0, 1], 5000)))
}

/// Refusals of a SoNDe detector that was given these packets, each refused.
fn refusals(packets: &[Vec<u8>]) -> Refusals {
    let refusals = Arc::new(Refusals::new("sonde", 50.0));
    let sheet = Sheet::new(C::catalogue());
    let mut sampler = Sampler::new(refusals.clone(), sheet.clone());
    for packet in packets {
        sheet.add(C::Bad as usize, 1);
        sampler.look(&Batch::from_datagrams([(&packet[..], origin())]));
    }
    drop(sampler);
    Arc::into_inner(refusals).unwrap()
}

#[test]
fn more_than_the_limit_is_said_and_as_much_is_not() {
    let refusals = Refusals::new("sonde", 50.0);
    assert_eq!(refusals.of_run(&entries(100, 50)), None);
    assert_eq!(refusals.of_run(&entries(0, 0)), None);
    let told = refusals.of_run(&entries(100, 51)).unwrap();
    assert_eq!((told.counted, told.limit), (Counted { received: 100, refused: 51 }, 50.0));
    for words in ["51 of 100 packets (51.0 %)", "engine.max_refused = 50%", "version is not 0"] {
        assert!(told.message.contains(words), "{}", told.message);
    }
    assert_eq!(Refusals::new("sonde", 100.0).of_run(&entries(100, 100)), None);
}

#[test]
fn refused_fragments_count_as_refused_packets_do() {
    let refusals = Refusals::new("fragments", 50.0);
    let fragments = |count: u64, unknown: u64| {
        let (ledger, sheet) = (Ledger::default(), Sheet::new(C::catalogue()));
        sheet.add(C::Received as usize, 1000);
        sheet.add(C::Count as usize, count);
        sheet.add(C::Unknown as usize, unknown);
        ledger.register(sheet);
        ledger.read()
    };
    assert_eq!(refusals.of_run(&fragments(10, 5)), None);
    let told = refusals.of_run(&fragments(10, 6)).unwrap();
    assert_eq!((told.counted, told.looks_like), (Counted { received: 10, refused: 6 }, None));
    let words = "6 of 10 fragments (60.0 %) were refused, more than engine.max_refused = 50%: most of them are \
                 of no configured source (fragments.unknown_source)";
    assert_eq!(told.message, words);
    // Of late: all of the last second's.
    let begun = Instant::now();
    assert_eq!(refusals.at(begun, &fragments(100, 0)), None);
    assert_eq!(refusals.at(begun + WATCHED, &fragments(100, 0)), None);
    assert!(refusals.at(begun + 2 * WATCHED, &fragments(110, 10)).is_some());
}

#[test]
fn the_detector_that_fits_is_named() {
    let told = refusals(&vec![multigrid(); 10]).of_run(&entries(10, 10)).unwrap();
    assert_eq!(told.looks_like, Some("multigrid"));
    let words = "these look like Multi-Grid packets: --detector multigrid";
    assert!(told.message.contains(words), "{}", told.message);
    let told = refusals(&vec![numbered(); 3]).of_run(&entries(3, 3)).unwrap();
    assert_eq!(told.looks_like, Some("sequence"));
}

#[test]
fn foreign_packets_are_shown_by_their_facts() {
    let dns = b"\x12\x34\x81\x80\0\x01\0\0 a name".to_vec();
    let told = refusals(&[dns.clone(), dns[..9].to_vec(), dns]).of_run(&entries(3, 3)).unwrap();
    assert_eq!(told.looks_like, None);
    for words in ["no detector", "9 to 15 bytes", "10.0.0.1:5000", "begins with 12 34 81 80 00 01"]
    {
        assert!(told.message.contains(words), "{}", told.message);
    }
}

#[test]
fn the_newest_are_kept_and_their_bytes_are_bounded() {
    let mut packets = vec![vec![0xff; 60_000]; 100];
    packets.extend(vec![multigrid(); KEPT]);
    let refusals = refusals(&packets);
    let kept = refusals.kept.lock().unwrap();
    assert_eq!(kept.len(), KEPT);
    assert!(kept.iter().all(|s| s.bytes.capacity() <= 2 * LONGEST));
    drop(kept);
    let told = refusals.of_run(&entries(200, 200)).unwrap();
    assert_eq!(told.looks_like, Some("multigrid"), "the trouble of now");
}

#[test]
fn nothing_is_kept_while_nothing_is_refused() {
    let refusals = Arc::new(Refusals::new("sonde", 50.0));
    let mut sampler = Sampler::new(refusals.clone(), Sheet::new(C::catalogue()));
    let packet = multigrid();
    for _ in 0..=FIRST_BATCHES {
        sampler.look(&Batch::from_datagrams([(&packet[..], origin())]));
    }
    assert!(refusals.kept.lock().unwrap().is_empty() && !sampler.is_eager());
}

#[test]
fn the_last_second_decides_while_the_run_goes_on() {
    let (refusals, begin) = (Refusals::new("sonde", 50.0), Instant::now());
    let at = |s: u64, received, refused| {
        refusals.at(begin + Duration::from_secs(s), &entries(received, refused)).is_some()
    };
    assert!(!at(0, 1000, 0) && !at(1, 1000, 0));
    assert!(at(2, 1100, 90), "a good hour hides nothing");
    assert!(at(60, 1100, 90), "nothing came since");
    assert!(!at(61, 1300, 91));
}
