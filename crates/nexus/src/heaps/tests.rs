//! Heaps in HDF5: the suite of outputs, types and values as a reader finds them, files that are there.

use std::sync::Arc;

use fullcount_core::conformance::{OutputCase, output};
use fullcount_core::heaps::{HeapProduct, ItemProduct, SharedBytes};
use fullcount_core::products::Products;
use fullcount_core::sink::Sink;
use fullcount_io::heaps::{HeapLimits, HeapSink};

use super::writer::HdfHeaps;
use crate::Compression;
use crate::sys::{self, FileMode};

const LIMITS: HeapLimits = HeapLimits { arrays: 16, bytes: None };

fn item(name: &str, header: &str, bytes: Vec<u8>) -> ItemProduct {
    ItemProduct {
        id: 0x1000,
        name: name.into(),
        description: "an array".into(),
        header: header.into(),
        bytes: SharedBytes::of(bytes),
    }
}

fn dict(descr: &str, fortran: &str, shape: &str) -> String {
    format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': ({shape})}}")
}

#[test]
fn it_passes_the_suite_that_every_output_must_pass() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.h5");
    let file = HdfHeaps::create(&path, false, Compression::None, &[]).unwrap();
    let mut sink = HeapSink::new("heaps", file, LIMITS);
    let fill = |products: &mut Products, n: u64| {
        let items = vec![item("a", &dict("'<u2'", "False", "2,"), vec![1, 0, 2, 0])];
        let heap = HeapProduct { number: n, complete: true, items, ..HeapProduct::default() };
        products.heaps.push(Arc::new(heap));
    };
    // The library holds the file open here: what a reader finds is looked at once it is closed.
    let mut kept = || match sys::open(&path, FileMode::Read) {
        Ok(file) => file.dataset("heaps/number").unwrap().size() as u64,
        Err(_) => u64::MAX,
    };
    let case = OutputCase { sink: &mut sink, fill: &fill, kept: &mut kept, at_close: false };
    output(case).unwrap();
}

#[test]
fn arrays_of_every_type_are_read_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.h5");
    let facts = [("detector", "heap".to_owned())];
    for (replace, compression) in [(false, Compression::None), (true, Compression::Gzip(4))] {
        let file = HdfHeaps::create(&path, replace, compression, &facts).unwrap();
        let mut sink = HeapSink::new("heaps", file, LIMITS);
        let record = "[('t', '>u8'), ('iq', [('re', '<f4'), ('im', '<f4')]), ('v', '>i2', (2, 2))]";
        let one = [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 128, 63, 0, 0, 0, 64, 0, 1, 0, 2, 0, 3, 0, 4];
        let items = vec![
            item("big", &dict("'>u2'", "True", "2, 3"), (1..=6).flat_map(|n| [0, n]).collect()),
            item("record", &dict(record, "False", "1,"), one.to_vec()),
            item("complex", &dict("'<c8'", "False", ""), vec![0, 0, 128, 63, 0, 0, 0, 64]),
            item("text", &dict("'|S3'", "False", "2,"), b"abcde\0".to_vec()),
            item("flag", &dict("'|b1'", "False", "2,"), vec![1, 0]),
            item("raw", &dict("'|V2'", "False", "1,"), vec![7, 8]),
            item("wide", &dict("'<U2'", "False", ""), vec![97, 0, 0, 0, 98, 0, 0, 0]),
            item("empty", &dict("'<f8'", "False", "0,"), vec![]),
        ];
        let missing: Vec<std::ops::Range<u64>> = std::iter::once(3..5).collect();
        let heap = HeapProduct {
            number: 7,
            length: Some(9),
            received: 7,
            missing,
            items,
            ..HeapProduct::default()
        };
        let heap = Arc::new(heap);
        let products = Products { heaps: vec![heap.clone(), heap], ..Products::default() };
        sink.push(&Arc::new(products)).unwrap();
        let report = sink.finish().unwrap();
        assert_eq!((report.events, &report.rows[..]), (2, &[("heaps", 2), ("values", 16)][..]));
        let file = sys::open(&path, FileMode::Read).unwrap();
        let big = file.dataset("items/big/values").unwrap();
        assert_eq!(big.shape(), [2, 2, 3]);
        assert_eq!(big.read_raw::<u16>().unwrap(), [1, 3, 5, 2, 4, 6, 1, 3, 5, 2, 4, 6]);
        assert_eq!(file.dataset("items/empty/values").unwrap().shape()[0], 2);
        let rows = file.dataset("items/record/heap").unwrap().read_raw::<i64>().unwrap();
        assert_eq!(rows, [0, 1]);
        assert_eq!(file.dataset("missing/start").unwrap().read_raw::<i64>().unwrap(), [3, 3]);
        assert_eq!(file.dataset("heaps/missing").unwrap().read_raw::<i64>().unwrap(), [2, 2]);
    }
    let there = HdfHeaps::create(&path, false, Compression::None, &facts).unwrap_err();
    assert!(there.contains("the file exists"), "{there}");
    let folder =
        HdfHeaps::create(&folder.path().join("no/run.h5"), false, Compression::None, &facts);
    assert!(folder.unwrap_err().contains("does not exist"));
}
