//! The output of heaps: the suite of outputs, files that NumPy can read at any time, hostile names, limits, links.

use std::path::Path;
use std::sync::Arc;

use fullcount_core::conformance::{OutputCase, output};
use fullcount_core::heaps::{HeapProduct, ItemProduct, SharedBytes};
use fullcount_core::products::Products;
use fullcount_core::sink::Sink;

use super::*;

const LIMITS: HeapLimits = HeapLimits { arrays: 8, bytes: None };

fn item(name: &str, descr: &str, shape: &str, bytes: Vec<u8>) -> ItemProduct {
    let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ({shape})}}");
    ItemProduct {
        id: 0x1000,
        name: name.into(),
        description: "".into(),
        header: header.into(),
        bytes: SharedBytes::of(bytes),
    }
}

fn heap(number: u64, items: Vec<ItemProduct>) -> Arc<HeapProduct> {
    Arc::new(HeapProduct { number, complete: true, items, ..HeapProduct::default() })
}

/// Number of rows, and bytes behind the header.
fn read(path: &Path) -> (u64, Vec<u8>) {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00", "{}", path.display());
    let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!(end % 64, 0);
    let text = String::from_utf8(bytes[10..end].to_vec()).unwrap();
    let rows = text.split("'shape': (").nth(1).unwrap().split(',').next().unwrap();
    (rows.parse().unwrap(), bytes[end..].to_vec())
}

fn push(sink: &mut dyn Sink, heaps: Vec<Arc<HeapProduct>>) {
    sink.push(&Arc::new(Products { heaps, ..Products::default() })).unwrap();
}

#[test]
fn it_passes_the_suite_that_every_output_must_pass() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let writer = NpyWriter::create(&path).unwrap();
    let mut sink = HeapSink::new("npy", writer, LIMITS);
    let fill = |products: &mut Products, n: u64| {
        products.heaps.push(heap(n, vec![item("a", "'<u2'", "2,", vec![1, 0, 2, 0])]));
    };
    let mut kept = || {
        let done = path.join("heaps.npy");
        read(&if done.exists() { done } else { path.join("heaps.npy.part") }).0
    };
    let case = OutputCase { sink: &mut sink, fill: &fill, kept: &mut kept, at_close: false };
    output(case).unwrap();
    let (rows, bytes) = read(&path.join("a.npy"));
    assert!(rows > 40 && bytes.len() as u64 == 4 * rows);
    assert_eq!(read(&path.join("a.heap.npy")).0, rows);
}

#[test]
fn another_type_under_the_same_name_is_another_array_and_names_stay_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let mut sink = HeapSink::new("npy", NpyWriter::create(&path).unwrap(), LIMITS);
    let names = ["a", "../../etc/passwd", "heaps", "missing", ".hidden", "a/b\0", ""];
    for (n, name) in names.iter().enumerate() {
        push(&mut sink, vec![heap(n as u64, vec![item(name, "'|u1'", "1,", vec![7])])]);
    }
    push(&mut sink, vec![heap(9, vec![item("a", "'<u4'", "", vec![1, 0, 0, 0])])]);
    // Beyond the limit of arrays.
    push(&mut sink, vec![heap(10, vec![item("late", "'|u1'", "1,", vec![7])])]);
    let report = sink.finish().unwrap();
    assert_eq!(report.rows, [("heaps", 9), ("values", 8)]);
    let mut files: Vec<String> = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".heap.npy"))
        .collect();
    files.sort();
    let want = [
        "_.._.._etc_passwd.npy",
        "_.hidden.npy",
        "_.npy",
        "a.1.npy",
        "a.npy",
        "a_b_.npy",
        "heaps.1.npy",
        "heaps.npy",
        "missing.1.npy",
        "missing.npy",
    ];
    assert_eq!(files, want);
    assert_eq!(read(&path.join("a.1.npy")), (1, vec![1, 0, 0, 0]));
}

#[test]
fn what_is_missing_of_a_heap_stands_in_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let mut sink = HeapSink::new("npy", NpyWriter::create(&path).unwrap(), LIMITS);
    let some = HeapProduct {
        number: 5,
        length: Some(100),
        received: 80,
        missing: vec![10..20, 90..100],
        ..HeapProduct::default()
    };
    push(&mut sink, vec![heap(4, vec![]), Arc::new(some)]);
    sink.finish().unwrap();
    let (rows, bytes) = read(&path.join("missing.npy"));
    let numbers: Vec<u64> =
        bytes.chunks(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!((rows, &numbers[..]), (2, &[1, 10, 20, 1, 90, 100][..]));
    let (rows, bytes) = read(&path.join("heaps.npy"));
    assert_eq!((rows, bytes.len()), (2, 82));
    assert_eq!((bytes[40], bytes[81]), (1, 0), "the second one is not complete");
    assert_eq!(sink.sheet().get(5), 1);
}

#[test]
fn bytes_are_bounded_and_folders_that_are_used_or_links_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let limits = HeapLimits { arrays: 8, bytes: Some(100) };
    let mut sink = HeapSink::new("npy", NpyWriter::create(&path).unwrap(), limits);
    for n in 0..10 {
        push(&mut sink, vec![heap(n, vec![item("a", "'|u1'", "30,", vec![7; 30])])]);
    }
    assert_eq!(sink.finish().unwrap().rows[0], ("heaps", 2));
    assert_eq!(sink.sheet().get(4), 8, "those beyond are counted");
    let refused = |path: &Path| NpyWriter::create(path).err().unwrap();
    assert!(refused(&path).contains("not empty"));
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&empty, &link).unwrap();
    assert!(refused(&link).contains("a link is there"));
    assert!(refused(&folder.path().join("no/such")).contains("cannot make the folder"));
    assert!(NpyWriter::create(&empty).is_ok());
}
