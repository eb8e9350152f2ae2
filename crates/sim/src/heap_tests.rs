//! The array telescope against the decoder `heap`.

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::detector::{Kind, Setup, Threads};
use fullcount_core::ledger::Ledger;
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::Flush;
use fullcount_core::simulator::{Simulator, TrafficOptions, TrafficOrder, conformance};

use super::*;

#[test]
fn it_passes_the_suite_that_every_simulated_detector_must_pass() {
    conformance::check(&HeapSimulator).unwrap();
}

#[test]
fn every_heap_is_decoded_with_its_arrays_at_every_packet_size() {
    for packet in ["56", "72", "1472", "8972", "65507"] {
        let options =
            TrafficOptions::of(&[("packet", packet), ("antennas", "2"), ("channels", "100")]);
        let mut traffic = HeapSimulator.make(&TrafficOrder::of(&options, 3)).unwrap().traffic;
        let detector = fullcount_detect::heap::SpeadHeap.configure(&Setup::default()).unwrap();
        let mut decoder = detector.decoder(Want::ALL, &Threads::of(1)).unwrap();
        let ledger = Ledger::default();
        decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
        let mut products = Products { want: Want::ALL, ..Products::default() };
        while traffic.totals().events < 69 || traffic.totals().packets % 3 != 1 {
            let train = traffic.next_train(64, 0).unwrap();
            let batch = Batch::from_datagrams(train.each().map(|bytes| (bytes, Origin::NONE)));
            decoder.decode(Some(&batch), None, &mut products);
        }
        while let Some(train) = traffic.remainder() {
            let batch = Batch::from_datagrams(train.each().map(|bytes| (bytes, Origin::NONE)));
            decoder.decode(Some(&batch), None, &mut products);
        }
        let end = traffic.end();
        assert_eq!(end.len(), 1);
        let batch = Batch::from_datagrams(end.iter().map(|bytes| (&bytes[..], Origin::NONE)));
        decoder.decode(Some(&batch), None, &mut products);
        decoder.flush(Flush::End, &mut products);
        let entries = ledger.read();
        // The last one was cut, and its rest came before the stop heap.
        let made = traffic.totals().events;
        assert_eq!(entries.get("heaps.complete"), Some(made + 1), "{packet}: and the stop heap");
        assert_eq!(entries.get("heaps.with_arrays"), Some(made));
        assert_eq!(entries.get("decode.accepted"), Some(traffic.totals().packets));
        assert_eq!(products.heaps.len() as u64, made);
        let last = products.heaps.last().unwrap();
        let names: Vec<&str> = last.items.iter().map(|item| &*item.name).collect();
        assert_eq!(names, ["timestamp", "power", "visibilities", "item_0x1003"]);
        assert_eq!(last.named("power").unwrap().bytes.as_slice().len(), 400);
        let at = (made - 1) * PERIOD_NS;
        assert_eq!(last.named("timestamp").unwrap().bytes.as_slice(), at.to_be_bytes());
        assert_eq!(entries.balance(), 0);
    }
}
