//! Every registered simulator passes the suite of its seam, and the decoder of the same name accepts its packets.

use fullcount_core::batch::Origin;
use fullcount_core::products::Want;
use fullcount_core::simulator::{TrafficOptions, TrafficOrder, conformance as simulators};
use fullcount_detect::conformance as decoders;
use fullcount_detect::detector::{self, Setup, Threads, TimeBase};

#[test]
fn every_simulator_conforms() {
    for kind in fullcount_sim::registered().kinds() {
        simulators::check(kind).unwrap_or_else(|why| panic!("{}: {why}", kind.name()));
    }
}

#[test]
fn every_decoder_conforms_on_the_packets_of_its_simulator() {
    for kind in detector::registered().kinds() {
        let name = kind.name();
        let simulator = fullcount_sim::registered().find(name);
        let simulator = simulator.unwrap_or_else(|| panic!("{name}: nothing simulates it"));
        let options = TrafficOptions::default();
        let order = TrafficOrder { prepared_bytes: Some(1 << 16), ..TrafficOrder::of(&options, 3) };
        let mut traffic = simulator.make(&order).unwrap().traffic;
        let train = |_| Some(traffic.next_train(1, 1)?.bytes.to_vec());
        let packets: Vec<_> = (0..9).filter_map(train).map(|p| (p, Origin::NONE)).collect();
        let right = packets.iter().filter(|(packet, _)| kind.looks_right(packet)).count();
        assert_eq!(right, packets.len(), "{name}: the header test");
        let time = TimeBase { pulses_in_data: kind.carries_pulses(), ..TimeBase::default() };
        let geometry = simulator.geometry(&order).unwrap().unwrap_or_default();
        let setup = Setup { geometry, time, ..Setup::default() };
        // What summary and `lab` read of every decoder.
        let detector = kind.configure(&setup).unwrap();
        let decoder = detector.decoder(Want::default(), &Threads::of(1)).unwrap();
        let sheets = decoder.sheets();
        for common in ["decode.packets", "decode.accepted"] {
            assert!(sheets[0].lines().iter().any(|line| line.name == common), "{name}: {common}");
        }
        let report = decoders::check(kind, &setup, &packets, 40, 5);
        let report = report.unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(
            report.events > 0,
            !["sequence", "fragments", "heap"].contains(&name),
            "{name}: {report:?}"
        );
    }
}
