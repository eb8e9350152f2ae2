//! Descriptors that mean harm: each costs one count with its reason. What they cost of memory: `tests/hostile_descriptors.rs`.

use super::*;
use crate::receive::{Heap, HeapReceiver};
use crate::testing::{Raw, Wanted, adr, imm};
use DescriptorRefused as R;

/// A heap that holds an item of descriptors, and values of ids behind it.
fn heap(descriptors: &[u8], values: &[Wanted]) -> Heap {
    let items = [&[adr(5, 0)], values].concat();
    let length = descriptors.len() as u64;
    let packet = Raw { items, ..Raw::new(1, length, 0, descriptors) }.bytes();
    let mut stream = HeapReceiver::new(crate::ReceiverConfig::default()).unwrap();
    stream.push(0, &packet);
    stream.pop().unwrap().heap().unwrap()
}

/// What a fresh group counts of one item of descriptors.
fn refused(descriptors: &[u8]) -> (Vec<(R, u64)>, usize) {
    let mut group = ItemGroup::new(BugCompat::default());
    group.update(&heap(descriptors, &[]));
    assert_eq!(group.counts().too_many, 0);
    (group.counts().refused.reasons().collect(), group.items().count())
}

/// A descriptor of id 0x1000 with one text at `at`: its NumPy header (0x15), say.
fn with(at: u64, bytes: &[u8]) -> Vec<u8> {
    let items = vec![imm(0x14, 0x1000), adr(at, 0)];
    Raw { items, ..Raw::new(1, bytes.len() as u64, 0, bytes) }.bytes()
}

fn numpy(descr: &str, shape: &str) -> Vec<u8> {
    let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}");
    with(0x15, text.as_bytes())
}

/// A format and a shape of SPEAD, each dimension with its flag.
fn spead(code: char, bits: u32, shape: &[(u8, u64)]) -> Vec<u8> {
    let mut bytes = vec![code as u8];
    bytes.extend(&bits.to_be_bytes()[1..]);
    for (flag, size) in shape {
        bytes.push(*flag);
        bytes.extend(&size.to_be_bytes()[3..]);
    }
    let items = vec![imm(0x14, 0x1000), adr(0x13, 0), adr(0x12, 4)];
    Raw { items, ..Raw::new(1, bytes.len() as u64, 0, &bytes) }.bytes()
}

#[test]
fn each_reason_has_its_count() {
    let long = "'x'".repeat(1 << 18);
    let over = format!("[{}]", "('a', '<u1'), ".repeat(1 << 17));
    let deep = format!("{}{}", "(".repeat(1 << 19), ")".repeat(1 << 19));
    let name = |n: u64, item| Raw { items: vec![item], ..Raw::new(n, 1, 0, b"n") }.bytes();
    let cut = Raw { items: vec![imm(0x14, 7)], ..Raw::new(1, 1 << 39, 0, b"x") }.bytes();
    let short = Raw { items: vec![imm(0x14, 7)], ..Raw::new(1, 9, 0, b"x") }.bytes();
    for (what, item, why) in [
        ("no packet", b"no packet at all".to_vec(), R::Malformed),
        ("half a header", vec![0x53, 4, 3], R::Malformed),
        ("a length of 2^39 B", cut, R::Cut),
        ("8 B are missing", short, R::Cut),
        ("no id", name(1, adr(0x10, 0)), R::NoId),
        ("id 0", name(1, imm(0x14, 0)), R::NoId),
        ("neither header nor format", name(1, imm(0x14, 7)), R::Header),
        ("a header of 1 MB", numpy(&format!("[{long}]"), "()"), R::Header),
        ("a header above 1 MiB", numpy(&over, "()"), R::Header),
        ("a million levels", numpy(&deep, "()"), R::Header),
        ("33 dimensions", numpy("'<u1'", &format!("({})", "1,".repeat(33))), R::Header),
        ("a negative dimension", numpy("'<u1'", "(-1,)"), R::Header),
        ("objects", numpy("'|O'", "(3,)"), R::Type),
        ("objects in a structure", numpy("[('a', '<u2'), ('b', '|O8')]", "()"), R::Type),
        ("elements without a byte", numpy("[('a', '<u2', (0,))]", "(9,)"), R::Type),
        ("2^62 elements of 8 B", numpy("'<u8'", "(4611686018427387904,)"), R::TooLarge),
        ("2^47 by 2^47", numpy("'<u1'", "(140737488355328, 140737488355328)"), R::TooLarge),
        ("fields of 2^62 B", numpy("[('a', '<u8', (4611686018427387904,))]", "()"), R::TooLarge),
        ("floats of 16 bits", spead('f', 16, &[]), R::Format),
        ("numbers without a bit", spead('u', 0, &[(0, 4)]), R::Format),
        ("two variable dimensions", spead('u', 8, &[(1, 0), (1, 0)]), R::Variable),
    ] {
        let (reasons, items) = refused(&item);
        assert_eq!(reasons, [(why, 1)], "{what}");
        // Where an id was told, its name stays known.
        let told = !matches!(why, R::Malformed | R::Cut | R::NoId);
        assert_eq!(items, usize::from(told), "{what}");
    }
}

