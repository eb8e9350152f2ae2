//! The arithmetic against numbers worked out by hand.

use super::instrument::{Instrument, InstrumentKind, Links};
use super::plan::{Wishes, bound, plan};
use super::{CapacityError, example};

fn instrument() -> Instrument {
    Instrument {
        name: "d22".into(),
        about: "example".into(),
        kind: InstrumentKind::Detector("sonde".into()),
        rate: Some(100e6),
        peak: None,
        bytes_per_event: None,
        packet_bytes: None,
        links: None,
        pulses: Some(10.0),
        compress_factor: 1.0,
        source: "a test".into(),
    }
}

fn wishes() -> Wishes {
    Wishes { peak_factor: 4.0, message_bytes: 200.0, ..Wishes::default() }
}

#[test]
fn a_hundred_million_events_by_hand() {
    let p = plan(&instrument(), &example::facts(), &wishes()).unwrap();
    // 1250 B and 250 events a packet: 5 B an event.
    let a = &p.average;
    assert_eq!((a.events, a.bytes, a.packets), (100e6, 500e6, 400e3));
    // 1250 + 8 + 20 + 14 + 4 + 20 = 1316 B on the wire.
    assert_eq!(a.wire_bits, 400e3 * 1316.0 * 8.0);
    // 4.2112 Gb/s of 8, 20 and 80.
    assert_eq!(a.links, [1, 1, 1]);
    // One core receives 1250 B at 1 / (1 + 3 · 250 / 8000) µs; 80 % of it.
    let receive = 400e3 * 1.09375e-6 / 0.8;
    assert!((a.receive.unwrap() - receive).abs() < 1e-9);
    // 2 M packets/s of a core from memory, 80 % of it.
    assert!((a.process - 0.25).abs() < 1e-9);
    assert!((a.encode.unwrap() - 0.125).abs() < 1e-9);
    // 400,000 packets/s without loss a worker: 1.25 of them at 80 %.
    assert_eq!(a.workers, Some(2));
    // 2 workers and 0.125 of a core for messages.
    assert_eq!((a.cores, a.hosts), (3, [1, 1]));
    // 800 MB/s of events, 80 MB/s of a producer.
    assert_eq!(p.workers, 10);
    assert_eq!(p.missing, Vec::<String>::new());

    let k = &p.peak;
    assert_eq!((k.events, k.packets), (400e6, 1.6e6));
    // 16.8 Gb/s.
    assert_eq!((k.links, k.workers), ([3, 1, 1], Some(5)));
    assert_eq!((k.cores, k.hosts), (6, [2, 1]));
    assert_eq!(k.all_hosts(), 2);
}

#[test]
fn what_goes_out_by_hand() {
    let i = Instrument { compress_factor: 2.0, ..instrument() };
    let w = Wishes { retention_s: 7200.0, outage_s: 30.0, ..wishes() };
    let o = plan(&i, &example::facts(), &w).unwrap().output.unwrap();
    // 400 MB/s of 80: 5 producers. 10 M events a pulse, 2 M of each: 161.3 messages of 12,400 are 162, ten times a second.
    assert_eq!(o.messages, 8100.0);
    assert_eq!((o.topic, o.sent), (801_620_000.0, 400_810_000.0));
    // With the messages' heads: 5.01.
    assert_eq!(o.partitions, Some(6));
    assert_eq!(o.hour, 400_810_000.0 * 3.0 * 3600.0);
    assert_eq!(o.kept, 2.0 * o.hour);
    // The spool holds messages before librdkafka compresses them.
    assert_eq!(o.spool, 30.0 * 801_620_000.0);
    assert_eq!(o.file, 800e6 + 160.0);
    assert!((o.disk.unwrap() - (800e6 + 160.0) / 2.0 / 250e6).abs() < 1e-12);
}

#[test]
fn the_larger_of_plan_and_format_counts() {
    let i = Instrument { bytes_per_event: Some(50.0), ..instrument() };
    let p = plan(&i, &example::facts(), &wishes()).unwrap();
    assert_eq!((p.average.bytes, p.average.packets, p.events_per_packet), (5e9, 4e6, 25.0));
    assert_eq!(p.event_bytes, [Some(50.0), Some(5.0)]);
    // Few events a packet: the packets decide, 4 M of 1.6 M.
    assert!((p.average.process - 2.5).abs() < 1e-9);
    let less = Instrument { bytes_per_event: Some(1.0), ..instrument() };
    assert_eq!(plan(&less, &example::facts(), &wishes()).unwrap().average.bytes, 500e6);
}

#[test]
fn packets_alone_on_given_links() {
    let i = Instrument {
        kind: InstrumentKind::Packets,
        rate: Some(1e6),
        bytes_per_event: Some(9000.0),
        packet_bytes: Some(9000.0),
        links: Some(Links { count: 10, speed: 10e9 }),
        pulses: None,
        ..instrument()
    };
    let p = plan(&i, &example::facts(), &wishes()).unwrap();
    assert_eq!((p.factor, p.average.events, p.average.packets), (1.0, 0.0, 1e6));
    // 250,000 packets/s a core, 80 % of it.
    assert_eq!((p.average.receive, p.average.cores), (Some(5.0), 5));
    // Five cores need two hosts; 72.7 Gb/s, 20 of each port, need four.
    assert_eq!(p.average.hosts, [2, 4]);
    assert!(p.output.is_none() && p.missing[0].contains("receiving datagrams alone"));
}

