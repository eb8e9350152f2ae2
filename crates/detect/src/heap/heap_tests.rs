//! The kind `heap`: products of whole and damaged heaps, refusals of the configuration, bounds.

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Ledger, Role, Unit};
use fullcount_core::products::Products;
use fullcount_core::progress::Flush;
use fullcount_spead::send::{CutRules, OutHeap, Packetiser};
use fullcount_spead::{BugCompat, Descriptor, Flavour};

use super::*;
use crate::conformance;

fn setup(options: &str) -> Setup {
    Setup { options: options.to_owned(), ..Setup::default() }
}

/// Products and counters of these packets, read to the end.
fn read(options: &str, packets: &[Vec<u8>]) -> (Products, fullcount_core::ledger::Entries) {
    let detector = SpeadHeap.configure(&setup(options)).unwrap();
    let mut decoder = detector.decoder(Want::ALL, &Threads::of(1)).unwrap();
    let ledger = Ledger::default();
    decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
    let mut products = Products { want: Want::ALL, ..Products::default() };
    let batch = Batch::from_datagrams(packets.iter().map(|p| (&p[..], Origin::NONE)));
    decoder.decode(Some(&batch), None, &mut products);
    decoder.flush(Flush::End, &mut products);
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
    (products, entries)
}

fn packets(count: usize) -> Vec<Vec<u8>> {
    sample::SAMPLE.packets(count).into_iter().map(|(bytes, _)| bytes).collect()
}

#[test]
fn it_passes_the_suite_that_every_detector_must_pass() {
    let sample = sample::SAMPLE;
    let all = sample.packets(300);
    for options in ["", "compat = \"spead2\"", "on_stop = \"end\"\nincomplete = \"drop\""] {
        let setup = setup(options);
        conformance::check(&SpeadHeap, &setup, &all, 3000, 11).unwrap();
    }
    // With gaps, copies and disorder.
    let mut worn: Vec<_> = all.iter().enumerate().filter(|(n, _)| n % 17 != 3).collect();
    worn.sort_by_key(|(n, _)| n ^ 1);
    let worn: Vec<_> = worn.into_iter().map(|(_, packet)| packet.clone()).collect();
    conformance::check(&SpeadHeap, &Setup::default(), &worn, 1000, 12).unwrap();
}

#[test]
fn heaps_become_arrays_with_their_names_types_and_values() {
    let (products, entries) = read("", &packets(6));
    assert_eq!(products.heaps.len(), 2);
    let heap = &products.heaps[1];
    assert!(heap.complete && heap.missing.is_empty() && heap.number == 2);
    let samples = heap.named("samples").unwrap();
    assert_eq!(&*samples.header, "{'descr': '<u2', 'fortran_order': False, 'shape': (32,)}");
    let want: Vec<u8> = (0..32u16).flat_map(|i| (i * 3 + 2).to_le_bytes()).collect();
    assert_eq!(samples.bytes.as_slice(), want);
    // Nobody described the second item.
    let other = heap.named("item_0x1001").unwrap();
    assert_eq!(other.bytes.as_slice(), 2u64.to_le_bytes());
    assert_eq!((entries.get("items.values"), entries.get("items.undescribed")), (Some(2), Some(2)));
    let (only, entries) = read("items = [\"samples\"]", &packets(6));
    assert_eq!(only.heaps[0].items.len(), 1);
    assert_eq!(entries.get("items.unwanted"), Some(2));
}

#[test]
fn an_incomplete_heap_is_flagged_with_what_is_missing_and_zeros_stand_there() {
    let mut some = packets(9);
    some.remove(5);
    let (products, entries) = read("", &some);
    let heap = products.heaps.iter().find(|heap| heap.number == 2).unwrap();
    assert!(!heap.complete && heap.missing.len() == 1);
    let missing = heap.missing[0].clone();
    assert_eq!(missing.end, heap.length.unwrap());
    assert_eq!(heap.received + (missing.end - missing.start), missing.end);
    let samples = heap.named("samples").unwrap().bytes.as_slice();
    assert!(samples.len() == 64 && samples.ends_with(&[0; 16]));
    assert_eq!(entries.get("heaps.incomplete"), Some(1));
    assert_eq!(entries.get("heaps.lost_bytes"), Some(missing.end - missing.start));
    let (none, entries) = read("incomplete = \"drop\"", &some);
    assert_eq!((none.heaps.len(), entries.get("heaps.incomplete")), (2, Some(1)));
}