#[test]
fn shapes_that_can_be_are_no_refusal_and_cost_no_memory() {
    let immediate = imm(0x1000, 7);
    for (what, item, good) in [
        ("2^47 bytes", numpy("'|u1'", "(140737488355328,)"), false),
        ("2^39 by 2^39 of SPEAD", spead('u', 8, &[(0, 1 << 39), (0, 1 << 39)]), false),
        ("no element", numpy("'<u8'", "(0, 140737488355328)"), true),
        ("no element of SPEAD", spead('u', 8, &[(0, 0), (0, 1 << 39)]), true),
        ("as long as the data", spead('u', 8, &[(1, 0)]), true),
        ("none along 2^39", spead('u', 8, &[(0, 0), (1, 0)]), true),
    ] {
        let mut group = ItemGroup::new(BugCompat::default());
        let update = group.update(&heap(&item, &[immediate]));
        assert_eq!(group.counts().refused, DescriptorRefusals::default(), "{what}");
        let came = (update.values.len(), update.errors.len());
        assert_eq!(came, if good { (1, 0) } else { (0, 1) }, "{what}: {update:?}");
        assert_eq!(group.counts().undecodable, u64::from(!good), "{what}");
    }
}

#[test]
fn limits_of_an_item_and_a_group_are_counted_and_a_bad_one_counts_each_time() {
    let one = |n: u64| {
        let items = vec![imm(0x14, n), adr(0x10, 0), adr(0x13, 4)];
        let bytes = [format!("{n:04}").as_bytes(), b"u\0\0\x08"].concat();
        Raw { items, ..Raw::new(n, 8, 0, &bytes) }.bytes()
    };
    let many: Vec<u8> = (1..=100).flat_map(one).collect();
    let mut counts = DescriptorRefusals::default();
    assert_eq!(Descriptor::parse_counted(&many, BugCompat::default(), 40, &mut counts).len(), 40);
    assert_eq!(counts.reasons().collect::<Vec<_>>(), [(R::TooMany, 1)]);
    let mut counts = DescriptorRefusals::default();
    let all = Descriptor::parse_counted(&many, BugCompat::default(), 100, &mut counts);
    assert_eq!((all.len(), counts.total()), (100, 0), "exactly as many as are read");
    let mut group = ItemGroup::new(BugCompat::default()).with_limit(10);
    group.update(&heap(&many, &[]));
    assert_eq!((group.counts().refused.of(R::GroupFull), group.counts().too_many), (90, 90));
    let mut group = ItemGroup::new(BugCompat::default());
    let bad = heap(&numpy("'|O'", "(3,)"), &[imm(0x1000, 7)]);
    for times in 1..=3 {
        group.update(&bad);
        let counts = group.counts();
        let seen = (counts.refused.of(R::Type), counts.refused.total(), counts.undecodable);
        assert_eq!(seen, (times, times, times));
    }
    // Texts: 63 of 1 MiB and a name have room in 64 MiB.
    let mut group = ItemGroup::new(BugCompat::default());
    for n in 0..70 {
        let text = [format!("{n:04}").into_bytes(), vec![b'x'; 1 << 20]].concat();
        let items = vec![imm(0x14, 0x1000 + n), adr(0x10, 0), adr(0x11, 4)];
        let length = text.len() as u64;
        group.update(&heap(&Raw { items, ..Raw::new(1, length, 0, &text) }.bytes(), &[]));
    }
    let full = group.counts().refused.of(R::TextTooLong);
    assert_eq!((full, full + group.items().count() as u64, group.items().count()), (7, 70, 63));
}