#[test]
fn an_unknown_rate_is_given_for_each_million_and_said() {
    let i = Instrument { rate: None, ..instrument() };
    let p = plan(&i, &example::facts(), &wishes()).unwrap();
    assert!(p.unit && p.average.events == 1e6);
    assert!(p.missing[0].contains("no rate is given"), "{:?}", p.missing);
}

#[test]
fn a_detector_without_a_decoder_is_planned_by_its_bytes_and_an_assumed_cost() {
    let kind = InstrumentKind::Assumed { technology: "BAND-GEM".into(), cost_of: "sonde".into() };
    let i = Instrument { kind, bytes_per_event: Some(8.0), ..instrument() };
    let p = plan(&i, &example::facts(), &wishes()).unwrap();
    // 8 B an event, not the 5 or more of the other detector's format; its packets of 1250 B.
    assert_eq!(p.event_bytes, [Some(8.0), None]);
    assert_eq!((p.average.bytes, p.average.packets), (800e6, 640e3));
    // 2 M packets/s of a core, 80 % of it: 156 events a packet are fewer than the 250 that were measured.
    assert!((p.average.process - 0.4).abs() < 1e-9, "{}", p.average.process);
    assert!(p.missing[0].contains("assumed") && p.missing[0].contains("sonde"), "{:?}", p.missing);
    assert!(p.output.is_some());
}

#[test]
fn what_was_not_measured_is_missing_and_said() {
    let mut facts = super::measured::MeasuredRates::default();
    facts.read("memory.json", example::MEMORY).unwrap();
    let e = plan(&instrument(), &facts, &wishes()).unwrap_err();
    assert!(matches!(e, CapacityError::Results { .. }), "{e}");
    facts.read("lossless.json", example::RECEIVE).unwrap();
    let p = plan(&instrument(), &facts, &wishes()).unwrap();
    assert_eq!((p.average.workers, p.average.encode), (None, None));
    let o = p.output.unwrap();
    assert_eq!((o.partitions, o.disk), (None, None));
    let all = p.missing.join("\n");
    assert!(all.contains("workers:") && all.contains("partitions:"), "{all}");
    // One thread receives and decodes: 1.09375 + 0.5 µs a packet.
    assert!((p.worker.value - 1e6 / 1.59375).abs() < 1e-3);
    let two = Wishes { threads: 2, ..wishes() };
    assert!((plan(&instrument(), &facts, &two).unwrap().worker.value - 1e6 / 1.09375).abs() < 1e-3);
    let given = Wishes { produce: Some(1e9), ..wishes() };
    assert!(plan(&instrument(), &facts, &given).unwrap().output.unwrap().partitions.is_some());
}

#[test]
fn peaks_are_what_a_pulse_can_hold() {
    let facts = example::facts();
    let own = Instrument { peak: Some(250e6), ..instrument() };
    assert_eq!(plan(&own, &facts, &wishes()).unwrap().factor, 2.5);
    // 10 pulses a second hold 100 times 1 ms.
    let e =
        plan(&Instrument { peak: Some(100.1e8), ..instrument() }, &facts, &wishes()).unwrap_err();
    assert!(e.to_string().contains("at most 100.0 times"), "{e}");
    let steady = Instrument { pulses: None, ..instrument() };
    assert_eq!(plan(&steady, &facts, &wishes()).unwrap().factor, 1.0);
    assert!((bound() - 24.975).abs() < 1e-3);
}

#[test]
fn hosts_for_the_peak_on_request() {
    let average = Wishes { produce: Some(1e9), ..wishes() };
    assert_eq!(plan(&instrument(), &example::facts(), &average).unwrap().workers, 2);
    let peak = Wishes { size_for_peak: true, ..average };
    assert_eq!(plan(&instrument(), &example::facts(), &peak).unwrap().workers, 5);
}

#[test]
fn wishes_out_of_range_are_refused_by_flag() {
    let d = wishes;
    for (bad, key) in [
        (Wishes { headroom: 0.0, ..d() }, "headroom"),
        (Wishes { headroom: f64::NAN, ..d() }, "headroom"),
        (Wishes { peak_factor: 0.5, ..d() }, "peak-factor"),
        (Wishes { threads: 3, ..d() }, "threads"),
        (Wishes { host_cores: 0, ..d() }, "host-cores"),
        (Wishes { reserve: 4, ..d() }, "reserve-cores"),
        (Wishes { port: 0.0, ..d() }, "port"),
        (Wishes { ports: 0, ..d() }, "ports"),
        (Wishes { message_events: 0, ..d() }, "message-events"),
        (Wishes { replication: 0, ..d() }, "replication"),
        (Wishes { retention_s: 1.0, ..d() }, "retention"),
        (Wishes { outage_s: 0.0, ..d() }, "outage"),
        (Wishes { produce: Some(0.0), ..d() }, "producer-rate"),
    ] {
        let e = plan(&instrument(), &example::facts(), &bad).unwrap_err().to_string();
        assert!(e.starts_with(key) && e.contains(" to "), "{e}");
    }
}