#[test]
fn numbers_of_a_sequence_tell_which_heaps_never_came() {
    let mut some = packets(15);
    some.drain(6..9);
    let (_, entries) = read("sequence = [1, 1]", &some);
    assert_eq!(entries.get("heaps.lost"), Some(1));
    let (_, entries) = read("", &some);
    assert_eq!(entries.get("heaps.lost"), Some(0));
}

#[test]
fn bad_input_costs_that_packet_and_one_counter() {
    // One packet that announces 2^39 bytes, heap numbers up to a billion.
    let wide = |cnt: u64, length: u64| {
        let mut packet = packets(1).remove(0);
        packet[8..16].copy_from_slice(&(1 << 63 | 1 << 40 | cnt).to_be_bytes());
        packet[16..24].copy_from_slice(&(1 << 63 | 2 << 40 | length).to_be_bytes());
        packet
    };
    let mut hostile = vec![wide(1, (1 << 39) - 1)];
    hostile.extend((0..20_000).map(|n| wide(n * 1_000_003 % (1 << 30) + 2, 1 << 20)));
    let (products, entries) =
        read("max_heap_bytes = \"1MiB\"\nmax_live_bytes = \"4MiB\"", &hostile);
    assert_eq!(entries.get("errors.refused.heap_too_large"), Some(1));
    assert_eq!(entries.get("heaps.thrown_away"), Some(1), "no more came of that heap");
    let refused = entries.sum(Unit::Packets, Role::Rejected);
    assert_eq!(refused, 1, "others begin heaps that are given up");
    // What was announced is not what is held.
    let held: usize = products.heaps.iter().map(|heap| heap.bytes()).sum();
    assert!(held < 1 << 20, "{held} B");
    let (_, entries) = read("max_items = 1", &packets(6));
    assert_eq!(entries.get("items.descriptors"), Some(1));
}

/// Each of these heaps describes items that no heap had before.
#[test]
fn descriptors_without_end_are_counted_and_not_kept() {
    let described = |n: u64| {
        let descriptor = Descriptor::spead(0x2000 + n, &format!("bomb {n}"), "", &[], &[('u', 32)]);
        let mut heap = OutHeap::new(Flavour::default());
        heap.add_descriptor(&descriptor, BugCompat::default()).unwrap();
        let mut packets = Packetiser::new(&heap, n + 1, CutRules::default()).unwrap();
        let mut bytes = vec![];
        packets.next_packet(&heap, &mut bytes).unwrap();
        assert!(packets.is_done());
        bytes
    };
    let all: Vec<_> = (0..500).map(described).collect();
    let (_, entries) = read("max_items = 20", &all);
    let get = |name| entries.get(name);
    assert_eq!((get("items.descriptors"), get("items.descriptors_refused")), (Some(20), Some(480)));
}

#[test]
fn wrong_settings_are_refused_by_name() {
    let said = |options: &str| SpeadHeap.configure(&setup(options)).err().unwrap().to_string();
    assert_eq!(said("max_heaps = 0"), "detector.max_heaps: 0 is not allowed: 1 to 4096");
    assert!(said("max_heap_bytes = \"many\"").contains("detector.max_heap_bytes: many"));
    assert!(said("heap_timeout = \"5\"").contains("detector.heap_timeout"));
    assert!(said("bins = 1").contains("16 to 4096"));
    assert!(said("window = 1").contains("window"));
    let with = Setup { geometry: "tubes = 1".into(), ..Setup::default() };
    assert!(SpeadHeap.configure(&with).err().unwrap().to_string().contains("no geometry"));
}

#[test]
fn people_see_flavour_items_descriptors_and_values() {
    let detector = SpeadHeap.configure(&Setup::default()).unwrap();
    let mut inspector = detector.inspector();
    let shown: Vec<_> =
        packets(3).iter().map(|packet| inspector.inspect(packet, Origin::NONE)).collect();
    let get = |n: usize, name: &str| {
        let found = shown[n].header.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.clone())
    };
    assert_eq!(get(0, "flavour").as_deref(), Some("SPEAD-64-40"));
    assert_eq!(shown[0].rows[1][..2], [0, 0x1000]);
    assert!(get(2, "heap").unwrap().starts_with("1 complete"));
    assert_eq!(get(2, "descriptors").as_deref(), Some("samples 0x1000 \"what was sampled\""));
    let items = get(2, "items").unwrap();
    assert!(items.contains("samples 0x1000 <u2 (32) = [1 4 7 10 13 16 19 22 …]"), "{items}");
}
