//! Statements 34 to 36 of docs/stcp.md and the tests of the simulator: short runs, a tenth of the port's rate where the numbers allow.

use fullcount_core::sim::Amount;

use super::cell::ScanCell;
use super::variant::Variant;

const MS: u64 = 1_000_000;

/// A tenth of everything: 1 Gb/s port, 204.8 Mb/s sources, 20 ms; parts of `part_ms`.
fn tenth(variant: Variant, part_ms: u64) -> ScanCell {
    ScanCell {
        rate_hz: 12_500,
        emit_bps: 500_000_000,
        port_bps: 1_000_000_000,
        rto_us: 20_000,
        bin_ns: 100 * MS,
        ..ScanCell::reference(variant, part_ms * MS)
    }
}

#[test]
fn the_same_seed_gives_the_same_segments() {
    let cell = tenth(Variant::Simplified, 500);
    let (a, b) = (cell.run().unwrap(), cell.run().unwrap());
    assert_eq!(a, b);
    let other = ScanCell { seed: 2, ..cell }.run().unwrap();
    assert_ne!(a.course.hash, other.course.hash);
}

#[test]
fn s34_without_control_it_collapses_and_stays() {
    let o = tenth(Variant::None, 2000).run().unwrap();
    assert!((0.95 * 204.8e6..1.01 * 204.8e6).contains(&o.before.useful));
    for part in [&o.during, &o.after] {
        assert!((0.06e9..=0.12e9).contains(&part.useful) && part.wire > 0.45e9, "{part:?}");
    }
    assert_eq!(o.recovery_s, None);
}

#[test]
fn s35_the_default_recovers_at_once() {
    let o = tenth(Variant::Simplified, 2000).run().unwrap();
    assert!(o.during.useful >= 0.19e9 && o.after.useful >= 0.2e9, "{:?} {:?}", o.during, o.after);
    // A tenth of the rate: a second here is 0.1 s there.
    assert!(o.recovery_s.is_some_and(|s| s <= 1.0), "{:?}", o.recovery_s);
    assert!(o.drop_share < 0.01, "{}", o.drop_share);
}

#[test]
fn s36_constant_windows_that_fit_the_queue_lose_nothing() {
    let o = tenth(Variant::Static(200_000), 1000).run().unwrap();
    assert_eq!(
        (o.course.dropped, o.course.counters.iter().map(|c| c.rto_expired).sum::<u64>()),
        (0, 0)
    );
    assert!(o.during.useful >= 0.19e9);
}

/// In parts of 0.4 s, and the last one long enough.
#[test]
fn the_back_off_of_figure_6_recovers_within_a_second_and_a_half() {
    let base = ScanCell::reference(Variant::Figure6, 400 * MS);
    let o = ScanCell { end_ns: 2800 * MS, ..base }.run().unwrap();
    assert!(o.during.useful < 1.9e9 && o.during.wire > 2.1e9, "it has something to recover from");
    assert!(o.recovery_s.is_some_and(|s| s > 0.0 && s <= 1.5), "{:?}", o.recovery_s);
}

#[test]
fn one_sender_over_a_link_that_loses_one_in_a_hundred() {
    let base = ScanCell::reference(Variant::Simplified, 300 * MS);
    let mut cell = ScanCell { senders: 1, guest_ns: None, ..base };
    cell.fault.drop = Amount::Share(0.01);
    let o = cell.run().unwrap();
    assert!(o.course.lost > 100 && o.course.connected[0]);
    assert!(o.before.useful >= 2.04e9, "{:?}", o.before);
    // A byte that never arrived would hold back all behind it, and the send buffer would be full.
    let [underway] = o.course.underway[..] else { panic!("{:?}", o.course.underway) };
    assert!(underway < u64::from(cell.buffer_bytes), "{underway}");
}

#[test]
fn four_links_of_ten_fill_a_port_of_forty() {
    let base = ScanCell::reference(Variant::Simplified, 30 * MS);
    let cell = ScanCell {
        senders: 4,
        guest_ns: None,
        rate_hz: 0,
        fragment_bytes: 8192,
        emit_bps: 10_000_000_000,
        port_bps: 40_000_000_000,
        bin_ns: 10 * MS,
        ..base
    };
    let o = cell.run().unwrap();
    assert!(o.before.useful > 9.8e9, "{:?}", o.before);
}

/// The layout of 600 sources for 20 ms; the whole second: `fullcount lab stcp congestion --parts detector`. No buffer has more than 1 MB, and
/// every source makes all its fragments.
#[test]
fn sources_at_100_khz_are_never_throttled() {
    let cells = super::congestion::detector_cells(Variant::Simplified, 600, 20 * MS, 1);
    assert_eq!(cells.iter().map(|cell| cell.senders).sum::<usize>(), 600);
    for cell in cells {
        let buffers = [cell.queue_bytes, cell.buffer_bytes.into(), cell.window_bytes.into()];
        assert!(buffers.into_iter().all(|bytes| bytes <= 1_000_000), "{buffers:?}");
        let o = cell.run().unwrap();
        assert_eq!((&o.course.throttled[..], o.course.dropped), (&[0; 4][..], 0));
        assert!(o.course.connected.iter().all(|c| *c));
        // The first comes a random part of a period late.
        let made: Vec<u64> = o.course.counters.iter().map(|c| c.fragments).collect();
        assert!(made.iter().all(|made| (1999..=2000).contains(made)), "{made:?}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let cell = ScanCell::reference(Variant::None, 300 * MS);
    for (key, wrong) in [
        ("senders", ScanCell { senders: 0, ..cell.clone() }),
        ("queue", ScanCell { queue_bytes: 1, ..cell.clone() }),
        ("window", ScanCell { window_bytes: 1 << 30, ..cell.clone() }),
        ("buffer", ScanCell { buffer_bytes: 100_000, ..cell.clone() }),
        ("rto", ScanCell { rto_us: 1, ..cell.clone() }),
    ] {
        assert!(wrong.run().unwrap_err().to_string().starts_with(key));
    }
    for variant in
        Variant::NAMED.into_iter().chain([Variant::Static(80_000), Variant::Capped(200_000)])
    {
        assert_eq!(Variant::named(&variant.name()), Some(variant));
    }
    assert_eq!(Variant::named("static=9"), None);
}

/// The paper's own network, in parts of half a second.
#[test]
fn the_reference_is_that_of_the_paper() {
    let none = ScanCell::reference(Variant::None, 500 * MS).run().unwrap();
    assert!((0.6e9..0.8e9).contains(&none.during.useful), "{:?}", none.during);
    assert!(none.during.wire > 4.9e9 && none.after.useful < 1.1e9, "{:?}", none.after);
    assert_eq!(none.recovery_s, None);
    let good = ScanCell::reference(Variant::Simplified, 500 * MS).run().unwrap();
    assert!(good.during.useful > 1.9e9 && good.recovery_s.is_some_and(|s| s <= 0.1), "{good:?}");
    assert!(good.after.useful >= 2.03e9 && good.drop_share < 0.01, "{good:?}");
}

/// All of the scan, in parts of 200 ms; of 1 s: `fullcount lab stcp congestion --parts scan`.
#[test]
fn every_network_of_the_scan_recovers() {
    let all = super::congestion::scan_cells(Variant::Simplified, 200 * MS, 1);
    assert_eq!(all.len(), 72);
    for cell in &all {
        let o = cell.run().unwrap();
        assert!(cell.overloaded());
        assert!(o.recovery_s.is_some_and(|s| s <= 0.1), "{cell:?} {:?}", o.recovery_s);
    }
}

#[test]
fn without_control_it_collapses_where_windows_are_twice_the_queue_and_the_port_is_overloaded() {
    let mut all = super::congestion::scan_cells(Variant::None, 200 * MS, 1);
    // Queue and window decide: 0.3 MB to 4 MB, 1 and 4 MiB of each of four senders.
    assert_eq!(all.iter().filter(|cell| cell.must_collapse()).count(), 63);
    for (at, must) in [(0, true), (8, true), (17, true), (36, true), (54, false), (71, true)] {
        assert_eq!(all[at].must_collapse(), must, "{:?}", all[at]);
        let o = all[at].run().unwrap();
        assert!(!must || o.recovery_s.is_none(), "{:?} {:?}", all[at], o.recovery_s);
    }
    let cell = all.swap_remove(0);
    let sum = 4 * u64::from(cell.window_bytes);
    for (other, must) in [
        (ScanCell { queue_bytes: sum / 2, ..cell.clone() }, true),
        (ScanCell { queue_bytes: sum / 2 + 1, ..cell.clone() }, false),
        (ScanCell { port_bps: 11_000_000_000, ..cell.clone() }, false),
        (ScanCell { guest_ns: None, ..cell.clone() }, false),
        (ScanCell { variant: Variant::Simplified, ..cell }, false),
    ] {
        assert_eq!(other.must_collapse(), must, "{other:?}");
    }
}

/// The trace is what a sender does that is told the same: fed with its calls and segments, another one sends the same.
#[test]
fn a_trace_of_one_sender_is_read_back_and_followed() {
    use fullcount_stcp::StcpSender;
    use fullcount_stcp::trace::{TRACE_HEADER, TraceKind, TraceLine};

    let folder = tempfile::tempdir().unwrap();
    let (trace, frames) = (folder.path().join("a.trace"), folder.path().join("a.pcap"));
    for (variant, fault) in
        [(Variant::Simplified, Amount::Share(0.01)), (Variant::None, Amount::Share(0.0))]
    {
        let base = ScanCell::reference(variant, 10 * MS);
        let mut cell = ScanCell { bin_ns: MS, ..base };
        cell.fault.drop = fault;
        let asked = super::watch::WatchFiles {
            frames: Some((frames.clone(), 1 << 20)),
            trace: Some((trace.clone(), 1 << 30)),
        };
        let (outcome, watch) = cell.run_watched(asked.create().unwrap()).unwrap();
        assert!(asked.create().is_err(), "nothing is replaced");
        let written = watch.unwrap().finish().unwrap();
        assert_eq!(outcome, cell.run().unwrap(), "watching changes nothing");
        let text = std::fs::read_to_string(&trace).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(TRACE_HEADER));
        let lines: Vec<TraceLine> = lines.map(|line| TraceLine::read(line).unwrap()).collect();
        assert_eq!(lines.len() as u64, written.lines);
        assert!(lines.is_sorted_by_key(|line| line.at_ns));
        let memory = super::memory::Counting::new(cell.buffer_bytes);
        let mut sender = StcpSender::new(variant.settings(cell.rto_us), memory).unwrap();
        let mut sent = 0;
        for line in &lines {
            let (at, segment) = (line.at_ns, &line.segment);
            match line.kind {
                TraceKind::Opened => sender.open(at, segment.seq, true).unwrap(),
                TraceKind::Submitted => {
                    assert!(sender.submit(at, &vec![0; segment.length as usize]).is_ok());
                }
                TraceKind::Received => sender.receive(at, segment),
                TraceKind::Sent => {
                    let again = sender.poll(at, 0).map(|s| TraceLine::sent(at, &s));
                    assert_eq!(again.as_ref(), Some(line), "segment {sent}");
                    sent += 1;
                }
                _ => {}
            }
        }
        assert!(sent > 500, "{sent}");
        // A frame of 9018 bytes with its record; ACKs beside it.
        let size = std::fs::metadata(&frames).unwrap().len();
        assert!(written.frames > 100 && (1_000_000..=1 << 20).contains(&size), "{size}");
        std::fs::remove_file(&trace).and_then(|()| std::fs::remove_file(&frames)).unwrap();
    }
}
